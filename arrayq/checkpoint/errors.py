"""What can be wrong with a request about a file, as opposed to the file itself.

A damaged file is :class:`arrayq.errors.CorruptFileError`; the classes here say that a request
cannot be carried out as it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from arrayq.errors import ArrayqError, NonFiniteError

__all__ = ["CheckpointError", "PackagePathError", "naming_tensor"]


class CheckpointError(ArrayqError, ValueError):
    """A request about a file that cannot be carried out as it was made."""


class PackagePathError(ArrayqError, FileNotFoundError):
    """A ``pkg:package/path`` that names no file of an installed package."""


@contextmanager
def naming_tensor(
    name: str, shape: tuple[int, ...], quantized_shape: tuple[int, ...]
) -> Iterator[None]:
    """Say in every error which tensor it is about, indices counted in the tensor's own shape."""
    try:
        yield
    except NonFiniteError as error:
        position = 0
        for place, length in zip(error.first_index, quantized_shape, strict=True):
            position = position * length + place
        index = tuple(int(place) for place in np.unravel_index(position, shape))
        raise NonFiniteError(
            f"tensor {name!r} of shape {list(shape)} requires finite values, got {error.nan} NaN"
            f" and {error.inf} infinite ones, the first at {list(index)}; repair it, or exclude it"
            " to keep it as it is",
            nan=error.nan,
            inf=error.inf,
            first_index=index,
        ) from error
    except ArrayqError as error:
        error.args = (f"tensor {name!r}: {error}", *error.args[1:])
        raise
