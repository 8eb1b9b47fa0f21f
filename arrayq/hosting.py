"""Quantized arrays of any library as NumPy sees them, and back.

The parts of an array that lie in CPU memory are seen as NumPy's arrays, without a copy; what is
done there by the compiled kernels then goes back to the library that the parts came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arrayq.namespaces import Located, _forced, library_of, located

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray
    from arrayq.interop.access import Access, Host

__all__ = ["access_of", "floats_on_host", "on_host", "returned"]


def access_of(q: QuantizedArray) -> Access:
    """Return how the parts of an array are reached."""
    return library_of(q.data).reach()


def on_host(q: QuantizedArray) -> QuantizedArray | None:
    """Return the array with NumPy's views as its parts; None where its memory is out of reach."""
    if type(q.data) is np.ndarray and not _forced:
        return q
    parts = [None if part is None else located(part).view for part in q._parts()]
    if any((part is None) != (view is None) for part, view in zip(q._parts(), parts, strict=True)):
        return None
    return q._with_parts(*parts)


def floats_on_host(here: Located) -> Host:
    """Return the numbers of an array in CPU memory, for whoever asked for them there.

    bfloat16 that NumPy sees as bits comes as the float32 numbers that they are.
    """
    host = here.access.copied(here.array) if here.view is None else here.view
    if here.dtype == "bfloat16" and host.dtype == np.uint16:
        return (host.astype(np.uint32) << 16).view(np.float32)
    return host


def returned(q: QuantizedArray, like: Any) -> QuantizedArray:
    """Return an array of NumPy's in the library of `like`, an array of it, on its device."""
    if type(like) is np.ndarray:
        return q
    access = library_of(like).reach()
    wrapped = [None if part is None else access.wrap(np.asarray(part), like) for part in q._parts()]
    return q._with_parts(*wrapped)
