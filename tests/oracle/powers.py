"""The rules that make a scale a power of two, by the exponent that they choose.

Sources: the OCP Microscaling specification 1.0 for ``floor``; torchao's ``to_mx`` for ``ceil``,
``even`` and ``rceil``; MLX up to 0.32.2 for ``nearest_log2``. Exact rationals decide.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction

from .arithmetic import divide, floor_log2

FLOAT32_SMALLEST_NORMAL = 2.0**-126


def _exponent_field(block: float) -> int:
    """Return floor(log2 block); float32 subnormals count as 2**-127."""
    return floor_log2(Fraction(block)) if block >= FLOAT32_SMALLEST_NORMAL else -127


def _floor(block: float, emax: int, mantissa: int, largest: float) -> int:
    return _exponent_field(block) - emax


def _ceil(block: float, emax: int, mantissa: int, largest: float) -> int:
    exponent = _exponent_field(block)
    exponent += Fraction(block) != Fraction(2) ** exponent
    return exponent - emax


def _even(block: float, emax: int, mantissa: int, largest: float) -> int:
    (bits,) = struct.unpack("<I", struct.pack("<f", block))
    return int((bits + 2 ** (22 - mantissa)) >> 23) - 127 - emax


def _rceil(block: float, emax: int, mantissa: int, largest: float) -> int:
    ratio = float(divide(block, largest))
    if ratio == 0.0 or ratio == float("inf"):
        return -999 if ratio == 0.0 else 999
    exponent = floor_log2(Fraction(ratio))
    return exponent + (Fraction(ratio) > Fraction(2) ** exponent)


def _nearest_log2(block: float, emax: int, mantissa: int, largest: float) -> int:
    ratio = float(divide(block, largest))
    if ratio == 0.0 or ratio == float("inf"):
        return -999 if ratio == 0.0 else 999
    exponent = floor_log2(Fraction(ratio))
    significand = Fraction(ratio) / Fraction(2) ** exponent
    return exponent + (significand**2 >= 2)


RULES: dict[str, Callable[[float, int, int, float], int]] = {
    "floor": _floor,
    "ceil": _ceil,
    "even": _even,
    "rceil": _rceil,
    "nearest_log2": _nearest_log2,
}


def power_scale(
    rule: str, block: float, *, largest: float, magnitude: float, mantissa: int, lowest: int = -127
) -> float:
    """Return the power of two of a block whose range is not zero.

    ``largest`` is the largest number of the element, ``magnitude`` its largest magnitude,
    ``mantissa`` its mantissa bits, ``lowest`` the smallest exponent of the scale's dtype.
    """
    emax = floor_log2(Fraction(magnitude))
    exponent = RULES[rule](block, emax, mantissa, largest)
    return 2.0 ** min(max(exponent, lowest), 127)
