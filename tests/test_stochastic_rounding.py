"""Stochastic rounding: seeded, the same on every thread count and layout, and without bias."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import oracle
import pytest

import arrayq as aq

DRAWS = 10**6
OF_ONE = aq.QParams(scale=np.ones((1,), np.float32))


def native(value: str, seed: int, **rules: Any) -> aq.QuantScheme:
    scheme = aq.QuantScheme().with_value(value).with_store("native")
    return scheme.with_numerics(rounding="stochastic", seed=seed, **rules)


def affine(seed: int) -> aq.QuantScheme:
    numerics = aq.Numerics(rounding="stochastic", seed=seed)
    return aq.QuantScheme("u4", "native", "affine", numerics=numerics)


def standard_errors(decoded: npt.NDArray[Any], x: npt.NDArray[Any], below: Any, step: Any) -> float:
    """Return the mean error of independent draws in units of its standard error.

    A number that stands at a fraction f between two neighbours a step apart has the variance
    f * (1 - f) * step**2.
    """
    rest = (x.astype(np.float64) - below) / step
    variance = float((rest * (1 - rest) * np.square(step)).sum())
    return float((decoded.astype(np.float64) - x).sum()) / math.sqrt(variance)


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
@pytest.mark.parametrize("number", [0.001, 0.1, 0.5, 2.3, 6.9, -0.001, -0.25, -2.7, -6.999])
def test_a_million_draws_of_one_integer_are_unbiased(number: float, seed: int) -> None:
    x = np.full(DRAWS, number, np.float32)
    q = aq.quantize(x, native("q4s", seed), qparams=OF_ONE)
    below = math.floor(number)
    assert set(np.unique(q.codes())) <= {below, below + 1}
    assert abs(standard_errors(q.codes(), x, below, 1.0)) < 5


@pytest.mark.parametrize("seed", [3, 987654321])
@pytest.mark.parametrize("value", ["q8s", "q4f", "q2f"])
def test_a_million_draws_of_different_integers_are_unbiased(value: str, seed: int) -> None:
    high = aq.QuantValue.of(value, "value").range[1]
    rng = np.random.default_rng(seed)
    x = rng.uniform(-high, high, DRAWS).astype(np.float32)
    q = aq.quantize(x, native(value, seed), qparams=OF_ONE)
    assert abs(standard_errors(q.codes(), x, np.floor(x), 1.0)) < 5


@pytest.mark.parametrize("value", ["e4m3", "e5m2", "e2m1", "e3m2", "e2m3"])
def test_a_million_draws_of_minifloats_are_unbiased(value: str) -> None:
    codes = np.arange(2 ** (aq.QuantValue.of(value, "value").bits - 1))
    values = oracle.decode_codes(codes, value).astype(np.float64)
    values = values[np.isfinite(values)]
    rng = np.random.default_rng(8)
    x = (rng.uniform(-1, 1, DRAWS) ** 3 * values[-1]).astype(np.float32)
    decoded = aq.dequantize(aq.quantize(x, native(value, 5), qparams=OF_ONE))
    lower = np.searchsorted(values, np.abs(x), side="right") - 1
    above = np.minimum(lower + 1, len(values) - 1)
    step = np.maximum(values[above] - values[lower], values[1])
    errors = standard_errors(np.abs(decoded), np.abs(x), values[lower], step)
    assert abs(errors) < 5
    neighbours = (np.abs(decoded) == values[lower]) | (np.abs(decoded) == values[above])
    assert neighbours.all()


@pytest.mark.parametrize("zero", [0, 7, 15])
def test_a_million_draws_of_affine_codes_are_unbiased(zero: int) -> None:
    x = np.random.default_rng(zero).uniform(-zero, 15 - zero, DRAWS).astype(np.float32)
    qparams = aq.QParams(scale=np.ones((1,), np.float32), zero_point=np.full((1,), zero))
    q = aq.quantize(x, affine(zero), qparams=qparams)
    assert abs(standard_errors(aq.dequantize(q), x, np.floor(x), 1.0)) < 5


def test_the_mean_over_seeds_is_the_number_itself() -> None:
    x = np.linspace(-6.9, 6.9, 97, dtype=np.float32)
    total = np.zeros(x.shape)
    seeds = 4000
    for seed in range(seeds):
        total += aq.quantize(x, native("q4s", seed), qparams=OF_ONE).codes()
    rest = x.astype(np.float64) - np.floor(x)
    limit = 5 * np.sqrt(rest * (1 - rest) / seeds) + 1e-9
    assert (np.abs(total / seeds - x) <= limit).all()


def arrays() -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(11)
    return {
        "one long row": rng.standard_normal(200_003).astype(np.float32),
        "many rows": rng.standard_normal((1537, 129)).astype(np.float32),
        "three axes": rng.standard_normal((7, 301, 65)).astype(np.float32),
        "few long rows": rng.standard_normal((3, 70_001)).astype(np.float32),
    }


@pytest.mark.parametrize("spelling", ["int4/32", "int8/row", "e4m3/16", "int4a/32", "q2s/tensor"])
@pytest.mark.parametrize("name", arrays())
def test_every_thread_count_draws_the_same(name: str, spelling: str) -> None:
    x = arrays()[name]
    scheme = aq.scheme(spelling).with_numerics(rounding="stochastic", seed=42)
    expected = aq.quantize(x, scheme, threads=1)
    for threads in (2, 3, 4, 7, 8):
        got = aq.quantize(x, scheme, threads=threads)
        np.testing.assert_array_equal(got.data, expected.data)
        np.testing.assert_array_equal(got.scale_data, expected.scale_data)
    again = aq.quantize(x, scheme, threads=5, out=expected.copy())
    np.testing.assert_array_equal(again.data, expected.data)


def test_an_element_draws_by_its_place_in_c_order_whatever_the_layout() -> None:
    x = np.random.default_rng(3).standard_normal((37, 61)).astype(np.float32)
    scheme = native("q4s", 9).per_channel(0)
    expected = aq.quantize(x, scheme).codes()
    wide = np.zeros((74, 122), np.float32)
    wide[::2, ::2] = x
    for same in (np.asfortranarray(x), wide[::2, ::2], np.flip(np.flip(x).copy())):
        np.testing.assert_array_equal(aq.quantize(same, scheme).codes(), expected)
    packed = aq.quantize(x, scheme.with_store("packed_u32(1)"))
    np.testing.assert_array_equal(packed.codes(), expected)


def test_seeds_draw_apart_and_one_seed_draws_again() -> None:
    x = np.full(4096, 0.5, np.float32)
    drawn = [aq.quantize(x, native("q4s", seed), qparams=OF_ONE).codes() for seed in range(8)]
    for first in range(8):
        for second in range(first):
            # Two fair coins agree half of the time; 5 standard deviations are 160 of 4096.
            assert abs(int((drawn[first] == drawn[second]).sum()) - 2048) < 160
    again = aq.quantize(x, native("q4s", 7), qparams=OF_ONE).codes()
    np.testing.assert_array_equal(again, drawn[7])


def test_numbers_that_are_codes_are_never_moved() -> None:
    x = np.tile(np.arange(-127, 128, dtype=np.float32), 1000)
    q = aq.quantize(x, native("q8s", 1), qparams=OF_ONE)
    np.testing.assert_array_equal(q.codes(), x)
