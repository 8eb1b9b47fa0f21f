"""Quantized arrays as plain bytes, in burn's order."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from arrayq.array import QuantizedArray
from arrayq.capability import require
from arrayq.errors import ArrayTypeError, LayoutError
from arrayq.layout import Plan, plan
from arrayq.namespaces import library_of, located
from arrayq.presets import scheme as parse_scheme
from arrayq.scheme import QuantScheme

__all__ = ["from_bytes", "to_bytes"]


def to_bytes(q: QuantizedArray) -> bytes:
    """Return the stored parts of an array, one after the other.

    Data, then scales, then zero points, then the tensor scale: little-endian, C order, without
    padding between them, as burn's QuantizedBytes. The scheme and the shape are not among them.

    Parameters
    ----------
    q : QuantizedArray
        The array.

    Returns
    -------
    bytes
        ``q.nbytes`` of them.

    Raises
    ------
    LayoutError
        The array starts inside a block, which these bytes cannot say.
    """
    if not isinstance(q, QuantizedArray):
        raise ArrayTypeError(
            f"q requires a QuantizedArray, got {type(q).__name__}; quantize it first"
        )
    if any(q.block_offset):
        raise LayoutError(
            f"to_bytes requires an array that starts on a block boundary, got block_offset "
            f"{q.block_offset}; q.requantize(q.scheme) starts on one"
        )
    here = located(q.data)
    require(here.profile, q.scheme, "to_bytes", path=here.path)
    access = here.access
    parts = [access.copied(part) for part in q._parts() if part is not None]
    return b"".join(
        part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes() for part in parts
    )


def from_bytes(
    buffer: Any,
    scheme: QuantScheme | str,
    shape: int | Sequence[int],
    *,
    xp: Any = None,
    device: Any = None,
    nonfinite: str | None = None,
) -> QuantizedArray:
    """Return the array that :func:`to_bytes` wrote; every scheme can be loaded.

    Parameters
    ----------
    buffer : bytes-like
        Exactly the bytes of data, scales, zero points and tensor scale; they are copied.
    scheme : QuantScheme or str
        How they are to be read.
    shape : int or sequence of int
        Shape of the array.
    xp : module, optional
        Array namespace of the result, such as ``torch`` or ``jax.numpy``; by default NumPy.
    device : object, optional
        Device of the result, as `xp` spells it; by default the one that `xp` creates arrays on.
    nonfinite : {"raise", "propagate"}, optional
        Whether NaN scales are refused, which is the default, or allowed.

    Returns
    -------
    QuantizedArray
        The array, with writable memory of its own.

    Raises
    ------
    LayoutError
        The buffer has not the size that scheme and shape ask for, or the shape is none.
    QParamsError
        The bytes of a scale mean no scale: negative, infinite, or NaN.
    CodeError
        A native code lies outside its field.
    CodebookError
        A lookup scheme has no codebook.
    UnsupportedSchemeError
        Arrays of `xp` cannot hold the scheme.
    ArrayTypeError
        `xp` is no array namespace.
    """
    like = None if xp is None or xp is np else _array_of(xp, device)
    scheme = parse_scheme(scheme)
    require(library_of(np.empty(0) if like is None else like).profile, scheme, "from_bytes")
    layout = plan(scheme, _shape(shape))
    try:
        raw = np.frombuffer(buffer, np.uint8) if len(memoryview(buffer)) else np.empty(0, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise ArrayTypeError(
            f"buffer requires contiguous bytes, got {type(buffer).__name__}"
        ) from error
    regions = _regions(layout)
    sizes = [np.dtype(dtype).itemsize * math.prod(region) for dtype, region in regions.values()]
    if raw.size != sum(sizes):
        expected = " + ".join(
            f"{size} of {part}" for size, part in zip(sizes, regions, strict=True)
        )
        raise LayoutError(
            f"buffer requires {sum(sizes)} bytes for shape {layout.shape} under {scheme} "
            f"({expected}), got {raw.size}"
        )
    parts: dict[str, Any] = {}
    start = 0
    for (name, (dtype, region)), size in zip(regions.items(), sizes, strict=True):
        little = np.dtype(dtype).newbyteorder("<")
        part = raw[start : start + size].copy().view(little).astype(dtype, copy=False)
        parts[name] = part.reshape(region)
        start += size
    q = QuantizedArray(
        parts["data"],
        parts["scales"],
        layout.scheme,
        extent=None if layout.packed_axis is None else layout.shape[layout.packed_axis],
        tensor_scale=parts.get("tensor scale"),
        zero_point=parts.get("zero points"),
        nonfinite=nonfinite,
    )
    if like is None:
        return q
    access = library_of(like).reach()
    return q._with_parts(
        *(None if part is None else access.asarray(part, like) for part in q._parts())
    )


def _array_of(xp: Any, device: Any) -> Any:
    """An array of a namespace, to know its library and its device by."""
    where = {} if device is None else {"device": device}
    try:
        return xp.zeros((1,), **where)
    except (AttributeError, TypeError, ValueError) as error:
        raise ArrayTypeError(
            f"xp requires an array namespace such as numpy, torch or jax.numpy, got {xp!r}"
        ) from error


def _regions(layout: Plan) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of each stored part, in the order in which they are written."""
    shapes = (layout.data_shape, layout.grid, layout.grid, ())
    names = ("data", "scales", "zero points", "tensor scale")
    return {
        name: (dtype, shape)
        for name, dtype, shape in zip(names, layout.part_dtypes, shapes, strict=True)
        if dtype is not None
    }


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple of integers."""
    lengths = shape if isinstance(shape, Sequence) else (shape,)
    try:
        result = tuple(operator.index(length) for length in lengths)
    except TypeError as error:
        raise LayoutError(f"shape requires integers, got {shape!r}") from error
    if any(length < 0 for length in result):
        raise LayoutError(f"shape requires lengths of at least 0, got {result}")
    return result
