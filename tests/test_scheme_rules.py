"""What the rules of numerics and of affine schemes need, and what they refuse by name."""

import contextlib
import itertools
import re

import pytest

from arrayq.errors import SchemeError
from arrayq.formats import NF4_CODEBOOK, Kind
from arrayq.numerics import Calibration, Numerics, Rounding, ScaleFrom, ZeroBlock
from arrayq.presets import scheme as spelled
from arrayq.scheme import (
    QuantMode,
    QuantScheme,
    QuantValue,
    ScaleDtype,
    ZeroDtype,
    ZeroKind,
    ZeroPoint,
)

INTEGERS = [value for value in QuantValue if value.kind is Kind.INT]
FIELDS = [value for value in QuantValue if value.kind is Kind.FIELD]
FULL_RANGE = {"q8f", "q4f", "q2f"}
MINIFLOATS = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"}

FLOATS = [dtype for dtype in ZeroDtype if dtype.is_float]
WHOLE = [dtype for dtype in ZeroDtype if not dtype.is_float]

HQQ = Numerics(scale_from="inverse_range")


def affine(value="u4", **parts):
    return QuantScheme(value, mode="affine", **parts)


def refused(match, build):
    with pytest.raises(SchemeError, match=re.escape(match)):
        build()


# Zero points.


def test_the_dtypes_of_zero_points_are_stored_as_they_say():
    assert {str(dtype): dtype.stored_dtype for dtype in ZeroDtype} == {
        "i8": "int8",
        "u8": "uint8",
        "i32": "int32",
        "f32": "float32",
        "f16": "uint16",
        "bf16": "uint16",
    }
    assert {str(dtype): dtype.number_dtype for dtype in ZeroDtype} == {
        **dict.fromkeys(["i8", "u8", "i32"], "int32"),
        **dict.fromkeys(["f32", "f16", "bf16"], "float32"),
    }


def test_the_dtypes_of_zero_points_reach_as_far_as_they_say():
    assert ZeroDtype.I8.range == (-128, 127)
    assert ZeroDtype.U8.range == (0, 255)
    assert ZeroDtype.I32.range == (-(2**31), 2**31 - 1)
    assert ZeroDtype.F16.range == (-65504, 65504)


def test_a_zero_point_is_given_by_names_or_members():
    assert ZeroPoint("BIAS", "f16") == ZeroPoint(ZeroKind.BIAS, ZeroDtype.F16)


@pytest.mark.parametrize("dtype", WHOLE)
def test_a_bias_is_no_integer(dtype):
    refused(
        f"a zero point of kind bias requires dtype f32, f16 or bf16, got {dtype}",
        lambda: ZeroPoint("bias", dtype),
    )
    refused("kind bias", lambda: affine().with_zero("bias", dtype))


@pytest.mark.parametrize(("kind", "dtype"), [("shift", "f32"), ("code", "u4"), ("code", None)])
def test_an_unknown_zero_point_is_refused(kind, dtype):
    refused("requires one of", lambda: ZeroPoint(kind, dtype))


@pytest.mark.parametrize("value", [*INTEGERS, *FIELDS])
def test_zero_points_are_codes_of_one_byte_unless_said_otherwise(value):
    expected = ZeroPoint("code", "u8" if value in FIELDS else "i8")
    assert affine(value).zero == expected
    assert affine(value).with_zero() == affine(value)
    assert QuantScheme().with_mode("affine").with_value(value).zero == expected
    assert affine(value).with_zero("bias").zero == ZeroPoint("bias", "f32")
    assert affine(value, numerics=HQQ).zero == ZeroPoint("code", "f32")


def test_a_zero_point_of_the_callers_stays_when_something_else_changes():
    scheme = affine("q8s").with_zero("code", "i32")
    assert scheme.with_value("u4").zero == ZeroPoint("code", "i32")
    assert scheme.with_store("native").zero == ZeroPoint("code", "i32")
    assert affine("u4").with_zero("code", "i8").with_value("q8s") == affine("q8s")
    refused("a zero point of u8", lambda: affine("u4").with_zero("code", "i8").with_value("u8"))


def test_rules_and_their_zero_points_can_be_set_in_either_order():
    fractions = affine().with_numerics(HQQ)
    assert fractions.zero == ZeroPoint("code", "f32")
    assert fractions.with_zero("code", "bf16").zero == ZeroPoint("code", "bf16")
    assert fractions.with_numerics(Numerics()) == affine()
    refused("requires scale_from inverse_range", lambda: affine().with_zero("code", "f32"))


@pytest.mark.parametrize("mode", ["symmetric", "lookup"])
def test_a_zero_point_stays_behind_when_a_scheme_leaves_affine(mode):
    assert affine("q4f").with_mode(mode).zero is None
    refused(
        f"a zero point requires mode affine, got {mode}",
        lambda: affine("q4f").with_mode(mode).with_zero(),
    )


def test_a_field_moves_from_lookup_to_affine_without_its_codebook():
    looked_up = QuantScheme().with_value("u4")
    assert looked_up.codebook == NF4_CODEBOOK
    moved = looked_up.with_mode("affine")
    assert (moved.mode, moved.codebook, moved.value) == (QuantMode.AFFINE, None, QuantValue.U4)
    assert moved.with_value("u2").mode is QuantMode.AFFINE
    refused("a codebook requires mode lookup", lambda: affine(codebook=NF4_CODEBOOK))


@pytest.mark.parametrize("value", [*INTEGERS, *FIELDS])
@pytest.mark.parametrize("dtype", WHOLE)
def test_an_integer_zero_point_holds_every_code(value, dtype):
    qmin, qmax = value.range
    if dtype.range[0] <= qmin and qmax <= dtype.range[1]:
        assert affine(value).with_zero("code", dtype).zero.dtype is dtype
    else:
        refused(
            f"a zero point of {value} requires a dtype that holds {qmin:g} to {qmax:g}, "
            f"got {dtype}",
            lambda: affine(value).with_zero("code", dtype),
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_fraction_of_a_code_needs_the_rule_that_computes_one(dtype):
    refused(
        f"a zero point of kind code and dtype {dtype} requires scale_from inverse_range, got range",
        lambda: affine().with_zero("code", dtype),
    )
    assert affine(numerics=HQQ).with_zero("code", dtype).zero.dtype is dtype


@pytest.mark.parametrize("zero", [ZeroPoint("code", "u8"), ZeroPoint("bias", "f32")], ids=str)
def test_inverse_range_needs_fractions_of_codes(zero):
    refused(
        "scale_from inverse_range requires a zero point of kind code and dtype f32, f16 or bf16, "
        f"got {zero}",
        lambda: affine(numerics=HQQ, zero=zero),
    )


# Affine schemes.


def test_an_affine_scheme_has_one_level():
    refused("mode affine requires one level", lambda: affine().per_block(32, "f16").per_tensor())
    assert affine().per_tensor("f16").scale_dtype is ScaleDtype.F16


@pytest.mark.parametrize("dtype", ScaleDtype)
def test_an_affine_scale_is_no_power_of_two_alone(dtype):
    if dtype is ScaleDtype.UE8M0:
        refused(
            "mode affine requires f32, f16, bf16 or ue4m3 scales, got ue8m0",
            lambda: affine().per_block(32, dtype),
        )
    else:
        assert affine().per_block(32, dtype).scale_dtype is dtype


def test_an_affine_range_is_found_by_minmax():
    refused(
        "mode affine requires calibration minmax, got absmean",
        lambda: affine().with_numerics(calibration="absmean"),
    )


@pytest.mark.parametrize("mode", ["symmetric", "lookup"])
def test_a_range_without_zero_needs_an_affine_scheme(mode):
    assert affine().with_numerics(zero_in_range=False).numerics.zero_in_range is False
    refused(
        f"zero_in_range False requires mode affine, got {mode}",
        lambda: QuantScheme("q4f", mode=mode).with_numerics(zero_in_range=False),
    )


def test_only_fractions_of_codes_are_rounded_to_whole_ones():
    assert affine(numerics=HQQ).with_numerics(zero_rounding="whole").zero.dtype is ZeroDtype.F32
    refused(
        "zero_rounding whole requires scale_from inverse_range, got range",
        lambda: affine().with_numerics(zero_rounding="whole"),
    )


# Rounding and scaling.


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("value", QuantValue)
def test_every_value_takes_every_rounding(value, rounding):
    scheme = QuantScheme(value, mode="affine" if value in FIELDS else "symmetric")
    assert scheme.with_numerics(rounding=rounding).rounding is rounding


@pytest.mark.parametrize("value", QuantValue)
def test_a_value_has_a_rounding_of_its_own(value):
    scheme = QuantScheme(value, mode="affine" if value in FIELDS else "symmetric")
    even = str(value) in MINIFLOATS
    assert scheme.rounding is (Rounding.HALF_EVEN if even else Rounding.HALF_AWAY)


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("value", [*INTEGERS, *FIELDS])
def test_a_lookup_takes_the_nearest_entry_and_no_other(value, rounding):
    scheme = QuantScheme(value, mode="lookup")
    assert scheme.rounding is None
    refused(
        f"rounding of {value} in mode lookup requires its own rule (nearest entry, ties to the "
        f"lower), got {rounding}",
        lambda: scheme.with_numerics(rounding=rounding),
    )


@pytest.mark.parametrize("rounding", [None, *Rounding])
def test_a_seed_needs_stochastic_rounding(rounding):
    if rounding is Rounding.STOCHASTIC:
        assert QuantScheme().with_numerics(rounding=rounding, seed=5).numerics.seed == 5
    else:
        refused(
            "a seed requires rounding stochastic, got seed 5 and rounding "
            f"{rounding or Rounding.HALF_AWAY}",
            lambda: QuantScheme().with_numerics(rounding=rounding, seed=5),
        )


@pytest.mark.parametrize("mode", QuantMode)
def test_every_mode_may_multiply_by_the_reciprocal(mode):
    assert QuantScheme("q4f", mode=mode).with_numerics(scaling="reciprocal")


def test_inverse_range_multiplies_already():
    refused(
        "scale_from inverse_range requires no other scaling, got reciprocal",
        lambda: affine(numerics=HQQ).with_numerics(scaling="reciprocal"),
    )


# Scales. Which values, modes and scale dtypes each rule takes, written out.

EVERY_SCALE = {"f32", "f16", "bf16", "ue8m0", "ue4m3"}
POWERS = {"ue8m0"}
TAKES = {
    ScaleFrom.RANGE: ({"symmetric", "lookup", "affine"}, None, EVERY_SCALE, {"minmax", "absmean"}),
    ScaleFrom.QMAX: ({"symmetric", "lookup"}, None, EVERY_SCALE, {"minmax", "absmean"}),
    ScaleFrom.ENDPOINTS: ({"symmetric"}, None, EVERY_SCALE, {"minmax"}),
    ScaleFrom.SIGNED_MAX: ({"symmetric"}, FULL_RANGE, {"f32", "f16", "bf16"}, {"minmax"}),
    ScaleFrom.INVERSE_RANGE: ({"affine"}, None, EVERY_SCALE, {"minmax"}),
    ScaleFrom.FLOOR: ({"symmetric", "lookup"}, None, POWERS, {"minmax", "absmean"}),
    ScaleFrom.CEIL: ({"symmetric", "lookup"}, None, POWERS, {"minmax", "absmean"}),
    ScaleFrom.RCEIL: ({"symmetric", "lookup"}, None, POWERS, {"minmax", "absmean"}),
    ScaleFrom.EVEN: ({"symmetric"}, MINIFLOATS, POWERS, {"minmax", "absmean"}),
    ScaleFrom.NEAREST_LOG2: (
        {"symmetric", "lookup"},
        None,
        POWERS | {"f32"},
        {"minmax", "absmean"},
    ),
}


def builds(scheme, **rules):
    try:
        return bool(scheme.with_numerics(**rules))
    except SchemeError as broken:
        if f"scale_from {rules['scale_from']} requires" not in str(broken):
            raise
        return False


def possible_schemes():
    for value, mode, dtype in itertools.product(QuantValue, QuantMode, ScaleDtype):
        with contextlib.suppress(SchemeError):
            yield QuantScheme(value, mode=mode).per_block(32, dtype)


POSSIBLE = list(possible_schemes())


@pytest.mark.parametrize("scale_from", ScaleFrom)
def test_a_rule_for_scales_takes_what_it_needs_and_refuses_the_rest(scale_from):
    modes, values, dtypes, calibrations = TAKES[scale_from]
    for scheme, calibration in itertools.product(POSSIBLE, Calibration):
        if scheme.mode is QuantMode.AFFINE and calibration is Calibration.ABSMEAN:
            continue
        takes = (
            str(scheme.mode) in modes
            and (values is None or str(scheme.value) in values)
            and str(scheme.scale_dtype) in dtypes
            and str(calibration) in calibrations
        )
        assert builds(scheme, scale_from=scale_from, calibration=calibration) == takes, scheme


@pytest.mark.parametrize(
    ("scheme", "scale_from", "message"),
    [
        ("q4f/32", "floor", "floor requires ue8m0 scales, got f16"),
        ("q4s/32", "signed_max", "signed_max requires value q8f, q4f or q2f, got q4s"),
        ("q4f/32:ue4m3", "signed_max", "requires f32, f16 or bf16 scales, got ue4m3"),
        ("q4f/32", "inverse_range", "inverse_range requires mode affine, got symmetric"),
        ("int4a/32", "qmax", "qmax requires mode symmetric or lookup, got affine"),
        ("nf4/32", "endpoints", "endpoints requires mode symmetric, got lookup"),
        ("q4f/32:ue8m0", "even", "even requires value e4m3, e5m2, e3m2, e2m3 or e2m1, got q4f"),
        ("ternary", "endpoints", "endpoints requires calibration minmax, got absmean"),
    ],
)
def test_a_rule_for_scales_says_what_it_needs(scheme, scale_from, message):
    refused(message, lambda: spelled(scheme).with_numerics(scale_from=scale_from))


@pytest.mark.parametrize("dtype", ["f16", "ue4m3"])
@pytest.mark.parametrize("scale_from", ["range", "qmax", "endpoints"])
def test_two_levels_take_rules_that_need_no_sign(dtype, scale_from):
    two = QuantScheme("e2m1").per_block(16, dtype).per_tensor()
    assert two.with_numerics(scale_from=scale_from).two_level


@pytest.mark.parametrize("scale_from", ScaleFrom)
def test_only_signed_max_makes_negative_scales(scale_from):
    scheme = next(scheme for scheme in POSSIBLE if builds(scheme, scale_from=scale_from))
    signed = scheme.with_numerics(scale_from=scale_from).scales_signed
    assert signed == (scale_from is ScaleFrom.SIGNED_MAX)


@pytest.mark.parametrize("scale_from", ScaleFrom)
def test_a_smallest_scale_needs_a_raw_scale_to_raise(scale_from):
    scheme = next(s for s in POSSIBLE if builds(s, scale_from=scale_from))
    if str(scale_from) in {"range", "qmax", "endpoints", "signed_max"}:
        assert scheme.with_numerics(scale_from=scale_from, smallest_scale=2.0**-20)
    else:
        refused(
            "a smallest_scale requires scale_from range, qmax, endpoints or signed_max, got "
            f"{scale_from}",
            lambda: scheme.with_numerics(scale_from=scale_from, smallest_scale=2.0**-20),
        )


def test_a_smallest_scale_needs_one_level():
    two = QuantScheme("e2m1").per_block(16, "ue4m3").per_tensor()
    refused(
        "a smallest_scale requires one level of scales, got two",
        lambda: two.with_numerics(smallest_scale=1e-5),
    )


@pytest.mark.parametrize("dtype", ScaleDtype)
def test_a_smallest_scale_is_within_its_dtype(dtype):
    scheme = QuantScheme().per_block(32, dtype)
    largest = dtype.format.qmax
    assert scheme.with_numerics(smallest_scale=largest).numerics.smallest_scale == largest
    if dtype in {ScaleDtype.F16, ScaleDtype.UE4M3}:
        refused(
            f"a smallest_scale of {dtype} scales requires at most their largest value",
            lambda: scheme.with_numerics(smallest_scale=largest + 32),
        )


@pytest.mark.parametrize("scheme", POSSIBLE, ids=str)
@pytest.mark.parametrize("zero_block", ZeroBlock)
def test_what_a_block_of_zeros_stores_is_free_but_for_its_smallest_scale(scheme, zero_block):
    if zero_block is ZeroBlock.SMALLEST:
        refused(
            "zero_block smallest requires a smallest_scale above 0, got 0",
            lambda: scheme.with_numerics(zero_block=zero_block),
        )
        assert scheme.with_numerics(zero_block=zero_block, smallest_scale=1e-5)
    else:
        assert scheme.with_numerics(zero_block=zero_block).numerics.zero_block is zero_block
