"""How much was compared, for the summary that pytest prints under ``-v``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass


@dataclass
class Tally:
    """What was compared.

    Attributes
    ----------
    schemes : int
        Arrays, each by another scheme.
    compared : int
        Their elements.
    apart : int
        Those among them that meet a subnormal in a library that takes it for zero.
    different : int
        Those among them whose value differs from NumPy's.
    """

    schemes: int = 0
    compared: int = 0
    apart: int = 0
    different: int = 0

    def add(self, other: Tally) -> None:
        """Count what another one has counted."""
        for what, number in vars(other).items():
            setattr(self, what, getattr(self, what) + number)


TALLIES: defaultdict[str, Tally] = defaultdict(Tally)
"""What was compared, by the way that it was made."""
