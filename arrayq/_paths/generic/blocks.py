"""Blocks of arrays: elements split into blocks, blocks reduced, grids spread over elements.

An axis with several blocks of several elements becomes two, a place on the grid and a place in
the block. An axis that is one block, or whose blocks are single elements, stays as it is. So the
usual case, blocks along the last axis that divide it, is one reshape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from arrayq._paths.space import Array, Space
from arrayq.layout import Plan

__all__ = ["beside", "cut", "expand", "join", "places", "reduce", "split", "spread"]


@dataclass(frozen=True, slots=True)
class Split:
    """Shapes of an array whose axes are split into blocks.

    Attributes
    ----------
    padding : tuple of (int, int)
        Elements missing from the first and the last block of each axis.
    shape : tuple of int
        Shape of the padded array with its axes split.
    within : tuple of int
        Axes of `shape` that lie within blocks.
    kept : tuple of int
        `shape` with 1 for the axes within blocks: the shape of a grid beside the elements.
    """

    padding: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]
    within: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def even(self) -> bool:
        """Whether no element is missing from any block."""
        return not any(before or after for before, after in self.padding)


@lru_cache(maxsize=4096)
def _split_of(plan: Plan) -> Split:
    padding: list[tuple[int, int]] = []
    shape: list[int] = []
    within: list[int] = []
    kept: list[int] = []
    for length, block, offset, cells in zip(
        plan.shape, plan.block, plan.block_offset, plan.grid, strict=True
    ):
        if cells == 1:
            # one block, whole or not: nothing is compared across its edge
            padding.append((0, 0))
            within.append(len(shape))
            shape.append(length)
            kept.append(1)
        elif block == 1:
            padding.append((0, 0))
            shape.append(length)
            kept.append(length)
        else:
            padding.append((offset, cells * block - offset - length))
            within.append(len(shape) + 1)
            shape += [cells, block]
            kept += [cells, 1]
    return Split(tuple(padding), tuple(shape), tuple(within), tuple(kept))


def split(space: Space, x: Array, plan: Plan, padding: float) -> Array:
    """Return an array split into blocks, what is missing from blocks filled with a number."""
    parts = _split_of(plan)
    for axis, (before, after) in enumerate(parts.padding):
        pieces = [
            _filled(space, x, axis, before, padding),
            x,
            _filled(space, x, axis, after, padding),
        ]
        if before or after:
            x = space.xp.concat([piece for piece in pieces if piece is not None], axis=axis)
    return space.xp.reshape(x, parts.shape)


def _filled(space: Space, x: Array, axis: int, length: int, number: float) -> Array | None:
    if not length:
        return None
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    return space.xp.broadcast_to(space.xp.full((), number, dtype=x.dtype, **space.on()), shape)


def reduce(space: Space, x: Array, plan: Plan, reduction: Callable[..., Array]) -> Array:
    """Reduce each block of a split array with ``max``, ``min``, ``any`` or ``all``: a grid."""
    parts = _split_of(plan)
    if parts.within:
        x = reduction(x, axis=parts.within)
    return space.xp.reshape(x, plan.grid)


def beside(space: Space, grid: Array, plan: Plan) -> Array:
    """Return a grid in a shape that broadcasts against `split` elements."""
    return space.xp.reshape(grid, _split_of(plan).kept)


def spread(space: Space, grid: Array, plan: Plan) -> Array:
    """Return a grid in a shape that broadcasts against `cut` elements."""
    parts = _split_of(plan)
    if space.by_index:
        return _by_index(space, grid, plan)
    if parts.even:
        return space.xp.reshape(grid, parts.kept)
    return expand(space, grid, plan)


def cut(space: Space, x: Array, plan: Plan) -> Array:
    """Return an array, for arithmetic with `spread` grids; `join` undoes it."""
    parts = _split_of(plan)
    return space.xp.reshape(x, parts.shape) if parts.even and not space.by_index else x


def join(space: Space, x: Array, plan: Plan) -> Array:
    """Return what `cut` made, in the shape of the array."""
    return space.xp.reshape(x, plan.shape)


def expand(space: Space, grid: Array, plan: Plan) -> Array:
    """Return a grid value for each element: an array of ``plan.shape``."""
    if space.by_index:
        return space.xp.broadcast_to(_by_index(space, grid, plan), plan.shape)
    parts = _split_of(plan)
    x = space.xp.broadcast_to(space.xp.reshape(grid, parts.kept), parts.shape)
    padded = [
        before + length + after
        for length, (before, after) in zip(plan.shape, parts.padding, strict=True)
    ]
    x = space.xp.reshape(x, tuple(padded))
    for axis, (before, after) in enumerate(parts.padding):
        if before or after:
            window = slice(before, before + plan.shape[axis])
            x = x[(slice(None),) * axis + (window, ...)]
    return x


def _by_index(space: Space, grid: Array, plan: Plan) -> Array:
    axes = zip(plan.shape, plan.block, plan.block_offset, plan.grid, strict=True)
    for axis, (length, block, offset, cells) in enumerate(axes):
        if cells > 1 and block > 1:
            cell = (space.arange(length, space.index_integer) + offset) // block
            grid = space.xp.take(grid, cell, axis=axis)
    return grid


def places(space: Space, plan: Plan) -> Array:
    """Return the place of each element of a split array in the C order of the array, int32; it
    broadcasts along the axes that lie across blocks, whose elements are never compared.
    """
    parts = _split_of(plan)
    place = space.full((1,) * len(parts.shape), 0, "int32")
    step = 1
    for axis in reversed(parts.within):
        length = parts.shape[axis]
        shape = [1] * len(parts.shape)
        shape[axis] = length
        place = place + space.xp.reshape(space.arange(length), tuple(shape)) * step
        step *= length
    return place
