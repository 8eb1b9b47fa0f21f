"""Tables of tensors in the room there is, without cutting or wrapping a figure.

The layouts, from the one that takes most room to the one that takes least:

1. one line per row;
2. the same, each heading on as many lines as it has words;
3. the same, names shortened in the middle, where enough of each is left to tell them apart;
4. each name on a line of its own, with what is the same for all its rows; the rows below;
5. the same, the columns one part below the other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from arrayq.report.table import Table

__all__ = ["fitted"]

_LEAST_NAME = 32
"""Characters that a shortened name in a column keeps at least."""

_INDENT = "  "


def fitted(table: Table, width: int) -> str:
    """Return a table as text whose lines have at most `width` characters, if that is possible.

    Only a table with a column of names has other layouts than the first one.
    """
    if table.names is None:
        return str(table)
    text = ""
    for layout in (_plain, _stacked, _shortened, _outlined, _in_parts):
        text = layout(table, width)
        if _width(text) <= width:
            break
    return text


def _plain(table: Table, _width: int) -> str:
    return str(table)


def _stacked(table: Table, _width: int) -> str:
    return "\n".join(table.lines(_stack(table.headings)))


def _shortened(table: Table, width: int) -> str:
    column, text = table.names, _stacked(table, width)
    assert column is not None
    names = {row[column] for row in table.rows}
    room = max(map(len, names)) - (_width(text) - width)
    short = {name: _shorten(name, max(room, _LEAST_NAME)) for name in names}
    if len(set(short.values())) < len(names):
        return text
    rows = tuple((*row[:column], short[row[column]], *row[column + 1 :]) for row in table.rows)
    return _stacked(replace(table, rows=rows), width)


def _outlined(table: Table, width: int) -> str:
    head, rows = _parted(table, _columns_of_rows(table))
    lines = head
    for title, members in _groups(table, width):
        lines = [*lines, *title, *rows[members]]
    return "\n".join(lines)


def _in_parts(table: Table, width: int) -> str:
    parts = [_parted(table, columns) for columns in _parts(table, width)]
    blocks = (
        [*title, *itertools.chain.from_iterable((*head, *rows[members]) for head, rows in parts)]
        for title, members in _groups(table, width)
    )
    return "\n\n".join("\n".join(block) for block in blocks)


def _parts(table: Table, width: int) -> list[list[int]]:
    """Return the columns of each part: as many as there is room for, after the first of all."""
    label, *others = _columns_of_rows(table)
    parts = [[label]]
    for column in others:
        head, _ = _parted(table, [*parts[-1], column])
        if max(map(len, head)) > width and len(parts[-1]) > 1:
            parts.append([label])
        parts[-1].append(column)
    return parts


def _columns_of_rows(table: Table) -> list[int]:
    """Return the columns that stand in the lines below a name."""
    told = (table.names, *table.per_name)
    return [column for column in range(len(table.headings)) if column not in told]


def _parted(table: Table, columns: list[int]) -> tuple[list[str], list[str]]:
    """Return the lines of some columns, indented: those of the headings, those of the rows."""
    taken = table.take(columns)
    lines = [_INDENT + line for line in taken.lines(_stack(taken.headings))]
    return lines[: -len(table.rows)], lines[-len(table.rows) :]


def _groups(table: Table, width: int) -> Iterator[tuple[list[str], slice]]:
    """Yield the lines that tell a name, and which rows are its own."""
    column, start = table.names, 0
    assert column is not None
    told = (column, *table.per_name)
    for (name, *cells), rows in itertools.groupby(
        table.rows, key=lambda row: tuple(row[each] for each in told)
    ):
        stop = start + len(list(rows))
        headings = (table.headings[each] for each in table.per_name)
        facts = ", ".join(map(" ".join, zip(headings, cells, strict=True)))
        title = f"{name}: {facts}" if facts else name
        lines = [title] if len(title) <= width else [_shorten(name, width), _INDENT + facts]
        yield [line for line in lines if line.strip()], slice(start, stop)
        start = stop


def _stack(headings: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return headings as lines, one word on each, the last words on the last line."""
    words = [re.findall(r"[^ /]+/?", heading) for heading in headings]
    height = max(map(len, words))
    return list(zip(*([""] * (height - len(each)) + each for each in words), strict=True))


def _shorten(name: str, room: int) -> str:
    """Return a name with its middle left out where it is longer than `room`."""
    if len(name) <= room:
        return name
    tail = (room - 3) // 2
    return f"{name[: room - 3 - tail]}...{name[len(name) - tail :]}"


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))
