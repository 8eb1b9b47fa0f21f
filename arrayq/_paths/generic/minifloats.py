"""Numbers of a minifloat format and their codes: elements, scales and zero points alike.

A magnitude is ``significand * 2**(exponent - M)`` with M bits of mantissa; counted up from the
lowest binade, its code is ``offset * 2**M + significand`` (a significand of ``2**(M + 1)``, rounded
up to, is the carry into the next binade). Codes are whole float32 numbers until they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from arrayq._paths.generic.binades import power_of_offset, split_binade
from arrayq._paths.generic.guards import power_of_two
from arrayq._paths.space import Array, Space
from arrayq.formats import Format

__all__ = ["code_of_magnitude", "number_of_code"]

_FEW_BINADES = 4


def _first_exponent(row: Format) -> int:
    """Return the exponent of the smallest normal number."""
    return math.frexp(row.smallest_normal)[1] - 1


def code_of_magnitude(
    space: Space,
    magnitude: Array,
    row: Format,
    round_steps: Callable[[Array], Array],
    *,
    alike: bool = True,
) -> Array:
    """Return the code of each magnitude, saturating at the largest finite number.

    Parameters
    ----------
    space : Space
        Where to compute.
    magnitude : float32 array
        Numbers of at least 0; NaN gives a number that means nothing.
    row : Format
        A minifloat format with a zero.
    round_steps : callable
        Rounds magnitudes in units of the spacing of their binade to whole numbers.
    alike : bool
        Whether larger numbers never round to smaller ones.

    Returns
    -------
    float32 array
        Whole numbers.
    """
    first = _first_exponent(row)
    in_binade = 2.0**row.mantissa_bits
    if alike and row.largest_exponent - first < _FEW_BINADES:
        return _least_code(space, magnitude, row, round_steps)
    magnitude = space.minimum(magnitude, row.qmax)
    offset, significand = split_binade(space, magnitude, first, row.largest_exponent)
    return round_steps(significand * in_binade) + offset * in_binade


def _least_code(
    space: Space, magnitude: Array, row: Format, round_steps: Callable[[Array], Array]
) -> Array:
    """Return codes as the least of those that the binades of a format would give.

    Codes rise linearly in a binade, more steeply the lower it is, and those of neighbours meet
    where one ends: in a binade that is not its own a number gets a code that is not less.
    """
    first = _first_exponent(row)
    least: Array = float(row.max_code)
    for place in range(row.largest_exponent - first + 1):
        code = round_steps(magnitude * 2.0 ** (row.mantissa_bits - first - place))
        code = code + float(place << row.mantissa_bits)
        least = space.where(code < least, code, least)
    return least


def number_of_code(space: Space, code: Array, row: Format) -> Array:
    """Return the number that each code means, exactly.

    Parameters
    ----------
    space : Space
        Where to compute.
    code : int32 array
        Codes of the format, as unsigned integers; those of a format of 8 bits are looked up.
    row : Format
        A minifloat format with a zero.

    Returns
    -------
    float32 array
        Numbers; infinity and NaN for the codes of those.
    """
    if row.bits <= 8:
        return space.taken(row.values, code)
    first = _first_exponent(row)
    hidden = 1 << row.mantissa_bits
    magnitude = code & (row.code_mask ^ row.sign_mask)
    exponent = magnitude >> row.mantissa_bits
    normal = exponent != 0
    mantissa = magnitude & (hidden - 1)
    significand = space.cast(space.where(normal, mantissa + hidden, mantissa), "float32")
    offset = space.where(normal, exponent - 1, exponent)
    # one more than the largest finite exponent: what is made of it is replaced below
    power = power_of_offset(space, offset, first, row.largest_exponent)
    number = power_of_two(space, significand, -row.mantissa_bits) * power
    if row.max_code < row.code_mask ^ row.sign_mask:
        special = math.nan
        if row.inf_code is not None:
            special = space.where(magnitude == row.inf_code, math.inf, math.nan)
        number = space.where(magnitude > row.max_code, special, number)
    if row.sign_mask:
        number = space.where((code & row.sign_mask) != 0, -number, number)
    return number
