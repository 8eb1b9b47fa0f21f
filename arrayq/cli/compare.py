"""``arrayq compare``."""

from __future__ import annotations

from typing import Any

import click

from arrayq.checkpoint import TensorComparison, compare_file
from arrayq.checkpoint.outcome import count_reasons
from arrayq.cli import console
from arrayq.cli.console import kept_text
from arrayq.cli.options import (
    checked_scheme,
    file_argument,
    json_option,
    selection_of,
    selection_options,
    threads_option,
)
from arrayq.presets import scheme as parse_scheme
from arrayq.report.metrics import Metrics, json_number
from arrayq.report.table import Table, decibels, figures_of

__all__ = ["compare"]


def _checked_schemes(
    context: click.Context, option: click.Parameter, spellings: str
) -> tuple[str, ...]:
    """Return the schemes between the commas as arrayq spells them, each checked and each once."""
    checked = (checked_scheme(context, option, each) for each in spellings.split(","))
    return tuple(dict.fromkeys(str(parse_scheme(each)) for each in checked))


@click.command()
@file_argument
@click.option(
    "--schemes",
    required=True,
    callback=_checked_schemes,
    metavar="S,S,...",
    help="Schemes to compare, separated by commas: int8/row,int4/32,nf4/64,mxfp4,nvfp4.",
)
@selection_options
@threads_option
@json_option
def compare(
    file: str,
    schemes: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    one_dimensional: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Quantize the tensors of FILE under several schemes and report size and error.

    Nothing is written. Which tensors are judged is decided as by arrayq quantize.
    """
    with console.progress_bar("comparing") as on_progress:
        compared = list(
            compare_file(
                file,
                schemes,
                selection=selection_of(include, exclude, one_dimensional),
                threads=threads,
                on_progress=on_progress,
            )
        )
    judged = [tensor for tensor in compared if tensor.kept is None]
    kept = count_reasons(tensor.kept for tensor in compared)
    totals = [
        sum((tensor.metrics[which] for tensor in judged), Metrics())
        for which in range(len(schemes))
    ]
    if as_json:
        console.print_json(
            {
                "file": file,
                "schemes": list(schemes),
                "tensors_quantized": len(judged),
                "tensors_kept": len(compared) - len(judged),
                "tensors": [_record(tensor, schemes) for tensor in compared],
                "total": _by_scheme(totals, schemes),
                "extremes": _extremes(judged, schemes),
            }
        )
        return
    if judged:
        console.print_table(_figures_table(judged, totals, schemes))
        click.echo()
        console.print_table(_extremes_table(judged, schemes))
        click.echo()
    click.echo(f"tensors quantized: {len(judged):,}; kept: {kept_text(kept)}")


def _figures_table(
    judged: list[TensorComparison], totals: list[Metrics], schemes: tuple[str, ...]
) -> Table:
    groups = [(console.printable(tensor.entry.name), tensor.metrics) for tensor in judged]
    groups.append(("total", tuple(totals)))
    figures = figures_of([metrics for _, group in groups for metrics in group])
    rows = tuple(
        (name, scheme, *(figure.write(getattr(metrics, figure.attribute)) for figure in figures))
        for name, group in groups
        for scheme, metrics in zip(schemes, group, strict=True)
    )
    headings = ("tensor", "scheme", *(figure.title for figure in figures))
    same = ("elements", "source_bytes")
    per_name = tuple(2 + which for which, f in enumerate(figures) if f.attribute in same)
    return Table(headings, rows, text_columns=2, names=0, per_name=per_name)


def _extreme_tensors(judged: list[TensorComparison], which: int) -> dict[str, TensorComparison]:
    """Return the tensors of the best SQNR and of the worst; of equal ones the first, the last."""
    ranked = sorted(judged, key=lambda tensor: -tensor.metrics[which].sqnr_db)
    return {"best": ranked[0], "worst": ranked[-1]}


def _extremes_table(judged: list[TensorComparison], schemes: tuple[str, ...]) -> Table:
    rows = tuple(
        (
            scheme,
            rank,
            console.printable(tensor.entry.name),
            decibels(tensor.metrics[which].sqnr_db),
        )
        for which, scheme in enumerate(schemes)
        for rank, tensor in _extreme_tensors(judged, which).items()
    )
    return Table(("scheme", "rank", "tensor", "SQNR dB"), rows, text_columns=3, names=2)


def _extremes(judged: list[TensorComparison], schemes: tuple[str, ...]) -> list[dict[str, Any]]:
    if not judged:
        return []
    return [
        {"scheme": scheme}
        | {
            rank: {
                "name": tensor.entry.name,
                "sqnr_db": json_number(tensor.metrics[which].sqnr_db),
            }
            for rank, tensor in _extreme_tensors(judged, which).items()
        }
        for which, scheme in enumerate(schemes)
    ]


def _by_scheme(
    metrics: list[Metrics] | tuple[Metrics, ...], schemes: tuple[str, ...]
) -> list[dict[str, Any]]:
    return [
        {"scheme": scheme} | each.to_dict() for scheme, each in zip(schemes, metrics, strict=True)
    ]


def _record(tensor: TensorComparison, schemes: tuple[str, ...]) -> dict[str, Any]:
    entry = tensor.entry
    record: dict[str, Any] = {
        "name": entry.name,
        "shape": list(entry.shape),
        "dtype": entry.dtype.name,
        "bytes": entry.nbytes,
    }
    if tensor.kept is not None:
        return record | {"kept": tensor.kept}
    return record | {"schemes": _by_scheme(tensor.metrics, schemes)}
