"""Elements into stored codes, against the scales as they are stored."""

from __future__ import annotations

import math

from arrayq._paths.generic import elements, words, zeros
from arrayq._paths.generic.blocks import cut, join, spread
from arrayq._paths.generic.guards import clamp, computed_once, divide, settle
from arrayq._paths.generic.noise import uniform
from arrayq._paths.generic.rounding import round_whole
from arrayq._paths.generic.scaling import effective_scales
from arrayq._paths.parts import Stored
from arrayq._paths.space import Array, Space
from arrayq.formats import Kind
from arrayq.layout import Plan
from arrayq.numerics import Rounding, ScaleFrom, Scaling
from arrayq.scheme import QuantMode, QuantScheme, ZeroKind

__all__ = ["encode"]


def encode(space: Space, x: Array, plan: Plan, stored: Stored) -> Array:
    """Return the data of an array: its codes, in words where the store packs them.

    Parameters
    ----------
    space : Space
        Where to compute.
    x : array of floats, of shape plan.shape
        The array.
    plan : Plan
        Its layout; blocks may be offset.
    stored : Stored
        Scales, zero points and tensor scale; its data is not read. Codes of blocks whose scale is
        NaN are those of zero.

    Returns
    -------
    int8, uint8 or uint32 array of shape plan.data_shape
        The data.
    """
    scheme = plan.scheme
    if 0 in plan.shape:
        return space.full(plan.data_shape, 0, plan.data_dtype)
    x = cut(space, space.cast(x, "float32"), plan)
    numbers = None
    if scheme.rounding is Rounding.STOCHASTIC:
        numbers = cut(space, uniform(space, plan.shape, scheme.numerics.seed), plan)
    scales = effective_scales(space, stored, plan)
    if scheme.zero is not None:
        codes = _affine_codes(space, x, plan, scales, stored.zero_point, numbers)
    else:
        codes = _codes(space, x, plan, scales, numbers)
    codes = join(space, codes, plan)
    if not scheme.store.is_packed:
        return codes
    return words.pack(space, codes, scheme.value, scheme.store, plan.packed_axis)


def _codes(space: Space, x: Array, plan: Plan, scales: Array, numbers: Array | None) -> Array:
    """Return codes without a zero point. Under a scale of zero all are zeros, signed where the
    format has -0; under NaN they are the code of 0.0.
    """
    scheme, row = plan.scheme, plan.scheme.value.format
    # what vanishes over infinity keeps its sign; scales of minifloats are not negative
    quotients = _quotients(space, x, plan, space.where(scales == 0.0, math.inf, scales))
    quotients = space.where(quotients == quotients, quotients, 0.0)
    if scheme.mode is QuantMode.LOOKUP:
        if scheme.store.is_packed:
            quotients = computed_once(space, quotients)
        return elements.codes_of_table(space, quotients, scheme.require_codebook())
    if row.kind is Kind.MINIFLOAT:
        return elements.fields_of_minifloats(space, quotients, scheme, numbers)
    quotients = clamp(space, quotients, row.qmin, row.qmax)
    whole = round_whole(space, quotients, scheme.rounding, numbers)
    return elements.fields_of_whole(space, whole, scheme)


def _quotients(space: Space, x: Array, plan: Plan, divisors: Array) -> Array:
    """Return elements over the nonzero divisors of their blocks, or times the reciprocals."""
    quotients = divide(space, x, spread(space, divisors, plan))
    if not _multiplies(plan.scheme):
        return quotients
    inverses = 1.0 / divisors
    finite = spread(space, space.xp.isfinite(inverses), plan)
    return space.where(finite, x * spread(space, inverses, plan), quotients)


def _multiplies(scheme: QuantScheme) -> bool:
    """Return whether elements are multiplied by the reciprocal of their scale."""
    return (
        scheme.numerics.scaling is Scaling.RECIPROCAL
        or scheme.numerics.scale_from is ScaleFrom.INVERSE_RANGE
    )


def _affine_codes(
    space: Space, x: Array, plan: Plan, scales: Array, zero_point: Array, numbers: Array | None
) -> Array:
    """Return codes relative to a zero point.

    Quotients are clamped by block, so that the code that is made of the rounded number by adding
    what they leave out stays inside the range. Under a scale of zero a quotient is zero; under
    NaN the code is.
    """
    scheme, row = plan.scheme, plan.scheme.value.format
    assert scheme.zero is not None
    low, high = row.qmin, row.qmax
    spoiled = space.xp.isnan(scales)
    dead = spoiled | (scales == 0.0)
    zero = zeros.decode(space, zero_point, scheme.zero.dtype)
    zero = space.where(spoiled, 0.0, zero)
    if scheme.zero.kind is ZeroKind.BIAS:
        middle = settle(space, low * space.where(spoiled, 0.0, scales)) + zero
        x = x - spread(space, middle, plan)
    quotients = _quotients(space, x, plan, space.where(dead, 1.0, scales))
    quotients = space.where(spread(space, dead, plan), 0.0, quotients)
    shift: Array | None
    if scheme.zero.kind is ZeroKind.BIAS:
        quotients = clamp(space, quotients, 0.0, high - low)
        shift = space.where(spoiled, space.full((), 0.0), low)
    elif scheme.numerics.scale_from is ScaleFrom.INVERSE_RANGE:
        quotients = settle(space, quotients) + spread(space, zero, plan)
        quotients = clamp(space, quotients, low, high)
        shift = None
    else:
        lows, highs = spread(space, low - zero, plan), spread(space, high - zero, plan)
        quotients = clamp(space, quotients, lows, highs)
        shift = zero
    whole = round_whole(space, quotients, scheme.rounding, numbers)
    if shift is not None:
        whole = whole + spread(space, shift, plan)
    return elements.fields_of_whole(space, whole, scheme)
