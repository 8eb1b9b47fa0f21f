"""A scheme's rules for scales and zero points, as the numbers that the kernels take."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from arrayq.numerics import (
    Calibration,
    ScaleFrom,
    ScaleRounding,
    Scaling,
    TensorFrom,
    ZeroBlock,
    ZeroRounding,
)
from arrayq.scheme import QuantMode, QuantScheme, ScaleDtype, ZeroDtype, ZeroKind

__all__ = [
    "SCALE_KINDS",
    "Measure",
    "ScaleArguments",
    "largest_raw_scale",
    "largest_value",
    "measure_of",
    "range_divisor",
    "scale_arguments",
]

# Numbered as ScaleKind in scales.pxd.
SCALE_KINDS = {
    ScaleDtype.F32: 0,
    ScaleDtype.F16: 1,
    ScaleDtype.BF16: 2,
    ScaleDtype.UE8M0: 3,
    ScaleDtype.UE4M3: 4,
}
# Numbered as ScaleFrom in scales.pxd; the range of an AFFINE block is that of its bounds.
_SOURCES = {
    ScaleFrom.RANGE: 0,
    ScaleFrom.QMAX: 0,
    ScaleFrom.ENDPOINTS: 2,
    ScaleFrom.SIGNED_MAX: 3,
    ScaleFrom.INVERSE_RANGE: 4,
    ScaleFrom.FLOOR: 5,
    ScaleFrom.CEIL: 6,
    ScaleFrom.EVEN: 7,
    ScaleFrom.RCEIL: 8,
    ScaleFrom.NEAREST_LOG2: 9,
}
_BOUNDS = 1
# Numbered as ZeroBlock in scales.pxd.
_ZERO_BLOCKS = {ZeroBlock.ZERO: 0, ZeroBlock.SMALLEST: 1, ZeroBlock.ONE: 2}
# Numbered as ZeroKind in zeros.pxd.
_NO_ZERO = 0
_ZERO_KINDS = {ZeroKind.CODE: 1, ZeroKind.BIAS: 2}
_INVERSE_CODE = 3
# Numbered as ZeroDtype in zeros.pxd.
_ZERO_DTYPES = {
    ZeroDtype.I8: 0,
    ZeroDtype.U8: 1,
    ZeroDtype.I32: 2,
    ZeroDtype.F32: 3,
    ZeroDtype.F16: 4,
    ZeroDtype.BF16: 5,
}


class Measure(enum.IntEnum):
    """What is measured of a block; numbered as in boxes.pxd."""

    MAGNITUDE = 0
    MEAN = 1
    BOUNDS = 2
    EXTREME = 3


def measure_of(scheme: QuantScheme, calibration: Calibration) -> Measure:
    """Return what has to be known of a block to give it a scale."""
    if scheme.mode is QuantMode.AFFINE or scheme.numerics.scale_from is ScaleFrom.ENDPOINTS:
        return Measure.BOUNDS
    if scheme.numerics.scale_from is ScaleFrom.SIGNED_MAX:
        return Measure.EXTREME
    return Measure.MEAN if calibration is Calibration.ABSMEAN else Measure.MAGNITUDE


@dataclass(frozen=True, eq=False)
class ScaleArguments:
    """Rules for scales and zero points in the kernels' own numbering.

    Attributes
    ----------
    kind : int
        Scale dtype.
    two_level : bool
        Whether block scales are relative to a tensor scale.
    fields : int32 array of shape (9,)
        Rules in the order of ``RULE_...`` in scales.pxd.
    numbers : float32 array of shape (6,)
        Numbers in the order of ``NUMBER_...`` in scales.pxd.
    zero : tuple of (int, int, bool, bool)
        Kind and dtype of zero points, whether bounds are widened to include zero, and whether
        fractional zero points are rounded to whole numbers.
    seed : int
        Seed of stochastic rounding.
    reciprocal : bool
        Whether elements are multiplied by the reciprocal of their scale.
    """

    kind: int
    two_level: bool
    fields: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.float32]
    zero: tuple[int, int, bool, bool]
    seed: int
    reciprocal: bool


@lru_cache(maxsize=256)
def scale_arguments(scheme: QuantScheme) -> ScaleArguments:
    """Return the kernels' view of a scheme's rules."""
    numerics = scheme.numerics
    row = scheme.value.format
    affine = scheme.mode is QuantMode.AFFINE
    amax = scheme.two_level and numerics.tensor_from is TensorFrom.AMAX
    from_bounds = affine and numerics.scale_from is ScaleFrom.RANGE
    exponent = row.largest_exponent
    if scheme.mode is QuantMode.LOOKUP:
        exponent = math.frexp(largest_value(scheme))[1] - 1
    fields: list[Any] = [
        SCALE_KINDS[scheme.scale_dtype],
        _BOUNDS if from_bounds else _SOURCES[numerics.scale_from],
        numerics.scale_rounding is ScaleRounding.UP,
        exponent,
        row.mantissa_bits,
        scheme.two_level,
        scheme.two_level and numerics.tensor_from is TensorFrom.BLOCK_SCALES,
        _ZERO_BLOCKS[numerics.zero_block],
        amax,
    ]
    scale_qmax = scheme.scale_dtype.format.qmax
    numbers = [
        range_divisor(scheme),
        row.qmin,
        row.qmax,
        numerics.smallest_scale,
        scale_qmax,
        largest_value(scheme) * scale_qmax if amax else 1,
    ]
    endpoints = numerics.scale_from is ScaleFrom.ENDPOINTS
    return ScaleArguments(
        SCALE_KINDS[scheme.scale_dtype],
        scheme.two_level,
        np.array(fields, np.int32),
        np.array(numbers, np.float32),
        (
            *_zero_numbers(scheme),
            endpoints or numerics.zero_in_range,
            numerics.zero_rounding is ZeroRounding.WHOLE,
        ),
        numerics.seed,
        numerics.scaling is Scaling.RECIPROCAL,
    )


def _zero_numbers(scheme: QuantScheme) -> tuple[int, int]:
    if scheme.zero is None:
        return _NO_ZERO, 0
    kind = _ZERO_KINDS[scheme.zero.kind]
    if scheme.numerics.scale_from is ScaleFrom.INVERSE_RANGE:
        kind = _INVERSE_CODE
    return kind, _ZERO_DTYPES[scheme.zero.dtype]


def largest_value(scheme: QuantScheme) -> float:
    """Return the largest magnitude that a code means before it is scaled."""
    if scheme.mode is QuantMode.LOOKUP:
        return max(abs(entry) for entry in scheme.require_codebook())
    return scheme.value.format.qmax


def range_divisor(scheme: QuantScheme) -> float:
    """Return what a range is divided by to give the raw scale."""
    row = scheme.value.format
    if scheme.mode is QuantMode.AFFINE:
        return row.qmax - row.qmin
    if scheme.numerics.scale_from is ScaleFrom.SIGNED_MAX:
        return -row.qmin
    if scheme.mode is QuantMode.SYMMETRIC and scheme.numerics.scale_from is ScaleFrom.RANGE:
        return row.half_range
    return largest_value(scheme)


def largest_raw_scale(x: npt.NDArray[Any], scheme: QuantScheme, *, finite: bool) -> float:
    """Return the largest raw scale of any block of an array under the rule ENDPOINTS.

    It is that of the array's own bounds; what is not finite in float32 counts for none.
    """
    row = scheme.value.format
    where: Any = True
    with np.errstate(all="ignore"):
        if not finite:
            x = x.astype(np.float32)
            where = np.isfinite(x)
        low = np.float32(np.min(x, where=where, initial=0))
        high = np.float32(np.max(x, where=where, initial=0))
        return float(np.maximum(low / np.float32(row.qmin), high / np.float32(row.qmax)))
