"""Float32 arithmetic with one rounding per operation.

``round_to_float32`` is the specification: the exact rational result, rounded
once to nearest with ties to even, subnormals and overflow included. The array
functions below it use numpy's float32 division and multiplication, which IEEE
754 requires to be rounded in exactly that way; ``test_oracle_itself`` compares
the two.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

FLOAT32_PRECISION = 24
FLOAT32_SMALLEST_EXPONENT = -149
FLOAT32_LARGEST = (2 - Fraction(1, 2**23)) * 2**127


def floor_log2(magnitude: Fraction) -> int:
    """Return the exponent e with 2**e <= magnitude < 2**(e + 1)."""
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= magnitude else exponent - 1


def half_even(ratio: Fraction) -> int:
    """Round a non-negative rational to an integer, ties to even."""
    whole, rest = divmod(ratio.numerator, ratio.denominator)
    twice = 2 * rest
    if twice > ratio.denominator or (twice == ratio.denominator and whole % 2):
        return whole + 1
    return whole


def round_to_float32(exact: Fraction, *, negative_zero: bool = False) -> float:
    """Round an exact rational to float32, ties to even, overflow to infinity."""
    if exact == 0:
        return -0.0 if negative_zero else 0.0
    sign = -1.0 if exact < 0 else 1.0
    magnitude = abs(exact)
    exponent = max(floor_log2(magnitude) - FLOAT32_PRECISION + 1, FLOAT32_SMALLEST_EXPONENT)
    quantum = Fraction(2) ** exponent
    rounded = half_even(magnitude / quantum) * quantum
    if rounded > FLOAT32_LARGEST:
        return sign * math.inf
    return sign * float(rounded)


def divide_exactly(x: float, y: float) -> float:
    """Return the float32 quotient of two finite float32 values, ``y`` not zero."""
    negative = math.copysign(1.0, x) * math.copysign(1.0, y) < 0
    return round_to_float32(Fraction(x) / Fraction(y), negative_zero=negative)


def multiply_exactly(x: float, y: float) -> float:
    """Return the float32 product of two finite float32 values."""
    negative = math.copysign(1.0, x) * math.copysign(1.0, y) < 0
    return round_to_float32(Fraction(x) * Fraction(y), negative_zero=negative)


def divide(x: Any, y: Any) -> Floats:
    """Return the float32 quotient, element by element."""
    with np.errstate(all="ignore"):
        return np.asarray(np.asarray(x, np.float32) / np.asarray(y, np.float32))


def multiply(x: Any, y: Any) -> Floats:
    """Return the float32 product, element by element."""
    with np.errstate(all="ignore"):
        return np.asarray(np.asarray(x, np.float32) * np.asarray(y, np.float32))


def add(x: Any, y: Any) -> Floats:
    """Return the float32 sum, element by element."""
    with np.errstate(all="ignore"):
        return np.asarray(np.asarray(x, np.float32) + np.asarray(y, np.float32))


def subtract(x: Any, y: Any) -> Floats:
    """Return the float32 difference, element by element."""
    with np.errstate(all="ignore"):
        return np.asarray(np.asarray(x, np.float32) - np.asarray(y, np.float32))


def to_float32(x: Any) -> Floats:
    """Widen 16-bit floats exactly and round float64 once, in native byte order."""
    array = np.asarray(x)
    with np.errstate(all="ignore"):
        return array.astype(array.dtype.newbyteorder("=")).astype(np.float32)


def narrow(x: float) -> float:
    """Round a Python float (a float64) once to float32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)
