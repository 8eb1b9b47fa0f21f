"""Which elements share a scale: rank-relative rectangles on the trailing axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def extents(shape: Sequence[int], block: Sequence[int] | None) -> tuple[int, ...]:
    """Return the block's extent along every axis, -1 and too long ones resolved to the axis."""
    if block is None:
        return tuple(max(length, 1) for length in shape)
    if len(block) > len(shape):
        raise ValueError(f"a block of {len(block)} axes on an array of {len(shape)}")
    full = (1,) * (len(shape) - len(block)) + tuple(block)
    return tuple(max(n, 1) if size == -1 else size for n, size in zip(shape, full, strict=True))


def grid_shape(
    shape: Sequence[int], block: Sequence[int] | None, offset: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Return how many blocks stand along every axis."""
    if block is None:
        return (1,) * len(shape)
    starts = offset or (0,) * len(shape)
    sizes = extents(shape, block)
    return tuple(-(-(s + n) // size) for s, n, size in zip(starts, shape, sizes, strict=True))


def cell_numbers(
    shape: Sequence[int], block: Sequence[int] | None, offset: Sequence[int] | None = None
) -> npt.NDArray[np.int64]:
    """Return, for every element, the C-order number of its block in the grid."""
    starts = offset or (0,) * len(shape)
    numbers = np.zeros(tuple(shape), np.int64)
    grid = grid_shape(shape, block, offset)
    # Without blocks, one block spans everything; its size is then of no account.
    sizes = extents(shape, block) if block is not None else tuple(max(n, 1) for n in shape)
    for axis, length in enumerate(shape):
        along = (np.arange(length) + starts[axis]) // sizes[axis]
        line = along.reshape([-1 if k == axis else 1 for k in range(len(shape))])
        numbers = numbers * grid[axis] + line
    return numbers


def members(cells: npt.NDArray[np.int64], count: int) -> list[list[int]]:
    """Return the flat C-order positions of the elements of every block."""
    lists: list[list[int]] = [[] for _ in range(count)]
    for position, cell in enumerate(cells.ravel().tolist()):
        lists[cell].append(position)
    return lists
