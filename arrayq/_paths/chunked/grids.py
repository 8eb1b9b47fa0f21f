"""Arrays with an entry for each block, as arrays of dask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np

from arrayq._paths.chunked import bounds as bounds_of
from arrayq._paths.chunked.alignment import Chunks, Part
from arrayq.namespaces import located

__all__ = ["beside", "combine", "element", "empty", "rechunked", "shrink"]

Array = Any

# How many pieces of a block one task combines.
FAN = 8


def rechunked(x: Array, chunks: Chunks) -> Array:
    """Return the array in other chunks.

    Every chunk is made of its neighbours, so that tasks that depend on those alone serve best: a
    cluster would otherwise shuffle all chunks at once.
    """
    if x.chunks == chunks:
        return x
    if 0 in x.shape:
        # dask leaves some of these in their chunks
        return da.zeros_like(x, chunks=chunks)
    return x.rechunk(chunks, method="tasks")


@dataclass(frozen=True, slots=True)
class _Element:
    number: int

    __name__ = "part"

    def __call__(self, together: tuple[Array, ...]) -> Array:
        return together[self.number]


def element(tuples: Array, number: int, dtype: str, chunks: Chunks) -> Array:
    """Return one array of those that tasks returned together."""
    return tuples.map_blocks(
        _Element(number), dtype=dtype, chunks=chunks, meta=empty(len(chunks), dtype),
    )  # fmt: skip


def empty(ndim: int, dtype: Any) -> Array:
    """Return the array that tells dask the type of chunks.

    It has no elements but where there are no axes: dask names tasks by it, so that it is zero.
    """
    return np.zeros((0,) * ndim, dtype)


@dataclass(frozen=True, slots=True)
class _Combine:
    axes: tuple[int, ...]

    __name__ = "combine"

    def __call__(self, bounds: Array) -> Array:
        return bounds_of.combined(located(bounds).access.namespace(bounds), bounds, self.axes)


def combine(bounds: Array, axis: int, pieces: Sequence[int]) -> Array:
    """Combine the bounds of the pieces of blocks along an axis.

    Parameters
    ----------
    bounds : dask array of shape (..., 3)
        Bounds in chunks of length 1 along `axis`.
    axis : int
        The axis.
    pieces : sequence of int
        How many neighbours belong to each block.
    """
    while max(pieces) > 1:
        fans = [[min(FAN, count - start) for start in range(0, count, FAN)] for count in pieces]
        merged = tuple(length for fan in fans for length in fan)
        chunks = (*bounds.chunks[:axis], merged, *bounds.chunks[axis + 1 :])
        bounds = rechunked(bounds, chunks)
        chunks = (*chunks[:axis], (1,) * len(merged), *chunks[axis + 1 :])
        bounds = bounds.map_blocks(
            _Combine((axis,)), dtype="float32", chunks=chunks,
            meta=empty(bounds.ndim, "float32"),
        )  # fmt: skip
        pieces = [len(fan) for fan in fans]
    return bounds


def shrink(bounds: Array) -> Array:
    """Combine all bounds into those of one block."""
    axes = tuple(range(bounds.ndim - 1))
    ones = tuple((1,) * len(lengths) for lengths in bounds.chunks[:-1])
    if any(length != 1 for lengths in bounds.chunks[:-1] for length in lengths):
        bounds = bounds.map_blocks(
            _Combine(axes), dtype="float32", chunks=(*ones, (3,)),
            meta=empty(bounds.ndim, "float32"),
        )  # fmt: skip
    for axis in axes:
        bounds = combine(bounds, axis, [bounds.numblocks[axis]])
    return bounds


def beside(grid: Array, parts: tuple[tuple[Part, ...], ...]) -> Array:
    """Lay a grid out so that each of its chunks holds what belongs to a chunk of elements.

    Parameters
    ----------
    grid : dask array
        One entry for each block.
    parts : tuple of tuple of Part
        What belongs to the chunks, by axis.

    Returns
    -------
    dask array
        As many chunks as `parts` along each axis, or one where all share an entry: entries that
        several chunks need are repeated.
    """
    for axis, along in enumerate(parts):
        if grid.shape[axis] > 1 and any(one.end > two.first for one, two in pairwise(along)):
            entries = [entry for part in along for entry in range(part.first, part.end)]
            grid = da.take(grid, np.array(entries), axis=axis)
    chunks = tuple(
        (length,) if length == 1 else tuple(part.end - part.first for part in along)
        for length, along in zip(grid.shape, parts, strict=True)
    )
    return rechunked(grid, chunks)
