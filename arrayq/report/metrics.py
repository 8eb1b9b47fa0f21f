"""What quantization did to an array, in numbers that add up over parts and tensors.

Sums are float64 whatever the array's type, and are taken over parts of bounded size: judging
an array needs a few MB beyond the array and its codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from arrayq.array import QuantizedArray
from arrayq.formats import Format, Kind
from arrayq.layout import plan
from arrayq.numerics import Rounding
from arrayq.pipeline import dequantize
from arrayq.report.parts import split
from arrayq.scheme import QuantMode, QuantScheme, ZeroKind

__all__ = ["Metrics", "json_number", "measure"]

_PART_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Metrics:
    """Size and error of quantized elements; ``+`` joins those of two sets of elements.

    ``overflowed`` counts elements whose decoded value is not finite: a product of scale and
    code can leave float32 where the input stood near its maximum.
    """

    elements: int = 0
    source_bytes: int = 0
    stored_bytes: int = 0
    signal: float = 0.0
    """Sum of the squares of the input."""
    noise: float = 0.0
    """Sum of the squares of input minus output."""
    max_abs_error: float = 0.0
    saturated: int = 0
    zero_blocks: int = 0
    overflowed: int = 0

    def __add__(self, other: Metrics) -> Metrics:
        merged = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(Metrics)
        }
        merged["max_abs_error"] = max(self.max_abs_error, other.max_abs_error)
        return Metrics(**merged)

    @property
    def bits_per_element(self) -> float:
        """Stored bits, scales included, for each element; 0 when there is none."""
        return 8 * self.stored_bytes / self.elements if self.elements else 0.0

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise, 10 log10(sum x^2 / sum (x - y)^2), in dB.

        inf for an exact result (an empty one included), -inf for noise without a signal or
        without bound.
        """
        if self.noise == 0:
            return math.inf
        if self.signal == 0 or math.isinf(self.noise):
            return -math.inf
        return 10 * (math.log10(self.signal) - math.log10(self.noise))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON types; an infinity is the text "inf" or "-inf"."""
        record = asdict(self)
        del record["signal"], record["noise"]
        record |= {"bits_per_element": self.bits_per_element, "sqnr_db": self.sqnr_db}
        return {key: json_number(value) for key, value in record.items()}


def json_number(value: Any) -> Any:
    """Return `value` as something JSON can hold: it has no infinity, so that becomes text."""
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def measure(
    x: np.ndarray,
    q: QuantizedArray,
    *,
    threads: int | None = None,
    on_part: Callable[[int], None] | None = None,
) -> Metrics:
    """Compare an array with what its quantized form decodes to.

    Parameters
    ----------
    x : ndarray
        The array that was quantized: finite floats of any width.
    q : QuantizedArray
        Its quantized form, of the same shape.
    threads : int, optional
        As in :func:`arrayq.dequantize`.
    on_part : callable, optional
        Called with the number of elements of each part that has been judged.

    Returns
    -------
    Metrics
    """
    total = Metrics(source_bytes=x.nbytes, stored_bytes=q.nbytes)
    occupied = np.zeros(q.scale_data.shape, dtype=bool)
    block = plan(q.scheme, q.shape).block
    for index, cells, part in split(q, _PART_ELEMENTS):
        x_part = x[index]
        decoded = np.asarray(dequantize(part, threads=threads))
        single = x_part.astype(np.float32)
        total += _errors(x_part.astype(np.float64), decoded, _saturated(single, part))
        occupied[cells] |= _blocks_with_values(single, block)
        if on_part is not None:
            on_part(x_part.size)
    empty = occupied.size - int(np.count_nonzero(occupied))
    return total + Metrics(zero_blocks=empty if q.size else 0)


def _errors(x: np.ndarray, decoded: np.ndarray, saturated: int) -> Metrics:
    error = np.subtract(x, decoded, dtype=np.float64)
    overflowed = x.size - int(np.count_nonzero(np.isfinite(decoded)))
    return Metrics(
        elements=x.size,
        signal=_sum_of_squares(x),
        noise=math.inf if overflowed else _sum_of_squares(error),
        max_abs_error=math.inf if overflowed else float(np.abs(error).max(initial=0.0)),
        saturated=saturated,
        overflowed=overflowed,
    )


def _sum_of_squares(values: np.ndarray) -> float:
    # A dot product would start BLAS's threads, and its sum would depend on their number.
    return float(np.square(values).sum())


def _saturated(x: np.ndarray, q: QuantizedArray) -> int:
    """Count elements whose code, before clamping, lies outside the value's range."""
    scale = q.scale if q.tensor_scale is None else np.multiply(q.scale, q.tensor_scale)
    scale = _spread(scale, q)
    zero = None if q.zero is None else _spread(q.zero, q)
    bias = q.scheme.zero is not None and q.scheme.zero.kind is ZeroKind.BIAS
    with np.errstate(all="ignore"):  # a scale of 0 has codes of 0 and nothing to saturate
        ratio = np.divide(x - zero if bias else x, scale, dtype=np.float32).astype(np.float64)
        if zero is not None and not bias:
            ratio += zero
    lowest, highest = _saturation_bounds(q.scheme)
    outside = (ratio <= lowest) | (ratio >= highest)
    return int(np.count_nonzero(outside & (scale != 0)))


def _spread(grid: np.ndarray, q: QuantizedArray) -> np.ndarray:
    """Repeat the numbers of a grid over the elements of their blocks, as far as broadcasting
    does not do it.
    """
    for axis, extent in enumerate(plan(q.scheme, q.shape).block):
        if grid.shape[axis] > 1 and extent > 1:
            grid = grid.repeat(extent, axis)[(slice(None),) * axis + (slice(q.shape[axis]),)]
    return grid


def _saturation_bounds(scheme: QuantScheme) -> tuple[float, float]:
    """Return the float64 numbers at and beyond which an element saturates."""
    if scheme.mode is QuantMode.LOOKUP:
        table = scheme.code_table()
        return math.nextafter(min(table), -math.inf), math.nextafter(max(table), math.inf)
    row = scheme.value.format
    if scheme.rounding is Rounding.STOCHASTIC:
        return math.nextafter(row.qmin, -math.inf), math.nextafter(row.qmax, math.inf)
    half = 0.5
    if row.kind is Kind.MINIFLOAT:
        half = math.ldexp(0.5, row.largest_exponent - row.mantissa_bits)
    below, above = row.qmin - half, row.qmax + half
    # a number on an edge leaves the range unless the rule sends it back to the last code
    stays_above, stays_below = {
        Rounding.HALF_AWAY: (False, False),
        Rounding.HALF_TO_ZERO: (True, True),
        Rounding.HALF_UP: (False, True),
        Rounding.HALF_EVEN: (row.max_code % 2 == 0, _smallest_code(row) % 2 == 0),
    }[scheme.rounding or Rounding.HALF_AWAY]
    return (
        math.nextafter(below, -math.inf) if stays_below else below,
        math.nextafter(above, math.inf) if stays_above else above,
    )


def _smallest_code(row: Format) -> int:
    """Return the code of `qmin`, which for a minifloat has the magnitude of `max_code`."""
    return row.max_code if row.kind is Kind.MINIFLOAT else int(row.qmin)


def _blocks_with_values(x: np.ndarray, block: tuple[int, ...]) -> np.ndarray:
    """Return, for each block, whether any of its elements is not zero."""
    occupied: np.ndarray = x != 0
    for axis, extent in enumerate(block):
        length = occupied.shape[axis]
        if extent >= length:
            occupied = np.asarray(occupied.any(axis=axis, keepdims=True))
        elif extent > 1:
            occupied = np.logical_or.reduceat(occupied, np.arange(0, length, extent), axis=axis)
    return occupied
