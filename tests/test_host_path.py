"""The host path: what is prepared, the memory it makes and takes, bits of bfloat16."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import arrayq as aq
from arrayq._paths import host
from arrayq._paths.memory import empty_host
from arrayq.layout import Plan, plan

ml_dtypes = pytest.importorskip("ml_dtypes")

ENDPOINTS = aq.scheme("q4f/16:f16").per_tensor().with_numerics(scale_from="endpoints")
SCHEMES = [aq.scheme(name) for name in ("nvfp4", "int8/32", "int4a/32", "nf4/64", "ternary")]
SCHEMES += [ENDPOINTS, aq.scheme("int8/tensor")]
PARTS = ("data", "scale_data", "zero_point", "tensor_scale")


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(shape).astype(ml_dtypes.bfloat16)


def quantized(
    x: np.ndarray[Any, Any],
    layout: Plan,
    policy: host.Policy = host.Policy.RAISE,
    threads: int = 1,
    **more: Any,
) -> tuple[host.Met, host.Stored]:
    stored = host.allocate(layout)
    calibration = layout.scheme.numerics.calibration
    return host.quantize(x, layout, calibration, policy, threads, stored, **more), stored


def assert_same(one: host.Stored, other: host.Stored) -> None:
    for name in PARTS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("order", ["=", "S"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_integers_may_hold_the_bits_of_bfloat16(
    scheme: aq.QuantScheme, infinite: bool, threads: int, order: str
) -> None:
    x = numbers(6, 64)
    if infinite:
        x[1, 5] = np.inf
    layout = plan(scheme, x.shape)
    bits = x.view(np.uint16)
    bits = bits.astype(bits.dtype.newbyteorder(order))
    policy = host.Policy.SATURATE
    met, stored = quantized(bits, layout, policy, threads, dtype="bfloat16")
    met_of_floats, of_floats = quantized(x, layout, policy)
    assert met == met_of_floats == (host.Met.NONFINITE if infinite else host.Met(0))
    assert_same(stored, of_floats)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_results_may_be_the_bits_of_bfloat16(scheme: aq.QuantScheme) -> None:
    q = aq.quantize(numbers(6, 64), scheme)
    stored = host.Stored(*(getattr(q, name) for name in PARTS))
    bits = np.empty(q.shape, np.uint16)
    host.dequantize(stored, q.plan, bits, 1, dtype="bfloat16")
    np.testing.assert_array_equal(bits, q.dequantize(dtype="bfloat16").view(np.uint16))


@pytest.mark.parametrize("shape", [(6, 64), (0, 64), (3, 1)])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_aligned_parts_start_at_64_bytes(scheme: aq.QuantScheme, shape: tuple[int, ...]) -> None:
    layout = plan(scheme, shape)
    plain, aligned = host.allocate(layout), host.allocate(layout, aligned=True)
    for name in PARTS:
        one, other = getattr(plain, name), getattr(aligned, name)
        assert (one is None) == (other is None)
        if other is not None:
            assert (other.shape, other.dtype) == (one.shape, one.dtype)
            assert other.flags.writeable
            assert other.flags.c_contiguous
            assert not other.size or other.ctypes.data % 64 == 0


def test_every_host_array_starts_at_64_bytes() -> None:
    arrays = [empty_host((n, 3), np.float16) for n in range(1, 40)]
    assert {array.ctypes.data % 64 for array in arrays} == {0}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("policy", [host.Policy.RAISE, host.Policy.PROPAGATE, host.Policy.SATURATE])
@pytest.mark.parametrize("number", [1.0, np.inf, np.nan])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_new_memory_receives_the_same(
    scheme: aq.QuantScheme, number: float, policy: host.Policy, threads: int
) -> None:
    x = numbers(6, 64).astype(np.float32)
    x[2, 3] = number
    layout = plan(scheme, x.shape)
    prepared = host.quantization(layout, scheme.numerics.calibration, x.dtype, x.strides)
    flags, *parts = prepared.into_new(x, policy, threads)
    met, stored = host.Met(flags), host.Stored(*parts)
    met_before, before = quantized(x, layout, policy)
    assert met == met_before
    refused = met if policy is host.Policy.RAISE else met.refused
    if refused and policy is not host.Policy.PROPAGATE:
        return
    assert_same(stored, before)
    decoder = host.dequantization(layout, x.dtype)
    np.testing.assert_array_equal(
        decoder.into_new(stored, threads), aq.QuantizedArray._of(before, layout).dequantize()
    )


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(6, 64), (0, 64)])
def test_new_results_have_the_dtype_they_are_prepared_for(
    dtype: str, shape: tuple[int, ...]
) -> None:
    q = aq.quantize(numbers(*shape), "int8a/32")
    stored = host.Stored(q.data, q.scale_data, q.zero_point, q.tensor_scale)
    made = host.dequantization(q.plan, np.dtype(dtype)).into_new(stored, 1)
    np.testing.assert_array_equal(made, q.dequantize(dtype=dtype))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_stored_parts_of_any_strides_are_decoded(scheme: aq.QuantScheme, threads: int) -> None:
    q = aq.quantize(numbers(6, 64), scheme)
    parts = {name: getattr(q, name) for name in PARTS}
    spread = {
        name: part if part is None or not part.ndim else np.repeat(part, 2, axis=1)[:, ::2]
        for name, part in parts.items()
    }
    out = np.empty(q.shape, np.float32)
    host.dequantize(host.Stored(**spread), q.plan, out, threads)
    np.testing.assert_array_equal(out, q.dequantize())
    decoder = host.dequantization(q.plan, out.dtype)
    np.testing.assert_array_equal(decoder.into_new(host.Stored(**spread), threads), out)


@pytest.mark.parametrize("name", ["data", "scale_data", "zero_point"])
def test_stored_parts_of_another_length_are_refused(name: str) -> None:
    x = numbers(6, 64).astype(np.float32)
    layout = plan(aq.scheme("int4a/32"), x.shape)
    _, stored = quantized(x, layout)
    short = dataclasses.replace(stored, **{name: getattr(stored, name)[:-1]})
    with pytest.raises(ValueError, match="a stored part requires"):
        host.dequantize(short, layout, np.empty_like(x), 1)
    prepared = host.quantization(layout, aq.Calibration.MINMAX, x.dtype, x.strides)
    with pytest.raises(ValueError, match="a stored part requires"):
        prepared.run(x, host.Policy.RAISE, 1, short)


def test_arrays_of_another_length_are_refused() -> None:
    x = numbers(6, 64).astype(np.float32)
    layout = plan(aq.scheme("int4/32"), x.shape)
    prepared = host.quantization(layout, aq.Calibration.MINMAX, x.dtype, x.strides)
    with pytest.raises(ValueError, match="array requires 1536 bytes, got 1280"):
        prepared.run(x[:5], host.Policy.RAISE, 1, host.allocate(layout))


@pytest.mark.parametrize("boxes", [(0, 2), (-2, 1), (1, 0)])
def test_kernels_refuse_boxes_outside_the_array(boxes: tuple[int, int]) -> None:
    x = numbers(6, 64).astype(np.float32)
    layout = plan(aq.scheme("int8/32"), x.shape)
    prepared = host.quantization(layout, aq.Calibration.MINMAX, x.dtype, x.strides)
    with pytest.raises(ValueError, match="boxes outside the array"):
        prepared.blocks.largest_range(x, *boxes)
