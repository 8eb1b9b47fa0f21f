"""A scheme says everything about an encoding, and refuses what makes no sense."""

import copy
import dataclasses
import json
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

from arrayq import numerics
from arrayq.errors import CodebookError, SchemeError
from arrayq.formats import FORMATS, NF4_CODEBOOK, Kind
from arrayq.numerics import Numerics, ScaleFrom, TensorFrom
from arrayq.scheme import (
    BlockScale,
    QuantMode,
    QuantScheme,
    QuantStore,
    QuantValue,
    ScaleDtype,
    StoreKind,
    ZeroPoint,
)

# The public function of that name hides the module arrayq.scheme as an attribute.
NAMES = {**vars(numerics), **vars(sys.modules["arrayq.scheme"])}

INTEGERS = [value for value in QuantValue if value.kind is Kind.INT]
MINIFLOATS = [value for value in QuantValue if value.kind is Kind.MINIFLOAT]
FIELDS = [value for value in QuantValue if value.kind is Kind.FIELD]

DIVERSE = [
    QuantScheme(),
    QuantScheme("q8s", "native").per_tensor(),
    QuantScheme("q4f", "packed_u32(1)").per_channel(-1, "bf16"),
    QuantScheme("e2m1").per_block([2, -1, 16], "ue4m3").per_tensor(),
    QuantScheme("e4m3").per_block(32, "ue8m0").with_numerics(scale_from="floor"),
    QuantScheme("u4", mode="lookup", block=BlockScale([64])),
    QuantScheme("u2", mode="lookup", codebook=[-0.1, -0.0, 0.0, 1 / 3]),
    QuantScheme("u8", mode="lookup"),
    QuantScheme("q2s", "packed_native").per_tensor().with_numerics(calibration="absmean"),
    QuantScheme("q8f", mode="affine"),
    QuantScheme("u4", mode="affine", zero=ZeroPoint("bias", "bf16")).per_block(32, "f16"),
    QuantScheme("u3", mode="affine").with_numerics(scale_from="inverse_range"),
    QuantScheme("q4s").with_numerics(rounding="stochastic", seed=2**63, scaling="reciprocal"),
    QuantScheme("q4f").with_numerics(smallest_scale=1e-5, zero_block="smallest"),
]


def codebook_for(value, start=0):
    return [float(start + i) for i in range(2**value.bits)]


# Schemes.


def test_the_default_scheme_is_that_of_burn():
    scheme = QuantScheme()
    assert scheme.value is QuantValue.Q8F
    assert scheme.store == QuantStore(StoreKind.PACKED_U32, 0)
    assert scheme.mode is QuantMode.SYMMETRIC
    assert scheme.block is None
    assert scheme.tensor is None
    assert scheme.numerics == Numerics()
    assert scheme.codebook is None


def test_no_level_means_one_float32_scale_but_is_not_equal_to_saying_so():
    assert QuantScheme().scale_dtype is ScaleDtype.F32
    assert QuantScheme() != QuantScheme().per_tensor("f32")


def test_builders_and_constructor_agree_and_take_strings_and_members_alike():
    built = (
        QuantScheme()
        .with_value("Q8S")
        .with_store("native")
        .with_mode("lookup", codebook_for(QuantValue.Q8S))
        .per_block([2, 16], "ue4m3")
        .per_tensor("f32")
        .with_numerics(scale_from="qmax")
    )
    constructed = QuantScheme(
        QuantValue.Q8S,
        QuantStore.NATIVE,
        QuantMode.LOOKUP,
        BlockScale((2, 16), ScaleDtype.UE4M3),
        ScaleDtype.F32,
        Numerics(scale_from=ScaleFrom.QMAX),
        codebook_for(QuantValue.Q8S),
    )
    assert built == constructed
    assert hash(built) == hash(constructed)


@pytest.mark.parametrize("scheme", DIVERSE, ids=str)
def test_building_leaves_the_original_as_it_was(scheme):
    before = scheme.to_dict()
    scheme.with_store("native")
    scheme.with_numerics(scale_rounding="nearest")
    assert scheme.to_dict() == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        scheme.store = QuantStore.NATIVE


@pytest.mark.parametrize("scheme", DIVERSE, ids=str)
@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        dataclasses.replace,
        lambda scheme: pickle.loads(pickle.dumps(scheme)),
        lambda scheme: QuantScheme.from_dict(json.loads(json.dumps(scheme.to_dict()))),
        lambda scheme: eval(repr(scheme), NAMES),
    ],
    ids=["copy", "deepcopy", "replace", "pickle", "json", "repr"],
)
def test_a_scheme_comes_back_equal(scheme, again):
    other = again(scheme)
    assert other == scheme
    assert hash(other) == hash(scheme)
    assert repr(other) == repr(scheme)


def test_all_diverse_schemes_differ():
    assert len(set(DIVERSE)) == len(DIVERSE)


def test_an_unpickled_scheme_has_the_hash_of_its_new_process():
    # Hashes of strings differ between processes, so a hash must not travel with the scheme.
    code = (
        "import pickle, sys; s = pickle.loads(sys.stdin.buffer.read());"
        "from arrayq.scheme import QuantScheme;"
        "assert {QuantScheme.from_dict(s.to_dict()): 1}[s]"
    )
    scheme = DIVERSE[3]
    assert hash(scheme)  # made before pickling
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(scheme), check=True)


def test_codebooks_that_decode_to_other_bits_make_other_schemes():
    positive = QuantScheme("u1", mode="lookup", codebook=[0.0, 1.0])
    negative = QuantScheme("u1", mode="lookup", codebook=[-0.0, 1.0])
    assert positive != negative
    assert math.copysign(1, negative.codebook[0]) == -1


def test_a_scheme_is_not_equal_to_its_spelling():
    assert QuantScheme() != "q8f"


def test_two_levels_are_a_block_and_a_tensor_level():
    scheme = QuantScheme("e2m1").per_block(16, "ue4m3")
    assert not scheme.two_level
    assert scheme.per_tensor().two_level
    assert scheme.per_tensor().scale_dtype is ScaleDtype.UE4M3
    assert QuantScheme().per_tensor("f16").scale_dtype is ScaleDtype.F16


@pytest.mark.parametrize("value", QuantValue)
def test_codes_are_signed_for_integers_that_are_not_looked_up(value):
    scheme = QuantScheme().with_value(value)
    assert scheme.codes_signed == (value in INTEGERS)
    if value not in MINIFLOATS:
        assert not scheme.with_mode("lookup").codes_signed
        assert scheme.with_mode("affine").codes_signed == (value in INTEGERS)


@pytest.mark.parametrize("value", INTEGERS + MINIFLOATS)
def test_the_code_table_of_a_symmetric_scheme_is_that_of_its_format(value):
    np.testing.assert_array_equal(QuantScheme(value).code_table(), FORMATS[str(value)].values)


@pytest.mark.parametrize("value", INTEGERS + FIELDS)
def test_the_code_table_of_an_affine_scheme_is_that_of_its_format(value):
    scheme = QuantScheme(value, "native", "affine")
    assert scheme.code_table() == FORMATS[str(value)].values
    assert scheme.data_dtype == ("int8" if value in INTEGERS else "uint8")


# Lookup.


@pytest.mark.parametrize("value", [QuantValue.U4, QuantValue.Q4S, QuantValue.Q4F])
def test_a_lookup_of_four_bits_takes_the_codebook_of_nf4(value):
    scheme = QuantScheme(value, mode="lookup")
    assert scheme.codebook == NF4_CODEBOOK
    assert scheme.code_table() == NF4_CODEBOOK


@pytest.mark.parametrize("value", [*FIELDS, QuantValue.Q8S, QuantValue.Q2F])
def test_a_lookup_of_another_width_is_built_without_codebook_and_refused_at_use(value):
    if value.bits == 4:
        return
    scheme = QuantScheme(value, mode="lookup")
    assert scheme.codebook is None
    with pytest.raises(CodebookError, match=f"requires a codebook of {2**value.bits} floats"):
        scheme.require_codebook()
    with pytest.raises(CodebookError):
        scheme.code_table()


def test_a_scheme_without_lookup_requires_no_codebook():
    assert QuantScheme().require_codebook() == ()


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_moves_a_symmetric_scheme_to_lookup(field):
    assert QuantScheme().with_value(field).mode is QuantMode.LOOKUP
    with pytest.raises(SchemeError, match="requires mode lookup or affine"):
        QuantScheme(field)
    with pytest.raises(SchemeError, match="requires mode lookup or affine"):
        QuantScheme().with_value(field).with_mode("symmetric")


def test_a_change_of_width_drops_the_codebook_of_nf4_but_never_the_callers():
    assert QuantScheme().with_value("u4").with_value("u3").codebook is None
    own = QuantScheme("u3", mode="lookup", codebook=codebook_for(QuantValue.U3))
    with pytest.raises(CodebookError, match="requires 16 entries, got 8"):
        own.with_value("u4")
    own = QuantScheme("u4", mode="lookup", codebook=codebook_for(QuantValue.U4))
    with pytest.raises(CodebookError, match="requires 8 entries, got 16"):
        own.with_value("u3")


def test_a_codebook_is_kept_by_lookup_and_left_behind_by_symmetric():
    own = QuantScheme("q4s", mode="lookup", codebook=codebook_for(QuantValue.Q4S))
    assert own.with_mode("lookup") == own
    assert own.with_mode("symmetric").codebook is None
    assert own.with_codebook(None).codebook == NF4_CODEBOOK


def test_codebook_entries_are_rounded_to_float32():
    (tenth, _) = QuantScheme("u1", mode="lookup", codebook=[0.1, 1]).codebook
    assert tenth == float(np.float32(0.1))


@pytest.mark.parametrize(
    "codebook",
    [
        [1.0],
        [1.0, 2.0, 3.0],
        [],
        [1.0, math.nan],
        [1.0, math.inf],
        [1.0, 1e300],
        [0.0, 0.0],
        [0.0, -0.0],
        "12",
        3.0,
        [1.0, None],
        [[1.0, 2.0], [3.0, 4.0]],
    ],
)
def test_a_codebook_of_the_wrong_length_or_content_is_refused(codebook):
    with pytest.raises(CodebookError, match="codebook"):
        QuantScheme("u1", mode="lookup", codebook=codebook)


# Rules.


@pytest.mark.parametrize("value", MINIFLOATS)
@pytest.mark.parametrize("mode", ["lookup", "affine"])
def test_a_minifloat_is_only_symmetric(value, mode):
    with pytest.raises(SchemeError, match=f"mode {mode} requires an integer or field value"):
        QuantScheme(value, mode=mode)


def test_a_symmetric_scheme_has_no_codebook():
    with pytest.raises(SchemeError, match="a codebook requires mode lookup"):
        QuantScheme(codebook=codebook_for(QuantValue.Q8F))


@pytest.mark.parametrize("tensor", set(ScaleDtype) - {ScaleDtype.F32})
def test_the_tensor_scale_of_two_levels_is_float32(tensor):
    assert QuantScheme().per_tensor(tensor).tensor is tensor
    with pytest.raises(SchemeError, match=f"requires an f32 tensor scale, got {tensor}"):
        QuantScheme().per_block(32, "f16").per_tensor(tensor)


@pytest.mark.parametrize("dtype", ScaleDtype)
@pytest.mark.parametrize(
    "level", [lambda s, d: s.per_block(32, d), lambda s, d: s.per_channel(0, d)]
)
def test_the_block_dtype_of_two_levels_reaches_no_further_than_float16(dtype, level):
    scheme = QuantScheme().per_tensor()
    if dtype in {ScaleDtype.F16, ScaleDtype.UE4M3}:
        assert level(scheme, dtype).two_level
    else:
        with pytest.raises(SchemeError, match=f"at most f16's 65504, got {dtype}"):
            level(scheme, dtype)


def test_a_tensor_scale_from_amax_needs_two_levels():
    with pytest.raises(SchemeError, match="requires a two-level scheme, got one level"):
        QuantScheme().per_block(16, "ue4m3").with_numerics(tensor_from="amax")
    two = QuantScheme().per_block(16, "ue4m3").per_tensor().with_numerics(tensor_from="amax")
    assert two.numerics.tensor_from is TensorFrom.AMAX


@pytest.mark.parametrize(
    "parts",
    [
        {"value": "q9"},
        {"value": None},
        {"mode": "asymmetric"},
        {"zero": "code"},
        {"zero": {"kind": "code", "dtype": "i8"}},
        {"store": "packed_u64"},
        {"block": [32]},
        {"block": 32},
        {"tensor": "f64"},
        {"numerics": {"scale_from": "qmax"}},
        {"numerics": "qmax"},
    ],
    ids=repr,
)
def test_a_part_of_the_wrong_kind_is_refused(parts):
    with pytest.raises(SchemeError, match="requires"):
        QuantScheme(**parts)


def test_an_unknown_rule_of_numerics_is_refused_by_name():
    with pytest.raises(SchemeError, match="got 'dividing'"):
        QuantScheme().with_numerics(dividing="always")


def test_numerics_are_replaced_or_changed_rule_by_rule():
    qmax = QuantScheme().with_numerics(scale_from="qmax")
    both = qmax.with_numerics(scale_rounding="nearest")
    assert both.numerics == Numerics(scale_from="qmax", scale_rounding="nearest")
    assert both.with_numerics(Numerics()).numerics == Numerics()
    assert both.with_numerics(Numerics(), scale_from="qmax") == qmax


# Text and JSON.


@pytest.mark.parametrize(
    "parts",
    [
        None,
        [],
        {"zeros": None},
        {"zero": {"kind": "code"}},
        {"zero": {}},
        {"zero": "code"},
        {"zero": {"kind": "code", "dtype": "i8"}},
        {"mode": "affine", "zero": {"kind": "bias", "dtype": "i8"}},
        {"block": {"size": [32]}},
        {"block": {"size": [32], "dtype": "f16", "axis": 0}},
        {"block": {"size": [32.0], "dtype": "f16"}},
        {"block": {"axis": None, "dtype": "f16"}},
        {"block": [32]},
        {"numerics": None},
        {"numerics": {"eps": 1}},
        {"value": 8},
        {"codebook": 5},
        {"mode": "lookup", "codebook": {"0": 1}},
    ],
    ids=repr,
)
def test_a_dictionary_that_describes_no_scheme_is_refused(parts):
    with pytest.raises(SchemeError):
        QuantScheme.from_dict(parts)


def test_an_empty_dictionary_is_the_default_scheme():
    assert QuantScheme.from_dict({}) == QuantScheme()


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (QuantScheme(), "q8f symmetric, packed_u32"),
        (
            QuantScheme("e2m1").per_block([2, 16], "ue4m3").per_tensor(),
            "e2m1 symmetric, packed_u32, block [2, 16] ue4m3, tensor f32",
        ),
        (
            QuantScheme("u4", "packed_u32(1)", "lookup").per_channel(-1),
            "u4 lookup, NF4 codebook of 16, packed_u32(1), channel -1 f32",
        ),
        (
            QuantScheme("q8s").with_numerics(scale_from="qmax"),
            "q8s symmetric, packed_u32, scale_from=qmax",
        ),
        (
            QuantScheme("q4f", mode="affine").with_numerics(smallest_scale=0.5, scaling="divide"),
            "q4f affine, zero code i8, packed_u32, smallest_scale=0.5",
        ),
    ],
)
def test_a_scheme_without_a_spelling_is_described(scheme, text):
    assert str(scheme) == text
