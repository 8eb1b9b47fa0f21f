"""Powers of two as scales: exponent bytes, and the rules that find them."""

from __future__ import annotations

import math

from arrayq._paths.generic.binades import power_of_offset, split_binade
from arrayq._paths.generic.guards import clamp, settle
from arrayq._paths.scale_rules import largest_value
from arrayq._paths.space import Array, Space
from arrayq.numerics import ScaleFrom
from arrayq.scheme import QuantMode, QuantScheme

__all__ = ["nearest_power", "power_byte", "round_to_power"]

_SMALLEST_NORMAL = 2.0**-126
_LIFT = 64
"""Subnormal numbers are found an exponent after this many doublings."""

# Significands from which a power of two is rounded up. Below the smallest normal number the
# significand is below 1 and the power of two is 2**-127, or 2**-126 from a bound of its own.
_SQUARE_ROOT_OF_TWO = 1 + 0x3504F4 * 2.0**-23
_SUBNORMAL_SQUARE_ROOT_OF_TWO = 0x5A827A * 2.0**-23


def _exponent_byte(space: Space, x: Array) -> tuple[Array, Array]:
    """Return the exponent field of float32 numbers of at least 0, and their significand: from 1
    to 2, below 1 where the field is 0. Both float32.
    """
    offset, significand = split_binade(space, x, -126, 127)
    return offset + _ones(space, significand >= 1.0), significand


def _ones(space: Space, condition: Array) -> Array:
    return space.where(condition, 1.0, 0.0)


def round_to_power(space: Space, x: Array, *, up: bool) -> Array:
    """Return the exponent byte of numbers of at least 0: the power of two not below, or the
    nearest, ties up; what exceeds 2**-127 goes up below 2**-126, as in the casts of torch.
    """
    byte, significand = _exponent_byte(space, x)
    subnormal = significand < 1.0
    above = significand > 1.0 if up else significand >= 1.5
    byte = byte + _ones(space, (~subnormal & above) | (subnormal & (significand > 0.5)))
    return space.where(byte < 254.0, byte, 254.0)


def power_byte(space: Space, magnitude: Array, raw: Array, scheme: QuantScheme) -> Array:
    """Return the exponent byte that one of the rules on powers of two gives, from 0 to 254."""
    rule, row = scheme.numerics.scale_from, scheme.value.format
    if rule is ScaleFrom.RCEIL:
        return round_to_power(space, raw, up=True)
    byte, significand = _exponent_byte(space, raw if rule is ScaleFrom.NEAREST_LOG2 else magnitude)
    if rule is ScaleFrom.NEAREST_LOG2:
        root = space.where(byte > 0.0, _SQUARE_ROOT_OF_TWO, _SUBNORMAL_SQUARE_ROOT_OF_TWO)
        byte = byte + _ones(space, significand >= root)
    else:
        if rule is ScaleFrom.CEIL:
            byte = byte + _ones(space, (significand != 1.0) & (significand != 0.0))
        elif rule is ScaleFrom.EVEN:
            carries = 2.0 ** -(row.mantissa_bits + 1)
            byte = byte + _ones(
                space, (significand >= 2 - carries) | ((byte == 0.0) & (significand >= 1 - carries))
            )
        byte = byte - float(_largest_exponent(scheme))
    return clamp(space, byte, 0.0, 254.0)


def _largest_exponent(scheme: QuantScheme) -> int:
    """Return the exponent of the largest magnitude that a code means."""
    if scheme.mode is QuantMode.LOOKUP:
        return math.frexp(largest_value(scheme))[1] - 1
    return scheme.value.format.largest_exponent


def nearest_power(space: Space, x: Array) -> Array:
    """Return the power of two nearest to positive numbers in the logarithm, as a number."""
    small = x < _SMALLEST_NORMAL
    offset, significand = split_binade(space, space.where(small, x * 2.0**_LIFT, x), -126, 127)
    offset = offset + _ones(space, significand >= _SQUARE_ROOT_OF_TWO)
    offset = space.where(offset < 253.0, offset, 253.0)
    power = power_of_offset(space, space.cast(offset, "int32"), -126, 127)
    return space.where(small, settle(space, power) * 2.0**-_LIFT, power)
