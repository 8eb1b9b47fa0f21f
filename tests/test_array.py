"""QuantizedArray: what it shows, what it checks, what it refuses to be."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import arrayq as aq

X = np.random.default_rng(4).standard_normal((6, 100)).astype(np.float32)
SPELLINGS = ["int8/row", "int4/32", "nf4/64", "mxfp4", "nvfp4", "ternary"]


def test_sizes_are_those_of_the_array_it_stands_for() -> None:
    q = aq.quantize(X, "nvfp4")
    assert (q.shape, q.ndim, q.size, q.grid) == ((6, 100), 2, 600, (6, 7))
    assert q.nbytes == 6 * 50 + 6 * 7 + 4
    assert q.bits_per_element == 8 * q.nbytes / 600
    assert (q.device, q.namespace, q.extent, q.block_offset) == ("cpu", np, 100, ())


def test_the_repr_names_shape_and_scheme() -> None:
    assert repr(aq.quantize(X, "int4/32")) == (
        "QuantizedArray(shape=(6, 100), scheme='int4/32', grid=(6, 4), bits_per_element=4.64)"
    )


def test_it_is_frozen() -> None:
    q = aq.quantize(X, "int4/32")
    with pytest.raises(AttributeError, match="frozen"):
        q.data = q.data  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del q.scheme


@pytest.mark.parametrize("use", [np.asarray, np.array, lambda q: np.sum(np.asarray(q)), float])
def test_it_is_not_converted_unasked(use: Any) -> None:
    with pytest.raises(TypeError):
        use(aq.quantize(X, "int4/32"))


def test_the_refusal_names_the_way_out() -> None:
    with pytest.raises(TypeError, match=r"call \.dequantize\(\)"):
        np.asarray(aq.quantize(X, "int4/32"))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_pickling_keeps_every_part(spelling: str, protocol: int) -> None:
    q = aq.quantize(X, spelling)
    pickled = pickle.dumps(q, protocol)
    again = pickle.loads(pickled)
    assert aq.to_bytes(again) == aq.to_bytes(q)
    assert (again.scheme, again.shape) == (q.scheme, q.shape)
    assert len(pickled) <= q.nbytes + 4096


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, aq.QuantizedArray.copy])
def test_a_copy_shares_nothing(duplicate: Any) -> None:
    q = aq.quantize(X, "nvfp4")
    again = duplicate(q)
    assert aq.to_bytes(again) == aq.to_bytes(q)
    again.data[...] = 0
    again.tensor_scale[...] = 0
    assert aq.to_bytes(q) == aq.to_bytes(aq.quantize(X, "nvfp4"))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_its_parts_make_it_again(spelling: str) -> None:
    q = aq.quantize(X, spelling)
    again = aq.QuantizedArray(
        q.data, q.scale_data, q.scheme, extent=q.extent, tensor_scale=q.tensor_scale
    )
    np.testing.assert_array_equal(again.dequantize(), q.dequantize())


def test_a_block_offset_shifts_the_blocks() -> None:
    scheme = aq.QuantScheme(value="q8s", store="native").per_block([4])
    q = aq.QuantizedArray(
        np.ones(6, np.int8), np.array([1, 2, 3], np.float32), scheme, block_offset=(3,)
    )
    assert q.dequantize().tolist() == [1, 2, 2, 2, 2, 3]


def build(**changes: Any) -> aq.QuantizedArray:
    q = aq.quantize(X, "nvfp4")
    parts: dict[str, Any] = {
        "data": q.data,
        "scale_data": q.scale_data,
        "scheme": q.scheme,
        "extent": 100,
        "tensor_scale": q.tensor_scale,
        **changes,
    }
    return aq.QuantizedArray(**parts)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tensor_scale": None}, aq.QParamsError, "two-level scheme should have"),
        ({"scale_data": np.ones((6, 6), np.uint8)}, aq.QParamsError, r"\(6, 7\)"),
        ({"scale_data": np.ones((6, 7), np.float32)}, aq.QParamsError, "uint8 for ue4m3"),
        ({"scale_data": np.full((6, 7), 0x7F, np.uint8)}, aq.QParamsError, "NaN"),
        ({"scale_data": np.full((6, 7), 0x81, np.uint8)}, aq.QParamsError, "at most 0x7f"),
        ({"tensor_scale": -1.0}, aq.QParamsError, "at least 0"),
        ({"data": np.zeros((6, 50), np.int8)}, aq.LayoutError, "requires uint8"),
        ({"extent": 98}, aq.LayoutError, "shape"),
        ({"zero_point": 3}, aq.QParamsError, "zero_point"),
        ({"block_offset": (16,)}, aq.LayoutError, "block_offset"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build(**changes)


@pytest.mark.parametrize("value", ["q4s", "q2f", "e2m1", "e3m2"])
def test_a_native_code_outside_its_field_is_refused(value: str) -> None:
    scheme = aq.QuantScheme(value=value, store="native")
    data = np.full(3, 99, np.int8 if value[0] == "q" else np.uint8)
    with pytest.raises(aq.CodeError, match="codes requires integers from"):
        aq.QuantizedArray(data, np.ones(1, np.float32), scheme)
