"""Which elements the gradient of `fake_quantize` passes through."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from arrayq._paths.generic import blocks
from arrayq._paths.space import Array
from arrayq.formats import Format
from arrayq.namespaces import library_of
from arrayq.scheme import QuantMode, QuantScheme, ZeroKind

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["not_clipped", "outer_edges"]


@lru_cache(maxsize=256)
def outer_edges(scheme: QuantScheme) -> tuple[float, float]:
    """Return the numbers, in units of the scale, beyond which elements are clipped.

    They lie half a step beyond the smallest and the largest code, the step being that between the
    two outermost codes: what lies between rounds to a code, what lies beyond is cut off.
    """
    values = sorted(set(_values(scheme)))
    if len(values) == 1:
        return values[0], values[0]
    low, high = values[0], values[-1]
    return low - (values[1] - low) / 2, high + (high - values[-2]) / 2


def _values(scheme: QuantScheme) -> tuple[float, ...]:
    if scheme.mode is QuantMode.LOOKUP:
        return scheme.require_codebook()
    row: Format = scheme.value.format
    return tuple(value for value in row.values if row.qmin <= value <= row.qmax)


def not_clipped(x: Array, q: QuantizedArray) -> Array:
    """Return where elements of an array lie in the range that their block can say.

    Parameters
    ----------
    x : array
        What was quantized.
    q : QuantizedArray
        What came of it.

    Returns
    -------
    array of bool
        In the shape and library of `x`; False in blocks whose scale is NaN.
    """
    space = library_of(x).reach().space(x)
    low, high = outer_edges(q.scheme)
    scale = q.scale if q.tensor_scale is None else q.scale * q.tensor_scale
    if q.scheme.zero is None or q.zero is None:
        ends = low * scale, high * scale
    elif q.scheme.zero.kind is ZeroKind.BIAS:
        ends = low * scale + q.zero, high * scale + q.zero
    else:
        zero = space.cast(q.zero, "float32")
        ends = (low - zero) * scale, (high - zero) * scale
    first, second = (blocks.expand(space, end, q.plan) for end in ends)
    numbers = space.cast(x, "float32")
    if q.scheme.scales_signed:
        # a negative scale turns the range around
        turned = first > second
        first, second = space.xp.where(turned, second, first), space.xp.where(turned, first, second)
    inside: Array = (numbers >= first) & (numbers <= second)
    return inside
