"""Element formats: the value of every code and the code of every value.

Sources: IEEE 754 (f16, f32), the OCP 8-bit floating point specification (E4M3,
E5M2), the OCP Microscaling specification 1.0 (E3M2, E2M3, E2M1, E8M0), burn's
integer ranges. A code is its unsigned bit field.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import floor_log2
from .rounding import goes_up, to_whole

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Integer:
    """A two's complement (or, when ``low`` is 0, unsigned) integer range."""

    width: int
    low: int
    high: int


@dataclass(frozen=True)
class Minifloat:
    """A binary float. ``special`` names how its top exponent is used.

    ``ieee``: infinity and NaN as in IEEE 754; ``fn``: only the all-ones code is
    NaN; ``none``: every code is a finite number.
    """

    exponent: int
    mantissa: int
    bias: int
    special: str
    signed: bool = True
    nan: int | None = None

    @property
    def width(self) -> int:
        return self.signed + self.exponent + self.mantissa


@dataclass(frozen=True)
class PowerOfTwo:
    """E8M0: code c means 2**(c - 127), 255 means NaN; no zero and no sign."""

    width: int = 8


Element = Integer | Minifloat | PowerOfTwo

ELEMENTS: dict[str, Element] = {
    "q8f": Integer(8, -128, 127),
    "q8s": Integer(8, -127, 127),
    "q4f": Integer(4, -8, 7),
    "q4s": Integer(4, -7, 7),
    "q2f": Integer(2, -2, 1),
    "q2s": Integer(2, -1, 1),
    "e4m3": Minifloat(4, 3, 7, "fn", nan=0x7F),
    "e5m2": Minifloat(5, 2, 15, "ieee", nan=0x7F),
    "e2m1": Minifloat(2, 1, 1, "none"),
    "e3m2": Minifloat(3, 2, 3, "none"),
    "e2m3": Minifloat(2, 3, 1, "none"),
    "ue4m3": Minifloat(4, 3, 7, "fn", signed=False, nan=0x7F),
    "f16": Minifloat(5, 10, 15, "ieee", nan=0x7E00),
    "bf16": Minifloat(8, 7, 127, "ieee", nan=0x7FC0),
    "f32": Minifloat(8, 23, 127, "ieee", nan=0x7FC00000),
    "ue8m0": PowerOfTwo(),
}
ELEMENTS |= {f"u{bits}": Integer(bits, 0, 2**bits - 1) for bits in range(1, 9)}

# The sixteen quantiles published with QLoRA, as bitsandbytes ships them.
NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


def value_of(element: Element, code: int) -> float:
    """Return the number that a code means, by definition."""
    if isinstance(element, Integer):
        if element.low < 0 and code >= 2 ** (element.width - 1):
            return float(code - 2**element.width)
        return float(code)
    if isinstance(element, PowerOfTwo):
        return math.nan if code == 255 else 2.0 ** (code - 127)
    sign = -1.0 if element.signed and code >> (element.width - 1) else 1.0
    exponent = (code >> element.mantissa) % 2**element.exponent
    fraction = code % 2**element.mantissa
    top = exponent == 2**element.exponent - 1
    if element.special == "ieee" and top:
        return math.nan if fraction else sign * math.inf
    if element.special == "fn" and top and fraction == 2**element.mantissa - 1:
        return math.nan
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - element.bias - element.mantissa)
    significand = 2**element.mantissa + fraction
    return sign * math.ldexp(significand, exponent - element.bias - element.mantissa)


@cache
def magnitudes(name: str) -> tuple[float, ...]:
    """Return the finite values of the codes 0, 1, 2, ... of a minifloat (sign bit clear)."""
    element = ELEMENTS[name]
    assert isinstance(element, Minifloat)
    values = (value_of(element, code) for code in range(2 ** (element.width - element.signed)))
    return tuple(value for value in values if math.isfinite(value))


def halfway(low: float, high: float) -> float:
    """Return the midpoint of two values; every narrow format has it exactly in float64."""
    exact = (Fraction(low) + Fraction(high)) / 2
    assert Fraction(float(exact)) == exact
    return float(exact)


@cache
def midpoints(name: str) -> npt.NDArray[np.float64]:
    """Return the points between neighbouring magnitudes, and the one above the largest."""
    values = magnitudes(name)
    beyond = values[-1] + (values[-1] - values[-2])
    return np.array([halfway(a, b) for a, b in zip(values, (*values[1:], beyond), strict=True)])


def decision_points(name: str) -> list[float]:
    """Return every float64 at which the code of a value format changes, both signs."""
    element = ELEMENTS[name]
    if isinstance(element, Integer):
        return [code + 0.5 for code in range(element.low - 1, element.high + 1)]
    if isinstance(element, PowerOfTwo):
        return [1.5 * 2.0 ** (code - 127) for code in range(1, 255)] + [2.0**-127]
    points = [float(point) for point in midpoints(name)]
    return points + [-point for point in points] if element.signed else points


def decode_codes(codes: Any, name: str) -> npt.NDArray[np.float32]:
    """Return the float32 values of codes."""
    element = ELEMENTS[name]
    fields = np.asarray(codes).astype(np.int64) % 2**element.width
    table = {code: value_of(element, code) for code in set(fields.ravel().tolist())}
    values = [table[code] for code in fields.ravel().tolist()]
    return np.array(values, np.float32).reshape(fields.shape)


def encode_values(
    x: Any,
    name: str,
    *,
    overflow: str = "saturate",
    nan: int | None = None,
    negative_zero: str = "keep",
    nonpositive: str = "magnitude",
    rounding: str | None = None,
    drawn: Any = None,
) -> Codes:
    """Return the codes (unsigned fields) of float32 values; NaN needs a code.

    Without ``rounding`` integers round half away and minifloats half to even. ``drawn`` are the
    uniform numbers of the stochastic rule.
    """
    element = ELEMENTS[name]
    # A signalling NaN warns when it is widened.
    with np.errstate(invalid="ignore"):
        values = np.asarray(x, np.float32).astype(np.float64)
    if isinstance(element, Integer):
        return _encode_integer(values, element, nan, rounding or "half_away", drawn)
    if isinstance(element, PowerOfTwo):
        return _encode_power(values, overflow, nan, nonpositive)
    if name == "f32":
        return _encode_float32(values, overflow, nan, negative_zero)
    codes = _nearby_magnitudes(values, name, rounding or "half_even", drawn)
    return _finish_minifloat(values, codes, name, element, overflow, nan, negative_zero)


def _encode_integer(
    values: npt.NDArray[np.float64], element: Integer, nan: int | None, rounding: str, drawn: Any
) -> Codes:
    missing = np.isnan(values)
    if missing.any() and nan is None:
        raise ValueError("an integer has no code for NaN")
    whole = to_whole(np.where(missing, 0.0, values), rounding, drawn)
    fields = np.clip(whole, element.low, element.high).astype(np.int64) % 2**element.width
    return np.where(missing, nan or 0, fields)


def _nearby_magnitudes(
    values: npt.NDArray[np.float64], name: str, rounding: str, drawn: Any
) -> Codes:
    """Return the codes of rounded magnitudes; the code above the largest says overflow."""
    finite = magnitudes(name)
    points = np.array([*finite, 2 * finite[-1] - finite[-2]])
    magnitude = np.minimum(np.nan_to_num(np.abs(values), nan=0.0, posinf=points[-1]), points[-1])
    below = np.searchsorted(points, magnitude, side="right") - 1
    above = np.minimum(below + 1, len(finite))
    step = np.where(above > below, points[above] - points[below], 1.0)
    rest = (magnitude - points[below]) / step
    ties = {
        "half_even": below % 2 == 1,
        "half_up": ~np.signbit(values),
        "half_away": True,
        "half_to_zero": False,
    }
    return np.asarray(below + goes_up(rest, rounding, ties, drawn))


def _finish_minifloat(
    values: npt.NDArray[np.float64],
    codes: Codes,
    name: str,
    element: Minifloat,
    overflow: str,
    nan: int | None,
    negative_zero: str,
) -> Codes:
    missing = np.isnan(values)
    code_of_nan = element.nan if nan is None else nan
    if missing.any() and code_of_nan is None:
        raise ValueError(f"{name} has no code for NaN")
    largest = len(magnitudes(name)) - 1
    sign_bit = 2 ** (element.width - 1) if element.signed else 0
    beyond = codes > largest
    replacement = {
        "saturate": largest,
        "nan": element.nan,
        "inf": largest + 1 if element.special == "ieee" else None,
    }[overflow]
    if beyond.any() and replacement is None:
        raise ValueError(f"{name} has no code for {overflow}")
    codes = np.where(beyond, replacement or 0, codes)
    negative = np.signbit(values)
    if negative_zero == "drop":
        negative &= values != 0
    if not element.signed:
        codes = np.where(negative & ~missing, 0, codes)
    keeps_sign = sign_bit if element.nan is not None else 0
    codes = codes + np.where(negative, sign_bit, 0)
    return np.where(missing, (code_of_nan or 0) + np.where(negative, keeps_sign, 0), codes)


def _encode_power(
    values: npt.NDArray[np.float64], overflow: str, nan: int | None, nonpositive: str
) -> Codes:
    code_of_nan = 255 if nan is None else nan
    codes = []
    for value in values.ravel().tolist():
        magnitude = abs(value)
        if math.isnan(value) or (nonpositive == "nan" and math.copysign(1.0, value) < 0):
            codes.append(code_of_nan)
        elif magnitude == 0.0:
            codes.append(code_of_nan if nonpositive == "nan" else 0)
        elif magnitude < 2.0**-126:
            codes.append(1 if magnitude > 2.0**-127 else 0)
        elif math.isinf(magnitude):
            codes.append(255 if overflow == "nan" else 254)
        else:
            exponent = floor_log2(Fraction(magnitude))
            code = exponent + 127 + (magnitude / 2.0**exponent >= 1.5)
            codes.append(code if code < 255 or overflow == "nan" else 254)
    return np.array(codes, np.int64).reshape(values.shape)


def _encode_float32(
    values: npt.NDArray[np.float64], overflow: str, nan: int | None, negative_zero: str
) -> Codes:
    narrow = values.astype(np.float32)
    if negative_zero == "drop":
        narrow = np.where(narrow == 0, np.float32(0), narrow)
    codes = np.ascontiguousarray(narrow).view(np.uint32).astype(np.int64)
    sign = codes & 0x80000000
    beyond = {"saturate": 0x7F7FFFFF, "nan": 0x7FC00000, "inf": 0x7F800000}[overflow]
    codes = np.where(np.isinf(values), beyond | sign, codes)
    return np.where(np.isnan(values), (0x7FC00000 if nan is None else nan) | sign, codes)


def nearest_entry(v: Any, table: tuple[float, ...]) -> Codes:
    """Return the index of the table entry nearest to each value, in exact arithmetic.

    A tie goes to the lower value; among equal entries the lowest index wins.
    """
    entries = sorted(set(table))
    lowest_index = [table.index(entry) for entry in entries]
    points = [(Fraction(a) + Fraction(b)) / 2 for a, b in itertools.pairwise(entries)]
    values = np.asarray(v, np.float64)
    distinct, where = np.unique(values, return_inverse=True)
    found = [lowest_index[_entry(value, points)] for value in distinct.tolist()]
    return np.array(found, np.int64)[where].reshape(values.shape)


def _entry(value: float, points: list[Fraction]) -> int:
    if math.isinf(value):
        return 0 if value < 0 else len(points)
    return bisect.bisect_left(points, Fraction(value))
