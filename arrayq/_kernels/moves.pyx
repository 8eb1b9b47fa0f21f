"""Words in another place: shifted along their lines, reversed, and transposed.

No code is looked at.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from arrayq._kernels.bits cimport aq_bytes, aq_const_bytes

cdef extern from *:
    """
    typedef uint32_t __attribute__((may_alias, aligned(1))) aq_loose32;
    typedef const aq_loose32 *__restrict__ aq_const_words;
    typedef aq_loose32 *__restrict__ aq_words;
    """
    ctypedef const uint32_t* aq_const_words
    ctypedef uint32_t* aq_words


def shift(
    const uint8_t[::1] source, int64_t lines, int64_t source_words, int64_t inner, int64_t first,
    int64_t words, int word_bytes, int down, int up, uint32_t mask, uint8_t[::1] target,
):
    """Words `first` on of each line, moved down by bits and filled from the word after them.

    A line has `source_words` words of `inner` neighbours each; what is moved up is masked.
    """
    cdef int64_t line, filled, available = source_words - first
    cdef int64_t have = min(words, available)
    if (
        source.shape[0] != lines * source_words * inner * word_bytes or first < 0 or have != words
        or target.shape[0] != lines * words * inner * word_bytes or word_bytes not in (1, 4)
        or not 0 < down < 8 * word_bytes or not 0 < up < 8 * word_bytes
    ):
        raise ValueError("target requires lines of words that source has")
    if target.shape[0] == 0:
        return
    filled = min(words, available - 1) * inner
    with nogil:
        for line in range(lines):
            if word_bytes == 1:
                shift_bytes(
                    &source[(line * source_words + first) * inner], words * inner, filled, inner,
                    down, up, mask, &target[line * words * inner],
                )
            else:
                shift_words(
                    &source[4 * (line * source_words + first) * inner], words * inner, filled,
                    inner, down, up, mask, &target[4 * line * words * inner],
                )


cdef inline void shift_bytes(
    const uint8_t* source, int64_t n, int64_t filled, int64_t inner, int down, int up,
    uint32_t mask, uint8_t* target,
) noexcept nogil:
    cdef aq_const_bytes low = source
    cdef aq_const_bytes high = source + inner
    cdef aq_bytes out = target
    cdef int64_t i
    for i in range(filled):
        out[i] = <uint8_t>((low[i] >> down) | ((high[i] << up) & mask))
    for i in range(filled, n):
        out[i] = low[i] >> down


cdef inline void shift_words(
    const uint8_t* source, int64_t n, int64_t filled, int64_t inner, int down, int up,
    uint32_t mask, uint8_t* target,
) noexcept nogil:
    cdef aq_const_words low = <aq_const_words>source
    cdef aq_const_words high = <aq_const_words>(source + 4 * inner)
    cdef aq_words out = <aq_words>target
    cdef int64_t i
    for i in range(filled):
        out[i] = (low[i] >> down) | ((high[i] << up) & mask)
    for i in range(filled, n):
        out[i] = low[i] >> down


def reverse(
    const uint8_t[::1] source, int64_t lines, int64_t words, int64_t inner, int word_bytes,
    int codes_per_word, int bits, uint8_t[::1] target,
):
    """Lines of `words` words of `inner` neighbours each, their words and their fields reversed."""
    cdef int64_t line, word
    if (
        source.shape[0] != target.shape[0] or word_bytes not in (1, 4)
        or source.shape[0] != lines * words * inner * word_bytes
        or not 0 < codes_per_word * bits <= 8 * word_bytes
    ):
        raise ValueError("target requires as many words as source")
    if target.shape[0] == 0:
        return
    with nogil:
        for line in range(lines):
            if inner == 1:
                reverse_run(
                    &source[line * words * word_bytes], words, True, word_bytes, codes_per_word,
                    bits, &target[line * words * word_bytes],
                )
                continue
            for word in range(words):
                reverse_run(
                    &source[(line * words + words - 1 - word) * inner * word_bytes], inner, False,
                    word_bytes, codes_per_word, bits,
                    &target[(line * words + word) * inner * word_bytes],
                )


cdef inline void reverse_run(
    const uint8_t* source, int64_t n, bint backwards, int word_bytes, int codes_per_word, int bits,
    uint8_t* target,
) noexcept nogil:
    """Words with their fields reversed, in the same order or backwards."""
    cdef aq_const_bytes from_bytes = source
    cdef aq_bytes to_bytes = target
    cdef aq_const_words from_words = <aq_const_words>source
    cdef aq_words to_words = <aq_words>target
    cdef uint32_t word, turned, mask = (<uint32_t>1 << bits) - 1 if bits < 32 else 0
    cdef int64_t i
    cdef int k
    if word_bytes == 1 and bits == 4:
        if backwards:
            for i in range(n):
                to_bytes[i] = <uint8_t>((from_bytes[n - 1 - i] >> 4) | (from_bytes[n - 1 - i] << 4))
        else:
            for i in range(n):
                to_bytes[i] = <uint8_t>((from_bytes[i] >> 4) | (from_bytes[i] << 4))
        return
    for i in range(n):
        word = from_bytes[n - 1 - i if backwards else i] if word_bytes == 1 else (
            from_words[n - 1 - i if backwards else i]
        )
        turned = 0
        for k in range(codes_per_word):
            turned = (turned << bits) | (word & mask)
            word >>= bits
        if word_bytes == 1:
            to_bytes[i] = <uint8_t>turned
        else:
            to_words[i] = turned


def transpose(
    const uint8_t[::1] source, const int64_t[:, ::1] outer, int64_t rows, int64_t columns,
    int64_t row_stride, int64_t column_stride, int word_bytes, uint8_t[::1] target,
):
    """Many matrices of words transposed: columns neighbour each other in source, rows in target.

    `outer` holds the lengths of the axes around the matrices and their byte strides in source and
    in target, one axis to a column; `row_stride` is that of rows in source, `column_stride` that
    of columns in target.
    """
    cdef int64_t matrices = 1, matrix, rest, place, axis, from_byte, to_byte
    cdef int64_t axes = outer.shape[1]
    for axis in range(axes):
        matrices *= outer[0, axis]
    if (
        source.shape[0] != target.shape[0] or word_bytes not in (1, 4)
        or source.shape[0] != matrices * rows * columns * word_bytes
    ):
        raise ValueError("target requires as many words as source")
    if source.shape[0] == 0:
        return
    with nogil:
        for matrix in range(matrices):
            rest, from_byte, to_byte = matrix, 0, 0
            for axis in range(axes - 1, -1, -1):
                place = rest % outer[0, axis]
                rest = rest // outer[0, axis]
                from_byte += place * outer[1, axis]
                to_byte += place * outer[2, axis]
            transpose_matrix(
                &source[from_byte], rows, columns, row_stride, column_stride, word_bytes,
                &target[to_byte],
            )


cdef enum:
    # A tile is as wide as a cache line on both sides, so that every line is read and written
    # whole; it is turned in a buffer because target rows a power of two apart share cache sets.
    LINE = 64


cdef void transpose_matrix(
    const uint8_t* source, int64_t rows, int64_t columns, int64_t row_stride,
    int64_t column_stride, int word_bytes, uint8_t* target,
) noexcept nogil:
    cdef int64_t side = LINE // word_bytes
    cdef int64_t across, down, row, column, r, c, height, width
    cdef uint64_t[512] tile  # LINE lines of LINE bytes
    cdef uint8_t* turned = <uint8_t*>tile
    for down in range((rows + side - 1) // side):
        row = down * side
        height = min(side, rows - row)
        for across in range((columns + side - 1) // side):
            column = across * side
            width = min(side, columns - column)
            if height == side and width == side:
                if word_bytes == 1:
                    turn_bytes(source + row * row_stride + column, row_stride, turned)
                else:
                    turn_words(source + row * row_stride + 4 * column, row_stride, turned)
                for c in range(side):
                    memcpy(
                        target + (column + c) * column_stride + row * word_bytes,
                        turned + c * LINE, LINE,
                    )
            else:
                for c in range(width):
                    for r in range(height):
                        memcpy(
                            target + (column + c) * column_stride + (row + r) * word_bytes,
                            source + (row + r) * row_stride + (column + c) * word_bytes,
                            word_bytes,
                        )


cdef inline void turn_bytes(const uint8_t* source, int64_t row_stride, uint8_t* turned) noexcept nogil:
    """A tile of 64 by 64 bytes: eight rows at a time, swapping ever larger parts of words."""
    cdef uint64_t[8][8] part
    cdef uint64_t a, b
    cdef int64_t group, pair, i, k
    for group in range(8):
        for i in range(8):
            memcpy(&part[i][0], source + (8 * group + i) * row_stride, LINE)
        for i in range(0, 8, 2):
            for k in range(8):
                a, b = part[i][k], part[i + 1][k]
                part[i][k] = (a & 0x00FF00FF00FF00FFULL) | ((b & 0x00FF00FF00FF00FFULL) << 8)
                part[i + 1][k] = ((a >> 8) & 0x00FF00FF00FF00FFULL) | (b & 0xFF00FF00FF00FF00ULL)
        for pair in range(4):
            i = pair + (pair & 2)
            for k in range(8):
                a, b = part[i][k], part[i + 2][k]
                part[i][k] = (a & 0x0000FFFF0000FFFFULL) | ((b & 0x0000FFFF0000FFFFULL) << 16)
                part[i + 2][k] = ((a >> 16) & 0x0000FFFF0000FFFFULL) | (b & 0xFFFF0000FFFF0000ULL)
        for i in range(4):
            for k in range(8):
                a, b = part[i][k], part[i + 4][k]
                part[i][k] = (a & 0x00000000FFFFFFFFULL) | (b << 32)
                part[i + 4][k] = (a >> 32) | (b & 0xFFFFFFFF00000000ULL)
        for k in range(8):
            for i in range(8):
                memcpy(turned + (8 * k + i) * LINE + 8 * group, &part[i][k], 8)


cdef inline void turn_words(const uint8_t* source, int64_t row_stride, uint8_t* turned) noexcept nogil:
    """A tile of 16 by 16 words: pairs of rows become pairs of neighbours."""
    cdef uint64_t[2][8] part
    cdef uint64_t a
    cdef int64_t pair, k
    for pair in range(8):
        memcpy(&part[0][0], source + 2 * pair * row_stride, LINE)
        memcpy(&part[1][0], source + (2 * pair + 1) * row_stride, LINE)
        for k in range(8):
            a = (part[0][k] & 0xFFFFFFFFULL) | (part[1][k] << 32)
            memcpy(turned + 2 * k * LINE + 8 * pair, &a, 8)
            a = (part[0][k] >> 32) | (part[1][k] & 0xFFFFFFFF00000000ULL)
            memcpy(turned + (2 * k + 1) * LINE + 8 * pair, &a, 8)
