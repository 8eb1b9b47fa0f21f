"""``arrayq quantize``."""

from __future__ import annotations

import click

from arrayq.checkpoint import FileOutcome, quantize_file
from arrayq.cli import console
from arrayq.cli.console import kept_text
from arrayq.cli.options import (
    checked_scheme,
    file_argument,
    json_option,
    output_option,
    selection_of,
    selection_options,
    threads_option,
)
from arrayq.report.table import Table, decibels, figures_of

__all__ = ["quantize"]

_OF_WHOLE_FILE = ("source_bytes", "stored_bytes")
"""Figures for which the closing table tells those of the whole file, kept tensors included."""


@click.command()
@file_argument
@click.option(
    "--scheme",
    required=True,
    callback=checked_scheme,
    metavar="S",
    help="How to encode tensors: nvfp4, mxfp4, int8/row, int4/32, nf4/64, e4m3/tensor ...",
)
@output_option
@selection_options
@threads_option
@json_option
def quantize(
    file: str,
    scheme: str,
    output: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    one_dimensional: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Quantize the tensors of FILE and write them to OUT.

    F64, F32, F16 and BF16 tensors are quantized, those of more than two axes as (first axis,
    everything else); tensors of one axis and of other types are copied as they are.
    """
    with console.progress_bar("quantizing") as on_progress:
        outcome = quantize_file(
            file,
            output,
            scheme,
            selection=selection_of(include, exclude, one_dimensional),
            threads=threads,
            on_progress=on_progress,
        )
    for pattern in outcome.unmatched_patterns:
        console.warn(f"the pattern {pattern!r} matches no tensor")
    if as_json:
        console.print_json(
            outcome.to_dict() | {"scheme": scheme, "total": outcome.metrics.to_dict()}
        )
    else:
        console.print_table(_closing_table(outcome, scheme))


def _closing_table(outcome: FileOutcome, scheme: str) -> Table:
    rows = [
        ("scheme", scheme),
        ("tensors quantized", f"{len(outcome.converted):,}"),
        ("tensors kept", kept_text(outcome.kept_by_reason)),
        ("bytes before", f"{outcome.bytes_before:,}"),
        ("bytes after", f"{outcome.bytes_after:,}"),
    ]
    if outcome.converted:  # else there is no error to speak of
        rows += _error_rows(outcome)
    return Table(("quantized", console.printable(outcome.target)), tuple(rows), text_columns=2)


def _error_rows(outcome: FileOutcome) -> list[tuple[str, str]]:
    total = outcome.metrics
    rows = [
        (figure.title, figure.write(getattr(total, figure.attribute)))
        for figure in figures_of([total])
        if figure.attribute not in _OF_WHOLE_FILE
    ]
    if len(outcome.converted) > 1:
        judged = [(t.metrics.sqnr_db, t.name) for t in outcome.converted if t.metrics is not None]
        sqnr_db, name = min(judged)
        rows.append(("worst tensor", f"{console.printable(name)} ({decibels(sqnr_db, ' dB')})"))
    return rows
