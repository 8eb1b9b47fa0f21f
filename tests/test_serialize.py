"""Quantized arrays as bytes: the order of the parts, and every scheme back again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import arrayq as aq

X = np.random.default_rng(6).standard_normal((5, 77)).astype(np.float32)
STORES = ["native", "packed_native", "packed_u32", "packed_native(1)", "packed_u32(1)"]


def schemes(value: aq.QuantValue) -> list[aq.QuantScheme]:
    """Return the value under one and two levels, with a codebook where it is an index."""
    base = aq.QuantScheme().with_value(value)
    if base.mode is aq.QuantMode.LOOKUP:
        base = base.with_codebook(np.linspace(-1, 1, 1 << value.bits).tolist())
    return [base, base.per_block([16], "f16"), base.per_block([2, 8], "ue4m3").per_tensor("f32")]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("value", aq.QuantValue)
def test_every_scheme_comes_back(value: aq.QuantValue, store: str) -> None:
    for scheme in schemes(value):
        q = aq.quantize(X, scheme.with_store(store))
        raw = aq.to_bytes(q)
        assert len(raw) == q.nbytes
        again = aq.from_bytes(raw, q.scheme, X.shape)
        assert aq.to_bytes(again) == raw
        np.testing.assert_array_equal(again.dequantize(), q.dequantize())
        assert again.data.flags.writeable


def test_parts_follow_each_other_without_padding() -> None:
    q = aq.quantize(X, "nvfp4")
    assert aq.to_bytes(q) == q.data.tobytes() + q.scale_data.tobytes() + q.tensor_scale.tobytes()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, "u1")])
def test_any_buffer_will_do(kind: Any) -> None:
    raw = aq.to_bytes(aq.quantize(X, "int4/32"))
    assert aq.to_bytes(aq.from_bytes(kind(raw), "int4/32", X.shape)) == raw


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b""])
def test_a_buffer_of_the_wrong_length_says_expected_and_actual_size(change: Any) -> None:
    raw = aq.to_bytes(aq.quantize(X, "nvfp4"))
    given = change(raw)
    with pytest.raises(aq.LayoutError, match=rf"requires {len(raw)} bytes .* got {len(given)}"):
        aq.from_bytes(given, "nvfp4", X.shape)


@pytest.mark.parametrize("shape", [(-1, 3), (2.5,), "ab", None])
def test_a_shape_that_is_none_is_refused(shape: Any) -> None:
    with pytest.raises(aq.LayoutError, match="shape requires"):
        aq.from_bytes(b"", "int8/row", shape)


def test_what_is_no_buffer_is_refused() -> None:
    with pytest.raises(aq.ArrayTypeError, match="buffer requires contiguous bytes"):
        aq.from_bytes([1, 2, 3], "int8/row", (3,))
    with pytest.raises(aq.ArrayTypeError, match="buffer requires contiguous bytes"):
        aq.from_bytes(np.zeros(20, np.uint8)[::2], "int8/row", (1, 6))


def test_a_buffer_of_wide_items_counts_in_bytes() -> None:
    raw = np.frombuffer(aq.to_bytes(aq.quantize(X[:4, :64], "int4/32:f32")), np.float32)
    assert aq.from_bytes(raw, "int4/32:f32", (4, 64)).shape == (4, 64)


def test_scales_that_are_none_are_refused_and_nan_on_request_allowed() -> None:
    q = aq.quantize(np.array([[np.nan, 1.0]], np.float32), "int8/row", nonfinite="propagate")
    raw = aq.to_bytes(q)
    with pytest.raises(aq.QParamsError, match="NaN"):
        aq.from_bytes(raw, "int8/row", (1, 2))
    again = aq.from_bytes(raw, "int8/row", (1, 2), nonfinite="propagate")
    assert np.isnan(again.dequantize()).all()
    negative = raw[:2] + np.float32(-1).tobytes()
    with pytest.raises(aq.QParamsError, match="negative"):
        aq.from_bytes(negative, "int8/row", (1, 2))


def test_a_lookup_scheme_without_codebook_is_refused() -> None:
    with pytest.raises(aq.CodebookError):
        aq.from_bytes(b"\0" * 8, aq.QuantScheme(value="u2", mode="lookup"), (4,))


def test_another_namespace_is_refused_by_name() -> None:
    import math

    with pytest.raises(aq.ArrayTypeError, match="got <module 'math'"):
        aq.from_bytes(b"", "int8/row", (0, 1), xp=math)


def test_an_array_that_starts_inside_a_block_has_no_bytes() -> None:
    scheme = aq.QuantScheme(value="q8s", store="native").per_block([4])
    q = aq.QuantizedArray(np.ones(2, np.int8), np.ones(2, np.float32), scheme, block_offset=(3,))
    with pytest.raises(aq.LayoutError, match=r"block_offset \(3,\)"):
        aq.to_bytes(q)
