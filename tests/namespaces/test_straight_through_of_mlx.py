"""MLX differentiates fake_quantize straight through, as torch and JAX do."""

from __future__ import annotations

import numpy as np
import pytest

import arrayq as aq

mx = pytest.importorskip("mlx.core")

SCHEME = aq.scheme("q4s/32")


def test_the_gradient_is_one_inside_the_range_and_zero_outside() -> None:
    x = np.linspace(-2, 2, 64, dtype=np.float32).reshape(2, 32)
    qparams = aq.calibrate(x / 2, SCHEME)
    weight = mx.array(np.arange(64, dtype=np.float32).reshape(2, 32))

    def loss(x: object) -> object:
        return (aq.fake_quantize(x, SCHEME, qparams=qparams) * weight).sum()

    value, gradient = mx.value_and_grad(loss)(mx.array(x))
    rounded = aq.fake_quantize(x, SCHEME, qparams=qparams)
    assert float(value) == float((mx.array(rounded) * weight).sum())
    inside = np.abs(x) <= 7.5 * np.repeat(qparams.scale, 32, axis=1)
    assert 0 < inside.sum() < inside.size
    np.testing.assert_array_equal(np.array(gradient), np.where(inside, np.array(weight), 0))


def test_what_is_not_differentiated_has_the_bits_of_the_kernels() -> None:
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    expected = aq.fake_quantize(x, SCHEME)
    for way in (lambda rounded: rounded, mx.compile, mx.vmap):
        got = way(lambda x: aq.fake_quantize(x, SCHEME))(mx.array(x))
        np.testing.assert_array_equal(np.array(got), expected)
