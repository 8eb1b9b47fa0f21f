"""The graph of quantize."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, groupby
from typing import Any

import dask
import dask.array as da
from dask.utils import parse_bytes

from arrayq._paths.chunked.again import made_again
from arrayq._paths.chunked.alignment import Alignment, Chunks, Part, align, parts_of_grid
from arrayq._paths.chunked.chunk import (
    Encode,
    MeasureBlocks,
    MeasureTensor,
    Rules,
    Settle,
    TensorScale,
)
from arrayq._paths.chunked.grids import beside, combine, element, empty, rechunked, shrink
from arrayq._paths.parts import Policy, Stored
from arrayq._paths.space import Space
from arrayq.layout import Plan
from arrayq.numerics import Calibration, ScaleFrom

__all__ = ["quantize"]

Array = Any
_Parts = Mapping[str, Array]


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
    """Scales and codes of an array, when they are asked for.

    Parameters
    ----------
    space : Space
        Not used: each chunk is computed where it is.
    x : dask array of floats, of shape plan.shape
        The array, in any chunks of known sizes.
    plan : Plan
        Its layout.
    calibration : Calibration
        How the elements of a block give its range.
    policy : Policy
        What to do about NaN and infinities. RAISE, and SATURATE for NaN, raise NonFiniteError
        when the chunk that holds them is computed.
    given : Stored, optional
        Scales to encode against; its data is not read.
    encode : bool
        False: scales only, and no data.

    Returns
    -------
    Stored
        Arrays of dask. Computed together they read each chunk of `x` once, and once more where
        there is a tensor scale to find or a block has several chunks.
    """
    alignment = _aligned(x, plan, calibration, given)
    source, x = x, rechunked(x, alignment.chunks)
    starts: Chunks = ()
    if policy is not Policy.PROPAGATE:
        starts = tuple((0, *accumulate(lengths[:-1])) for lengths in x.chunks)
    rules = Rules(plan.scheme, calibration, policy, starts)
    parts = parts_of_grid(plan, x.chunks)
    before = {} if given is None else _known(given)
    known = before
    if alignment.splits_blocks:
        known = _of_split_blocks(x, rules, alignment, parts, known)
    elif plan.scheme.two_level and not known:
        bounds = _measured(x, MeasureTensor(rules), tuple((1,) * count for count in x.numblocks))
        known = {"tensor_scale": _tensor_scale(shrink(bounds), rules)}
    if alignment.splits_blocks and not encode:
        return _stored(None, known)
    found = [part for name, part in known.items() if part is not before.get(name)]
    if found:
        x = rechunked(made_again(source, found), x.chunks)
    grids = [beside(part, parts) if part.ndim else part for part in known.values()]
    encoded = x.map_blocks(
        Encode(rules, tuple(known), encode), *grids, dtype=object, meta=empty(x.ndim, "object"),
    )  # fmt: skip
    data = element(encoded, 0, plan.data_dtype, _word_chunks(x, plan)) if encode else None
    if not alignment.splits_blocks:
        known = {**known, **_grids(encoded, rules, _counts(parts))}
    return _stored(data, known)


def _aligned(x: Array, plan: Plan, calibration: Calibration, given: Stored | None) -> Alignment:
    """Return the chunks to work in; blocks whose pieces cannot be combined lie in one chunk."""
    combines = given is not None or (
        # a mean depends on the order of its sums, and the first of equals on that of elements
        calibration is Calibration.MINMAX
        and plan.scheme.numerics.scale_from is not ScaleFrom.SIGNED_MAX
    )
    limit = parse_bytes(dask.config.get("array.chunk-size"))
    return align(plan, x.chunks, x.dtype.itemsize, whole=not combines, limit=limit)


def _known(given: Stored) -> dict[str, Array]:
    """Return the parts that are given, by name, as arrays of dask."""
    names = ("scale_data", "zero_point", "tensor_scale")
    parts = {name: getattr(given, name) for name in names}
    return {name: da.asarray(part) for name, part in parts.items() if part is not None}


def _stored(data: Array, known: _Parts) -> Stored:
    return Stored(data, known["scale_data"], known.get("zero_point"), known.get("tensor_scale"))


def _counts(parts: tuple[tuple[Part, ...], ...]) -> Chunks:
    """Return how many entries of a grid belong to each chunk, by axis."""
    return tuple(tuple(part.end - part.first for part in along) for along in parts)


def _word_chunks(x: Array, plan: Plan) -> Chunks:
    """Return the chunks of the data."""
    if plan.packed_axis is None:
        return tuple(x.chunks)
    words = tuple(-(-length // plan.codes_per_word) for length in x.chunks[plan.packed_axis])
    return (*x.chunks[: plan.packed_axis], words, *x.chunks[plan.packed_axis + 1 :])


def _grids(tuples: Array, rules: Rules, chunks: Chunks) -> dict[str, Array]:
    """Return scales and zero points out of what tasks returned."""
    scheme = rules.scheme
    grids = {"scale_data": element(tuples, 1, scheme.scale_dtype.stored_dtype, chunks)}
    if scheme.zero is not None:
        grids["zero_point"] = element(tuples, 2, scheme.zero.dtype.stored_dtype, chunks)
    return grids


def _measured(x: Array, task: MeasureBlocks | MeasureTensor, counts: Chunks) -> Array:
    """Return the bounds that a task finds in each chunk."""
    return x.map_blocks(
        task, new_axis=[x.ndim], chunks=(*counts, (3,)), dtype="float32",
        meta=empty(x.ndim + 1, "float32"),
    )  # fmt: skip


def _tensor_scale(bounds: Array, rules: Rules) -> Array:
    return da.blockwise(
        TensorScale(rules), (), bounds, tuple(range(bounds.ndim)), concatenate=True,
        dtype="float32", meta=empty(0, "float32"),
    )  # fmt: skip


def _of_split_blocks(
    x: Array,
    rules: Rules,
    alignment: Alignment,
    parts: tuple[tuple[Part, ...], ...],
    known: _Parts,
) -> dict[str, Array]:
    """Return scales of blocks of several chunks, from what is measured of their pieces.

    Given scales become NaN, for all chunks of a block, if one holds what propagates.
    """
    known = dict(known)
    if known and rules.policy is not Policy.PROPAGATE:
        return known
    bounds = _measured(x, MeasureBlocks(rules), _counts(parts))
    for axis, split in enumerate(alignment.split):
        if split:
            blocks = groupby(part.first for part in parts[axis])
            bounds = combine(bounds, axis, [len(list(pieces)) for _, pieces in blocks])
    if rules.scheme.two_level and not known:
        known["tensor_scale"] = _tensor_scale(shrink(bounds), rules)
    axes, chunks = tuple(range(x.ndim)), bounds.chunks[:-1]
    operands = [bounds, (*axes, x.ndim)]
    for part in known.values():
        operands += [rechunked(part, chunks), axes] if part.ndim else [part, ()]
    settled = da.blockwise(
        Settle(rules, tuple(known)), axes, *operands, concatenate=True, align_arrays=False,
        dtype=object, meta=empty(x.ndim, "object"),
    )  # fmt: skip
    return {**known, **_grids(settled, rules, chunks)}
