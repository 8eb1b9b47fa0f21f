"""What goes by value: order, comparison, arithmetic, and quantizing anew.

Codes of different blocks cannot be compared: code 127 of a small block stands for less than code
90 of a large one. Everything here decodes first and gives plain arrays, of the library that the
codes are of.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from arrayq.moves.operations import Array
from arrayq.moves.parts import require_quantized
from arrayq.moves.values import combined, is_operand, values_of
from arrayq.recording import recorded
from arrayq.scheme import QuantScheme

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = [
    "argmax", "argmin", "argsort", "cannot_compare", "equal", "max", "min", "not_equal",
    "requantize", "sort",
]  # fmt: skip


@recorded
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
    array of int64
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
    return values_of(q, "argmax").reduced("argmax", axis, keepdims=keepdims)


@recorded
def argmin(q: QuantizedArray, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Return the position of the smallest value; see `argmax`.

    Parameters
    ----------
    q, axis, keepdims
        As for `argmax`.

    Returns
    -------
    array of int64
        The positions, those of ``q.dequantize()``.

    Raises
    ------
    ValueError, IndexError
        As `argmax` does.
    """
    return values_of(q, "argmin").reduced("argmin", axis, keepdims=keepdims)


@recorded
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
    array of float32
        The largest values; NaN where there is one.

    Raises
    ------
    ValueError, IndexError
        There are no elements or the axis does not exist, in NumPy's words.
    """
    return values_of(q, "max").reduced("max", axis, keepdims=keepdims)


@recorded
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
    array of float32
        The smallest values; NaN where there is one.

    Raises
    ------
    ValueError, IndexError
        As `max` does.
    """
    return values_of(q, "min").reduced("min", axis, keepdims=keepdims)


@recorded
def sort(
    q: QuantizedArray, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Array:
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
    array of float32
        The values, sorted; floats, because sorted elements have no blocks.

    Raises
    ------
    IndexError
        There is no such axis, in NumPy's words.
    """
    return values_of(q, "sort").sorted(axis, descending=descending, stable=stable)


@recorded
def argsort(
    q: QuantizedArray, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Array:
    """Return the positions that put the values in order; see `sort`.

    Parameters
    ----------
    q, axis, descending, stable
        As for `sort`.

    Returns
    -------
    array of int64
        The positions.

    Raises
    ------
    IndexError
        As `sort` does.
    """
    return values_of(q, "argsort").order(axis, descending=descending, stable=stable)


@recorded
def equal(q: Any, other: Any) -> Array:
    """Return where values are equal; arrays of different codes and scales may be.

    Parameters
    ----------
    q, other : QuantizedArray, array, sequence or number
        What to compare, one of them at least a QuantizedArray; the two are broadcast.

    Returns
    -------
    array of bool
        Where they are equal.

    Raises
    ------
    ValueError
        The shapes cannot be broadcast, in NumPy's words.
    TypeError
        One of them is neither an array nor numbers.
    """
    return _compared(operator.eq, q, other, "equal")


@recorded
def not_equal(q: Any, other: Any) -> Array:
    """Return where values differ; see `equal`.

    Parameters
    ----------
    q, other
        As for `equal`.

    Returns
    -------
    array of bool
        Where they differ.

    Raises
    ------
    ValueError, TypeError
        As `equal` does.
    """
    return _compared(operator.ne, q, other, "not_equal")


def _compared(comparison: Callable[..., Any], q: Any, other: Any, operation: str) -> Array:
    """Compare values, after checking that one of the operands is quantized."""
    from arrayq.array import QuantizedArray

    if not isinstance(other, QuantizedArray):
        require_quantized(q, operation)
    for operand in (q, other):
        if not is_operand(operand):
            cannot_compare(operand)
    compared = combined(comparison, q, other)
    return np.asarray(compared) if isinstance(compared, np.bool_) else compared


def cannot_compare(other: object) -> NoReturn:
    """Raise TypeError for what is no number and no array."""
    raise TypeError(
        "comparison with a QuantizedArray requires numbers, sequences of them or arrays, got "
        f"{type(other).__name__}"
    )


@recorded
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

    require_quantized(q, "requantize")
    return quantize(q.dequantize(), scheme, **options)
