"""Decision edges of a table of values: which entry a number is nearest to. Pure Python."""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction

from arrayq.formats import round_to_float32

__all__ = ["nearest_edges"]


def nearest_edges(values: tuple[float, ...]) -> tuple[list[float], list[int]]:
    """Decision edges of a table of values, and the code on either side of each.

    A number goes to the nearest value, and to the lower of two equally near ones: the edge
    between neighbours is the largest float32 that is not above their midpoint, and what lies
    above the edge goes to the upper one. Equal values are one place, held by the lowest code.

    Parameters
    ----------
    values : tuple of float
        Value of each code; float32 numbers in any order.

    Returns
    -------
    edges : list of float
        Ascending edges, one fewer than places.
    order : list of int
        Code of each place.
    """
    places = sorted({value: code for code, value in reversed(list(enumerate(values)))}.items())
    edges = []
    for (lower, _), (upper, _) in itertools.pairwise(places):
        midpoint = (Fraction(lower) + Fraction(upper)) / 2
        edge = round_to_float32(float(midpoint))
        edges.append(_float32_below(edge) if Fraction(edge) > midpoint else edge)
    return edges, [code for _, code in places]


def _float32_below(number: float) -> float:
    """Return the largest float32 below a finite one."""
    if number == 0:
        return -math.ldexp(1.0, -149)
    bits: int = struct.unpack("<i", struct.pack("<f", number))[0]
    # As integers the bits of negative numbers, too, grow with the magnitude.
    below: float = struct.unpack("<f", struct.pack("<i", bits - 1 if number > 0 else bits + 1))[0]
    return below
