"""From the elements of a block to the scale that is stored.

Sources: burn's ``compute_range`` and ``ScaleDtype::round_up`` for the default rules, the OCP
Microscaling specification 1.0 for ``floor``, the NVFP4 recipe (amax / 2688) for
``tensor_from="amax"``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .arithmetic import divide, floor_log2, half_even, multiply, narrow
from .elements import ELEMENTS, Integer, Minifloat, PowerOfTwo, encode_values, magnitudes

FLOAT32_SMALLEST_NORMAL = 2.0**-126
NAN_BITS = {"f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0, "ue4m3": 0x7F, "ue8m0": 0xFF}
BITS_DTYPE = {"f16": np.uint16, "bf16": np.uint16, "ue4m3": np.uint8, "ue8m0": np.uint8}


@dataclass(frozen=True)
class Level:
    """How ranges become stored scales."""

    value: str
    table: tuple[float, ...] | None
    dtype: str
    scale_from: str = "range"
    scale_rounding: str = "up"
    tensor_from: str = "block_scales"
    two_level: bool = False


def largest_scale(dtype: str) -> float:
    """Return the largest finite value of a scale dtype."""
    if dtype == "ue8m0":
        return 2.0**127
    if dtype == "f32":
        return float((2 - Fraction(1, 2**23)) * 2**127)
    return magnitudes(dtype)[-1]


def smallest_scale(dtype: str) -> float:
    """Return the smallest positive value of a scale dtype."""
    return {"ue8m0": 2.0**-127, "f32": 2.0**-149}.get(dtype) or magnitudes(dtype)[1]


def value_range(level: Level) -> tuple[float, float]:
    """Return the [a, b] of the value, or of the table."""
    if level.table is not None:
        return min(level.table), max(level.table)
    element = ELEMENTS[level.value]
    if isinstance(element, Integer):
        return float(element.low), float(element.high)
    return -magnitudes(level.value)[-1], magnitudes(level.value)[-1]


def divisor(level: Level) -> float:
    """Return what a range is divided by."""
    low, high = value_range(level)
    if level.table is not None:
        return max(abs(low), abs(high))
    return (high - low) / 2 if level.scale_from == "range" else high


def block_range(values: Sequence[float], calibration: str) -> float:
    """Return max |x| or mean |x| of a block's elements, in their C order."""
    if calibration == "minmax":
        return max((abs(value) for value in values), default=0.0)
    total = 0.0
    for value in values:
        total += abs(value)
    if total == 0.0:
        return 0.0
    return narrow(total / len(values)) or smallest_scale("f32")


def round_up(raw: float, dtype: str) -> float:
    """Return the smallest value of a dtype that is not below ``raw``, or the dtype's largest."""
    if dtype == "f32" or raw == 0.0:
        return min(raw, largest_scale(dtype))
    if raw >= largest_scale(dtype):
        return largest_scale(dtype)
    exact = Fraction(raw)
    if dtype == "ue8m0":
        exponent = floor_log2(exact)
        exponent += exact > Fraction(2) ** exponent
        return 2.0 ** max(exponent, -127)
    quantum = _quantum(exact, dtype)
    return float(-(-exact // quantum) * quantum)


def round_nearest(raw: float, dtype: str) -> float:
    """Return the nearest value of a dtype, ties to even (UE8M0: as its codes are rounded)."""
    if dtype == "f32" or raw == 0.0:
        return min(raw, largest_scale(dtype))
    if dtype == "ue8m0":
        return 2.0 ** (int(encode_values([raw], "ue8m0")[0]) - 127)
    if raw >= largest_scale(dtype):
        return largest_scale(dtype)
    quantum = _quantum(Fraction(raw), dtype)
    return float(half_even(Fraction(raw) / quantum) * quantum)


def _quantum(exact: Fraction, dtype: str) -> Fraction:
    element = ELEMENTS[dtype]
    assert isinstance(element, Minifloat)
    return Fraction(2) ** (max(floor_log2(exact), 1 - element.bias) - element.mantissa)


def floor_scale(block: float, level: Level) -> float:
    """Return 2**(floor(log2 block) - emax) inside UE8M0; float32 subnormals count as 2**-127."""
    low, high = value_range(level)
    emax = floor_log2(Fraction(max(abs(low), abs(high))))
    exponent = floor_log2(Fraction(block)) if block >= FLOAT32_SMALLEST_NORMAL else -127
    return 2.0 ** min(max(exponent - emax, -127), 127)


def round_scale(raw: float, nonzero: bool, level: Level) -> float:
    """Return a raw scale as its dtype stores it; a nonzero scale never becomes 0."""
    rounding = {"up": round_up, "nearest": round_nearest}[level.scale_rounding]
    stored = rounding(raw, level.dtype)
    return smallest_scale(level.dtype) if nonzero and stored == 0.0 else stored


def raw_scale(block: float, by: float) -> float:
    """Return f32(block / by); where that overflows, the largest float32."""
    return min(float(divide(block, by)), largest_scale("f32"))


def stored_scale(block: float, level: Level) -> float:
    """Return the stored scale of a block of one level."""
    if block == 0.0:
        return 2.0**-127 if level.dtype == "ue8m0" else 0.0
    if level.scale_from == "floor":
        return floor_scale(block, level)
    return round_scale(raw_scale(block, divisor(level)), True, level)


def two_level_scales(
    ranges: Sequence[float], amax: float, level: Level
) -> tuple[float, list[float]]:
    """Return the tensor scale and the stored block scales that are relative to it."""
    raw = [float(r) for r in divide(np.array(ranges, np.float32), divisor(level))]
    if level.tensor_from == "amax":
        tensor = _tensor_scale_from_amax(amax, level)
    else:
        largest = min(max(raw, default=0.0), largest_scale("f32"))
        tensor = max(raw_scale(largest, largest_scale(level.dtype)), FLOAT32_SMALLEST_NORMAL)
    stored = []
    for block, scale in zip(ranges, raw, strict=True):
        if block == 0.0:
            stored.append(0.0)
            continue
        relative = float(divide(scale, tensor))
        # burn keeps a quotient that float32 itself has flushed to 0; the NVFP4 clip does not.
        nonzero = level.tensor_from == "amax" or relative != 0.0
        rounded = round_scale(relative, nonzero, level)
        if math.isinf(float(multiply(rounded, tensor))):
            # one step down: its product lies below the raw scale, which is finite
            rounded = magnitudes(level.dtype)[magnitudes(level.dtype).index(rounded) - 1]
        stored.append(rounded)
    return tensor, stored


def _tensor_scale_from_amax(amax: float, level: Level) -> float:
    if amax == 0.0:
        return 0.0
    tensor = raw_scale(amax, float(multiply(divisor(level), largest_scale(level.dtype))))
    return tensor if tensor != 0.0 else smallest_scale("f32")


def scale_bits(scales: npt.NDArray[np.float64], dtype: str) -> npt.NDArray[np.generic]:
    """Return what scale_data holds: float32 itself, or the bits of the narrow dtype."""
    if dtype == "f32":
        floats = scales.astype(np.float32)
        nan = np.uint32(NAN_BITS["f32"]).view(np.float32)
        return np.where(np.isnan(floats), nan, floats)
    flat = [bits_of(scale, dtype) for scale in scales.ravel().tolist()]
    return np.array(flat, BITS_DTYPE[dtype]).reshape(scales.shape)


def bits_of(scale: float, dtype: str) -> int:
    """Return the code of a value that the dtype holds exactly, or of NaN."""
    if math.isnan(scale):
        return NAN_BITS[dtype]
    if isinstance(ELEMENTS[dtype], PowerOfTwo):
        return floor_log2(Fraction(scale)) + 127
    return magnitudes(dtype).index(scale)
