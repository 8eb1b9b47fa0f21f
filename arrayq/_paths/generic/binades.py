"""Exponents by halving: the standard has neither frexp nor log2, and log2 is inexact.

The exponent of a number is found bit by bit, from the largest step down: wherever the number
reaches the binade that far up, it is divided by the step's power of two, which is exact. This
works in any shape, needs no table, and fuses into one loop where a compiler fuses.
"""

from __future__ import annotations

from arrayq._paths.generic.guards import power_of_two
from arrayq._paths.space import Array, Space

__all__ = ["power_of_offset", "reduce_to_binade"]

_MOST_SHIFTED = 30
_LARGEST_STEP = 64
"""Twice that, 2**128, is no float32."""


def _steps(offsets: int) -> list[int]:
    """Return powers of two, falling, that sum to the largest of a number of offsets or more."""
    bits = (offsets - 1).bit_length()
    steps = [1 << bit for bit in range(bits - 1, -1, -1)]
    large = sum(step // _LARGEST_STEP for step in steps if step >= _LARGEST_STEP)
    return [_LARGEST_STEP] * large + [step for step in steps if step < _LARGEST_STEP]


def reduce_to_binade(space: Space, magnitude: Array, first: int, last: int) -> tuple[Array, Array]:
    """Split magnitudes into a power of two and the rest.

    Parameters
    ----------
    space : Space
        Where to compute.
    magnitude : float32 array
        Numbers of at least 0, below ``2**(last + 1)``.
    first, last : int
        Exponents of the lowest and the highest binade.

    Returns
    -------
    offset : float32 array
        Whole numbers from 0 to ``last - first``: how far the binade of a number lies above the
        lowest one; 0 for what lies below that.
    reduced : float32 array
        ``magnitude * 2**-offset``, exactly: in ``[2**first, 2**(first + 1))``, or below that.
    """
    offset = space.xp.zeros_like(magnitude)
    for step in _steps(last - first + 1):
        reaches = magnitude >= 2.0 ** (first + step)
        magnitude = space.where(reaches, magnitude * 2.0**-step, magnitude)
        offset = offset + space.where(reaches, float(step), 0.0)
    return offset, magnitude


def power_of_offset(space: Space, offset: Array, first: int, last: int) -> Array:
    """Return ``2**(first + offset)`` as float32.

    Parameters
    ----------
    space : Space
        Where to compute.
    offset : int32 array
        From 0 to ``last - first``.
    first, last : int
        The exponents of the result; normal float32 numbers.
    """
    bits = (last - first).bit_length()
    # shifts of up to 30 places give positive integers
    low = bits if last - first < _MOST_SHIFTED else 4
    # made of `offset`, since MLX's vmap shifts a constant by the offsets of the first batch
    one = space.cast(offset >= 0, "int32")
    power = space.cast(one << (offset & ((1 << low) - 1)), "float32")
    power = power_of_two(space, power, first)
    for bit in range(low, bits):
        step = 1 << bit
        is_set = (offset & step) != 0
        for _ in range(max(1, step // _LARGEST_STEP)):
            power = space.where(is_set, power * 2.0 ** min(step, _LARGEST_STEP), power)
    return power
