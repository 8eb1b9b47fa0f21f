"""Codes to stored words: fields from the low bits up, along one axis, line by line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

WORD_BITS = {"packed_native": 8, "packed_u32": 32}


def packed_shape(shape: Sequence[int], bits: int, store: str, dim: int) -> tuple[int, ...]:
    """Return the shape of the words; only the packed axis is divided, rounding up."""
    if store == "native" or not shape:
        return tuple(shape)
    per_word = WORD_BITS[store] // bits
    axis = len(shape) - 1 - dim
    return tuple(-(-n // per_word) if k == axis else n for k, n in enumerate(shape))


def pack_fields(
    codes: npt.NDArray[np.int64], bits: int, store: str, dim: int
) -> npt.NDArray[np.uint64]:
    """Return the words that hold unsigned fields; unused fields and bits are zero."""
    if store == "native":
        return codes.astype(np.uint64)
    if not codes.ndim:
        return codes.astype(np.uint64)
    per_word = WORD_BITS[store] // bits
    axis = codes.ndim - 1 - dim
    words = np.zeros(packed_shape(codes.shape, bits, store, dim), np.uint64)
    fields, lines = np.moveaxis(codes.astype(np.uint64), axis, -1), np.moveaxis(words, axis, -1)
    for field in range(per_word):
        found = fields[..., field::per_word]
        lines[..., : found.shape[-1]] |= found << np.uint64(field * bits)
    return words


def unpack_fields(
    words: npt.NDArray[np.uint64], bits: int, store: str, dim: int, shape: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return the unsigned fields that words hold, for an array of the given shape."""
    per_word = 1 if store == "native" else WORD_BITS[store] // bits
    codes = np.zeros(tuple(shape), np.int64)
    axis = codes.ndim - 1 - dim
    for index in np.ndindex(codes.shape):
        where, field = list(index), 0
        if index:
            where[axis], field = divmod(index[axis], per_word)
        codes[index] = (int(words[tuple(where)]) >> (field * bits)) % 2**bits
    return codes
