"""What the kernels need to know of a format, as flat arrays made from its row.

The kernels hold no table of formats: the numbers of a row of :mod:`arrayq.formats`, or a
codebook, reach them as the arguments built here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from arrayq.edges import nearest_edges
from arrayq.formats import Format, Kind
from arrayq.numerics import ROUNDING_OF_KIND, Rounding
from arrayq.scheme import QuantMode, QuantScheme

__all__ = ["Codec", "codec_of_format", "codec_of_scheme"]

# Numbered as encode.pxd's CodecKind.
_INTEGER, _MINIFLOAT, _TABLE, _UNSIGNED = range(4)
# Numbered as rounding.pxd's Rounding.
_ROUNDINGS = {
    Rounding.HALF_AWAY: 0,
    Rounding.HALF_EVEN: 1,
    Rounding.HALF_UP: 2,
    Rounding.HALF_TO_ZERO: 3,
    Rounding.STOCHASTIC: 4,
}


@dataclass(frozen=True, eq=False)
class Codec:
    """One element format as the kernels take it.

    Attributes
    ----------
    fields : int32 array of shape (12,)
        Numbers in the order of ``CodecField`` in encode.pxd.
    bounds : float32 array of shape (2,)
        Smallest and largest code of an integer format.
    edges : float32 array of shape (255,)
        Ascending decision edges of a table, padded with infinity.
    order : uint8 array of shape (256,)
        Code of each place among the sorted values of a table.
    table : float32 array of shape (256,)
        Value of each code.
    """

    fields: npt.NDArray[np.int32]
    bounds: npt.NDArray[np.float32]
    edges: npt.NDArray[np.float32]
    order: npt.NDArray[np.uint8]
    table: npt.NDArray[np.float32]

    @property
    def arguments(self) -> tuple[npt.NDArray[Any], ...]:
        """The five arrays, in the order in which the kernels take them."""
        return self.fields, self.bounds, self.edges, self.order, self.table


@lru_cache(maxsize=256)
def codec_of_scheme(scheme: QuantScheme) -> Codec:
    """Element format of a scheme: its value's row, or its codebook."""
    native = not scheme.store.is_packed
    if scheme.mode is QuantMode.LOOKUP:
        return _codec_of_table(scheme.require_codebook(), scheme.value.bits, native)
    return codec_of_format(scheme.value.format, native=native, rounding=scheme.rounding)


@lru_cache(maxsize=64)
def codec_of_format(row: Format, *, native: bool, rounding: Rounding | None = None) -> Codec:
    """Element format of a row; `native` codes fill a byte, others are masked to their field.

    Fields encode as the integers that they are; only a codebook says what they decode to.
    """
    rule = _ROUNDINGS[rounding or ROUNDING_OF_KIND[row.kind]]
    if row.kind is not Kind.MINIFLOAT:
        kind = _INTEGER if row.kind is Kind.INT else _UNSIGNED
        fields = _fields(kind, row.bits, native=native, rounding=rule)
    else:
        magnitudes = row.code_mask ^ row.sign_mask
        fields = _fields(
            _MINIFLOAT,
            row.bits,
            native=native,
            rounding=rule,
            mantissa_bits=row.mantissa_bits,
            smallest_normal=_float32_bits(row.smallest_normal),
            largest=_float32_bits(row.qmax),
            bias=row.bias,
            first_special=row.max_code + 1 if row.max_code < magnitudes else magnitudes + 1,
            infinity=-1 if row.inf_code is None else row.inf_code,
        )
    return Codec(
        fields,
        np.array([row.qmin, row.qmax], np.float32),
        np.full(255, np.inf, np.float32),
        np.zeros(256, np.uint8),
        _padded_table(row.values),
    )


def _codec_of_table(values: tuple[float, ...], bits: int, native: bool) -> Codec:
    edges, order = nearest_edges(values)
    padded = np.full(255, np.inf, np.float32)
    padded[: len(edges)] = edges
    places = np.zeros(256, np.uint8)
    places[: len(order)] = order
    zero_place = sum(edge < 0 for edge in edges)
    fields = _fields(
        _TABLE,
        bits,
        native=native,
        zero_code=order[zero_place],
        reordered=int(order != list(range(len(order)))),
    )
    return Codec(fields, np.zeros(2, np.float32), padded, places, _padded_table(values))


# In the order of encode.pxd's CodecField.
_FIELDS = (
    "kind",
    "bits",
    "mantissa_bits",
    "smallest_normal",
    "largest",
    "bias",
    "first_special",
    "infinity",
    "zero_code",
    "native",
    "reordered",
    "rounding",
)


def _fields(kind: int, bits: int, **given: int) -> npt.NDArray[np.int32]:
    given |= {"kind": kind, "bits": bits}
    return np.array([given.get(name, 0) for name in _FIELDS], np.int32)


def _padded_table(values: tuple[float, ...]) -> npt.NDArray[np.float32]:
    table = np.full(256, math.nan, np.float32)
    table[: len(values)] = values
    return table


def _float32_bits(number: float) -> int:
    return int(np.float32(number).view(np.int32))
