"""Sphinx directives that write the tables of the documentation from the package's own rows.

``format-table``    rows of `arrayq.formats`, by name
``code-table``      what each code of one format of up to four bits means, or of ``nf4``
``spelling-table``  the short spellings of schemes, from `arrayq.presets`
``command-help``    the help text of one command of the command line
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from arrayq import presets
from arrayq.cli.app import program
from arrayq.formats import FORMATS, NF4_CODEBOOK, Format, Kind, format_of

Cell = nodes.Node | str


def table(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> nodes.table:
    """Return a docutils table; a cell is text or an inline node."""
    group = nodes.tgroup(cols=len(header))
    group += [nodes.colspec(colwidth=20) for _ in header]
    head = nodes.thead()
    head += _row(header)
    body = nodes.tbody()
    body += [_row(row) for row in rows]
    group += [head, body]
    return nodes.table("", group, classes=["colwidths-auto"])


def _row(cells: Sequence[Cell]) -> nodes.row:
    row = nodes.row()
    for cell in cells:
        inline = nodes.Text(cell) if isinstance(cell, str) else cell
        row += nodes.entry("", nodes.paragraph("", "", inline))
    return row


def literal(text: str) -> nodes.literal:
    """Return `text` in the code font."""
    return nodes.literal(text, text)


def number(value: float) -> str:
    """Return a short exact spelling: a power of two where the decimal one is long."""
    mantissa, exponent = math.frexp(abs(value))
    if mantissa == 0.5 and not 2**-4 <= abs(value) <= 2**16:
        return f"{'-' if value < 0 else ''}2^{exponent - 1}"
    if value == int(value) and abs(value) < 2**20:
        return str(int(value))
    return f"{value:.9g}"


def code_of(code: int | None, row: Format) -> Cell:
    """Return a code in hexadecimal, or "none"."""
    return "none" if code is None else literal(f"0x{code:0{math.ceil(row.bits / 4)}X}")


class FormatTable(SphinxDirective):
    """A table of the rows of `arrayq.formats` that are named as arguments."""

    required_arguments = 1
    optional_arguments = len(FORMATS)

    def run(self) -> list[nodes.Node]:
        """Return the table, with the columns that mean something for the rows' kinds."""
        rows = [format_of(name) for name in self.arguments]
        kinds = {row.kind for row in rows}
        header = ["name", "bits"]
        if kinds != {Kind.FIELD}:
            header.append("range")
        if Kind.MINIFLOAT in kinds:
            header += ["exponent, mantissa, bias", "smallest normal, smallest", "NaN", "infinity"]
        header += ["definition", "source"]
        return [table(header, [self._cells(row, kinds) for row in rows])]

    def _cells(self, row: Format, kinds: set[Kind]) -> list[Cell]:
        cells: list[Cell] = [literal(row.name), str(row.bits)]
        if kinds != {Kind.FIELD}:
            cells.append(f"{number(row.qmin)} to {number(row.qmax)}")
        if Kind.MINIFLOAT in kinds:
            if row.kind is Kind.MINIFLOAT:
                smallest = f"{number(row.smallest_normal)}, {number(row.smallest_positive)}"
                fields = f"{row.exponent_bits}, {row.mantissa_bits}, {row.bias}"
                special = [code_of(row.nan_code, row), code_of(row.inf_code, row)]
                cells += [fields, smallest, *special]
            else:
                cells += ["", "", "none", "none"]
        return [*cells, row.summary, row.source]


class CodeTable(SphinxDirective):
    """The number that each code of a narrow format means."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table: one row for each code."""
        name = self.arguments[0]
        values = NF4_CODEBOOK if name == "nf4" else format_of(name).values
        spelled = (
            "-0" if value == 0 and math.copysign(1, value) < 0 else repr(value) for value in values
        )
        return [table(["code", "value"], [[str(i), text] for i, text in enumerate(spelled)])]


class SpellingTable(SphinxDirective):
    """The short spellings of schemes."""

    def run(self) -> list[nodes.Node]:
        """Return the table: one row for each spelling that the presets document."""
        rows = [[literal(spelling), meaning] for spelling, meaning in presets.SPELLINGS.items()]
        return [table(["spelling", "scheme"], rows)]


class CommandHelp(SphinxDirective):
    """The help text of one command of the command line, as the terminal shows it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the text as a literal block."""
        name = self.arguments[0]
        command = program.commands[name]
        parent = program.context_class(program, info_name="arrayq", **program.context_settings)
        context = click.Context(command, parent, info_name=name, terminal_width=88)
        help_text = command.get_help(context)
        return [nodes.literal_block(help_text, help_text, language="text")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("format-table", FormatTable)
    app.add_directive("code-table", CodeTable)
    app.add_directive("spelling-table", SpellingTable)
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
