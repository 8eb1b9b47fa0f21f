"""Joining and cutting: concat, stack, split, unstack, roll, tile, repeat.

Joins are exact where every seam falls on a block boundary, where a part lies inside one block, or
where both sides of a seam have the same scales. Tensor scales that differ are the business of
:mod:`arrayq.moves.tensor_scales`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from arrayq.errors import LayoutError
from arrayq.moves.axes import expand_dims, with_axes
from arrayq.moves.blocks import AxisBlocks
from arrayq.moves.indexing import positions_of, sliced
from arrayq.moves.parts import Parts, parts_of, parts_of_all, probe
from arrayq.moves.positions import seen_numbers
from arrayq.moves.reshaping import reshape
from arrayq.moves.seams import join, with_blocks
from arrayq.moves.tensor_scales import Rescaled, with_one_tensor_scale
from arrayq.moves.words import fields_of, words_of
from arrayq.recording import recorded
from arrayq.scheme import QuantScheme

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["concat", "repeat", "roll", "split", "stack", "tile", "unstack"]


@overload
def concat(
    arrays: Sequence[QuantizedArray], axis: int | None = 0, *, rescale: Literal[False] = False
) -> QuantizedArray: ...
@overload
def concat(
    arrays: Sequence[QuantizedArray], axis: int | None = 0, *, rescale: Literal[True]
) -> Rescaled: ...
@recorded
def concat(
    arrays: Sequence[QuantizedArray], axis: int | None = 0, *, rescale: bool = False
) -> QuantizedArray | Rescaled:
    """Join arrays along an axis they have.

    Stays quantized where every seam falls on a block boundary; a part that lies inside one block
    fits either side of one, and where both sides of a seam have the same scales there is none.
    Two-level arrays with different tensor scales are joined exactly where block scales can
    absorb the difference without rounding.

    Parameters
    ----------
    arrays : sequence of QuantizedArray
        The parts: of one element format, and of equal shape but for `axis`.
    axis : int or None
        The axis; None flattens every part first.
    rescale : bool
        Whether block scales may be rounded to bring different tensor scales together. The result
        then carries a report of the error.

    Returns
    -------
    QuantizedArray or Rescaled
        The joined array; with ``rescale=True`` a `Rescaled`: the array and the error it made.

    Raises
    ------
    LayoutError
        A seam would cut a block, the parts are of different formats, or their tensor scales
        cannot be brought together exactly.
    ValueError, IndexError
        The shapes do not match or the axis does not exist, in NumPy's words.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> a = aq.quantize(np.ones((2, 64), np.float32), "int4/32")
    >>> aq.concat([a, a], axis=1).grid
    (2, 4)
    """
    listed = list(arrays)
    opened = parts_of_all(listed, "concat")
    if axis is None:
        opened = parts_of_all([reshape(q, (-1,)) for q in listed], "concat")
        axis = 0
    place = axis + len(opened[0].axes) if opened and axis < 0 else axis
    # NumPy's checks, on arrays whose joined length is 0 so that they cost no memory.
    np.concatenate([probe(_emptied(parts.shape, place)) for parts in opened], axis=axis)
    return _finished(*_together(opened, "concat", rescale), place, "concat")


def _emptied(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(0 if place == axis else length for place, length in enumerate(shape))


@overload
def stack(
    arrays: Sequence[QuantizedArray], axis: int = 0, *, rescale: Literal[False] = False
) -> QuantizedArray: ...
@overload
def stack(
    arrays: Sequence[QuantizedArray], axis: int = 0, *, rescale: Literal[True]
) -> Rescaled: ...
@recorded
def stack(
    arrays: Sequence[QuantizedArray], axis: int = 0, *, rescale: bool = False
) -> QuantizedArray | Rescaled:
    """Join arrays along a new axis, whose blocks have extent 1.

    Parameters
    ----------
    arrays : sequence of QuantizedArray
        The parts: of one element format, one shape, and the same blocks.
    axis : int
        The place of the new axis in the result.
    rescale : bool
        As for `concat`.

    Returns
    -------
    QuantizedArray or Rescaled
        The stacked array; with ``rescale=True`` a `Rescaled`: the array and the error it made.

    Raises
    ------
    LayoutError
        The parts are of different formats or blocks, or their tensor scales cannot be brought
        together exactly.
    ValueError, IndexError
        The shapes differ or the axis does not exist, in NumPy's words.
    """
    opened = parts_of_all(list(arrays), "stack")
    if not opened:
        raise ValueError("need at least one array to stack")
    if len({parts.shape for parts in opened}) > 1:
        raise ValueError("all input arrays must have the same shape")
    place = normalize_axis_index(axis, len(opened[0].axes) + 1)
    together, report = _together(opened, "stack", rescale)
    expanded = [_with_new_axis(parts, place) for parts in together]
    return _finished(expanded, report, place, "stack", AxisBlocks(len(expanded), 1))


def _with_new_axis(parts: Parts, place: int) -> Parts:
    axes = (*parts.axes[:place], AxisBlocks(1, 1), *parts.axes[place:])
    if not parts.scheme.store.is_packed:
        packed = None
    elif parts.packed is None:
        packed = 0
    else:
        packed = parts.packed + (parts.packed >= place)
    data = with_axes(parts, parts.data, (place,))
    grids = {name: with_axes(parts, grid, (place,)) for name, grid in parts.grids.items()}
    return replace(parts, data=data, axes=axes, packed=packed, grids=grids)


def _together(opened: list[Parts], operation: str, rescale: bool) -> tuple[list[Parts], Any]:
    """Parts of one format and one tensor scale, and the report of what that took."""
    scheme = opened[0].scheme
    for i, one in enumerate(opened):
        if one.scheme is not scheme and _format(one.scheme) != _format(scheme):
            raise LayoutError(
                f"{operation} requires arrays of one element format, scale dtype and number of "
                f"levels, got {scheme} at 0 and {one.scheme} at {i}; use "
                "requantize(scheme) on one of them"
            )
    return with_one_tensor_scale(opened, operation, rescale=rescale)


def _format(scheme: QuantScheme) -> tuple[object, ...]:
    """What joined arrays must have in common: all but blocks and the packed axis."""
    placed = {"block", "tensor", "store", "codebook"}
    codebook = scheme.codebook and np.array(scheme.codebook, np.float32).tobytes()
    return (
        *(getattr(scheme, part.name) for part in fields(scheme) if part.name not in placed),
        scheme.store.kind, scheme.scale_dtype, scheme.two_level, codebook,
    )  # fmt: skip


def _finished(
    parts: list[Parts], report: Any, axis: int, operation: str, forced: AxisBlocks | None = None
) -> QuantizedArray | Rescaled:
    array = join(parts, axis, operation, forced).close()
    return array if report is None else Rescaled(array, report)


@recorded
def roll(
    q: QuantizedArray,
    shift: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
) -> QuantizedArray:
    """Move elements along an axis, those that fall off one end to the other.

    Stays quantized where the shift is by whole blocks, along axes of a single block, and where
    the scales at the seam are the same.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    shift : int or sequence of int
        How far.
    axis : int or sequence of int, optional
        Along which axes; by default along the flattened array, which is reshaped back.

    Returns
    -------
    QuantizedArray
        The rolled array.

    Raises
    ------
    LayoutError
        A seam would cut a block.
    ValueError, IndexError
        `shift` and `axis` do not match or an axis does not exist, in NumPy's words.
    """
    shift = seen_numbers(shift, "roll", "a shift")
    parts = parts_of(q, "roll")
    if axis is None:
        return _rolled_flat(q, parts, shift)
    places = normalize_axis_tuple(axis, q.ndim, allow_duplicate=True)
    pairs = np.broadcast(shift, places)  # NumPy's words where the two do not match
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    shifts: dict[int, int] = {}
    for by, place in pairs:
        shifts[int(place)] = shifts.get(int(place), 0) + int(by)
    for place, by in shifts.items():
        length = parts.shape[place]
        by = by % length if length else 0
        if by:
            ends = range(length - by, length), range(length - by)
            parts = join([sliced(parts, place, end, "roll") for end in ends], place, "roll")
    return parts.close()


def _rolled_flat(q: QuantizedArray, parts: Parts, shift: int | Sequence[int]) -> QuantizedArray:
    """Roll along the flattened array; all the way round is no move and needs no reshape."""
    shifts = np.atleast_1d(shift)
    if shifts.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    by = sum(int(one) for one in shifts)
    if not q.size or by % q.size == 0:
        return parts.close()
    return reshape(roll(reshape(q, (-1,)), by, 0), q.shape)


@recorded
def tile(q: QuantizedArray, repetitions: int | Sequence[int]) -> QuantizedArray:
    """Lay copies of an array side by side.

    Stays quantized along axes that end on a block boundary, along axes of a single block, and
    where the scales at the seams are the same.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    repetitions : int or sequence of int
        Copies along each axis, aligned to the trailing axes; more entries add leading axes.

    Returns
    -------
    QuantizedArray
        The tiled array.

    Raises
    ------
    LayoutError
        A seam would cut a block.
    ValueError, TypeError
        A number of copies is negative, or no integer.
    """
    repetitions = seen_numbers(repetitions, "tile", "numbers of copies")
    parts = parts_of(q, "tile")
    # NumPy's check, on an array without elements: counts are integers.
    np.tile(np.empty((0,) * max(1, q.ndim), np.bool_), repetitions)
    counts = tuple(map(int, np.atleast_1d(np.asarray(repetitions, np.intp))))
    if any(count < 0 for count in counts):
        raise ValueError("negative dimensions are not allowed")
    added = max(0, len(counts) - q.ndim)
    if added:
        parts = parts_of(expand_dims(q, tuple(range(added))), "tile")
    for axis, count in enumerate(counts, len(parts.axes) - len(counts)):
        if count == 0:
            parts = sliced(parts, axis, range(0), "tile")
        elif count > 1 and parts.shape[axis]:
            parts = join([parts] * count, axis, "tile")
    return parts.close()


@recorded
def repeat(q: QuantizedArray, repeats: Any, axis: int | None = None) -> QuantizedArray:
    """Repeat elements along an axis.

    One count for all multiplies the block extent and always stays quantized. Counts of their own
    do along axes whose blocks have extent 1 or are a single block.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    repeats : int or array of int
        How often; one number, or one for each position of the axis.
    axis : int, optional
        The axis; by default the array is flattened first.

    Returns
    -------
    QuantizedArray
        The array with its elements repeated.

    Raises
    ------
    LayoutError
        Counts that differ along an axis of several blocks of more than one element.
    ValueError, IndexError
        A count is negative, their number is not that of the positions, or the axis does not
        exist, in NumPy's words.
    """
    repeats = seen_numbers(repeats, "repeat", "counts")
    parts = parts_of(q, "repeat")
    if axis is None:
        return repeat(reshape(q, (-1,)), repeats, 0)
    place = normalize_axis_index(axis, q.ndim)
    counts = np.asarray(repeats)
    line = np.arange(q.shape[place])
    if counts.size == 1 and (counts.ndim == 0 or q.shape[place] != 1):
        np.repeat(line[:1], counts)
        count = int(counts.reshape(()))
        if not count:
            return sliced(parts, place, range(0), "repeat").close()
        if place == parts.packed:
            fields = parts.on.repeated(fields_of(parts), count, place)
            data = words_of(parts, fields, place)
        else:
            data = parts.on.repeated(parts.data, count, place)
        axes = with_blocks(parts, place, parts.axes[place].repeated(count))
        return replace(parts, axes=axes, data=data).close()
    return positions_of(parts, place, np.repeat(line, counts)).close()


@recorded
def split(
    q: QuantizedArray, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[QuantizedArray]:
    """Cut an array into parts along an axis; always exact.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    indices_or_sections : int or sequence of int
        How many equal parts, or the positions at which to cut.
    axis : int
        The axis.

    Returns
    -------
    list of QuantizedArray
        The parts; those that start inside a block have a ``block_offset``.

    Raises
    ------
    ValueError, IndexError, TypeError
        The parts would not be equal, the axis does not exist, or a position is no integer, in
        NumPy's words.
    """
    parts = parts_of(q, "split")
    place = normalize_axis_index(axis, q.ndim)
    line = range(q.shape[place])
    given: Any = seen_numbers(indices_or_sections, "split", "positions")
    if np.ndim(given):
        # The slices of a range take what those of an array take, in the same words.
        picks = [line[start:stop] for start, stop in pairwise([0, *given, len(line)])]
    else:
        sections = len(np.split(probe((len(line),)), given))
        length = len(line) // sections
        picks = [line[k * length : (k + 1) * length] for k in range(sections)]
    return [sliced(parts, place, pick, "split").close() for pick in picks]


@recorded
def unstack(q: QuantizedArray, axis: int = 0) -> tuple[QuantizedArray, ...]:
    """Return the arrays along an axis, that axis removed; always exact.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    axis : int
        The axis.

    Returns
    -------
    tuple of QuantizedArray
        One array for each position.

    Raises
    ------
    IndexError
        There is no such axis, in NumPy's words.
    """
    parts_of(q, "unstack")
    place: Any = (slice(None),) * normalize_axis_index(axis, q.ndim)
    return tuple(q[(*place, position)] for position in range(q.shape[len(place)]))
