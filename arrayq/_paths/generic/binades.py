"""Exponents without frexp, which the standard lacks.

They are read from the bits of numbers where a library shows them; elsewhere they are the log2 of
the power of two below a number. That power is what Rump's algorithm finds in four operations
(Accurate floating-point summation, part I, 2008, algorithm 3.5): with ``q = (2**23 + 1) * x``,
``q - f32(q * pred(1))`` is the unit in the first place of `x`. A library's log2 is inexact, and no
floor of it is an exponent; but that of a power of two is near enough to a whole number to be
rounded to it.

Each step names the one before it few times: a compiler that puts the definition of an operand
wherever it stands, as that of torch does, takes time that is exponential in the depth of choices
on choices.
"""

from __future__ import annotations

from arrayq._paths.generic.guards import power_of_two, settle
from arrayq._paths.space import Array, Space

__all__ = ["power_of_offset", "split_binade"]

_SPREAD = 2.0**23 + 1
_BELOW_ONE = 1.0 - 2.0**-24
_HIGH = 100
"""Above this exponent `_SPREAD` times a number may be infinite."""
_LIFT = 32

# float32
_MANTISSA_BITS = 23
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_BIAS = 127


def split_binade(space: Space, magnitude: Array, first: int, last: int) -> tuple[Array, Array]:
    """Split magnitudes into a binade and a significand.

    Parameters
    ----------
    space : Space
        Where to compute.
    magnitude : float32 array
        Numbers of at least 0, below ``2**(last + 1)``.
    first, last : int
        Exponents of the lowest and the highest binade, of normal float32 numbers.

    Returns
    -------
    offset : float32 array
        Whole numbers from 0 to ``last - first``: how far the binade of a number lies above the
        lowest one; 0 for what lies below that.
    significand : float32 array
        ``magnitude / 2**(first + offset)``, exactly: from 1 to 2, or below 1 in what lies below
        the lowest binade.
    """
    if space.views:
        return _split_bits(space, magnitude, first)
    if last <= _HIGH:
        power = _power_below(space, magnitude, first)
        return _exponent(space, power) - float(first), magnitude / power
    large = magnitude >= 1.0
    near = magnitude * space.where(large, 2.0**-_LIFT, 2.0**_LIFT)
    power = _power_below(space, near, first + _LIFT)
    lifted = space.where(large, float(-_LIFT), float(_LIFT))
    return _exponent(space, power) - (lifted + float(first)), near / power


def _split_bits(space: Space, magnitude: Array, first: int) -> tuple[Array, Array]:
    bits = space.viewed(magnitude, "int32")
    above = (bits >> _MANTISSA_BITS) - (first + _BIAS)
    offset = space.where(above > 0, above, space.xp.zeros_like(above))
    significand = space.viewed((bits & _MANTISSA) | (_BIAS << _MANTISSA_BITS), "float32")
    below = power_of_two(space, space.minimum(magnitude, 2.0**first), -first)
    return space.cast(offset, "float32"), space.where(above >= 0, significand, below)


def _power_below(space: Space, x: Array, first: int) -> Array:
    """Return the largest power of two that is not above `x`, and not below ``2**first``."""
    spread = settle(space, x * _SPREAD)
    power = spread - settle(space, spread * _BELOW_ONE)
    return space.where(x >= 2.0**first, power, 2.0**first)


def _exponent(space: Space, power: Array) -> Array:
    return space.xp.round(space.xp.log2(power))


def power_of_offset(space: Space, offset: Array, first: int, last: int) -> Array:
    """Return ``2**(first + offset)`` as float32.

    Parameters
    ----------
    space : Space
        Where to compute.
    offset : int32 array
        From 0 to ``last - first``, or one more, which gives any power.
    first, last : int
        The exponents of the result; normal float32 numbers.
    """
    powers = [2.0**exponent for exponent in range(first, last + 1)]
    return space.taken([*powers, powers[-1]], offset)
