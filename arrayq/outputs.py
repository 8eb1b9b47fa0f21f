"""Memory that results are written to: made here, or given by the caller as `out`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayq._paths import host
from arrayq._paths.parts import Stored
from arrayq.array import QuantizedArray
from arrayq.errors import ArrayTypeError, LayoutError
from arrayq.hosting import on_host
from arrayq.layout import Plan
from arrayq.namespaces import Located, library_of, located

if TYPE_CHECKING:
    from arrayq.interop.access import Access, Host

__all__ = ["dtype_name", "float_memory", "numpy_dtype", "reused", "writable"]

_FLOATS = "one of " + ", ".join(host.ELEMENT_KINDS)


def dtype_name(dtype: Any) -> str:
    """Return the name of one of the four float dtypes, as any library spells it.

    Raises
    ------
    ArrayTypeError
        It is none of them, or not in native byte order.
    """
    if dtype is None:
        return "float32"
    name, native = str(dtype).rpartition(".")[2], True
    if name not in host.ELEMENT_KINDS:
        try:
            resolved = np.dtype(dtype)
        except (TypeError, ValueError) as error:
            raise ArrayTypeError(f"dtype requires {_FLOATS}, got {dtype!r}") from error
        name, native = resolved.name, resolved.isnative
    if name not in host.ELEMENT_KINDS or not native:
        raise ArrayTypeError(f"dtype requires {_FLOATS} in native byte order, got {dtype}")
    return name


def float_memory(shape: tuple[int, ...], name: str, access: Access) -> tuple[Host, str | None]:
    """Return memory for floats, and the dtype that its bits are of where NumPy lacks it."""
    bits = name if name == "bfloat16" and access.takes_bits else None
    dtype = np.dtype(np.uint16) if bits else numpy_dtype(name)
    if access.aligned:
        return host.empty_host(shape, dtype), bits
    return np.empty(shape, dtype), bits


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of a name.

    Raises
    ------
    ArrayTypeError
        It is bfloat16, and the package that gives it to NumPy is missing.
    """
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ArrayTypeError(
            "dtype bfloat16 requires the package ml_dtypes, which is not installed; install "
            "it, or decode to float32"
        ) from error
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def reused(out: QuantizedArray, layout: Plan, here: Located) -> Stored:
    """Return the stored parts of an array that is to be overwritten with what an array gives.

    Raises
    ------
    LayoutError
        `out` is no quantized array of this plan and library, or its memory does not serve.
    """
    if not isinstance(out, QuantizedArray) or out.plan != layout:
        got = type(out).__name__
        if isinstance(out, QuantizedArray):
            got = f"shape {out.shape} and scheme {out.scheme}"
        raise LayoutError(
            f"out requires a QuantizedArray of shape {layout.shape} and scheme {layout.scheme}, "
            f"got {got}"
        )
    access = library_of(out.data).reach()
    for part in out._parts():
        if part is not None:
            access.check_out(part)
    hosted = on_host(out)
    library = access.profile.name
    if hosted is None or library != here.profile.name or not here.profile.writes:
        raise LayoutError(
            f"out requires arrays of {here.profile.name} whose memory can be written, got arrays "
            f"of {library}; omit out"
        )
    names = ("data", "scale_data", "zero_point", "tensor_scale")
    for name, part in zip(names, hosted._parts(), strict=True):
        if part is not None and not (part.flags.c_contiguous and part.flags.writeable):
            raise LayoutError(
                f"out requires writable C-contiguous memory, got {name} without; copy it"
            )
    parts = [part for part in (*hosted._parts(), here.view) if part is not None]
    for one, other in itertools.combinations(parts, 2):
        if _share_memory(one, other):
            raise LayoutError(
                "out requires memory of its own, got parts that overlap each other or x; use "
                "q.copy()"
            )
    return Stored(*hosted._parts())


def writable(out: Any, q: QuantizedArray, dtype: Any) -> tuple[Host, str | None]:
    """Return the memory of an array that is to be overwritten with the values of another, and the
    dtype that its bits are of where NumPy lacks it.

    Raises
    ------
    LayoutError
        `out` is no writable array of the shape and library of `q`, or shares memory with it.
    """
    library = library_of(q.data).profile
    try:
        here = located(out)
    except ArrayTypeError as error:
        raise LayoutError(
            f"out requires an array of {library.name} of shape {q.shape}, got {type(out).__name__}"
        ) from error
    view = here.view
    if here.profile.name != library.name or view is None or not library.writes:
        raise LayoutError(
            f"out requires an array of {library.name} whose memory can be written, got one of "
            f"{here.profile.name}; omit out"
        )
    here.access.check_out(out)
    name = dtype_name(here.dtype)
    if dtype is not None and dtype_name(dtype) != name:
        raise LayoutError(f"out requires dtype {dtype_name(dtype)}, got {name}; leave dtype out")
    if not view.dtype.isnative:
        raise ArrayTypeError(f"dtype requires {_FLOATS} in native byte order, got {view.dtype}")
    if view.shape != q.shape or not view.flags.writeable:
        state = "" if view.flags.writeable else " read-only"
        raise LayoutError(
            f"out requires a writable array of shape {q.shape}, got{state} {view.shape}"
        )
    if view.size and _overlaps_itself(view):
        raise LayoutError(
            "out requires an array whose elements do not overlap, got a broadcast one"
        )
    hosted = on_host(q)
    parts = () if hosted is None else hosted._parts()[:3]
    if any(part is not None and _share_memory(view, part) for part in parts):
        raise LayoutError("out requires memory of its own, got memory that q lies in")
    return view, here.bits


def _share_memory(a: Host, b: Host) -> bool:
    """Return whether two arrays share memory; in doubt they do."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(array: Host) -> bool:
    """Return whether two elements may share memory: whether some axis, taken by ascending
    strides, steps less than the extent of those before it.
    """
    extent = array.itemsize
    steps = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    for stride, length in steps:
        if stride < extent:
            return True
        extent += stride * (length - 1)
    return False
