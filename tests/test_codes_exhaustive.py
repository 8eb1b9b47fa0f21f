"""Every code of every format, every decision edge, and every 16-bit float, against the oracle."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import oracle
import pytest
from oracle.elements import ELEMENTS

import arrayq as aq
from arrayq.formats import FORMATS, VALUE_FORMATS, Kind

NARROW = [name for name in FORMATS if name != "f32"]
SIGNED = [name for name in NARROW if FORMATS[name].signed or FORMATS[name].kind is Kind.FIELD]
SYMMETRIC = [name for name in VALUE_FORMATS if FORMATS[name].kind is not Kind.FIELD]
WITHOUT_NAN = [name for name in FORMATS if FORMATS[name].nan_code is None]


def code_array(name: str, fields: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return unsigned fields as the array of codes that arrayq uses for a format."""
    row = FORMATS[name]
    if row.kind is Kind.INT:
        half = 2 ** (row.bits - 1)
        return np.where(fields >= half, fields - 2 * half, fields).astype(np.int8)
    return fields.astype(f"uint{max(8, row.bits)}")


def assert_same_bits(got: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> None:
    assert got.dtype == expected.dtype == np.float32
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


def edges_and_neighbours(name: str) -> npt.NDArray[np.float32]:
    """Return every float32 next to a decision edge, every value of the format, and specials."""
    points = np.array(oracle.decision_points(name))
    near = points.astype(np.float32)
    values = oracle.decode_codes(np.arange(2 ** ELEMENTS[name].width), name)
    values = values[np.isfinite(values)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32)
    x = np.concatenate([near, values, special])
    with np.errstate(over="ignore"):
        below, above = np.nextafter(x, np.float32(-np.inf)), np.nextafter(x, np.float32(np.inf))
    return np.concatenate([x, below, above])


def in_range_of(name: str, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Leave out negative numbers where the format is a scale dtype without a sign."""
    return x if name in SIGNED or name == "ue8m0" else x[~np.signbit(x)]


def test_the_oracle_defines_every_row() -> None:
    assert set(FORMATS) == set(ELEMENTS)


@pytest.mark.parametrize("name", NARROW)
def test_every_code_decodes_to_its_value(name: str) -> None:
    fields = np.arange(2 ** ELEMENTS[name].width)
    assert_same_bits(aq.decode(code_array(name, fields), name), oracle.decode_codes(fields, name))


def test_float32_decodes_to_itself() -> None:
    bits = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32)
    got, number = aq.decode(bits, "f32"), ~np.isnan(bits.view(np.float32))
    np.testing.assert_array_equal(got[number].view(np.uint32), bits[number])
    assert np.isnan(got[~number]).all()


@pytest.mark.parametrize("name", NARROW)
def test_every_value_encodes_to_its_own_code(name: str) -> None:
    fields = np.arange(2 ** ELEMENTS[name].width)
    values = oracle.decode_codes(fields, name)
    low, high = FORMATS[name].qmin, FORMATS[name].qmax
    inside = (values >= low) & (values <= high)
    codes = code_array(name, fields[inside])
    got = aq.encode(values[inside], name)
    assert got.dtype == codes.dtype
    np.testing.assert_array_equal(got, codes)


@pytest.mark.parametrize("name", NARROW)
def test_edges_and_their_neighbours_encode_to_the_right_side(name: str) -> None:
    x = in_range_of(name, edges_and_neighbours(name))
    got = aq.encode(x, name)
    np.testing.assert_array_equal(got, code_array(name, oracle.encode_values(x, name)))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_edges_quantize_to_the_right_side_under_a_scale_of_one(name: str) -> None:
    x = edges_and_neighbours(name)
    x = x[np.isfinite(x)]
    scheme = aq.QuantScheme().with_value(name).with_store("native").per_tensor("f32")
    q = aq.quantize(x, scheme, qparams=aq.QParams(scale=np.float32([1.0])))
    expected = code_array(name, oracle.encode_values(x, name))
    np.testing.assert_array_equal(q.data, expected)
    assert_same_bits(aq.dequantize(q), oracle.decode_codes(expected, name))


@pytest.mark.parametrize("name", [n for n in FORMATS if FORMATS[n].nan_code is not None])
@pytest.mark.parametrize("overflow", ["saturate", "nan", "inf"])
def test_overflow_goes_where_it_is_asked_to(name: str, overflow: str) -> None:
    if overflow == "inf" and FORMATS[name].inf_code is None:
        pytest.skip(f"{name} has no infinity")
    x = np.array([np.nan, -np.nan, np.inf, 3.4e38, 1e6, 464.0, 465.0, 448.0, 61440.0, 61439.0])
    x = in_range_of(name, np.concatenate([x, -x]).astype(np.float32))
    got = aq.encode(x, name, overflow=overflow)
    expected = oracle.encode_values(x, name, overflow=overflow)
    np.testing.assert_array_equal(got, code_array(name, expected))


@pytest.mark.parametrize("name", WITHOUT_NAN)
def test_nan_needs_a_code_where_the_format_has_none(name: str) -> None:
    x = np.array([[1.0, np.nan], [np.inf, -np.inf]], np.float32)
    with pytest.raises(aq.NonFiniteError) as caught:
        aq.encode(x, name)
    assert (caught.value.nan, caught.value.first_index) == (1, (0, 1))
    got = aq.encode(x, name, nan=1)
    np.testing.assert_array_equal(got, code_array(name, oracle.encode_values(x, name, nan=1)))


@pytest.mark.parametrize("name", [n for n in SYMMETRIC if FORMATS[n].kind is Kind.MINIFLOAT])
def test_only_an_exact_negative_zero_can_be_dropped(name: str) -> None:
    tiny = np.float32(FORMATS[name].smallest_positive) / np.float32(8)
    x = np.array([0.0, -0.0, -tiny, tiny], np.float32)
    sign = FORMATS[name].sign_mask
    np.testing.assert_array_equal(aq.encode(x, name), [0, sign, sign, 0])
    np.testing.assert_array_equal(aq.encode(x, name, negative_zero="drop"), [0, 0, sign, 0])


def test_nonpositive_numbers_become_a_magnitude_or_nan_in_e8m0() -> None:
    x = np.array([0.0, -0.0, -1.0, -3.0, 1.0, -np.inf], np.float32)
    np.testing.assert_array_equal(aq.encode(x, "ue8m0"), [0, 0, 127, 129, 127, 254])
    got = aq.encode(x, "ue8m0", nonpositive="nan")
    np.testing.assert_array_equal(got, [255, 255, 255, 255, 127, 255])


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_every_16_bit_float_encodes_as_its_float32(name: str, dtype: Any) -> None:
    x = np.arange(65536, dtype=np.uint16).view(dtype)
    wide = x.astype(np.float32)
    keep = ~np.isnan(wide) if FORMATS[name].nan_code is None else np.ones(wide.shape, bool)
    if name not in SIGNED and name != "ue8m0":
        keep &= ~np.signbit(wide)
    got = aq.encode(x[keep], name)
    np.testing.assert_array_equal(got, code_array(name, oracle.encode_values(wide[keep], name)))


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_every_finite_16_bit_float_quantizes_as_its_float32(name: str, dtype: Any) -> None:
    x = np.arange(65536, dtype=np.uint16).view(dtype)
    x = x[np.isfinite(x.astype(np.float32))]
    scheme = aq.QuantScheme().with_value(name).with_store("native").per_block([64], "f32")
    narrow, wide = aq.quantize(x, scheme), aq.quantize(x.astype(np.float32), scheme)
    np.testing.assert_array_equal(narrow.data, wide.data)
    np.testing.assert_array_equal(narrow.scale_data, wide.scale_data)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("repeated", [False, True], ids=["distinct", "with_duplicates"])
def test_table_edges_encode_to_the_nearest_entry(bits: int, repeated: bool) -> None:
    rng = np.random.default_rng(bits)
    entries = rng.standard_normal(2**bits).astype(np.float32)
    if repeated:
        entries[1::2] = entries[::2]
    table = tuple(entries.tolist())
    ordered = np.sort(entries.astype(np.float64))
    middles = ((ordered[:-1] + ordered[1:]) / 2).astype(np.float32)
    x = np.concatenate([middles, entries, np.float32([0.0, -0.0, 9.0, -9.0])])
    x = np.concatenate([x, np.nextafter(x, np.float32(9)), np.nextafter(x, np.float32(-9))])
    scheme = aq.QuantScheme().with_value(f"u{bits}").with_store("native").per_tensor("f32")
    scheme = scheme.with_mode("lookup", table)
    q = aq.quantize(x, scheme, qparams=aq.QParams(scale=np.float32([1.0])))
    expected = oracle.nearest_entry(x, table)
    np.testing.assert_array_equal(q.codes(), expected)
    assert_same_bits(aq.dequantize(q), entries[expected])
