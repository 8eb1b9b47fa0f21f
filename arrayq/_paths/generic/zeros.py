"""Zero points of affine blocks: from bounds and scale to what is stored, and back to numbers."""

from __future__ import annotations

from arrayq._paths.generic.guards import clamp, divide, settle, without_negative_zero
from arrayq._paths.generic.minifloats import code_of_magnitude, number_of_code
from arrayq._paths.generic.rounding import round_whole
from arrayq._paths.generic.scales import inverse_of_scale
from arrayq._paths.generic.settled import Settled
from arrayq._paths.scale_rules import range_divisor
from arrayq._paths.space import Array, Space
from arrayq.formats import round_to_float32
from arrayq.numerics import Rounding, ScaleFrom, ZeroRounding
from arrayq.scheme import QuantScheme, ZeroDtype, ZeroKind

__all__ = ["cleared", "decode", "encode", "zeros_of"]

_MOST_STEPS = 2.0**22
"""Numbers up to this one are rounded by float32 additions."""
_MOST_CODES = _MOST_STEPS - 256


def zeros_of(space: Space, ranges: Settled, scales: Array, scheme: QuantScheme) -> Array:
    """Return the zero points of blocks as they are stored.

    Parameters
    ----------
    space : Space
        Where to compute.
    ranges : Settled
        Bounds of the blocks.
    scales : float32 array
        Stored scales as numbers; under a scale of NaN the zero point is 0.
    scheme : QuantScheme
        An affine scheme.
    """
    assert scheme.zero is not None
    numbers = _raw_zeros(space, ranges, scales, scheme)
    dtype = scheme.zero.dtype
    if dtype.is_float:
        largest = dtype.format.qmax
        numbers = clamp(space, numbers, -largest, largest)
    numbers = without_negative_zero(space, space.where(scales == scales, numbers, 0.0))
    return encode(space, numbers, dtype)


def _raw_zeros(space: Space, ranges: Settled, scales: Array, scheme: QuantScheme) -> Array:
    """Return zero points before they are rounded to their dtype."""
    assert scheme.zero is not None
    row, numerics = scheme.value.format, scheme.numerics
    lows, highs = ranges.lows, ranges.highs
    if scheme.zero.kind is ZeroKind.BIAS:
        numbers = lows - settle(space, row.qmin * scales)
        # zeros decode to zero under any scale: code 0 and bias 0
        return space.where((lows != 0.0) | (highs != 0.0), numbers, 0.0)
    if numerics.scale_from is ScaleFrom.INVERSE_RANGE:
        inverse = inverse_of_scale(space, lows, highs, round_to_float32(range_divisor(scheme)))
        steps = settle(space, -lows * inverse) + row.qmin
        if numerics.zero_rounding is ZeroRounding.NONE:
            return steps
        return space.where(space.xp.abs(steps) < _MOST_STEPS, space.xp.round(steps), steps)
    steps = divide(space, lows, space.where(scales == 0.0, 1.0, scales))
    steps = clamp(space, space.where(scales == 0.0, 0.0, steps), -_MOST_STEPS, _MOST_STEPS)
    rule = scheme.rounding
    if rule is Rounding.STOCHASTIC:
        # a zero point has no place among the elements to draw a number for
        rule = Rounding.HALF_EVEN
    bounds = (row.qmin, row.qmax) if numerics.zero_in_range else (-_MOST_CODES, _MOST_CODES)
    return clamp(space, row.qmin - round_whole(space, steps, rule), *bounds)


def encode(space: Space, numbers: Array, dtype: ZeroDtype) -> Array:
    """Return zero points as they are stored: integers, float32, or bits of the nearest number.

    Integer dtypes take whole numbers in their range; floats take finite ones up to their largest.
    """
    if not dtype.is_float:
        return space.cast(numbers, dtype.stored_dtype)
    if dtype is ZeroDtype.F32:
        return numbers
    row = dtype.format
    code = code_of_magnitude(space, space.xp.abs(numbers), row, space.xp.round)
    negative = (numbers < 0.0) & (code != 0.0)
    code = space.where(negative, code + float(row.sign_mask), code)
    return space.cast(space.cast(code, "int32"), dtype.stored_dtype)


def decode(space: Space, stored: Array, dtype: ZeroDtype) -> Array:
    """Return stored zero points as float32 numbers."""
    if dtype.is_float and dtype is not ZeroDtype.F32:
        return number_of_code(space, space.cast(stored, "int32"), dtype.format)
    return space.cast(stored, "float32")


def cleared(space: Space, stored: Array, spoiled: Array) -> Array:
    """Return stored zero points with 0 where blocks are spoiled."""
    zeros = space.xp.zeros_like(stored)
    return space.xp.where(spoiled, zeros, stored)
