"""``arrayq capabilities``."""

from __future__ import annotations

import click

from arrayq.capability import OPERATIONS
from arrayq.capability_table import CapabilityRow, facts, refusals
from arrayq.capability_table import capabilities as rows_of
from arrayq.cli import console
from arrayq.cli.options import json_option
from arrayq.report.table import Table

__all__ = ["capabilities"]

_REFUSED = ("refused", "requires", "instead")
_HEADINGS = ("operation", "value", "scale", "store", "mode", "works", "reason")


@click.command()
@click.argument("namespace", default="numpy")
@click.option("--operation", type=click.Choice(OPERATIONS), help="Only this operation.")
@click.option("--path", help="What works on this path of the library; by default its first.")
@click.option("--refused", is_flag=True, help="Only what does not work, with the reason.")
@json_option
def capabilities(
    namespace: str, operation: str | None, path: str | None, refused: bool, as_json: bool
) -> None:
    """Print what works on an array library, and why the rest does not.

    First the facts of the library: the paths that its arrays take, when it computes, its dtypes,
    and what it refuses on any path. Then one row for each operation, value, scale dtype, store
    and mode. Combinations that no scheme can have are among them, with the rule that they break.
    The library need not be installed.
    """
    about = facts(namespace)
    refused_here = tuple(
        (refusal.concerns or "everything", refusal.requires, refusal.instead)
        for refusal in refusals(namespace)
    )
    rows = [
        row
        for row in rows_of(namespace, path)
        if operation in (None, row.operation) and not (refused and row.ok)
    ]
    if as_json:
        document = {
            "namespace": namespace,
            "facts": about,
            "refusals": [dict(zip(_REFUSED, refusal, strict=True)) for refusal in refused_here],
            "rows": [row._asdict() for row in rows],
        }
        console.print_json(document)
        return
    console.print_table(Table(("fact", "value"), tuple(about.items()), text_columns=2))
    click.echo()
    if refused_here:
        console.print_table(Table(_REFUSED, refused_here, text_columns=len(_REFUSED)))
        click.echo()
    cells = tuple(_cells(row) for row in rows)
    console.print_table(Table(_HEADINGS, cells, text_columns=len(_HEADINGS)))


def _cells(row: CapabilityRow) -> tuple[str, ...]:
    parts = (row.operation, row.value, row.scale, row.store, row.mode)
    return (*(part or "any" for part in parts), "yes" if row.ok else "no", row.reason)
