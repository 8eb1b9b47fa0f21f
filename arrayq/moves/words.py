"""Codes in words under a move: without unpacking wherever whole words move.

Along the packed axis, code k of a line occupies bits ``[k * bits, (k + 1) * bits)`` of its words,
counted from the low end of the first. A slice that starts on a word boundary is a slice of words;
any other start shifts every word and takes the rest from the next one. Only steps and gathers
along the packed axis unpack, and no move ever decodes.
"""

from __future__ import annotations

from dataclasses import replace

from arrayq.moves.blocks import AxisBlocks
from arrayq.moves.operations import Array, along
from arrayq.moves.parts import Parts

__all__ = ["fields_of", "one_position", "picked", "words_of"]


def fields_of(parts: Parts) -> Array:
    """Return one code per element: unsigned fields, or codes as they are in the native store."""
    store, packed = parts.scheme.store, parts.packed
    if not store.is_packed:
        return parts.data
    extent = 1 if packed is None else parts.axes[packed].length
    return parts.on.unpacked(parts.data, parts.scheme.value, store, packed, extent)


def words_of(parts: Parts, fields: Array, packed: int | None) -> Array:
    """Return data of the parts' store from fields, packed along an axis of theirs."""
    if not parts.scheme.store.is_packed:
        return fields
    return parts.on.packed(fields, parts.scheme.value, parts.scheme.store, packed)


def picked(parts: Parts, axis: int, picks: range) -> Array:
    """Return the data of a slice along one axis."""
    on, data, length = parts.on, parts.data, len(picks)
    whole = range(parts.axes[axis].length)
    if picks == whole:
        return data
    if axis != parts.packed or not length:
        return on.sliced(data, axis, picks)
    if picks.step == 1 or length == 1:
        return _cut_out(parts, axis, picks[0], length)
    if picks == whole[::-1]:
        return on.turned(data, axis, length, parts.scheme.value, parts.scheme.store)
    per_word = parts.codes_per_word
    first_word, end_word = min(picks[0], picks[-1]) // per_word, max(picks) // per_word + 1
    # Only the words that hold a picked code are unpacked.
    start = first_word * per_word
    stop = min(end_word * per_word, parts.axes[axis].length)
    window = replace(
        parts,
        data=on.sliced(data, axis, range(first_word, end_word)),
        axes=_with_length(parts, axis, stop - start),
    )
    places = range(picks.start - start, picks.stop - start, picks.step)
    return words_of(parts, on.sliced(fields_of(window), axis, places), axis)


def one_position(parts: Parts, axis: int, position: int) -> Array:
    """Return the fields at one position of the packed axis, that axis removed."""
    word, place = divmod(position, parts.codes_per_word)
    bits = parts.scheme.value.bits
    return parts.on.field(parts.on.indexed(parts.data, along(axis, word)), place * bits, bits)


def _with_length(parts: Parts, axis: int, length: int) -> tuple[AxisBlocks, ...]:
    axes = list(parts.axes)
    axes[axis] = replace(axes[axis], length=length)
    return tuple(axes)


def _cut_out(parts: Parts, axis: int, start: int, length: int) -> Array:
    """Words of `length` neighbouring codes of the packed axis, from `start` on."""
    per_word, bits = parts.codes_per_word, parts.scheme.value.bits
    first, place = divmod(start, per_word)
    count = -(-length // per_word)
    last = length % per_word or per_word
    return parts.on.cut(parts.data, axis, first, count, place * bits, per_word * bits, last * bits)
