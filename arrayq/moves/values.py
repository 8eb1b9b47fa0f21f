"""The values of quantized arrays: in CPU memory as NumPy sees them, elsewhere by their library.

What is found goes back to the library that the codes are of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from arrayq.errors import ArrayTypeError, UnsupportedSchemeError
from arrayq.interop.access import Access
from arrayq.moves.operations import Array, Host
from arrayq.moves.parts import probe, require_quantized
from arrayq.namespaces import Library, library_of, located

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["Values", "combined", "is_operand", "values_of"]


class Values(Protocol):
    """Values that can be reduced and put in order."""

    def reduced(self, function: str, axis: Any, *, keepdims: bool) -> Any:
        """Return a reduction of NumPy's name: argmax, argmin, max or min."""
        ...

    def sorted(self, axis: int, *, descending: bool, stable: bool) -> Array:
        """Return the values in order along an axis."""
        ...

    def order(self, axis: int, *, descending: bool, stable: bool) -> Array:
        """Return the positions that put the values in order along an axis."""
        ...


def values_of(q: QuantizedArray, operation: str) -> Values:
    """Return the values of a quantized array.

    Raises
    ------
    ArrayTypeError
        `q` is not a QuantizedArray.
    """
    require_quantized(q, operation)
    values = q.dequantize()
    if type(values) is np.ndarray:
        return _HostValues(values)
    found = located(values)
    if found.view is not None:
        return _HostValues(found.view, values)
    return _LibraryValues(values, found.access, operation)


@dataclass(frozen=True, slots=True, eq=False)
class _HostValues:
    """Values in CPU memory; what is found goes to the library of `like`, None for NumPy."""

    values: Host
    like: Any = None

    def reduced(self, function: str, axis: Any, *, keepdims: bool) -> Any:
        return self._returned(getattr(np, function)(self.values, axis=axis, keepdims=keepdims))

    def sorted(self, axis: int, *, descending: bool, stable: bool) -> Array:
        order = self._order(axis, descending, stable)
        return self._returned(np.take_along_axis(self.values, order, axis))

    def order(self, axis: int, *, descending: bool, stable: bool) -> Array:
        return self._returned(self._order(axis, descending, stable))

    def _order(self, axis: int, descending: bool, stable: bool) -> Host:
        kind: Any = "stable" if stable else None
        values = self.values
        if not descending:
            return np.argsort(values, axis, kind=kind)
        # Equal values keep their order when both the input and the result are turned around.
        turned = np.flip(np.argsort(np.flip(values, axis), axis, kind=kind), axis)
        return np.asarray(values.shape[axis] - 1 - turned)

    def _returned(self, found: Any) -> Any:
        if self.like is None:
            return found
        return library_of(self.like).reach().wrap(np.asarray(found), self.like)


@dataclass(frozen=True, slots=True, eq=False)
class _LibraryValues:
    """Values of a library, on which its own functions work."""

    values: Array
    access: Access
    operation: str

    def reduced(self, function: str, axis: Any, *, keepdims: bool) -> Any:
        # NumPy's words for an axis that is empty or does not exist
        few = tuple(min(1, length) for length in self.access.shape(self.values))
        getattr(np, function)(probe(few), axis=axis, keepdims=keepdims)
        return self._function(function)(self.values, axis=axis, keepdims=keepdims)

    def sorted(self, axis: int, *, descending: bool, stable: bool) -> Array:
        return self._in_order("sort", axis, descending=descending, stable=stable)

    def order(self, axis: int, *, descending: bool, stable: bool) -> Array:
        return self._in_order("argsort", axis, descending=descending, stable=stable)

    def _in_order(self, function: str, axis: int, **options: bool) -> Array:
        np.sort(probe((1,) * len(self.values.shape)), axis)
        call = self._function(function)
        try:
            return call(self.values, axis=axis, **options)
        except (TypeError, NotImplementedError) as error:
            raise self._lacking(f"{function} with descending and stable") from error

    def _function(self, name: str) -> Callable[..., Array]:
        function = getattr(self.access.namespace(self.values), name, None)
        if function is None:
            raise self._lacking(name)
        found: Callable[..., Array] = function
        return found

    def _lacking(self, name: str) -> UnsupportedSchemeError:
        library = self.access.profile.name
        return UnsupportedSchemeError(
            f"{self.operation} on {library} requires a library that has {name}, which {library} "
            "lacks; apply it to a copy of q.dequantize() in CPU memory"
        )


# Operators.


def is_operand(operand: object) -> bool:
    """Whether it is known what an operand means: a number, array, sequence, text or None."""
    if operand is None or isinstance(operand, Number | Sequence):
        return True
    kind = type(operand)
    return hasattr(kind, "__array__") or hasattr(kind, "__array_namespace__")


def combined(operation: Callable[..., Any], *operands: Any) -> Any:
    """Apply an operator to values, with the rules of their library for dtypes and broadcasting.

    Raises
    ------
    ArrayTypeError
        The operands are of different libraries.
    """
    from arrayq.array import QuantizedArray

    values = [x.dequantize() if isinstance(x, QuantizedArray) else x for x in operands]
    decoded = [
        value for value, x in zip(values, operands, strict=True) if isinstance(x, QuantizedArray)
    ]
    if all(type(value) is np.ndarray for value in decoded):
        return operation(*values)
    like = decoded[-1]
    for value in decoded:
        _require_same(library_of(value), library_of(like))
    if any(value is None or isinstance(value, str) for value in values):
        return _with_nothing_equal(operation, like, values)
    return operation(*(_beside(value, like) for value in values))


def _beside(operand: Any, like: Array) -> Any:
    """An operand as the library of `like` takes it."""
    if isinstance(operand, np.generic):
        return operand.item()
    if isinstance(operand, Number):
        return operand
    library = library_of(like)
    if isinstance(operand, Sequence) or type(operand) is np.ndarray:
        return library.reach().asarray(np.asarray(operand), like)
    _require_same(library, library_of(operand))
    return operand


def _require_same(one: Library, other: Library) -> None:
    if one is not other:
        raise ArrayTypeError(
            f"an operator requires arrays of one library, got one of {one.profile.name} and one "
            f"of {other.profile.name}; convert one of them"
        )


def _with_nothing_equal(operation: Callable[..., Any], like: Array, values: list[Any]) -> Array:
    """What text and None compare to: no element is equal, as for NumPy's arrays."""
    equal, unequal = like == like, like != like
    if operation.__name__ == "eq":
        return equal & unequal
    if operation.__name__ == "ne":
        return equal | unequal
    return operation(*values)
