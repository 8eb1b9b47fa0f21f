"""Zero points of affine blocks: what is stored, and the codes and numbers that follow.

Sources: torchao's ``choose_qparams_affine`` for zero points in codes, its tinygemm variant,
optimum-quanto and MLX for biases, HQQ's ``Quantizer`` for zero points with a fraction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .arithmetic import add, divide, multiply, subtract
from .elements import ELEMENTS, Integer, decode_codes, encode_values
from .extents import Extent
from .rounding import to_whole
from .scales import Level, inverse_of_range

Floats = npt.NDArray[np.float32]

INTEGER_DTYPES = {"i8": np.int8, "u8": np.uint8, "i32": np.int32}
STORED_DTYPES = {**INTEGER_DTYPES, "f32": np.float32, "f16": np.uint16, "bf16": np.uint16}

# How far outside the codes a zero point may lie: float32 still tells single steps apart there.
MOST_STEPS = 2**22 - 256


@dataclass(frozen=True)
class Zero:
    """What the zero points of a scheme are: ``code`` or ``bias``, and how they are stored."""

    kind: str
    dtype: str
    in_range: bool = True
    rounding: str = "none"

    @property
    def is_whole(self) -> bool:
        return self.dtype in INTEGER_DTYPES


def settled(block: Extent, zero: Zero, level: Level) -> Extent:
    """Return the extent that scale and zero point are made from.

    A block that is constant, or nearly so, has no steps to count its zero point in, unless 0 is
    in its range.
    """
    return block.with_zero() if zero.in_range or (zero.is_whole and _far(block, level)) else block


def _far(block: Extent, level: Level) -> bool:
    """Return whether a zero point counted in codes would lie 2**21 steps away or more."""
    low, high = _code_range(level)
    furthest = multiply(max(abs(block.low), abs(block.high)), high - low)
    return bool(furthest >= multiply(subtract(block.high, block.low), 2.0**21))


def zero_point(block: Extent, scale: float, zero: Zero, level: Level, rounding: str) -> float:
    """Return the stored zero point of a block whose stored scale is given."""
    low, high = _code_range(level)
    if math.isnan(scale):
        return 0.0
    if zero.kind == "bias":
        if block.low == block.high == 0:
            return 0.0  # code 0 and bias 0 are 0 under any scale
        return _narrow(subtract(block.low, multiply(low, scale)), zero.dtype)
    if not zero.is_whole:
        # HQQ's codes begin at 0, where a is; others begin at a.
        exact = add(multiply(-block.low, inverse_of_range(block, level)), low)
        whole = zero.rounding == "whole"
        return _narrow(to_whole(exact, "half_even") if whole else exact, zero.dtype)
    steps = divide(block.low, scale) if scale != 0 else 0.0
    # A zero point has no place among the elements to draw a number for.
    rule = "half_even" if rounding == "stochastic" else rounding
    lowest, highest = (low, high) if zero.in_range else (-MOST_STEPS, MOST_STEPS)
    return float(np.clip(low - to_whole(steps, rule), lowest, highest))


def _code_range(level: Level) -> tuple[int, int]:
    element = ELEMENTS[level.value]
    assert isinstance(element, Integer)
    return element.low, element.high


def _narrow(exact: npt.NDArray[np.floating], dtype: str) -> float:
    """Return the nearest finite number of a dtype, ties to even, without a negative zero."""
    codes = encode_values(np.atleast_1d(exact), dtype, overflow="saturate")
    return float(decode_codes(codes, dtype)[0]) + 0.0


def zero_bits(zeros: npt.NDArray[np.float64], dtype: str) -> npt.NDArray[np.generic]:
    """Return zero points as they are stored."""
    if dtype in ("f16", "bf16"):
        return encode_values(zeros, dtype).astype(np.uint16)
    return zeros.astype(STORED_DTYPES[dtype])


def decoded(codes: Floats, scale: Floats, zero: Floats, kind: str) -> Floats:
    """Return what codes mean: (c - z) * s, or c * s + z."""
    if kind == "bias":
        return add(multiply(codes, scale), zero)
    return multiply(subtract(codes, zero), scale)
