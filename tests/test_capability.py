"""One row answers questions, prints tables and refuses at run time."""

import math
import re
import sys
import types

import ml_dtypes
import numpy as np
import pytest

from arrayq import capability, capability_table, namespaces
from arrayq.capability import OPERATIONS, PROFILES, Profile, Refusal
from arrayq.capability_table import Verdict, capabilities, supports
from arrayq.errors import ArrayTypeError, CodebookError, SchemeError, UnsupportedSchemeError
from arrayq.formats import FORMATS, Kind
from arrayq.numerics import Calibration
from arrayq.presets import nvfp4, scheme
from arrayq.scheme import QuantMode, QuantScheme, QuantValue, ScaleDtype, StoreKind

NUMPY = PROFILES["numpy"]
FLOAT_OPERATIONS = ["quantize", "calibrate", "fake_quantize", "encode", "compare"]
FLOATS = ["float16", "float32", "float64", ">f2", ">f4", ">f8", ml_dtypes.bfloat16]
OTHERS = [
    "bool",
    "int8",
    "uint8",
    "int64",
    "complex64",
    "object",
    "U3",
    "M8[s]",
    "V2",
    ml_dtypes.float8_e4m3fn,
    "i4,f4",
]


def row_that_refuses(**parts):
    return Profile(
        name="slow_library",
        dtypes=("float32",),
        refusals=(Refusal(requires="a faster library", instead="use numpy", **parts),),
    )


# What NumPy can do.


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "spelling", ["int8/row", "int4/32", "int4a/32", "nf4/64", "mxfp4", "nvfp4", "ternary"]
)
def test_numpy_does_every_operation_on_every_published_scheme(operation, spelling):
    verdict = supports("numpy", spelling, operation)
    assert verdict == Verdict(True, "")
    assert verdict
    capability.require(NUMPY, scheme(spelling), operation, np.dtype("float32"))


@pytest.mark.parametrize("operation", FLOAT_OPERATIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numpy_takes_floats_of_any_byte_order(operation, dtype):
    capability.require(NUMPY, nvfp4(), operation, np.dtype(dtype))
    assert supports(np.zeros(2, dtype), nvfp4(), operation)


@pytest.mark.parametrize("operation", FLOAT_OPERATIONS)
@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_numpy_refuses_every_other_dtype_by_name(operation, dtype):
    name = re.escape(np.dtype(dtype).name)
    with pytest.raises(ArrayTypeError, match=f"float64 or bfloat16, got {name}; convert"):
        capability.require(NUMPY, nvfp4(), operation, np.dtype(dtype))
    assert not supports(np.zeros(2, dtype), nvfp4(), operation)


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - set(FLOAT_OPERATIONS)))
def test_operations_on_codes_do_not_ask_for_floats(operation):
    assert supports(np.zeros(2, np.uint8), nvfp4(), operation)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_lookup_without_codebook_is_refused_where_it_would_be_used(operation):
    lookup = QuantScheme("u8", mode="lookup")
    unused = {"encode", "decode", "pack", "unpack", "to_bytes"}
    assert bool(supports("numpy", lookup, operation)) == (operation in unused)
    assert supports("numpy", lookup.with_codebook(range(256)), operation)
    if operation not in unused:
        with pytest.raises(CodebookError, match=f"{operation} on numpy: .* codebook of 256 floats"):
            capability.require(NUMPY, lookup, operation)


def test_an_unknown_operation_is_refused_with_those_that_exist():
    with pytest.raises(UnsupportedSchemeError, match="one of quantize, dequantize"):
        supports("numpy", nvfp4(), "quantise")


def test_a_misspelled_scheme_is_not_a_question_of_support():
    with pytest.raises(SchemeError, match="did you mean 'nvfp4'"):
        supports("numpy", "nvpf4")


# Refusals of a row.


def test_a_row_refuses_what_it_says_and_the_verdict_gives_the_same_reason():
    row = row_that_refuses(value=frozenset({"e2m1"}), operation=frozenset({"quantize"}))
    with pytest.raises(UnsupportedSchemeError) as raised:
        capability.require(row, nvfp4(), "quantize")
    message = str(raised.value)
    for part in ("quantize", "slow_library", "nvfp4", "a faster library", "use numpy"):
        assert part in message
    capability.require(row, nvfp4(), "dequantize")
    capability.require(row, scheme("int8/row"), "quantize")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("operation", "quantize"),
        ("value", "e2m1"),
        ("scale", "ue4m3"),
        ("mode", "symmetric"),
        ("store", "packed_native"),
        ("calibration", "minmax"),
        ("rounding", "half_even"),
        ("path", "generic"),
    ],
)
def test_each_part_of_a_refusal_narrows_it(part, name):
    asked = ("quantize", nvfp4(), "generic")
    assert Refusal(requires="", instead="").applies(*asked)
    assert Refusal(requires="", instead="", **{part: frozenset({name})}).applies(*asked)
    other = Refusal(requires="", instead="", **{part: frozenset({"another"})})
    assert not other.applies(*asked)


def test_a_refusal_by_calibration_sees_the_one_that_is_asked_for():
    refusal = Refusal(requires="", instead="", calibration=frozenset({"absmean"}))
    assert not refusal.applies("quantize", nvfp4(), "host")
    assert refusal.applies("quantize", nvfp4(), "host", Calibration.ABSMEAN)
    assert refusal.applies("quantize", scheme("ternary"), "host")
    assert not refusal.applies("dequantize", scheme("ternary"), "host")


def test_a_refusal_by_scale_does_not_concern_operations_without_scales():
    refusal = Refusal(requires="", instead="", scale=frozenset({"ue4m3"}))
    assert refusal.applies("quantize", nvfp4(), "host")
    assert not refusal.applies("pack", nvfp4(), "host")


# The table.


def test_the_table_lists_every_combination_once():
    rows = capabilities()
    whole = len(QuantValue) * len(ScaleDtype) * len(StoreKind) * len(QuantMode)
    counts = {name: sum(row.operation == name for row in rows) for name in OPERATIONS}
    for name in OPERATIONS:
        if name in {"encode", "decode"}:
            assert counts[name] == len(FORMATS)
        elif name in {"pack", "unpack"}:
            assert counts[name] == len(QuantValue) * len(StoreKind)
        else:
            assert counts[name] == whole
    assert len({row[:5] for row in rows}) == len(rows)


def test_numpy_refuses_only_what_no_scheme_can_be():
    for row in capabilities("numpy"):
        kind = FORMATS[row.value].kind
        meaningless = (
            (row.mode == "symmetric" and kind is Kind.FIELD)
            or (row.mode in {"lookup", "affine"} and kind is Kind.MINIFLOAT)
            or (row.mode == "affine" and row.scale == "ue8m0")
        )
        assert row.ok != meaningless
        assert bool(row.reason) == meaningless


def test_the_table_shows_the_refusals_of_its_row(monkeypatch):
    row = row_that_refuses(store=frozenset({"packed_u32"}))
    monkeypatch.setattr(capability_table, "profile_named", lambda name: row)
    rows = capabilities("slow_library")
    refused = [cell for cell in rows if not cell.ok and "a faster library" in cell.reason]
    assert refused
    assert {cell.store for cell in refused} == {"packed_u32"}
    assert {cell.operation for cell in refused} == set(OPERATIONS) - {"encode", "decode"}


# Which library.


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(3),
        np.zeros(()),
        np.float32(1),
        np.zeros(3).view(np.recarray),
        np.broadcast_to(np.float32(1), (2, 3)),
    ],
    ids=lambda x: type(x).__name__,
)
def test_numpy_arrays_and_scalars_belong_to_numpy(x):
    assert namespaces.profile_of(x) is NUMPY


@pytest.mark.parametrize(
    "x", [[1.0], 1.0, None, "numpy", b"", (1,), {}, memoryview(b"ab"), np, math]
)
def test_what_is_no_array_is_refused_by_its_type(x):
    with pytest.raises(
        ArrayTypeError, match=rf"\(numpy, torch, jax, .*\), got {type(x).__name__}; convert it"
    ):
        namespaces.profile_of(x)


def test_a_mask_is_not_lost_in_silence():
    with pytest.raises(ArrayTypeError, match="filled"):
        namespaces.profile_of(np.ma.masked_array([1.0, 2.0], [True, False]))


def test_an_array_of_a_library_that_nobody_knows_is_one_of_another_library():
    class Array:
        __module__ = "someones_arrays"

        def __array_namespace__(self, api_version=None):
            return None

    row = namespaces.profile_of(Array())
    assert row.name == "someones_arrays"
    assert row.paths == PROFILES["other"].paths


@pytest.mark.parametrize("name", [name for name, row in PROFILES.items() if not row.paths])
def test_a_library_that_cannot_work_is_a_no_with_its_reason(name):
    for operation in OPERATIONS:
        verdict = supports(name, nvfp4(), operation)
        assert not verdict
        scheme = "" if operation in {"encode", "decode"} else " with scheme nvfp4"
        assert verdict.reason.startswith(f"{operation} on {name}{scheme} requires ")
    assert not any(row.ok for row in capabilities(name))


def test_a_library_without_a_row_is_a_no_with_a_reason():
    verdict = supports("nonesuch", nvfp4())
    assert not verdict
    assert "one of numpy, torch, jax" in verdict.reason
    with pytest.raises(UnsupportedSchemeError, match="got 'nonesuch'"):
        capabilities("nonesuch")


@pytest.mark.parametrize(
    ("name", "row"),
    [("numpy", "numpy"), ("array_api_compat.torch", "torch"), ("jax.numpy", "jax"),
     ("mlx.core", "mlx"), ("dask.array", "dask")],
)  # fmt: skip
def test_a_namespace_is_known_by_the_name_of_its_module(name, row):
    assert namespaces.profile_named(types.ModuleType(name)) is PROFILES[row]
    assert supports(types.ModuleType(name), "nvfp4")
    with pytest.raises(UnsupportedSchemeError, match="got 'math'"):
        namespaces.profile_named(math)


def test_asking_what_an_object_is_imports_no_library():
    before = set(sys.modules)
    with pytest.raises(ArrayTypeError):
        namespaces.profile_of(object())
    assert set(sys.modules) == before
