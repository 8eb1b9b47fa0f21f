"""Codes in words under a move: without unpacking wherever whole words move.

Along the packed axis, code k of a line occupies bits ``[k * bits, (k + 1) * bits)`` of its words,
counted from the low end of the first. A slice that starts on a word boundary is a slice of words;
any other start shifts every word and takes the rest from the next one. Only steps and gathers
along the packed axis unpack, and no move ever decodes.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from arrayq._kernels import kernels
from arrayq.codes import pack_fields, unpack_fields
from arrayq.moves.blocks import AxisBlocks
from arrayq.moves.parts import Array, Parts
from arrayq.scheme import QuantStore

__all__ = ["fields_of", "one_position", "picked", "words_of"]


def _line_store(parts: Parts, packed: int | None, ndim: int) -> QuantStore:
    store = parts.scheme.store
    return QuantStore(store.kind, 0 if packed is None else ndim - 1 - packed)


def fields_of(parts: Parts) -> Array:
    """Return one code per element: unsigned fields, or codes as they are in the native store."""
    store = parts.scheme.store
    if not store.is_packed:
        return parts.data
    extent = None if parts.packed is None else parts.axes[parts.packed].length
    line_store = _line_store(parts, parts.packed, len(parts.axes))
    return unpack_fields(parts.data, parts.scheme.value, line_store, extent)


def words_of(parts: Parts, fields: Array, packed: int | None) -> Array:
    """Return data of the parts' store from fields, packed along an axis of theirs."""
    if not parts.scheme.store.is_packed:
        return fields
    return pack_fields(fields, parts.scheme.value, _line_store(parts, packed, fields.ndim))


def picked(parts: Parts, axis: int, picks: range) -> Array:
    """Return the data of a slice along one axis."""
    data, length = parts.data, len(picks)
    if picks == range(parts.axes[axis].length):
        return data
    if axis != parts.packed:
        return data[_along(axis, as_slice(picks))]
    if not length:
        return data[_along(axis, slice(0))]
    per_word = parts.codes_per_word
    if picks.step == 1 or length == 1:
        return _cut_out(parts, axis, picks[0], length)
    if picks == range(parts.axes[axis].length)[::-1]:
        return _reversed(parts, axis)
    first_word, end_word = min(picks[0], picks[-1]) // per_word, max(picks) // per_word + 1
    # Only the words that hold a picked code are unpacked.
    start = first_word * per_word
    stop = min(end_word * per_word, parts.axes[axis].length)
    window = replace(
        parts,
        data=data[_along(axis, slice(first_word, end_word))],
        axes=_with_length(parts, axis, stop - start),
    )
    places = range(picks.start - start, picks.stop - start, picks.step)
    return words_of(parts, fields_of(window)[_along(axis, as_slice(places))], axis)


def one_position(parts: Parts, axis: int, position: int) -> Array:
    """Return the fields at one position of the packed axis, that axis removed."""
    word, place = divmod(position, parts.codes_per_word)
    bits = parts.scheme.value.bits
    words = parts.data[(slice(None),) * axis + (word, ...)]
    mask = words.dtype.type((1 << bits) - 1)
    return np.asarray((words >> words.dtype.type(place * bits)) & mask, np.uint8)


def as_slice(picks: range) -> slice:
    """Return the slice that picks the same places; they are not negative."""
    if not picks:
        return slice(0)
    stop = picks[-1] + picks.step // abs(picks.step)
    return slice(picks[0], stop if stop >= 0 else None, picks.step)


def _along(axis: int, index: slice) -> tuple[slice, ...]:
    return (slice(None),) * axis + (index,)


def _with_length(parts: Parts, axis: int, length: int) -> tuple[AxisBlocks, ...]:
    axes = list(parts.axes)
    axes[axis] = replace(axes[axis], length=length)
    return tuple(axes)


def _cut_out(parts: Parts, axis: int, start: int, length: int) -> Array:
    """Words of `length` neighbouring codes of the packed axis, from `start` on."""
    per_word, bits = parts.codes_per_word, parts.scheme.value.bits
    first, place = divmod(start, per_word)
    count = -(-length // per_word)
    words = parts.data
    spare = length % per_word
    if not place:
        aligned = words[_along(axis, slice(first, first + count))]
        if not spare:
            return aligned
        cut = np.array(aligned, order="C")
    else:
        cut = _shifted(words, axis, first, count, place * bits, per_word * bits)
    if spare:
        # Fields that no element fills are zero, in every word that arrayq writes.
        cut[_along(axis, slice(count - 1, count))] &= cut.dtype.type((1 << (spare * bits)) - 1)
    return cut


def _reversed(parts: Parts, axis: int) -> Array:
    """Words of the packed axis read backwards."""
    words, per_word, bits = parts.data, parts.codes_per_word, parts.scheme.value.bits
    source = np.ascontiguousarray(words)
    result = np.empty(words.shape, words.dtype)
    kernels.moves.reverse(
        source.reshape(-1).view(np.uint8), prod(words.shape[:axis]), words.shape[axis],
        prod(words.shape[axis + 1 :]), words.itemsize, per_word, bits,
        result.reshape(-1).view(np.uint8),
    )  # fmt: skip
    # The unused fields of the last word have become the first ones, and move out.
    unused = -parts.axes[axis].length % per_word
    if not unused:
        return result
    return _shifted(result, axis, 0, words.shape[axis], unused * bits, per_word * bits)


def _shifted(words: Array, axis: int, first: int, count: int, shift: int, used: int) -> Array:
    """Words whose lowest `shift` of `used` bits have moved out, filled from the next word."""
    source = np.ascontiguousarray(words)
    result = np.empty((*words.shape[:axis], count, *words.shape[axis + 1 :]), words.dtype)
    kernels.moves.shift(
        source.reshape(-1).view(np.uint8), prod(words.shape[:axis]), words.shape[axis],
        prod(words.shape[axis + 1 :]), first, count, words.itemsize, shift, used - shift,
        (1 << used) - 1, result.reshape(-1).view(np.uint8),
    )  # fmt: skip
    return result
