"""What the scale of a block is made from: its ends, its extreme and its range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .arithmetic import narrow

FLOAT32_SMALLEST = 2.0**-149


@dataclass(frozen=True)
class Extent:
    """The finite elements of a block, summed up; zeros where there are none.

    ``range`` is the largest or the mean magnitude, as calibration says; ``extreme`` the first
    element in C order of the largest magnitude, its sign included.
    """

    low: float = 0.0
    high: float = 0.0
    extreme: float = 0.0
    range: float = 0.0

    def with_zero(self) -> Extent:
        """Return the extent widened to include 0."""
        return Extent(min(self.low, 0.0), max(self.high, 0.0), self.extreme, self.range)


def extent_of(values: Sequence[float], calibration: str) -> Extent:
    """Return the extent of a block's finite elements, which are in their C order."""
    if not values:
        return Extent()
    extreme = max(values, key=abs)  # the first of equals
    spread = abs(extreme) if calibration == "minmax" else _mean_magnitude(values)
    return Extent(min(values), max(values), extreme, spread)


def _mean_magnitude(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total += abs(value)
    if total == 0.0:
        return 0.0
    return narrow(total / len(values)) or FLOAT32_SMALLEST
