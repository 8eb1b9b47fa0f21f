"""Numbers that a caller gives beside an array: positions, masks, counts.

NumPy's arrays and lists are constants. An array of another library is one too where its values
lie in CPU memory; elsewhere integers stay where they are, and are `Unseen`. What decides a shape
has to be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from arrayq.errors import ArrayTypeError, LayoutError
from arrayq.moves.operations import Array, Host
from arrayq.namespaces import Located, located

__all__ = ["ARRAYS", "Unseen", "positions_in", "seen_numbers", "seen_or_not"]


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """Integers that are not looked at: traced, not yet computed, or on another device.

    Parameters
    ----------
    array : array
        The integers.
    shape : tuple of int
        Their shape.
    library : str
        The library that they are of.
    """

    array: Array
    shape: tuple[int, ...]
    library: str

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of NumPy's own positions."""
        return np.dtype(np.intp)

    @property
    def probe(self) -> Host:
        """Zeros of the same shape, without memory, to ask NumPy what these do to a shape."""
        return np.broadcast_to(np.intp(0), self.shape)


ARRAYS: Final = (np.ndarray, Unseen)
"""What an index array is, seen or not."""

_PLAIN = (
    int, slice, type(None), type(Ellipsis), np.ndarray, np.generic, list, tuple, range, str,
)  # fmt: skip


def _foreign(given: object) -> Located | None:
    """What is known of an array of another library; None for everything else."""
    if isinstance(given, _PLAIN) or not (hasattr(given, "shape") and hasattr(given, "dtype")):
        return None
    try:
        return located(given)
    except ArrayTypeError:
        return None


def seen_or_not(given: Any, operation: str) -> Any:
    """Return an array of positions, or a mask, as NumPy's or `Unseen`; all else as it is.

    Raises
    ------
    IndexError
        An array of another library is neither of integers nor of booleans, in NumPy's words.
    LayoutError
        A mask cannot be seen.
    """
    found = _foreign(given)
    if found is None:
        return given
    if found.view is not None:
        return found.view
    access, shape = found.access, found.access.shape(found.array)
    if found.dtype.startswith(("int", "uint")):
        if not shape and access.sees_values(found.array):
            return access.copied(found.array)  # as good as the integer that it is
        return Unseen(found.array, shape, access.profile.name)
    if found.dtype != "bool":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return _seen(found, operation, "a mask")


def positions_in(given: Any, operation: str) -> Host | Unseen:
    """Return positions as an array.

    Raises
    ------
    IndexError, LayoutError
        As `seen_or_not` does.
    """
    found = seen_or_not(given, operation)
    if isinstance(found, Unseen):
        return found
    array = np.asarray(found)
    if not array.size and not isinstance(found, np.ndarray):
        return array.astype(np.intp)  # an empty list has no type of its own
    return array


def seen_numbers(given: Any, operation: str, what: str) -> Any:
    """Return numbers that decide a shape: an array of another library as one of NumPy's.

    Raises
    ------
    LayoutError
        Their values cannot be seen.
    """
    found = _foreign(given)
    return given if found is None else _seen(found, operation, what)


def _seen(found: Located, operation: str, what: str) -> Host:
    if found.view is not None:
        return found.view
    if not found.access.sees_values(found.array):
        raise LayoutError(
            f"{operation} requires {what} whose values can be seen, because the shape of the "
            f"result depends on them, got a traced or lazy array of {found.profile.name}; give "
            "an array of NumPy, or integer positions instead of a mask"
        )
    return found.access.copied(found.array)
