"""What a row refuses is refused where it is asked for, with the reason that the row gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from libraries import WAYS, Opened, Way
from scheme_lattice import FEW, STORES, codebook_of, design, rows_of

import arrayq as aq
from arrayq.capability import OPERATIONS, PROFILES
from arrayq.capability_table import CapabilityRow
from arrayq.scheme import BlockScale, QuantScheme, QuantStore, QuantValue

eager = pytest.mark.parametrize(
    "way",
    [way for way in WAYS.values() if not way.is_traced or way.path == "chunked"],
    ids=lambda way: way.name,
)

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)


@eager
def test_rows_that_say_no_raise_their_reason(way: Way, opened: Opened) -> None:
    rows = rows_of(way.row.name, ok=False)
    assert rows
    for row in rows:
        with pytest.raises((aq.SchemeError, aq.UnsupportedSchemeError)) as raised, way.taken():
            aq.quantize(opened.into(X), scheme_of(row))
        assert str(raised.value) == row.reason


def scheme_of(row: CapabilityRow) -> QuantScheme:
    """Return the simplest scheme of a row."""
    value = QuantValue(row.value)
    (store,) = (s for s in STORES[:3] if QuantStore.of(s).kind.value == row.store)
    codebook = codebook_of(value) if row.mode == "lookup" else None
    assert row.mode is not None
    assert row.scale is not None
    return QuantScheme(value, store, row.mode, BlockScale(32, row.scale), codebook=codebook)


def asked(operation: str, opened: Opened, scheme: QuantScheme) -> Any:
    """Ask for an operation on an array of a library."""
    x = opened.into(X)
    if operation in ("quantize", "calibrate", "fake_quantize"):
        return getattr(aq, operation)(x, scheme)
    if operation == "compare":
        return aq.compare(x, [scheme])
    if operation == "encode":
        return aq.encode(x, scheme.value.value)
    codes = opened.into(np.zeros((2, 32), np.uint8))
    if operation == "decode":
        return aq.decode(codes, scheme.value.value)
    if operation == "pack":
        return aq.pack(codes, scheme.value, "packed_native")
    if operation == "unpack":
        return aq.unpack(codes, scheme.value, "packed_native")
    q = aq.quantize(x, scheme)
    return aq.dequantize(q) if operation == "dequantize" else aq.to_bytes(q)


@eager
@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "from_bytes"])
def test_refusals_are_raised_and_all_else_works(way: Way, opened: Opened, operation: str) -> None:
    spellings = FEW if way.design != "few" else FEW[:2]
    special = [aq.scheme("ternary"), aq.scheme("int4/32").with_numerics(rounding="stochastic")]
    if way.row.name == "other" and operation in ("compare", "to_bytes"):
        pytest.skip("NumPy cannot read boxes")
    if operation == "compare" and way.path != way.row.paths[0]:
        pytest.skip("a comparison is made on a copy, which takes the usual path")
    for scheme in [*map(aq.scheme, spellings), *special]:
        reason = way.refuses(scheme, operation)
        if not reason:
            if operation not in ("dequantize", "to_bytes") or not way.refuses(scheme):
                with way.taken():
                    asked(operation, opened, scheme)
            continue
        with pytest.raises(aq.UnsupportedSchemeError) as raised, way.taken():
            asked(operation, opened, scheme)
        # operations on bare codes have no scheme to name
        assert str(raised.value).rpartition(" requires ")[2] == reason.rpartition(" requires ")[2]
        assert str(raised.value).startswith(f"{operation} on ")


@eager
def test_each_refusal_of_a_row_meets_some_scheme(way: Way, opened: Opened) -> None:
    problems = design(way.row.name, "pairs")
    for refusal in way.row.refusals:
        if refusal.path is not None and way.path not in refusal.path:
            continue
        assert any(
            refusal.applies(operation, problem.scheme, way.path)
            for operation, problem in itertools.product(OPERATIONS, problems)
        )


@eager
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_arrays_that_are_no_floats_are_refused(way: Way, opened: Opened, dtype: str) -> None:
    with pytest.raises(aq.ArrayTypeError, match=r"quantize on .* requires an array of float"):
        aq.quantize(opened.into(X.astype(dtype)), "int8/row")


def test_what_numpy_cannot_read_is_not_taken_for_its_bytes() -> None:
    boxed = WAYS["other generic"].open(None)
    x = boxed.into(X)
    q = aq.quantize(x, "int8/row")
    for ask in (lambda: aq.to_bytes(q), lambda: aq.compare(x, ["int8/row"])):
        with pytest.raises(aq.UnsupportedSchemeError, match=r"reads, got Box of boxed; convert"):
            ask()


def array_of(name: str) -> Any:
    if name == "sparse":
        return pytest.importorskip("sparse").COO.from_numpy(X)
    return pytest.importorskip(name).asarray(X)


@pytest.mark.parametrize("name", [name for name, row in PROFILES.items() if not row.paths])
def test_arrays_of_libraries_that_cannot_work_are_refused(name: str) -> None:
    x = array_of(name)
    with pytest.raises(aq.UnsupportedSchemeError) as raised:
        aq.quantize(x, "int8/row")
    assert str(raised.value) == aq.supports(x, "int8/row").reason
