"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from arrayq.checkpoint import Selection
from arrayq.errors import SchemeError
from arrayq.presets import scheme as parse_scheme

__all__ = [
    "checked_scheme",
    "file_argument",
    "json_option",
    "output_option",
    "selection_of",
    "selection_options",
    "threads_option",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def checked_scheme(context: click.Context, option: click.Parameter, spelling: str) -> str:
    """Return the spelling of a scheme as it was typed, or say what is wrong with it."""
    try:
        parse_scheme(spelling)
    except SchemeError as error:
        raise click.BadParameter(str(error), context, option) from error
    return spelling


file_argument = click.argument("file", metavar="FILE")

output_option = click.option(
    "-o",
    "--output",
    required=True,
    metavar="OUT",
    help="File to write. One that exists is replaced, in one step, when the new one is complete.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads the kernels may use. Default: ARRAYQ_NUM_THREADS, else 1.",
)


def selection_options(command: _Command) -> _Command:
    """Add the options by which tensors are chosen."""
    for option in (
        click.option(
            "--one-dimensional",
            is_flag=True,
            help="Quantize tensors of one axis (biases, gains) too; by default they are kept.",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="GLOB",
            help="Keep tensors whose name matches; wins over --include. May be repeated.",
        ),
        click.option(
            "--include",
            multiple=True,
            metavar="GLOB",
            help="Quantize only tensors whose name matches. May be repeated.",
        ),
    ):
        command = option(command)
    return command


def selection_of(
    include: tuple[str, ...], exclude: tuple[str, ...], one_dimensional: bool
) -> Selection:
    """Return the choice that these options make."""
    return Selection(include, exclude, one_dimensional)
