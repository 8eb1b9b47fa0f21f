"""Reports from practice (CASES 8, 9, 10, 28, 29): overflow, NaN, range, dtypes, twice quantized."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import oracle
import pytest

import arrayq as aq
from arrayq.formats import SCALE_FORMATS, VALUE_FORMATS, Kind, format_of

SYMMETRIC = [name for name in VALUE_FORMATS if format_of(name).kind is not Kind.FIELD]
SPELLINGS = [
    "int8/row", "int4/32", "int2/32", "q8f/tensor", "q2f/8", "e4m3/row", "e5m2/16", "e2m1/16",
    "nf4/64", "mxfp4", "mxfp8", "mxfp8-e5m2", "mxfp6-e3m2", "mxfp6-e2m3", "nvfp4", "ternary",
]  # fmt: skip
OF_ONE = aq.QParams(scale=np.ones((1,), np.float32))


def native(name: str) -> aq.QuantScheme:
    return aq.QuantScheme().with_value(name).with_store("native")


@pytest.mark.parametrize(
    ("name", "given", "right"),
    [
        ("e4m3", [1000, 448, 464, 465, -1000], [448, 448, 448, 448, -448]),
        ("e5m2", [61440, 57344, -61440, 1e9, 61439], [57344, 57344, -57344, 57344, 57344]),
        ("e3m2", [28, 30, 31, -1000, 29], [28, 28, 28, -28, 28]),
        ("e2m3", [7.5, 7.75, 8, -1000, 7.6], [7.5, 7.5, 7.5, -7.5, 7.5]),
        ("e2m1", [6, 7, 7.1, -1000, 5], [6, 6, 6, -6, 4]),
    ],
)
def test_case_08_overflow_saturates(name: str, given: list[float], right: list[float]) -> None:
    x = np.array(given, np.float32)
    q = aq.quantize(x, native(name).per_tensor(), qparams=OF_ONE)
    np.testing.assert_array_equal(aq.dequantize(q), np.float32(right))
    np.testing.assert_array_equal(aq.decode(aq.encode(x, name), name), np.float32(right))


def test_case_08_nan_stays_nan_and_infinity_saturates() -> None:
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(aq.encode(x, "e4m3"), [0x7F, 0x7E, 0xFE])
    np.testing.assert_array_equal(aq.encode(x, "e5m2"), [0x7F, 0x7B, 0xFB])


def test_case_08_float64_is_rounded_once_to_float32() -> None:
    # The float32 next to 1.0625 + 1e-12 is the tie 1.0625 itself, and ties go to the even code;
    # 1e-6 above the tie is seen in float32 and goes up.
    x = np.array([1.0625 + 1e-12, 1.0625 + 1e-6, 1.0625, 1.1875], np.float64)
    right = [1.0, 1.125, 1.0, 1.25]
    np.testing.assert_array_equal(aq.decode(aq.encode(x, "e4m3"), "e4m3"), right)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_case_09_nan_raises_and_says_how_many_and_where(spelling: str) -> None:
    x = np.ones((3, 64), np.float32)
    x[1, 5], x[2, 0], x[2, 1] = np.nan, np.inf, -np.inf
    with pytest.raises(aq.NonFiniteError, match=r"1\b.*2\b.*\(1, 5\)") as caught:
        aq.quantize(x, spelling)
    assert (caught.value.nan, caught.value.inf) == (1, 2)
    assert caught.value.first_index == (1, 5)


NAN_SCALES = {"f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0, "ue4m3": 0x7F, "ue8m0": 0xFF}


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", SCALE_FORMATS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_case_09_propagate_spoils_the_whole_block_and_no_other(
    name: str, dtype: str, special: float
) -> None:
    x = np.ones(32, np.float32)
    x[0] = special
    q = aq.quantize(x, native(name).per_block([16], dtype), nonfinite="propagate")
    stored = q.scale_data.view(np.uint32) if dtype == "f32" else q.scale_data
    assert stored[0] == NAN_SCALES[dtype]
    np.testing.assert_array_equal(q.codes()[:16], np.zeros(16))
    values = aq.dequantize(q)
    assert np.isnan(values[:16]).all()
    assert np.isfinite(values[16:]).all()


def test_case_09_the_tensor_scale_sees_only_finite_values() -> None:
    x = np.ones(32, np.float32)
    clean = aq.quantize(x, "nvfp4")
    x[0] = np.inf
    q = aq.quantize(x, "nvfp4", nonfinite="propagate")
    assert q.tensor_scale == clean.tensor_scale
    np.testing.assert_array_equal(q.scale_data, [0x7F, clean.scale_data[1]])


@pytest.mark.parametrize("name", SYMMETRIC)
def test_case_09_saturate_makes_an_infinity_the_largest_code_of_its_sign(name: str) -> None:
    x = np.array([np.inf, -np.inf, 1.0, 0.0], np.float32)
    q = aq.quantize(x, native(name).per_block([4]), nonfinite="saturate")
    row = format_of(name)
    got = oracle.decode_codes(np.asarray(q.codes()).astype(np.int64), name)
    np.testing.assert_array_equal(got[:2], np.float32([row.qmax, row.qmin]))
    assert np.isfinite(aq.dequantize(q)).all()
    with pytest.raises(aq.NonFiniteError):
        aq.quantize(np.float32([np.nan, 1.0]), native(name), nonfinite="saturate")


@pytest.mark.parametrize("tensor_from", ["block_scales", "amax"])
@pytest.mark.parametrize("dtype", ["f16", "ue4m3"])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_case_09_infinities_keep_their_sign_when_nothing_else_is_there(
    name: str, dtype: str, tensor_from: str
) -> None:
    x = np.array([np.inf, -np.inf, 0.0, 0.0], np.float32)
    scheme = native(name).per_block([4], dtype).per_tensor()
    q = aq.quantize(x, scheme.with_numerics(tensor_from=tensor_from), nonfinite="saturate")
    row = format_of(name)
    got = oracle.decode_codes(np.asarray(q.codes()).astype(np.int64), name)
    np.testing.assert_array_equal(got, np.float32([row.qmax, row.qmin, 0, 0]))


@pytest.mark.parametrize("dtype", SCALE_FORMATS)
def test_case_09_a_block_of_infinities_alone_takes_the_smallest_scale(dtype: str) -> None:
    x = np.array([np.inf, -np.inf, 0.0], np.float32)
    q = aq.quantize(x, native("q8s").per_block([3], dtype), nonfinite="saturate")
    smallest = {"f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-133, "ue8m0": 2.0**-127}
    assert q.scale[0] == np.float32(smallest.get(dtype, 2.0**-9))
    np.testing.assert_array_equal(q.codes(), [127, -127, 0])


def test_case_10_values_outside_the_calibrated_range_saturate() -> None:
    rows = np.array([[1, 20, -3], [4, 5, -60]], np.float32)
    scheme = native("q8s").per_channel(1)
    found = aq.calibrate(rows, scheme)
    np.testing.assert_array_equal(found.scale, np.float32([[4, 20, 60]]) / np.float32(127))
    inside = aq.quantize(np.array([[-1, 15, 1]], np.float32), scheme, qparams=found)
    np.testing.assert_array_equal(inside.codes(), [[-32, 95, 2]])
    outside = aq.quantize(np.array([[-5, 1e9, -61]], np.float32), scheme, qparams=found)
    np.testing.assert_array_equal(outside.codes(), [[-127, 127, -127]])


def test_case_10_lookups_saturate_at_the_ends_of_the_table() -> None:
    scheme = aq.QuantScheme(value="u4", store="native", mode="lookup").per_tensor()
    x = np.array([-1e9, -1.01, 0.0, 1.01, 1e9], np.float32)
    q = aq.quantize(x, scheme, qparams=OF_ONE)
    np.testing.assert_array_equal(q.codes(), [0, 0, 7, 15, 15])


@pytest.mark.parametrize(
    ("spelling", "saturated"),
    [("q4f/32:f32", 3), ("q4s/32:f32", 0), ("q8f/32:f32", 3), ("int8/32:f32", 0)],
)
def test_case_10_the_report_counts_what_saturated(spelling: str, saturated: int) -> None:
    # Full-range integers clip the positive end of a block: 7 / (7 / 7.5) = 7.5, away to 8.
    x = np.tile(np.linspace(-6, 7, 32, dtype=np.float32), 3)
    assert saturated_in(aq.compare(x, [spelling])) == saturated


def saturated_in(comparison: Any) -> int:
    (row,) = comparison.rows
    return int(row.saturated)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16], ids=lambda d: d.__name__
)
def test_case_28_ones_are_ones_in_every_float_dtype(spelling: str, dtype: Any) -> None:
    ones = np.ones((5, 10), dtype)
    got = aq.dequantize(aq.quantize(ones, spelling))
    if spelling in SPECS:
        right = oracle.encode_array(np.float32(ones), SPECS[spelling]).values
        np.testing.assert_array_equal(got, right)
    else:
        np.testing.assert_array_max_ulp(got, np.ones((5, 10), np.float32), maxulp=1)


# Schemes whose nearest number to one is not one, because a scale is rounded or a range is odd.
SPECS = {
    "int4/32": oracle.Spec("q4f", block=(32,), scale_dtype="f16"),
    "int2/32": oracle.Spec("q2s", block=(32,), scale_dtype="f16"),
    "q8f/tensor": oracle.Spec("q8f"),
    "q2f/8": oracle.Spec("q2f", block=(8,), scale_dtype="f16"),
    "e5m2/16": oracle.Spec("e5m2", block=(16,), scale_dtype="f16"),
    "e2m1/16": oracle.Spec("e2m1", block=(16,), scale_dtype="f16"),
}


@pytest.mark.parametrize("spelling", ["int8/row", "nf4/64", "nvfp4"])
@pytest.mark.parametrize(
    "dtype",
    [
        bool, np.int8, np.uint8, np.int32, np.int64, np.uint16, np.complex64, np.complex128, object,
        "U3", "S3", "M8[s]", np.dtype([("a", "f4")]), ml_dtypes.float8_e4m3fn, ml_dtypes.int4,
    ],
    ids=str,
)  # fmt: skip
def test_case_28_other_dtypes_are_refused_by_name(spelling: str, dtype: Any) -> None:
    x = np.zeros((2, 32), dtype)
    with pytest.raises(TypeError) as caught:
        aq.quantize(x, spelling)
    assert isinstance(caught.value, aq.ArrayqError)
    assert str(x.dtype) in str(caught.value) or x.dtype.name in str(caught.value)


@pytest.mark.skipif(np.longdouble == np.float64, reason="long double is float64 here")
def test_case_28_long_double_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"longdouble|float128|float96"):
        aq.quantize(np.ones(4, np.longdouble), "int8/row")


@pytest.mark.parametrize("given", [1.0, [1.0, 2.0], None, "nvfp4"], ids=repr)
def test_case_28_what_is_not_an_array_is_refused(given: Any) -> None:
    with pytest.raises(TypeError) as caught:
        aq.quantize(given, "q8s/tensor")
    assert isinstance(caught.value, aq.ArrayqError)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_case_29_a_quantized_array_is_not_quantized_again(spelling: str) -> None:
    q = aq.quantize(np.ones((2, 64), np.float32), spelling)
    with pytest.raises(TypeError, match="dequantize") as caught:
        aq.quantize(q, spelling)
    assert isinstance(caught.value, aq.ArrayqError)
    with pytest.raises(TypeError):
        aq.quantize(q.data, spelling)
    with pytest.raises(TypeError, match="dequantize"):
        np.asarray(q)


@pytest.mark.parametrize("level", ["tensor", "row", "32", "7"])
@pytest.mark.parametrize("name", ["q8s", "q4s"])
def test_case_29_a_decoded_array_gives_its_codes_again(name: str, level: str) -> None:
    rng = np.random.default_rng(29)
    scheme = f"{name}/{level}:f32"
    for scale in (1e-30, 0.02, 1.0, 1e30):
        x = (rng.standard_normal((16, 96)) * scale).astype(np.float32)
        q = aq.quantize(x, scheme)
        again = aq.quantize(aq.dequantize(q), scheme)
        np.testing.assert_array_equal(again.codes(), q.codes())


@pytest.mark.parametrize("tensor_from", ["block_scales", "amax"])
@pytest.mark.parametrize("dtype", ["f16", "ue4m3"])
@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("largest", [3.4028235e38, 3.3895314e38, 3.0e38])
def test_case_09_numbers_near_the_largest_float32_never_decode_to_nan(
    largest: float, name: str, dtype: str, tensor_from: str
) -> None:
    x = np.float32([largest, 1, 0, -largest])
    scheme = native(name).per_block([2], dtype).per_tensor().with_numerics(tensor_from=tensor_from)
    q = aq.quantize(x, scheme)
    assert not np.isnan(aq.dequantize(q)).any()
    assert np.isfinite(q.scale * q.tensor_scale).all()
    given = aq.quantize(x, scheme, qparams=aq.calibrate(x, scheme))
    assert aq.to_bytes(given) == aq.to_bytes(q)
