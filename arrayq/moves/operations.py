"""What a move does to arrays, whichever library they are of.

The moves decide from shapes and blocks alone, and leave to these operations whatever touches an
array. There are two of them: :mod:`arrayq.moves.host` for arrays in CPU memory, with NumPy and
the compiled kernels, and :mod:`arrayq.moves.generic` for all others, with the functions of their
own library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from arrayq._paths.space import Array
from arrayq.interop.access import Host
from arrayq.scheme import QuantStore, QuantValue, ScaleDtype

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray
    from arrayq.moves.blocks import AxisBlocks
    from arrayq.moves.positions import Unseen

__all__ = ["Array", "Host", "Operations", "along"]


def along(axis: int, index: Any) -> tuple[Any, ...]:
    """Return the key that applies an index to one axis."""
    return (slice(None),) * axis + (index, ...)


class Operations(Protocol):
    """Operations on the parts of an array.

    Results may be the argument itself or share its memory, and may have any order in memory until
    they are `settled`.
    """

    @property
    def library(self) -> str:
        """Name of the library that the arrays are of."""
        ...

    @property
    def sees_values(self) -> bool:
        """Whether values may be looked at."""
        ...

    def require(self, operation: str, function: str) -> None:
        """Refuse a move for which the library lacks a function."""
        ...

    def transposed(self, array: Array, order: tuple[int, ...]) -> Array:
        """Return an array with its axes in another order."""
        ...

    def sliced(self, array: Array, axis: int, picks: range) -> Array:
        """Return the positions `picks` of one axis; none is negative."""
        ...

    def indexed(self, array: Array, key: tuple[Any, ...]) -> Array:
        """Return ``array[key]`` for integers that are not negative, slices of step 1 and None.

        An Ellipsis stands for the remaining axes.
        """
        ...

    def gathered(self, array: Array, key: tuple[Any, ...]) -> Array:
        """Return ``array[key]`` as NumPy does, for a key that names every axis.

        It holds index arrays and masks of NumPy, `Unseen` arrays, integers, full slices, None,
        and an Ellipsis that stands for no axes.
        """
        ...

    def taken_along(self, array: Array, positions: Host | Unseen, axis: int) -> Array:
        """Return, for each line along an axis, the elements at positions of its own."""
        ...

    def cell_of(self, position: Unseen, blocks: AxisBlocks) -> Unseen:
        """Return the cell that a single unseen position of an axis lies in."""
        ...

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        """Return an array under another shape; the very array where that is its own."""
        ...

    def broadcast(self, array: Array, shape: Sequence[int]) -> Array:
        """Return an array with axes of length one repeated up to a shape."""
        ...

    def joined(self, arrays: Sequence[Array], axis: int) -> Array:
        """Return arrays laid end to end along an axis."""
        ...

    def repeated(self, array: Array, count: int, axis: int) -> Array:
        """Return an array with each position of an axis repeated."""
        ...

    def settled(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return an array as it is stored: of a shape, in C order where the library has orders."""
        ...

    def unpacked(
        self, words: Array, value: QuantValue, store: QuantStore, axis: int | None, extent: int
    ) -> Array:
        """Return words as one unsigned field for each code along an axis, `extent` of them.

        An array without axes is a word of its own.
        """
        ...

    def packed(
        self, fields: Array, value: QuantValue, store: QuantStore, axis: int | None
    ) -> Array:
        """Return fields as words along an axis; the inverse of `unpacked`."""
        ...

    def field(self, words: Array, first_bit: int, bits: int) -> Array:
        """Return one field of every word."""
        ...

    def cut(
        self, words: Array, axis: int, first: int, count: int, shift: int, used: int, last: int
    ) -> Array:
        """Return words that start some bits into a word.

        Parameters
        ----------
        words : array
            Words along an axis.
        axis : int
            The axis.
        first, count : int
            The word that holds the first bits, and how many words to make.
        shift, used : int
            Bits to leave out at the start, and bits of a word that hold codes.
        last : int
            Bits of the last new word that hold codes; its others become zero.
        """
        ...

    def turned(
        self, words: Array, axis: int, length: int, value: QuantValue, store: QuantStore
    ) -> Array:
        """Return the words of `length` codes along an axis read backwards."""
        ...

    def product(self, scale_data: Array, dtype: ScaleDtype, tensor_scale: Array) -> Array:
        """Return stored block scales times the tensor scale, in float32."""
        ...

    def fetched(self, array: Array) -> Host:
        """Return an array whose values can be seen as one of NumPy's."""
        ...

    def placed(self, host: Host) -> Array:
        """Return an array of NumPy's beside the others."""
        ...

    def returned(self, q: QuantizedArray) -> QuantizedArray:
        """Return the result of a move in the library that its parts came from."""
        ...
