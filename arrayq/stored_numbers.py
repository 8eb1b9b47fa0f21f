"""Scales and zero points as numbers and as they are stored.

The conversions follow from the rows of `arrayq.formats` by exact float64 arithmetic and share
nothing with the kernels.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from arrayq.formats import Format
from arrayq.scheme import ScaleDtype, ZeroDtype

__all__ = [
    "PART",
    "bits_to_scale",
    "bits_to_zero",
    "representable",
    "scale_to_bits",
    "store_scales",
    "whole_steps",
    "zero_to_bits",
]

Float32Array = npt.NDArray[np.float32]
BitsArray = npt.NDArray[np.float32] | npt.NDArray[np.uint16] | npt.NDArray[np.uint8]
ZeroArray = npt.NDArray[np.float32] | npt.NDArray[np.int32]

PART: Final = 16384
"""Scales worked on at a time, so that what comes between takes little memory."""


def store_scales(scale: Float32Array, dtype: ScaleDtype, stored: BitsArray) -> None:
    """Write scales into `stored`, an array of their shape in the dtype that they are stored in.

    Parameters
    ----------
    scale : array of float32
        Scales that are `representable`, or NaN.
    dtype : ScaleDtype
        The dtype to store them in.
    stored : array
        C-contiguous memory for them.
    """
    source, target = scale.reshape(-1), stored.reshape(-1)
    for start in range(0, source.size, PART):
        target[start : start + PART] = scale_to_bits(source[start : start + PART], dtype)


# Numbers and their stored bits. A positive number x is significand * 2^(exponent - M) with M
# mantissa bits, exponent at least that of the smallest normal number, and a significand below
# 2^(M + 1); it is representable when the significand is whole. Counting up from the smallest
# exponent, its code is (exponent - smallest exponent) * 2^M + significand.


def representable(
    scale: npt.ArrayLike, dtype: ScaleDtype, *, signed: bool = False
) -> npt.NDArray[np.bool_]:
    """Return where scales are numbers that `dtype` can store.

    Parameters
    ----------
    scale : array of float32
        Scales as numbers.
    dtype : ScaleDtype
        The dtype to store them in.
    signed : bool
        Whether scales may be negative, where `dtype` has a sign.

    Returns
    -------
    array of bool
        False for infinite and NaN scales, for negative ones unless `signed`, and in UE8M0 for 0.
    """
    return whole_steps(np.asarray(scale, dtype=np.float32), dtype.format, signed=signed)


def whole_steps(numbers: Float32Array, row: Format, *, signed: bool) -> npt.NDArray[np.bool_]:
    """Return where numbers are finite values of a format."""
    magnitude = np.abs(numbers) if signed and row.signed else numbers
    _, significand = _split(magnitude, row)
    whole = np.floor(significand) == significand
    zero_or_positive = (magnitude > 0) | ((magnitude == 0) & row.has_zero)
    return np.asarray(whole & zero_or_positive & (magnitude <= np.float32(row.qmax)))


def scale_to_bits(scale: npt.ArrayLike, dtype: ScaleDtype) -> BitsArray:
    """Return scales as they are stored.

    Parameters
    ----------
    scale : array of float32
        Scales that are `representable`, or NaN.
    dtype : ScaleDtype
        The dtype to store them in.

    Returns
    -------
    array
        Float32 for F32, else the bits as uint16 or uint8; NaN as the NaN code of the dtype.
    """
    scale = np.asarray(scale, dtype=np.float32)
    if dtype is ScaleDtype.F32:
        return np.asarray(np.where(np.isnan(scale), np.float32(np.nan), scale), dtype=np.float32)
    return np.asarray(_bits(scale, dtype.format), dtype=dtype.stored_dtype)


def bits_to_scale(bits: npt.NDArray[Any], dtype: ScaleDtype) -> Float32Array:
    """Return stored scales as float32 numbers; the inverse of `scale_to_bits`.

    Parameters
    ----------
    bits : array
        Scales as `scale_to_bits` returns them.
    dtype : ScaleDtype
        The dtype that they are stored in.

    Returns
    -------
    array of float32
        The numbers; NaN for codes that the dtype does not have.
    """
    if dtype is ScaleDtype.F32:
        return np.asarray(bits, dtype=np.float32)
    return np.asarray(_numbers(dtype.format)[bits])


def zero_to_bits(zero: npt.ArrayLike, dtype: ZeroDtype) -> npt.NDArray[Any]:
    """Return zero points as they are stored.

    Parameters
    ----------
    zero : array of int32 or float32
        Zero points that `dtype` can store, as `validate` returns them.
    dtype : ZeroDtype
        The dtype to store them in.

    Returns
    -------
    array
        Of the integer dtype itself, float32, or the bits of a 16-bit float as uint16.
    """
    numbers = np.asarray(zero, dtype=dtype.number_dtype)
    if dtype.stored_dtype == "uint16":
        return np.asarray(_bits(numbers, dtype.format), dtype=np.uint16)
    return numbers.astype(dtype.stored_dtype)


def bits_to_zero(bits: npt.NDArray[Any], dtype: ZeroDtype) -> ZeroArray:
    """Return stored zero points as numbers; the inverse of `zero_to_bits`.

    Parameters
    ----------
    bits : array
        Zero points as `zero_to_bits` returns them.
    dtype : ZeroDtype
        The dtype that they are stored in.

    Returns
    -------
    array of int32 or float32
        The numbers; NaN for codes that mean none.
    """
    if dtype.stored_dtype == "uint16":
        return np.asarray(_numbers(dtype.format)[bits])
    return np.asarray(bits, dtype=dtype.number_dtype)


def _bits(numbers: Float32Array, row: Format) -> npt.NDArray[np.int32]:
    """Return the code of each number, which the format has, or of its NaN."""
    nan = np.isnan(numbers)
    offset, significand = _split(np.abs(numbers), row)
    # Without a code for zero, the count starts at the smallest number rather than at zero.
    first = 0 if row.has_zero else 1 << row.mantissa_bits
    code = (offset << row.mantissa_bits) + significand.astype(np.int32) - first
    code = np.where(np.signbit(numbers), code | row.sign_mask, code)
    assert row.nan_code is not None, "every format of scales and zero points has a NaN"
    return np.asarray(np.where(nan, row.nan_code, code))


def _split(
    magnitude: Float32Array, row: Format
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return the exponent above the smallest one, and the significand, of positive numbers."""
    smallest = int(np.frexp(row.smallest_normal)[1])
    wide = np.where(np.isfinite(magnitude), magnitude, 0).astype(np.float64)
    exponent = np.where(wide > 0, np.frexp(wide)[1], smallest)
    offset = np.maximum(exponent - smallest, 0)
    significand = np.ldexp(wide, row.mantissa_bits + 1 - smallest - offset)
    return offset.astype(np.int32), significand


@functools.cache
def _numbers(row: Format) -> Float32Array:
    """Return the number of every code of a format of 8 or 16 bits."""
    missing = [float("nan")] * ((1 << row.bits) - row.code_mask - 1)
    codes = [row.value_of(code) for code in range(row.code_mask + 1)]
    numbers = np.array(codes + missing, dtype=np.float32)
    numbers.flags.writeable = False
    return numbers
