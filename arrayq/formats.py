"""The registry of formats: one row for every value format and every scale dtype.

Kernels, capability tables and documentation all read these rows; a new format is a new row.
The module is pure Python on purpose: it is the definition that everything else is held to.

A row is written from the fewest facts that determine it (widths, bias, the code of the largest
finite value, the special codes); everything else, the range included, follows by decoding.

Sources: integers and burn's minifloats from burn 2c06be3 and cubecl 4057f39; E4M3, E5M2 from
"FP8 Formats for Deep Learning" (arXiv 2209.05433); E3M2, E2M3, E2M1 and E8M0 from the OCP
Microscaling Formats specification v1.0; F16 and F32 from IEEE 754; UE4M3 from NVIDIA's PTX ISA.
"""

from __future__ import annotations

import enum
import functools
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from arrayq.errors import CodeError, SchemeError

__all__ = [
    "FORMATS",
    "NF4_CODEBOOK",
    "SCALE_FORMATS",
    "VALUE_FORMATS",
    "Format",
    "Kind",
    "format_of",
    "round_to_float32",
]


class Kind(enum.Enum):
    """How a code becomes a number."""

    INT = "int"
    """A two's complement integer."""
    MINIFLOAT = "minifloat"
    """A sign, an exponent and a mantissa in a few bits."""
    FIELD = "field"
    """An unsigned integer that means something only through a codebook or a zero point."""


@dataclass(frozen=True, slots=True)
class Format:
    """One row of the registry: what the codes of a format mean.

    Parameters
    ----------
    name : str
        The name in lower case, ``"q4s"``, ``"e4m3"``, ``"ue8m0"``.
    kind : Kind
        How a code becomes a number.
    bits : int
        Bits that a code takes in a packed word. UE4M3 has seven bits of information and takes
        eight; its top bit is always 0.
    signed : bool
        Whether codes for negative numbers exist.
    qmin, qmax : float
        The value range: the smallest and largest number an encoder writes. An integer format
        may leave a code unused (Q8S never writes -128), which still decodes.
    max_code : int
        The code of `qmax`.
    exponent_bits, mantissa_bits, bias : int
        The fields of a minifloat; 0 for the other kinds.
    nan_code : int or None
        The code, without sign, that an encoder writes for NaN; None where the format has no NaN.
    inf_code : int or None
        The code, without sign, of infinity; None where the format has none.
    has_zero : bool
        Whether some code means 0. Only UE8M0 lacks it, and with it all subnormals.
    native_dtype : str
        The name that array libraries give the dtype; empty where none has it.
    summary : str
        One line for the documentation.
    source : str
        Where the definition comes from.
    """

    name: str
    kind: Kind
    bits: int
    signed: bool
    qmin: float
    qmax: float
    max_code: int
    exponent_bits: int = 0
    mantissa_bits: int = 0
    bias: int = 0
    nan_code: int | None = None
    inf_code: int | None = None
    has_zero: bool = True
    native_dtype: str = ""
    summary: str = ""
    source: str = ""

    @property
    def code_mask(self) -> int:
        """The largest code; every code from 0 to this one exists."""
        if self.kind is Kind.MINIFLOAT:
            return (1 << (self.signed + self.exponent_bits + self.mantissa_bits)) - 1
        return (1 << self.bits) - 1

    @property
    def sign_mask(self) -> int:
        """The sign bit of a code; 0 where codes have no sign."""
        return (self.code_mask + 1) >> 1 if self.signed else 0

    @property
    def code_dtype(self) -> str:
        """The dtype of an array of bare codes: int8 for integers, else unsigned."""
        if self.kind is Kind.INT:
            return "int8"
        return f"uint{max(8, self.bits)}"

    @property
    def half_range(self) -> float:
        """Half of the width of the value range, ``(qmax - qmin) / 2``.

        burn's scale is ``range / half_range``, with ``range`` the largest magnitude seen.
        """
        return (self.qmax - self.qmin) / 2

    @property
    def largest_exponent(self) -> int:
        """The exponent of the largest magnitude, ``floor(log2(max(|qmin|, |qmax|)))``.

        This is emax of the OCP Microscaling specification, section 6.3.
        """
        return math.frexp(max(abs(self.qmin), abs(self.qmax)))[1] - 1

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number of full precision; 1 for integers and fields."""
        if self.kind is not Kind.MINIFLOAT:
            return 1.0
        return math.ldexp(1.0, int(self.has_zero) - self.bias)

    @property
    def smallest_positive(self) -> float:
        """The smallest positive number; subnormal where the format has subnormals."""
        if not self.has_zero:
            return self.smallest_normal
        return math.ldexp(self.smallest_normal, -self.mantissa_bits)

    @property
    def saturates_above(self) -> float:
        """The smallest float32 whose code before clamping lies above the range.

        An element ``v`` counts as saturated when ``v >= saturates_above`` or
        ``v <= saturates_below``. Integers round half away from zero, so ``qmax + 0.5`` leaves
        the range. Minifloats round half to even: the midpoint above `qmax` leaves it exactly
        when the code of `qmax` is odd. UE8M0 rounds half up.
        """
        if self.kind is not Kind.MINIFLOAT:
            return self.qmax + 0.5
        ulp = math.ldexp(1.0, self.largest_exponent - self.mantissa_bits)
        midpoint = self.qmax + ulp / 2
        tie_leaves = self.max_code % 2 == 1 or not self.has_zero
        return midpoint if tie_leaves else _next_float32(midpoint)

    @property
    def saturates_below(self) -> float:
        """The largest float32 whose code before clamping lies below the range.

        Minus infinity for the unsigned scale dtypes: a negative scale is refused, not clamped.
        """
        if self.kind is not Kind.MINIFLOAT:
            return self.qmin - 0.5
        return -self.saturates_above if self.signed else -math.inf

    @property
    def values(self) -> tuple[float, ...]:
        """The number that each code means, indexed by the code as an unsigned field.

        Raises
        ------
        SchemeError
            The format has more than 8 bits, and the table would be too long to be of use.
        """
        return _table(self)

    def value_of(self, code: int) -> float:
        """Return the number that `code` means.

        Parameters
        ----------
        code : int
            The code as an unsigned field: 0xF, not -1, is the last code of Q4S.

        Raises
        ------
        CodeError
            The code has bits outside its format.
        """
        if not 0 <= code <= self.code_mask:
            raise CodeError(
                f"{self.name} requires a code from 0 to {self.code_mask:#x}, got {code:#x}; "
                f"mask negative codes with & {self.code_mask:#x}"
            )
        if self.kind is Kind.MINIFLOAT:
            magnitude = _decode_magnitude(self, code & ~self.sign_mask)
            return -magnitude if code & self.sign_mask else magnitude
        return float(code - 2 * (code & self.sign_mask))


def _decode_magnitude(row: Format, magnitude: int) -> float:
    """Decode a minifloat code without sign; codes above the largest are infinity or NaN."""
    if magnitude > row.max_code:
        return math.inf if magnitude == row.inf_code else math.nan
    hidden_bit = 1 << row.mantissa_bits
    exponent, mantissa = divmod(magnitude, hidden_bit)
    if exponent == 0 and row.has_zero:
        return math.ldexp(mantissa, 1 - row.bias - row.mantissa_bits)
    return math.ldexp(hidden_bit + mantissa, exponent - row.bias - row.mantissa_bits)


@functools.cache
def _table(row: Format) -> tuple[float, ...]:
    if row.bits > 8:
        raise SchemeError(
            f"a table of values requires a format of at most 8 bits, got {row.name} with "
            f"{row.bits}; decode its codes one by one with value_of"
        )
    return tuple(row.value_of(code) for code in range(row.code_mask + 1))


def round_to_float32(number: float) -> float:
    """Round to the nearest float32, ties to even; beyond the largest one, to infinity."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def _next_float32(number: float) -> float:
    """Return the float32 above a positive float32."""
    bits: int = struct.unpack("<I", struct.pack("<f", number))[0]
    above: float = struct.unpack("<f", struct.pack("<I", bits + 1))[0]
    return above


def _integer(name: str, bits: int, qmin: int, qmax: int, summary: str) -> Format:
    return Format(
        name,
        Kind.INT,
        bits,
        signed=True,
        qmin=float(qmin),
        qmax=float(qmax),
        max_code=qmax,
        native_dtype=f"int{bits}",
        summary=summary,
        source="burn QuantValue",
    )


def _field(bits: int) -> Format:
    largest = (1 << bits) - 1
    return Format(
        f"u{bits}",
        Kind.FIELD,
        bits,
        signed=False,
        qmin=0.0,
        qmax=float(largest),
        max_code=largest,
        native_dtype=f"uint{bits}" if bits in (2, 4, 8) else "",
        summary=f"unsigned {bits}-bit field: 0 to {largest}, or an index into a codebook",
        source="arrayq",
    )


def _minifloat(
    name: str,
    bits: int,
    exponent_bits: int,
    mantissa_bits: int,
    bias: int,
    max_code: int,
    native_dtype: str,
    *,
    summary: str,
    source: str,
    signed: bool = True,
    has_zero: bool = True,
    nan_code: int | None = None,
    inf_code: int | None = None,
) -> Format:
    rangeless = Format(
        name,
        Kind.MINIFLOAT,
        bits,
        signed,
        qmin=0.0,
        qmax=0.0,
        max_code=max_code,
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
        bias=bias,
        nan_code=nan_code,
        inf_code=inf_code,
        has_zero=has_zero,
        native_dtype=native_dtype,
        summary=summary,
        source=source,
    )
    qmax = rangeless.value_of(max_code)
    return replace(rangeless, qmin=-qmax if signed else rangeless.value_of(0), qmax=qmax)


_FP8 = "FP8 Formats for Deep Learning, arXiv 2209.05433"
_OCP_MX = "OCP Microscaling Formats (MX) Specification v1.0"
_IEEE = "IEEE 754"

# fmt: off
_VALUE_ROWS: Final = (
    _integer("q8f", 8, -128, 127, "8-bit integer, full range"),
    _integer("q8s", 8, -127, 127, "8-bit integer, symmetric range"),
    _integer("q4f", 4, -8, 7, "4-bit integer, full range"),
    _integer("q4s", 4, -7, 7, "4-bit integer, symmetric range"),
    _integer("q2f", 2, -2, 1, "2-bit integer, full range"),
    _integer("q2s", 2, -1, 1, "2-bit integer, symmetric range: ternary"),
    _minifloat("e4m3", 8, 4, 3, 7, 0x7E, "float8_e4m3fn", nan_code=0x7F,
               summary="8-bit float E4M3FN: largest 448, no infinity", source=_FP8),
    _minifloat("e5m2", 8, 5, 2, 15, 0x7B, "float8_e5m2", nan_code=0x7F, inf_code=0x7C,
               summary="8-bit float E5M2: largest 57344, IEEE-like", source=_FP8),
    _minifloat("e3m2", 6, 3, 2, 3, 0x1F, "float6_e3m2fn",
               summary="6-bit float E3M2FN: largest 28, no NaN", source=_OCP_MX),
    _minifloat("e2m3", 6, 2, 3, 1, 0x1F, "float6_e2m3fn",
               summary="6-bit float E2M3FN: largest 7.5, no NaN", source=_OCP_MX),
    _minifloat("e2m1", 4, 2, 1, 1, 0x7, "float4_e2m1fn",
               summary="4-bit float E2M1FN: largest 6, no NaN", source=_OCP_MX),
    *(_field(bits) for bits in range(1, 9)),
)

_SCALE_ROWS: Final = (
    _minifloat("f32", 32, 8, 23, 127, 0x7F7FFFFF, "float32", nan_code=0x7FC00000,
               inf_code=0x7F800000,
               summary="32-bit float, binary32", source=_IEEE),
    _minifloat("f16", 16, 5, 10, 15, 0x7BFF, "float16", nan_code=0x7E00, inf_code=0x7C00,
               summary="16-bit float, binary16: largest 65504", source=_IEEE),
    _minifloat("bf16", 16, 8, 7, 127, 0x7F7F, "bfloat16", nan_code=0x7FC0, inf_code=0x7F80,
               summary="16-bit float, the upper half of a binary32", source="bfloat16"),
    _minifloat("ue8m0", 8, 8, 0, 127, 0xFE, "float8_e8m0fnu", signed=False, has_zero=False,
               nan_code=0xFF,
               summary="a power of two from 2^-127 to 2^127; no zero, no sign", source=_OCP_MX),
    _minifloat("ue4m3", 8, 4, 3, 7, 0x7E, "float8_e4m3fn", signed=False, nan_code=0x7F,
               summary="E4M3 without its sign: 0 to 448", source="NVIDIA PTX ISA"),
)
# fmt: on

VALUE_FORMATS: Final[tuple[str, ...]] = tuple(row.name for row in _VALUE_ROWS)
"""The names of the formats that elements are encoded in."""

SCALE_FORMATS: Final[tuple[str, ...]] = tuple(row.name for row in _SCALE_ROWS)
"""The names of the formats that scales are stored in."""

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {row.name: row for row in (*_VALUE_ROWS, *_SCALE_ROWS)}
)
"""Every format by its name."""

# QLoRA, arXiv 2305.14314, appendix E, as float32 in bitsandbytes 0.50.2: the quantiles of a
# normal distribution, scaled to [-1, 1], with an exact 0.
NF4_CODEBOOK: Final[tuple[float, ...]] = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""The value of each NF4 code, for a block whose largest magnitude is 1."""


def format_of(name: str) -> Format:
    """Return the row called `name`.

    Parameters
    ----------
    name : str
        A name of `FORMATS`, in lower or upper case.

    Raises
    ------
    SchemeError
        No format has that name.
    """
    row = FORMATS.get(name.lower()) if isinstance(name, str) else None
    if row is None:
        raise SchemeError(f"a format requires one of {', '.join(FORMATS)}, got {name!r}")
    return row
