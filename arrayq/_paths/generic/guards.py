"""Arithmetic that no compiler of arrays rewrites, and what the standard says it without.

XLA keeps the value of every operation but may choose others: it turns a division by a constant,
a scalar or a broadcast into a product with the reciprocal, merges two divisions that follow each
other, and contracts ``a * b + c``, each with another rounding. It does not look through a choice
that depends on the elements, so the operand to be hidden from it is made one. That such a choice
always falls the same way for numbers, ``x == x``, is what only the person reading knows; guards
such as ``abs(x) >= 0`` it folds away. Where a library computes what is written there are no guards.
"""

from __future__ import annotations

import math

from arrayq._paths.space import Array, Space

__all__ = [
    "clamp",
    "computed_once",
    "divide",
    "is_negative",
    "power_of_two",
    "settle",
    "without_negative_zero",
]

_LARGEST_EXPONENT = 126
"""Powers of two up to this one, and their reciprocals, are normal float32 numbers."""


def divide(space: Space, x: Array, divisor: Array | float) -> Array:
    """Return ``x / divisor``, correctly rounded, for a divisor of any shape or a number.

    Where `x` is NaN the result is NaN.
    """
    return x / (space.where(x == x, divisor, 1.0) if space.rewrites else divisor)


def settle(space: Space, x: Array) -> Array:
    """Return `x`, rounded to float32 before anything else is done to it.

    For a quotient that is divided again, and for a product that something is added to.
    """
    return space.where(x == x, x, math.nan) if space.rewrites else x


def computed_once(space: Space, grid: Array) -> Array:
    """Return `grid`, which is about to be broadcast over the elements, or elements to be packed.

    XLA would fuse all that led to it into the loop over the elements, and compute it anew for
    each of them, were the last step not a division, which it deems too dear: here, by 1. Words
    would have their loop compute every code of theirs, in steps of a word, which no vector fits.
    """
    return grid / space.where(grid == grid, 1.0, math.nan) if space.rewrites else grid


def clamp(space: Space, x: Array, low: Array | float, high: Array | float) -> Array:
    """Return `x` between two bounds; `high` where it is NaN."""
    x = space.where(x < high, x, high)
    return space.where(x > low, x, low)


def is_negative(space: Space, x: Array) -> Array:
    """Return where `x` has a minus sign, -0.0 included: its bits are a negative integer,
    and 1 / -0.0 is minus infinity.

    Libraries without negative zeros see none.
    """
    if space.views:
        return space.viewed(x, "int32") < 0
    return (x < 0.0) | (1.0 / x < 0.0)


def without_negative_zero(space: Space, x: Array) -> Array:
    """Return `x` with 0.0 for -0.0."""
    return space.where(x == 0.0, 0.0, x)


def power_of_two(space: Space, x: Array, exponent: int) -> Array:
    """Return ``x * 2**exponent``, in two steps where the power is no float32 of its own.

    Exact where the result is a normal number or was never one.
    """
    while abs(exponent) > _LARGEST_EXPONENT:
        step = int(math.copysign(_LARGEST_EXPONENT, exponent))
        x = settle(space, x * 2.0**step)
        exponent -= step
    return x * 2.0**exponent if exponent else x
