"""Narrow dtypes of array libraries: codes and scales go out and come in, the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import arrayq as aq
from arrayq.capability import PROFILES
from arrayq.formats import FORMATS
from arrayq.testing import generic_path

ml_dtypes = pytest.importorskip("ml_dtypes")

SPELLINGS = (
    "nvfp4", "mxfp4", "mxfp8", "mxfp8-e5m2", "mxfp6-e3m2", "mxfp6-e2m3", "int8/row", "int4/32",
    "int2/32:bf16", "int4a/32", "int8a/32:f32", "nf4/64", "e2m1/32", "q8f/tensor",
)  # fmt: skip
STORES = ("native", "packed_native", "packed_u32", "packed_native(1)", "packed_u32(1)")
X = np.random.default_rng(3).standard_normal((6, 96)).astype(np.float32)


def arrays_of(library: str) -> Callable[[npt.NDArray[Any]], Any]:
    if library == "numpy":
        return lambda x: x
    if library == "torch":
        return pytest.importorskip("torch").from_numpy
    if library == "jax":
        return pytest.importorskip("jax.numpy").asarray
    return pytest.importorskip("mlx.core").array


def bits(array: Any) -> npt.NDArray[Any]:
    return np.asarray(array)


def same_parts(q: aq.QuantizedArray, other: aq.QuantizedArray) -> None:
    assert (q.scheme, q.extent, q.shape) == (other.scheme, other.extent, other.shape)
    for name in ("data", "scale_data", "zero_point", "tensor_scale"):
        one, two = getattr(q, name), getattr(other, name)
        assert (one is None) == (two is None)
        if one is not None:
            np.testing.assert_array_equal(bits(one), bits(two), err_msg=name)


LIBRARIES = ("numpy", "torch", "jax", "mlx")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_goes_out_in_native_dtypes_comes_in_as_it_was(
    library: str, store: str, spelling: str
) -> None:
    into = arrays_of(library)
    q = aq.quantize(into(X), aq.scheme(spelling).with_store(store))
    names = (*PROFILES[library].native_dtypes, "int8", "uint8")
    wanted = [q.scheme.value.format.native_dtype, f"{q.scheme.value.format.native_dtype}_x2"]
    scale = q.scheme.scale_dtype.format.native_dtype
    has_scale = scale in (*names, "float32", "float16")
    if not has_scale or not any(name in names for name in wanted):
        with pytest.raises(aq.UnsupportedSchemeError, match=f"native on {library} requires"):
            q.native()
        return
    native = q.native()
    assert any(str(native.data.dtype).endswith(name) for name in wanted)
    assert str(native.scale.dtype).endswith(scale)
    back = aq.QuantizedArray.from_native(
        native.data, native.scale, q.scheme, tensor_scale=native.tensor_scale,
        zero_point=q.zero_point,
    )  # fmt: skip
    same_parts(q, back)


@pytest.mark.parametrize("spelling", ["mxfp8", "mxfp8-e5m2", "e4m3/32:f32", "mxfp6-e3m2"])
def test_native_codes_of_numpy_are_the_numbers_of_ml_dtypes(spelling: str) -> None:
    q = aq.quantize(X, aq.scheme(spelling).with_store("native"))
    native = q.native()
    values = native.data.astype(np.float32)
    blocks = np.repeat(native.scale.astype(np.float32), 32, axis=1)
    np.testing.assert_array_equal(values * blocks, q.dequantize())
    assert np.shares_memory(native.data, q.data)
    assert np.shares_memory(native.scale.view(np.uint8), q.scale_data.view(np.uint8))


@pytest.mark.parametrize(
    ("spelling", "dtype"),
    [("mxfp8", "float8_e4m3fn"), ("mxfp8-e5m2", "float8_e5m2"), ("nvfp4", "float4_e2m1fn_x2")],
)
def test_native_tensors_of_torch_are_the_same_memory(spelling: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    q = aq.quantize(torch.from_numpy(X), spelling)
    native = q.native()
    assert native.data.dtype is getattr(torch, dtype)
    assert native.data.data_ptr() == q.data.data_ptr()
    assert native.scale.data_ptr() == q.scale_data.data_ptr()
    back = aq.QuantizedArray.from_native(
        native.data, native.scale, spelling, tensor_scale=native.tensor_scale
    )
    assert back.data.data_ptr() == q.data.data_ptr()


def test_native_numbers_of_torch_are_what_torch_says_they_are() -> None:
    torch = pytest.importorskip("torch")
    q = aq.quantize(torch.from_numpy(X), "mxfp8")
    native = q.native()
    blocks = native.scale.to(torch.float32).repeat_interleave(32, dim=1)
    assert torch.equal(native.data.to(torch.float32) * blocks, q.dequantize())


def test_native_dtypes_pass_through_jit() -> None:
    jax = pytest.importorskip("jax")
    native = jax.jit(lambda x: aq.quantize(x, "mxfp8").native())(X)
    q = jax.jit(lambda n: aq.QuantizedArray.from_native(n.data, n.scale, "mxfp8"))(native)
    same_parts(q, aq.quantize(jax.numpy.asarray(X), "mxfp8"))


def test_an_odd_length_has_no_pairs() -> None:
    torch = pytest.importorskip("torch")
    q = aq.quantize(torch.from_numpy(X[:, :95].copy()), "nvfp4")
    with pytest.raises(aq.LayoutError, match=r"even length of the last axis, got shape \(6, 95\)"):
        q.native()


def test_an_array_that_starts_inside_a_block_is_refused() -> None:
    with pytest.raises(aq.LayoutError, match=r"starts on a block boundary.*requantize"):
        aq.quantize(X, "mxfp8")[:, 3:].native()


def test_another_dtype_than_the_schemes_is_refused_by_name() -> None:
    native = aq.quantize(X, "mxfp8").native()
    with pytest.raises(aq.ArrayTypeError, match=r"data requires float8_e5m2 .* got float8_e4m3fn"):
        aq.QuantizedArray.from_native(native.data, native.scale, "mxfp8-e5m2")
    with pytest.raises(aq.ArrayTypeError, match=r"scale requires float8_e8m0fnu .* got float32"):
        aq.QuantizedArray.from_native(native.data, native.scale.astype(np.float32), "mxfp8")


def test_libraries_without_narrow_dtypes_say_so() -> None:
    strict = pytest.importorskip("array_api_strict")
    q = aq.quantize(strict.asarray(X), "nvfp4")
    with pytest.raises(aq.UnsupportedSchemeError, match=r"which array_api_strict lacks; use q\."):
        q.native()
    assert str(aq.quantize(strict.asarray(X), "int8/row").native().data.dtype).endswith("int8")


@pytest.mark.parametrize("library", ["torch", "jax", "mlx"])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("spelling", ["nvfp4", "mxfp8", "int4/32", "int4a/32"])
def test_memory_that_cannot_be_reached_gives_the_same(
    library: str, store: str, spelling: str
) -> None:
    scheme = aq.scheme(spelling).with_store(store)
    q = aq.quantize(arrays_of(library)(X), scheme)
    try:
        expected = q.native()
    except aq.UnsupportedSchemeError:
        pytest.skip("no such dtype")
    with generic_path():
        native = q.native()
        back = aq.QuantizedArray.from_native(
            native.data, native.scale, scheme, tensor_scale=native.tensor_scale,
            zero_point=q.zero_point,
        )  # fmt: skip
    assert native.data.dtype == expected.data.dtype
    same_parts(q, back)


def test_every_native_dtype_of_a_row_belongs_to_a_format() -> None:
    formats = {row.native_dtype for row in FORMATS.values()}
    for row in PROFILES.values():
        assert {name.removesuffix("_x2") for name in row.native_dtypes} <= formats
