"""Rounding rules by name, and the uniform numbers of the stochastic one.

Every rule but the stochastic one takes the nearer of the two neighbours; they differ in where a
number halfway between them goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]

WORD = 2**64


def uniform(seed: int, index: int) -> float:
    """Return the number in [0, 1) of one element: 24 bits of splitmix64's finaliser."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    z ^= z >> 31
    return (z >> 40) * 2.0**-24


def uniforms(seed: int, shape: tuple[int, ...]) -> Floats:
    """Return the numbers of all elements of an array; an element counts by its C order."""
    count = int(np.prod(shape, dtype=np.int64))
    drawn = [uniform(seed, index) for index in range(count)]
    return np.array(drawn, np.float32).reshape(shape)


def goes_up(rest: Any, rule: str, ties_going_up: Mapping[str, Any], drawn: Any) -> Bools:
    """Return whether numbers go to the upper of their two neighbours.

    ``rest`` is the distance from the lower neighbour in steps, ``drawn`` the uniform numbers.
    """
    if rule == "stochastic":
        return np.asarray(drawn < rest)
    return np.asarray((rest > 0.5) | ((rest == 0.5) & ties_going_up[rule]))


def to_whole(v: Any, rule: str, drawn: Any = None) -> Doubles:
    """Return float32 numbers rounded to integers; infinities stay."""
    values = np.asarray(v, np.float32)
    with np.errstate(invalid="ignore"):
        lower = np.floor(values)
        rest = values.astype(np.float64) - lower
        if rule == "stochastic":
            # A float32 operation like all others, though not exact just below zero.
            rest = values - lower
        ties = {
            "half_even": lower % 2 == 1,
            "half_up": True,
            "half_away": values > 0,
            "half_to_zero": values < 0,
        }
        return np.asarray(lower.astype(np.float64) + goes_up(rest, rule, ties, drawn))
