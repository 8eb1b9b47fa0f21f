"""Elements into codes: division by the block's scale, then one flat loop per kind of format.

The numbers that tell one format from another (bounds, mantissa width, table) arrive as
arguments, taken from the rows of ``arrayq.formats``. Bounds in particular must not be literals:
GCC threads constants through the rounding and then does not vectorise it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from arrayq._kernels.bits cimport aq_bits, aq_bytes, aq_const_floats, aq_float, aq_floats
from arrayq._kernels.rounding cimport (
    HALF_EVEN, Rounding, round_integers, round_magnitude,
)

# Kinds of element formats, numbered as in arrayq._kernels.codecs.
cdef enum CodecKind:
    INTEGER = 0
    MINIFLOAT = 1
    TABLE = 2
    UNSIGNED = 3

# Fields of the integer table that describes an element format to the kernels, numbered as in
# arrayq._kernels.codecs._FIELDS.
cdef enum:
    FIELD_KIND = 0
    FIELD_BITS = 1
    FIELD_MANTISSA_BITS = 2
    FIELD_SMALLEST_NORMAL = 3     # float32 bits
    FIELD_LARGEST = 4             # float32 bits of the largest finite value
    FIELD_BIAS = 5
    FIELD_FIRST_SPECIAL = 6       # magnitude of the first code that is not finite
    FIELD_INFINITY = 7            # magnitude of the code of infinity, -1 without one
    FIELD_ZERO_CODE = 8
    FIELD_NATIVE = 9              # codes are stored one per element
    FIELD_REORDERED = 10          # a table whose code order is not that of its values
    FIELD_ROUNDING = 11
    CODEC_FIELDS = 12

cdef struct Codec:
    CodecKind kind
    int bits
    int mantissa_bits
    int32_t smallest_normal
    int32_t largest
    int bias
    int32_t first_special
    int32_t infinity
    uint8_t zero_code
    uint8_t mask                 # of a packed code; 0xFF where codes are stored natively
    bint reordered
    Rounding rounding
    uint64_t seed
    float low
    float high
    const float* edges           # 15 or 255 ascending edges, padded with +inf
    const uint8_t* order         # code of each place among the sorted table values
    const float* table           # value of each code, at least 16 entries


cdef extern from "tables.h" nogil:
    void aq_search16(aq_const_floats, aq_const_floats, aq_bytes, int64_t) noexcept
    void aq_look_up16(const uint8_t*, aq_const_floats, aq_floats, int64_t) noexcept


cdef inline void check_codec_tables(
    const int32_t[::1] fields, const float[::1] bounds, const float[::1] edges,
    const uint8_t[::1] order, const float[::1] table,
) except *:
    """The loops index these tables with bytes, so they must be of full length."""
    if fields.shape[0] != CODEC_FIELDS or bounds.shape[0] != 2:
        raise ValueError("the codec's fields or bounds are incomplete")
    if edges.shape[0] != 255 or order.shape[0] != 256 or table.shape[0] != 256:
        raise ValueError("codec tables require 255 edges, 256 places and 256 values")


cdef inline void read_codec(
    Codec* codec, const int32_t[::1] fields, const float[::1] bounds, const float[::1] edges,
    const uint8_t[::1] order, const float[::1] table,
) except *:
    codec.kind = <CodecKind>fields[FIELD_KIND]
    codec.bits = fields[FIELD_BITS]
    codec.mantissa_bits = fields[FIELD_MANTISSA_BITS]
    codec.smallest_normal = fields[FIELD_SMALLEST_NORMAL]
    codec.largest = fields[FIELD_LARGEST]
    codec.bias = fields[FIELD_BIAS]
    codec.first_special = fields[FIELD_FIRST_SPECIAL]
    codec.infinity = fields[FIELD_INFINITY]
    codec.zero_code = <uint8_t>fields[FIELD_ZERO_CODE]
    codec.mask = <uint8_t>0xFF if fields[FIELD_NATIVE] else <uint8_t>((1 << codec.bits) - 1)
    codec.reordered = fields[FIELD_REORDERED]
    codec.rounding = <Rounding>fields[FIELD_ROUNDING]
    codec.seed = 0
    codec.low = bounds[0]
    codec.high = bounds[1]
    codec.edges = &edges[0]
    codec.order = &order[0]
    codec.table = &table[0]


cdef inline void divide_block(
    const float* source, int64_t n, float divisor, float* quotients,
) noexcept nogil:
    """`n` elements over one scale. Under a scale of zero every code is a (signed) zero."""
    cdef aq_const_floats x = source
    cdef aq_floats out = quotients
    cdef int64_t i
    if divisor == 0:
        for i in range(n):
            out[i] = aq_float(aq_bits(x[i]) & <uint32_t>0x80000000)
    else:
        for i in range(n):
            out[i] = x[i] / divisor


cdef inline void divide_by_blocks(
    const float* source, int64_t n, int64_t first, int64_t block, const float* scales,
    float* quotients,
) noexcept nogil:
    """`n` elements, the first of which is number `first` of its block, over their scales."""
    cdef aq_const_floats x = source
    cdef aq_floats out = quotients
    cdef int64_t i, k = 0, start = 0, taken
    cdef float scale, quotient
    if block == 1:
        for i in range(n):
            scale = scales[i]
            quotient = x[i] / scale
            out[i] = quotient if scale != 0 else aq_float(aq_bits(x[i]) & <uint32_t>0x80000000)
        return
    if first == 0 and block % 16 == 0:
        while n - start >= block:
            scale = scales[k]
            if scale == 0:
                divide_block(x + start, block, scale, out + start)
                start += block
            else:
                for taken in range(block // 16):
                    for i in range(16):
                        out[start + i] = x[start + i] / scale
                    start += 16
            k += 1
    while start < n:
        taken = min(block - first, n - start)
        divide_block(x + start, taken, scales[k], out + start)
        start += taken
        first = 0
        k += 1


cdef inline void multiply_by_inverses(
    const float* source, int64_t n, int64_t first, int64_t block, const float* scales,
    float* quotients,
) noexcept nogil:
    """As `divide_by_blocks`, by products with the reciprocal of the scale where it is finite."""
    cdef aq_const_floats x = source
    cdef aq_floats out = quotients
    cdef int64_t i, k = 0, start = 0, taken
    cdef float inverse
    while start < n:
        taken = min(block - first, n - start)
        inverse = <float>1.0 / scales[k]
        if scales[k] != 0 and inverse - inverse == 0:
            for i in range(taken):
                out[start + i] = x[start + i] * inverse
        else:
            divide_block(x + start, taken, scales[k], out + start)
        start += taken
        first = 0
        k += 1


cdef inline void encode_minifloats(
    const float* source, int64_t n, Codec* codec, uint8_t* codes,
) noexcept nogil:
    """Nearest minifloat, ties to even, saturating, the sign of zero kept.

    Adding a power of two whose unit in the last place is the spacing of the target's binade
    rounds in the float32 addition itself; the integer difference is the code.
    """
    cdef aq_const_floats x = source
    cdef aq_bytes out = codes
    cdef int64_t i
    cdef int32_t largest = codec.largest, smallest_normal = codec.smallest_normal
    cdef int shift = 23 - codec.mantissa_bits, sign_shift = 32 - codec.bits
    cdef uint32_t sign_mask = <uint32_t>1 << (codec.bits - 1), bits, addend, code
    cdef int32_t magnitude, exponent
    for i in range(n):
        bits = aq_bits(x[i])
        magnitude = <int32_t>(bits & 0x7FFFFFFF)
        magnitude = magnitude if magnitude < largest else largest
        exponent = magnitude & 0x7F800000
        exponent = exponent if exponent > smallest_normal else smallest_normal
        addend = <uint32_t>exponent + (<uint32_t>shift << 23)
        code = aq_bits(aq_float(<uint32_t>magnitude) + aq_float(addend)) - addend
        code += <uint32_t>(exponent - smallest_normal) >> shift
        out[i] = <uint8_t>(code | ((bits >> sign_shift) & sign_mask))


cdef inline void round_minifloats(
    const float* source, int64_t n, Codec* codec, uint64_t first, uint8_t* codes,
) noexcept nogil:
    """As `encode_minifloats` under another rule than half to even: the magnitude in units of its
    binade's spacing is exact, and so is what the rule decides on."""
    cdef aq_const_floats x = source
    cdef aq_bytes out = codes
    cdef int64_t i
    cdef int32_t largest = codec.largest, smallest_normal = codec.smallest_normal
    cdef int shift = 23 - codec.mantissa_bits, sign_shift = 32 - codec.bits
    cdef uint32_t sign_mask = <uint32_t>1 << (codec.bits - 1), bits, code
    cdef int32_t magnitude, exponent
    cdef float spacings
    for i in range(n):
        bits = aq_bits(x[i])
        magnitude = <int32_t>(bits & 0x7FFFFFFF)
        magnitude = magnitude if magnitude < largest else largest
        exponent = magnitude & 0x7F800000
        exponent = exponent if exponent > smallest_normal else smallest_normal
        spacings = aq_float(<uint32_t>magnitude) * aq_float(
            (<uint32_t>(254 + codec.mantissa_bits) << 23) - <uint32_t>exponent
        )
        code = <uint32_t>round_magnitude(
            spacings, bits >> 31, codec.rounding, codec.seed, first + <uint64_t>i
        )
        code += <uint32_t>(exponent - smallest_normal) >> shift
        out[i] = <uint8_t>(code | ((bits >> sign_shift) & sign_mask))


cdef inline void encode_by_table(
    const float* source, int64_t n, Codec* codec, uint8_t* codes,
) noexcept nogil:
    """Place among ascending edges; a value on an edge goes to the lower entry, NaN to the lowest."""
    cdef aq_const_floats x = source
    cdef aq_bytes out = codes
    cdef int64_t i
    cdef uint32_t place, step
    cdef float v
    if codec.bits <= 4:
        aq_search16(x, codec.edges, out, n)
    else:
        for i in range(n):
            v = x[i]
            place = 0
            step = 128
            while step:
                place += step if v > codec.edges[place + step - 1] else <uint32_t>0
                step >>= 1
            out[i] = <uint8_t>place
    if codec.reordered:
        for i in range(n):
            out[i] = codec.order[out[i]]


cdef inline void encode_tile(
    const float* quotients, int64_t n, Codec* codec, uint64_t first, uint8_t* codes,
) noexcept nogil:
    """Codes of `n` quotients, of which the first is element number `first` of the array."""
    if codec.kind == INTEGER or codec.kind == UNSIGNED:
        round_integers(
            quotients, n, codec.low, codec.high, codec.mask, codec.rounding, codec.seed, first,
            codes,
        )
    elif codec.kind == TABLE:
        encode_by_table(quotients, n, codec, codes)
    elif codec.rounding == HALF_EVEN:
        encode_minifloats(quotients, n, codec, codes)
    else:
        round_minifloats(quotients, n, codec, first, codes)


cdef inline void clear_nan_blocks(
    uint8_t* codes, int64_t n, int64_t first, int64_t block, const float* scales,
    uint8_t zero_code,
) noexcept nogil:
    """Blocks whose scale is NaN hold the code of zero."""
    cdef int64_t k = 0, start = 0, taken
    while start < n:
        taken = min(block - first, n - start)
        if scales[k] != scales[k]:
            memset(codes + start, zero_code, taken)
        start += taken
        first = 0
        k += 1
