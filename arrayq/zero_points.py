"""The zero point of an affine scheme: what it means, and how it is stored.

An affine scheme stores, beside the scale of each block, where zero lies. A `ZeroPoint` says in
which of two senses, and in which dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from arrayq.choice import Choice
from arrayq.errors import SchemeError
from arrayq.formats import FORMATS, Format, Kind
from arrayq.numerics import ScaleFrom

if TYPE_CHECKING:
    from arrayq.numerics import Numerics
    from arrayq.scheme_parts import QuantValue

__all__ = ["ZeroDtype", "ZeroKind", "ZeroPoint", "default_zero"]


class ZeroKind(Choice):
    """What a zero point is, for a code ``c`` and a scale ``s``."""

    CODE = "code"
    """The code of zero: an element is ``(c - z) * s``."""
    BIAS = "bias"
    """The number that the code 0 means: an element is ``c * s + z``."""


class ZeroDtype(Choice):
    """The dtype that zero points are stored in."""

    I8 = "i8"
    U8 = "u8"
    I32 = "i32"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"

    @property
    def is_float(self) -> bool:
        """Whether zero points are floating-point numbers rather than integers."""
        return self not in _INTEGERS

    @property
    def format(self) -> Format:
        """The row of the registry; of floating-point dtypes only."""
        return FORMATS[self.value]

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest number that can be stored."""
        return (self.format.qmin, self.format.qmax) if self.is_float else _INTEGERS[self].range

    @property
    def stored_dtype(self) -> str:
        """The dtype of stored zero points: an integer, float32, or the bits as uint16."""
        if self is ZeroDtype.F32:
            return "float32"
        return self.format.code_dtype if self.is_float else _INTEGERS[self].dtype

    @property
    def number_dtype(self) -> str:
        """The dtype of zero points as numbers: int32 for integers, else float32."""
        return "float32" if self.is_float else "int32"


@dataclass(frozen=True, slots=True)
class _Integer:
    """How an integer dtype of zero points is stored."""

    dtype: str
    range: tuple[float, float]


_INTEGERS: Final[Mapping[ZeroDtype, _Integer]] = MappingProxyType(
    {
        ZeroDtype.I8: _Integer("int8", (-128.0, 127.0)),
        ZeroDtype.U8: _Integer("uint8", (0.0, 255.0)),
        ZeroDtype.I32: _Integer("int32", (-(2.0**31), 2.0**31 - 1)),
    }
)


@dataclass(frozen=True, slots=True, init=False)
class ZeroPoint:
    """Where the zero of each block of an affine scheme lies.

    Parameters
    ----------
    kind : ZeroKind or str
        Whether it is counted in codes or in the unit of the elements.
    dtype : ZeroDtype or str
        The dtype that it is stored in.

    Raises
    ------
    SchemeError
        A bias of an integer dtype.
    """

    kind: ZeroKind
    dtype: ZeroDtype

    def __init__(self, kind: ZeroKind | str, dtype: ZeroDtype | str) -> None:
        kind = ZeroKind.of(kind, "zero point kind")
        dtype = ZeroDtype.of(dtype, "zero point dtype")
        if kind is ZeroKind.BIAS and not dtype.is_float:
            raise SchemeError(
                f"a zero point of kind bias requires dtype f32, f16 or bf16, got {dtype}; a bias "
                "is in the unit of the elements"
            )
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "dtype", dtype)

    def __str__(self) -> str:
        """Return kind and dtype."""
        return f"{self.kind} {self.dtype}"


def default_zero(
    value: QuantValue, numerics: Numerics, kind: ZeroKind | str = ZeroKind.CODE
) -> ZeroPoint:
    """Return the zero point of an affine scheme that names no dtype, or neither dtype nor kind.

    A code is stored as an integer of a byte, signed as the codes of `value` are, or as f32 where
    INVERSE_RANGE computes fractions of codes, and as i32 where a range without zero puts it
    outside the codes; a bias as f32.
    """
    kind = ZeroKind.of(kind, "zero point kind")
    if kind is ZeroKind.BIAS or numerics.scale_from is ScaleFrom.INVERSE_RANGE:
        return ZeroPoint(kind, ZeroDtype.F32)
    if not numerics.zero_in_range:
        return ZeroPoint(kind, ZeroDtype.I32)
    return ZeroPoint(kind, ZeroDtype.U8 if value.kind is Kind.FIELD else ZeroDtype.I8)
