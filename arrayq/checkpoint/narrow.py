"""The types that decoded tensors may be written in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from arrayq.checkpoint.dtypes import DTYPES, FileDtype

__all__ = ["OUTPUT_DTYPES", "OutputDtype", "narrow_to_bfloat16", "widen_bfloat16"]


def widen_bfloat16(bits: np.ndarray) -> np.ndarray:
    """Return the float32 values of bfloat16 bits given as uint16."""
    wide = bits.astype(np.uint32)
    wide <<= np.uint32(16)
    return wide.view(np.float32)


def narrow_to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Return the bits of float32 values rounded to bfloat16, nearest even, as uint16."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    # Rounding would carry a NaN whose low bits are set out of the NaNs.
    kept = np.where(np.isnan(values), bits | np.uint32(0x0040_0000), rounded)
    return (kept >> np.uint32(16)).astype(np.uint16)


def _narrow_to_float16(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float16)


@dataclass(frozen=True, slots=True)
class OutputDtype:
    """One type: its row, and how float32 values become its stored elements and come back."""

    row: FileDtype
    narrow: Callable[[np.ndarray], np.ndarray]
    widen: Callable[[np.ndarray], np.ndarray]


OUTPUT_DTYPES = {
    "f32": OutputDtype(DTYPES["F32"], np.asarray, np.asarray),
    "f16": OutputDtype(DTYPES["F16"], _narrow_to_float16, np.asarray),
    "bf16": OutputDtype(DTYPES["BF16"], narrow_to_bfloat16, widen_bfloat16),
}
