"""Methods and operators of `QuantizedArray` that move it, or go by its values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from arrayq.scheme import QuantScheme

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["MoveMethods"]


def _binary(function: Callable[..., Any], symbol: str) -> Callable[[Any, object], Any]:
    def forward(self: Any, other: object) -> Any:
        return _by_value(function, self, other, other)

    forward.__doc__ = f"Return the values ``self {symbol} other``: floats, or booleans."
    return forward


def _reflected(function: Callable[..., Any], symbol: str) -> Callable[[Any, object], Any]:
    def backward(self: Any, other: object) -> Any:
        return _by_value(function, other, self, other)

    backward.__doc__ = f"Return the values ``other {symbol} self``: floats."
    return backward


def _by_value(function: Callable[..., Any], left: object, right: object, other: object) -> Any:
    from arrayq.moves.by_value import cannot_compare
    from arrayq.moves.values import combined, is_operand

    if is_operand(other):
        return combined(function, left, right)
    if function not in (operator.eq, operator.ne):
        return NotImplemented
    # Python would answer by identity; only the other side may still know better.
    reflected = type(other).__eq__ if function is operator.eq else type(other).__ne__
    answer = reflected(other, left)
    return cannot_compare(other) if answer is NotImplemented else answer


class MoveMethods:
    """What a quantized array does beside encoding; every method is a function of arrayq."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    # Moves.

    def __getitem__(self, index: Any) -> QuantizedArray:
        """Return the elements at an index, still quantized.

        Integers, slices, Ellipsis, None, integer arrays and masks mean what they mean for a NumPy
        array, and errors read as NumPy's. Integers and slices of step 1 and -1 are always exact;
        other steps where they divide the block extent or are a multiple of it; arrays and masks
        along axes whose blocks have extent 1 or are a single block.

        Parameters
        ----------
        index : int, slice, Ellipsis, None, array or tuple of these
            What to take.

        Returns
        -------
        QuantizedArray
            ``q[index].dequantize()`` equals ``q.dequantize()[index]``, bit for bit.

        Raises
        ------
        LayoutError
            The index would tear blocks apart.
        IndexError
            As NumPy raises it.
        """
        from arrayq.moves.indexing import getitem

        return getitem(self._array, index)

    @property
    def _array(self) -> QuantizedArray:
        return cast("QuantizedArray", self)

    def __len__(self) -> int:
        shape = self._array.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    def __iter__(self) -> Iterator[QuantizedArray]:
        shape = self._array.shape
        if not shape:
            raise TypeError("iteration over a 0-d array")
        return (self[position] for position in range(shape[0]))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a QuantizedArray has no truth value; compare its .dequantize(), or its .size"
        )

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError("a QuantizedArray is not searched unasked; look in its .dequantize()")

    @property
    def T(self) -> QuantizedArray:  # noqa: N802 - the array API's name
        """The array with its axes reversed."""
        from arrayq.moves.axes import permute_dims

        return permute_dims(self._array)

    @property
    def mT(self) -> QuantizedArray:  # noqa: N802 - the array API's name
        """The array with its last two axes exchanged."""
        from arrayq.moves.axes import matrix_transpose

        return matrix_transpose(self._array)

    def reshape(self, *shape: int | Sequence[int]) -> QuantizedArray:
        """Return the array under another shape; see :func:`arrayq.reshape`."""
        from arrayq.moves.reshaping import reshape

        return reshape(self._array, _one_or_many(shape))

    def ravel(self) -> QuantizedArray:
        """Return the array with one axis, in C order; see :func:`arrayq.reshape`."""
        return self.reshape(-1)

    def flatten(self) -> QuantizedArray:
        """Return the array with one axis, in C order, in memory of its own."""
        return self.reshape(-1).copy()

    def transpose(self, *axes: int | Sequence[int] | None) -> QuantizedArray:
        """Return the array with its axes reordered; see :func:`arrayq.permute_dims`."""
        from arrayq.moves.axes import permute_dims

        order: Any = None if not axes or axes == (None,) else _one_or_many(axes)
        return permute_dims(self._array, (order,) if isinstance(order, int) else order)

    def swapaxes(self, axis1: int, axis2: int) -> QuantizedArray:
        """Return the array with two axes exchanged; see :func:`arrayq.swapaxes`."""
        from arrayq.moves.axes import swapaxes

        return swapaxes(self._array, axis1, axis2)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> QuantizedArray:
        """Return the array without axes of length one; see :func:`arrayq.squeeze`."""
        from arrayq.moves.axes import squeeze

        return squeeze(self._array, axis)

    def take(self, indices: Any, axis: int | None = None) -> QuantizedArray:
        """Return the elements at positions of an axis; see :func:`arrayq.take`."""
        from arrayq.moves.indexing import take

        return take(self._array, indices, axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> QuantizedArray:
        """Return the array with its elements repeated; see :func:`arrayq.repeat`."""
        from arrayq.moves.joining import repeat

        return repeat(self._array, repeats, axis)

    # By value.

    def requantize(self, scheme: QuantScheme | str, **options: Any) -> QuantizedArray:
        """Return the values quantized under another scheme; see :func:`arrayq.requantize`."""
        from arrayq.moves.by_value import requantize

        return requantize(self._array, scheme, **options)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        """Return the position of the largest value; see :func:`arrayq.argmax`."""
        from arrayq.moves.by_value import argmax

        return argmax(self._array, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        """Return the position of the smallest value; see :func:`arrayq.argmin`."""
        from arrayq.moves.by_value import argmin

        return argmin(self._array, axis, keepdims=keepdims)

    def max(self, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
        """Return the largest value; see :func:`arrayq.max`."""
        from arrayq.moves.by_value import max

        return max(self._array, axis, keepdims=keepdims)

    def min(self, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
        """Return the smallest value; see :func:`arrayq.min`."""
        from arrayq.moves.by_value import min

        return min(self._array, axis, keepdims=keepdims)

    def sort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
        """Return the values in order, and leave the array as it is; see :func:`arrayq.sort`."""
        from arrayq.moves.by_value import sort

        return sort(self._array, axis, descending=descending, stable=stable)

    def argsort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
        """Return the positions that put the values in order; see :func:`arrayq.argsort`."""
        from arrayq.moves.by_value import argsort

        return argsort(self._array, axis, descending=descending, stable=stable)

    def __neg__(self) -> Any:
        """Return the values with their signs changed."""
        return -self._array.dequantize()

    def __pos__(self) -> Any:
        """Return the values."""
        return self._array.dequantize()

    def __abs__(self) -> Any:
        """Return the magnitudes of the values."""
        return abs(self._array.dequantize())

    __add__ = _binary(operator.add, "+")
    __sub__ = _binary(operator.sub, "-")
    __mul__ = _binary(operator.mul, "*")
    __truediv__ = _binary(operator.truediv, "/")
    __floordiv__ = _binary(operator.floordiv, "//")
    __mod__ = _binary(operator.mod, "%")
    __pow__ = _binary(operator.pow, "**")
    __radd__ = _reflected(operator.add, "+")
    __rsub__ = _reflected(operator.sub, "-")
    __rmul__ = _reflected(operator.mul, "*")
    __rtruediv__ = _reflected(operator.truediv, "/")
    __rfloordiv__ = _reflected(operator.floordiv, "//")
    __rmod__ = _reflected(operator.mod, "%")
    __rpow__ = _reflected(operator.pow, "**")
    __eq__ = _binary(operator.eq, "==")
    __ne__ = _binary(operator.ne, "!=")
    __lt__ = _binary(operator.lt, "<")
    __le__ = _binary(operator.le, "<=")
    __gt__ = _binary(operator.gt, ">")
    __ge__ = _binary(operator.ge, ">=")


def _one_or_many(given: tuple[Any, ...]) -> Any:
    """The argument of a method that takes integers one by one or together."""
    return given[0] if len(given) == 1 else given
