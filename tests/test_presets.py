"""Presets are the published schemes, and every spelling leads to one and back."""

import pytest

from arrayq import presets
from arrayq.errors import SchemeError
from arrayq.formats import NF4_CODEBOOK
from arrayq.numerics import Numerics
from arrayq.presets import SPELLINGS, scheme, spelling_of
from arrayq.scheme import (
    BlockScale,
    ChannelScale,
    QuantMode,
    QuantScheme,
    QuantStore,
    QuantValue,
    ScaleDtype,
    ZeroPoint,
)

BYTES = QuantStore.packed_native()
NATIVE = QuantStore.NATIVE
FLOOR = Numerics(scale_from="floor")
OCP = BlockScale([32], "ue8m0")
CODE_U8 = ZeroPoint("code", "u8")

# The table of short spellings, written out in full.
SPELLED = {
    "int8/row": QuantScheme("q8s", NATIVE, block=ChannelScale(0, "f32")),
    "int4/row": QuantScheme("q4f", BYTES, block=ChannelScale(0, "f32")),
    "int8/32": QuantScheme("q8s", NATIVE, block=BlockScale([32], "f16")),
    "int4/32": QuantScheme("q4f", BYTES, block=BlockScale([32], "f16")),
    "int2/32": QuantScheme("q2s", BYTES, block=BlockScale([32], "f16")),
    "q4s/32:bf16": QuantScheme("q4s", BYTES, block=BlockScale([32], "bf16")),
    "q8f/tensor": QuantScheme("q8f", NATIVE, tensor="f32"),
    "q2f/row:ue4m3": QuantScheme("q2f", BYTES, block=ChannelScale(0, "ue4m3")),
    "e5m2/tensor:f16": QuantScheme("e5m2", NATIVE, tensor="f16"),
    "e3m2/64": QuantScheme("e3m2", BYTES, block=BlockScale([64], "f16")),
    "e4m3/128x128": QuantScheme("e4m3", NATIVE, block=BlockScale([128, 128], "f16")),
    "e2m1/32:ue8m0": QuantScheme("e2m1", BYTES, block=OCP),
    "nf4/64": QuantScheme("u4", BYTES, "lookup", BlockScale([64], "f32"), codebook=NF4_CODEBOOK),
    "nf4/row": QuantScheme("u4", BYTES, "lookup", ChannelScale(0, "f32")),
    "int8a/32": QuantScheme("u8", NATIVE, "affine", BlockScale([32], "f16")),
    "int4a/row": QuantScheme("u4", BYTES, "affine", ChannelScale(0, "f32")),
    "int4a/64:f32": QuantScheme("u4", BYTES, "affine", BlockScale([64], "f32")),
    "int2a/tensor": QuantScheme("u2", BYTES, "affine", tensor="f32", zero=CODE_U8),
    "u3a/32": QuantScheme("u3", BYTES, "affine", BlockScale([32], "f16"), zero=CODE_U8),
    "u7a/8:ue4m3": QuantScheme("u7", BYTES, "affine", BlockScale([8], "ue4m3")),
    "mxfp4": QuantScheme("e2m1", BYTES, block=OCP, numerics=FLOOR),
    "mxfp8": QuantScheme("e4m3", NATIVE, block=OCP, numerics=FLOOR),
    "mxfp8-e5m2": QuantScheme("e5m2", NATIVE, block=OCP, numerics=FLOOR),
    "mxfp6-e3m2": QuantScheme("e3m2", BYTES, block=OCP, numerics=FLOOR),
    "mxfp6-e2m3": QuantScheme("e2m3", BYTES, block=OCP, numerics=FLOOR),
    "nvfp4": QuantScheme(
        "e2m1",
        BYTES,
        block=BlockScale([16], "ue4m3"),
        tensor="f32",
        numerics=Numerics(scale_from="qmax", scale_rounding="nearest", tensor_from="amax"),
    ),
    "ternary": QuantScheme("q2s", BYTES, tensor="f32", numerics=Numerics(calibration="absmean")),
}

FAMILIES = [row.partition("/")[0] for row in SPELLINGS if "/" in row]
NAMES = [row for row in SPELLINGS if "/" not in row]
# Affine scales have no powers of two alone.
SUFFIXES = [
    (family, suffix)
    for family in FAMILIES
    for suffix in ("", *(f":{dtype}" for dtype in ScaleDtype))
    if not (family.endswith("a") and suffix == ":ue8m0")
]


@pytest.mark.parametrize("spelling", SPELLED)
def test_a_spelling_stands_for_its_scheme_and_is_printed_for_it(spelling):
    assert scheme(spelling) == SPELLED[spelling]
    assert str(SPELLED[spelling]) == spelling


@pytest.mark.parametrize("name", NAMES)
def test_every_documented_name_is_printed_as_it_is_written(name):
    assert str(scheme(name)) == name


@pytest.mark.parametrize("block", ["row", "tensor", "1", "7", "32", "2x16", "9223372036854775807"])
@pytest.mark.parametrize(("family", "suffix"), SUFFIXES)
def test_every_spelling_of_the_grammar_leads_back_to_its_scheme(family, block, suffix):
    parsed = scheme(f"{family}/{block}{suffix}")
    assert scheme(str(parsed)) == parsed
    assert scheme(f" {family}/{block}{suffix} ".upper()) == parsed
    if suffix:
        assert str(parsed.scale_dtype) == suffix[1:]


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_and_tensors_take_float32_scales_and_blocks_float16(family):
    assert scheme(f"{family}/row").scale_dtype is ScaleDtype.F32
    assert scheme(f"{family}/tensor").scale_dtype is ScaleDtype.F32
    expected = ScaleDtype.F32 if family == "nf4" else ScaleDtype.F16
    assert scheme(f"{family}/32").scale_dtype is expected


@pytest.mark.parametrize("value", [v for v in QuantValue if not str(v).startswith("u")])
def test_every_value_that_is_no_field_has_a_spelling_of_its_own_name(value):
    parsed = scheme(f"{value}/32")
    assert parsed.value is value
    assert parsed.mode is QuantMode.SYMMETRIC
    assert parsed.store == (NATIVE if value.bits == 8 else BYTES)
    assert parsed.numerics == Numerics()


@pytest.mark.parametrize("bits", range(1, 9))
def test_every_field_has_an_affine_spelling(bits):
    parsed = scheme(f"u{bits}a/32")
    assert parsed.value is QuantValue(f"u{bits}")
    assert parsed.mode is QuantMode.AFFINE
    assert parsed.zero == CODE_U8
    assert parsed.store == (NATIVE if bits == 8 else BYTES)
    assert parsed.numerics == Numerics()


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_an_affine_integer_is_the_field_of_its_width(bits):
    assert scheme(f"int{bits}a/32") == scheme(f"u{bits}a/32")
    assert str(scheme(f"u{bits}a/32")) == f"int{bits}a/32"


def test_an_affine_spelling_takes_no_powers_of_two():
    with pytest.raises(SchemeError, match="mode affine requires f32, f16, bf16 or ue4m3 scales"):
        scheme("int4a/32:ue8m0")


def test_e4m3_may_be_named_in_full():
    assert scheme("mxfp8-e4m3") == scheme("mxfp8")


def test_leading_ones_of_a_block_are_dropped_from_its_spelling():
    assert str(scheme("int8/1x32")) == "int8/32"


def test_a_scheme_is_its_own_scheme():
    own = QuantScheme()
    assert scheme(own) is own


@pytest.mark.parametrize(
    "other",
    [
        QuantScheme(),
        QuantScheme("q8s", NATIVE).per_block([-1, 32], "f16"),
        QuantScheme("q8s", NATIVE).per_channel(1),
        QuantScheme("q8s", "packed_u32").per_block(32, "f16"),
        scheme("int8/32").per_tensor(),
        scheme("int8/32").with_numerics(scale_from="qmax"),
        scheme("mxfp4").with_numerics(scale_from="qmax"),
        scheme("nf4/64").with_codebook(range(16)),
        scheme("int4a/32").with_zero("code", "i32"),
        scheme("int4a/32").with_zero("bias"),
        scheme("int4a/32").with_numerics(zero_in_range=False),
        scheme("q4f/32").with_mode("affine"),
    ],
    ids=str,
)
def test_a_scheme_that_no_spelling_means_has_none(other):
    assert spelling_of(other) is None


@pytest.mark.parametrize(
    ("spelling", "meant"),
    [("nvpf4", "nvfp4"), ("mxfp-4", "mxfp4"), ("int8\\row", "int8/row"), ("in4/32", "int4/32")],
)
def test_a_misspelling_is_told_the_nearest_spelling(spelling, meant):
    with pytest.raises(SchemeError, match=f"did you mean '{meant}'"):
        scheme(spelling)


@pytest.mark.parametrize(
    "spelling",
    [
        "",
        "int8",
        "int8/",
        "int8/-1",
        "int8/32:",
        "int8/32:f64",
        "int8/0",
        "int8/32x",
        "u4/32",
        "u0a/32",
        "u9a/32",
        "q4fa/32",
        "int3a/32",
        "int8/3.2",
        "int8/9223372036854775808",
        "int8/" + "9" * 5000,
        "int8/٣٢",
        "mxfp4/32",
        "e4m4/32",
        None,
        8,
        b"nvfp4",
    ],
    ids=lambda spelling: repr(spelling)[:20],
)
def test_what_is_no_spelling_is_refused(spelling):
    with pytest.raises(SchemeError, match="requires"):
        scheme(spelling)


def test_the_message_for_an_unknown_spelling_shows_the_grammar():
    with pytest.raises(SchemeError) as raised:
        scheme("fp3")
    for word in [*NAMES, *FAMILIES, "NAME/B:SCALE", "row", "tensor", *map(str, ScaleDtype)]:
        assert word in str(raised.value)


@pytest.mark.parametrize(
    ("built", "spelling"),
    [
        (presets.int8(), "int8/row"),
        (presets.int8(32), "int8/32"),
        (presets.int8([2, 16], "bf16"), "int8/2x16:bf16"),
        (presets.int8("tensor"), "int8/tensor"),
        (presets.int4(), "int4/32"),
        (presets.int4("row"), "int4/row"),
        (presets.int2(), "int2/32"),
        (presets.nf4(), "nf4/64"),
        (presets.nf4(128, ScaleDtype.F16), "nf4/128:f16"),
        (presets.mxfp4(), "mxfp4"),
        (presets.mxfp8(), "mxfp8"),
        (presets.mxfp8("e5m2"), "mxfp8-e5m2"),
        (presets.mxfp6(), "mxfp6-e3m2"),
        (presets.mxfp6(QuantValue.E2M3), "mxfp6-e2m3"),
        (presets.nvfp4(), "nvfp4"),
        (presets.ternary(), "ternary"),
    ],
    ids=str,
)
def test_a_preset_is_what_its_spelling_says(built, spelling):
    assert built == scheme(spelling)


@pytest.mark.parametrize(
    ("preset", "element"), [("mxfp8", "e2m1"), ("mxfp6", "e4m3"), ("mxfp8", "q8s"), ("mxfp6", "x")]
)
def test_an_mx_preset_takes_only_its_own_elements(preset, element):
    with pytest.raises(SchemeError, match="element"):
        getattr(presets, preset)(element)


def test_a_preset_refuses_a_place_that_it_does_not_know():
    with pytest.raises(SchemeError, match="'row', 'tensor' or a block size"):
        presets.int8("column")
