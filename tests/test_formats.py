"""The registry agrees with ml_dtypes, with NumPy and with the published tables."""

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from arrayq.errors import CodeError, SchemeError
from arrayq.formats import (
    FORMATS,
    NF4_CODEBOOK,
    SCALE_FORMATS,
    VALUE_FORMATS,
    Kind,
    format_of,
    round_to_float32,
)

# The dtype of another library that has the same codes.
PEERS = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "ue4m3": ml_dtypes.float8_e4m3fn,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}

# Bits, qmin and qmax of burn's integers, from its documentation.
BURN_INTEGERS = {
    "q8f": (8, -128, 127),
    "q8s": (8, -127, 127),
    "q4f": (4, -8, 7),
    "q4s": (4, -7, 7),
    "q2f": (2, -2, 1),
    "q2s": (2, -1, 1),
}

MINIFLOATS = [name for name, row in FORMATS.items() if row.kind is Kind.MINIFLOAT]
SIGNED_MINIFLOATS = [name for name in MINIFLOATS if FORMATS[name].signed]
SHORT = [name for name, row in FORMATS.items() if row.bits <= 8]


def peer_values(name, codes):
    """Decode codes with the other library."""
    peer = np.dtype(PEERS[name])
    with np.errstate(invalid="ignore"):  # signalling NaN
        return codes.astype(f"u{peer.itemsize}").view(peer).astype(np.float64)


def test_every_row_is_known_by_its_own_name():
    assert all(row.name == name for name, row in FORMATS.items())
    assert set(FORMATS) == {*VALUE_FORMATS, *SCALE_FORMATS}


def test_every_row_has_a_kind_that_some_independent_table_covers():
    fields = {f"u{bits}" for bits in range(1, 9)}
    assert set(FORMATS) == {*PEERS, *BURN_INTEGERS, *fields}


@pytest.mark.parametrize("name", FORMATS)
def test_every_row_is_documented_and_names_its_source(name):
    assert FORMATS[name].summary
    assert FORMATS[name].source


@pytest.mark.parametrize("name", BURN_INTEGERS)
def test_integers_have_the_ranges_of_burn(name):
    row = FORMATS[name]
    assert (row.bits, row.qmin, row.qmax) == BURN_INTEGERS[name]
    assert row.kind is Kind.INT
    assert row.code_dtype == "int8"


@pytest.mark.parametrize("name", BURN_INTEGERS)
def test_integer_codes_are_twos_complement(name):
    row = FORMATS[name]
    half = 2 ** (row.bits - 1)
    assert row.values == tuple(map(float, [*range(half), *range(-half, 0)]))


@pytest.mark.parametrize("bits", range(1, 9))
def test_a_field_counts_from_zero(bits):
    row = FORMATS[f"u{bits}"]
    assert row.values == tuple(map(float, range(2**bits)))
    assert (row.qmin, row.qmax) == (0.0, 2.0**bits - 1)


@pytest.mark.parametrize("name", sorted(set(PEERS) & set(SHORT)))
def test_every_code_of_a_short_minifloat_has_the_value_its_peer_gives_it(name):
    row = FORMATS[name]
    codes = np.arange(row.code_mask + 1)
    theirs = peer_values(name, codes)
    np.testing.assert_array_equal(row.values, theirs)
    np.testing.assert_array_equal(np.signbit(row.values), np.signbit(theirs))


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_code_of_a_16_bit_float_has_the_value_its_peer_gives_it(name):
    row = FORMATS[name]
    ours = [row.value_of(code) for code in range(2**16)]
    np.testing.assert_array_equal(ours, peer_values(name, np.arange(2**16)))


@pytest.mark.parametrize(
    "code",
    [
        0,
        1,
        0x7FFFFF,
        0x800000,
        0x3F800001,
        0x7F7FFFFF,
        0x7F800000,
        0x7FC00000,
        0x80000001,
        0xFF7FFFFF,
        0xFF800000,
    ],
)
def test_a_code_of_f32_is_the_bits_of_a_binary32(code):
    (theirs,) = struct.unpack("<f", struct.pack("<I", code))
    np.testing.assert_array_equal(FORMATS["f32"].value_of(code), theirs)


@pytest.mark.parametrize("name", sorted(PEERS))
def test_limits_are_those_of_the_peer(name):
    row, limits = FORMATS[name], ml_dtypes.finfo(PEERS[name])
    assert row.qmax == float(limits.max)
    assert row.smallest_normal == float(limits.smallest_normal)
    assert row.smallest_positive == float(limits.smallest_subnormal)
    assert row.bits == limits.bits or row.bits == 8 * np.dtype(PEERS[name]).itemsize
    if row.signed:
        assert row.qmin == float(limits.min)


@pytest.mark.parametrize("name", FORMATS)
def test_the_largest_code_means_the_largest_value(name):
    row = FORMATS[name]
    assert row.value_of(row.max_code) == row.qmax
    if row.bits <= 8:
        finite = [value for value in row.values if math.isfinite(value)]
        assert max(finite) == row.qmax


@pytest.mark.parametrize("name", FORMATS)
def test_special_codes_mean_what_their_names_say(name):
    row = FORMATS[name]
    if row.nan_code is not None:
        assert math.isnan(row.value_of(row.nan_code))
    if row.inf_code is not None:
        assert row.value_of(row.inf_code) == math.inf
        assert row.value_of(row.inf_code | row.sign_mask) == -math.inf
    if row.bits <= 8:
        assert (row.nan_code is None) == (not any(map(math.isnan, row.values)))
        assert (row.inf_code is None) == (not any(map(math.isinf, row.values)))


def test_nan_codes_are_those_that_the_encoders_promise():
    codes = {name: row.nan_code for name, row in FORMATS.items() if row.nan_code is not None}
    assert codes == {
        "e4m3": 0x7F,
        "e5m2": 0x7F,
        "f32": 0x7FC00000,
        "f16": 0x7E00,
        "bf16": 0x7FC0,
        "ue8m0": 0xFF,
        "ue4m3": 0x7F,
    }


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("q4s", "int8"),
        ("e2m1", "uint8"),
        ("u3", "uint8"),
        ("ue8m0", "uint8"),
        ("f16", "uint16"),
        ("f32", "uint32"),
    ],
)
def test_bare_codes_are_signed_only_for_integers(name, dtype):
    assert FORMATS[name].code_dtype == dtype


@pytest.mark.parametrize("name", SHORT)
def test_has_zero_says_whether_a_code_means_zero(name):
    assert FORMATS[name].has_zero == (0.0 in FORMATS[name].values)


@pytest.mark.parametrize("name", SHORT)
def test_the_sign_mask_negates(name):
    row = FORMATS[name]
    if row.kind is Kind.MINIFLOAT and row.signed:
        values = row.values
        for code in range(row.sign_mask):
            assert values[code | row.sign_mask] == -values[code] or math.isnan(values[code])
    elif not row.signed:
        assert row.sign_mask == 0
        assert all(value >= 0 or math.isnan(value) for value in row.values)


@pytest.mark.parametrize(
    ("name", "exponent"),
    [("e4m3", 8), ("e5m2", 15), ("e3m2", 4), ("e2m3", 2), ("e2m1", 2), ("ue8m0", 127), ("q8s", 6)],
)
def test_the_largest_exponent_is_emax_of_the_microscaling_specification(name, exponent):
    assert FORMATS[name].largest_exponent == exponent


@pytest.mark.parametrize(
    ("name", "half"), [("q8f", 127.5), ("q8s", 127), ("q4f", 7.5), ("q2f", 1.5), ("e2m1", 6)]
)
def test_half_range_is_half_the_width_of_the_value_range(name, half):
    assert FORMATS[name].half_range == half


def nearest_code_is_inside(row, number):
    """Say whether half-even rounding with unlimited exponents stays within the range.

    The neighbour above the largest value is the one the next exponent or mantissa would give.
    """
    largest = Fraction(row.qmax)
    below = Fraction(row.value_of(row.max_code - 1))
    above = largest + (largest - below)
    to_largest, to_above = abs(Fraction(number) - largest), abs(above - Fraction(number))
    return to_largest < to_above or (to_largest == to_above and row.max_code % 2 == 0)


@pytest.mark.parametrize("name", sorted(set(SIGNED_MINIFLOATS) - {"f32"}))
def test_a_minifloat_saturates_from_the_first_float32_that_rounds_out_of_range(name):
    row = FORMATS[name]
    edge = row.saturates_above
    assert edge == float(np.float32(edge))
    assert row.saturates_below == -edge
    assert not nearest_code_is_inside(row, edge)
    assert nearest_code_is_inside(row, float(np.nextafter(np.float32(edge), np.float32(0))))


@pytest.mark.parametrize(
    ("name", "edge"), [("e4m3", 464.0), ("e5m2", 61440.0), ("e2m1", 7.0), ("f16", 65520.0)]
)
def test_known_overflow_edges(name, edge):
    # ml_dtypes turns e4m3 beyond 464 into NaN and keeps 464; e5m2 overflows at 61440.
    saturated = FORMATS[name].saturates_above
    assert saturated == (float(np.nextafter(np.float32(464), np.inf)) if name == "e4m3" else edge)


@pytest.mark.parametrize(("name", "edge"), [("ue8m0", 1.5 * 2.0**127), ("ue4m3", 464.00003)])
def test_a_scale_dtype_never_saturates_below(name, edge):
    # UE8M0 rounds ties up, out of its range; the tie of UE4M3 goes down to its even largest code.
    row = FORMATS[name]
    assert row.saturates_above == float(np.float32(edge))
    assert row.saturates_below == -math.inf


@pytest.mark.parametrize("name", BURN_INTEGERS)
def test_an_integer_saturates_half_a_step_beyond_its_range(name):
    row = FORMATS[name]
    assert row.saturates_above == row.qmax + 0.5
    assert row.saturates_below == row.qmin - 0.5


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("outside", [-1, 1])
def test_a_code_outside_its_bits_is_refused(name, outside):
    row = FORMATS[name]
    code = -1 if outside < 0 else row.code_mask + 1
    with pytest.raises(CodeError, match=f"{name} requires a code from 0 to"):
        row.value_of(code)


def test_ue4m3_takes_a_byte_and_has_no_sign_bit():
    row = FORMATS["ue4m3"]
    assert (row.bits, row.code_mask, row.sign_mask) == (8, 0x7F, 0)


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
def test_long_formats_have_no_table_of_values(name):
    with pytest.raises(SchemeError, match="at most 8 bits"):
        _ = FORMATS[name].values


def test_the_codebook_of_nf4_is_made_of_float32_numbers_in_order():
    assert len(NF4_CODEBOOK) == 16
    assert list(NF4_CODEBOOK) == sorted(set(NF4_CODEBOOK))
    assert all(float(np.float32(entry)) == entry for entry in NF4_CODEBOOK)
    assert (NF4_CODEBOOK[0], NF4_CODEBOOK[7], NF4_CODEBOOK[15]) == (-1.0, 0.0, 1.0)


def test_a_format_is_found_in_either_case():
    assert format_of("E4M3") is FORMATS["e4m3"]


@pytest.mark.parametrize("name", ["e4m4", "", None, 8])
def test_an_unknown_format_is_refused_with_the_names_that_exist(name):
    with pytest.raises(SchemeError, match="one of q8f, q8s"):
        format_of(name)


@pytest.mark.parametrize("number", [0.1, 1e-60, 1e300, -1e300, math.inf, 2.0**-149, 1 / 3])
def test_rounding_to_float32_is_that_of_numpy(number):
    with np.errstate(over="ignore"):
        assert round_to_float32(number) == float(np.float64(number).astype(np.float32))
