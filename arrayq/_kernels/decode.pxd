"""Codes into elements: one flat loop per kind of format, then a product with the block's scale."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from arrayq._kernels.bits cimport aq_bits, aq_const_bytes, aq_const_floats, aq_float, aq_floats
from arrayq._kernels.encode cimport INTEGER, MINIFLOAT, UNSIGNED, Codec, aq_look_up16


cdef inline void decode_minifloats(
    const uint8_t* source, int64_t n, Codec* codec, float* values,
) noexcept nogil:
    """Exact values; subnormal codes through an exact difference of two normal float32."""
    cdef aq_const_bytes codes = source
    cdef aq_floats out = values
    cdef int64_t i
    cdef int shift = 23 - codec.mantissa_bits, sign_shift = 32 - codec.bits
    cdef uint32_t sign_mask = <uint32_t>1 << (codec.bits - 1)
    cdef uint32_t normal = <uint32_t>(127 - codec.bias) << 23
    cdef uint32_t subnormal = <uint32_t>(128 - codec.bias) << 23
    cdef int32_t first_normal = 1 << codec.mantissa_bits
    cdef int32_t first_special = codec.first_special, infinity = codec.infinity
    cdef uint32_t code, magnitude, bits, special
    for i in range(n):
        code = codes[i]
        magnitude = code & (sign_mask - 1)
        bits = aq_bits(aq_float((magnitude << shift) + subnormal) - aq_float(subnormal))
        bits = bits if <int32_t>magnitude < first_normal else (magnitude << shift) + normal
        special = <uint32_t>0x7F800000 if <int32_t>magnitude == infinity else <uint32_t>0x7FC00000
        bits = bits if <int32_t>magnitude < first_special else special
        out[i] = aq_float(bits | ((code & sign_mask) << sign_shift))


cdef inline void decode_tile(
    const uint8_t* source, int64_t n, Codec* codec, float* values,
) noexcept nogil:
    cdef aq_const_bytes codes = source
    cdef aq_floats out = values
    cdef int64_t i
    if codec.bits <= 4 and codec.mask != 0xFF:
        aq_look_up16(codes, codec.table, out, n)
    elif codec.kind == INTEGER:
        for i in range(n):
            out[i] = <float><signed char>codes[i]
    elif codec.kind == UNSIGNED:
        for i in range(n):
            out[i] = <float>codes[i]
    elif codec.kind == MINIFLOAT:
        decode_minifloats(codes, n, codec, out)
    else:
        for i in range(n):
            out[i] = codec.table[codes[i]]


cdef inline void multiply_by_blocks(
    float* values, int64_t n, int64_t first, int64_t block, const float* factors,
) noexcept nogil:
    """`n` elements, the first of which is number `first` of its block, times their scales."""
    cdef aq_floats x = values
    cdef aq_const_floats scales = factors
    cdef int64_t i, k = 0, start = 0, taken
    cdef float scale
    if block == 1:
        for i in range(n):
            x[i] = x[i] * scales[i]
        return
    if first == 0 and block % 16 == 0:
        while n - start >= block:
            scale = scales[k]
            for taken in range(block // 16):
                for i in range(16):
                    x[start + i] = x[start + i] * scale
                start += 16
            k += 1
    while start < n:
        scale = scales[k]
        taken = min(block - first, n - start)
        for i in range(taken):
            x[start + i] = x[start + i] * scale
        start += taken
        first = 0
        k += 1
