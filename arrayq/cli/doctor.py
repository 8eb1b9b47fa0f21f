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
from arrayq.capability import PROFILES
from arrayq.cli import console
from arrayq.cli.options import json_option
from arrayq.report.table import Table

__all__ = ["doctor"]

_PACKAGES = ("array-api-compat", "click", "rich", "ml_dtypes", "safetensors")
_DISTRIBUTIONS = {
    "array_api_strict": ("array-api-strict",),
    "cupy": ("cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-rocm-7-0"),
}
"""What array libraries are installed as, where that is not the name of their row."""


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Print versions, the instruction set in use, threads, and the array libraries installed.

    It is what a report of a fault needs. Array libraries are looked up and not imported.
    """
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
        **{name: _version(name) or "not installed" for name in _PACKAGES},
        **{name: _library(name) for name in PROFILES if name != "other"},
    }
    if as_json:
        console.print_json(facts)
        return
    console.print_table(Table(("fact", "value"), tuple(facts.items()), text_columns=2))


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _library(name: str) -> str:
    """Return the version of an array library and the paths that its arrays take."""
    versions = (_version(package) for package in _DISTRIBUTIONS.get(name, (name,)))
    version = next(filter(None, versions), None)
    if version is None:
        return "not installed"
    paths = PROFILES[name].paths
    return f"{version}; path {', else '.join(paths)}" if paths else f"{version}; refused"


def _default_threads() -> str:
    try:
        return str(resolve_threads(None))
    except ValueError as error:
        return str(error)
