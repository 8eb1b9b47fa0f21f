"""From the elements of a block to the scale that is stored.

Sources: burn's ``compute_range`` and ``ScaleDtype::round_up`` for the default rules, torchao's
``choose_qparams_affine`` for ``endpoints`` and the affine range, ggml's ``quantize_row_q4_0`` for
``signed_max``, HQQ's ``Quantizer`` for ``inverse_range``, the NVFP4 recipe (amax / 2688) for
``tensor_from="amax"``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .arithmetic import divide, floor_log2, half_even, multiply, subtract
from .elements import ELEMENTS, Integer, Minifloat, PowerOfTwo, encode_values, magnitudes
from .extents import Extent
from .powers import RULES as POWER_RULES
from .powers import power_scale

FLOAT32_SMALLEST_NORMAL = 2.0**-126
NAN_BITS = {"f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0, "ue4m3": 0x7F, "ue8m0": 0xFF}
BITS_DTYPE = {"f16": np.uint16, "bf16": np.uint16, "ue4m3": np.uint8, "ue8m0": np.uint8}


@dataclass(frozen=True)
class Level:
    """How the extents of blocks become stored scales."""

    value: str
    table: tuple[float, ...] | None
    dtype: str
    scale_from: str = "range"
    scale_rounding: str = "up"
    tensor_from: str = "block_scales"
    two_level: bool = False
    affine: bool = False
    smallest: float = 0.0
    zero_block: str = "zero"


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


def round_scale(raw: float, nonzero: bool, level: Level) -> float:
    """Return a raw scale as its dtype stores it; a nonzero scale never becomes 0."""
    rounding = {"up": round_up, "nearest": round_nearest}[level.scale_rounding]
    stored = rounding(abs(raw), level.dtype)
    if nonzero and stored == 0.0:
        stored = smallest_scale(level.dtype)
    return math.copysign(stored, raw) if stored else 0.0


def raw_scale(block: float, by: float) -> float:
    """Return f32(block / by); where that overflows, the largest float32."""
    return min(float(divide(block, by)), largest_scale("f32"))


def _symmetric_raw(block: Extent, level: Level) -> float:
    low, high = value_range(level)
    if level.scale_from == "endpoints":
        ends = block.with_zero()
        # A sum with zero has no negative zero: only signed_max makes signs.
        return max(float(divide(ends.low, low)), float(divide(ends.high, high))) + 0.0
    if level.scale_from == "signed_max":
        return float(divide(block.extreme, low))
    return raw_scale(block.range, divisor(level))


def _span(block: Extent, steps: float) -> tuple[float, float]:
    """Return the width of an extent and its steps, both halved where the width overflows."""
    width = float(subtract(block.high, block.low))
    if not math.isinf(width):
        return width, steps
    halves = subtract(multiply(block.high, 0.5), multiply(block.low, 0.5))
    return float(halves), steps / 2


def inverse_of_range(block: Extent, level: Level) -> float:
    """Return what HQQ multiplies elements by."""
    low, high = value_range(level)
    width, steps = _span(block, high - low)
    if width <= float(np.float32(1e-4)):
        return 1.0
    return min(float(multiply(divide(1.0, width), steps)), 2e4)


def _affine_raw(block: Extent, level: Level) -> float:
    if level.scale_from == "inverse_range":
        return raw_scale(1.0, inverse_of_range(block, level))
    low, high = value_range(level)
    return raw_scale(*_span(block, high - low))


def is_zero(block: Extent, level: Level) -> bool:
    """Return whether a block holds zeros only."""
    return block.range == 0.0 if not level.affine else block.low == block.high == 0.0


def no_scale(dtype: str) -> float:
    """Return what is stored where there is nothing to scale; UE8M0 has no 0 and stores byte 0."""
    return 2.0**-127 if dtype == "ue8m0" else 0.0


def scale_of_zeros(level: Level) -> float:
    """Return what a block of zeros stores."""
    if level.zero_block == "zero":
        return no_scale(level.dtype)
    return round_scale({"smallest": level.smallest, "one": 1.0}[level.zero_block], True, level)


def stored_scale(block: Extent, level: Level) -> float:
    """Return the stored scale of a block of one level."""
    if level.scale_from != "inverse_range" and is_zero(block, level):
        return scale_of_zeros(level)
    if level.scale_from in POWER_RULES:
        return _power_scale(block, level)
    raw = _affine_raw(block, level) if level.affine else _symmetric_raw(block, level)
    raised = math.copysign(max(abs(raw), level.smallest), raw)
    # An affine block of one number has no span and may have no scale.
    constant = level.affine and block.low == block.high
    return round_scale(raised, not constant or raised != 0.0, level)


def _power_scale(block: Extent, level: Level) -> float:
    low, high = value_range(level)
    magnitude = max(abs(low), abs(high))
    element = ELEMENTS[level.value]
    return power_scale(
        level.scale_from,
        block.range,
        largest=high if level.table is None else magnitude,
        magnitude=magnitude,
        mantissa=element.mantissa if isinstance(element, Minifloat) else 0,
        lowest=-149 if level.dtype == "f32" else -127,
    )


def two_level_scales(blocks: Sequence[Extent], level: Level) -> tuple[float, list[float]]:
    """Return the tensor scale and the stored block scales that are relative to it."""
    raw = [_uncapped_raw(block, level) for block in blocks]
    if level.tensor_from == "amax":
        tensor = _tensor_scale_from_amax(max((b.range for b in blocks), default=0.0), level)
    else:
        largest = min(max(map(abs, raw), default=0.0), largest_scale("f32"))
        tensor = max(raw_scale(largest, largest_scale(level.dtype)), FLOAT32_SMALLEST_NORMAL)
    stored = []
    for block, scale in zip(blocks, raw, strict=True):
        if is_zero(block, level):
            stored.append(scale_of_zeros(level))
            continue
        relative = float(divide(scale, tensor))
        # burn keeps a quotient that float32 itself has flushed to 0; the NVFP4 clip does not.
        nonzero = level.tensor_from == "amax" or relative != 0.0
        rounded = round_scale(relative, nonzero, level)
        if math.isinf(float(multiply(rounded, tensor))):
            # one step down: its product lies below the raw scale, which is finite
            code = magnitudes(level.dtype).index(abs(rounded)) - 1
            rounded = math.copysign(magnitudes(level.dtype)[code], rounded)
        stored.append(rounded)
    return tensor, stored


def _uncapped_raw(block: Extent, level: Level) -> float:
    if level.scale_from in ("range", "qmax"):
        return float(divide(block.range, divisor(level)))
    return _symmetric_raw(block, level)


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
    sign = 2**15 if scale < 0 else 0
    return sign + magnitudes(dtype).index(abs(scale))
