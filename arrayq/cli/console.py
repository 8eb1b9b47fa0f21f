"""What the commands print: tables and JSON on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from arrayq.checkpoint.progress import Progress as OnProgress
from arrayq.report.fitting import fitted
from arrayq.report.table import Table, printable

__all__ = ["kept_text", "print_json", "print_table", "printable", "progress_bar", "warn"]

_ENDLESS = 1 << 20
"""A width that no terminal has."""


def print_table(table: Table) -> None:
    """Print a table: drawn on a terminal wide enough, in plain columns otherwise."""
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        click.echo(str(table))
        return
    drawn = _draw(table)
    # A table is measured within the width of the terminal unless told otherwise.
    endless = console.options.update(width=_ENDLESS)
    if console.measure(drawn, options=endless).maximum <= console.width:
        console.print(drawn)
    else:
        click.echo(fitted(table, console.width))


def kept_text(reasons: dict[str, int]) -> str:
    """Return how many tensors are kept, and why."""
    described = ", ".join(f"{reason}: {count:,}" for reason, count in reasons.items())
    return f"{sum(reasons.values()):,}" + (f" ({described})" if described else "")


def print_json(document: Any) -> None:
    """Print a document as JSON."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def warn(message: str) -> None:
    """Print a warning to stderr."""
    click.echo(f"arrayq: warning: {printable(message)}", err=True)


@contextmanager
def progress_bar(action: str) -> Iterator[OnProgress]:
    """Show a bar while the block runs, on a terminal only; yields what moves it."""
    console = Console(file=sys.stderr)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[tensor]}", markup=False),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(action, total=None, tensor="")

        def advance(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, tensor=printable(name))

        yield advance


def _draw(table: Table) -> RichTable:
    drawn = RichTable()
    for column, heading in enumerate(table.headings):
        text = column < table.text_columns
        drawn.add_column(heading, justify="left" if text else "right", no_wrap=True)
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn
