"""Quantized arrays put into other libraries, fetched from them, and compared bit for bit."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import arrayq as aq
from arrayq import hosting

_CONVERTED = {
    "numpy": ("numpy", lambda module, part: module.array(part)),
    "torch": ("torch", lambda module, part: module.from_numpy(np.array(part))),
    "jax": ("jax.numpy", lambda module, part: module.asarray(part)),
    "array_api_strict": ("array_api_strict", lambda module, part: module.asarray(part)),
    "mlx": ("mlx.core", lambda module, part: module.array(np.array(part)).reshape(part.shape)),
    "dask": ("dask.array", lambda module, part: module.from_array(part, chunks=3)),
}
EAGER = ("torch", "jax", "array_api_strict", "mlx")


def put(q: aq.QuantizedArray, library: str) -> aq.QuantizedArray:
    """Return an array of NumPy's as one of another library."""
    name, convert = _CONVERTED[library]
    pytest.importorskip(name.partition(".")[0])
    module = importlib.import_module(name)
    return q._with_parts(*(None if part is None else convert(module, part) for part in q._parts()))


def fetched(q: aq.QuantizedArray) -> aq.QuantizedArray:
    """Return an array of another library as one of NumPy's."""
    access = hosting.access_of(q)
    copied = access._fetched if access.profile.name == "dask" else access.copied
    return q._with_parts(*(None if part is None else copied(part) for part in q._parts()))


def assert_same(got: aq.QuantizedArray, expected: aq.QuantizedArray, what: object = "") -> None:
    """Assert that two arrays of NumPy's have the same parts, bit for bit."""
    assert got.scheme == expected.scheme, what
    assert (got.extent, got.block_offset) == (expected.extent, expected.block_offset), what
    for one, other in zip(got._parts(), expected._parts(), strict=True):
        assert (one is None) == (other is None), what
        if one is not None:
            assert (one.dtype, one.shape) == (other.dtype, other.shape), what
            np.testing.assert_array_equal(_bits(one), _bits(other), str(what))


def _bits(part: Any) -> Any:
    return np.ascontiguousarray(part).view(f"u{part.dtype.itemsize}")
