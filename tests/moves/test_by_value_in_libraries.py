"""What goes by value gives arrays of the library that the codes are of, and NumPy's numbers."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import numpy as np
import pytest
from library_arrays import EAGER, put

import arrayq as aq
from arrayq.array import _assembled
from arrayq.testing import generic_path

X = (np.random.default_rng(8).standard_normal((5, 24)) * 4 + 40).astype(np.float32)
HOST = aq.quantize(X, "int8/8")
VALUES = HOST.dequantize()


@pytest.fixture(params=[contextlib.nullcontext, generic_path], ids=["in reach", "out of reach"])
def reach(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
@pytest.mark.parametrize("library", EAGER)
def test_extremes_are_those_of_the_values(
    library: str, name: str, axis: int | None, reach: Any
) -> None:
    q = put(HOST, library)
    for keepdims in (False, True):
        expected = getattr(np, name)(VALUES, axis=axis, keepdims=keepdims)
        with reach():
            found = getattr(aq, name)(q, axis=axis, keepdims=keepdims)
        assert type(found) is type(q.data)
        assert tuple(found.shape) == expected.shape
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("library", EAGER)
def test_an_axis_that_does_not_exist_is_refused_in_numpys_words(library: str, reach: Any) -> None:
    for name in ("argmax", "sort", "argsort"):
        with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds"), reach():
            getattr(aq, name)(put(HOST, library), axis=2)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("library", EAGER)
def test_values_are_put_in_order(library: str, descending: bool, reach: Any) -> None:
    q = put(HOST, library)
    if library == "mlx" and reach is generic_path:
        with pytest.raises(aq.UnsupportedSchemeError, match="sort on mlx requires"), reach():
            aq.sort(q)
        return
    with reach():
        values = aq.sort(q, 0, descending=descending)
        order = aq.argsort(q, 1, descending=descending)
    assert type(values) is type(order) is type(q.data)
    np.testing.assert_array_equal(np.asarray(values), aq.sort(HOST, 0, descending=descending))
    np.testing.assert_array_equal(np.asarray(order), aq.argsort(HOST, 1, descending=descending))


OPERATORS = [operator.add, operator.sub, operator.mul, operator.eq, operator.ne, operator.lt]


@pytest.mark.parametrize("apply", OPERATORS)
@pytest.mark.parametrize("library", EAGER)
def test_operators_give_what_the_values_give(library: str, apply: Any, reach: Any) -> None:
    q = put(HOST, library)
    row = put(HOST._with_parts(X[:1], None, None, None), library).data
    others = [(2.5, 2.5), (np.float64(0.5), 0.5), ([40.0] * 24, np.full(24, 40, np.float32))]
    others += [(X[:1], X[:1]), (row, X[:1]), (q, VALUES)]
    for other, numbers in others:
        with reach():
            found = apply(q, other)
        assert type(found) is type(q.data)
        np.testing.assert_array_equal(np.asarray(found), apply(VALUES, numbers))
    refuses_first = library in ("mlx", "array_api_strict")
    for other, numbers in others if not refuses_first else others[:3]:
        with reach():
            found = apply(other, q)
        np.testing.assert_array_equal(np.asarray(found), apply(numbers, VALUES))


@pytest.mark.parametrize("library", EAGER)
def test_text_and_none_equal_no_element(library: str, reach: Any) -> None:
    q = put(HOST, library)
    for other in ("text", None):
        with reach():
            equal, unequal = q == other, q != other
        assert not np.asarray(equal).any()
        assert np.asarray(unequal).all()
        assert equal.shape == q.shape


@pytest.mark.parametrize("library", EAGER)
def test_requantize_stays_in_its_library(library: str) -> None:
    again = put(HOST, library)[1:, 3:].requantize("int4/8")
    np.testing.assert_array_equal(np.asarray(again.data), HOST[1:, 3:].requantize("int4/8").data)


def test_arrays_of_different_libraries_are_not_compared() -> None:
    torch = put(HOST, "torch")
    for other in (put(HOST, "jax"), put(HOST, "jax").data):
        with pytest.raises(aq.ArrayTypeError, match=r"one library, got one of .*(torch|jax)"):
            aq.equal(torch, other)


def test_extremes_and_comparison_are_traced_by_jax() -> None:
    jax = pytest.importorskip("jax")
    q = put(HOST, "jax")

    def of_parts(parts: Any) -> Any:
        traced = _assembled(parts, q._static())
        return aq.argmax(traced, axis=1), aq.max(traced), aq.sort(traced, 0), traced > 40

    found = jax.jit(of_parts)(q._parts())
    expected = VALUES.argmax(1), VALUES.max(), np.sort(VALUES, 0), VALUES > 40
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)
