"""Memory in the CPU for the stored parts of a plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from arrayq._paths.parts import Stored
from arrayq.layout import Plan

__all__ = ["allocate", "empty_host", "new_parts"]

Array = npt.NDArray[Any]
New = Callable[[], Array]
"""Makes uninitialised memory."""

# What other libraries want of memory that they are to take without a copy.
_ALIGNMENT = 64


@lru_cache(maxsize=1024)
def new_parts(plan: Plan, aligned: bool) -> tuple[New, New, New | None, New | None]:
    """Return what makes data, scales, zero points and tensor scale; None for what a plan lacks."""
    scheme, zero = plan.scheme, plan.scheme.zero
    empty = empty_host if aligned else np.empty
    return (
        partial(empty, plan.data_shape, np.dtype(plan.data_dtype)),
        partial(empty, plan.grid, np.dtype(scheme.scale_dtype.stored_dtype)),
        None if zero is None else partial(empty, plan.grid, np.dtype(zero.dtype.stored_dtype)),
        partial(empty, (), np.dtype(np.float32)) if scheme.two_level else None,
    )


def allocate(plan: Plan, *, aligned: bool = False) -> Stored:
    """Uninitialised arrays for a plan; `aligned` ones are those of :func:`empty_host`."""
    new_data, new_scales, new_zeros, new_tensor_scale = new_parts(plan, aligned)
    return Stored(
        new_data(),
        new_scales(),
        None if new_zeros is None else new_zeros(),
        None if new_tensor_scale is None else new_tensor_scale(),
    )


def empty_host(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Return an uninitialised, writable array that starts at a multiple of 64 bytes.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its dtype.
    """
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
