"""Ranges as scales and zero points are made from them."""

from __future__ import annotations

from dataclasses import dataclass

from arrayq._paths.generic.ranges import Ranges, has_bounds
from arrayq._paths.scale_rules import range_divisor
from arrayq._paths.space import Array, Space
from arrayq.numerics import ScaleFrom
from arrayq.scheme import QuantMode, QuantScheme, ZeroKind

__all__ = ["Settled", "counts_codes", "settle_ranges"]

_MOST_STEPS = 2.0**21


@dataclass(frozen=True, eq=False)
class Settled:
    """Ranges without infinities and NaN, blocks without a range marked.

    Attributes
    ----------
    magnitude : array
        Largest magnitude; 0 in spoiled blocks.
    vacant : array of bool
        Where the range is zero.
    lows, highs : array or None
        Bounds, widened to zero where the scheme asks for it.
    extremes : array or None
        Elements of the largest magnitude, with their sign.
    """

    magnitude: Array
    vacant: Array
    lows: Array = None
    highs: Array = None
    extremes: Array = None


def counts_codes(scheme: QuantScheme) -> bool:
    """Return whether zero points are whole numbers of codes."""
    return (
        scheme.zero is not None
        and scheme.zero.kind is ZeroKind.CODE
        and scheme.numerics.scale_from is not ScaleFrom.INVERSE_RANGE
    )


def settle_ranges(space: Space, ranges: Ranges, scheme: QuantScheme) -> Settled:
    """Return ranges as scales are made from them."""
    magnitude = space.where(ranges.spoiled, 0.0, ranges.magnitude)
    vacant = magnitude == 0.0
    if not has_bounds(scheme):
        return Settled(magnitude, vacant, extremes=ranges.extremes)
    lows, highs = _settled_bounds(space, ranges.lows, ranges.highs, scheme)
    return Settled(magnitude, vacant | (lows == highs), lows, highs)


def _settled_bounds(
    space: Space, lows: Array, highs: Array, scheme: QuantScheme
) -> tuple[Array, Array]:
    """Return bounds widened to zero where asked, zeros where nothing finite was seen.

    Zero points that count codes need a span that is not lost beside the distance from zero: a
    block whose zero point would lie 2**21 steps away or more is widened to zero as well.
    """
    empty = lows > highs
    lows, highs = space.where(empty, 0.0, lows), space.where(empty, 0.0, highs)
    with_zero = space.where(lows < 0.0, lows, 0.0), space.where(highs > 0.0, highs, 0.0)
    if scheme.mode is not QuantMode.AFFINE or scheme.numerics.zero_in_range:
        return with_zero
    if not counts_codes(scheme):
        return lows, highs
    furthest = space.where(-lows > highs, -lows, highs)
    far = furthest * range_divisor(scheme) >= (highs - lows) * _MOST_STEPS
    return space.where(far, with_zero[0], lows), space.where(far, with_zero[1], highs)
