"""Zero points are checked against their scheme, and stored without loss."""

import math

import ml_dtypes
import numpy as np
import pytest

from arrayq.errors import QParamsError
from arrayq.presets import int8, nf4
from arrayq.qparams import QParams, validate
from arrayq.scheme import QuantScheme, QuantValue, ZeroDtype
from arrayq.stored_numbers import bits_to_zero, zero_to_bits

PEERS = {ZeroDtype.F16: np.float16, ZeroDtype.BF16: ml_dtypes.bfloat16}
WHOLE = [dtype for dtype in ZeroDtype if not dtype.is_float]
FLOATS = [dtype for dtype in ZeroDtype if dtype.is_float]


def affine(value="u4", **parts):
    return QuantScheme(value, mode="affine", **parts).per_block(32)


def all_floats(dtype):
    """Return every code of a 16-bit dtype and the number that its peer gives it."""
    bits = np.arange(2**16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # signalling NaN
        return bits, bits.view(PEERS[dtype]).astype(np.float32)


def refused(qparams, scheme, grid, match):
    with pytest.raises(QParamsError, match=match):
        validate(qparams, scheme, grid)


@pytest.mark.parametrize("scheme", [int8("tensor"), nf4("tensor")], ids=str)
def test_a_scheme_that_is_not_affine_has_no_zero_point(scheme):
    refused(QParams(1.0, zero_point=0), scheme, (1,), "requires no zero_point, got one")


@pytest.mark.parametrize("kind", ["code", "bias"])
def test_an_affine_scheme_should_have_a_zero_point(kind):
    refused(
        QParams(np.ones(1)),
        affine().with_zero(kind),
        (1,),
        "an affine scheme should have a zero point: .* requires zero_point, got None",
    )


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize(
    "given", [np.int64, np.uint8, np.float16, np.float64, ">i4", ml_dtypes.bfloat16]
)
def test_integer_zero_points_become_int32(dtype, given):
    valid = validate(
        QParams(np.ones((2, 1)), zero_point=np.array([[0], [15]], given)),
        affine().with_zero("code", dtype),
        (2, 1),
    )
    assert valid.zero_point.dtype == np.int32
    assert valid.zero_point.tolist() == [[0], [15]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("given", [np.int8, np.float64, ">f4", ml_dtypes.bfloat16])
def test_float_zero_points_become_float32(dtype, given):
    valid = validate(
        QParams(np.ones(2), zero_point=np.array([-2, 0.5], given)),
        affine().with_zero("bias", dtype),
        (2,),
    )
    assert valid.zero_point.dtype == np.float32
    assert valid.zero_point.dtype.isnative
    np.testing.assert_array_equal(valid.zero_point, np.array([-2, 0.5], given).astype(np.float32))


def test_a_zero_point_is_not_changed_by_the_caller_afterwards():
    for scheme, given in (
        (affine(), np.int32([3])),
        (affine().with_zero("bias"), np.float32([3])),
    ):
        valid = validate(QParams(np.ones(1), zero_point=given), scheme, (1,))
        given[:] = 99
        assert valid.zero_point.tolist() == [3]


@pytest.mark.parametrize("kind", ["code", "bias"])
def test_one_zero_point_is_enough_for_a_grid_of_one_block(kind):
    valid = validate(QParams(1.0, zero_point=7), affine().with_zero(kind), (1, 1))
    assert valid.zero_point.tolist() == [[7]]


@pytest.mark.parametrize("kind", ["code", "bias"])
@pytest.mark.parametrize(("shape", "grid"), [((), (2,)), ((2,), (3,)), ((3, 1), (1, 3))])
def test_zero_points_have_the_shape_of_the_grid(kind, shape, grid):
    with pytest.raises(QParamsError) as raised:
        validate(QParams(np.ones(grid), zero_point=np.ones(shape)), affine().with_zero(kind), grid)
    assert f"zero_point requires the shape {grid} of the grid of blocks, got {shape}" in str(
        raised.value
    )


@pytest.mark.parametrize("kind", ["code", "bias"])
@pytest.mark.parametrize("wrong", ["1", [True], [1j], [object()], [[1.0], [1.0, 2.0]]])
def test_a_zero_point_that_is_no_array_of_real_numbers_is_refused(kind, wrong):
    refused(
        QParams(np.ones(1), zero_point=wrong), affine().with_zero(kind), (1,), "zero_point requires"
    )


@pytest.mark.parametrize("value", [v for v in QuantValue if str(v)[0] in "qu"])
@pytest.mark.parametrize("dtype", [None, "i32"])
def test_an_integer_zero_point_is_a_code_of_the_value(value, dtype):
    low, high = value.range
    ends = np.array([low, high])
    scheme = affine(value).with_zero("code", dtype)
    assert validate(QParams(np.ones(2), zero_point=ends), scheme, (2,)).zero_point.tolist() == [
        low,
        high,
    ]
    for wrong in (low - 1, high + 1):
        refused(
            QParams(np.ones(2), zero_point=np.array([0, wrong])),
            scheme,
            (2,),
            rf"from {low:g} to {high:g}, the codes of the value, got {wrong!r} at index \(1,\)",
        )


@pytest.mark.parametrize("wrong", [0.5, math.nan, math.inf, -math.inf, 2**40])
def test_an_integer_zero_point_is_whole_and_finite(wrong):
    refused(
        QParams(np.ones(2), zero_point=np.array([1, wrong])),
        affine(),
        (2,),
        r"zero_point requires numbers .* at index \(1,\)",
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "scheme", [affine().with_zero("bias"), affine().with_numerics(scale_from="inverse_range")]
)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("allow_nan", [False, True])
def test_a_float_zero_point_is_finite(dtype, scheme, wrong, allow_nan):
    scheme = scheme.with_zero(scheme.zero.kind, dtype)
    with pytest.raises(QParamsError, match="zero_point requires numbers that are finite"):
        validate(QParams(np.ones(1), zero_point=[wrong]), scheme, (1,), allow_nan=allow_nan)


@pytest.mark.parametrize(
    ("dtype", "wrong"), [("f16", 0.1), ("f16", -65536), ("bf16", -1.001), ("f32", 1e-60)]
)
def test_a_float_zero_point_is_one_that_its_dtype_can_store(dtype, wrong):
    refused(
        QParams(np.ones(1), zero_point=np.array([wrong])),
        affine().with_zero("bias", dtype),
        (1,),
        "zero_point requires numbers that .* can represent",
    )


@pytest.mark.parametrize("dtype", PEERS)
def test_a_float_zero_point_is_stored_as_the_bits_of_its_peer(dtype):
    bits, numbers = all_floats(dtype)
    finite = np.isfinite(numbers)
    stored = zero_to_bits(numbers[finite], dtype)
    assert stored.dtype == np.uint16
    np.testing.assert_array_equal(stored, bits[finite])
    np.testing.assert_array_equal(bits_to_zero(bits, dtype), numbers)
    scheme = affine().with_zero("bias", dtype)
    valid = validate(
        QParams(np.ones(finite.sum()), zero_point=numbers[finite]), scheme, (finite.sum(),)
    )
    np.testing.assert_array_equal(zero_to_bits(valid.zero_point, dtype), bits[finite])


@pytest.mark.parametrize("dtype", ZeroDtype)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 1, 2)])
def test_zero_points_keep_their_shape_and_number(dtype, shape):
    numbers = np.full(shape, 100 if dtype is not ZeroDtype.F32 else -0.1, dtype.number_dtype)
    stored = zero_to_bits(numbers, dtype)
    assert isinstance(stored, np.ndarray)
    assert (stored.shape, stored.dtype) == (shape, dtype.stored_dtype)
    again = bits_to_zero(stored, dtype)
    assert isinstance(again, np.ndarray)
    assert again.dtype == dtype.number_dtype
    np.testing.assert_array_equal(again, numbers)


@pytest.mark.parametrize("dtype", WHOLE)
def test_the_ends_of_an_integer_dtype_survive(dtype):
    ends = np.array(dtype.range, np.int64).astype(np.int32)
    np.testing.assert_array_equal(bits_to_zero(zero_to_bits(ends, dtype), dtype), ends)


def test_nan_scales_do_not_touch_their_zero_points():
    scale = np.float32([math.nan, 1])
    valid = validate(QParams(scale, zero_point=[0, 3]), affine(), (2,), allow_nan=True)
    np.testing.assert_array_equal(valid.scale, scale)
    assert valid.zero_point.tolist() == [0, 3]


def test_an_empty_grid_of_zero_points_is_valid():
    valid = validate(QParams(np.zeros((0, 2)), zero_point=np.zeros((0, 2))), affine(), (0, 2))
    assert valid.zero_point.shape == (0, 2)
