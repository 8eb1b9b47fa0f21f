"""Element codes without scales, and words of codes, over contiguous lines."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from arrayq._kernels.decode cimport decode_tile
from arrayq._kernels.encode cimport Codec, check_codec_tables, encode_tile, read_codec
from arrayq._kernels.pack cimport pack_words, unpack_words


def encode(
    const float[::1] values, const int32_t[::1] codec_fields, const float[::1] codec_bounds,
    const float[::1] edges, const uint8_t[::1] order, const float[::1] table, uint8_t[::1] codes,
):
    """Nearest code of each value, saturating."""
    cdef Codec codec
    cdef int64_t n = values.shape[0]
    check_codec_tables(codec_fields, codec_bounds, edges, order, table)
    if codes.shape[0] != n:
        raise ValueError("codes requires as many entries as values")
    if n == 0:
        return
    read_codec(&codec, codec_fields, codec_bounds, edges, order, table)
    with nogil:
        encode_tile(&values[0], n, &codec, 0, &codes[0])


def decode(
    const uint8_t[::1] codes, const int32_t[::1] codec_fields, const float[::1] codec_bounds,
    const float[::1] edges, const uint8_t[::1] order, const float[::1] table, float[::1] values,
):
    """Value of each code; codes lie inside their field."""
    cdef Codec codec
    cdef int64_t n = values.shape[0]
    check_codec_tables(codec_fields, codec_bounds, edges, order, table)
    if codes.shape[0] != n:
        raise ValueError("values requires as many entries as codes")
    if n == 0:
        return
    read_codec(&codec, codec_fields, codec_bounds, edges, order, table)
    with nogil:
        decode_tile(&codes[0], n, &codec, &values[0])


def pack(const uint8_t[:, ::1] codes, int64_t codes_per_word, int bits, int word_bytes, uint8_t[:, ::1] words):
    """Lines of whole words of codes (already masked to `bits`) into lines of word bytes."""
    cdef int64_t line, count
    if (
        codes.shape[0] != words.shape[0] or words.shape[1] % word_bytes
        or codes.shape[1] != words.shape[1] // word_bytes * codes_per_word
    ):
        raise ValueError("words requires one word per codes_per_word codes of each line")
    if words.shape[0] == 0 or words.shape[1] == 0:
        return
    count = words.shape[1] // word_bytes
    with nogil:
        for line in range(words.shape[0]):
            pack_words(&codes[line, 0], count, codes_per_word, bits, word_bytes, &words[line, 0])


def unpack(const uint8_t[:, ::1] words, int64_t codes_per_word, int bits, int word_bytes, uint8_t[:, ::1] codes):
    """Lines of word bytes into lines of whole words of codes."""
    cdef int64_t line
    if (
        codes.shape[0] != words.shape[0] or words.shape[1] % word_bytes
        or codes.shape[1] != words.shape[1] // word_bytes * codes_per_word
    ):
        raise ValueError("codes requires codes_per_word codes per word of each line")
    if words.shape[0] == 0 or words.shape[1] == 0:
        return
    with nogil:
        for line in range(words.shape[0]):
            unpack_words(
                &words[line, 0], codes.shape[1], codes_per_word, bits, word_bytes, &codes[line, 0]
            )

