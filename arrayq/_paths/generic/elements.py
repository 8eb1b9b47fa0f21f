"""Elements into codes and back: what a scheme's value format does to one number."""

from __future__ import annotations

import math
from functools import lru_cache

from arrayq._paths.generic.guards import computed_once, is_negative
from arrayq._paths.generic.minifloats import code_of_magnitude
from arrayq._paths.generic.rounding import round_magnitude
from arrayq._paths.space import Array, Space
from arrayq.edges import nearest_edges
from arrayq.formats import Kind
from arrayq.scheme import QuantMode, QuantScheme

__all__ = [
    "codes_of_table",
    "fields_of_minifloats",
    "fields_of_whole",
    "numbers_of_fields",
    "sign_extend",
]

_COUNTED_EDGES = 15
"""Up to this many, edges are compared with one after the other; more are searched."""


# Integers.


def fields_of_whole(space: Space, whole: Array, scheme: QuantScheme) -> Array:
    """Return codes that are whole float32 numbers as int8, or as unsigned fields."""
    if scheme.data_dtype == "int8":
        return space.cast(whole, "int8")
    if scheme.value.format.signed:
        whole = space.where(whole < 0.0, whole + 2.0**scheme.value.bits, whole)
    return space.cast(_as_packed(space, whole, scheme), "uint8")


def sign_extend(space: Space, fields: Array, bits: int) -> Array:
    """Return unsigned fields as the two's complement numbers that they are, int8."""
    wide = space.cast(fields, "int32")
    sign = 1 << (bits - 1)
    return space.cast((wide ^ sign) - sign, "int8")


# Minifloats.


def fields_of_minifloats(
    space: Space, quotients: Array, scheme: QuantScheme, uniform: Array | None
) -> Array:
    """Return the codes of quotients, uint8, saturating.

    Parameters
    ----------
    space : Space
        Where to compute.
    quotients : float32 array
        Elements over their scales.
    scheme : QuantScheme
        A scheme with a minifloat value.
    uniform : float32 array or None
        Random numbers for the stochastic rule.
    """
    row, rule = scheme.value.format, scheme.rounding
    magnitude, negative = space.xp.abs(quotients), is_negative(space, quotients)

    def round_steps(steps: Array) -> Array:
        return round_magnitude(space, steps, negative, rule, uniform)

    code = code_of_magnitude(space, magnitude, row, round_steps, alike=uniform is None)
    code = space.where(negative, code + float(row.sign_mask), code)
    return space.cast(_as_packed(space, code, scheme), "uint8")


def _as_packed(space: Space, codes: Array, scheme: QuantScheme) -> Array:
    """Return whole float32 codes, computed before they are taken apart and packed."""
    return computed_once(space, codes) if scheme.store.is_packed else codes


# Tables.


@lru_cache(maxsize=256)
def _edges_of(codebook: tuple[float, ...]) -> tuple[list[float], list[int]]:
    return nearest_edges(codebook)


def codes_of_table(space: Space, quotients: Array, codebook: tuple[float, ...]) -> Array:
    """Return the code of the nearest entry, uint8; halfway, of the lower one.

    The place of a number among the sorted entries is the count of edges below it.
    """
    edges, order = _edges_of(codebook)
    if len(edges) <= _COUNTED_EDGES:
        place = space.full(quotients.shape, 0, "uint8")
        for edge in edges:
            place = place + space.cast(quotients > edge, "uint8")
    else:
        place = _searched(space, quotients, edges)
    if order == list(range(len(order))):
        return space.cast(place, "uint8")
    return space.taken(order, place, "uint8")


def _searched(space: Space, x: Array, edges: list[float]) -> Array:
    """Return how many of up to 255 ascending edges lie below each number, bit by bit."""
    table = [*edges, *[math.inf] * (255 - len(edges))]
    place = space.full(x.shape, 0, space.index_integer)
    for step in (128, 64, 32, 16, 8, 4, 2, 1):
        above = x > space.taken(table, place + (step - 1))
        place = place + space.cast(above, space.index_integer) * step
    return place


# Back.


def numbers_of_fields(space: Space, fields: Array, scheme: QuantScheme) -> Array:
    """Return what codes mean before they are scaled, float32.

    Parameters
    ----------
    space : Space
        Where to compute.
    fields : int8 or uint8 array
        Codes: as they are stored, or taken out of words.
    scheme : QuantScheme
        The scheme.
    """
    row = scheme.value.format
    if scheme.mode is QuantMode.LOOKUP or row.kind is Kind.MINIFLOAT:
        # one step for any format, the sign of zero included
        table = scheme.code_table()
        fields = space.cast(fields, "int32") & (len(table) - 1)
        return space.taken(table, fields)
    if scheme.data_dtype != "int8" and row.signed:
        fields = sign_extend(space, fields, row.bits)
    return space.cast(fields, "float32")
