"""From the range of a block to its stored scale, and from a stored scale to a multiplier.

Each step is a function over whole grids, one float32 rounding per operation. Stored scales are
their bits, or float32 numbers for F32.
"""

from __future__ import annotations

import math

from arrayq._paths.generic.guards import divide, settle, without_negative_zero
from arrayq._paths.generic.minifloats import code_of_magnitude, number_of_code
from arrayq._paths.generic.powers import nearest_power, power_byte, round_to_power
from arrayq._paths.generic.settled import Settled
from arrayq._paths.scale_rules import range_divisor
from arrayq._paths.space import Array, Space
from arrayq.formats import FORMATS, round_to_float32
from arrayq.numerics import ScaleFrom, ScaleRounding, TensorFrom, ZeroBlock
from arrayq.scheme import QuantMode, QuantScheme, ScaleDtype

__all__ = [
    "decode",
    "encode_exact",
    "inverse_of_scale",
    "lower_overflowing",
    "mark_exceptional",
    "quotients",
    "raw_scales",
    "store_scales",
    "to_bits",
    "with_nan",
]

_LARGEST = FORMATS["f32"].qmax
_SMALLEST_NORMAL = 2.0**-126
_SMALLEST_SUBNORMAL = 2.0**-149
_NARROW = round_to_float32(1e-4)
_POWERS = (
    ScaleFrom.FLOOR,
    ScaleFrom.CEIL,
    ScaleFrom.EVEN,
    ScaleFrom.RCEIL,
    ScaleFrom.NEAREST_LOG2,
)


def raw_scales(
    space: Space, ranges: Settled, scheme: QuantScheme, tensor_scale: Array | None
) -> Array:
    """Return magnitudes of the raw scales, over the tensor scale where there is one.

    What vanishes in a division although the range is not zero becomes the smallest positive
    float32, so that it rounds up and not away; burn's two levels keep the zero.
    """
    numerics = scheme.numerics
    raw = quotients(space, ranges, scheme)
    if tensor_scale is not None:
        raw = divide(space, settle(space, raw), tensor_scale)
    if numerics.scale_from is ScaleFrom.INVERSE_RANGE:
        return raw
    if not (scheme.two_level and numerics.tensor_from is TensorFrom.BLOCK_SCALES):
        raw = space.where(raw == 0.0, _SMALLEST_SUBNORMAL, raw)
    raw = space.minimum(raw, _LARGEST)
    smallest = numerics.smallest_scale
    if smallest:
        raw = space.maximum(raw, smallest)
    of_zeros = {ZeroBlock.ZERO: 0.0, ZeroBlock.SMALLEST: smallest, ZeroBlock.ONE: 1.0}
    raw = space.where(ranges.vacant, of_zeros[numerics.zero_block], raw)
    if scheme.mode is QuantMode.AFFINE:
        constant = (ranges.lows == ranges.highs) & (ranges.lows != 0.0)
        raw = space.where(constant, smallest, raw)
    return raw


def quotients(space: Space, ranges: Settled, scheme: QuantScheme) -> Array:
    """Return raw scales as the rule makes them, before anything limits them."""
    source, row = scheme.numerics.scale_from, scheme.value.format
    divisor = round_to_float32(range_divisor(scheme))
    if source is ScaleFrom.ENDPOINTS:
        below = divide(space, ranges.lows, row.qmin)
        above = divide(space, ranges.highs, row.qmax)
        return without_negative_zero(space, space.where(above > below, above, below))
    if source is ScaleFrom.INVERSE_RANGE:
        inverse = inverse_of_scale(space, ranges.lows, ranges.highs, divisor)
        raw = 1.0 / settle(space, inverse)
        return space.where(raw < math.inf, raw, _LARGEST)
    if scheme.mode is QuantMode.AFFINE:
        span = ranges.highs - ranges.lows
        halves = divide(space, ranges.highs * 0.5 - ranges.lows * 0.5, divisor * 0.5)
        return space.where(span < math.inf, divide(space, span, divisor), halves)
    return divide(space, ranges.magnitude, divisor)


def inverse_of_scale(space: Space, lows: Array, highs: Array, divisor: float) -> Array:
    """Return what HQQ multiplies by: divisor / (high - low) by a reciprocal, at most 2e4."""
    span = highs - lows
    inverse = settle(space, 1.0 / span) * divisor
    halves = settle(space, 1.0 / (highs * 0.5 - lows * 0.5)) * (divisor * 0.5)
    inverse = space.where(span < math.inf, inverse, halves)
    inverse = space.where(span > _NARROW, inverse, 1.0)
    return space.where(inverse < 2e4, inverse, 2e4)


# Stored scales.


def store_scales(space: Space, ranges: Settled, raw: Array, scheme: QuantScheme) -> Array:
    """Return raw scales rounded to their dtype, as float32 numbers for F32 and otherwise as codes
    in whole float32 ranges. A nonzero scale never becomes zero.
    """
    numerics, dtype = scheme.numerics, scheme.scale_dtype
    up = numerics.scale_rounding is ScaleRounding.UP
    if numerics.scale_from in _POWERS:
        return _store_powers(space, ranges, raw, scheme, up=up)
    if dtype is ScaleDtype.UE8M0:
        return round_to_power(space, raw, up=up)
    if dtype is ScaleDtype.F32:
        stored, negated = raw, -raw
    else:
        rounds = space.xp.ceil if up else space.xp.round
        stored = code_of_magnitude(space, raw, dtype.format, rounds)
        stored = space.where(raw > 0.0, space.maximum(stored, 1.0), stored)
        negated = stored + float(dtype.format.sign_mask)
    if ranges.extremes is None:
        return stored
    # the smallest code is negative, so a positive extreme makes a negative scale
    return space.where((ranges.extremes > 0.0) & (stored != 0.0), negated, stored)


def _store_powers(
    space: Space, ranges: Settled, raw: Array, scheme: QuantScheme, *, up: bool
) -> Array:
    if scheme.scale_dtype is ScaleDtype.F32:
        return space.where(ranges.vacant, raw, nearest_power(space, raw))
    byte = power_byte(space, ranges.magnitude, raw, scheme)
    if scheme.numerics.zero_block is ZeroBlock.ZERO:
        return space.where(ranges.vacant, 0.0, byte)
    return space.where(ranges.vacant, round_to_power(space, raw, up=up), byte)


def lower_overflowing(space: Space, stored: Array, dtype: ScaleDtype, tensor_scale: Array) -> Array:
    """Return codes one step lower where the product with the tensor scale is infinite.

    Near float32's maximum rounding may lift that product over it, and a code of zero would then
    decode to NaN. The next lower scale lies below the raw one, which is finite.
    """
    product = decode(space, space.cast(stored, "int32"), dtype) * tensor_scale
    return stored - space.where(space.xp.abs(product) == math.inf, 1.0, 0.0)


def mark_exceptional(
    space: Space, stored: Array, dtype: ScaleDtype, spoiled: Array, without_range: Array | None
) -> Array:
    """Return stored scales with NaN where blocks are spoiled, and with the smallest scale where
    infinities stood beside nothing but zeros.
    """
    if without_range is not None:
        stored = space.where(without_range, _SMALLEST_SCALES[dtype], stored)
    return space.where(spoiled, _nan(dtype), stored)


_SMALLEST_SCALES = {
    ScaleDtype.F32: _SMALLEST_NORMAL,
    ScaleDtype.F16: 1.0,
    ScaleDtype.BF16: 1.0,
    ScaleDtype.UE8M0: 0.0,
    ScaleDtype.UE4M3: 1.0,
}
"""The smallest scale that no library flushes to zero: a number for F32, codes for the others."""


def _nan(dtype: ScaleDtype) -> float:
    code = dtype.format.nan_code
    assert code is not None, "every scale dtype has a NaN"
    return math.nan if dtype is ScaleDtype.F32 else float(code)


def to_bits(space: Space, stored: Array, dtype: ScaleDtype) -> Array:
    """Return what `store_scales` made, in the dtype that it is stored in."""
    if dtype is ScaleDtype.F32:
        return stored
    return space.cast(space.cast(stored, "int32"), dtype.stored_dtype)


def decode(space: Space, bits: Array, dtype: ScaleDtype) -> Array:
    """Return stored scales as float32 ranges."""
    if dtype is ScaleDtype.F32:
        return bits
    return number_of_code(space, space.cast(bits, "int32"), dtype.format)


def encode_exact(space: Space, numbers: Array, dtype: ScaleDtype) -> Array:
    """Return numbers that a dtype can represent, or NaN, as they are stored."""
    nan = space.xp.isnan(numbers)
    if dtype is ScaleDtype.F32:
        return space.where(nan, math.nan, numbers)
    magnitude = space.where(nan, 0.0, space.xp.abs(numbers))
    if dtype is ScaleDtype.UE8M0:
        code = round_to_power(space, magnitude, up=False)
    else:
        code = code_of_magnitude(space, magnitude, dtype.format, space.xp.round)
        if dtype.format.sign_mask:
            code = space.where(numbers < 0.0, code + float(dtype.format.sign_mask), code)
    return to_bits(space, space.where(nan, _nan(dtype), code), dtype)


def with_nan(space: Space, bits: Array, spoiled: Array, dtype: ScaleDtype) -> Array:
    """Return stored scales with NaN where blocks are spoiled."""
    if dtype is ScaleDtype.F32:
        return space.where(spoiled, math.nan, bits)
    marked = space.where(spoiled, int(_nan(dtype)), space.cast(bits, "int32"))
    return space.cast(marked, dtype.stored_dtype)
