"""Every rule of Numerics, and every kind of zero point, has its oracle form: bit for bit."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheme_drawing import (
    ROUNDINGS,
    SOURCES,
    dense_arrays,
    problems,
    relaid,
    scheme_of,
    shapes,
    specs,
)
from test_kernels import PREPARED
from test_oracle_agreement import Problem, assert_is

import arrayq as aq
from arrayq._kernels import available_levels, load
from arrayq._paths import prepared
from arrayq.numerics import Rounding, ScaleFrom

few = settings(max_examples=max(settings.default.max_examples // 2, 1))


def test_every_rule_by_name_is_drawn() -> None:
    assert set(SOURCES) == {rule.value for rule in ScaleFrom}
    assert set(ROUNDINGS) == {rule.value for rule in Rounding}


@pytest.mark.parametrize("source", SOURCES)
@few
@given(st.data(), st.integers(1, 4))
def test_scales_come_from_ranges_as_the_rule_says(
    source: str, data: st.DataObject, threads: int
) -> None:
    shape = data.draw(shapes())
    spec = data.draw(specs(len(shape), source=source))
    x = data.draw(dense_arrays(shape))
    assert_is(aq.quantize(x, scheme_of(spec), threads=threads), oracle.encode_array(x, spec))


@pytest.mark.parametrize("mode", ["symmetric", "affine"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@few
@given(st.data(), st.integers(1, 4))
def test_elements_are_rounded_as_the_rule_says(
    rounding: str, mode: str, data: st.DataObject, threads: int
) -> None:
    shape = data.draw(shapes())
    spec = data.draw(specs(len(shape), mode=mode, rounding=rounding))
    x = data.draw(relaid(data.draw(dense_arrays(shape))))
    assert_is(aq.quantize(x, scheme_of(spec), threads=threads), oracle.encode_array(x, spec))


@pytest.mark.parametrize(
    ("kind", "dtype", "source", "in_range"),
    [
        ("code", "i8", "range", True),
        ("code", "u8", "range", True),
        ("code", "i32", "range", True),
        ("code", "i32", "range", False),
        *itertools.product(["bias"], ["f32", "f16", "bf16"], ["range"], [True, False]),
        *itertools.product(["code"], ["f32", "f16", "bf16"], ["inverse_range"], [True, False]),
    ],
)
@few
@given(st.data(), st.integers(1, 4))
def test_zero_points_are_what_their_kind_and_dtype_say(
    kind: str, dtype: str, source: str, in_range: bool, data: st.DataObject, threads: int
) -> None:
    shape = data.draw(shapes())
    zero = oracle.Zero(kind, dtype, in_range)
    spec = data.draw(specs(len(shape), source=source, mode="affine", zero=zero))
    x = data.draw(relaid(data.draw(dense_arrays(shape))))
    assert_is(aq.quantize(x, scheme_of(spec), threads=threads), oracle.encode_array(x, spec))


@pytest.mark.parametrize("level", available_levels())
@given(problems(), st.integers(1, 4))
def test_every_instruction_set_follows_every_rule(
    level: str, problem: Problem, threads: int
) -> None:
    x, spec = problem
    for prepare in PREPARED:  # kernels of another level would be met again
        prepare.cache_clear()
    with mock.patch.object(prepared, "kernels", load(level)):
        assert_is(aq.quantize(x, scheme_of(spec), threads=threads), oracle.encode_array(x, spec))


# The scale is 1, so these are ties and their float32 neighbours as they are.
HALVES = np.arange(-9.5, 10.0, 1.0, dtype=np.float32)
NEAR_HALVES = np.concatenate(
    [HALVES, np.nextafter(HALVES, np.float32(-99)), np.nextafter(HALVES, np.float32(99))]
)
OF_HALVES = {
    "half_away": [-10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "half_even": [-10, -8, -8, -6, -6, -4, -4, -2, -2, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10],
    "half_up": [-9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "half_to_zero": [-9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
}


@pytest.mark.parametrize("rounding", OF_HALVES)
def test_halves_go_where_the_rule_sends_them_and_their_neighbours_to_the_nearer(
    rounding: str,
) -> None:
    scheme = aq.QuantScheme().with_value("q8s").with_store("native")
    of_one = aq.QParams(scale=np.ones((1,), np.float32))
    q = aq.quantize(NEAR_HALVES, scheme.with_numerics(rounding=rounding), qparams=of_one)
    below, above = np.floor(HALVES), np.ceil(HALVES)
    expected = np.concatenate([OF_HALVES[rounding], below, above])
    np.testing.assert_array_equal(q.codes(), expected)


@pytest.mark.parametrize(
    ("rounding", "right"),
    [
        ("half_even", [0.0, 1.0, 1.0, 2.0, -0.0, -1.0, -4.0, 4.0]),
        ("half_away", [0.5, 1.0, 1.5, 2.0, -0.5, -1.0, -6.0, 6.0]),
        ("half_up", [0.5, 1.0, 1.5, 2.0, -0.0, -0.5, -4.0, 6.0]),
        ("half_to_zero", [0.0, 0.5, 1.0, 1.5, -0.0, -0.5, -4.0, 4.0]),
    ],
)
def test_ties_of_a_minifloat_go_where_the_rule_sends_them(
    rounding: str, right: list[float]
) -> None:
    ties = np.array([0.25, 0.75, 1.25, 1.75, -0.25, -0.75, -5.0, 5.0], np.float32)
    scheme = aq.QuantScheme().with_value("e2m1").with_store("native")
    of_one = aq.QParams(scale=np.ones((1,), np.float32))
    q = aq.quantize(ties, scheme.with_numerics(rounding=rounding), qparams=of_one)
    np.testing.assert_array_equal(aq.dequantize(q), np.float32(right))
    np.testing.assert_array_equal(np.signbit(aq.dequantize(q)), np.signbit(ties))


def test_a_reciprocal_that_is_not_finite_is_not_used() -> None:
    # f32(1 / 2**-149) is infinite, and 0 * infinity is no number.
    x = np.array([0.0, 2.0**-149, -(2.0**-148), 3 * 2.0**-149], np.float32)
    scheme = aq.QuantScheme().with_value("q8s").with_store("native")
    tiny = aq.QParams(scale=np.full((1,), 2.0**-149, np.float32))
    q = aq.quantize(x, scheme.with_numerics(scaling="reciprocal"), qparams=tiny)
    np.testing.assert_array_equal(q.codes(), [0, 1, -2, 3])


def test_a_negative_scale_is_what_ggml_makes_of_a_positive_extreme() -> None:
    x = np.array([[1, -2, 8, 0], [1, -2, -8, 8], [0, 0, -0.0, 0]], np.float32)
    scheme = aq.QuantScheme().with_value("q4f").with_store("native").per_block([4], "f16")
    q = aq.quantize(x, scheme.with_numerics(scale_from="signed_max"))
    np.testing.assert_array_equal(q.scale, [[-1], [1], [0]])
    assert not np.signbit(q.scale[2, 0])
    np.testing.assert_array_equal(q.codes(), [[-1, 2, -8, 0], [1, -2, -8, 7], [0, 0, 0, 0]])
    np.testing.assert_array_equal(aq.dequantize(q), [[1, -2, 8, 0], [1, -2, -8, 7], [0, 0, 0, 0]])


def test_an_infinity_under_a_negative_scale_decodes_to_its_own_side() -> None:
    x = np.array([4, 1, np.inf, -np.inf], np.float32)
    scheme = aq.QuantScheme().with_value("q4f").with_store("native").per_block([4])
    scheme = scheme.with_numerics(scale_from="signed_max")
    q = aq.quantize(x, scheme, nonfinite="saturate")
    assert q.scale[0] == -0.5
    np.testing.assert_array_equal(aq.dequantize(q), np.float32([4, 1, 4, -3.5]))


@pytest.mark.parametrize("value", ["q8f", "q4s", "e4m3", "e5m2"])
@pytest.mark.parametrize(
    ("scale", "smallest"), [("f32", 2.0**-149), ("f16", 2.0**-24), ("bf16", 2.0**-133)]
)
def test_ends_that_vanish_in_float32_leave_the_smallest_scale(
    value: str, scale: str, smallest: float
) -> None:
    x = np.array([[2.0**-149, 0.0], [0.0, -(2.0**-149)]], np.float32)
    scheme = aq.QuantScheme().with_value(value).with_store("native").per_block([2], scale)
    q = aq.quantize(x, scheme.with_numerics(scale_from="endpoints"))
    np.testing.assert_array_equal(q.scale.ravel(), np.float32([smallest, smallest]))


@pytest.mark.parametrize("scale", ["f32", "f16", "bf16", "ue4m3"])
@pytest.mark.parametrize("smallest", [2.0**-9, 0.25, 1.5])
def test_scales_are_raised_to_the_smallest(scale: str, smallest: float) -> None:
    x = np.array([[127 * 2.0**-12], [127 * 2.0**-1], [127 * 4.0], [0.0]], np.float32)
    scheme = aq.QuantScheme().with_value("q8s").with_store("native").per_block([1], scale)
    q = aq.quantize(x, scheme.with_numerics(smallest_scale=smallest, zero_block="smallest"))
    expected = [max(2.0**-12, smallest), max(0.5, smallest), 4.0, smallest]
    np.testing.assert_array_equal(q.scale.ravel(), np.float32(expected))
