"""What goes by value and never by raw code."""

from __future__ import annotations

import array
import operator
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest

import arrayq as aq

RNG = np.random.default_rng(8)
X = (RNG.standard_normal((5, 24)) * 2.0 ** RNG.integers(-6, 6, (5, 24))).astype(np.float32)
SPELLINGS = ["int8/8", "int4/8", "nf4/16", "mxfp4", "nvfp4", "int8/row"]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_extremes_are_those_of_the_values(spelling: str, axis: int | None) -> None:
    q = aq.quantize(X, spelling)
    values = q.dequantize()
    for name in ("argmax", "argmin", "max", "min"):
        for keepdims in (False, True):
            expected = getattr(np, name)(values, axis=axis, keepdims=keepdims)
            function, method = getattr(aq, name), getattr(q, name)
            np.testing.assert_array_equal(function(q, axis=axis, keepdims=keepdims), expected)
            np.testing.assert_array_equal(method(axis=axis, keepdims=keepdims), expected)


def test_raw_codes_would_give_another_argmax() -> None:
    q = aq.quantize(np.array([1, 1, 100, 70], np.float32), "int8/2")
    flipped = aq.flip(q)
    assert flipped.argmax() == 1
    assert int(np.argmax(flipped.codes())) == 1
    assert int(np.argmax(q.codes())) == 0
    assert q.argmax() == 2


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_sorting_is_by_value_and_gives_floats(spelling: str, axis: int, descending: bool) -> None:
    q = aq.quantize(X, spelling)
    values = q.dequantize()
    got = aq.sort(q, axis=axis, descending=descending)
    expected = np.sort(values, axis=axis)
    np.testing.assert_array_equal(got, np.flip(expected, axis) if descending else expected)
    order = aq.argsort(q, axis=axis, descending=descending)
    np.testing.assert_array_equal(np.take_along_axis(values, order, axis), got)
    np.testing.assert_array_equal(q.sort(axis, descending=descending), got)
    np.testing.assert_array_equal(q.argsort(axis, descending=descending), order)


def test_a_stable_order_keeps_equal_values_in_place() -> None:
    q = aq.quantize(np.array([1, 0, 1, 0, 1], np.float32), "int8/tensor")
    assert aq.argsort(q).tolist() == [1, 3, 0, 2, 4]
    assert aq.argsort(q, descending=True).tolist() == [0, 2, 4, 1, 3]


def test_different_codes_and_scales_may_be_equal() -> None:
    x = np.array([[1, -1], [2, 2]], np.float32)
    a, b = aq.quantize(x, "q8f/tensor"), aq.quantize(x, "e4m3/2")
    assert (a.codes() != b.codes()).any()
    values = a.dequantize() == b.dequantize()
    np.testing.assert_array_equal(aq.equal(a, b), values)
    np.testing.assert_array_equal(a == b, values)
    np.testing.assert_array_equal(aq.equal(a.dequantize(), b), values)
    np.testing.assert_array_equal(aq.not_equal(a, b), ~values)
    c = aq.quantize(x, "int8/row")
    assert aq.equal(aq.requantize(c, "int8/row"), c).all()


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("apply", OPERATORS)
@pytest.mark.parametrize(
    "other",
    [2.5, 3, np.float32(0.5), np.float64(0.1), X[:1] + 7, (X + 7).astype(np.float64)],
    ids=["float", "int", "float32", "float64", "row", "array of float64"],
)
def test_operators_give_what_the_values_give(apply: Any, other: Any) -> None:
    q = aq.quantize(X + 40, "int8/8")
    for got, expected in (
        (apply(q, other), apply(q.dequantize(), other)),
        (apply(other, q), apply(other, q.dequantize())),
    ):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("apply", OPERATORS)
def test_operators_take_two_quantized_arrays(apply: Any) -> None:
    a, b = aq.quantize(X, "int8/8"), aq.quantize(X[:1] + 7, "nvfp4")
    np.testing.assert_array_equal(apply(a, b), apply(a.dequantize(), b.dequantize()))


def test_signs_magnitudes_and_powers_are_floats() -> None:
    q = aq.quantize(X, "int8/8")
    values = q.dequantize()
    np.testing.assert_array_equal(-q, -values)
    np.testing.assert_array_equal(+q, values)
    np.testing.assert_array_equal(abs(q), abs(values))
    np.testing.assert_array_equal(q**2, values**2)


@pytest.mark.parametrize("other", ["text", None])
def test_text_and_none_equal_no_element(other: Any) -> None:
    q = aq.quantize(X, "int8/8")
    with pytest.raises(TypeError):
        q + other
    with pytest.raises(TypeError):
        q < other  # noqa: B015
    assert (q == other).tolist() == [[False] * 24] * 5
    assert (q != other).tolist() == [[True] * 24] * 5


@pytest.mark.parametrize("apply", [*OPERATORS, aq.equal, aq.not_equal])
@pytest.mark.parametrize("other", [object(), {}, {1.0}, iter([])], ids=repr)
def test_what_is_no_number_is_never_compared_by_identity(apply: Any, other: Any) -> None:
    q = aq.quantize(X, "int8/8")
    for left, right in ((q, other), (other, q)):
        with pytest.raises(TypeError):
            apply(left, right)


def test_another_class_may_say_what_it_equals() -> None:
    assert aq.quantize(X, "int8/8") == mock.ANY


@pytest.mark.parametrize("apply", OPERATORS)
@pytest.mark.parametrize(
    "other",
    [
        (X + 7).tolist(), tuple((X[0] + 7).tolist()), range(24), [40.0], Fraction(1, 2),
        array.array("d", X[0]),
    ],
    ids=["list", "tuple", "range", "one", "fraction", "array.array"],
)  # fmt: skip
def test_sequences_and_other_numbers_go_by_value(apply: Any, other: Any) -> None:
    q = aq.quantize(X + 40, "int8/8")
    values = q.dequantize()
    with np.errstate(all="ignore"):
        for got, expected in (
            (apply(q, other), apply(values, other)),
            (apply(other, q), apply(other, values)),
        ):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


def test_equal_values_in_another_shape_of_container_are_equal() -> None:
    q = aq.quantize(X, "int8/8")
    assert (q == q.dequantize().tolist()).all()
    assert not (q != q.dequantize().tolist()).any()
    assert (q == 1j).tolist() == [[False] * 24] * 5
    half = aq.quantize(np.full(3, 0.5, np.float32), "q8f/tensor")
    np.testing.assert_array_equal(half == Fraction(1, 2), half.dequantize() == Fraction(1, 2))
    with pytest.raises(ValueError, match="inhomogeneous"):
        q == [[1.0], [2.0, 3.0]]  # noqa: B015


def test_an_augmented_sum_is_of_floats_and_never_in_place() -> None:
    q = kept = aq.quantize(X, "int8/8")
    q += 1
    assert isinstance(q, np.ndarray)
    np.testing.assert_array_equal(q, kept.dequantize() + 1)
    x = X.copy()
    with pytest.raises(TypeError):
        x += kept


def test_a_quantized_array_cannot_be_hashed_because_it_compares_by_element() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(aq.quantize(X, "int8/8"))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_requantize_encodes_the_values_anew(spelling: str) -> None:
    q = aq.quantize(X, "int8/8")[1:, 3:]
    again = q.requantize(spelling)
    assert aq.to_bytes(again) == aq.to_bytes(aq.quantize(q.dequantize(), spelling))
    assert aq.to_bytes(again) == aq.to_bytes(aq.requantize(q, spelling))
    assert again.block_offset == ()


def test_quantizing_a_quantized_array_names_requantize() -> None:
    q = aq.quantize(X, "int8/8")
    with pytest.raises(aq.ArrayTypeError, match=r"requantize\(scheme\)"):
        aq.quantize(q, "int4/8")  # type: ignore[arg-type]
    with pytest.raises(aq.ArrayTypeError, match=r"requantize\(scheme\).*\.dequantize\(\)"):
        aq.calibrate(q, "int4/8")  # type: ignore[arg-type]


def test_bytes_of_an_array_inside_a_block_are_refused_with_the_way_out() -> None:
    with pytest.raises(aq.LayoutError, match="requantize"):
        aq.to_bytes(aq.quantize(X, "int8/8")[:, 3:])
