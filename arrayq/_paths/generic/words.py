"""Codes into words and back: the first code in the lowest bits, no code across two words."""

from __future__ import annotations

from arrayq._paths.space import Array, Space
from arrayq.scheme import QuantStore, QuantValue

__all__ = ["pack", "unpack"]


def _integer(space: Space, store: QuantStore) -> str:
    """Return the dtype in which words are put together and taken apart."""
    return "uint8" if store.word_bits == 8 else space.word_integer


def pack(
    space: Space, fields: Array, value: QuantValue, store: QuantStore, axis: int | None
) -> Array:
    """Put codes into words.

    Parameters
    ----------
    space : Space
        Where to compute.
    fields : uint8 array
        Codes as unsigned fields.
    value : QuantValue
        Whose width the fields have.
    store : QuantStore
        A packed store.
    axis : int or None
        The packed axis; None for an array of no axes, whose code has a word to itself.

    Returns
    -------
    uint8 or uint32 array
        Words; the packed axis is shorter by the codes in a word, rounded up.
    """
    xp = space.xp
    codes = store.codes_per_word(value)
    if axis is None or codes == 1:
        return space.cast(fields, store.word_dtype)
    missing = -fields.shape[axis] % codes
    if missing:
        shape = (*fields.shape[:axis], missing, *fields.shape[axis + 1 :])
        fields = xp.concat([fields, space.full(shape, 0, "uint8")], axis=axis)
    shape = fields.shape
    split = (*shape[:axis], shape[axis] // codes, codes, *shape[axis + 1 :])
    fields = space.cast(xp.reshape(fields, split), _integer(space, store))
    before = (slice(None),) * (axis + 1)
    words = fields[(*before, 0, ...)]
    for place in range(1, codes):
        words = words | (fields[(*before, place, ...)] << (place * value.bits))
    return space.cast(words, store.word_dtype)


def unpack(
    space: Space,
    words: Array,
    value: QuantValue,
    store: QuantStore,
    axis: int | None,
    extent: int | None,
) -> Array:
    """Take codes out of words; the inverse of `pack`.

    Parameters
    ----------
    space : Space
        Where to compute.
    words : uint8 or uint32 array
        Words.
    value : QuantValue
        Whose width the fields have.
    store : QuantStore
        A packed store.
    axis : int or None
        The packed axis; None for an array of no axes.
    extent : int or None
        How many codes there are along the packed axis.

    Returns
    -------
    uint8 array
        Codes as unsigned fields.
    """
    xp = space.xp
    codes = store.codes_per_word(value)
    mask = (1 << value.bits) - 1
    integer = _integer(space, store)
    words = space.cast(words, integer)
    if axis is None or extent is None or codes == 1:
        return space.cast(words & mask, "uint8")
    shape = words.shape
    across = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    along = (1,) * (axis + 1) + (codes,) + (1,) * (len(shape) - axis - 1)
    shifts = space.constant([place * value.bits for place in range(codes)], integer)
    fields = (xp.reshape(words, across) >> xp.reshape(shifts, along)) & mask
    fields = space.cast(fields, "uint8")
    fields = xp.reshape(fields, (*shape[:axis], shape[axis] * codes, *shape[axis + 1 :]))
    if shape[axis] * codes == extent:
        return fields
    return fields[(slice(None),) * axis + (slice(0, extent), ...)]
