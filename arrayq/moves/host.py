"""Arrays in CPU memory under a move: NumPy, and the compiled kernels for words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from arrayq._kernels import kernels
from arrayq.codes import pack_fields, unpack_fields
from arrayq.hosting import returned
from arrayq.moves.operations import Host, along
from arrayq.moves.transposing import transposed
from arrayq.namespaces import library_of
from arrayq.scheme import QuantStore, QuantValue, ScaleDtype
from arrayq.stored_numbers import bits_to_scale

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray
    from arrayq.moves.blocks import AxisBlocks
    from arrayq.moves.positions import Unseen

__all__ = ["HOST", "HostOperations"]


@dataclass(frozen=True, slots=True)
class HostOperations:
    """Operations on NumPy's views of arrays in CPU memory; see `Operations`.

    Parameters
    ----------
    like : array, optional
        An array of the library that results are returned to; None for NumPy.
    """

    like: Any = None

    @property
    def library(self) -> str:
        """Name of the library that results are returned to."""
        return "numpy" if self.like is None else library_of(self.like).profile.name

    @property
    def sees_values(self) -> bool:
        """Return True: values are there."""
        return True

    def require(self, operation: str, function: str) -> None:
        """Refuse nothing."""

    def transposed(self, array: Host, order: tuple[int, ...]) -> Host:
        """Return contiguous data with its axes in another order."""
        return transposed(array, order)

    def sliced(self, array: Host, axis: int, picks: range) -> Host:
        """Return a view of some positions of one axis."""
        piece = slice(0)
        if picks:
            stop = picks[-1] + picks.step // abs(picks.step)
            piece = slice(picks[0], stop if stop >= 0 else None, picks.step)
        view: Host = array[(slice(None),) * axis + (piece,)]
        return view

    def indexed(self, array: Host, key: tuple[Any, ...]) -> Host:
        """Return a view at a basic index."""
        view: Host = array[key]
        return view

    def gathered(self, array: Host, key: tuple[Any, ...]) -> Host:
        """Return the elements at an index with arrays."""
        elements: Host = array[key]
        return elements

    def taken_along(self, array: Host, positions: Host | Unseen, axis: int) -> Host:
        """Return, for each line along an axis, the elements at positions of its own."""
        return np.take_along_axis(array, positions, axis)  # type: ignore[arg-type]

    def cell_of(self, position: Unseen, blocks: AxisBlocks) -> NoReturn:
        """Never asked: an array that is moved by unseen positions is moved in its own library."""
        raise AssertionError("positions in CPU memory are seen")

    def reshaped(self, array: Host, shape: Sequence[int]) -> Host:
        """Return an array under another shape."""
        return array.reshape(shape)

    def broadcast(self, array: Host, shape: Sequence[int]) -> Host:
        """Return a view with axes of length one repeated."""
        return np.broadcast_to(array, shape)

    def joined(self, arrays: Sequence[Host], axis: int) -> Host:
        """Return arrays laid end to end."""
        return np.concatenate(arrays, axis)

    def repeated(self, array: Host, count: int, axis: int) -> Host:
        """Return an array with each position of an axis repeated."""
        return np.repeat(array, count, axis)

    def settled(self, array: Host, shape: tuple[int, ...]) -> Host:
        """Return an array in C order."""
        settled = np.ascontiguousarray(array).reshape(shape)
        if self.like is not None and any(stride < 0 for stride in settled.strides):
            # axes of one element are in order both ways, which not every library knows
            return settled.copy()
        return settled

    def unpacked(
        self, words: Host, value: QuantValue, store: QuantStore, axis: int | None, extent: int
    ) -> Host:
        """Return words as fields."""
        length = None if axis is None else extent
        return unpack_fields(words, value, _line_store(store, axis, words.ndim), length)

    def packed(self, fields: Host, value: QuantValue, store: QuantStore, axis: int | None) -> Host:
        """Return fields as words."""
        return pack_fields(fields, value, _line_store(store, axis, fields.ndim))

    def field(self, words: Host, first_bit: int, bits: int) -> Host:
        """Return one field of every word."""
        mask = words.dtype.type((1 << bits) - 1)
        return np.asarray((words >> words.dtype.type(first_bit)) & mask, np.uint8)

    def cut(
        self, words: Host, axis: int, first: int, count: int, shift: int, used: int, last: int
    ) -> Host:
        """Return words that start some bits into a word: a view where these are whole words."""
        if shift:
            cut = _shifted(words, axis, first, count, shift, used)
        else:
            aligned: Host = words[along(axis, slice(first, first + count))]
            if last == used:
                return aligned
            cut = np.array(aligned, order="C")
        if last != used:
            # Fields that no element fills are zero, in every word that arrayq writes.
            cut[along(axis, slice(count - 1, count))] &= cut.dtype.type((1 << last) - 1)
        return cut

    def turned(
        self, words: Host, axis: int, length: int, value: QuantValue, store: QuantStore
    ) -> Host:
        """Return the words of `length` codes read backwards."""
        per_word, bits = store.codes_per_word(value), value.bits
        source = np.ascontiguousarray(words)
        result = np.empty(words.shape, words.dtype)
        kernels.moves.reverse(
            source.reshape(-1).view(np.uint8), prod(words.shape[:axis]), words.shape[axis],
            prod(words.shape[axis + 1 :]), words.itemsize, per_word, bits,
            result.reshape(-1).view(np.uint8),
        )  # fmt: skip
        # The unused fields of the last word have become the first ones, and move out.
        unused = -length % per_word
        if not unused:
            return result
        return _shifted(result, axis, 0, words.shape[axis], unused * bits, per_word * bits)

    def product(self, scale_data: Host, dtype: ScaleDtype, tensor_scale: Host) -> Host:
        """Return stored block scales times the tensor scale."""
        return np.asarray(bits_to_scale(scale_data, dtype) * tensor_scale, np.float32)

    def fetched(self, array: Host) -> Host:
        """Return the array itself."""
        return array

    def placed(self, host: Host) -> Host:
        """Return the array itself."""
        return host

    def returned(self, q: QuantizedArray) -> QuantizedArray:
        """Return the result in the library that its parts came from."""
        return q if self.like is None else returned(q, self.like)


HOST = HostOperations()
"""Operations on NumPy's own arrays."""


def _line_store(store: QuantStore, axis: int | None, ndim: int) -> QuantStore:
    return QuantStore(store.kind, 0 if axis is None else ndim - 1 - axis)


def _shifted(words: Host, axis: int, first: int, count: int, shift: int, used: int) -> Host:
    """Words whose lowest `shift` of `used` bits have moved out, filled from the next word."""
    source = np.ascontiguousarray(words)
    result = np.empty((*words.shape[:axis], count, *words.shape[axis + 1 :]), words.dtype)
    kernels.moves.shift(
        source.reshape(-1).view(np.uint8), prod(words.shape[:axis]), words.shape[axis],
        prod(words.shape[axis + 1 :]), first, count, words.itemsize, shift, used - shift,
        (1 << used) - 1, result.reshape(-1).view(np.uint8),
    )  # fmt: skip
    return result
