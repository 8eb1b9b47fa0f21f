"""Parameters and stored parts of any library: checked by structure always, by value where seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import arrayq as aq
from arrayq import QParams
from arrayq.testing import generic_path

X = np.random.default_rng(8).standard_normal((4, 64)).astype(np.float32)
MISSING = "a two-level scheme should have a per-tensor scale"


def traced_by_jax(function: Any, *arrays: Any) -> Any:
    jax = pytest.importorskip("jax")
    return jax.jit(function)(*arrays)


def lazy_in_dask(function: Any, *arrays: Any) -> Any:
    da = pytest.importorskip("dask.array")
    return function(*(da.from_array(array) for array in arrays))


def on_meta(function: Any, *arrays: Any) -> Any:
    torch = pytest.importorskip("torch")
    return function(*(torch.from_numpy(array).to("meta") for array in arrays))


def on_another_device(function: Any, *arrays: Any) -> Any:
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")
    return function(*(strict.asarray(array, device=device) for array in arrays))


def in_torch(function: Any, *arrays: Any) -> Any:
    torch = pytest.importorskip("torch")
    return function(*map(torch.from_numpy, arrays))


UNSEEN = (traced_by_jax, lazy_in_dask, on_meta)
EVERYWHERE = (*UNSEEN, on_another_device, in_torch)
BESIDE = (on_another_device, in_torch)
SCALE = np.full((4, 4), 0.5, np.float32)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_a_missing_tensor_scale_is_refused_everywhere(place: Any) -> None:
    with pytest.raises(aq.QParamsError, match=MISSING):
        place(lambda x, s: aq.quantize(x, "nvfp4", qparams=QParams(s)), X, SCALE)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_a_superfluous_tensor_scale_is_refused_everywhere(place: Any) -> None:
    one = np.float32(1).reshape(())
    with pytest.raises(aq.QParamsError, match="a one-level scheme requires no tensor_scale"):
        place(
            lambda x, s, t: aq.quantize(x, "q8s/16:f32", qparams=QParams(s, tensor_scale=t)),
            X, SCALE, np.asarray(one),
        )  # fmt: skip


@pytest.mark.parametrize("place", EVERYWHERE)
def test_scales_of_another_shape_are_refused_everywhere(place: Any) -> None:
    with pytest.raises(aq.QParamsError, match=r"scale requires the shape \(4, 4\) .* \(4, 3\)"):
        place(lambda x, s: aq.quantize(x, "q8s/16:f32", qparams=QParams(s)), X, SCALE[:, :3].copy())


@pytest.mark.parametrize("place", EVERYWHERE)
def test_missing_zero_points_are_refused_everywhere(place: Any) -> None:
    with pytest.raises(aq.QParamsError, match="an affine scheme should have a zero point"):
        place(lambda x, s: aq.quantize(x, "int8a/16:f32", qparams=QParams(s)), X, SCALE)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_stored_parts_without_a_level_are_refused_everywhere(place: Any) -> None:
    q = aq.quantize(X, "nvfp4")
    with pytest.raises(aq.QParamsError, match=MISSING):
        place(lambda data, scales: aq.QuantizedArray(data, scales, "nvfp4"), q.data, q.scale_data)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_stored_parts_of_another_dtype_are_refused_everywhere(place: Any) -> None:
    q = aq.quantize(X, "int8/16:f32")
    with pytest.raises(aq.LayoutError, match=r"data requires int8 .* got uint8"):
        place(
            lambda data, scales: aq.QuantizedArray(data, scales, q.scheme),
            q.data.view(np.uint8), q.scale_data,
        )  # fmt: skip
    with pytest.raises(aq.QParamsError, match="scale_data requires float32"):
        place(
            lambda data, scales: aq.QuantizedArray(data, scales, q.scheme),
            q.data, q.scale_data.astype(np.float16).view(np.uint16),
        )  # fmt: skip


WRONG = {
    "negative": (-1.0, "q8s/16:f32"),
    "infinite": (np.inf, "q8s/16:f32"),
    "nan": (np.nan, "q8s/16:f32"),
    "between": (1.0001, "q8s/16:f16"),
    "no power of two": (3.0, "q8s/16:ue8m0"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("place", BESIDE)
def test_a_number_that_is_no_scale_is_refused_where_it_is_seen(place: Any, wrong: str) -> None:
    number, spelling = WRONG[wrong]
    scale = SCALE.copy()
    scale[2, 1] = number
    with pytest.raises(aq.QParamsError, match="scale requires numbers"):
        place(lambda x, s: aq.quantize(x, spelling, qparams=QParams(s)), X, scale)


@pytest.mark.parametrize("tensor_scale", [-1.0, np.inf, np.nan])
@pytest.mark.parametrize("place", BESIDE)
def test_a_tensor_scale_that_is_none_is_refused_where_it_is_seen(
    place: Any, tensor_scale: float
) -> None:
    given = np.asarray(np.float32(tensor_scale))
    with pytest.raises(aq.QParamsError, match="tensor_scale requires"):
        place(lambda x, s, t: aq.quantize(x, "nvfp4", qparams=QParams(s, t)), X, SCALE, given)


@pytest.mark.parametrize("place", UNSEEN)
def test_numbers_that_cannot_be_seen_are_taken_at_their_word(place: Any) -> None:
    q = place(lambda x, s: aq.quantize(x, "q8s/16:f32", qparams=QParams(s)), X, -SCALE)
    assert q.shape == X.shape


SPELLINGS = ("nvfp4", "int4/32", "int8/row", "int8a/32", "mxfp8", "q4s/16:bf16", "nf4/64")


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("place", EVERYWHERE)
def test_calibrated_parameters_quantize_to_what_quantize_gives(place: Any, spelling: str) -> None:
    def both(x: Any) -> Any:
        return aq.quantize(x, spelling), aq.quantize(x, spelling, qparams=aq.calibrate(x, spelling))

    one, other = place(both, X)
    if place is on_meta:
        assert [p.shape for p in one._parts() if p is not None] == [
            p.shape for p in other._parts() if p is not None
        ]
        return
    if place is on_another_device:
        strict = pytest.importorskip("array_api_strict")
        cpu = strict.Device("CPU_DEVICE")
        pairs = zip(one._parts(), other._parts(), strict=True)
        for part, same in ((p.to_device(cpu), s.to_device(cpu)) for p, s in pairs if p is not None):
            np.testing.assert_array_equal(np.asarray(part), np.asarray(same))
        return
    for part, same in zip(one._parts(), other._parts(), strict=True):
        if part is not None:
            np.testing.assert_array_equal(np.asarray(part), np.asarray(same))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_parameters_of_numpy_serve_arrays_of_any_library(spelling: str) -> None:
    expected = aq.quantize(X, spelling)
    for place in (traced_by_jax, lazy_in_dask, in_torch):
        qparams = aq.calibrate(X, spelling)
        q = place(lambda x, p=qparams: aq.quantize(x, spelling, qparams=p), X)
        np.testing.assert_array_equal(np.asarray(q.data), expected.data)
        np.testing.assert_array_equal(np.asarray(q.scale_data), expected.scale_data)


def test_parts_of_two_libraries_do_not_make_one_array() -> None:
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    q = aq.quantize(X, "int8/row")
    with pytest.raises(aq.ArrayTypeError, match="require one array library, got jax beside torch"):
        aq.QuantizedArray(torch.from_numpy(q.data), jnp.asarray(q.scale_data), q.scheme)


def test_bfloat16_scales_of_torch_are_numbers_and_not_bits() -> None:
    torch = pytest.importorskip("torch")
    scale = torch.full((4, 4), 0.5, dtype=torch.bfloat16)
    q = aq.quantize(torch.from_numpy(X), "q8s/16:bf16", qparams=QParams(scale))
    assert torch.equal(q.scale, scale.to(torch.float32))
    with generic_path():
        q = aq.quantize(torch.from_numpy(X), "q8s/16:bf16", qparams=QParams(scale))
    assert torch.equal(q.scale, scale.to(torch.float32))


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state")
def test_sparse_tensors_are_refused_by_their_layout(layout: str) -> None:
    torch = pytest.importorskip("torch")
    x = getattr(torch.eye(64), layout)()
    for function in (aq.quantize, aq.calibrate, aq.fake_quantize):
        with pytest.raises(aq.ArrayTypeError, match=r"dense tensor, got .*sparse.*to_dense\(\)"):
            function(x, "int8/row")


def test_a_batch_out_of_vmap_says_what_it_is() -> None:
    jax = pytest.importorskip("jax")
    batch = jax.vmap(lambda x: aq.quantize(x, "int8/tensor"))(X)
    assert batch.nbytes == X.size + 4 * len(X)
    assert "QuantizedArray(shape=(4, 64)" in repr(batch)
    with pytest.raises(aq.LayoutError, match=r"a batch of arrays, .* use it inside vmap"):
        batch.dequantize()
    np.testing.assert_array_equal(
        jax.vmap(lambda q: q.dequantize())(batch),
        np.stack([aq.quantize(row, "int8/tensor").dequantize() for row in X]),
    )
