"""The element types a safetensors file may hold: one row each.

``codec`` names the row of :mod:`arrayq.formats` that decodes a type numpy lacks, so that a
reader needs no other library; ``extension`` is what the same type is called in ml_dtypes.
The rows are those of the ``safetensors`` library, version 0.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["DTYPES", "FLOAT_DTYPES", "FileDtype", "file_dtype_of"]


@dataclass(frozen=True, slots=True)
class FileDtype:
    """One element type of the safetensors format."""

    name: str
    bits: int
    raw: str | None
    """numpy type string of one stored element; None where elements share bytes."""
    codec: str | None = None
    extension: str | None = None

    def nbytes(self, elements: int) -> int | None:
        """Bytes that `elements` take, or None when they do not fill whole bytes."""
        bits = elements * self.bits
        return None if bits % 8 else bits // 8


_ROWS = (
    FileDtype("BOOL", 8, "|b1"),
    FileDtype("F4", 4, None, codec="e2m1"),
    FileDtype("F6_E2M3", 6, None),
    FileDtype("F6_E3M2", 6, None),
    FileDtype("U8", 8, "|u1"),
    FileDtype("I8", 8, "|i1"),
    FileDtype("F8_E5M2", 8, "|u1", codec="e5m2", extension="float8_e5m2"),
    FileDtype("F8_E4M3", 8, "|u1", codec="e4m3", extension="float8_e4m3fn"),
    FileDtype("F8_E8M0", 8, "|u1", codec="ue8m0", extension="float8_e8m0fnu"),
    FileDtype("F8_E4M3FNUZ", 8, "|u1", extension="float8_e4m3fnuz"),
    FileDtype("F8_E5M2FNUZ", 8, "|u1", extension="float8_e5m2fnuz"),
    FileDtype("I16", 16, "<i2"),
    FileDtype("U16", 16, "<u2"),
    FileDtype("F16", 16, "<f2"),
    FileDtype("BF16", 16, "<u2", codec="bf16", extension="bfloat16"),
    FileDtype("I32", 32, "<i4"),
    FileDtype("U32", 32, "<u4"),
    FileDtype("F32", 32, "<f4"),
    FileDtype("C64", 64, "<c8"),
    FileDtype("F64", 64, "<f8"),
    FileDtype("I64", 64, "<i8"),
    FileDtype("U64", 64, "<u8"),
)

DTYPES: dict[str, FileDtype] = {row.name: row for row in _ROWS}

FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")
"""What the converter quantizes; every other type is copied through untouched."""

_BY_ARRAY_NAME = {
    **{np.dtype(row.raw).name: row for row in _ROWS if row.raw is not None and not row.extension},
    **{row.extension: row for row in _ROWS if row.extension is not None},
}


def file_dtype_of(array: np.ndarray) -> FileDtype | None:
    """Return the row an array is stored under, or None for a type no file can hold."""
    return _BY_ARRAY_NAME.get(array.dtype.name)
