"""Scales and codebooks: what calibration finds and quantization needs beside the scheme.

This module checks parameters against a scheme, and converts scales between their number and
their stored bits. Both follow from the rows of `arrayq.formats` by exact float64 arithmetic and
share nothing with the kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from arrayq.errors import CodebookError, QParamsError
from arrayq.scheme import QuantMode, QuantScheme, ScaleDtype
from arrayq.scheme_parts import normal_codebook

__all__ = ["QParams", "bits_to_scale", "representable", "scale_to_bits", "store_scales", "validate"]

Float32Array = npt.NDArray[np.float32]
BitsArray = npt.NDArray[np.float32] | npt.NDArray[np.uint16] | npt.NDArray[np.uint8]

# bfloat16 is not NumPy's own, so it is known by its name.
_SCALE_INPUT: Final = frozenset({"float16", "bfloat16", "float32", "float64"})


# Scales worked on at a time.
_PART: Final = 16384


@dataclass(frozen=True, eq=False)
class QParams:
    """The parameters of a quantization that are arrays, together.

    Parameters
    ----------
    scale : array of float32
        The scales as numbers, one for each block: of shape ``ceil(shape / block)``, or all ones
        for one scale. With two levels they are relative to `tensor_scale`.
    tensor_scale : array of float32, optional
        The scale of the whole array, of shape ``()``; for two-level schemes only.
    zero_point : None
        No scheme has zero points yet.
    codebook : sequence of float, optional
        For lookup schemes: the codebook to use instead of the scheme's own.
    """

    scale: Any
    tensor_scale: Any = None
    zero_point: Any = None
    codebook: Sequence[float] | None = None


def validate(
    qparams: QParams,
    scheme: QuantScheme,
    grid_shape: tuple[int, ...],
    *,
    allow_nan: bool = False,
    copy: bool = True,
) -> QParams:
    """Return parameters in their normal form, after checking that they fit.

    Parameters
    ----------
    qparams : QParams
        What the caller gave.
    scheme : QuantScheme
        What it is for.
    grid_shape : tuple of int
        The number of blocks along each axis of the array.
    allow_nan : bool
        Whether scales may be NaN, as they are in blocks that propagate NaN.
    copy : bool
        Whether the scales returned must not share memory with those given.

    Returns
    -------
    QParams
        `scale` as a float32 array of `grid_shape`, `tensor_scale` as a 0-d float32 array or
        None, `codebook` as a tuple of float32 numbers for lookup schemes and None for others.

    Raises
    ------
    QParamsError
        A parameter is missing, superfluous, of the wrong shape, or not a scale of this scheme.
    CodebookError
        The codebook does not fit the scheme, or a lookup scheme has none.
    """
    if not isinstance(qparams, QParams):
        raise QParamsError(
            f"qparams requires a QParams, got {type(qparams).__name__}; use QParams(scale=...)"
        )
    if qparams.zero_point is not None:
        raise QParamsError(
            f"{scheme} requires no zero_point, got one; mode {scheme.mode} has no zero points"
        )
    scale = _float32(qparams.scale, "scale")
    if scale.ndim == 0 and grid_shape == (1,) * len(grid_shape):
        scale = scale.reshape(grid_shape)
    if scale.shape != tuple(grid_shape):
        raise QParamsError(
            f"scale requires the shape {tuple(grid_shape)} of the grid of blocks, got "
            f"{scale.shape}; give one scale for each block"
        )
    scale = _checked_scale(scale, scheme.scale_dtype, allow_nan=allow_nan)
    tensor_scale = _tensor_scale(qparams.tensor_scale, scheme)
    _check_product(scale, tensor_scale)
    return QParams(
        scale=scale.copy() if copy else scale,
        tensor_scale=tensor_scale,
        codebook=_codebook(qparams.codebook, scheme),
    )


def _float32(given: object, what: str) -> Float32Array:
    """Return `given` as a native float32 array, rounding float64 once."""
    try:
        array = np.asarray(given)
    except ValueError:
        raise QParamsError(
            f"{what} requires an array, got lists of unequal lengths; give a float32 array"
        ) from None
    if array.dtype.name not in _SCALE_INPUT and array.dtype.kind not in "iu":
        raise QParamsError(
            f"{what} requires real numbers, got {_described(given, array)}; give a float32 array"
        )
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32, order="C", copy=False)
    vanished = (rounded == 0) & (array != 0)
    if vanished.any():
        raise QParamsError(
            f"{what} requires numbers that float32 can represent, got {_first(array, vanished)}; "
            "round it up to 2**-149, or set it to 0"
        )
    return rounded


def _described(given: object, array: npt.NDArray[Any]) -> str:
    return "None" if given is None else f"dtype {array.dtype.name}"


def _first(array: npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> str:
    """Return the first element that `where` marks, with its index unless there is only one."""
    index = tuple(int(i) for i in np.unravel_index(int(where.argmax()), where.shape))
    number = float(array[index])
    return f"{number!r} at index {index}" if array.ndim else repr(number)


def _checked_scale(scale: Float32Array, dtype: ScaleDtype, *, allow_nan: bool) -> Float32Array:
    """Return scales without negative zeros, after checking that all are scales of `dtype`.

    The check goes part by part: a grid may be a good part of the array that it belongs to.
    """
    flat = scale.reshape(-1)
    negative_zero = False
    for start in range(0, flat.size, _PART):
        part = flat[start : start + _PART]
        good = representable(part, dtype)
        if allow_nan:
            good |= np.isnan(part)
        if not good.all():
            _check_scale(scale, dtype, allow_nan=allow_nan)
        negative_zero |= bool((np.signbit(part) & (part == 0)).any())
    # -0.0 means the same as 0.0 but has no code in UE4M3; adding zero makes it that.
    return scale + np.float32(0) if negative_zero else scale


def _check_scale(scale: Float32Array, dtype: ScaleDtype, *, allow_nan: bool) -> None:
    """Raise QParamsError for the first scale that is no scale of `dtype`."""
    nan = np.isnan(scale)
    faults = (
        ("that are not NaN", nan & (not allow_nan), "quantize with nonfinite='propagate'"),
        ("that are finite", np.isinf(scale), f"clip it to {dtype.format.qmax!r}"),
        ("that are not negative", scale < 0, "give its magnitude"),
        (
            f"that {dtype} can represent",
            ~representable(scale, dtype) & ~nan,
            f"round it up to {dtype}, whose largest value is {dtype.format.qmax!r}",
        ),
    )
    for requirement, faulty, advice in faults:
        if faulty.any():
            raise QParamsError(
                f"scale requires numbers {requirement}, got {_first(scale, faulty)}; {advice}"
            )


def _check_product(scale: Float32Array, tensor_scale: Float32Array | None) -> None:
    """Raise QParamsError where two levels multiply to infinity: a code of zero would be NaN."""
    if tensor_scale is None or not scale.size:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isinf(np.fmax.reduce(scale, axis=None) * tensor_scale):
            return
        infinite = np.isinf(scale * tensor_scale)
    if infinite.any():
        raise QParamsError(
            "tensor_scale requires products with the block scales that float32 can hold, got "
            f"{float(tensor_scale)!r} beside a scale of {_first(scale, infinite)}"
        )


def _tensor_scale(given: object, scheme: QuantScheme) -> Float32Array | None:
    """Return the tensor scale as a 0-d array, after checking that the scheme has one."""
    if not scheme.two_level:
        if given is None:
            return None
        raise QParamsError(
            f"a one-level scheme requires no tensor_scale: {scheme} got one; multiply it into "
            "scale, or add a level with per_block(...) and per_tensor('f32')"
        )
    if given is None:
        raise QParamsError(
            f"a two-level scheme should have a per-tensor scale: {scheme} requires tensor_scale, "
            "got None; give QParams(scale=..., tensor_scale=...)"
        )
    tensor_scale = _float32(given, "tensor_scale")
    if tensor_scale.size != 1:
        raise QParamsError(
            f"tensor_scale requires one number, got shape {tensor_scale.shape}; give the scales "
            "of blocks as scale"
        )
    tensor_scale = tensor_scale.reshape(())
    if not (np.isfinite(tensor_scale) and tensor_scale >= 0):
        raise QParamsError(
            f"tensor_scale requires a finite number of at least 0, got {float(tensor_scale)!r}; "
            "calibrate on finite elements"
        )
    return np.asarray(tensor_scale + np.float32(0))


def _codebook(given: Sequence[float] | None, scheme: QuantScheme) -> tuple[float, ...] | None:
    """Return the codebook that counts: the caller's, else the scheme's."""
    if scheme.mode is not QuantMode.LOOKUP:
        if given is None:
            return None
        raise CodebookError(
            f"{scheme} requires no codebook, got one; use with_mode('lookup', codebook)"
        )
    if given is None:
        return scheme.require_codebook()
    return normal_codebook(given, scheme.value.bits)


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
    for start in range(0, source.size, _PART):
        target[start : start + _PART] = scale_to_bits(source[start : start + _PART], dtype)


# Scales as numbers and as stored bits. A positive number x is significand * 2^(exponent - M) with
# M mantissa bits, exponent at least that of the smallest normal number, and a significand below
# 2^(M + 1); it is representable when the significand is whole. Counting up from the smallest
# exponent, its code is (exponent - smallest exponent) * 2^M + significand.


def representable(scale: npt.ArrayLike, dtype: ScaleDtype) -> npt.NDArray[np.bool_]:
    """Return where scales are numbers that `dtype` can store.

    Parameters
    ----------
    scale : array of float32
        Scales as numbers.
    dtype : ScaleDtype
        The dtype to store them in.

    Returns
    -------
    array of bool
        False for negative, infinite and NaN scales, and in UE8M0 for 0.
    """
    scale = np.asarray(scale, dtype=np.float32)
    _, significand = _split(scale, dtype)
    whole = np.floor(significand) == significand
    zero_or_positive = (scale > 0) | ((scale == 0) & dtype.format.has_zero)
    below_largest = scale <= np.float32(dtype.format.qmax)
    return np.asarray(whole & zero_or_positive & below_largest)


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
    nan = np.isnan(scale)
    if dtype is ScaleDtype.F32:
        return np.asarray(np.where(nan, np.float32(np.nan), scale), dtype=np.float32)
    row = dtype.format
    offset, significand = _split(scale, dtype)
    # Without a code for zero, the count starts at the smallest number rather than at zero.
    first = 0 if row.has_zero else 1 << row.mantissa_bits
    code = (offset << row.mantissa_bits) + significand.astype(np.int32) - first
    assert row.nan_code is not None, "every scale dtype has a NaN"
    return np.asarray(np.where(nan, row.nan_code, code), dtype=dtype.stored_dtype)


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
    return np.asarray(_numbers(dtype)[bits])


def _split(
    scale: Float32Array, dtype: ScaleDtype
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return the exponent above the smallest one, and the significand, of positive scales."""
    row = dtype.format
    smallest = int(np.frexp(row.smallest_normal)[1])
    wide = np.where(np.isfinite(scale), scale, 0).astype(np.float64)
    exponent = np.where(wide > 0, np.frexp(wide)[1], smallest)
    offset = np.maximum(exponent - smallest, 0)
    significand = np.ldexp(wide, row.mantissa_bits + 1 - smallest - offset)
    return offset.astype(np.int32), significand


@functools.cache
def _numbers(dtype: ScaleDtype) -> Float32Array:
    """Return the number of every code of a scale dtype of 8 or 16 bits."""
    row = dtype.format
    missing = [float("nan")] * ((1 << row.bits) - row.code_mask - 1)
    codes = [row.value_of(code) for code in range(row.code_mask + 1)]
    numbers = np.array(codes + missing, dtype=np.float32)
    numbers.flags.writeable = False
    return numbers
