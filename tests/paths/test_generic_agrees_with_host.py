"""The generic path over NumPy arrays: what it stores and decodes is the kernels', bit for bit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import array_api_compat.numpy
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from path_comparison import (
    NUMPY,
    assert_paths_agree,
    assert_same_bits,
    assert_same_parts,
    by_generic,
    by_host,
    decoded_by_generic,
    decoded_by_host,
)
from scheme_drawing import problems, scheme_of, seeds

import arrayq as aq
from arrayq._paths import generic
from arrayq._paths.generic import scales, zeros
from arrayq._paths.generic.binades import split_binade
from arrayq._paths.parts import Policy, Stored
from arrayq._paths.space import Space
from arrayq.layout import plan
from arrayq.numerics import (
    Numerics,
    Rounding,
    ScaleFrom,
    ScaleRounding,
    Scaling,
    TensorFrom,
    ZeroBlock,
    ZeroRounding,
)
from arrayq.scheme import QuantMode, QuantValue, ScaleDtype, ZeroDtype, ZeroKind, ZeroPoint

Array = npt.NDArray[Any]

STORES = ("native", "packed_native", "packed_u32", "packed_native(1)", "packed_u32(1)")
LEVELS = ("tensor", "block", "channel", "two")
SPECIALS = (np.inf, -np.inf, np.nan, -np.nan)


def some_array(shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[np.float32]:
    """Return an array of blocks of many magnitudes, some of them zeros of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, (*shape[:-1], 1)))
    x[rng.random(shape) < 0.1] = 0.0
    x[0] = np.copysign(0.0, x[0])
    return np.asarray(x, np.float32)


def codebook_of(value: QuantValue) -> list[float]:
    """Return an unsorted table with entries that are equal."""
    rng = np.random.default_rng(value.bits)
    table = rng.standard_normal(2**value.bits).astype(np.float32)
    table[-1] = table[0]
    return [float(entry) for entry in table]


def schemes_of(value: QuantValue) -> Iterator[aq.QuantScheme]:
    """Return all combinations of store, mode, level and scale dtype that make sense."""
    combinations = itertools.product(STORES, QuantMode, LEVELS, ScaleDtype)
    for store, mode, level, dtype in combinations:
        parts: dict[str, Any] = {"value": value, "store": store, "mode": mode}
        parts["codebook"] = codebook_of(value) if mode is QuantMode.LOOKUP else None
        parts["tensor"] = {"tensor": dtype, "two": "f32"}.get(level)
        if level == "channel":
            parts["block"] = aq.ChannelScale(0, dtype)
        elif level != "tensor":
            parts["block"] = aq.BlockScale([7], dtype)
        try:
            yield aq.QuantScheme(**parts)
        except aq.SchemeError:
            continue


@pytest.mark.parametrize("value", QuantValue)
def test_every_value_in_every_store_mode_level_and_scale_dtype(value: QuantValue) -> None:
    x = some_array((5, 19))
    compared = 0
    for scheme in schemes_of(value):
        assert_paths_agree(x, scheme)
        compared += 1
    assert compared >= 60


RULES: dict[str, tuple[Any, ...]] = {
    "rounding": tuple(Rounding),
    "scaling": tuple(Scaling),
    "scale_from": tuple(ScaleFrom),
    "scale_rounding": tuple(ScaleRounding),
    "smallest_scale": (2.0**-149, 1e-5, 1.0),
    "zero_block": tuple(ZeroBlock),
    "tensor_from": tuple(TensorFrom),
    "zero_in_range": (False,),
    "zero_rounding": tuple(ZeroRounding),
}
ZEROS = (None, *itertools.product(ZeroKind, ZeroDtype))


def schemes_with(rule: str, choice: Any) -> Iterator[aq.QuantScheme]:
    """Return schemes of every mode and scale dtype in which a rule may have a choice."""
    others: list[dict[str, Any]] = [
        {},
        {"scale_rounding": "nearest", "scaling": "reciprocal"},
        {"scale_from": "nearest_log2", "zero_block": "one"},
        {"scale_from": "inverse_range"},
        {"scale_from": "qmax", "smallest_scale": 1e-4},
    ]
    for value, dtype, zero, two, more in itertools.product(
        ("q4f", "q4s", "e4m3", "e2m1", "u3"), ScaleDtype, ZEROS, (False, True), others
    ):
        affine = zero is not None
        rules = {**more, rule: choice}
        if rules.get("rounding") is Rounding.STOCHASTIC:
            rules["seed"] = 2**64 - 3
        try:
            yield aq.QuantScheme(
                value,
                "native",
                "affine" if affine else "lookup" if value[0] == "u" else "symmetric",
                aq.BlockScale([2, 6], dtype),
                "f32" if two else None,
                Numerics(**rules),
                codebook_of(QuantValue.U3) if value == "u3" and not affine else None,
                ZeroPoint(*zero) if zero is not None else None,
            )
        except aq.SchemeError:
            continue


@pytest.mark.parametrize(
    ("rule", "choice"), [(rule, choice) for rule, choices in RULES.items() for choice in choices]
)
def test_every_choice_of_every_rule(rule: str, choice: Any) -> None:
    x = some_array((6, 20), seed=3)
    far = x + np.float32(1000.0)
    schemes = list(schemes_with(rule, choice))
    assert schemes
    for scheme in schemes:
        assert_paths_agree(x, scheme)
        if scheme.mode is QuantMode.AFFINE:
            assert_paths_agree(far, scheme)


@given(problems(), st.sampled_from(list(Policy)[:3]), seeds)
def test_drawn_schemes_over_drawn_arrays(problem: Any, policy: Policy, seed: int) -> None:
    x, spec = problem
    scheme = scheme_of(spec)
    if spec.calibration == "absmean":
        scheme = scheme.with_numerics(calibration="minmax")
    if policy is not Policy.RAISE and x.size:
        x = with_specials(x.astype(np.float32), policy, seed)
    assert_paths_agree(x, scheme, policy)


def with_specials(x: Array, policy: Policy, seed: int) -> Array:
    """Return the array with a few elements that are not finite, NaN only where they propagate."""
    rng = np.random.default_rng(seed)
    x = x.copy()
    specials = SPECIALS if policy is Policy.PROPAGATE else SPECIALS[:2]
    for _ in range(3):
        x[tuple(rng.integers(0, n) for n in x.shape)] = rng.choice(specials)
    return x


@given(problems(), st.sampled_from(list(Policy)[:3]), seeds)
def test_given_scales_are_encoded_against(problem: Any, policy: Policy, seed: int) -> None:
    x, spec = problem
    scheme = scheme_of(spec)
    layout = plan(scheme, x.shape)
    rng = np.random.default_rng(seed)
    other = rng.permutation(x.astype(np.float32).ravel()).reshape(x.shape)
    found = by_host(np.asarray(other * np.float32(rng.uniform(0.1, 1))), layout, Policy.SATURATE)
    if policy is not Policy.RAISE and x.size:
        x = with_specials(x.astype(np.float32), policy, seed)
    assert_paths_agree(x, scheme, policy, found)


@given(problems(), st.data())
def test_offset_blocks_are_decoded_encoded_and_expanded(problem: Any, data: st.DataObject) -> None:
    x, spec = problem
    scheme = scheme_of(spec).resolve(x.ndim)
    extents = scheme.block_extents(x.ndim)
    room = [min(e, 40) if n and e > 0 else 1 for n, e in zip(x.shape, extents, strict=True)]
    offset = tuple(data.draw(st.integers(0, extent - 1)) for extent in room)
    layout = plan(scheme, x.shape, offset)
    # the array that the blocks would belong to, were none of them cut off at the front
    padding = [(start, 0) for start in offset]
    whole = np.pad(x.astype(np.float32), padding) if padding else x.astype(np.float32)
    if 0 in x.shape:
        return
    stored = by_host(whole, plan(scheme, whole.shape), Policy.SATURATE)
    assert stored.scale_data.shape == layout.grid
    x = np.asarray(whole[tuple(slice(start, None) for start in offset)])
    with np.errstate(all="ignore"):
        codes = generic.encode(NUMPY, x, layout, stored)
    moved = Stored(codes, stored.scale_data, stored.zero_point, stored.tensor_scale)
    values = decoded_by_generic(moved, layout)
    assert_same_bits(values, decoded_by_host(moved, layout), "values")
    if scheme.rounding is not Rounding.STOCHASTIC:
        of_whole = decoded_by_host(stored, plan(scheme, whole.shape))
        kept = of_whole[tuple(slice(start, None) for start in offset)]
        assert_same_bits(values, np.ascontiguousarray(kept).reshape(x.shape), "values of the whole")
    numbers = np.arange(stored.scale_data.size, dtype=np.float32).reshape(layout.grid)
    places = tuple(
        (np.arange(n) + start) // block
        for n, start, block in zip(x.shape, offset, layout.block, strict=True)
    )
    expected = numbers[np.ix_(*places)] if x.ndim else numbers
    assert_same_bits(generic.expand(NUMPY, numbers, layout), np.asarray(expected), "expanded")


def neighbours(numbers: Array) -> npt.NDArray[np.float32]:
    """Return float32 numbers and those just above and below."""
    numbers = np.asarray(numbers, np.float32)
    below, above = (
        np.nextafter(numbers, np.float32(-np.inf)),
        np.nextafter(numbers, np.float32(np.inf)),
    )
    return np.concatenate([below, numbers, above])


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("value", QuantValue)
def test_numbers_on_and_beside_every_decision_edge(value: QuantValue, rounding: Rounding) -> None:
    scheme = aq.QuantScheme().with_value(value).with_store("native")
    if scheme.mode is QuantMode.LOOKUP:
        scheme = scheme.with_mode("lookup", codebook_of(value))
        table = scheme.require_codebook()
        if rounding is not Rounding.HALF_AWAY:
            return
    else:
        scheme = scheme.with_numerics(rounding=rounding)
        table = value.format.values
    numbers = np.array(sorted({number for number in table if np.isfinite(number)}))
    middles = (numbers[1:] + numbers[:-1]) / 2
    x = neighbours(np.concatenate([numbers, middles, [0.0, -0.0, 3e38, -3e38, 1e-40, -1e-40]]))
    layout = plan(scheme, x.shape)
    one = Stored(None, np.ones(layout.grid, np.float32), None, None)
    assert_same_parts(by_generic(x, layout, given=one), by_host(x, layout, given=one), str(scheme))


@pytest.mark.parametrize("value", QuantValue)
def test_every_code_decodes_to_the_same_number(value: QuantValue) -> None:
    scheme = aq.QuantScheme().with_value(value).with_store("native")
    if scheme.mode is QuantMode.LOOKUP:
        scheme = scheme.with_mode("lookup", codebook_of(value))
    layout = plan(scheme, (1 << value.bits,))
    data = np.arange(1 << value.bits, dtype=np.uint8)
    if scheme.data_dtype == "int8":
        data = (data.astype(np.int16) << (8 - value.bits)).astype(np.int8) >> (8 - value.bits)
    stored = Stored(data, np.full(layout.grid, 0.75, np.float32), None, None)
    expected = decoded_by_host(stored, layout)
    assert_same_bits(decoded_by_generic(stored, layout), expected, str(scheme))


def all_scales(dtype: ScaleDtype) -> npt.NDArray[np.float32]:
    """Return every number of a scale dtype, some where there are too many; none of them NaN."""
    if dtype is ScaleDtype.F32:
        some = np.random.default_rng(0).integers(0, 0x7F800000, 5000, dtype=np.uint32)
        return some.view(np.float32)
    codes = np.arange(dtype.format.max_code + 1)
    return np.array([dtype.format.value_of(int(code)) for code in codes], np.float32)


def test_a_scale_in_and_between_all_numbers_of_its_dtype() -> None:
    for dtype, rounding in itertools.product(ScaleDtype, ScaleRounding):
        numbers = all_scales(dtype)
        middles = (numbers[1:].astype(np.float64) + numbers[:-1]) / 2
        raw = neighbours(np.concatenate([numbers, middles.astype(np.float32)]))
        raw = np.abs(raw[np.isfinite(raw)])
        # the raw scale of a block of one ternary element is its magnitude
        scheme = aq.QuantScheme().with_value("q2s").with_store("native").per_block(1, dtype)
        assert_paths_agree(raw, scheme.with_numerics(scale_rounding=rounding))


POWER_RULES = ("floor", "ceil", "rceil", "even", "nearest_log2")


@pytest.mark.parametrize("rule", POWER_RULES)
def test_powers_of_two_from_every_binade(rule: str) -> None:
    significands = [0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF]
    significands += [0x3504F3, 0x3504F4, 0x6FFFFF, 0x700000, 0x77FFFF, 0x780000, 0x5A8279, 0x5A827A]
    exponents = np.arange(255, dtype=np.uint32)[:, None] << 23
    x = (exponents | np.array(significands, np.uint32)).ravel().view(np.float32)
    for value, dtype in itertools.product(("e2m1", "e4m3", "e5m2", "q8f"), ("ue8m0", "f32")):
        try:
            scheme = aq.QuantScheme().with_value(value).with_store("native").per_block(1, dtype)
            scheme = scheme.with_numerics(scale_from=rule)
        except aq.SchemeError:
            continue
        assert_paths_agree(x, scheme)


@pytest.mark.parametrize("dtype", ScaleDtype)
def test_scales_that_are_numbers_come_back_from_their_bits(dtype: ScaleDtype) -> None:
    numbers = all_scales(dtype)
    if dtype.format.signed:
        numbers = np.concatenate([numbers, -numbers[numbers != 0]])
    numbers = np.append(numbers, np.float32(np.nan))
    with np.errstate(all="ignore"):
        stored = scales.encode_exact(NUMPY, numbers, dtype)
        assert stored.dtype == dtype.stored_dtype
        assert_same_bits(scales.decode(NUMPY, stored, dtype), numbers, "numbers")
    if dtype is not ScaleDtype.F32:
        expected = [*range(dtype.format.max_code + 1)]
        np.testing.assert_array_equal(stored[: len(expected)], expected)
        assert stored[-1] == dtype.format.nan_code


@pytest.mark.parametrize("dtype", ZeroDtype)
def test_zero_points_that_are_numbers_come_back_from_their_bits(dtype: ZeroDtype) -> None:
    low, high = dtype.range
    numbers = np.array([max(low, -(2.0**22)), 0.0, 1.0, 127.0, min(high, 2.0**22)], np.float32)
    stored = zeros.encode(NUMPY, numbers, dtype)
    assert stored.dtype == dtype.stored_dtype
    expected = numbers
    if dtype in (ZeroDtype.F16, ZeroDtype.BF16):
        largest = np.float32(dtype.format.qmax)
        expected = np.clip(numbers, -largest, largest)
    assert_same_bits(zeros.decode(NUMPY, stored, dtype), expected, "numbers")


@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (5, 0), (3, 0, 2), (1,), (1, 1)])
def test_arrays_of_no_axes_and_of_no_elements(shape: tuple[int, ...]) -> None:
    x = np.full(shape, -1.75, np.float32)
    for value in ("q8s", "q4f", "e2m1", "u4"):
        for store in ("native", "packed_native", "packed_u32"):
            scheme = aq.QuantScheme().with_value(value).with_store(store)
            levels = (
                [scheme.per_tensor("f32"), scheme.with_mode("affine").per_tensor("f16")]
                if value[0] != "e"
                else [scheme]
            )
            if shape:
                levels += [
                    scheme.per_block(3, "f16"),
                    scheme.per_block(3, "ue4m3").per_tensor("f32"),
                ]
            for level in levels:
                assert_paths_agree(x, level)


def test_tensor_scales_see_finite_elements_of_spoiled_blocks() -> None:
    x = some_array((4, 32))
    x[2, 3], x[2, 4], x[3, 0] = np.nan, 1e30, np.inf
    for policy in (Policy.PROPAGATE, Policy.SATURATE):
        y = np.where(np.isnan(x), np.float32(-np.inf), x) if policy is Policy.SATURATE else x
        for source in ("range", "endpoints", "qmax"):
            scheme = aq.QuantScheme().with_value("e2m1").per_block(16, "ue4m3").per_tensor("f32")
            assert_paths_agree(y, scheme.with_numerics(scale_from=source), policy)


def test_a_nan_propagates_under_saturate_where_nothing_can_raise() -> None:
    x = some_array((2, 32))
    x[1, 3], x[1, 20] = np.nan, np.inf
    scheme = aq.QuantScheme().with_value("q8s").with_store("native").per_block(16, "f16")
    layout = plan(scheme, x.shape)
    got = by_generic(x, layout, Policy.SATURATE)
    without = x.copy()
    without[1, 3] = 0.0
    expected = by_host(without, layout, Policy.SATURATE)
    assert got.scale_data[1, 0] == ScaleDtype.F16.format.nan_code
    assert not got.data[1, :16].any()
    np.testing.assert_array_equal(got.data[1, 16:], expected.data[1, 16:])
    np.testing.assert_array_equal(got.scale_data[0], expected.scale_data[0])


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floats_are_widened_or_rounded_once(dtype: str) -> None:
    x = np.random.default_rng(4).standard_normal((4, 48)).astype(dtype)
    assert_paths_agree(x, aq.QuantScheme().with_value("e4m3").per_block(16, "bf16"))


def test_scales_alone_come_without_data() -> None:
    x = some_array((4, 32))
    layout = plan(aq.scheme("nvfp4"), x.shape)
    with np.errstate(all="ignore"):
        got = generic.quantize(NUMPY, x, layout, aq.Calibration.MINMAX, Policy.RAISE, encode=False)
    assert got.data is None
    expected = by_host(x, layout)
    assert_same_bits(got.scale_data, expected.scale_data, "scales")
    assert_same_bits(got.tensor_scale, expected.tensor_scale, "tensor scale")


@pytest.mark.parametrize("name", ["e4m3", "e3m2", "ue4m3", "f16", "bf16", "ue8m0"])
def test_exponents_without_a_view_of_bits(name: str) -> None:
    row = aq.formats.FORMATS[name]
    first, last = max(math.frexp(row.smallest_normal)[1] - 1, -126), row.largest_exponent
    powers = np.ldexp(np.float32(1), np.arange(max(first - 30, -149), last + 1)).astype(np.float32)
    fractions = np.random.default_rng(0).uniform(1, 2, (2000, 1)).astype(np.float32)
    ends = np.asarray([[1.0], [1 + 2.0**-23], [1.5], [2 - 2.0**-23]], np.float32)
    x = np.concatenate([(np.concatenate([ends, fractions]) * powers).ravel(), [np.float32(0)]])
    x = x.astype(np.float32)
    plain = Space(array_api_compat.numpy, rewrites=False)
    seen, computed = (split_binade(space, x, first, last) for space in (NUMPY, plain))
    for got, expected in zip(computed, seen, strict=True):
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.ldexp(seen[1], seen[0].astype(int) + first), x)
