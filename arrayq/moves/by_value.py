"""What goes by value: order, comparison, arithmetic, and quantizing anew.

Codes of different blocks cannot be compared: code 127 of a small block stands for less than code
90 of a large one. Everything here decodes first and gives plain arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from arrayq.moves.parts import Array, parts_of
from arrayq.scheme import QuantScheme

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = [
    "argmax", "argmin", "argsort", "combined", "equal", "max", "min", "not_equal", "requantize",
    "sort",
]  # fmt: skip


def _values(q: QuantizedArray, operation: str) -> Array:
    parts_of(q, operation)
    return q.dequantize()


def argmax(q: QuantizedArray, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Return the position of the largest value, the first where there are several.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axis : int, optional
        The axis; by default the position in the flattened array.
    keepdims : bool
        Whether the axis stays, with length one.

    Returns
    -------
    ndarray of int64
        The positions, those of ``q.dequantize()``.

    Raises
    ------
    ValueError, IndexError
        The axis is empty or does not exist, in NumPy's words.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> x = np.array([1.0, 0.5, 100.0, 70.0], np.float32)
    >>> q = aq.quantize(x, "int8/2")
    >>> q.codes().tolist(), int(aq.argmax(q))
    ([127, 63, 127, 89], 2)
    """
    return np.argmax(_values(q, "argmax"), axis=axis, keepdims=keepdims)


def argmin(q: QuantizedArray, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Return the position of the smallest value; see `argmax`.

    Parameters
    ----------
    q, axis, keepdims
        As for `argmax`.

    Returns
    -------
    ndarray of int64
        The positions, those of ``q.dequantize()``.

    Raises
    ------
    ValueError, IndexError
        As `argmax` does.
    """
    return np.argmin(_values(q, "argmin"), axis=axis, keepdims=keepdims)


def max(
    q: QuantizedArray, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Any:
    """Return the largest value.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axis : int or tuple of int, optional
        The axes to look along; by default all.
    keepdims : bool
        Whether these axes stay, with length one.

    Returns
    -------
    ndarray of float32
        The largest values; NaN where there is one.

    Raises
    ------
    ValueError, IndexError
        There are no elements or the axis does not exist, in NumPy's words.
    """
    return np.max(_values(q, "max"), axis=axis, keepdims=keepdims)


def min(
    q: QuantizedArray, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Any:
    """Return the smallest value; see `max`.

    Parameters
    ----------
    q, axis, keepdims
        As for `max`.

    Returns
    -------
    ndarray of float32
        The smallest values; NaN where there is one.

    Raises
    ------
    ValueError, IndexError
        As `max` does.
    """
    return np.min(_values(q, "min"), axis=axis, keepdims=keepdims)


def sort(
    q: QuantizedArray, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> npt.NDArray[np.float32]:
    """Return the values in order.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axis : int
        The axis to sort along.
    descending : bool
        Whether the largest comes first.
    stable : bool
        Whether equal values keep their order; that tells only zeros of two signs apart.

    Returns
    -------
    ndarray of float32
        The values, sorted; floats, because sorted elements have no blocks.

    Raises
    ------
    IndexError
        There is no such axis, in NumPy's words.
    """
    values = _values(q, "sort")
    return np.take_along_axis(values, _order(values, axis, descending, stable), axis)


def argsort(
    q: QuantizedArray, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> npt.NDArray[np.intp]:
    """Return the positions that put the values in order; see `sort`.

    Parameters
    ----------
    q, axis, descending, stable
        As for `sort`.

    Returns
    -------
    ndarray of int64
        The positions.

    Raises
    ------
    IndexError
        As `sort` does.
    """
    return _order(_values(q, "argsort"), axis, descending, stable)


def _order(values: Array, axis: int, descending: bool, stable: bool) -> npt.NDArray[np.intp]:
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(values, axis, kind=kind)
    # Equal values keep their order when both the input and the result are turned around.
    turned = np.flip(np.argsort(np.flip(values, axis), axis, kind=kind), axis)
    return np.asarray(values.shape[axis] - 1 - turned)


def equal(q: Any, other: Any) -> npt.NDArray[np.bool_]:
    """Return where values are equal; arrays of different codes and scales may be.

    Parameters
    ----------
    q, other : QuantizedArray, array, sequence or number
        What to compare, one of them at least a QuantizedArray; the two are broadcast.

    Returns
    -------
    ndarray of bool
        Where they are equal.

    Raises
    ------
    ValueError
        The shapes cannot be broadcast, in NumPy's words.
    TypeError
        One of them is neither an array nor numbers.
    """
    return _compared(operator.eq, q, other, "equal")


def not_equal(q: Any, other: Any) -> npt.NDArray[np.bool_]:
    """Return where values differ; see `equal`.

    Parameters
    ----------
    q, other
        As for `equal`.

    Returns
    -------
    ndarray of bool
        Where they differ.

    Raises
    ------
    ValueError, TypeError
        As `equal` does.
    """
    return _compared(operator.ne, q, other, "not_equal")


def _compared(
    comparison: Callable[..., Any], q: Any, other: Any, operation: str
) -> npt.NDArray[np.bool_]:
    """Compare values, after checking that one of the operands is quantized."""
    from arrayq.array import QuantizedArray

    if not isinstance(other, QuantizedArray):
        parts_of(q, operation)
    for operand in (q, other):
        if not is_for_numpy(operand):
            cannot_compare(operand)
    return np.asarray(combined(comparison, q, other))


def is_for_numpy(operand: object) -> bool:
    """Whether NumPy knows what an operand means: a number, array, sequence, text or None."""
    if operand is None or isinstance(operand, Number | Sequence):
        return True
    return hasattr(type(operand), "__array__")


def cannot_compare(other: object) -> NoReturn:
    """Raise TypeError for what is no number and no array."""
    raise TypeError(
        "comparison with a QuantizedArray requires numbers, sequences of them or arrays, got "
        f"{type(other).__name__}"
    )


def combined(operation: Callable[..., Any], *operands: Any) -> Any:
    """Apply a function of NumPy's to values, with NumPy's rules for dtypes and broadcasting."""
    from arrayq.array import QuantizedArray

    return operation(*(x.dequantize() if isinstance(x, QuantizedArray) else x for x in operands))


def requantize(q: QuantizedArray, scheme: QuantScheme | str, **options: Any) -> QuantizedArray:
    """Decode an array and quantize what it stands for under another scheme.

    The one conversion between schemes, and not a move: codes are computed anew, so that values
    change wherever the new scheme cannot say them.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    scheme : QuantScheme or str
        What to make, or its spelling.
    **options
        As for :func:`arrayq.quantize`.

    Returns
    -------
    QuantizedArray
        ``quantize(dequantize(q), scheme, **options)``.

    Raises
    ------
    ArrayTypeError, SchemeError, LayoutError, QParamsError, NonFiniteError
        As :func:`arrayq.quantize` does.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> q = aq.quantize(np.ones((4, 64), np.float32), "int8/32")
    >>> aq.requantize(q[:, 3:], "int4/16").grid
    (4, 4)
    """
    from arrayq.pipeline import quantize

    return quantize(_values(q, "requantize"), scheme, **options)
