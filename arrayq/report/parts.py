"""Cut a quantized array into pieces small enough to decode one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from arrayq.array import QuantizedArray
from arrayq.layout import plan

__all__ = ["split"]

Index = tuple[Any, ...]


def split(q: QuantizedArray, elements: int) -> Iterator[tuple[Index, Index, QuantizedArray]]:
    """Yield `q` in pieces of about `elements` elements, in order, without copying.

    The cuts run across the first axis that has more than one index, where blocks and packed
    words both end; an array that allows no such cut comes whole.

    Yields
    ------
    index : tuple
        Where the piece lies in the array: ``x[index]`` are its elements.
    cells : tuple
        Where its scales lie in the grid.
    part : QuantizedArray
        The piece; its data and scales are views.
    """
    axis = next((axis for axis, length in enumerate(q.shape) if length > 1), None)
    if axis is None or q.size <= elements:
        yield (...,), (...,), q
        return
    layout = plan(q.scheme, q.shape)
    length, block = q.shape[axis], layout.block[axis]
    spans, packed = block == length, axis == layout.packed_axis
    per_word = layout.codes_per_word if packed else 1
    unit = math.lcm(1 if spans else block, per_word)
    step = max(unit, elements * length // q.size // unit * unit)
    for start in range(0, length, step):
        stop = min(start + step, length)
        words = _along(axis, start // per_word, -(-stop // per_word))
        cells = (...,) if spans else _along(axis, start // block, -(-stop // block))
        part = QuantizedArray(
            q.data[words],
            q.scale_data[cells],
            q.scheme,
            extent=stop - start if packed else q.extent,
            tensor_scale=q.tensor_scale,
            zero_point=None if q.zero_point is None else q.zero_point[cells],
            nonfinite="propagate",
        )
        yield _along(axis, start, stop), cells, part


def _along(axis: int, start: int, stop: int) -> Index:
    return (slice(None),) * axis + (slice(start, stop),)
