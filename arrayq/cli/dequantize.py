"""``arrayq dequantize``."""

from __future__ import annotations

import click

from arrayq.checkpoint import dequantize_file
from arrayq.checkpoint.narrow import OUTPUT_DTYPES
from arrayq.cli import console
from arrayq.cli.console import kept_text
from arrayq.cli.options import file_argument, json_option, output_option, threads_option
from arrayq.report.table import Table

__all__ = ["dequantize"]


@click.command()
@file_argument
@output_option
@click.option(
    "--dtype",
    type=click.Choice(tuple(OUTPUT_DTYPES)),
    default="f32",
    show_default=True,
    help="Type of the decoded tensors. f32 is exact, the others round to nearest even.",
)
@threads_option
@json_option
def dequantize(file: str, output: str, dtype: str, threads: int | None, as_json: bool) -> None:
    """Decode the tensors that arrayq quantized in FILE and write them to OUT.

    Every tensor comes back under its name and in its shape; the others are copied as they are.
    """
    with console.progress_bar("dequantizing") as on_progress:
        outcome = dequantize_file(file, output, dtype, threads=threads, on_progress=on_progress)
    if as_json:
        console.print_json(outcome.to_dict() | {"dtype": dtype})
    else:
        rows = (
            ("dtype", dtype),
            ("tensors dequantized", f"{len(outcome.converted):,}"),
            ("tensors kept", kept_text(outcome.kept_by_reason)),
            ("bytes before", f"{outcome.bytes_before:,}"),
            ("bytes after", f"{outcome.bytes_after:,}"),
        )
        headings = ("dequantized", console.printable(output))
        console.print_table(Table(headings, rows, text_columns=2))
    if outcome.overflowed:
        console.warn(f"{outcome.overflowed:,} values are too large for {dtype} and became infinite")
