"""Sphinx directives that write tables of array libraries from the rows of `arrayq.capability`.

``profile-overview``  one line for each library
``profile-table``     the facts of one library
``refusal-table``     what one library refuses, on which path, and what to do instead
``capability-table``  what works on one library: operations, values, scale dtypes, stores, modes
``native-table``      the narrow dtypes that values or scale dtypes have in each library
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from docutils import nodes
from registry_tables import Cell, literal, table
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from arrayq import capability_table, native
from arrayq.capability import PROFILES, Profile
from arrayq.errors import UnsupportedSchemeError
from arrayq.scheme import QuantValue, ScaleDtype


def _literals(names: Sequence[str]) -> nodes.inline:
    """Return names in the code font, one after the other."""
    pieces = [piece for name in names for piece in (nodes.Text(", "), literal(name))]
    return nodes.inline("", "", *pieces[1:])


def _page(name: str) -> addnodes.pending_xref:
    """Return a link to the page of a library, which has to exist."""
    return addnodes.pending_xref(
        "", literal(name), refdomain="std", reftype="doc", refexplicit=True, refwarn=True,
        reftarget=f"/namespaces/{name}",
    )  # fmt: skip


class ProfileOverview(SphinxDirective):
    """One line for each row of the capability table."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        header = ["library", "paths", "computes", "floats", "narrow dtypes"]
        header += ["subnormals", "sign of zero", "words in", "out="]
        return [table(header, map(self._cells, PROFILES.values()))]

    def _cells(self, row: Profile) -> list[Cell]:
        if not row.paths:
            return [_page(row.name), "none: refused", *[""] * 7]
        return [
            _page(row.name),
            ", ".join(row.paths),
            row.laziness.value,
            ", ".join(row.dtypes),
            str(len(row.native_dtypes)) if row.native_dtypes else "none",
            "kept" if row.subnormals else "flushed",
            "kept" if row.signed_zeros else "lost",
            row.word_integer,
            "yes" if row.writes else "no",
        ]


class ProfileTable(SphinxDirective):
    """The facts of one library."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table: one line for each fact."""
        return [table(["fact", "value"], capability_table.facts(self.arguments[0]).items())]


class RefusalTable(SphinxDirective):
    """What one library refuses."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table: one line for each refusal of the row."""
        refusals = capability_table.refusals(self.arguments[0])
        rows = [[each.concerns or "everything", each.requires, each.instead] for each in refusals]
        return [table(["refused", "requires", "instead"], rows)]


class CapabilityTable(SphinxDirective):
    """What works on one library, and why not where it does not."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return one table for each group of operations with the same answers."""
        profile = PROFILES[self.arguments[0]]
        answers: dict[tuple[_Answer, ...], list[str]] = {}
        rows = capability_table.capabilities(profile.name)
        for operation, of_operation in groupby(rows, key=lambda row: row.operation):
            answers.setdefault(_merged(of_operation, profile), []).append(operation)
        written: list[nodes.Node] = []
        for merged, operations in answers.items():
            header = ["value", "mode", "scale dtype", "store", "works"]
            written += [nodes.paragraph("", "", _literals(operations)), table(header, merged)]
        return written


_Answer = tuple[str, str, str, str, str]


def _merged(
    rows: Iterable[capability_table.CapabilityRow], profile: Profile
) -> tuple[_Answer, ...]:
    """Return the answers of one operation, rows that differ in one part only put together."""
    answers = [
        (row.value, row.mode or "", row.scale or "", row.store or "", _answer(row, profile))
        for row in rows
    ]
    # Modes last: which of them a value can have differs, whatever the library.
    for part in (2, 3, 0, 1):
        every = len({answer[part] for answer in answers})
        groups: dict[tuple[str, ...], list[str]] = {}
        for answer in answers:
            groups.setdefault((*answer[:part], *answer[part + 1 :]), []).append(answer[part])
        answers = [
            (*rest[:part], _listed(names, every), *rest[part:])  # type: ignore[misc]
            for rest, names in groups.items()
        ]
    return tuple(answers)


def _answer(row: capability_table.CapabilityRow, profile: Profile) -> str:
    """Return "yes", or what is required, without the names that the table's other cells give."""
    if row.ok:
        return "yes"
    for refusal in profile.refusals:
        if row.reason.endswith(f" requires {refusal.requires}; {refusal.instead}"):
            return f"no: requires {refusal.requires}"
    required = row.reason.partition(", got ")[0].removeprefix(f"{row.operation} on ")
    return "no: " + re.sub(rf"\b(value )?{row.value}\b", "the value", required)


def _listed(names: Sequence[str], every: int) -> str:
    return "every" if len(names) == every > 1 else ", ".join(names)


class NativeTable(SphinxDirective):
    """The narrow dtypes that ``values`` or ``scales`` have in each library."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table: a line for each format, a column for each library that has some."""
        if self.arguments[0] == "values":
            formats = [(str(value), value, native.code_dtype) for value in QuantValue]
        else:
            formats = [(str(dtype), dtype, native.scale_dtype) for dtype in ScaleDtype]
        libraries = [row for row in PROFILES.values() if row.native_dtypes]
        libraries.append(PROFILES["other"])
        rows: dict[tuple[str, ...], list[str]] = {}
        for name, format_, dtype_of in formats:
            cells = tuple(_dtype(dtype_of, format_, row) for row in libraries)
            rows.setdefault(cells, []).append(name)
        header = [self.arguments[0], *(row.name for row in libraries)]
        header[-1] = "every other"
        return [
            table(header, [[_literals(names), *map(_code, cells)] for cells, names in rows.items()])
        ]


def _dtype(dtype_of: Callable[..., str], format_: QuantValue | ScaleDtype, row: Profile) -> str:
    try:
        return dtype_of(format_, row)
    except UnsupportedSchemeError:
        return ""


def _code(name: str) -> Cell:
    return literal(name) if name else "none"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("profile-overview", ProfileOverview)
    app.add_directive("profile-table", ProfileTable)
    app.add_directive("refusal-table", RefusalTable)
    app.add_directive("capability-table", CapabilityTable)
    app.add_directive("native-table", NativeTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
