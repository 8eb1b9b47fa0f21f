"""Words, and entries of grids, in another order of their axes."""

from __future__ import annotations

import numpy as np

from arrayq._kernels import kernels
from arrayq.moves.operations import Host

__all__ = ["transposed"]

# Shorter runs are not worth the tiles of the kernel, whose sides are a cache line.
_SHORTEST_SIDE = 16


def transposed(data: Host, order: tuple[int, ...]) -> Host:
    """Return contiguous data with its axes in another order.

    Where the innermost axis stays innermost, runs of words are copied; otherwise matrices of
    words are transposed in tiles.
    """
    view = data.transpose(order)
    if view.flags.c_contiguous or not data.flags.c_contiguous or data.itemsize == 2:
        return np.ascontiguousarray(view)
    # Axes that stay neighbours move as one, which leaves fewer and longer ones.
    shape, runs = _merged(data.shape, order)
    last = len(shape) - 1
    inner = runs[last]
    if inner == last or min(shape[inner], shape[last]) < _SHORTEST_SIDE:
        return np.ascontiguousarray(view)
    result = np.empty(view.shape, data.dtype)
    source, target = data.reshape(shape), result.reshape([shape[axis] for axis in runs])
    to = [runs.index(axis) for axis in range(last + 1)]
    around = [axis for axis in range(last + 1) if axis not in (inner, last)]
    outer = np.array(
        [
            [shape[axis] for axis in around],
            [source.strides[axis] for axis in around],
            [target.strides[to[axis]] for axis in around],
        ],
        np.int64,
    ).reshape(3, len(around))
    kernels.moves.transpose(
        source.reshape(-1).view(np.uint8), outer, shape[inner], shape[last],
        source.strides[inner], target.strides[to[last]], data.itemsize,
        target.reshape(-1).view(np.uint8),
    )  # fmt: skip
    return result


def _merged(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Merge runs of axes that are neighbours before and after; drop axes of length one."""
    runs: list[list[int]] = []
    kept = [axis for axis in range(len(shape)) if shape[axis] != 1]
    rank = {axis: place for place, axis in enumerate(kept)}
    for axis in (axis for axis in order if axis in rank):
        if runs and rank[axis] == rank[runs[-1][-1]] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    by_start = sorted(runs)
    lengths = [int(np.prod([shape[axis] for axis in run])) for run in by_start]
    return lengths, [by_start.index(run) for run in runs]
