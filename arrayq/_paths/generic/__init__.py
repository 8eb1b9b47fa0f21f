"""Arrays of any library, through the array-API standard: the readable definition of the arithmetic.

::

    ranges.py    elements -> statistics of blocks     blocks.py      split, reduce, spread
    settled.py   statistics -> what scales need       binades.py     powers of two below
    scaling.py   all that is stored beside codes      minifloats.py  numbers <-> codes of floats
    scales.py    ranges -> stored scales -> numbers   powers.py      scales that are powers of two
    zeros.py     bounds, scales -> zero points        rounding.py    the rules, by name
    encoding.py  elements, scales -> data             noise.py       numbers for stochastic rounding
    elements.py  quotients <-> codes                  words.py       codes <-> words
    guards.py    what compilers must not rewrite

Every operation is one float32 rounding in the order in which it is written here, and no step looks
at a value to decide what to do next: the same functions run on arrays that exist, on arrays that
are only being traced, and on graphs. Bits are those of the compiled kernels, except where a
library computes without float32 subnormals or without negative zeros.
"""

from __future__ import annotations

from arrayq._paths.generic import elements, encoding, scales, words, zeros
from arrayq._paths.generic.blocks import cut, expand, join, spread
from arrayq._paths.generic.encoding import encode
from arrayq._paths.generic.guards import settle
from arrayq._paths.generic.ranges import Ranges, measure, spoiled_blocks
from arrayq._paths.generic.scaling import effective_scales, scales_of, scales_of_nothing
from arrayq._paths.parts import Policy, Stored
from arrayq._paths.space import Array, Space
from arrayq.layout import Plan
from arrayq.numerics import Calibration
from arrayq.scheme import ZeroKind

__all__ = ["Ranges", "dequantize", "encode", "expand", "measure", "quantize", "scales_of"]


def quantize(
    space: Space,
    x: Array,
    plan: Plan,
    calibration: Calibration,
    policy: Policy,
    *,
    given: Stored | None = None,
    encode: bool = True,
) -> Stored:
    """Scales and codes of an array.

    Parameters
    ----------
    space : Space
        Where to compute.
    x : array of floats, of shape plan.shape
        The array.
    plan : Plan
        Its layout.
    calibration : Calibration
        MINMAX; see `measure`.
    policy : Policy
        What to do about NaN and infinities. Nothing here can raise: RAISE does what PROPAGATE
        does, and a NaN propagates under SATURATE too.
    given : Stored, optional
        Scales to encode against; its data is not read. Without `scale_data`, what it holds is the
        tensor scale of a larger array.
    encode : bool
        False: scales only, and no data.

    Returns
    -------
    Stored
        Arrays of the library; scales of 16-bit and narrower dtypes as their bits.
    """
    x = space.cast(x, "float32")
    if given is None or given.scale_data is None:
        tensor_scale = None if given is None else given.tensor_scale
        stored = _scales(space, x, plan, calibration, policy, tensor_scale)
    elif 0 in plan.shape:
        stored = given
    else:
        stored = _spoil(space, given, spoiled_blocks(space, x, plan, policy), plan)
    data = encoding.encode(space, x, plan, stored) if encode else None
    return Stored(data, stored.scale_data, stored.zero_point, stored.tensor_scale)


def _scales(
    space: Space,
    x: Array,
    plan: Plan,
    calibration: Calibration,
    policy: Policy,
    tensor_scale: Array | None,
) -> Stored:
    """Scales of an array by itself, or of a part of the one that a tensor scale was found in."""
    if 0 in plan.shape:
        return scales_of_nothing(space, plan)
    ranges = measure(space, x, plan, calibration, policy)
    return scales_of(space, ranges, plan, policy, tensor_scale)


def _spoil(space: Space, given: Stored, spoiled: Array, plan: Plan) -> Stored:
    """Given scales with NaN, and zero points with 0, for blocks that hold what must propagate."""
    dtype, zero_point = plan.scheme.scale_dtype, given.zero_point
    scale_data = scales.with_nan(space, given.scale_data, spoiled, dtype)
    if zero_point is not None:
        zero_point = zeros.cleared(space, zero_point, spoiled)
    return Stored(None, scale_data, zero_point, given.tensor_scale)


def dequantize(space: Space, stored: Stored, plan: Plan, dtype: str = "float32") -> Array:
    """Elements that a quantized array means.

    Parameters
    ----------
    space : Space
        Where to compute.
    stored : Stored
        The arrays of the quantized array.
    plan : Plan
        Its layout.
    dtype : str
        A float dtype of the library.

    Returns
    -------
    array of shape plan.shape
        The float32 product, rounded once more where `dtype` is narrower.
    """
    scheme = plan.scheme
    if 0 in plan.shape:
        return space.full(plan.shape, 0.0, dtype)
    fields = stored.data
    if scheme.store.is_packed:
        axis = plan.packed_axis
        extent = None if axis is None else plan.shape[axis]
        fields = words.unpack(space, fields, scheme.value, scheme.store, axis, extent)
    numbers = cut(space, elements.numbers_of_fields(space, fields, scheme), plan)
    factors = spread(space, effective_scales(space, stored, plan), plan)
    if scheme.zero is not None:
        zero = spread(space, zeros.decode(space, stored.zero_point, scheme.zero.dtype), plan)
        if scheme.zero.kind is ZeroKind.BIAS:
            numbers = settle(space, numbers * factors) + zero
        else:
            numbers = (numbers - zero) * factors
    else:
        numbers = numbers * factors
    return space.cast(join(space, numbers, plan), dtype)
