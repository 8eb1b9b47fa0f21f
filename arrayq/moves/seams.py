"""Parts laid end to end, and what decides whether they may be.

A seam is exact on a block boundary, inside which nothing matters; where a part lies inside one
block; and where both sides have the same scales. Scales that may not be looked at are the same
only where they are the very same array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from arrayq.moves.blocks import AxisBlocks, joined
from arrayq.moves.operations import Array, Host
from arrayq.moves.parts import Parts, cannot_move
from arrayq.moves.words import fields_of, words_of
from arrayq.scheme import SPAN

__all__ = ["join", "with_blocks"]


def join(
    parts: Sequence[Parts], axis: int, operation: str, forced: AxisBlocks | None = None
) -> Parts:
    """Lay parts end to end along an axis.

    Parameters
    ----------
    parts : sequence of Parts
        Parts of one format and one tensor scale, all where the first is.
    axis : int
        The axis.
    operation : str
        What for, for messages.
    forced : AxisBlocks, optional
        The blocks of the joined axis, where they are known.

    Returns
    -------
    Parts
        The joined parts.

    Raises
    ------
    LayoutError
        Blocks do not allow it.
    """
    first = parts[0]
    for other in parts[1:]:
        for place, (blocks, expected) in enumerate(zip(other.axes, first.axes, strict=True)):
            if place != axis and blocks.partition != expected.partition:
                cannot_move(
                    operation,
                    f"the same blocks in every part along axis {place}",
                    f"extents {expected.extent} and {blocks.extent} at offsets "
                    f"{expected.offset} and {blocks.offset}",
                )
    filled = [one for one in parts if one.axes[axis].length] or [first]
    first = filled[0]
    if len(filled) == 1:
        return replace(first, axes=with_blocks(first, axis, forced)) if forced else first
    lines = [one.axes[axis] for one in filled]

    def shares(i: int) -> bool:
        return _same_slab(filled[i - 1], -1, filled[i], 0, axis)

    whole = forced or joined(lines, shares)
    if whole is None and _is_uniform(filled, axis):
        whole = AxisBlocks(sum(line.length for line in lines), SPAN)
    if whole is None:
        seen = "" if first.on.sees_values else " (which traced and lazy arrays do not show)"
        cannot_move(
            f"{operation} along axis {axis}",
            f"seams on block boundaries, or the same scales on both sides{seen}",
            "parts of blocks "
            + ", ".join(f"[{b.extent}] at {b.offset} of length {b.length}" for b in lines[:4])
            + (" ..." if len(lines) > 4 else ""),
        )
    data = _joined_data(filled, axis)
    grids = {
        name: first.on.joined(_new_cells(filled, name, axis, whole), axis) for name in first.grids
    }
    return replace(first, axes=with_blocks(first, axis, whole), data=data, grids=grids)


def with_blocks(parts: Parts, axis: int, blocks: AxisBlocks) -> tuple[AxisBlocks, ...]:
    """Return the axes of parts with other blocks along one."""
    return (*parts.axes[:axis], blocks, *parts.axes[axis + 1 :])


def _new_cells(filled: list[Parts], name: str, axis: int, whole: AxisBlocks) -> list[Array]:
    """For each part, the cells that do not go on from the part before it."""
    on = filled[0].on
    if whole.extent == SPAN:
        return [on.sliced(filled[0].grids[name], axis, range(1))]
    cells = []
    start, last = 0, -1
    for one in filled:
        length = one.axes[axis].length
        goes_on = whole.cell(start) == last
        grid = one.grids[name]
        cells.append(on.sliced(grid, axis, range(int(goes_on), grid.shape[axis])))
        start += length
        last = whole.cell(start - 1)
    return cells


def _slab(grid: Host, cell: int, axis: int) -> Host:
    """Scales of one cell along an axis, as integers, so that NaN equals itself."""
    slab = np.ascontiguousarray(grid.take([cell], axis))
    return slab.view(f"u{slab.itemsize}")


def _same_slab(left: Parts, left_cell: int, right: Parts, right_cell: int, axis: int) -> bool:
    pairs = [(left.grids[name], right.grids[name]) for name in left.grids]
    if not left.on.sees_values or not right.on.sees_values:
        return all(one is other and one.shape[axis] == 1 for one, other in pairs)
    return all(
        np.array_equal(_slab(left.on.fetched(one), left_cell, axis),
                       _slab(right.on.fetched(other), right_cell, axis))
        for one, other in pairs
    )  # fmt: skip


def _is_uniform(filled: list[Parts], axis: int) -> bool:
    """Whether all cells of all parts along an axis are known to have the same scales."""
    if not all(one.on.sees_values for one in filled):
        return False
    for name, grid in filled[0].grids.items():
        expected = _slab(filled[0].on.fetched(grid), 0, axis)
        for one in filled:
            bits = np.ascontiguousarray(one.on.fetched(one.grids[name]))
            if not (bits.view(f"u{bits.itemsize}") == expected).all():
                return False
    return True


def _joined_data(filled: list[Parts], axis: int) -> Array:
    first = filled[0]
    packed = first.packed
    alike = [one if one.packed == packed else _repacked(one, packed) for one in filled]
    per_word = first.codes_per_word
    whole_words = all(one.axes[axis].length % per_word == 0 for one in alike[:-1])
    if axis != packed or whole_words:
        return first.on.joined([one.data for one in alike], axis)
    return words_of(first, first.on.joined([fields_of(one) for one in alike], axis), packed)


def _repacked(parts: Parts, packed: int | None) -> Parts:
    return replace(parts, data=words_of(parts, fields_of(parts), packed), packed=packed)
