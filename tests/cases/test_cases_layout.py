"""Reports from practice (CASES 11, 13, 14, 15): strides, short blocks, packing, nothing at all."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import oracle
import pytest

import arrayq as aq
from arrayq.formats import VALUE_FORMATS, format_of

SPELLINGS = [
    "int8/row", "int4/32", "int4/row", "int2/5", "q8f/tensor", "e4m3/16", "nf4/64", "mxfp4",
    "mxfp6-e3m2", "nvfp4", "ternary", "int4a/32", "int8a/row", "u3a/7",
]  # fmt: skip


def strided_arrays() -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(11)
    cube = rng.standard_normal((3, 4, 64)).astype(np.float32)
    matrix = rng.standard_normal((24, 40)).astype(np.float32)
    record = np.zeros((6, 50), [("tag", "u1"), ("weight", "f4"), ("rest", "f8")])
    record["weight"] = rng.standard_normal((6, 50))
    return {
        "every second row": cube[:, ::2],
        "every third column": matrix[:, ::3],
        "transposed": matrix.T,
        "reversed rows": matrix[::-1],
        "reversed columns": cube[..., ::-1],
        "reversed in all axes": cube[::-1, ::-1, ::-1],
        "broadcast rows": np.broadcast_to(matrix[0], (8, 40)),
        "broadcast columns": np.broadcast_to(matrix[:, :1], (24, 33)),
        "broadcast scalar": np.broadcast_to(np.float32(0.3), (5, 7)),
        "Fortran order": np.asfortranarray(cube),
        "a field of records": record["weight"],
        "permuted axes": cube.transpose(2, 0, 1),
        "a window": matrix[3:17, 5:38],
        "one axis of length one": matrix[:, 7:8],
        "float16, strided": matrix.astype(np.float16)[::2, ::-2],
        "float64, transposed": matrix.astype(np.float64).T,
    }


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", strided_arrays())
def test_case_11_strides_do_not_change_a_bit(name: str, spelling: str, threads: int) -> None:
    x = strided_arrays()[name]
    dense = np.ascontiguousarray(x)
    got = aq.quantize(x, spelling, threads=threads)
    expected = aq.quantize(dense, spelling)
    np.testing.assert_array_equal(got.data, expected.data)
    np.testing.assert_array_equal(got.scale_data, expected.scale_data)
    assert got.tensor_scale == expected.tensor_scale
    np.testing.assert_array_equal(got.zero_point, expected.zero_point)
    out = np.full(tuple(2 * n for n in x.shape), np.float32(9))
    window = out[tuple(slice(None, None, -2) for _ in x.shape)]
    aq.dequantize(got, out=window, threads=threads)
    np.testing.assert_array_equal(window, aq.dequantize(expected))


@pytest.mark.parametrize("store", ["native", "packed_native", "packed_u32"])
@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ((4, 100), (64,)),
        ((5, 7), (2, 4)),
        ((1,), (64,)),
        ((7,), (1000,)),
        ((1, 1, 1), (3, 3, 3)),
        ((3, 5, 7), (2, 2, 2)),
        ((2, 33), (-1, 32)),
    ],
)
@pytest.mark.parametrize("name", ["q8s", "q4s", "q2s", "e4m3", "e2m1", "u4"])
def test_case_13_a_short_block_sees_only_its_own_elements(
    name: str, shape: tuple[int, ...], block: tuple[int, ...], store: str
) -> None:
    x = np.random.default_rng(13).uniform(5, 6, shape).astype(np.float32)
    scheme = aq.QuantScheme().with_value(name).with_store(store).per_block(block)
    q = aq.quantize(x, scheme)
    assert q.shape == shape
    full = (1,) * (len(shape) - len(block)) + block
    sizes = [n if size == -1 else size for n, size in zip(shape, full, strict=True)]
    divisor = {"u4": 1.0}.get(name) or format_of(name).half_range
    for cell in np.ndindex(q.scale.shape):
        part = x[tuple(slice(c * s, (c + 1) * s) for c, s in zip(cell, sizes, strict=True))]
        assert q.scale[cell] == part.max() / np.float32(divisor)
    values = aq.dequantize(q)
    assert values.shape == shape
    assert np.abs(values - x).max() <= 6 * {"q2s": 0.5, "u4": 0.2, "e2m1": 0.2}.get(name, 0.1)


def test_case_13_unused_fields_of_the_last_word_are_zero() -> None:
    x = np.full((3, 5), -1, np.float32)
    q = aq.quantize(x, aq.QuantScheme().with_value("q4s").with_store("packed_native"))
    np.testing.assert_array_equal(q.data, [[0x99, 0x99, 0x09]] * 3)
    q = aq.quantize(x, aq.QuantScheme().with_value("q4s").with_store("packed_u32(1)"))
    np.testing.assert_array_equal(q.data, [[0x999] * 5])
    np.testing.assert_array_equal(aq.dequantize(q), x)


SHAPES = [(8, 64, 128), (16,), (3, 5), (2, 3, 4, 5), (2, 1, 3, 2, 7), (2, 2, 3, 2, 3, 5), (1, 1)]
PACKINGS = [(shape, dim, word) for shape in SHAPES for dim in range(len(shape)) for word in (8, 32)]


@pytest.mark.parametrize("name", VALUE_FORMATS)
@pytest.mark.parametrize(("shape", "dim", "word"), PACKINGS)
def test_case_14_packing_along_any_axis_is_undone_by_unpacking(
    name: str, shape: tuple[int, ...], dim: int, word: int
) -> None:
    row = format_of(name)
    rng = np.random.default_rng(14)
    low = int(row.qmin) if name.startswith("q") else 0
    high = int(row.qmax) if name.startswith("q") else row.code_mask
    codes = rng.integers(low, high + 1, shape).astype(row.code_dtype)
    store = f"packed_{'native' if word == 8 else 'u32'}({dim})"
    words = aq.pack(codes, name, store)
    assert words.dtype == np.dtype(f"uint{word}")
    axis = len(shape) - 1 - dim
    per_word = word // row.bits
    expected = tuple(-(-n // per_word) if k == axis else n for k, n in enumerate(shape))
    assert words.shape == expected
    back = aq.unpack(words, name, store, shape[axis])
    assert back.dtype == codes.dtype
    np.testing.assert_array_equal(back, codes)


@pytest.mark.parametrize("order", ["F", "reversed"])
def test_case_14_codes_of_any_layout_pack_alike(order: str) -> None:
    codes = np.random.default_rng(1).integers(-7, 8, (6, 9)).astype(np.int8)
    other = np.asfortranarray(codes) if order == "F" else codes[::-1, ::-1].copy()[::-1, ::-1]
    for store in ("packed_native", "packed_u32(1)"):
        np.testing.assert_array_equal(aq.pack(other, "q4s", store), aq.pack(codes, "q4s", store))


@pytest.mark.parametrize(
    ("name", "code"),
    [("q4s", 9), ("q4s", 8), ("q4f", -9), ("q2s", 2), ("q2s", -3), ("e2m1", 16), ("e3m2", 64),
     ("u3", 8), ("u1", 2)],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 40, 99])
def test_case_14_a_code_outside_its_field_raises_instead_of_wrapping(
    name: str, code: int, place: int
) -> None:
    codes = np.zeros(100, format_of(name).code_dtype)
    codes[place] = code
    for store in ("packed_native", "packed_u32"):
        with pytest.raises(aq.CodeError, match=str(code)):
            aq.pack(codes, name, store)


@pytest.mark.parametrize("spelling", [*SPELLINGS, "int8/tensor", "e2m1/tensor"])
@pytest.mark.parametrize("shape", [(0,), (0, 32), (32, 0), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_case_15_empty_in_empty_out(spelling: str, shape: tuple[int, ...], dtype: Any) -> None:
    scheme = aq.scheme(spelling)
    q = aq.quantize(np.zeros(shape, dtype), scheme)
    assert q.shape == shape
    assert q.size == 0
    assert q.data.size == 0
    if scheme.block is not None:
        assert q.scale.size == 0
    else:
        assert q.scale.shape == (1,) * len(shape)
        assert (q.scale == 0).all()
    values = aq.dequantize(q)
    assert (values.shape, values.dtype) == (shape, np.float32)
    stored = aq.to_bytes(q)
    again = aq.from_bytes(stored, scheme, shape)
    assert again.shape == shape
    assert aq.to_bytes(again) == stored
    assert aq.fake_quantize(np.zeros(shape, dtype), scheme).dtype == dtype


PER_TENSOR = [
    (value, store)
    for value, store in itertools.product(VALUE_FORMATS, ["native", "packed_native", "packed_u32"])
]


@pytest.mark.parametrize(("value", "store"), PER_TENSOR)
def test_case_15_a_scalar_array_quantizes_per_tensor(value: str, store: str) -> None:
    scheme = aq.QuantScheme().with_value(value).with_store(store)
    table = None
    if value.startswith("u"):
        half = 2 ** (format_of(value).bits - 1)
        table = tuple((k - half) / half for k in range(2 * half))
        scheme = scheme.with_codebook(table)
    x = np.array(-2.75, np.float32)
    q = aq.quantize(x, scheme)
    expected = oracle.encode_array(x, oracle.Spec(value, table, store))
    assert q.shape == q.scale.shape == ()
    np.testing.assert_array_equal(q.data, expected.data)
    np.testing.assert_array_equal(aq.dequantize(q), expected.values)
    again = aq.from_bytes(aq.to_bytes(q), scheme, ())
    np.testing.assert_array_equal(aq.dequantize(again), expected.values)


def test_case_15_a_scalar_array_has_no_blocks_and_no_channels() -> None:
    for spelling in ("int8/row", "int4/32", "nvfp4"):
        with pytest.raises(aq.LayoutError):
            aq.quantize(np.array(1.0, np.float32), spelling)
