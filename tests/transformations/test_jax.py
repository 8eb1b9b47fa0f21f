"""JAX's transformations: what comes out equals the kernels, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from transformation_cases import FEW, SCHEMES, assert_same, assert_same_array, floats

import arrayq as aq

jax = pytest.importorskip("jax")
jnp = jax.numpy


def array(*shape: int) -> Any:
    return jnp.asarray(floats(*shape))


@pytest.mark.parametrize("name", SCHEMES)
def test_jit_equals_the_kernels(name: str) -> None:
    scheme, x = SCHEMES[name], array()
    p = aq.calibrate(x * 0.5, scheme)

    @jax.jit
    def everything(x: Any, p: Any, given: Any) -> Any:
        q = aq.quantize(x, scheme)
        return {
            "made": q,
            "given": given["q"],
            "values": aq.dequantize(given["q"]),
            "by parameters": [aq.quantize(x, scheme, qparams=p)],
            "parameters": aq.calibrate(x, scheme),
            "rounded": aq.fake_quantize(x, scheme),
        }

    q = aq.quantize(x, scheme)
    got = everything(x, p, {"q": q})
    assert_same_array(got["made"], q)
    assert_same_array(got["given"], q)
    assert_same(got["values"], q.dequantize())
    assert_same_array(got["by parameters"][0], aq.quantize(x, scheme, qparams=p))
    assert_same(got["parameters"].scale, q.scale)
    assert_same(got["rounded"], q.dequantize())


@pytest.mark.parametrize("name", FEW)
def test_vmap_and_scan_equal_a_loop(name: str) -> None:
    scheme, batch = SCHEMES[name], array(3, 4, 96)
    quantized = [aq.quantize(x, scheme) for x in batch]
    q = jax.vmap(lambda x: aq.quantize(x, scheme))(batch)
    for axis in (0, 1):

        def place_of(leaf: Any, axis: int = axis) -> int:
            return int(min(axis, leaf.ndim - 1))

        moved = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, place_of(leaf)), q)
        axes = jax.tree.map(place_of, q)
        values = jax.vmap(aq.dequantize, in_axes=(axes,))(moved)
        for place, expected in enumerate(quantized):
            assert_same(values[place], expected.dequantize())
    _, scanned = jax.lax.scan(lambda carry, one: (carry, aq.dequantize(one)), 0.0, q)
    _, made = jax.lax.scan(lambda carry, x: (carry, aq.quantize(x, scheme)), 0.0, batch)
    for place, expected in enumerate(quantized):
        assert_same(scanned[place], expected.dequantize())
        for got, other in zip(made._parts(), expected._parts(), strict=True):
            if other is not None:
                assert_same(got[place], other)


def test_a_batch_of_arrays_is_no_array() -> None:
    q = jax.vmap(lambda x: aq.quantize(x, "nvfp4"))(array(3, 4, 96))
    with pytest.raises(aq.LayoutError, match="a batch of arrays"):
        q.dequantize()


def test_an_array_is_carried_by_loops_and_chosen_by_conditions() -> None:
    q = aq.quantize(array(), "nvfp4")
    flipped = aq.flip(q, 0)

    @jax.jit
    def function(q: Any, other: Any, count: Any) -> Any:
        turned = jax.lax.fori_loop(0, count, lambda _, q: aq.flip(q, 0), q)
        return turned, jax.lax.cond(count > 2, lambda: q, lambda: other)

    turned, chosen = function(q, flipped, 3)
    assert_same_array(turned, flipped)
    assert_same_array(chosen, q)
    assert_same_array(function(q, flipped, 2)[1], flipped)


def test_shapes_without_computing() -> None:
    shapes = jax.eval_shape(lambda x: aq.quantize(x, "nvfp4"), jax.ShapeDtypeStruct((4, 96), "f4"))
    assert isinstance(shapes, aq.QuantizedArray)
    assert shapes.data == jax.ShapeDtypeStruct((4, 48), "uint8")
    assert jax.eval_shape(aq.dequantize, shapes) == jax.ShapeDtypeStruct((4, 96), "float32")


def test_moves_under_jit() -> None:
    q = aq.quantize(array(), "int4/32")
    for move in (
        lambda q: q.T,
        lambda q: q[1:3, ::-1],
        lambda q: aq.concat([q, q]),
        lambda q: aq.stack([q, q]),
        lambda q: q.reshape(2, 2, 96),
        lambda q: aq.split(q, 2, 0)[1],
    ):
        assert_same_array(jax.jit(move)(q), move(q))


def test_one_function_is_traced_once_for_each_scheme_and_shape() -> None:
    traced = []

    @jax.jit
    def function(q: Any, x: Any) -> Any:
        traced.append(q.scheme)
        return aq.fake_quantize(x, q.scheme) + q.dequantize()

    for _ in range(2):
        for scheme in ("nvfp4", "int8/row"):
            q = aq.quantize(array(), scheme)
            assert_same(function(q, array()), 2 * np.asarray(q.dequantize()))
    assert len(traced) == 2


# Gradients.


@pytest.mark.parametrize("name", FEW)
def test_the_gradient_passes_inside_the_range_and_nowhere_else(name: str) -> None:
    scheme, x, weight = SCHEMES[name], array(), array() + 2
    p = aq.calibrate(x * 0.5, scheme)

    def loss(x: Any, p: Any) -> Any:
        return (aq.fake_quantize(x, scheme, qparams=p) * weight).sum()

    whole, clipped = jax.grad(loss)(x, None), jax.grad(loss)(x, p)
    for gradient in (whole, clipped):
        assert bool(jnp.all((gradient == 0) | (gradient == weight)))
    assert float((whole == weight).mean()) > 0.97  # scales that are rounded down clip a few
    assert 0.02 < float((clipped == 0).mean()) < 0.6
    assert_same(jax.jit(jax.grad(loss))(x, p), clipped)
    assert_same(jax.jit(jax.vmap(jax.grad(loss), (0, None)))(x[None], p)[0], clipped)
    assert_same(jax.grad(jax.checkpoint(loss))(x, p), clipped)
    rounded = aq.quantize(x, scheme, qparams=p).dequantize()
    assert_same(aq.fake_quantize(x, scheme, qparams=p), rounded)
    assert_same(jax.jit(lambda x, p: aq.fake_quantize(x, scheme, qparams=p))(x, p), rounded)


def test_derivatives_forwards_and_of_second_order() -> None:
    x = array(1, 32)

    def loss(x: Any) -> Any:
        return (aq.fake_quantize(x, "int4/32") ** 2).sum()

    y, tangent = jax.jvp(lambda x: aq.fake_quantize(x, "int4/32"), (x,), (x + 1,))
    assert_same(y, aq.fake_quantize(x, "int4/32"))
    assert_same(tangent, x + 1)
    assert_same(jax.hessian(loss)(x).reshape(32, 32), 2 * np.eye(32, dtype=np.float32))


def test_no_gradient_reaches_parameters() -> None:
    x = array()
    p = aq.calibrate(x, "int4/32")
    gradient = jax.grad(lambda p: aq.fake_quantize(x * 2, "int4/32", qparams=p).sum())(p)
    assert_same(gradient.scale, np.zeros((4, 3), np.float32))
    # parameters that follow from what is differentiated
    own = jax.grad(
        lambda x: aq.fake_quantize(x, "int4/32", qparams=aq.calibrate(x, "int4/32")).sum()
    )(x)
    assert_same(own, np.ones((4, 96), np.float32))


# What cannot be seen, and where it lies.


def test_what_must_see_values_is_refused() -> None:
    with pytest.raises(aq.ArgumentError, match="requires values that can be seen"):
        jax.jit(lambda x: aq.quantize(x, "nvfp4", nonfinite="raise"))(array())


def test_nan_propagates_under_jit_and_raises_outside() -> None:
    x = array().at[0, 0].set(jnp.nan)
    got = jax.jit(lambda x: aq.quantize(x, "int4/32"))(x)
    assert_same_array(got, aq.quantize(x, "int4/32", nonfinite="propagate"))
    for function in (aq.quantize, aq.fake_quantize):
        with pytest.raises(aq.NonFiniteError):
            function(x, "int4/32")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_are_where_and_as_free_as_what_was_given(dtype: str) -> None:
    x = array().astype(dtype)
    there = jax.device_put(x, jax.devices()[0])
    for given, committed in ((x, False), (there, True)):
        q = aq.quantize(given, "nvfp4")
        made = [*(part for part in q._parts() if part is not None), q.dequantize(dtype=dtype)]
        assert [part.committed for part in made] == [committed] * len(made)
        assert all(part.devices() == given.devices() for part in made)


_DEVICES = """
import jax, jax.numpy as jnp, numpy as np, arrayq as aq
from jax.sharding import Mesh, NamedSharding, PartitionSpec
first, second = jax.devices()
x = np.random.default_rng(0).standard_normal((4, 96)).astype(np.float32)
expected = aq.quantize(x, "nvfp4")
q = aq.quantize(jax.device_put(x, second), "nvfp4")
for part in (q.data, q.scale_data, q.tensor_scale, q.dequantize(), q.T.data):
    assert part.devices() == {second}, part.devices()
np.testing.assert_array_equal(np.asarray(q.data), expected.data)
rows = NamedSharding(Mesh(jax.devices(), ("rows",)), PartitionSpec("rows"))
spread = jax.device_put(x, rows)
made = aq.quantize(spread, "nvfp4")
assert len(made.data.devices()) == 2
np.testing.assert_array_equal(np.asarray(made.data), expected.data)
np.testing.assert_array_equal(np.asarray(made.dequantize()), expected.dequantize())
jitted = jax.jit(lambda x: aq.quantize(x, "int4/32"))(spread)
np.testing.assert_array_equal(np.asarray(jitted.data), aq.quantize(x, "int4/32").data)
print("done")
"""


def test_results_stay_on_the_device_and_shards_stay_spread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DEVICES],
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stderr
