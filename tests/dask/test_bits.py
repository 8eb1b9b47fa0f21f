"""Every scheme in any chunks gives the bits that NumPy gives."""

import dask
import numpy as np
import pytest
import scheme_drawing
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lazily import (
    assert_equals_numpy,
    assert_same_bits,
    computed,
    cuts,
    dequantize,
    lazy,
    parts_of,
    quantize,
)

import arrayq as aq
from arrayq._paths.parts import Policy, Stored

PRESETS = [
    "int8/row", "int4/row", "int8/32", "int4/32", "int2/32", "q8f/tensor", "e4m3/32", "e5m2/tensor",
    "e2m1/row", "nf4/64", "mxfp4", "mxfp8", "mxfp8-e5m2", "mxfp6-e3m2", "mxfp6-e2m3", "nvfp4",
    "ternary",
]  # fmt: skip


def test_chunks_that_cut_blocks_are_realigned():
    x = np.random.default_rng(27).standard_normal((10, 100)).astype(np.float32)
    scheme = aq.scheme("int4/16")
    stored, _ = quantize(lazy(x, (4, 30)), scheme)
    assert all(length % 16 == 0 for length in np.multiply(stored.data.chunks[1][:-1], 2))
    assert_equals_numpy(stored, aq.quantize(x, scheme))


@pytest.mark.parametrize("spelling", PRESETS)
@pytest.mark.parametrize("chunks", [(4, 30), (10, 7), (1, 100), ((1, 9), (64, 36)), (10, 100)])
def test_every_preset_equals_numpy(spelling, chunks):
    x = np.random.default_rng(0).standard_normal((10, 100)).astype(np.float32)
    stored, layout = quantize(lazy(x, chunks), spelling)
    q = aq.quantize(x, spelling)
    assert_equals_numpy(stored, q)
    assert_same_bits(dequantize(stored, layout).compute(scheduler="sync"), q.dequantize())


@given(problem=scheme_drawing.problems(), data=st.data())
@settings(max_examples=100)
def test_any_scheme_in_any_chunks_equals_numpy(problem, data):
    x, spec = problem
    scheme = scheme_drawing.scheme_of(spec)
    assume(str(scheme.rounding) != "stochastic")
    stored, layout = quantize(lazy(x, data.draw(cuts(x.shape))), scheme)
    q = aq.quantize(x, scheme)
    assert_equals_numpy(stored, q)
    floats = dequantize(stored, layout)
    assert floats.shape == x.shape
    assert_same_bits(floats.compute(scheduler="sync"), q.dequantize())


@given(problem=scheme_drawing.problems(), data=st.data())
@settings(max_examples=100)
def test_what_is_not_finite_propagates_through_blocks_of_several_chunks(problem, data):
    x, spec = problem
    scheme = scheme_drawing.scheme_of(spec)
    assume(str(scheme.rounding) != "stochastic")
    x = x.copy()
    rng = np.random.default_rng(data.draw(scheme_drawing.seeds))
    if x.size:
        x.reshape(-1)[rng.integers(0, x.size, 3)] = [np.nan, np.inf, -np.inf]
    stored, _ = quantize(lazy(x, data.draw(cuts(x.shape))), scheme)
    assert_equals_numpy(stored, aq.quantize(x, scheme, nonfinite="propagate"))


@given(problem=scheme_drawing.problems(), data=st.data())
@settings(max_examples=100)
def test_infinities_saturate_in_blocks_of_several_chunks(problem, data):
    x, spec = problem
    scheme = scheme_drawing.scheme_of(spec)
    assume(str(scheme.rounding) != "stochastic")
    x = x.copy()
    rng = np.random.default_rng(data.draw(scheme_drawing.seeds))
    if x.size:
        x.reshape(-1)[rng.integers(0, x.size, data.draw(st.sampled_from([2, 400])))] = np.inf
    stored, _ = quantize(lazy(x, data.draw(cuts(x.shape))), scheme, policy=Policy.SATURATE)
    assert_equals_numpy(stored, aq.quantize(x, scheme, nonfinite="saturate"))


@given(problem=scheme_drawing.problems(), data=st.data(), propagate=st.booleans())
@settings(max_examples=100)
def test_given_scales_are_encoded_against(problem, data, propagate):
    x, spec = problem
    scheme = scheme_drawing.scheme_of(spec)
    assume(str(scheme.rounding) != "stochastic")
    q = aq.quantize(x, scheme)
    given_parts = Stored(*(None if part is None else lazy(part, "auto") for part in parts_of(q)))
    y = x.copy()
    if x.size and propagate:
        y.reshape(-1)[-1] = np.nan
    stored, _ = quantize(lazy(y, data.draw(cuts(x.shape))), scheme, given=given_parts)
    expected = aq.quantize(y, scheme, qparams=q.qparams, nonfinite="propagate")
    assert_equals_numpy(stored, expected)


@given(problem=scheme_drawing.problems(), data=st.data())
@settings(max_examples=100)
def test_parts_in_any_chunks_with_any_block_offset_decode(problem, data):
    x, spec = problem
    assume(x.ndim)
    q = aq.quantize(x, scheme_drawing.scheme_of(spec))
    starts = [data.draw(st.integers(0, length)) for length in x.shape]
    q = q[tuple(slice(start, None) for start in starts)]
    stored = Stored(
        *(None if p is None else lazy(p, data.draw(cuts(p.shape))) for p in parts_of(q))
    )
    floats = dequantize(stored, q.plan)
    assert_same_bits(floats.compute(scheduler="sync"), q.dequantize())


@pytest.mark.parametrize("spelling", PRESETS)
def test_calibrating_makes_the_scales_and_no_data(spelling):
    x = np.random.default_rng(1).standard_normal((10, 100)).astype(np.float32)
    stored, _ = quantize(lazy(x, (4, 30)), spelling, encode=False)
    assert stored.data is None
    q = aq.quantize(x, spelling)
    for lazily, eagerly in zip(computed(stored)[1:], parts_of(q)[1:], strict=True):
        assert_same_bits(lazily, eagerly)


@pytest.mark.parametrize("method", ["minmax", "absmean"])
@pytest.mark.parametrize("spelling", ["int8/row", "int8/32", "q8f/tensor"])
def test_another_calibration_equals_numpy(spelling, method):
    x = np.random.default_rng(2).standard_normal((40, 300)).astype(np.float32)
    stored, _ = quantize(lazy(x, (7, 31)), spelling, method=method)
    assert_equals_numpy(stored, aq.quantize(x, spelling, method=method))


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_elements_decode_to_other_dtypes(dtype):
    x = np.random.default_rng(3).standard_normal((10, 100)).astype(np.float32)
    stored, layout = quantize(lazy(x, (4, 30)), "nvfp4")
    q = aq.quantize(x, "nvfp4")
    floats = dequantize(stored, layout, dtype)
    assert floats.dtype.name == dtype
    assert_same_bits(floats.compute(scheduler="sync"), q.dequantize(dtype=dtype))


def test_parts_and_floats_computed_together_agree():
    x = np.random.default_rng(4).standard_normal((64, 640)).astype(np.float32)
    stored, layout = quantize(lazy(x, (10, 100)), "nvfp4")
    data, floats = dask.compute(stored.data, dequantize(stored, layout), scheduler="threads")
    q = aq.quantize(x, "nvfp4")
    assert_same_bits(data, q.data)
    assert_same_bits(floats, q.dequantize())
