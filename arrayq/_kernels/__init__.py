"""The compiled kernels, one build per instruction set, chosen at import.

::

    lines.pxd       the walk over an array: boxes, lines, tiles of float32
    ranges.pxd      largest or mean magnitude of each block
    scales.pxd      range -> stored scale -> float32 multiplier
    encode.pxd      elements -> codes          decode.pxd   codes -> elements
    pack.pxd        codes <-> words            tables.h     sixteen-entry table look-ups
    boxes.pxd       what is done with one box    buffers.pxd  memory of Python objects
    quantize.pyx    measure, scale, encode, pack: box by box, while it is in cache
    dequantize.pyx  unpack, decode, multiply: tile by tile
    elements.pyx    codes without scales, words without arrays
    moves.pyx       words shifted along their lines, reversed, and transposed

The loops stand in ``.pxd`` files as inline functions, so that the modules share them and
the C compiler sees them whole. The environment variable ``ARRAYQ_ISA`` (``v2``, ``v3``, ``v4``)
asks for a lower level than the processor has; the bits are the same on every level.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from arrayq.errors import ArgumentError

try:
    from arrayq._kernels.cpu import level as _processor_level  # type: ignore[import-not-found]
except ImportError as error:
    raise ImportError(
        "arrayq requires its compiled kernels, and this copy of the package has none: it is the "
        "source tree, or the build is broken. Install it with `pip install .` in the source tree "
        "and start Python from another folder, or use an editable install (see CONTRIBUTING.md)."
    ) from error

LEVELS = ("v2", "v3", "v4")


@dataclass(frozen=True)
class Kernels:
    """The kernel modules of one instruction set."""

    level: str
    quantize: Any
    dequantize: Any
    elements: Any
    moves: Any


@cache
def load(level: str) -> Kernels:
    """Load the kernels of one level."""
    modules: list[ModuleType] = [
        importlib.import_module(f"arrayq._kernels.{name}_{level}")
        for name in ("quantize", "dequantize", "elements", "moves")
    ]
    return Kernels(level, *modules)


def available_levels() -> tuple[str, ...]:
    """Levels that are compiled in and that this processor runs, lowest first."""
    processor = _processor_level()
    if processor < 2:
        return ("plain",)
    return LEVELS[: processor - 1]


def chosen_level() -> str:
    """Level to use: the highest available, or what ``ARRAYQ_ISA`` asks for."""
    levels = available_levels()
    asked = os.environ.get("ARRAYQ_ISA")
    if asked is None:
        return levels[-1]
    if asked not in levels:
        raise ArgumentError(f"ARRAYQ_ISA requires one of {', '.join(levels)} here, got {asked!r}")
    return asked


class _Chosen:
    """The kernels of the chosen level, loaded at import.

    Only where ``ARRAYQ_ISA`` asks for a level that does not exist are they not: that is then the
    error of the first call, which a program can catch and report, and not a package that cannot
    be imported.
    """

    def __getattr__(self, name: str) -> Any:
        chosen = load(chosen_level())
        vars(self).update(vars(chosen))
        return getattr(chosen, name)


if TYPE_CHECKING:
    kernels: Kernels
else:
    kernels = _Chosen()
    with contextlib.suppress(ArgumentError):
        kernels.level  # noqa: B018 - loads them
