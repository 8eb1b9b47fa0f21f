"""Codes into words and back: the first code in the lowest bits, no code across two words.

Where the width divides eight, a 32-bit word is four bytes of the same stream, low byte first, so
that both word sizes share one loop.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from arrayq._kernels.bits cimport (
    aq_bytes, aq_const_bytes, aq_const_pairs, aq_load_u32, aq_store_u32,
)


cdef inline void pack_words(
    const uint8_t* source, int64_t words, int64_t codes_per_word, int bits, int word_bytes,
    uint8_t* packed,
) noexcept nogil:
    """`words` whole words from ``words * codes_per_word`` codes."""
    cdef aq_const_bytes codes = source
    cdef aq_const_pairs pairs = <aq_const_pairs>source
    cdef aq_bytes out = packed
    cdef int64_t i, k
    cdef uint32_t word
    if bits == 8 or (codes_per_word == 1 and word_bytes == 1):
        memcpy(packed, source, words * word_bytes)
    elif bits == 4:
        for i in range(words * word_bytes):
            out[i] = <uint8_t>(pairs[i] | (pairs[i] >> 4))
    elif bits == 2:
        for i in range(words * word_bytes):
            out[i] = <uint8_t>(
                codes[4 * i] | (codes[4 * i + 1] << 2) | (codes[4 * i + 2] << 4)
                | (codes[4 * i + 3] << 6)
            )
    else:
        for i in range(words):
            word = 0
            for k in range(codes_per_word):
                word |= <uint32_t>codes[i * codes_per_word + k] << (k * bits)
            if word_bytes == 1:
                out[i] = <uint8_t>word
            else:
                aq_store_u32(packed + 4 * i, word)


cdef inline void unpack_words(
    const uint8_t* source, int64_t n, int64_t codes_per_word, int bits, int word_bytes,
    uint8_t* unpacked,
) noexcept nogil:
    """The first `n` codes of whole words; writes up to the end of the last word."""
    cdef aq_const_bytes packed = source
    cdef aq_bytes codes = unpacked
    cdef int64_t i, k, words = (n + codes_per_word - 1) // codes_per_word
    cdef uint32_t word, mask = (<uint32_t>1 << bits) - 1
    if bits == 8:
        memcpy(unpacked, source, n)
    elif codes_per_word == 1 and word_bytes == 1:
        for i in range(n):
            codes[i] = packed[i] & mask
    elif bits == 4:
        for i in range(words * word_bytes):
            codes[2 * i] = packed[i] & 15
            codes[2 * i + 1] = packed[i] >> 4
    elif bits == 2:
        for i in range(words * word_bytes):
            codes[4 * i] = packed[i] & 3
            codes[4 * i + 1] = (packed[i] >> 2) & 3
            codes[4 * i + 2] = (packed[i] >> 4) & 3
            codes[4 * i + 3] = packed[i] >> 6
    else:
        for i in range(words):
            word = packed[i] if word_bytes == 1 else aq_load_u32(source + 4 * i)
            for k in range(codes_per_word):
                codes[i * codes_per_word + k] = <uint8_t>((word >> (k * bits)) & mask)


cdef inline void merge_into_words(
    const uint8_t* source, int64_t n, int shift, int word_bytes, uint8_t* packed,
) noexcept nogil:
    """One line of codes into field ``shift / bits`` of `n` words; field 0 overwrites the words."""
    cdef aq_const_bytes codes = source
    cdef aq_bytes out = packed
    cdef int64_t i
    if word_bytes == 1:
        if shift == 0:
            memcpy(packed, source, n)
        else:
            for i in range(n):
                out[i] |= <uint8_t>(codes[i] << shift)
    elif shift == 0:
        for i in range(n):
            aq_store_u32(packed + 4 * i, codes[i])
    else:
        for i in range(n):
            aq_store_u32(packed + 4 * i, aq_load_u32(packed + 4 * i) | (<uint32_t>codes[i] << shift))


cdef inline void split_from_words(
    const uint8_t* source, int64_t n, int shift, int bits, int word_bytes, uint8_t* unpacked,
) noexcept nogil:
    """Field ``shift / bits`` of `n` words as a line of codes."""
    cdef aq_const_bytes packed = source
    cdef aq_bytes codes = unpacked
    cdef uint8_t mask = <uint8_t>((1 << bits) - 1)
    cdef int64_t i
    if word_bytes == 1:
        for i in range(n):
            codes[i] = (packed[i] >> shift) & mask
    else:
        for i in range(n):
            codes[i] = <uint8_t>(aq_load_u32(source + 4 * i) >> shift) & mask
