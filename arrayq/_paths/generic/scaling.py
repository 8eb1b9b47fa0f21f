"""From measured ranges to everything that is stored beside the codes, and to multipliers."""

from __future__ import annotations

from arrayq._paths.generic import scales, zeros
from arrayq._paths.generic.guards import computed_once, divide, settle
from arrayq._paths.generic.ranges import Ranges
from arrayq._paths.generic.settled import Settled, settle_ranges
from arrayq._paths.parts import Policy, Stored
from arrayq._paths.scale_rules import largest_value, range_divisor
from arrayq._paths.space import Array, Space
from arrayq.formats import FORMATS, round_to_float32
from arrayq.layout import Plan
from arrayq.numerics import ScaleFrom, TensorFrom
from arrayq.scheme import QuantScheme

__all__ = ["effective_scales", "scales_of", "scales_of_nothing"]

_LARGEST = FORMATS["f32"].qmax
_SMALLEST_NORMAL = 2.0**-126
_SMALLEST_SUBNORMAL = 2.0**-149


def scales_of(
    space: Space, ranges: Ranges, plan: Plan, policy: Policy, tensor_scale: Array | None = None
) -> Stored:
    """Return the scales, zero points and tensor scale that follow from ranges; no data.

    Parameters
    ----------
    space : Space
        Where to compute.
    ranges : Ranges
        What `measure` found, over the whole array.
    plan : Plan
        Layout of the array.
    policy : Policy
        The policy under which it was measured.
    tensor_scale : array of shape (), optional
        The tensor scale of a larger array; by default that of the ranges.
    """
    scheme = plan.scheme
    dtype = scheme.scale_dtype
    settled = settle_ranges(space, ranges, scheme)
    if scheme.two_level and tensor_scale is None:
        tensor_scale = _tensor_scale(space, ranges, settled, scheme, policy)
    raw = scales.raw_scales(space, settled, scheme, tensor_scale)
    rounded = scales.store_scales(space, settled, raw, scheme)
    if tensor_scale is not None:
        rounded = scales.lower_overflowing(space, rounded, dtype, tensor_scale)
    without_range = None
    if ranges.infinite is not None:
        without_range = ranges.infinite & (ranges.magnitude == 0.0)
    rounded = scales.mark_exceptional(space, rounded, dtype, ranges.spoiled, without_range)
    scale_data = scales.to_bits(space, rounded, dtype)
    zero_point = None
    if scheme.zero is not None:
        numbers = settle(space, scales.decode(space, scale_data, dtype))
        zero_point = zeros.zeros_of(space, settled, numbers, scheme)
    return Stored(None, scale_data, zero_point, tensor_scale)


def _tensor_scale(
    space: Space, ranges: Ranges, settled: Settled, scheme: QuantScheme, policy: Policy
) -> Array:
    """Return the tensor scale from the finite elements of all blocks."""
    largest = space.xp.max(ranges.magnitude)
    raw = None
    if scheme.numerics.scale_from is ScaleFrom.ENDPOINTS:
        raw = space.xp.max(scales.quotients(space, settled, scheme))
    found = _tensor_scale_of(space, largest, raw, scheme)
    if policy is not Policy.SATURATE:
        return found
    # nothing finite but zeros: any scale serves, so long as products with it do not vanish
    return space.where((largest == 0.0) & space.xp.any(ranges.infinite), 1.0, found)


def _tensor_scale_of(space: Space, largest: Array, raw: Array | None, scheme: QuantScheme) -> Array:
    """Return the tensor scale from the largest range of any block, or from the largest raw scale
    where that does not follow from the range.
    """
    block_dtype = scheme.scale_dtype.format
    if scheme.numerics.tensor_from is TensorFrom.AMAX:
        most = round_to_float32(largest_value(scheme) * block_dtype.qmax)
        scale = divide(space, largest, most)
        scale = space.where(scale < _LARGEST, scale, _LARGEST)
        return space.where((largest > 0.0) & (scale == 0.0), _SMALLEST_SUBNORMAL, scale)
    if raw is None:
        raw = divide(space, largest, round_to_float32(range_divisor(scheme)))
    raw = space.where(raw < _LARGEST, raw, _LARGEST)
    scale = divide(space, settle(space, raw), block_dtype.qmax)
    return space.where(scale > _SMALLEST_NORMAL, scale, _SMALLEST_NORMAL)


def scales_of_nothing(space: Space, plan: Plan) -> Stored:
    """Return what an array without elements stores beside its codes: zeros."""
    scheme = plan.scheme
    zero_point = tensor_scale = None
    if scheme.zero is not None:
        zero_point = space.full(plan.grid, 0, scheme.zero.dtype.stored_dtype)
    if scheme.two_level:
        tensor_scale = _tensor_scale_of(space, space.full((), 0.0), None, scheme)
    scale_data = space.full(plan.grid, 0, scheme.scale_dtype.stored_dtype)
    return Stored(None, scale_data, zero_point, tensor_scale)


def effective_scales(space: Space, stored: Stored, plan: Plan) -> Array:
    """Return the multiplier of each block, float32 on the grid."""
    factors = scales.decode(space, stored.scale_data, plan.scheme.scale_dtype)
    if stored.tensor_scale is not None:
        factors = factors * stored.tensor_scale
    return computed_once(space, factors)
