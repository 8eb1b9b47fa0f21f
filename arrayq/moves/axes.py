"""Moves of whole axes: their order, their direction, and axes of one element.

All of these always stay quantized: blocks follow their axes, a flip counts its offset from the
other end, and one element repeated is one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from arrayq.moves.blocks import AxisBlocks
from arrayq.moves.parts import Array, Parts, parts_of, probe
from arrayq.moves.words import fields_of, picked, words_of
from arrayq.recording import recorded

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = [
    "broadcast_parts", "broadcast_to", "expand_dims", "flip", "matrix_transpose", "moveaxis",
    "permute_dims", "squeeze", "swapaxes", "without_axes",
]  # fmt: skip


@recorded
def permute_dims(q: QuantizedArray, axes: Sequence[int] | None = None) -> QuantizedArray:
    """Reorder the axes; always exact.

    Blocks and the packed axis follow their axes, so that words move whole.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axes : sequence of int, optional
        The old axis at each new place; by default all axes in reverse.

    Returns
    -------
    QuantizedArray
        ``dequantize`` of it is the permuted ``dequantize(q)``, bit for bit.

    Raises
    ------
    ValueError
        `axes` is no permutation of the axes, in NumPy's words.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> q = aq.quantize(np.ones((6, 64), np.float32), "int4/32")
    >>> aq.permute_dims(q, (1, 0)).scheme.block.size
    (32, 1)
    """
    parts = parts_of(q, "permute_dims")
    probe(q.shape).transpose(axes)
    order = range(q.ndim)[::-1] if axes is None else normalize_axis_tuple(axes, q.ndim)
    return _permuted(parts, tuple(order)).close()


def _permuted(parts: Parts, order: tuple[int, ...]) -> Parts:
    packed = None if parts.packed is None else order.index(parts.packed)
    return parts.moved(
        parts.on.transposed(parts.data, order),
        (parts.axes[axis] for axis in order),
        packed,
        lambda grid: parts.on.transposed(grid, order),
    )


@recorded
def swapaxes(q: QuantizedArray, axis1: int, axis2: int) -> QuantizedArray:
    """Exchange two axes; always exact, as `permute_dims` is.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axis1, axis2 : int
        The axes.

    Returns
    -------
    QuantizedArray
        The array with the two axes exchanged.

    Raises
    ------
    IndexError
        There is no such axis, in NumPy's words.
    """
    parts = parts_of(q, "swapaxes")
    first = normalize_axis_index(axis1, q.ndim, "axis1")
    second = normalize_axis_index(axis2, q.ndim, "axis2")
    order = list(range(q.ndim))
    order[first], order[second] = second, first
    return _permuted(parts, tuple(order)).close()


@recorded
def moveaxis(
    q: QuantizedArray, source: int | Sequence[int], destination: int | Sequence[int]
) -> QuantizedArray:
    """Move axes to other places, the rest keeping their order; always exact.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    source, destination : int or sequence of int
        Where the axes are, and where they go.

    Returns
    -------
    QuantizedArray
        The array with its axes moved.

    Raises
    ------
    IndexError, ValueError
        There is no such axis, or the two do not match, in NumPy's words.
    """
    parts = parts_of(q, "moveaxis")
    np.moveaxis(probe(q.shape), source, destination)
    froms = normalize_axis_tuple(source, q.ndim)
    order = [axis for axis in range(q.ndim) if axis not in froms]
    places = normalize_axis_tuple(destination, q.ndim)
    for place, axis in sorted(zip(places, froms, strict=True)):
        order.insert(place, axis)
    return _permuted(parts, tuple(order)).close()


@recorded
def matrix_transpose(q: QuantizedArray) -> QuantizedArray:
    """Exchange the last two axes; always exact, as `permute_dims` is.

    Parameters
    ----------
    q : QuantizedArray
        An array of at least two axes.

    Returns
    -------
    QuantizedArray
        The array with its matrices transposed.

    Raises
    ------
    ValueError
        The array has fewer than two axes, in NumPy's words.
    """
    parts = parts_of(q, "matrix_transpose")
    np.matrix_transpose(probe(q.shape))
    order = (*range(q.ndim - 2), q.ndim - 1, q.ndim - 2)
    return _permuted(parts, order).close()


@recorded
def flip(q: QuantizedArray, axis: int | Sequence[int] | None = None) -> QuantizedArray:
    """Reverse the elements along axes; always exact.

    Scales turn with their blocks. What was the end of the last block is now the start of the
    first: ``block_offset`` becomes ``-(block_offset + length) % block``. Where a block starts with
    the axis and covers all of it, the offset stays 0: there is no other block to tell it from.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axis : int or sequence of int, optional
        The axes; by default all.

    Returns
    -------
    QuantizedArray
        The reversed array.

    Raises
    ------
    IndexError
        There is no such axis, in NumPy's words.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> q = aq.quantize(np.arange(6, dtype=np.float32), "int8/4")
    >>> aq.flip(q).block_offset
    (2,)
    >>> aq.flip(q[:3]).block_offset
    ()
    """
    parts = parts_of(q, "flip")
    turned = range(q.ndim) if axis is None else normalize_axis_tuple(axis, q.ndim)
    for one in turned:
        parts = _flipped(parts, one)
    return parts.close()


def _flipped(parts: Parts, axis: int) -> Parts:
    axes = list(parts.axes)
    axes[axis] = axes[axis].flipped()
    data = picked(parts, axis, range(parts.shape[axis])[::-1])
    return parts.moved(
        data, axes, parts.packed,
        lambda grid: parts.on.sliced(grid, axis, range(grid.shape[axis])[::-1]),
    )  # fmt: skip


@recorded
def expand_dims(q: QuantizedArray, axis: int | Sequence[int] = 0) -> QuantizedArray:
    """Insert axes of length one; always exact.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axis : int or sequence of int
        The places of the new axes in the result.

    Returns
    -------
    QuantizedArray
        The array with the new axes.

    Raises
    ------
    IndexError
        There is no such place, in NumPy's words.
    """
    parts = parts_of(q, "expand_dims")
    ndim = np.expand_dims(probe(q.shape), axis).ndim
    new = normalize_axis_tuple(axis, ndim)
    kept = [place for place in range(ndim) if place not in new]
    axes = [AxisBlocks(1, 1)] * ndim if parts.has_grid else [AxisBlocks(1, -1)] * ndim
    for place, blocks in zip(kept, parts.axes, strict=True):
        axes[place] = blocks
    # The word of an array without axes holds the one element of its first new axis.
    packed = kept[parts.packed] if parts.packed is not None else ndim - 1
    return parts.moved(
        with_axes(parts, parts.data, new),
        axes,
        packed if parts.scheme.store.is_packed else None,
        lambda grid: with_axes(parts, grid, new),
    ).close()


def with_axes(parts: Parts, array: Array, new: Sequence[int]) -> Array:
    """Return data or a grid with axes of length one, at their places in the result."""
    lengths = iter(array.shape)
    ndim = len(array.shape) + len(new)
    shape = [1 if place in new else next(lengths) for place in range(ndim)]
    return parts.on.reshaped(array, shape)


@recorded
def squeeze(q: QuantizedArray, axis: int | Sequence[int] | None = None) -> QuantizedArray:
    """Remove axes of length one; always exact.

    Where the packed axis is removed, the codes are packed along the new innermost axis.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axis : int or sequence of int, optional
        The axes; by default all of length one.

    Returns
    -------
    QuantizedArray
        The array without these axes.

    Raises
    ------
    ValueError
        An axis is longer than one, in NumPy's words.
    IndexError
        There is no such axis, in NumPy's words.
    """
    parts = parts_of(q, "squeeze")
    np.squeeze(probe(q.shape), _axis_tuple(axis))
    if axis is None:
        removed = tuple(place for place, length in enumerate(q.shape) if length == 1)
    else:
        removed = normalize_axis_tuple(axis, q.ndim)
    return without_axes(parts, removed).close()


def _axis_tuple(axis: int | Sequence[int] | None) -> Any:
    """The axes as NumPy's squeeze takes them."""
    return tuple(axis) if isinstance(axis, Sequence) else axis


def without_axes(parts: Parts, removed: tuple[int, ...]) -> Parts:
    """Return the parts without some axes of length one."""
    kept = [axis for axis in range(len(parts.axes)) if axis not in removed]

    def squeezed(array: Array) -> Array:
        return parts.on.reshaped(array, [array.shape[axis] for axis in kept])

    if parts.packed in removed:
        packed = len(kept) - 1 if kept else None
        data = words_of(parts, squeezed(fields_of(parts)), packed)
    else:
        packed = None if parts.packed is None else kept.index(parts.packed)
        data = squeezed(parts.data)
    axes = (parts.axes[axis] for axis in kept)
    return parts.moved(data, axes, packed, squeezed)


@recorded
def broadcast_to(q: QuantizedArray, shape: int | Sequence[int]) -> QuantizedArray:
    """Repeat axes of length one, and add leading ones, up to a shape; always exact.

    Codes are repeated in memory; scales are not, because an element and its copies are one
    block.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    shape : int or sequence of int
        The shape of the result.

    Returns
    -------
    QuantizedArray
        The array of that shape.

    Raises
    ------
    ValueError
        The array cannot be broadcast to the shape, in NumPy's words.
    """
    parts = parts_of(q, "broadcast_to")
    wanted = np.broadcast_to(probe(q.shape), shape).shape
    return broadcast_parts(parts, wanted).close()


def broadcast_parts(parts: Parts, shape: tuple[int, ...]) -> Parts:
    """Return the parts with axes of length one repeated up to a shape."""
    if shape == parts.shape:
        return parts
    on, added = parts.on, len(shape) - len(parts.axes)
    old = (*([AxisBlocks(1, 1 if parts.has_grid else -1)] * added), *parts.axes)
    axes = [blocks.broadcast(length) for blocks, length in zip(old, shape, strict=True)]
    packed = parts.packed
    if not parts.scheme.store.is_packed:
        data = on.broadcast(parts.data, shape)
    elif packed is not None and old[packed + added].length == shape[packed + added]:
        packed += added
        words = parts.data.shape[parts.packed]
        data = on.broadcast(parts.data, (*shape[:packed], words, *shape[packed + 1 :]))
    else:
        # The one code of each line fills words of its own kind.
        packed = len(shape) - 1 if packed is None else packed + added
        row = on.reshaped(fields_of(parts), (1,) * added + parts.shape)
        line = [*row.shape[:packed], shape[packed], *row.shape[packed + 1 :]]
        words_of_lines = words_of(parts, on.broadcast(row, line), packed)
        full = (*shape[:packed], words_of_lines.shape[packed], *shape[packed + 1 :])
        data = on.broadcast(words_of_lines, full)
    # A block of several elements keeps its cell; an empty axis has none.
    cells = [slice(min(1, axis.length)) if axis != was else slice(None)
             for axis, was in zip(axes, old, strict=True)]  # fmt: skip
    return replace(parts, axes=old).moved(
        data,
        axes,
        packed,
        lambda grid: on.indexed(on.reshaped(grid, (1,) * added + tuple(grid.shape)), tuple(cells)),
    )
