"""Indexing: integers, slices, Ellipsis, None, integer arrays and masks.

What an index means, and what it may not be, is NumPy's: every index is first put to an array of
the same shape that takes no memory. Whether the result stays quantized is decided by the blocks
of the axes alone: integers always do, slices where their step fits the block, arrays along axes
whose blocks have extent 1 or are a single block.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from arrayq.moves.blocks import AxisBlocks
from arrayq.moves.operations import Host
from arrayq.moves.parts import Parts, cannot_move, parts_of, probe
from arrayq.moves.positions import ARRAYS, Unseen, positions_in, seen_or_not
from arrayq.moves.words import fields_of, one_position, picked, words_of
from arrayq.recording import recorded
from arrayq.scheme import SPAN

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["getitem", "sliced", "take", "take_along_axis"]

_FULL = slice(None)


@recorded
def getitem(q: QuantizedArray, index: Any) -> QuantizedArray:
    """Return ``q[index]``; `QuantizedArray.__getitem__` documents it."""
    from arrayq.array import QuantizedArray

    listed = index if isinstance(index, tuple) else (index,)
    if all(type(entry) in _OWN for entry in listed):
        return _indexed(parts_of(q, "indexing"), listed, listed).close()
    if any(isinstance(entry, QuantizedArray) for entry in listed):
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    listed = tuple(seen_or_not(entry, "indexing") for entry in listed)
    return _indexed(_parts_for(q, "indexing", *listed), listed).close()


_BASIC: Final = frozenset({int, slice, type(None), type(Ellipsis)})
_OWN: Final = _BASIC | {list, np.ndarray}
"""Types of entries that are of no other library, although a list may hold what is."""


def _parts_for(q: QuantizedArray, operation: str, *positions: Any) -> Parts:
    """The parts of an array that some positions pick from: beside those that are unseen."""
    unseen = any(isinstance(one, Unseen) for one in positions)
    return parts_of(q, operation, in_library=unseen)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of an index and the first axis that it applies to."""

    index: Any
    axis: int

    @property
    def axes(self) -> int:
        """How many axes it applies to."""
        if self.index is None or self.index is Ellipsis:
            return 0
        return self.index.ndim if _is_mask(self.index) else 1

    @property
    def is_array(self) -> bool:
        """Whether it is an index array."""
        return isinstance(self.index, ARRAYS)


def _is_mask(index: Any) -> bool:
    return isinstance(index, np.ndarray) and index.dtype.kind == "b"


def _indexed(parts: Parts, index: tuple[Any, ...], probed: tuple[Any, ...] | None = None) -> Parts:
    """Apply an index in which arrays of other libraries are seen, or unseen.

    `probed` is the index that NumPy is asked about, where that is known.
    """
    if probed is None:
        probed = tuple(one.probe if isinstance(one, Unseen) else one for one in index)
    probe(parts.shape)[probed]
    index = tuple(entry if type(entry) in _BASIC else _array_or_basic(entry) for entry in index)
    entries = _entries(index, len(parts.axes))
    for axis, entry in ((e.axis, e.index) for e in entries if isinstance(e.index, slice)):
        if entry != _FULL:
            parts = sliced(parts, axis, range(parts.shape[axis])[entry])
    if any(entry.is_array for entry in entries):
        return _gathered(parts, entries)
    return _reduced(parts, entries)


def _array_or_basic(entry: Any) -> Any:
    """An entry of an index, with whatever NumPy reads as an array made one."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice | Unseen):
        return entry
    if isinstance(entry, bool | np.bool_):
        return np.asarray(entry)
    if isinstance(entry, np.ndarray) and entry.ndim:
        return entry
    try:
        return operator.index(entry)
    except TypeError:
        array = np.asarray(entry)
    if not array.size and not isinstance(entry, np.ndarray):
        return array.astype(np.intp)  # an empty list has no type of its own
    return array


def _entries(index: tuple[Any, ...], ndim: int) -> list[_Entry]:
    """Every entry with its axis; an Ellipsis, given or at the end, becomes full slices.

    One that stands for no axes stays: it keeps the arrays on its two sides apart.
    """
    named = sum(_Entry(entry, 0).axes for entry in index if entry is not Ellipsis)
    if not any(entry is Ellipsis for entry in index):
        index = (*index, Ellipsis)
    entries: list[_Entry] = []
    axis = 0
    for given in index:
        expands = given is Ellipsis and named < ndim
        for one in [_FULL] * (ndim - named) if expands else [given]:
            entries.append(_Entry(one, axis))
            axis += entries[-1].axes
    return entries


def sliced(parts: Parts, axis: int, picks: range, operation: str = "indexing") -> Parts:
    """Return the parts with some positions of an axis, evenly spaced.

    Raises
    ------
    LayoutError
        The step neither divides the block extent nor is a multiple of it.
    """
    kept = parts.axes[axis].sliced(picks)
    if kept is None:
        cannot_move(
            f"{operation} along axis {axis}",
            f"a step that divides the block extent {parts.axes[axis].extent} or is a multiple of "
            "it",
            f"a step of {picks.step}",
        )
    blocks, cells = kept
    axes = (*parts.axes[:axis], blocks, *parts.axes[axis + 1 :])
    return parts.moved(
        picked(parts, axis, picks), axes, parts.packed,
        lambda grid: parts.on.sliced(grid, axis, cells),
    )  # fmt: skip


def _reduced(parts: Parts, entries: list[_Entry]) -> Parts:
    """Apply integers and None; slices have been applied."""
    if all(entry.index is Ellipsis or isinstance(entry.index, slice) for entry in entries):
        return parts
    new_axis = AxisBlocks(1, 1 if parts.has_grid else SPAN)
    to_data: list[Any] = []
    to_grid: list[Any] = []
    axes: list[AxisBlocks] = []
    packed: int | None = None
    data = parts.data
    unpacked = False
    for entry in entries:
        if entry.index is Ellipsis:
            continue
        if entry.index is None:
            axes.append(new_axis)
            to_data.append(None)
            to_grid.append(None)
            continue
        blocks = parts.axes[entry.axis]
        if isinstance(entry.index, slice):
            packed = len(axes) if entry.axis == parts.packed else packed
            axes.append(blocks)
            to_data.append(_FULL)
            to_grid.append(_FULL)
            continue
        position = entry.index % blocks.length
        to_grid.append(blocks.cell(position))
        if entry.axis == parts.packed:
            data, unpacked = one_position(parts, entry.axis, position), True
        else:
            to_data.append(position)
    data = parts.on.indexed(data, (*to_data, ...))
    if parts.scheme.store.is_packed and packed is None and axes:
        # The packed axis is gone, or there was none: the innermost one takes its place.
        packed = len(axes) - 1
    if unpacked:
        data = words_of(parts, data, packed)
    return parts.moved(data, axes, packed, lambda grid: parts.on.indexed(grid, (*to_grid, ...)))


def _gathered(parts: Parts, entries: list[_Entry]) -> Parts:
    """Apply integer arrays and masks, with integers and None; slices have been applied."""
    on = parts.on
    indexed = [
        (axis, array)
        for entry in entries
        if entry.is_array
        for axis, array in enumerate(_integer_arrays(entry.index), entry.axis)
    ]
    for axis, array in indexed:
        blocks = parts.axes[axis]
        if _is_by_element(blocks) and blocks.extent != 1 and not _is_number(array):
            cannot_move(
                f"indexing axis {axis} with an array",
                "blocks of extent 1 or a single block along it",
                f"{blocks.cells} blocks of extent {blocks.extent}",
            )
    shape = np.broadcast_shapes(*(array.shape for _, array in indexed), *_flag_shapes(entries))
    axes, packed = _gathered_axes(parts, entries, indexed, shape)
    key = tuple(_FULL if isinstance(e.index, slice) else e.index for e in entries)
    if parts.axes and (parts.packed is None or _is_kept(parts.packed, entries)):
        data = on.gathered(parts.data, key)
    else:
        data = words_of(parts, on.gathered(fields_of(parts), key), packed)
    if not parts.has_grid:
        return parts.moved(data, axes, packed, lambda grid: grid)
    to_grid = _grid_key(parts, entries, shape)
    return parts.moved(data, axes, packed, lambda grid: on.gathered(grid, to_grid))


def _is_number(array: Host | Unseen) -> bool:
    """Whether an unseen array is a single position, which removes its axis as an integer does."""
    return isinstance(array, Unseen) and not array.ndim


def _integer_arrays(index: Host | Unseen) -> tuple[Host | Unseen, ...]:
    """The arrays of integers, one for each axis, that an index array stands for."""
    if isinstance(index, Unseen) or index.dtype.kind != "b":
        return (index,)
    return index.nonzero() if index.ndim else ()


def _flag_shapes(entries: list[_Entry]) -> list[tuple[int]]:
    """What masks without axes add to the shape of the gathered axes: one of length 0 or 1."""
    return [(int(e.index),) for e in entries if _is_mask(e.index) and not e.index.ndim]


def _is_kept(axis: int, entries: list[_Entry]) -> bool:
    return any(isinstance(e.index, slice) and e.axis == axis for e in entries)


def _gathered_axes(
    parts: Parts,
    entries: list[_Entry],
    indexed: list[tuple[int, Host | Unseen]],
    shape: tuple[int, ...],
) -> tuple[list[AxisBlocks], int | None]:
    """Blocks and packed axis of the result of index arrays that broadcast to `shape`."""
    by_element = [array.shape for axis, array in indexed if _is_by_element(parts.axes[axis])]
    own = np.broadcast_shapes(*by_element) if by_element else None
    if len(indexed) == 1 and len(shape) == 1 and own is None:
        gathered = [parts.axes[indexed[0][0]].gathered(shape[0])]
    else:
        own_shape = None if own is None else (1,) * (len(shape) - len(own)) + own
        gathered = [
            AxisBlocks(length, 1 if own_shape and own_shape[place] == length else SPAN)
            for place, length in enumerate(shape)
        ]
    advanced = [
        place for place, entry in enumerate(entries)
        if entry.is_array or isinstance(entry.index, int)
    ]  # fmt: skip
    # NumPy's rule: neighbouring arrays are replaced where they stand, others come first.
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    axes: list[AxisBlocks] = [] if together else list(gathered)
    first = 0
    packed = None
    for place, entry in enumerate(entries):
        if place == advanced[0] and together:
            first = len(axes)
            axes += gathered
        if entry.index is None:
            axes.append(AxisBlocks(1, 1 if parts.has_grid else SPAN))
        elif isinstance(entry.index, slice):
            packed = len(axes) if entry.axis == parts.packed else packed
            axes.append(parts.axes[entry.axis])
    if not parts.scheme.store.is_packed:
        return axes, None
    if packed is None:
        by_array = shape and any(axis == parts.packed for axis, _ in indexed)
        packed = first + len(shape) - 1 if by_array else len(axes) - 1
    return axes, packed


def _is_by_element(blocks: AxisBlocks) -> bool:
    return not blocks.is_one_block


def _grid_key(parts: Parts, entries: list[_Entry], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The index that picks the cells of the picked elements from a grid."""
    one = np.zeros(tuple(min(1, length) for length in shape), np.intp)
    key: list[Any] = []
    for entry in entries:
        if isinstance(entry.index, slice):
            key.append(_FULL)
        elif entry.index is None or entry.index is Ellipsis:
            key.append(entry.index)
        elif isinstance(entry.index, int):
            blocks = parts.axes[entry.axis]
            key.append(blocks.cell(entry.index % blocks.length))
        elif not entry.axes:
            key.append(entry.index)
        else:
            for axis, array in enumerate(_integer_arrays(entry.index), entry.axis):
                blocks = parts.axes[axis]
                if _is_number(array):
                    array = parts.on.cell_of(array, blocks)  # type: ignore[arg-type]
                key.append(array if _is_by_element(blocks) else one)
    return tuple(key)


@recorded
def take(q: QuantizedArray, indices: Any, axis: int | None = None) -> QuantizedArray:
    """Return the elements at some positions of an axis.

    Stays quantized along axes whose blocks have extent 1 or are a single block, whatever the
    indices are.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    indices : int or array of int
        The positions; negative ones count from the end.
    axis : int, optional
        The axis; by default the array is flattened first.

    Returns
    -------
    QuantizedArray
        The elements; the axis is replaced by the axes of `indices`.

    Raises
    ------
    LayoutError
        The axis has several blocks of more than one element.
    IndexError
        A position or an axis does not exist, in NumPy's words.
    """
    if axis is None:
        from arrayq.moves.reshaping import reshape

        return take(reshape(q, (-1,)), indices, 0)
    positions = positions_in(indices, "take")
    parts = _parts_for(q, "take", positions)
    place = normalize_axis_index(axis, len(parts.axes))
    if isinstance(positions, Unseen):
        entry: Any = positions
    else:
        np.take(probe(parts.shape), positions, axis=place)
        entry = positions if positions.ndim else int(positions)
    return _indexed(parts, (_FULL,) * place + (entry,)).close()


@recorded
def take_along_axis(q: QuantizedArray, indices: Any, axis: int = -1) -> QuantizedArray:
    """Return, for each line along an axis, the elements at positions of its own.

    Stays quantized where the axis is a single block, or where every element along all axes has a
    scale of its own.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    indices : array of int
        The positions; of the rank of `q`, the other axes broadcast.
    axis : int
        The axis.

    Returns
    -------
    QuantizedArray
        The elements, of the shape of `indices` broadcast.

    Raises
    ------
    LayoutError
        The axis has several blocks and some axis has blocks of more than one element.
    IndexError, ValueError
        A position or an axis does not exist, or the ranks differ, in NumPy's words.
    """
    from arrayq.moves.axes import broadcast_parts

    positions = positions_in(indices, "take_along_axis")
    parts = _parts_for(q, "take_along_axis", positions)
    on, place = parts.on, normalize_axis_index(axis, len(parts.axes))
    on.require("take_along_axis", "take_along_axis")
    probed = positions.probe if isinstance(positions, Unseen) else positions
    shape = np.take_along_axis(probe(parts.shape), probed, place).shape
    along = parts.axes[place]
    others = (*shape[:place], along.length, *shape[place + 1 :])
    if along.is_one_block:
        parts = broadcast_parts(parts, others)
        fields = on.taken_along(fields_of(parts), positions, place)
        axes = list(parts.axes)
        axes[place] = along.gathered(shape[place])
        cells = range(min(1, shape[place]))
        return parts.moved(
            words_of(parts, fields, parts.packed), axes, parts.packed,
            lambda grid: on.sliced(grid, place, cells),
        ).close()  # fmt: skip
    if not all(blocks.extent == 1 or blocks.length == 1 for blocks in parts.axes):
        cannot_move(
            f"take_along_axis along axis {place}",
            "a single block along it, or blocks of extent 1 along every axis",
            f"blocks of {tuple(blocks.extent for blocks in parts.axes)}",
        )
    fields = on.taken_along(fields_of(parts), positions, place)
    return parts.moved(
        words_of(parts, fields, parts.packed),
        (AxisBlocks(length, 1) for length in shape),
        parts.packed,
        lambda grid: on.taken_along(grid, positions, place),
    ).close()


def positions_of(parts: Parts, axis: int, positions: Iterable[int]) -> Parts:
    """Return the parts with positions of an axis in any order; none of them is negative."""
    return _indexed(parts, (_FULL,) * axis + (np.fromiter(positions, np.intp),))
