"""casts.npz: element casts of ml_dtypes, torch, torchao, compressed-tensors and MLX, code by code.

A case's element type and producer are read from its ``fn`` and ``peer`` texts, its direction
from the roles of its arrays.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from golden_cases import Case, assert_same_floats, cases_of

import arrayq as aq

# How the producers' texts spell the element types that formats.py has rows for. Any other float
# type that a text names is out of scope.
ROWS = {
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "ue8m0",
    "float4_e2m1fn": "e2m1",
    "float6_e2m3fn": "e2m3",
    "float6_e3m2fn": "e3m2",
    "bfloat16": "bf16",
    "f32_to_f4_unpacked": "e2m1",
    "f32_to_f6_e2m3_unpacked": "e2m3",
    "f32_to_f6_e3m2_unpacked": "e3m2",
    "cast_to_fp4": "e2m1",
    "mx.to_fp8": "e4m3",
}
# What each producer does outside the finite range, at NaN and at zero, as keywords of encode.
# Whatever is not listed saturates and keeps the sign of zero: encode's defaults.
CONVENTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("ml_dtypes", "e4m3"): {"overflow": "nan"},
    ("ml_dtypes", "e5m2"): {"overflow": "inf", "nan": 0x7E},
    ("ml_dtypes", "e2m1"): {"nan": 0x8},
    ("ml_dtypes", "e2m3"): {"nan": 0x20},
    ("ml_dtypes", "e3m2"): {"nan": 0x20},
    ("ml_dtypes", "ue8m0"): {"overflow": "nan", "nonpositive": "nan"},
    ("ml_dtypes", "bf16"): {"overflow": "inf"},
    ("torch", "e5m2"): {"overflow": "inf"},
    ("torch", "ue8m0"): {"overflow": "nan"},
    ("compressed-tensors", "e2m1"): {"negative_zero": "drop"},
    ("mlx", "e4m3"): {"nan": 0x7E},
}


def element_type(case: Case) -> str:
    """Return the producer's name of the element type, the longest that its function names."""
    words = set(re.findall(r"[\w.]+", case.function)) | set(re.findall(r"\w+", case.function))
    known = [word for word in words if word in ROWS or re.fullmatch(r"float\d+_e\d+m\d+\w*", word)]
    if not known:
        pytest.fail(f"{case.id}: no element type in {case.function!r}")
    return max(known, key=len)


def row_of(case: Case) -> str:
    """Return the name of our format; skip types and cases that are not to be compared."""
    if "informational" in case.exact:
        pytest.skip(f"informational: {case.function}")
    name = element_type(case)
    if name not in ROWS:
        pytest.skip(f"out of scope: {name}")
    return ROWS[name]


def convention(case: Case, row: str) -> dict[str, Any]:
    return CONVENTIONS.get((case.peer.split()[0], row), {})


def input_of(case: Case) -> npt.NDArray[Any]:
    x = case.input()
    if "nonfinite inputs replaced by 0 first" in case.function:
        return np.where(np.isfinite(x), x, np.zeros_like(x))
    return x


def leaves_nan_undefined(case: Case) -> bool:
    return "NaN input is undefined" in case.exact


@pytest.mark.parametrize("case", cases_of("casts.npz", lambda case: "f32" in case.roles))
def test_codes_decode_to_the_producers_values(case: Case) -> None:
    row = row_of(case)
    expected = case.array("f32")
    got = aq.decode(np.arange(len(expected), dtype=np.uint8), row)
    assert got.dtype == np.float32
    assert_same_floats(got, expected)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("case", cases_of("casts.npz", lambda case: "code" in case.roles))
def test_floats_encode_to_the_producers_codes(case: Case) -> None:
    row = row_of(case)
    x, expected = input_of(case), case.array("code")
    if leaves_nan_undefined(case):
        defined = ~np.isnan(x)
        x, expected = x[defined], expected[defined]
    got = aq.encode(x, row, **convention(case, row))
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("case", cases_of("casts.npz", lambda case: "bits" in case.roles))
def test_floats_encode_to_the_producers_bits(case: Case) -> None:
    row = row_of(case)
    x, expected = input_of(case), case.array("bits")
    got = aq.encode(x, row, **convention(case, row))
    number = ~np.isnan(x)
    np.testing.assert_array_equal(got[number], expected[number])
    assert np.isnan(aq.decode(got[~number], row)).all()


@pytest.mark.parametrize("case", cases_of("casts.npz", lambda case: "packed" in case.roles))
def test_floats_encode_and_pack_to_the_producers_bytes(case: Case) -> None:
    row = row_of(case)
    codes = aq.encode(input_of(case), row, **convention(case, row))
    assert_same_floats(aq.decode(codes, row), case.array("value"))
    np.testing.assert_array_equal(aq.pack(codes, row, "packed_native"), case.array("packed"))


def test_every_case_is_compared_or_named() -> None:
    compared = {"f32", "code", "bits", "packed"}
    assert all(param.values[0].roles & compared for param in cases_of("casts.npz"))
