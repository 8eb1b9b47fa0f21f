"""Codes without scales: arrays come out as they went in, or are refused with the reason."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import arrayq as aq

LIBRARIES = {
    "torch": "from_numpy",
    "jax.numpy": "asarray",
    "mlx.core": "array",
    "array_api_strict": "asarray",
}
NUMBERS = np.linspace(-3, 3, 64, dtype=np.float32).reshape(4, 16)
REASON = "requires an array in CPU memory whose values can be seen"


@pytest.fixture(params=LIBRARIES)
def put(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(request.param.partition(".")[0])
    return getattr(importlib.import_module(request.param), LIBRARIES[request.param])


@pytest.mark.parametrize("name", ["e4m3", "q4s", "ue4m3", "bf16", "f16", "f32"])
def test_numbers_become_codes_and_numbers_again(put: Any, name: str) -> None:
    x = put(NUMBERS)
    codes = aq.encode(x, name)
    numbers = aq.decode(codes, name)
    assert type(codes) is type(numbers) is type(x)
    expected = aq.encode(NUMBERS, name)
    np.testing.assert_array_equal(np.asarray(codes), expected, strict=True)
    np.testing.assert_array_equal(np.asarray(numbers), aq.decode(expected, name), strict=True)


@pytest.mark.parametrize(
    ("store", "extent"),
    [("native", None), ("packed_native", 16), ("packed_u32", 16), ("packed_u32(1)", 4)],
)
def test_codes_become_words_and_codes_again(put: Any, store: str, extent: int | None) -> None:
    codes = aq.encode(NUMBERS, "q4s")
    words = aq.pack(put(codes), "q4s", store)
    back = aq.unpack(words, "q4s", store, extent)
    assert type(words) is type(back) is type(put(codes))
    np.testing.assert_array_equal(np.asarray(words), aq.pack(codes, "q4s", store), strict=True)
    np.testing.assert_array_equal(np.asarray(back), codes, strict=True)


OPERATIONS = {
    "encode": (NUMBERS, lambda x: aq.encode(x, "e4m3")),
    "decode": (np.zeros((4, 16), np.uint8), lambda x: aq.decode(x, "e4m3")),
    "pack": (np.zeros((4, 16), np.int8), lambda x: aq.pack(x, "q4s")),
    "unpack": (np.zeros((4, 2), np.uint32), lambda x: aq.unpack(x, "q4s", "packed_u32")),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_jax_traces_is_refused_with_the_reason(operation: str) -> None:
    jax = pytest.importorskip("jax")
    x, function = OPERATIONS[operation]
    with pytest.raises(aq.UnsupportedSchemeError, match=f"{operation} on jax.*{REASON}"):
        jax.jit(function)(x)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_dask_has_not_computed_is_refused_with_the_reason(operation: str) -> None:
    da = pytest.importorskip("dask.array")
    x, function = OPERATIONS[operation]
    with pytest.raises(aq.UnsupportedSchemeError, match=f"{operation} on dask.*{REASON}"):
        function(da.from_array(x))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_sparse_arrays_are_refused_with_the_reason(operation: str) -> None:
    sparse = pytest.importorskip("sparse")
    x, function = OPERATIONS[operation]
    with pytest.raises(aq.UnsupportedSchemeError, match=r"; convert it with x\.todense\(\)"):
        function(sparse.COO.from_numpy(x))
