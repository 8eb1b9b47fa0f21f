"""torch.func and autograd: batches, and gradients straight through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from transformation_cases import SCHEMES, assert_same, assert_same_array, floats

import arrayq as aq
from arrayq.straight_through import outer_edges

torch = pytest.importorskip("torch")


def tensor(*shape: int) -> Any:
    return torch.from_numpy(floats(*shape))


@pytest.mark.parametrize("name", SCHEMES)
def test_vmap_equals_a_loop(name: str) -> None:
    scheme, batch = SCHEMES[name], tensor(3, 4, 96)
    q = torch.func.vmap(lambda x: aq.quantize(x, scheme))(batch)
    values = torch.func.vmap(aq.dequantize)(q)
    rounded = torch.func.vmap(lambda x: aq.fake_quantize(x, scheme))(batch)
    for place, x in enumerate(batch):
        expected = aq.quantize(x, scheme)
        for got, other in zip(q._parts(), expected._parts(), strict=True):
            if other is not None:
                assert_same(got[place], other)
        assert_same(values[place], expected.dequantize())
        assert_same(rounded[place], expected.dequantize())


def test_a_batch_of_arrays_is_no_array() -> None:
    batch = tensor(3, 4, 96)
    q = torch.func.vmap(lambda x: aq.quantize(x, "nvfp4"))(batch)
    with pytest.raises(aq.LayoutError, match="a batch of arrays"):
        _ = q.plan
    with pytest.raises(aq.LayoutError, match="use it inside vmap"):
        q.dequantize()
    # one scale for each row means the same for a batch of rows
    rows = torch.func.vmap(lambda x: aq.quantize(x, "int4/32"))(batch)
    assert_same_array(rows, aq.quantize(batch, "int4/32"))


@pytest.mark.parametrize("name", SCHEMES)
def test_the_value_of_fake_quantize_is_that_of_dequantize(name: str) -> None:
    scheme, x = SCHEMES[name], tensor()
    p = aq.calibrate(x * 0.5, scheme)
    for qparams in (None, p):
        expected = aq.quantize(x, scheme, qparams=qparams).dequantize()
        for given in (x, x.clone().requires_grad_()):
            assert_same(aq.fake_quantize(given, scheme, qparams=qparams), expected)


@pytest.mark.parametrize("name", SCHEMES)
def test_the_gradient_passes_inside_the_range_and_nowhere_else(name: str) -> None:
    scheme, x = SCHEMES[name], tensor().requires_grad_()
    weight = tensor() + 2
    p = aq.calibrate(x.detach() * 0.5, scheme)
    (whole,) = torch.autograd.grad((aq.fake_quantize(x, scheme) * weight).sum(), x)
    (clipped,) = torch.autograd.grad((aq.fake_quantize(x, scheme, qparams=p) * weight).sum(), x)
    for gradient in (whole, clipped):
        assert ((gradient == 0) | (gradient == weight)).all()
    assert (whole == weight).float().mean() > 0.97  # scales that are rounded down clip a few
    assert 0.02 < (clipped == 0).float().mean() < 0.6


def test_the_range_ends_half_a_step_beyond_the_last_code() -> None:
    p = aq.calibrate(torch.full((1, 32), 7.5), "int4/32")
    assert float(p.scale[0, 0]) == 1
    x = torch.tensor([[-8.5, -8.4, -7.6, 0.0, 6.9, 7.4, 7.5, 7.6, *[0.0] * 24]]).requires_grad_()
    (gradient,) = torch.autograd.grad(aq.fake_quantize(x, "int4/32", qparams=p).sum(), x)
    assert outer_edges(aq.scheme("int4/32")) == (-8.5, 7.5)
    assert gradient[0, :8].tolist() == [1, 1, 1, 1, 1, 1, 1, 0]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_derivatives_forwards_and_of_second_order() -> None:
    x = tensor(2, 32)

    def loss(x: Any) -> Any:
        return (aq.fake_quantize(x, "int4/32") ** 2).sum()

    y, tangent = torch.func.jvp(lambda x: aq.fake_quantize(x, "int4/32"), (x,), (x + 1,))
    assert_same(y, aq.fake_quantize(x, "int4/32"))
    assert_same(tangent, x + 1)
    hessian = torch.func.hessian(loss)(x).reshape(64, 64)
    np.testing.assert_array_equal(hessian.numpy(), 2 * np.eye(64, dtype=np.float32))


def test_gradients_of_batches_equal_a_loop() -> None:
    batch = tensor(3, 4, 32)
    gradient = torch.func.grad(lambda x: (aq.fake_quantize(x, "nvfp4") ** 2).sum())
    got = torch.func.vmap(gradient)(batch)
    for place, x in enumerate(batch):
        assert_same(got[place], gradient(x))
