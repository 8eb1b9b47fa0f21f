"""``arrayq capabilities``."""

from __future__ import annotations

import click

from arrayq.capability import OPERATIONS
from arrayq.capability_table import CapabilityRow
from arrayq.capability_table import capabilities as rows_of
from arrayq.cli import console
from arrayq.cli.options import json_option
from arrayq.report.table import Table

__all__ = ["capabilities"]

_HEADINGS = ("operation", "value", "scale", "store", "mode", "works", "reason")


@click.command()
@click.argument("namespace", default="numpy")
@click.option("--operation", type=click.Choice(OPERATIONS), help="Only this operation.")
@click.option("--refused", is_flag=True, help="Only what does not work, with the reason.")
@json_option
def capabilities(namespace: str, operation: str | None, refused: bool, as_json: bool) -> None:
    """Print what works on an array library, and why the rest does not.

    One row for each operation, value, scale dtype, store and mode. Combinations that no scheme
    can have are among them, with the rule that they break.
    """
    rows = [
        row
        for row in rows_of(namespace)
        if operation in (None, row.operation) and not (refused and row.ok)
    ]
    if as_json:
        console.print_json({"namespace": namespace, "rows": [row._asdict() for row in rows]})
        return
    cells = tuple(_cells(row) for row in rows)
    console.print_table(Table(_HEADINGS, cells, text_columns=len(_HEADINGS)))


def _cells(row: CapabilityRow) -> tuple[str, ...]:
    parts = (row.operation, row.value, row.scale, row.store, row.mode)
    return (*(part or "any" for part in parts), "yes" if row.ok else "no", row.reason)
