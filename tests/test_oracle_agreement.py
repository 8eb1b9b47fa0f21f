"""Random schemes over random arrays: what is stored and decoded is the oracle's, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.elements import ELEMENTS, Integer
from oracle.scales import largest_scale, round_nearest, smallest_scale
from scheme_drawing import dense_arrays, large_shapes, problems, scheme_of, seeds, shapes, specs

import arrayq as aq

Problem = tuple[npt.NDArray[Any], oracle.Spec]
Doubles = npt.NDArray[np.float64]

TENSOR_SCALES = [0.0, 2.0**-149, 2.0**-126, 2.0**-3, 1.0, 2.0**100]


def assert_same_array(got: Any, expected: npt.NDArray[Any], what: str) -> None:
    """Compare dtype, shape and bytes; a NaN equals any NaN."""
    assert isinstance(got, np.ndarray), what
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), what
    if got.dtype == np.float32:
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(got), ~number, err_msg=what)
        got, expected = np.asarray(got[number]), np.asarray(expected[number])
        got, expected = got.view(np.uint32), expected.view(np.uint32)
    np.testing.assert_array_equal(got, expected, err_msg=what)


def assert_is(q: aq.QuantizedArray, expected: oracle.Encoded) -> None:
    """Compare everything that is stored, and what it decodes to."""
    assert_same_array(q.scale_data, expected.scale_data, "scale_data")
    if expected.tensor_scale is None:
        assert q.tensor_scale is None
    else:
        assert_same_array(
            np.asarray(q.tensor_scale), np.asarray(expected.tensor_scale), "tensor_scale"
        )
    if expected.zero_data is None:
        assert q.zero_point is None
    else:
        assert_same_array(q.zero_point, expected.zero_data, "zero_point")
    assert_same_array(q.data, expected.data, "data")
    assert_same_array(aq.dequantize(q), expected.values, "values")
    assert q.shape == expected.codes.shape
    fields = np.asarray(q.codes()).astype(np.int64) % 2**q.scheme.value.bits
    np.testing.assert_array_equal(fields, expected.codes)


@given(problems(), st.integers(1, 4))
def test_quantize_stores_what_the_oracle_stores(problem: Problem, threads: int) -> None:
    x, spec = problem
    assert_is(aq.quantize(x, scheme_of(spec), threads=threads), oracle.encode_array(x, spec))


@settings(max_examples=max(settings.default.max_examples // 4, 1))
@given(problems(large_shapes()), st.integers(1, 8))
def test_arrays_larger_than_any_cache_are_cut_without_a_seam(
    problem: Problem, threads: int
) -> None:
    x, spec = problem
    assert_is(aq.quantize(x, scheme_of(spec), threads=threads), oracle.encode_array(x, spec))


@pytest.mark.parametrize("threads", [1, 2, 4, 7])
@pytest.mark.parametrize("block", [(3, 1), (5, 2), (8, 1), (9, -1)])
@pytest.mark.parametrize(("value", "store"), [("q4s", "packed_native"), ("u5", "packed_u32")])
def test_words_that_straddle_blocks_are_shared_out_among_threads(
    value: str, store: str, block: tuple[int, ...], threads: int
) -> None:
    x = np.random.default_rng(5).standard_normal((108, 20)).astype(np.float32)
    table = tuple(np.linspace(-1, 1, 32, dtype=np.float32).tolist()) if value == "u5" else None
    spec = oracle.Spec(value, table, store, 1, block)
    assert_is(aq.quantize(x, scheme_of(spec), threads=threads), oracle.encode_array(x, spec))


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("shape", [(4,), (2, 2), (2, 1, 2)])
def test_magnitudes_are_summed_in_float64_in_c_order(shape: tuple[int, ...], threads: int) -> None:
    # In C order each 1 is lost to float64's rounding and the mean is a float32 tie, which goes
    # to even; in another order the ones add up and lift it over the tie.
    x = np.array([2.0**53, 2.0**29, 1, 1], np.float32).reshape(shape)
    scheme = aq.QuantScheme().with_value("q2s").with_store("native").per_tensor("f32")
    in_order = aq.calibrate(x, scheme, "absmean", threads=threads)
    assert in_order.scale.ravel() == np.float32(2.0**51)
    backwards = aq.calibrate(np.flip(x), scheme, "absmean", threads=threads)
    assert backwards.scale.ravel() == np.float32(2.0**51 + 2.0**28)


@given(problems(), st.integers(1, 4))
def test_calibrate_then_quantize_is_quantize(problem: Problem, threads: int) -> None:
    x, spec = problem
    scheme = scheme_of(spec)
    found = aq.calibrate(x, scheme, threads=threads)
    expected = oracle.encode_array(x, spec)
    assert_same_array(found.scale, expected.scales.astype(np.float32), "scale")
    assert_is(aq.quantize(x, scheme, qparams=found), expected)


@given(problems(), st.integers(1, 4), seeds)
def test_fake_quantize_is_the_decoded_array_in_the_dtype_of_the_input(
    problem: Problem, threads: int, seed: int
) -> None:
    x, spec = problem
    expected = oracle.encode_array(x, spec).values
    native = x.dtype.newbyteorder("=")
    got = aq.fake_quantize(x, scheme_of(spec), threads=threads)
    assert (got.dtype, got.shape) == (native, x.shape)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, expected.astype(native))


@given(problems(), seeds)
def test_out_receives_the_same_bits_whatever_it_held(problem: Problem, seed: int) -> None:
    x, spec = problem
    scheme = scheme_of(spec)
    expected = oracle.encode_array(x, spec)
    rng = np.random.default_rng(seed)
    other = aq.quantize(rng.standard_normal(x.shape).astype(np.float32), scheme)
    out = other.copy()
    assert aq.quantize(x, scheme, out=out) is out
    assert_is(out, expected)
    values = np.full(x.shape, 7, np.float32)
    assert aq.dequantize(out, out=values) is values
    assert_same_array(values, expected.values, "values")


@dataclass(frozen=True)
class Given:
    """An array, a scheme, and parameters that have nothing to do with the array."""

    x: npt.NDArray[Any]
    spec: oracle.Spec
    scales: Doubles
    tensor_scale: float | None
    zeros: Doubles | None


def drawn_scales(rng: np.random.Generator, grid: tuple[int, ...], spread: int) -> list[float]:
    """Return positive numbers of float32 within a spread of binades around 1."""
    raw = np.exp2(rng.integers(-spread, spread + 1, grid) + rng.random(grid))
    return [float(np.float32(number)) for number in raw.ravel().tolist()]


@st.composite
def drawn_zeros(draw: st.DrawFn, spec: oracle.Spec, grid: tuple[int, ...]) -> Doubles | None:
    """Draw zero points: codes anywhere in the range, or numbers of any size."""
    if spec.zero is None:
        return None
    rng = np.random.default_rng(draw(seeds))
    element = ELEMENTS[spec.value]
    assert isinstance(element, Integer)
    if spec.zero.is_whole:
        return rng.integers(element.low, element.high + 1, grid).astype(np.float64)
    spread = draw(st.sampled_from([0.0, 1.0, 100.0, 60000.0]))
    exact = np.float32(rng.standard_normal(grid) * spread)
    codes = oracle.encode_values(exact, spec.zero.dtype)
    decoded = oracle.decode_codes(codes, spec.zero.dtype).reshape(grid).astype(np.float64)
    # A zero point has no negative zero; a sum without axes is a number, not an array.
    return np.asarray(decoded + 0.0)


@st.composite
def given_parameters(draw: st.DrawFn) -> Given:
    """Draw an array, a scheme, and its parameters apart from each other."""
    shape = draw(shapes())
    spec = draw(specs(len(shape)))
    x = draw(dense_arrays(shape))
    rng = np.random.default_rng(draw(seeds))
    grid = oracle.grid_shape(shape, spec.block_on(len(shape)))
    dtype = spec.scale_dtype
    raw = drawn_scales(rng, grid, draw(st.sampled_from([0, 3, 60])))
    extremes = [smallest_scale(dtype), largest_scale(dtype)] + [0.0] * (dtype != "ue8m0")
    flat = [round_nearest(r, dtype) or smallest_scale(dtype) for r in raw]
    if flat and draw(st.booleans()):
        flat[int(rng.integers(0, len(flat)))] = draw(st.sampled_from(extremes))
    scales = np.array(flat, np.float64).reshape(grid)
    if spec.scale_from == "signed_max":
        scales = np.asarray(scales * rng.choice([-1, 1], grid) + 0.0)
    return Given(
        x,
        spec,
        scales,
        draw(st.sampled_from(TENSOR_SCALES)) if spec.two_level else None,
        draw(drawn_zeros(spec, grid)),
    )


@given(given_parameters(), st.integers(1, 4))
def test_given_parameters_are_stored_and_obeyed(problem: Given, threads: int) -> None:
    qparams = aq.QParams(
        scale=problem.scales.astype(np.float32),
        tensor_scale=problem.tensor_scale,
        zero_point=problem.zeros,
    )
    got = aq.quantize(problem.x, scheme_of(problem.spec), qparams=qparams, threads=threads)
    expected = oracle.encode_array(
        problem.x,
        problem.spec,
        scales=problem.scales,
        tensor_scale=problem.tensor_scale,
        zeros=problem.zeros,
    )
    assert_is(got, expected)


@given(given_parameters(), st.sampled_from(["propagate", "saturate"]), st.integers(1, 4), seeds)
def test_given_parameters_meet_numbers_that_are_not_finite(
    problem: Given, policy: str, threads: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = problem.x.astype(np.float32)
    specials = [np.inf, -np.inf] + [np.nan] * (policy == "propagate")
    for _ in range(min(3, x.size)):
        x[tuple(rng.integers(0, n) for n in x.shape)] = rng.choice(specials)
    scales, zeros = problem.scales.copy(), None
    if problem.zeros is not None:
        zeros = problem.zeros.copy()
    if policy == "propagate":
        cells = oracle.cell_numbers(x.shape, problem.spec.block_on(x.ndim))
        spoiled = np.unique(cells[~np.isfinite(x)])
        scales.ravel()[spoiled] = np.nan
        if zeros is not None:
            zeros.ravel()[spoiled] = 0.0
    qparams = aq.QParams(
        scale=problem.scales.astype(np.float32),
        tensor_scale=problem.tensor_scale,
        zero_point=problem.zeros,
    )
    scheme = scheme_of(problem.spec)
    got = aq.quantize(x, scheme, qparams=qparams, nonfinite=policy, threads=threads)
    expected = oracle.encode_array(
        x,
        problem.spec,
        nonfinite=policy,
        scales=scales,
        tensor_scale=problem.tensor_scale,
        zeros=zeros,
    )
    assert_is(got, expected)


@given(problems())
def test_what_calibration_finds_quantizes_to_the_same_bits(problem: Problem) -> None:
    x, spec = problem
    scheme = scheme_of(spec)
    found = aq.calibrate(x, scheme)
    assert_is(aq.quantize(x, scheme, qparams=found), oracle.encode_array(x, spec))


@given(problems())
def test_bytes_are_data_scales_zero_points_tensor_scale_and_load_again(problem: Problem) -> None:
    x, spec = problem
    scheme = scheme_of(spec)
    expected = oracle.encode_array(x, spec)
    parts = [expected.data, expected.scale_data]
    if expected.zero_data is not None:
        parts.append(expected.zero_data)
    if expected.tensor_scale is not None:
        parts.append(np.asarray(expected.tensor_scale))
    stored = b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)
    assert aq.to_bytes(aq.quantize(x, scheme)) == stored
    assert_is(aq.from_bytes(stored, scheme, x.shape), expected)


@given(problems())
def test_codes_pack_and_unpack_as_the_oracle_packs(problem: Problem) -> None:
    x, spec = problem
    expected = oracle.encode_array(x, spec)
    codes = aq.quantize(x, scheme_of(spec)).codes()
    store = spec.store if spec.store == "native" else f"{spec.store}({spec.dim})"
    value = spec.value if spec.table is None else f"u{spec.bits}"
    words = aq.pack(codes, value, store)
    assert_same_array(words, expected.data, "words")
    extent = x.shape[x.ndim - 1 - spec.dim] if x.ndim else 1
    np.testing.assert_array_equal(aq.unpack(words, value, store, extent), codes)


@st.composite
def with_nonfinite(draw: st.DrawFn, nan: bool) -> Problem:
    """Draw a float32 array with infinities, and NaN where asked for, and a scheme for it."""
    shape = draw(shapes().filter(lambda shape: 0 not in shape))
    spec = draw(specs(len(shape)))
    x = draw(dense_arrays(shape)).astype(np.float32)
    rng = np.random.default_rng(draw(seeds))
    specials = [np.inf, -np.inf] + [np.nan, -np.nan] * nan
    for _ in range(draw(st.integers(1, 4))):
        x[tuple(rng.integers(0, n) for n in shape)] = draw(st.sampled_from(specials))
    if draw(st.integers(0, 4)) == 0:
        x[np.isfinite(x)] = 0.0
    return x, spec


@given(with_nonfinite(nan=True), st.integers(1, 4))
def test_propagating_makes_the_blocks_scale_nan(problem: Problem, threads: int) -> None:
    x, spec = problem
    got = aq.quantize(x, scheme_of(spec), nonfinite="propagate", threads=threads)
    assert_is(got, oracle.encode_array(x, spec, nonfinite="propagate"))


@given(with_nonfinite(nan=False), st.integers(1, 4))
def test_saturating_makes_infinities_the_largest_codes(problem: Problem, threads: int) -> None:
    x, spec = problem
    got = aq.quantize(x, scheme_of(spec), nonfinite="saturate", threads=threads)
    assert_is(got, oracle.encode_array(x, spec, nonfinite="saturate"))


@given(with_nonfinite(nan=True))
def test_raising_names_counts_and_the_first_place(problem: Problem) -> None:
    x, spec = problem
    with pytest.raises(aq.NonFiniteError) as caught:
        aq.quantize(x, scheme_of(spec))
    assert caught.value.nan == np.isnan(x).sum()
    assert caught.value.inf == np.isinf(x).sum()
    assert caught.value.first_index == tuple(np.argwhere(~np.isfinite(x))[0].tolist())


@given(problems(), st.data())
def test_an_offset_moves_the_blocks_under_the_elements(
    problem: Problem, data: st.DataObject
) -> None:
    x, spec = problem
    scheme = scheme_of(spec).resolve(x.ndim)
    block = spec.block_on(x.ndim)
    full = (1,) * x.ndim if block is None else (1,) * (x.ndim - len(block)) + block
    # An axis that one block spans, or that is empty, has no room for an offset.
    room = [min(size, 40) if n and size > 0 else 1 for n, size in zip(x.shape, full, strict=True)]
    offset = tuple(data.draw(st.integers(0, size - 1)) for size in room)
    grid = oracle.grid_shape(x.shape, block, offset)
    rng = np.random.default_rng(0)
    scales = np.exp2(rng.integers(-2, 3, grid)).astype(np.float64)
    codes = oracle.encode_array(x, spec).codes
    tensor = 0.5 if spec.two_level else None
    zeros = data.draw(drawn_zeros(spec, grid))
    expected = oracle.decode_array(codes, scales, tensor, spec, offset=offset, zeros=zeros)
    q = aq.QuantizedArray(
        aq.quantize(x, scheme).data,
        oracle.scale_bits(scales, spec.scale_dtype),
        scheme,
        extent=x.shape[x.ndim - 1 - spec.dim] if x.ndim else None,
        tensor_scale=None if tensor is None else np.float32(tensor),
        zero_point=None if spec.zero is None else oracle.zero_bits(zeros, spec.zero.dtype),
        block_offset=offset,
    )
    assert_same_array(aq.dequantize(q), expected, "values")
