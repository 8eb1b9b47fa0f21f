"""Arrays in CPU memory, through the compiled kernels, without a copy."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from arrayq._paths.memory import allocate, empty_host
from arrayq._paths.parts import Met, Policy, Stored
from arrayq._paths.prepared import (
    ELEMENT_KINDS,
    Dequantization,
    Quantization,
    dequantization,
    quantization,
)
from arrayq.layout import Plan
from arrayq.numerics import Calibration

__all__ = [
    "ELEMENT_KINDS",
    "Dequantization",
    "Met",
    "Policy",
    "Quantization",
    "Stored",
    "allocate",
    "dequantization",
    "dequantize",
    "empty_host",
    "largest_range",
    "quantization",
    "quantize",
]

Array = npt.NDArray[Any]


def quantize(
    x: Array,
    plan: Plan,
    calibration: Calibration,
    policy: Policy,
    threads: int,
    stored: Stored,
    *,
    encode: bool = True,
    scaled: bool = False,
    tensor_scaled: bool = False,
    dtype: str | None = None,
) -> Met:
    """Scales and codes of an array, into `stored`.

    Parameters
    ----------
    x : ndarray of shape plan.shape
        float16, float32, float64 or bfloat16, any strides and byte order.
    plan : Plan
        Its layout.
    calibration : Calibration
        How the elements of a block give its range.
    policy : Policy
        What to do about NaN and infinities; under RAISE, and under SATURATE when a NaN is met,
        the pass stops and `stored` is left unfinished.
    threads : int
        Threads to use.
    stored : Stored
        Receives the result; C-contiguous and writable.
    encode : bool
        False: scales only.
    scaled : bool
        True: `stored` already holds the scales to encode against.
    tensor_scaled : bool
        True: `stored` already holds the tensor scale, that of a larger array.
    dtype : str, optional
        ``"bfloat16"`` where `x` holds the bits of such numbers as uint16; by default the dtype
        of `x`.

    Returns
    -------
    Met
        What was met.
    """
    prepared = quantization(plan, calibration, x.dtype, x.strides, dtype)
    return prepared.run(x, policy, threads, stored, encode, scaled, tensor_scaled)


def largest_range(
    x: Array, plan: Plan, calibration: Calibration, threads: int, dtype: str | None = None
) -> tuple[Met, float]:
    """What an array holds beside finite numbers, and its largest finite block range.

    The tensor scale follows from the latter, under every rule but ENDPOINTS. Parameters are those
    of :func:`quantize`, of a scheme of two levels and an array with elements.
    """
    prepared = quantization(plan, calibration, x.dtype, x.strides, dtype)
    return prepared.largest_range(x, threads)


def dequantize(
    stored: Stored, plan: Plan, out: Array, threads: int, *, dtype: str | None = None
) -> None:
    """Decode into `out`, an array of shape ``plan.shape`` in native byte order.

    Parameters
    ----------
    stored : Stored
        What to decode; any strides.
    plan : Plan
        Its layout.
    out : ndarray of shape plan.shape
        float16, float32, float64 or bfloat16, any strides.
    threads : int
        Threads to use.
    dtype : str, optional
        ``"bfloat16"`` where `out` receives the bits of such numbers as uint16; by default the
        dtype of `out`.
    """
    dequantization(plan, out.dtype, out.strides, dtype).run(stored, out, threads)
