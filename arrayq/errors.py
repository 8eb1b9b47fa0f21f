"""The errors arrayq raises, one class per kind of mistake.

Every class derives from `ArrayqError`, so that one ``except`` catches all of them, and from
the builtin a caller would expect (`ValueError`, `TypeError`, `NotImplementedError`).  Messages
read "X requires A, got B; do C".
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "ArrayTypeError",
    "ArrayqError",
    "CodeError",
    "CodebookError",
    "CorruptFileError",
    "LayoutError",
    "NonFiniteError",
    "QParamsError",
    "SchemeError",
    "UnsupportedSchemeError",
]


class ArrayqError(Exception):
    """The base of every error that arrayq raises on purpose."""


class SchemeError(ArrayqError, ValueError):
    """A scheme that makes no sense on any array library; raised when it is built."""


class UnsupportedSchemeError(ArrayqError, NotImplementedError):
    """A sensible scheme or operation that this array library cannot do."""


class QParamsError(ArrayqError, ValueError):
    """Quantization parameters that do not fit the scheme or the array."""


class CodebookError(SchemeError, QParamsError):
    """A codebook of the wrong length, with non-finite entries, or missing where one is used."""


class ArgumentError(ArrayqError, ValueError):
    """An option, such as a number of threads, that is none of its choices."""


class LayoutError(ArrayqError, ValueError):
    """A shape, block or packed axis that the array cannot have."""


class ArrayTypeError(ArrayqError, TypeError):
    """An object that is no array of a supported library, or an array of an unsupported dtype."""


class CodeError(ArrayqError, ValueError):
    """A code that lies outside the bits of its format."""


class CorruptFileError(ArrayqError, ValueError):
    """Bytes that are no valid file or buffer: truncated, inconsistent, or damaged."""


class NonFiniteError(ArrayqError, ValueError):
    """NaN or infinity in an input that must be finite.

    Parameters
    ----------
    message : str
        What was found and what to do about it.
    nan, inf : int
        How many NaN and how many infinite elements the input holds.
    first_index : tuple of int
        The index of the first non-finite element in C order.
    """

    nan: int
    inf: int
    first_index: tuple[int, ...]

    def __init__(self, message: str, *, nan: int, inf: int, first_index: tuple[int, ...]) -> None:
        super().__init__(message)
        self.nan = nan
        self.inf = inf
        self.first_index = first_index

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the counts too."""
        # BaseException would call the class with the message alone, which lacks the counts.
        return _rebuild, (type(self), self.args[0], self.nan, self.inf, self.first_index)


def _rebuild(
    cls: type[NonFiniteError], message: str, nan: int, inf: int, first_index: tuple[int, ...]
) -> NonFiniteError:
    return cls(message, nan=nan, inf=inf, first_index=first_index)
