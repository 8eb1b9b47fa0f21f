"""Rounding rules, by name: where a number between two codes goes. Halves are met exactly."""

from __future__ import annotations

from arrayq._paths.space import Array, Space
from arrayq.numerics import Rounding

__all__ = ["round_magnitude", "round_whole"]

_BELOW_HALF = 0.5 - 2.0**-25
"""The largest float32 below 0.5: added before truncation, it lifts halves and nothing less."""


def _ones(space: Space, condition: Array) -> Array:
    return space.where(condition, 1.0, 0.0)


def round_whole(
    space: Space, x: Array, rule: Rounding | None, uniform: Array | None = None
) -> Array:
    """Round to whole numbers, still float32.

    Parameters
    ----------
    space : Space
        Where to compute.
    x : float32 array
        Numbers of at most 2**22 in magnitude.
    rule : Rounding
        The rule; not None, which is that of tables.
    uniform : float32 array, optional
        Random numbers in [0, 1) of the shape of `x`, for the stochastic rule.
    """
    xp = space.xp
    if rule is Rounding.HALF_AWAY:
        return xp.trunc(x + space.where(x < 0.0, -_BELOW_HALF, _BELOW_HALF))
    if rule is Rounding.HALF_EVEN:
        return xp.round(x)
    if rule is Rounding.HALF_TO_ZERO:
        whole = xp.trunc(x)
        rest = x - whole
        return whole + _ones(space, rest > 0.5) - _ones(space, rest < -0.5)
    whole = xp.floor(x)
    rest = x - whole
    return whole + _ones(space, rest >= 0.5 if uniform is None else uniform < rest)


def round_magnitude(
    space: Space, x: Array, negative: Array, rule: Rounding | None, uniform: Array | None = None
) -> Array:
    """Round magnitudes to whole numbers, still float32.

    Parameters
    ----------
    space : Space
        Where to compute.
    x : float32 array
        Numbers from 0 to 2**22.
    negative : bool array
        Where the number that the magnitude is of had a minus sign.
    rule : Rounding
        The rule; not None, which is that of tables.
    uniform : float32 array, optional
        Random numbers in [0, 1) of the shape of `x`, for the stochastic rule.
    """
    if rule is Rounding.HALF_EVEN:
        return space.xp.round(x)
    whole = space.xp.floor(x)
    rest = x - whole
    if uniform is not None:
        up = uniform < rest
    elif rule is Rounding.HALF_TO_ZERO:
        up = rest > 0.5
    else:
        up = rest >= 0.5
        if rule is Rounding.HALF_UP:
            up = up & ~(negative & (rest == 0.5))
    return whole + _ones(space, up)
