"""Reshape: exact wherever blocks stay rectangles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from arrayq.moves.blocks import AxisBlocks, reshaped
from arrayq.moves.parts import Array, Parts, cannot_move, parts_of, probe
from arrayq.moves.words import fields_of, words_of
from arrayq.recording import recorded
from arrayq.scheme import SPAN

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["reshape"]


@recorded
def reshape(q: QuantizedArray, shape: int | Sequence[int]) -> QuantizedArray:
    """Give the elements another shape, in C order.

    Stays quantized where blocks stay rectangles: an axis may be cut into rows that divide a
    block or hold whole blocks, and axes may be merged where the inner one is a single block or
    the outer one has blocks of extent 1.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    shape : int or sequence of int
        The new shape; one length may be -1.

    Returns
    -------
    QuantizedArray
        The array of that shape. The packed axis is the last of those that its own became.

    Raises
    ------
    ValueError
        The shape does not hold as many elements, in NumPy's words.
    LayoutError
        A block would not be a rectangle.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> q = aq.quantize(np.ones((4, 64), np.float32), "int4/32")
    >>> aq.reshape(q, (2, 2, 2, 32)).grid
    (2, 2, 2, 1)
    >>> aq.reshape(q, (16, 16)).scheme.block.size
    (2, 16)
    """
    parts = parts_of(q, "reshape")
    wanted = probe(q.shape).reshape(shape).shape
    return q if wanted == q.shape else _reshaped(parts, wanted).close()


def _reshaped(parts: Parts, shape: tuple[int, ...]) -> Parts:
    axes: Any
    if not parts.has_grid or 0 in shape:
        axes = [AxisBlocks(length, SPAN) for length in shape]
    else:
        axes = reshaped(parts.axes, shape)
        if axes is None:
            cannot_move(
                f"reshape from {parts.shape} to {shape}",
                "blocks that stay rectangles",
                f"blocks of {tuple(axis.extent for axis in parts.axes)} that start at "
                f"{tuple(axis.offset for axis in parts.axes)}",
            )
    packed = _packed_axis(parts, shape)
    cells = tuple(axis.cells for axis in axes)
    return parts.moved(
        _data(parts, shape, packed), axes, packed, lambda grid: parts.on.reshaped(grid, cells)
    )


def _packed_axis(parts: Parts, shape: tuple[int, ...]) -> int | None:
    """The axis to pack: the last new one that the elements of the old one lie along."""
    if not parts.scheme.store.is_packed or not shape:
        return None
    innermost = len(shape) - 1
    old = parts.packed
    if old is None or 0 in shape or parts.shape[old] == 1:
        return innermost
    # Below this many elements the old axis is not concerned; the new axis that begins there is.
    below = prod(parts.shape[old + 1 :])
    for axis in range(innermost, -1, -1):
        if prod(shape[axis:]) > below:
            return axis
    return innermost


def _data(parts: Parts, shape: tuple[int, ...], packed: int | None) -> Array:
    """Data under another shape: the same words where every line is still whole words."""
    if not parts.scheme.store.is_packed:
        return parts.on.reshaped(parts.data, shape)
    old, per_word = parts.packed, parts.codes_per_word
    if old is not None and packed is not None and 0 not in shape:
        below = prod(parts.shape[old + 1 :])
        same_below = prod(shape[packed + 1 :]) == below
        words = -(-shape[packed] // per_word)
        same_line = parts.shape[old] == shape[packed]
        whole = parts.shape[old] % per_word == 0 and shape[packed] % per_word == 0
        if same_below and (same_line or whole):
            return parts.on.reshaped(parts.data, (*shape[:packed], words, *shape[packed + 1 :]))
    return words_of(parts, parts.on.reshaped(fields_of(parts), shape), packed)
