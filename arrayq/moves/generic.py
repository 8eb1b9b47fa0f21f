"""Arrays anywhere under a move, in pure array API: traced, lazy, on other devices.

Every function here traces, stays lazy, and looks at no value. Codes are integers and scales are
moved by their bits, so that nothing can round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from arrayq._paths.generic import scales, words
from arrayq._paths.space import Array, Space
from arrayq.errors import UnsupportedSchemeError
from arrayq.hosting import access_of
from arrayq.interop.access import Access, Host
from arrayq.moves.blocks import AxisBlocks
from arrayq.moves.gathering import Place, cell_of, gathered, taken_along
from arrayq.moves.operations import along
from arrayq.moves.positions import Unseen
from arrayq.scheme import QuantStore, QuantValue, ScaleDtype

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["GenericOperations", "generic_operations_of"]


def generic_operations_of(q: QuantizedArray) -> GenericOperations:
    """Return the operations on the parts of an array, in its own library."""
    access = access_of(q)
    return GenericOperations(access, access.space(q.data), q.data)


def shape_of(array: Array) -> tuple[int, ...]:
    """Return a shape as integers."""
    return tuple(int(length) for length in array.shape)


@dataclass(frozen=True, slots=True, eq=False)
class GenericOperations:
    """Operations on arrays of any library; see `Operations`.

    Parameters
    ----------
    access : Access
        How the arrays are reached.
    space : Space
        Where they are computed.
    like : array
        One of them.
    """

    access: Access
    space: Space
    like: Any

    @property
    def library(self) -> str:
        """Name of the library."""
        return self.access.profile.name

    @property
    def sees_values(self) -> bool:
        """Whether values may be looked at: not while tracing, and not before computing."""
        return self.access.sees_values(self.like)

    def require(self, operation: str, function: str) -> None:
        """Refuse a move for which the library lacks a function.

        Raises
        ------
        UnsupportedSchemeError
            It does.
        """
        if not hasattr(self.space.xp, function):
            raise UnsupportedSchemeError(
                f"{operation} on {self.library} requires a library that has {function}, which "
                f"{self.library} lacks; apply it to a copy of the array in CPU memory"
            )

    def transposed(self, array: Array, order: tuple[int, ...]) -> Array:
        """Return an array with its axes in another order."""
        in_order = order == tuple(range(len(order)))
        return array if in_order else self.space.xp.permute_dims(array, order)

    def sliced(self, array: Array, axis: int, picks: range) -> Array:
        """Return some positions of one axis; backwards by `flip`, which all libraries have."""
        if picks == range(int(array.shape[axis])):
            return array
        if not picks:
            return array[along(axis, slice(0, 0))]
        if picks.step > 0:
            return array[along(axis, slice(picks[0], picks[-1] + 1, picks.step))]
        flip, ascending = self.space.xp.flip, self.sliced(array, axis, picks[::-1])
        return self._place.by_integers(ascending, lambda wide: flip(wide, axis=axis))

    def indexed(self, array: Array, key: tuple[Any, ...]) -> Array:
        """Return the elements at a basic index; the very array where these are all."""
        entries = [entry for entry in key if entry is not Ellipsis]
        if None not in entries and all(map(_is_all, entries, shape_of(array))):
            return array
        return array[(*entries, ...)]

    def gathered(self, array: Array, key: tuple[Any, ...]) -> Array:
        """Return the elements at an index with arrays."""
        return gathered(self._place, array, key)

    def taken_along(self, array: Array, positions: Host | Unseen, axis: int) -> Array:
        """Return, for each line along an axis, the elements at positions of its own."""
        return taken_along(self._place, array, positions, axis)

    def cell_of(self, position: Unseen, blocks: AxisBlocks) -> Unseen:
        """Return the cell that a single unseen position of an axis lies in."""
        return cell_of(self._place, position, blocks)

    @property
    def _place(self) -> Place:
        return Place(self.access, self.space, self.like)

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        """Return an array under another shape; the very array where that is its own."""
        if shape_of(array) == tuple(shape):
            return array
        reshape = self.space.xp.reshape
        try:
            return reshape(array, tuple(shape))
        except NotImplementedError:
            # Lazy libraries may only merge or cut axes, which is enough by way of a single one.
            if 0 in shape:
                return self.space.full(tuple(shape), 0, self.access.dtype_name(array))
            return reshape(reshape(array, (prod(shape),)), tuple(shape))

    def broadcast(self, array: Array, shape: Sequence[int]) -> Array:
        """Return an array with axes of length one repeated."""
        if shape_of(array) == tuple(shape):
            return array
        return self.space.xp.broadcast_to(array, tuple(shape))

    def joined(self, arrays: Sequence[Array], axis: int) -> Array:
        """Return arrays laid end to end."""
        return arrays[0] if len(arrays) == 1 else self.space.xp.concat(list(arrays), axis=axis)

    def repeated(self, array: Array, count: int, axis: int) -> Array:
        """Return an array with each position of an axis repeated."""
        shape = shape_of(array)
        before, length, after = shape[:axis], shape[axis], shape[axis + 1 :]
        each = self.reshaped(array, (*before, length, 1, *after))
        copies = self.broadcast(each, (*before, length, count, *after))
        return self.reshaped(copies, (*before, length * count, *after))

    def settled(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return an array of a shape."""
        return self.reshaped(array, shape)

    def unpacked(
        self, array: Array, value: QuantValue, store: QuantStore, axis: int | None, extent: int
    ) -> Array:
        """Return words as fields."""
        if axis is not None and 0 in array.shape:
            shape = shape_of(array)
            return self.space.full((*shape[:axis], extent, *shape[axis + 1 :]), 0, "uint8")
        return words.unpack(self.space, array, value, store, axis, extent)

    def packed(
        self, fields: Array, value: QuantValue, store: QuantStore, axis: int | None
    ) -> Array:
        """Return fields as words."""
        if axis is not None and 0 in fields.shape:
            shape = shape_of(fields)
            count = -(-shape[axis] // store.codes_per_word(value))
            full = (*shape[:axis], count, *shape[axis + 1 :])
            return self.space.full(full, 0, store.word_dtype)
        return words.pack(self.space, fields, value, store, axis)

    def field(self, array: Array, first_bit: int, bits: int) -> Array:
        """Return one field of every word."""
        wide, integer = self._wide(array)
        mask = self.space.constant((1 << bits) - 1, integer)
        return self.space.cast((wide >> first_bit) & mask, "uint8")

    def cut(
        self, array: Array, axis: int, first: int, count: int, shift: int, used: int, last: int
    ) -> Array:
        """Return words that start some bits into a word."""
        cut = self.sliced(array, axis, range(first, first + count))
        if shift:
            low, integer = self._wide(cut)
            high, _ = self._wide(self._next_words(array, axis, first + 1, count))
            every_bit = self.space.constant((1 << used) - 1, integer)
            shifted = ((low >> shift) | (high << (used - shift))) & every_bit
            cut = self._narrow(shifted, array)
        if last == used:
            return cut
        name = self.access.dtype_name(array)
        end = self.sliced(cut, axis, range(count - 1, count))
        end = end & self.space.constant((1 << last) - 1, name)
        return self.joined([self.sliced(cut, axis, range(count - 1)), end], axis)

    def _next_words(self, array: Array, axis: int, first: int, count: int) -> Array:
        """Words from `first` on, zero where there are none."""
        shape = shape_of(array)
        there = min(count, shape[axis] - first)
        found = self.sliced(array, axis, range(first, first + there))
        if there == count:
            return found
        missing = (*shape[:axis], count - there, *shape[axis + 1 :])
        zeros = self.space.full(missing, 0, self.access.dtype_name(array))
        return self.joined([found, zeros], axis) if there else zeros

    def turned(
        self, array: Array, axis: int, length: int, value: QuantValue, store: QuantStore
    ) -> Array:
        """Return the words of `length` codes read backwards."""
        fields = words.unpack(self.space, array, value, store, axis, length)
        turned = self.space.xp.flip(fields, axis=axis)
        return words.pack(self.space, turned, value, store, axis)

    def _wide(self, array: Array) -> tuple[Array, str]:
        """Words in an integer dtype that the library shifts, and its name."""
        if self.access.dtype_name(array) == "uint8":
            return array, "uint8"
        integer = self.space.word_integer
        return self.space.cast(array, integer), integer

    def _narrow(self, wide: Array, like: Array) -> Array:
        return self.space.cast(wide, self.access.dtype_name(like))

    def product(self, scale_data: Array, dtype: ScaleDtype, tensor_scale: Array) -> Array:
        """Return stored block scales times the tensor scale."""
        return scales.decode(self.space, scale_data, dtype) * tensor_scale

    def fetched(self, array: Array) -> Host:
        """Return a copy in CPU memory."""
        return self.access.copied(array)

    def placed(self, host: Host) -> Array:
        """Return a copy beside the others."""
        return self.access.asarray(host, self.like)

    def returned(self, q: QuantizedArray) -> QuantizedArray:
        """Return the result, which is where it belongs."""
        return q


def _is_all(entry: object, length: int) -> bool:
    """Whether an entry of an index leaves an axis as it is."""
    return isinstance(entry, slice) and range(length)[entry] == range(length)
