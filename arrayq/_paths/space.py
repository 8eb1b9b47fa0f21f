"""Where arrays are computed: a namespace, a device, and what the two lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arrayq.errors import ArrayTypeError

__all__ = ["Array", "Space"]

Array = Any
"""An array of any library."""


@dataclass(frozen=True, slots=True)
class Space:
    """An array-API namespace as the generic path works in it.

    Parameters
    ----------
    xp : module
        The namespace.
    device : object, optional
        Where arrays are created; None where creation functions take no device.
    word_integer : str
        The integer dtype in which 32-bit words are put together and taken apart: ``"uint32"``, or
        ``"int64"`` where the library has no arithmetic for uint32.
    index_integer : str
        The integer dtype of the indices that ``take`` accepts.
    views : bool
        Whether arrays have a ``view(dtype)`` onto their bits, which the standard lacks.
    rewrites : bool
        Whether a compiler may replace arithmetic by other arithmetic, with other roundings.
    by_index : bool
        Whether the entry of each element's block is taken by its place rather than broadcast over
        the block: what torch's compiler makes for CPUs of an element's block, where its loop is
        no multiple of the block, leaves out the end (2.13, ``CppScheduling.try_loop_split``).
    """

    xp: Any
    device: Any = None
    word_integer: str = "uint32"
    index_integer: str = "int32"
    views: bool = False
    rewrites: bool = True
    by_index: bool = False

    def dtype(self, name: str) -> Any:
        """Return the dtype object of a name.

        Raises
        ------
        ArrayTypeError
            The namespace has no such dtype.
        """
        try:
            return getattr(self.xp, name)
        except AttributeError:
            raise ArrayTypeError(
                f"dtype {name} requires an array library that has a dtype of that name, got "
                f"{self.xp.__name__}; decode to float32"
            ) from None

    def constant(self, values: Sequence[float] | float, dtype: str = "float32") -> Array:
        """Return an array of Python numbers."""
        return self.xp.asarray(values, dtype=self.dtype(dtype), **self.on())

    def full(self, shape: tuple[int, ...], value: float, dtype: str = "float32") -> Array:
        """Return an array of one number."""
        return self.xp.full(shape, value, dtype=self.dtype(dtype), **self.on())

    def arange(self, stop: int, dtype: str = "int32") -> Array:
        """Return the integers from 0 up to `stop`, which is not among them."""
        return self.xp.arange(stop, dtype=self.dtype(dtype), **self.on())

    def taken(self, table: Sequence[float], places: Array, dtype: str = "float32") -> Array:
        """Return the entries of a table of Python numbers at places; an array of their shape.

        The standard takes along one axis only.
        """
        flat = self.xp.reshape(self.cast(places, self.index_integer), (-1,))
        return self.xp.reshape(
            self.xp.take(self.constant(table, dtype), flat, axis=0), places.shape
        )

    def cast(self, x: Array, dtype: str) -> Array:
        """Return an array in the dtype of a name: itself where it has it."""
        target = self.dtype(dtype)
        return x if x.dtype == target else self.xp.astype(x, target)

    def viewed(self, x: Array, dtype: str) -> Array:
        """Return the bits of an array in another dtype of their size, where there are views."""
        return x.view(self.dtype(dtype))

    def brought(self, given: Any) -> Array:
        """Return numbers of Python or NumPy as an array of the library; its own as they are."""
        if hasattr(given, "dtype") and not isinstance(given, np.ndarray | np.generic):
            return given
        return self.xp.asarray(np.asarray(given), **self.on())

    def where(self, condition: Array, yes: Array | float, no: Array | float) -> Array:
        """Return `yes` where a condition holds, else `no`.

        A number becomes an array of no axes and of the dtype of the other choice, float32 where
        both are numbers: before its version 2024.12 the standard takes no numbers here.
        """
        return self.xp.where(condition, self._as(yes, no), self._as(no, yes))

    def minimum(self, x: Array, bound: float) -> Array:
        """Return `x`, or a bound where that is less; either where `x` is NaN.

        The standard has this from version 2023.12 on, as does every library with views.
        """
        if self.views:
            return self.xp.minimum(x, self._as(bound, x))
        return self.where(x < bound, x, bound)

    def maximum(self, x: Array, bound: float) -> Array:
        """Return `x`, or a bound where that is more; either where `x` is NaN."""
        if self.views:
            return self.xp.maximum(x, self._as(bound, x))
        return self.where(x > bound, x, bound)

    def _as(self, choice: Array | float, other: Array | float) -> Array:
        if not isinstance(choice, int | float):
            return choice
        dtype = self.dtype("float32") if isinstance(other, int | float) else other.dtype
        return self.xp.full((), choice, dtype=dtype, **self.on())

    def on(self) -> dict[str, Any]:
        """Return the keyword that places new arrays on the device."""
        return {} if self.device is None else {"device": self.device}
