"""What has to be known of the elements of each block to give it a scale.

Ranges of parts of a block combine by ``max`` (`lows` by ``min``), those of tensors likewise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from arrayq._paths.generic.blocks import beside, places, reduce, split
from arrayq._paths.parts import Policy
from arrayq._paths.space import Array, Space
from arrayq.layout import Plan
from arrayq.numerics import Calibration, ScaleFrom
from arrayq.scheme import QuantMode, QuantScheme

__all__ = ["Ranges", "has_bounds", "measure", "spoiled_blocks"]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Statistics of blocks: float32 and bool arrays on the grid.

    Attributes
    ----------
    magnitude : array
        Largest magnitude of the finite elements; anything in blocks that are spoiled, where
        no tensor scale needs it.
    spoiled : array of bool
        Where the scale becomes NaN.
    infinite : array of bool or None
        Where infinities or NaN were passed over, under SATURATE.
    lows, highs : array or None
        Smallest and largest finite element, infinities of the other sign where there is none.
    extremes : array or None
        The first of the finite elements of the largest magnitude, with its sign.
    """

    magnitude: Array
    spoiled: Array
    infinite: Array = None
    lows: Array = None
    highs: Array = None
    extremes: Array = None


def has_bounds(scheme: QuantScheme) -> bool:
    """Return whether scales follow from the smallest and the largest element."""
    return scheme.mode is QuantMode.AFFINE or scheme.numerics.scale_from is ScaleFrom.ENDPOINTS


def spoiled_blocks(space: Space, x: Array, plan: Plan, policy: Policy) -> Array:
    """Return which blocks of a float32 array hold what the policy turns into a scale of NaN.

    No policy can express a NaN; all but SATURATE refuse infinities as well.
    """
    parts = split(space, x, plan, 0.0)
    if policy is Policy.SATURATE:
        return reduce(space, space.xp.isnan(parts), plan, space.xp.any)
    return ~reduce(space, space.xp.isfinite(parts), plan, space.xp.all)


def measure(space: Space, x: Array, plan: Plan, calibration: Calibration, policy: Policy) -> Ranges:
    """Measure the blocks of an array.

    Parameters
    ----------
    space : Space
        Where to compute.
    x : array of floats, of shape plan.shape
        The elements; not of size 0.
    plan : Plan
        Its layout.
    calibration : Calibration
        MINMAX. A mean would depend on the order in which a library adds, so that the capability
        table refuses ABSMEAN for this path.
    policy : Policy
        What to do about NaN and infinities.

    Returns
    -------
    Ranges
        Statistics on the grid.
    """
    if calibration is not Calibration.MINMAX:
        raise AssertionError("no library adds in a known order; the capability table refuses it")
    xp, scheme = space.xp, plan.scheme
    parts = split(space, space.cast(x, "float32"), plan, 0.0)
    magnitudes = xp.abs(parts)
    bounded = has_bounds(scheme)
    signed = scheme.numerics.scale_from is ScaleFrom.SIGNED_MAX
    if policy is not Policy.SATURATE and not (scheme.two_level or bounded or signed):
        # NaN and infinities show in the largest magnitude, and nothing else is asked
        magnitude = reduce(space, magnitudes, plan, xp.max)
        return Ranges(magnitude, ~xp.isfinite(magnitude))
    finite = xp.isfinite(parts)
    ignored = ~reduce(space, finite, plan, xp.all)
    spoiled, infinite = ignored, None
    if policy is Policy.SATURATE:
        spoiled, infinite = reduce(space, xp.isnan(parts), plan, xp.any), ignored
    magnitudes = space.where(finite, magnitudes, 0.0)
    magnitude = reduce(space, magnitudes, plan, xp.max)
    lows = highs = extremes = None
    if bounded:
        lows, highs = _bounds(space, x, plan)
    if signed:
        extremes = _extremes(space, parts, magnitudes, magnitude, plan)
    return Ranges(magnitude, spoiled, infinite, lows, highs, extremes)


def _bounds(space: Space, x: Array, plan: Plan) -> tuple[Array, Array]:
    """Return the smallest and the largest finite element of each block."""
    xp = space.xp
    # what is missing from a block is as if it were not finite
    parts = split(space, space.cast(x, "float32"), plan, math.inf)
    finite = xp.isfinite(parts)
    lows = reduce(space, space.where(finite, parts, math.inf), plan, xp.min)
    highs = reduce(space, space.where(finite, parts, -math.inf), plan, xp.max)
    return lows, highs


def _extremes(space: Space, parts: Array, magnitudes: Array, magnitude: Array, plan: Plan) -> Array:
    """Return the first element of the largest magnitude of each block.

    Its place comes with its sign in the lowest bit, so that one ``min`` finds both.
    """
    at_end = magnitudes == beside(space, magnitude, plan)
    place = 2 * places(space, plan) + space.where(parts < 0.0, space.full((), 1, "int32"), 0)
    place = space.where(at_end, place, 2**31 - 1)
    first = reduce(space, place, plan, space.xp.min)
    return space.where((first & 1) != 0, -magnitude, magnitude)
