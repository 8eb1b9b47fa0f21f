"""Reports from practice (CASES 16, 17, 18, 22): size, byte order, read-only memory, saving."""

from __future__ import annotations

import copy
import hashlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import arrayq as aq

SPELLINGS = [
    "int8/row", "int4/32", "int2/32", "q8f/tensor", "q4s/32:bf16", "e4m3/row", "e5m2/16", "nf4/64",
    "mxfp4", "mxfp8", "mxfp6-e3m2", "nvfp4", "ternary", "int8a/32", "int4a/row",
]  # fmt: skip
OWN_TABLE = aq.QuantScheme(
    value="u3", store="packed_u32(1)", mode="lookup", codebook=[-4, -2, -1, -0.5, 0, 0.5, 1, 3]
).per_block([2, 8], "f16")
HALF_BIAS = aq.QuantScheme("q2f", "packed_u32(1)", "affine").per_block([2, 8], "bf16")
HALF_BIAS = HALF_BIAS.with_zero("bias", "f16").with_numerics(zero_in_range=False)
WIDE_ZERO = aq.QuantScheme("q8s", "native", "affine").per_channel(1).with_zero("code", "i32")
WITH_OWN = [*map(aq.scheme, SPELLINGS), OWN_TABLE, HALF_BIAS, WIDE_ZERO]
STORED_DTYPES = {"int8", "int32", "uint8", "uint16", "uint32", "float32"}


def weights() -> npt.NDArray[np.float32]:
    return np.random.default_rng(17).standard_normal((6, 70)).astype(np.float32)


def assert_equal(got: aq.QuantizedArray, expected: aq.QuantizedArray) -> None:
    assert got.scheme == expected.scheme
    assert got.shape == expected.shape
    assert got.codebook == expected.codebook
    assert got.data.dtype == expected.data.dtype
    np.testing.assert_array_equal(got.data, expected.data)
    assert got.scale_data.dtype == expected.scale_data.dtype
    np.testing.assert_array_equal(got.scale_data, expected.scale_data)
    assert got.tensor_scale == expected.tensor_scale
    assert type(got.zero_point) is type(expected.zero_point)
    if got.zero_point is not None and expected.zero_point is not None:
        assert got.zero_point.dtype == expected.zero_point.dtype
        np.testing.assert_array_equal(got.zero_point, expected.zero_point)
    np.testing.assert_array_equal(aq.dequantize(got), aq.dequantize(expected))


@pytest.mark.slow
def test_case_16_more_elements_than_an_int32_can_count() -> None:
    n = 2**31 + 64
    x = np.broadcast_to(np.float32(1), (n,))
    q = aq.quantize(x, "q4s/tensor")
    assert q.data.shape == (n // 2,)
    assert q.scale[0] == np.float32(1) / np.float32(7)
    np.testing.assert_array_equal(q.data[-32:], np.full(32, 0x77))
    np.testing.assert_array_equal(q.data[:32], np.full(32, 0x77))
    assert q.data.min() == q.data.max() == 0x77
    del q
    blocks = aq.quantize(x, "q4s/32")
    np.testing.assert_array_equal(blocks.scale_data[-2:], blocks.scale_data[:2])
    np.testing.assert_array_equal(blocks.data[-32:], blocks.data[:32])
    tail = aq.QuantizedArray(
        blocks.data[-32:].copy(), blocks.scale_data[-2:].copy(), blocks.scheme, extent=64
    )
    head = aq.QuantizedArray(
        blocks.data[:32].copy(), blocks.scale_data[:2].copy(), blocks.scheme, extent=64
    )
    np.testing.assert_array_equal(aq.dequantize(tail), aq.dequantize(head))


@pytest.mark.slow
def test_case_16_more_packed_bits_than_an_int32_can_count() -> None:
    n = 2**29 + 64
    pattern = np.float32([1, -1, 0.5, 0])
    x = np.broadcast_to(pattern, (n // 4, 4))
    q = aq.quantize(x, "q4s/tensor")
    values = aq.dequantize(q)
    expected = aq.dequantize(aq.quantize(pattern[None], "q4s/tensor"))
    np.testing.assert_array_equal(values[-16:], np.broadcast_to(expected, (16, 4)))
    np.testing.assert_array_equal(values[:16], values[-16:])


@pytest.mark.parametrize("scheme", WITH_OWN, ids=str)
@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", "<f2", "<f4", "<f8"])
def test_case_17_byte_order_does_not_change_a_bit(scheme: aq.QuantScheme, dtype: str) -> None:
    x = weights().astype(np.dtype(dtype).newbyteorder("="))
    assert_equal(aq.quantize(x.astype(dtype), scheme), aq.quantize(x, scheme))
    found, native = aq.calibrate(x.astype(dtype), scheme), aq.calibrate(x, scheme)
    np.testing.assert_array_equal(found.scale, native.scale)
    turned = aq.fake_quantize(x.astype(dtype), scheme)
    assert turned.dtype.isnative
    np.testing.assert_array_equal(turned, aq.fake_quantize(x, scheme))
    np.testing.assert_array_equal(aq.encode(x.astype(dtype), "e4m3"), aq.encode(x, "e4m3"))


@pytest.mark.parametrize("scheme", WITH_OWN, ids=str)
def test_case_17_what_comes_out_is_native(scheme: aq.QuantScheme) -> None:
    q = aq.quantize(weights().astype(">f4"), scheme)
    for stored in (q.data, q.scale_data, q.scale, q.zero_point, q.zero, aq.dequantize(q)):
        assert stored is None or stored.dtype.isnative


@pytest.mark.parametrize("scheme", WITH_OWN, ids=str)
def test_case_17_parameters_in_another_byte_order_mean_the_same(scheme: aq.QuantScheme) -> None:
    x = weights()
    found = aq.calibrate(x, scheme)
    turned = aq.QParams(
        scale=found.scale.astype(">f4"),
        tensor_scale=None if found.tensor_scale is None else found.tensor_scale.astype(">f4"),
        zero_point=None
        if found.zero_point is None
        else found.zero_point.astype(found.zero_point.dtype.newbyteorder(">")),
    )
    assert_equal(aq.quantize(x, scheme, qparams=turned), aq.quantize(x, scheme))


def frozen(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_case_18_read_only_input_works_and_stays_as_it_was(spelling: str, tmp_path: Path) -> None:
    x = weights()
    path = tmp_path / "weights.bin"
    path.write_bytes(b"\x07" * 3 + x.tobytes())
    mapped = np.memmap(path, np.uint8, "r", offset=3).view(np.float32).reshape(x.shape)
    expected = aq.quantize(x, spelling)
    viewed = np.frombuffer(x.tobytes(), np.float32).reshape(x.shape)
    for given in (frozen(x.copy()), mapped, viewed):
        before = hashlib.sha256(given.tobytes()).digest()
        q = aq.quantize(given, spelling)
        assert_equal(q, expected)
        assert hashlib.sha256(given.tobytes()).digest() == before
        for made in (q.data, q.scale_data, aq.dequantize(q), aq.fake_quantize(given, spelling)):
            assert made.flags.writeable
            assert not np.shares_memory(made, given)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_case_18_read_only_parts_decode(spelling: str) -> None:
    q = aq.quantize(weights(), spelling)
    held = aq.QuantizedArray(
        frozen(q.data.copy()),
        frozen(q.scale_data.copy()),
        q.scheme,
        extent=q.extent,
        tensor_scale=q.tensor_scale,
        zero_point=None if q.zero_point is None else frozen(q.zero_point.copy()),
    )
    np.testing.assert_array_equal(aq.dequantize(held), aq.dequantize(q))
    for unpacked in (held.codes(), aq.from_bytes(aq.to_bytes(q), q.scheme, q.shape).codes()):
        np.testing.assert_array_equal(unpacked, q.codes())


@pytest.mark.parametrize("scheme", WITH_OWN, ids=str)
def test_case_22_saving_keeps_every_part(scheme: aq.QuantScheme, tmp_path: Path) -> None:
    q = aq.quantize(weights(), scheme)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert_equal(pickle.loads(pickle.dumps(q, protocol)), q)
    assert_equal(copy.deepcopy(q), q)
    assert_equal(aq.from_bytes(aq.to_bytes(q), scheme, q.shape), q)
    assert {str(q.data.dtype), str(q.scale_data.dtype)} <= STORED_DTYPES
    stored = {"data": q.data, "scale_data": q.scale_data}
    if q.zero_point is not None:
        assert str(q.zero_point.dtype) in STORED_DTYPES
        stored["zero_point"] = q.zero_point
    np.savez(tmp_path / "parts.npz", **stored)
    with np.load(tmp_path / "parts.npz") as parts:
        loaded = aq.QuantizedArray(
            parts["data"],
            parts["scale_data"],
            q.scheme,
            extent=q.extent,
            tensor_scale=q.tensor_scale,
            zero_point=parts.get("zero_point"),
        )
    assert_equal(loaded, q)


WITHOUT_ML_DTYPES = """
import pickle, sys
sys.modules["ml_dtypes"] = None
import arrayq as aq
for path, expected in zip(sys.argv[1::2], sys.argv[2::2]):
    with open(path, "rb") as file:
        q = pickle.load(file)
    assert aq.dequantize(q).tobytes().hex() == expected
"""


def test_case_22_what_was_saved_loads_without_ml_dtypes(tmp_path: Path) -> None:
    arguments = []
    for number, scheme in enumerate(WITH_OWN):
        q = aq.quantize(weights()[:, :20], scheme)
        path = tmp_path / f"{number}.pickle"
        path.write_bytes(pickle.dumps(q))
        arguments += [str(path), aq.dequantize(q).tobytes().hex()]
    command = [sys.executable, "-c", WITHOUT_ML_DTYPES, *arguments]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
