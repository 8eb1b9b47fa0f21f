"""Index arrays in pure array API: one flat ``take`` for whatever NumPy's index means.

No library has all of NumPy's indexing, but each can take positions along one axis. So the indexed
axes are read as one, and their positions counted along it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from arrayq._paths.space import Array, Space
from arrayq.errors import ArrayTypeError
from arrayq.interop.access import Access, Host
from arrayq.moves.blocks import AxisBlocks
from arrayq.moves.positions import ARRAYS, Unseen

__all__ = ["Place", "cell_of", "gathered", "taken_along"]

_LARGEST_INT32: Final = 2**31 - 1


class Place(NamedTuple):
    """Where arrays are.

    Attributes
    ----------
    access : Access
        How they are reached.
    space : Space
        Where they are computed.
    like : array
        One of them.
    """

    access: Access
    space: Space
    like: Any

    def positions(self, seen: Host, length: int) -> Array:
        """Return positions of NumPy's beside the arrays; none of them is negative."""
        return self.access.asarray(seen.astype(self.dtype(length)), self.like)

    def dtype(self, length: int) -> str:
        """Return the dtype of positions along an axis of some length.

        Libraries that put words together in int64 take positions of no other dtype everywhere.
        """
        has_int64 = self.space.word_integer == "int64"
        return "int64" if has_int64 or length > _LARGEST_INT32 else "int32"

    def reshaped(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return an array under another shape."""
        return array if tuple(array.shape) == shape else self.space.xp.reshape(array, shape)

    def permuted(self, array: Array, order: Sequence[int]) -> Array:
        """Return an array with its axes in another order."""
        in_order = list(order) == list(range(len(order)))
        return array if in_order else self.space.xp.permute_dims(array, tuple(order))

    def by_integers(self, array: Array, move: Callable[[Array], Array]) -> Array:
        """Move an array, in a wider integer where its library does little in its own dtype."""
        name = self.access.dtype_name(array)
        wide = {"uint16": "int32", "uint32": "int64"}.get(name)
        if wide is None or self.space.word_integer != "int64":
            return move(array)
        return self.space.cast(move(self.space.cast(array, wide)), name)


# Reading a key. It is cut into picks (positions along an axis), axes that are kept whole, and
# new axes.


def _is_pick(entry: object) -> bool:
    return entry is not None and entry is not Ellipsis and not isinstance(entry, slice)


def _by_positions(
    shape: tuple[int, ...], key: tuple[Any, ...]
) -> tuple[tuple[int, ...], list[Any]]:
    """Shape and key with positions in place of masks; one without axes picks from a new axis."""
    entries: list[Any] = []
    lengths: list[int] = []
    axis = 0
    for entry in key:
        positions, taken = [entry], int(entry is not None and entry is not Ellipsis)
        new: list[int] = []
        if isinstance(entry, np.ndarray) and entry.dtype == np.bool_:
            positions, taken = list(entry.nonzero()) if entry.ndim else [], entry.ndim
            if not taken:
                positions, new = [np.zeros(int(entry), np.intp)], [1]
        entries += positions
        lengths += new or shape[axis : axis + taken]
        axis += taken
    return tuple(lengths), entries


def gathered(at: Place, array: Array, key: tuple[Any, ...]) -> Array:
    """Return ``array[key]`` as NumPy does; see `Operations.gathered`."""
    shape, entries = _by_positions(tuple(int(length) for length in array.shape), key)
    of_axes = [entry for entry in entries if entry is not None and entry is not Ellipsis]
    picks = {
        axis: entry if isinstance(entry, ARRAYS) else np.asarray(entry)
        for axis, entry in enumerate(of_axes)
        if _is_pick(entry)
    }
    to = np.broadcast_shapes(*(positions.shape for positions in picks.values()))
    # The picked axes are brought together, and read as one.
    axes, kept = list(picks), [axis for axis in range(len(shape)) if axis not in picks]
    neighbours = axes[-1] - axes[0] == len(axes) - 1
    before = [axis for axis in kept if neighbours and axis < axes[0]]
    after = kept[len(before) :]
    line = at.permuted(at.reshaped(array, shape), [*before, *axes, *after])
    lengths = tuple(shape[axis] for axis in axes)
    outer, inner = (tuple(shape[axis] for axis in some) for some in (before, after))
    line = at.reshaped(line, (*outer, prod(lengths), *inner))
    positions = _flat(at, list(picks.values()), lengths, to)
    result = at.reshaped(_taken(at, line, positions, len(before)), (*outer, *to, *inner))
    # The axes of the positions, numbered below zero, go where NumPy puts them.
    new = list(range(-len(to), 0))
    now, wanted = [*before, *new, *after], _in_order(entries, new)
    result = at.permuted(result, [now.index(axis) for axis in wanted if axis is not None])
    final = [1 if a is None else to[a] if a < 0 else shape[a] for a in wanted]
    return at.reshaped(result, tuple(final))


def _in_order(entries: Sequence[Any], new: Sequence[int]) -> list[int | None]:
    """The axes of the result: kept ones, those of the positions, and None for new ones.

    Positions in neighbouring entries are replaced where they stand; others come first.
    """
    picked = [place for place, entry in enumerate(entries) if _is_pick(entry)]
    together = picked[-1] - picked[0] == len(picked) - 1
    wanted: list[int | None] = [] if together else list(new)
    axis = 0
    for place, entry in enumerate(entries):
        if together and place == picked[0]:
            wanted += new
        if entry is None:
            wanted.append(None)
        elif isinstance(entry, slice):
            wanted.append(axis)
        axis += entry is not None and entry is not Ellipsis
    return wanted


def _flat(
    at: Place, picks: Sequence[Host | Unseen], lengths: tuple[int, ...], to: tuple[int, ...]
) -> Array:
    """Positions along axes of some lengths that are read as one."""
    total = prod(lengths)
    strides = list(accumulate([1, *lengths[:0:-1]], int.__mul__))[::-1]
    seen = np.zeros((), np.int64)
    unseen: Array = None
    for positions, length, stride in zip(picks, lengths, strides, strict=True):
        if isinstance(positions, Unseen):
            part = _counted(at, positions, length, total) * stride
            unseen = part if unseen is None else unseen + part
        else:
            seen = seen + np.where(positions < 0, positions + length, positions) * stride
    if unseen is None:
        return at.positions(np.broadcast_to(seen, to).reshape(-1), total)
    if seen.any():
        unseen = unseen + at.positions(seen, total)
    if tuple(unseen.shape) != to:
        unseen = at.space.xp.broadcast_to(unseen, to)
    return at.reshaped(unseen, (prod(to),))


def _counted(at: Place, positions: Unseen, length: int, total: int) -> Array:
    """Unseen positions with negative ones counted from the end of their axis."""
    library = at.access.profile.name
    if positions.library != library:
        raise ArrayTypeError(
            f"an array of {library} requires positions of the same library or of NumPy, got "
            f"those of {positions.library}; convert one of them"
        )
    counted = at.space.cast(positions.array, at.dtype(total))
    return at.space.xp.where(counted < 0, counted + length, counted)


def cell_of(at: Place, position: Unseen, blocks: AxisBlocks) -> Unseen:
    """Return the cell that a single position lies in."""
    counted = _counted(at, position, blocks.length, blocks.length + blocks.offset)
    return Unseen((counted + blocks.offset) // blocks.extent, (), position.library)


def taken_along(at: Place, array: Array, positions: Host | Unseen, axis: int) -> Array:
    """Return, for each line along an axis, the elements at positions of its own."""
    xp, length = at.space.xp, int(array.shape[axis])
    if isinstance(positions, Unseen):
        found = _counted(at, positions, length, length)
    else:
        found = at.positions(np.where(positions < 0, positions + length, positions), length)

    def with_length(shape: Sequence[int], along: int) -> tuple[int, ...]:
        return (*map(int, shape[:axis]), along, *map(int, shape[axis + 1 :]))

    others = np.broadcast_shapes(with_length(array.shape, 1), with_length(positions.shape, 1))
    array = xp.broadcast_to(array, with_length(others, length))
    found = xp.broadcast_to(found, with_length(others, positions.shape[axis]))
    return at.by_integers(array, lambda wide: xp.take_along_axis(wide, found, axis=axis))


def _taken(at: Place, array: Array, positions: Array, axis: int) -> Array:
    take = at.space.xp.take
    return at.by_integers(array, lambda wide: take(wide, positions, axis=axis))
