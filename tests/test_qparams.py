"""Parameters are checked against their scheme, and scales stored without loss."""

import math
import pickle

import ml_dtypes
import numpy as np
import pytest

from arrayq.errors import CodebookError, QParamsError
from arrayq.formats import NF4_CODEBOOK
from arrayq.presets import int4, int8, mxfp4, nf4, nvfp4
from arrayq.qparams import QParams, validate
from arrayq.scheme import QuantScheme, ScaleDtype
from arrayq.stored_numbers import bits_to_scale, representable, scale_to_bits

# The dtype of another library with the same codes, and how many codes scales have.
PEERS = {
    ScaleDtype.F16: (np.float16, 2**16),
    ScaleDtype.BF16: (ml_dtypes.bfloat16, 2**16),
    ScaleDtype.UE8M0: (ml_dtypes.float8_e8m0fnu, 2**8),
    ScaleDtype.UE4M3: (ml_dtypes.float8_e4m3fn, 2**7),
}
NARROW = list(PEERS)
SIGNED = [ScaleDtype.F32, ScaleDtype.F16, ScaleDtype.BF16]

GGML = QuantScheme("q4f").with_numerics(scale_from="signed_max")

CANONICAL_NAN = {
    ScaleDtype.F32: 0x7FC00000,
    ScaleDtype.F16: 0x7E00,
    ScaleDtype.BF16: 0x7FC0,
    ScaleDtype.UE8M0: 0xFF,
    ScaleDtype.UE4M3: 0x7F,
}


def all_scales(dtype):
    """Return every code of a dtype and the number that the peer gives it."""
    peer, count = PEERS[dtype]
    bits = np.arange(count, dtype=f"u{np.dtype(peer).itemsize}")
    with np.errstate(invalid="ignore"):  # signalling NaN
        return bits, bits.view(peer).astype(np.float32)


def refused(qparams, scheme, grid, match):
    with pytest.raises(QParamsError, match=match):
        validate(qparams, scheme, grid)


# Scales and their bits.


@pytest.mark.parametrize("dtype", NARROW)
def test_every_code_of_a_scale_decodes_to_the_number_of_its_peer(dtype):
    bits, theirs = all_scales(dtype)
    ours = bits_to_scale(bits, dtype)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, theirs)
    number = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.signbit(ours[number]), np.signbit(theirs[number]))


@pytest.mark.parametrize("dtype", NARROW)
def test_every_number_of_a_scale_is_stored_as_its_code(dtype):
    bits, numbers = all_scales(dtype)
    mine = representable(numbers, dtype) & ~np.signbit(numbers)
    stored = scale_to_bits(numbers[mine], dtype)
    assert stored.dtype == dtype.stored_dtype
    np.testing.assert_array_equal(stored, bits[mine])


@pytest.mark.parametrize("dtype", NARROW)
def test_representable_are_exactly_the_finite_numbers_that_are_not_negative(dtype):
    _, numbers = all_scales(dtype)
    expected = np.isfinite(numbers) & (numbers >= 0)
    np.testing.assert_array_equal(representable(numbers, dtype), expected)


@pytest.mark.parametrize("dtype", NARROW)
def test_the_neighbours_of_a_representable_number_are_not(dtype):
    _, numbers = all_scales(dtype)
    positive = numbers[np.isfinite(numbers) & (numbers > 0)]
    # All dtypes here are coarser than float32 except for BF16 and UE8M0 at its very bottom,
    # where the float32 neighbour is 2^-149 away and still between two numbers.
    assert not representable(np.nextafter(positive, np.float32(np.inf)), dtype).any()
    assert not representable(
        np.nextafter(positive[positive > 2.0**-140], np.float32(0)), dtype
    ).any()


@pytest.mark.parametrize("dtype", [ScaleDtype.F16, ScaleDtype.BF16])
def test_a_negative_scale_is_stored_with_its_sign(dtype):
    bits, numbers = all_scales(dtype)
    finite = np.isfinite(numbers)
    np.testing.assert_array_equal(representable(numbers, dtype, signed=True), finite)
    np.testing.assert_array_equal(scale_to_bits(numbers[finite], dtype), bits[finite])


@pytest.mark.parametrize("dtype", [ScaleDtype.UE8M0, ScaleDtype.UE4M3])
def test_a_dtype_without_sign_has_no_negative_scale(dtype):
    assert not representable(np.float32(-1), dtype, signed=True)


def test_every_finite_float32_that_is_not_negative_is_an_f32_scale():
    numbers = np.float32([0, 2**-149, 1.1, 3.4028235e38, np.inf, -1, -np.inf, np.nan])
    expected = [True, True, True, True, False, False, False, False]
    assert representable(numbers, ScaleDtype.F32).tolist() == expected


def test_only_ue8m0_lacks_zero():
    lacking = [dtype for dtype in ScaleDtype if not representable(np.float32(0), dtype)]
    assert lacking == [ScaleDtype.UE8M0]


@pytest.mark.parametrize("dtype", ScaleDtype)
def test_nan_is_stored_as_the_nan_of_its_dtype(dtype):
    payload = np.array([0x7F800001, 0xFFC00000, 0x3F800000], np.uint32).view(np.float32)
    stored = scale_to_bits(payload, dtype)
    bits = stored.view(np.uint32) if dtype is ScaleDtype.F32 else stored
    assert bits[:2].tolist() == [CANONICAL_NAN[dtype]] * 2
    assert bits_to_scale(stored, dtype)[2] == 1.0
    assert np.isnan(bits_to_scale(stored, dtype)[:2]).all()


@pytest.mark.parametrize("dtype", ScaleDtype)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 1, 2)])
def test_scales_keep_their_shape(dtype, shape):
    scale = np.ones(shape, np.float32)
    stored = scale_to_bits(scale, dtype)
    assert isinstance(stored, np.ndarray)
    assert (stored.shape, stored.dtype) == (shape, dtype.stored_dtype)
    assert isinstance(bits_to_scale(stored, dtype), np.ndarray)
    assert representable(scale, dtype).shape == shape
    np.testing.assert_array_equal(bits_to_scale(stored, dtype), scale)


def test_codes_that_ue4m3_does_not_have_decode_to_nan():
    assert np.isnan(bits_to_scale(np.arange(0x80, 0x100, dtype=np.uint8), ScaleDtype.UE4M3)).all()


# Validation.


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, ">f4", ml_dtypes.bfloat16, np.int64, np.uint8]
)
def test_scales_of_any_real_dtype_become_native_float32(dtype):
    valid = validate(QParams(np.array([[1], [2]], dtype)), int8(), (2, 1))
    assert valid.scale.dtype == np.float32
    assert valid.scale.dtype.isnative
    assert valid.scale.tolist() == [[1], [2]]


def test_float64_is_rounded_once_to_float32():
    assert validate(QParams(0.1), int8("tensor"), (1, 1)).scale[0, 0] == np.float32(0.1)


@pytest.mark.parametrize("grid", [(), (1,), (1, 1, 1)])
def test_one_number_is_enough_for_a_grid_of_one_block(grid):
    assert validate(QParams(np.float32(0.5)), int8("tensor"), grid).scale.shape == grid


def test_an_empty_grid_is_valid():
    assert validate(QParams(np.zeros((0, 2))), int4(), (0, 2)).scale.shape == (0, 2)


@pytest.mark.parametrize("order", ["C", "F"])
def test_scales_come_out_in_c_order_whatever_their_strides(order):
    given = np.array([[1, 2, 4], [8, 16, 32]], np.float32, order=order)[:, ::-1]
    scale = validate(QParams(given), int4(), (2, 3)).scale
    assert scale.flags.c_contiguous
    np.testing.assert_array_equal(scale, [[4, 2, 1], [32, 16, 8]])


def test_what_was_validated_is_not_changed_by_the_caller_afterwards():
    given = np.float32([1, 2])
    valid = validate(QParams(given), int4(), (2,))
    given[:] = -1
    assert valid.scale.tolist() == [1, 2]


def test_negative_zero_is_zero():
    valid = validate(QParams(np.float32([[-0.0]]), np.float32(-0.0)), nvfp4(), (1, 1))
    assert not np.signbit(valid.scale).any()
    assert not np.signbit(valid.tensor_scale)


@pytest.mark.parametrize(
    ("shape", "grid"), [((2,), (3,)), ((2,), (2, 1)), ((1,), (1, 1)), ((), (2,)), ((2, 1), (1, 2))]
)
def test_a_grid_of_the_wrong_shape_is_refused_with_both_shapes(shape, grid):
    with pytest.raises(QParamsError) as raised:
        validate(QParams(np.ones(shape)), int4(), grid)
    assert f"{grid} of the grid of blocks, got {shape}" in str(raised.value)


@pytest.mark.parametrize("dtype", ScaleDtype)
@pytest.mark.parametrize(
    ("wrong", "named"),
    [(-1.0, "not negative"), (math.nan, "not NaN"), (math.inf, "finite"), (-math.inf, "finite")],
)
def test_a_scale_that_is_negative_or_not_finite_is_refused_with_its_index(dtype, wrong, named):
    scale = np.float32([[1, 1], [1, wrong], [wrong, 1]])
    refused(QParams(scale), int4(32, dtype), (3, 2), rf"{named}, got {wrong!r} at index \(1, 1\)")


@pytest.mark.parametrize(
    ("dtype", "wrong"),
    [
        ("f16", 0.1),
        ("bf16", 1.001),
        ("ue4m3", 449),
        ("ue4m3", 2**-10),
        ("ue8m0", 3),
        ("ue8m0", 0),
        ("f16", 65536),
        ("ue8m0", 2**-128),
    ],
)
def test_a_scale_that_its_dtype_cannot_store_is_refused_with_its_index(dtype, wrong):
    scale = np.array([1, wrong], np.float32)
    refused(QParams(scale), int4(32, dtype), (2,), rf"{dtype} can represent, got .* index \(1,\)")


def test_nan_scales_are_valid_where_nan_propagates():
    scale = np.float32([math.nan, 1])
    valid = validate(QParams(scale), int4(32, "ue8m0"), (2,), allow_nan=True)
    np.testing.assert_array_equal(valid.scale, scale)
    with pytest.raises(QParamsError, match="negative"):
        validate(QParams(np.float32([math.nan, -1])), int4(), (2,), allow_nan=True)


def test_a_number_that_vanishes_in_float32_is_refused():
    refused(QParams(np.array([1, 1e-60])), int8(), (2,), r"float32 can represent, got 1e-60")


def test_a_number_too_large_for_float32_is_refused():
    refused(QParams(np.array([1, 1e60])), int8(), (2,), "finite, got inf")


@pytest.mark.parametrize("wrong", [None, "1", [True], [1j], [object()], [[1.0], [1.0, 2.0]]])
def test_a_scale_that_is_no_array_of_real_numbers_is_refused(wrong):
    refused(QParams(wrong), int8("tensor"), (1,), "scale requires")


def test_a_two_level_scheme_should_have_a_per_tensor_scale():
    refused(
        QParams(np.ones((1, 1))),
        nvfp4(),
        (1, 1),
        "a two-level scheme should have a per-tensor scale: nvfp4 requires tensor_scale, got None",
    )


def test_a_one_level_scheme_has_no_tensor_scale():
    refused(QParams(np.ones(1), 1.0), int8("tensor"), (1,), "one-level scheme requires no tensor")


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_tensor_scale_becomes_an_array_without_axes(shape):
    valid = validate(QParams(np.ones((1, 1)), np.full(shape, 0.5)), nvfp4(), (1, 1))
    assert isinstance(valid.tensor_scale, np.ndarray)
    assert (valid.tensor_scale.shape, valid.tensor_scale.dtype) == ((), np.float32)
    assert valid.tensor_scale == 0.5


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, [1.0, 2.0], [], "1", 1e60, 1e-60])
@pytest.mark.parametrize("allow_nan", [False, True])
def test_a_tensor_scale_is_one_finite_number_that_is_not_negative(wrong, allow_nan):
    with pytest.raises(QParamsError, match="tensor_scale requires"):
        validate(QParams(np.ones((1, 1)), wrong), nvfp4(), (1, 1), allow_nan=allow_nan)


# Negative scales.


@pytest.mark.parametrize("dtype", SIGNED)
def test_negative_scales_are_valid_where_the_rules_make_them(dtype):
    scheme = GGML.per_block(32, dtype)
    assert validate(QParams(np.float32([-0.5, 2])), scheme, (2,)).scale.tolist() == [-0.5, 2]
    refused(QParams(np.float32([-0.5])), int4(32, dtype), (1,), "not negative, got -0.5")


@pytest.mark.parametrize(("wrong", "named"), [(-math.inf, "finite"), (-0.1, "f16 can represent")])
def test_a_negative_scale_must_be_one_of_its_dtype_too(wrong, named):
    refused(QParams(np.float32([wrong])), GGML.per_block(32, "f16"), (1,), named)


def test_a_negative_zero_is_zero_among_negative_scales_too():
    valid = validate(QParams(np.float32([-0.0])), GGML.per_block(32), (1,))
    assert not np.signbit(valid.scale).any()


def test_what_is_no_qparams_is_refused():
    refused({"scale": 1.0}, int8("tensor"), (1,), "requires a QParams, got dict")


# Codebooks.


def test_a_lookup_scheme_uses_its_own_codebook_unless_another_comes_along():
    own = [float(entry) for entry in range(16)]
    assert validate(QParams(np.ones(1)), nf4(), (1,)).codebook == NF4_CODEBOOK
    assert validate(QParams(np.ones(1), codebook=own), nf4(), (1,)).codebook == tuple(own)


def test_a_codebook_may_come_as_an_array_and_is_rounded_to_float32():
    scheme = QuantScheme("u1", mode="lookup")
    valid = validate(QParams(1.0, codebook=np.array([0.1, 1.0])), scheme, (1,))
    assert valid.codebook == (float(np.float32(0.1)), 1.0)


@pytest.mark.parametrize("codebook", [[1.0], [1.0, 2.0, 3.0], [1.0, math.nan], [0.0, 0.0]])
def test_a_codebook_that_does_not_fit_is_refused(codebook):
    scheme = QuantScheme("u1", mode="lookup")
    with pytest.raises(CodebookError):
        validate(QParams(1.0, codebook=codebook), scheme, (1,))


def test_a_lookup_without_any_codebook_is_refused():
    with pytest.raises(CodebookError, match="requires a codebook of 256 floats"):
        validate(QParams(1.0), QuantScheme("u8", mode="lookup"), (1,))


def test_a_symmetric_scheme_takes_no_codebook():
    with pytest.raises(CodebookError, match="mxfp4 requires no codebook"):
        validate(QParams(1.0, codebook=NF4_CODEBOOK), mxfp4(), (1,))


def test_qparams_survive_pickle():
    qparams = QParams(np.float32([1, 2]), np.float32(3), codebook=(1.0, 2.0))
    again = pickle.loads(pickle.dumps(qparams))
    np.testing.assert_array_equal(again.scale, qparams.scale)
    assert (again.tensor_scale, again.codebook) == (3, (1.0, 2.0))
