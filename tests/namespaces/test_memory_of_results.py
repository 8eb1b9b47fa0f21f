"""Memory that results share with what libraries and callers hold, and what they are told of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import arrayq as aq

X = np.random.default_rng(6).standard_normal((4, 64)).astype(np.float32)


def test_autograd_finds_out_that_out_was_written() -> None:
    torch = pytest.importorskip("torch")
    q = aq.quantize(torch.from_numpy(X), "int4/32")
    a, w = torch.ones(4, 64), torch.ones(4, 64, requires_grad=True)
    y = (a * w).sum()
    aq.dequantize(q, out=a)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_autograd_finds_out_that_parts_were_written() -> None:
    torch = pytest.importorskip("torch")
    q = aq.quantize(torch.from_numpy(X), "int8/row")
    w = torch.ones(4, 1, requires_grad=True)
    y = (w * q.scale_data).sum()
    aq.quantize(torch.from_numpy(2 * X), "int8/row", out=q)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_tensor_with_a_gradient_is_no_out() -> None:
    torch = pytest.importorskip("torch")
    q = aq.quantize(torch.from_numpy(X), "int4/32")
    for out in (torch.ones(4, 64, requires_grad=True), torch.ones(4, 64, requires_grad=True) * 2):
        with pytest.raises(aq.LayoutError, match="out requires a tensor without a gradient"):
            aq.dequantize(q, out=out)
    leaf = torch.ones(4, 64, requires_grad=True)
    with torch.no_grad():
        aq.dequantize(q, out=leaf)
    assert torch.equal(leaf, q.dequantize())


def arrays(library: str) -> Any:
    if library == "numpy":
        return X
    if library == "torch":
        return pytest.importorskip("torch").from_numpy(X.copy())
    return pytest.importorskip("mlx.core").array(X)


@pytest.mark.parametrize("library", ["numpy", "torch", "mlx"])
@pytest.mark.parametrize(
    "spelling", ["int4/32", "int4/32:f32", "int8/row", "int8a/32:f32", "nvfp4", "nf4/64"]
)
def test_parameters_are_copies(library: str, spelling: str) -> None:
    q = aq.quantize(arrays(library), spelling)
    before = np.array(np.asarray(q.dequantize()))
    qparams = q.qparams
    for part in (qparams.scale, qparams.tensor_scale, qparams.zero_point):
        if part is not None:
            part[...] = 0
    np.testing.assert_array_equal(np.asarray(q.dequantize()), before)


def test_mlx_keeps_float64() -> None:
    mx = pytest.importorskip("mlx.core")
    with mx.stream(mx.cpu):
        x = mx.array(X.astype(np.float64), dtype=mx.float64)
        q = aq.quantize(x, "int4/32")
        assert q.dequantize(dtype="float64").dtype == mx.float64
        assert aq.fake_quantize(x, "int4/32").dtype == mx.float64


def test_jax_without_float64_refuses_it() -> None:
    jnp = pytest.importorskip("jax.numpy")
    q = aq.quantize(jnp.asarray(X), "int4/32")
    with pytest.raises(aq.ArrayTypeError, match="float64 on jax requires jax_enable_x64"):
        q.dequantize(dtype="float64")


@pytest.mark.parametrize("dtype", [["float32"], {}, np.zeros(2), object()], ids=str)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_is_no_dtype_is_refused_alike(library: str, dtype: Any) -> None:
    with pytest.raises(aq.ArrayTypeError, match="dtype requires one of"):
        aq.quantize(arrays(library), "int4/32").dequantize(dtype=dtype)


def test_random_keys_of_jax_are_no_floats() -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(aq.ArrayTypeError, match="requires an array of float16"):
        aq.quantize(jax.random.key(0), "int8/tensor")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_nested_tensors_are_refused_by_name(layout: str) -> None:
    torch = pytest.importorskip("torch")
    parts = [torch.ones(2, 4), torch.ones(3, 4)]
    x = torch.nested.nested_tensor(parts, layout=getattr(torch, layout))
    with pytest.raises(aq.ArrayTypeError, match=r"got a nested one.*to_padded_tensor"):
        aq.quantize(x, "int8/row")


def test_functionalize_runs_fake_quantize_without_a_gradient() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    y = torch.func.functionalize(lambda x: aq.fake_quantize(x, "int4/32"))(x)
    assert torch.equal(y, aq.fake_quantize(x, "int4/32"))


def test_explicit_shardings_of_jax_are_refused_by_name() -> None:
    pytest.importorskip("jax")
    program = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, arrayq as aq
from jax.sharding import AxisType, NamedSharding, PartitionSpec
mesh = jax.make_mesh((2,), ("a",), axis_types=(AxisType.Explicit,))
jax.set_mesh(mesh)
x = jax.device_put(jnp.ones((8, 128)), NamedSharding(mesh, PartitionSpec("a")))
for function in (lambda x: aq.quantize(x, "int4/32"), jax.jit(lambda x: aq.quantize(x, "nvfp4"))):
    try:
        function(x)
    except aq.UnsupportedSchemeError as error:
        assert "jax.sharding.auto_axes" in str(error), error
    else:
        raise AssertionError("was not refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
