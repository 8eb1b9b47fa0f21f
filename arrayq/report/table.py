"""Tables of figures, as text that lines up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from arrayq.report.metrics import Metrics

__all__ = ["FIGURES", "Figure", "Table", "decibels", "figures_of", "printable"]


def _count(value: int) -> str:
    return f"{value:,}"


def decibels(value: float, unit: str = "") -> str:
    """Return an SQNR as text; where there is no noise, that is no number and has no unit."""
    return "exact" if value == math.inf else f"{value:.2f}{unit}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a set of metrics: its attribute, its heading, and how it is written."""

    attribute: str
    title: str
    write: Callable[[Any], str]
    only_if_any: bool = False
    """Left out where it is 0 throughout."""


FIGURES = (
    Figure("elements", "elements", _count),
    Figure("source_bytes", "bytes before", _count),
    Figure("stored_bytes", "bytes after", _count),
    Figure("bits_per_element", "bits/element", lambda value: f"{value:.3f}"),
    Figure("sqnr_db", "SQNR dB", decibels),
    Figure("max_abs_error", "largest error", lambda value: f"{value:.4g}"),
    Figure("saturated", "saturated", _count),
    Figure("zero_blocks", "zero blocks", _count),
    Figure("overflowed", "overflowed", _count, only_if_any=True),
)


def figures_of(metrics: Sequence[Metrics]) -> tuple[Figure, ...]:
    """Return the figures worth a column for these metrics."""
    return tuple(
        figure
        for figure in FIGURES
        if not figure.only_if_any or any(getattr(each, figure.attribute) for each in metrics)
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings; ``str`` lays it out in plain characters."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    """How many columns, from the left, hold text; the rest are figures."""
    names: int | None = None
    """Which column holds names of tensors; it gives way first where room is short."""
    per_name: tuple[int, ...] = ()
    """Columns that say the same in all consecutive rows of one name."""

    def __str__(self) -> str:
        return "\n".join(self.lines((self.headings,)))

    def lines(self, headings: Sequence[tuple[str, ...]]) -> list[str]:
        """Return the lines of the table under these lines of headings."""
        columns = zip(*headings, *self.rows, strict=True)
        widths = [max(map(len, column)) for column in columns]
        rule = tuple("-" * width for width in widths)
        return [self._line(row, widths) for row in (*headings, rule, *self.rows)]

    def take(self, columns: Sequence[int]) -> Table:
        """Return the table of some of the columns, in the order given."""
        headings, *rows = (tuple(row[c] for c in columns) for row in (self.headings, *self.rows))
        return Table(headings, tuple(rows), sum(c < self.text_columns for c in columns))

    def _line(self, row: tuple[str, ...], widths: list[int]) -> str:
        cells = (
            cell.ljust(width) if column < self.text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()


def printable(name: str) -> str:
    """Return a tensor's name with everything a terminal might obey written as an escape."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in name
    )
