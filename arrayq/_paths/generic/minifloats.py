"""Numbers of a minifloat format and their codes: elements, scales and zero points alike.

A magnitude is ``significand * 2**(exponent - M)`` with M bits of mantissa; counted up from the
lowest binade, its code is ``offset * 2**M + significand`` (a significand of ``2**(M + 1)``, rounded
up to, is the carry into the next binade). Codes are whole float32 numbers until they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from arrayq._paths.generic.binades import power_of_offset, reduce_to_binade
from arrayq._paths.generic.guards import power_of_two
from arrayq._paths.space import Array, Space
from arrayq.formats import Format

__all__ = ["code_of_magnitude", "number_of_code"]


def _first_exponent(row: Format) -> int:
    """Return the exponent of the smallest normal number."""
    return math.frexp(row.smallest_normal)[1] - 1


def code_of_magnitude(
    space: Space, magnitude: Array, row: Format, round_steps: Callable[[Array], Array]
) -> Array:
    """Return the code of each magnitude, saturating at the largest finite number.

    Parameters
    ----------
    space : Space
        Where to compute.
    magnitude : float32 array
        Numbers of at least 0.
    row : Format
        A minifloat format with a zero.
    round_steps : callable
        Rounds magnitudes in units of the spacing of their binade to whole numbers.

    Returns
    -------
    float32 array
        Whole numbers.
    """
    first = _first_exponent(row)
    magnitude = space.where(magnitude < row.qmax, magnitude, row.qmax)
    offset, reduced = reduce_to_binade(space, magnitude, first, row.largest_exponent)
    steps = round_steps(power_of_two(space, reduced, row.mantissa_bits - first))
    return steps + offset * 2.0**row.mantissa_bits


def number_of_code(space: Space, code: Array, row: Format) -> Array:
    """Return the number that each code means, exactly.

    Parameters
    ----------
    space : Space
        Where to compute.
    code : int32 array
        Codes of the format, as unsigned integers.
    row : Format
        A minifloat format with a zero.

    Returns
    -------
    float32 array
        Numbers; infinity and NaN for the codes of those.
    """
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
