"""``arrayq doctor``."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

import click

import arrayq
from arrayq._kernels import available_levels, kernels
from arrayq._paths.threads import resolve_threads
from arrayq.cli import console
from arrayq.cli.options import json_option
from arrayq.report.table import Table

__all__ = ["doctor"]

_PACKAGES = ("numpy", "array-api-compat", "click", "rich", "ml_dtypes", "safetensors")


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Print versions, the instruction set in use, and threads: what a report of a fault needs."""
    facts = {
        "arrayq": arrayq.__version__,
        "installed in": str(Path(arrayq.__file__).parent),
        "python": f"{platform.python_version()} ({sys.implementation.name})",
        "platform": platform.platform(),
        "instruction set": kernels.level,
        "instruction sets available": ", ".join(available_levels()),
        "ARRAYQ_ISA": os.environ.get("ARRAYQ_ISA", "not set"),
        "processors": str(os.cpu_count()),
        "threads by default": _default_threads(),
        "ARRAYQ_NUM_THREADS": os.environ.get("ARRAYQ_NUM_THREADS", "not set"),
        **{name: _version(name) for name in _PACKAGES},
    }
    if as_json:
        console.print_json(facts)
        return
    console.print_table(Table(("fact", "value"), tuple(facts.items()), text_columns=2))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _default_threads() -> str:
    try:
        return str(resolve_threads(None))
    except ValueError as error:
        return str(error)
