"""Rounding rules, by name: where a number between two codes goes."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from arrayq._kernels.bits cimport aq_bits, aq_bytes, aq_const_floats, aq_float

# Numbered as in arrayq._kernels.codecs.ROUNDINGS.
cdef enum Rounding:
    HALF_AWAY = 0
    HALF_EVEN = 1
    HALF_UP = 2
    HALF_TO_ZERO = 3
    STOCHASTIC = 4


cdef inline float uniform(uint64_t seed, uint64_t index) noexcept nogil:
    """A number in [0, 1) that depends on the seed and on the element's place alone: the
    finaliser of splitmix64 (Steele, Lea and Flood 2014), its 24 highest bits."""
    cdef uint64_t z = seed + (index + 1) * <uint64_t>0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    z ^= z >> 31
    return <float><int32_t>(z >> 40) * aq_float(<uint32_t>(127 - 24) << 23)


cdef inline int32_t round_magnitude(
    float t, uint32_t negative, Rounding rounding, uint64_t seed, uint64_t index,
) noexcept nogil:
    """A non-negative number below 2**23 to an integer; `negative` tells the sign that it had."""
    cdef int32_t whole = <int32_t>t
    cdef float rest = t - <float>whole
    if rounding == STOCHASTIC:
        return whole + <int32_t>(uniform(seed, index) < rest)
    if rounding == HALF_TO_ZERO or (rounding == HALF_UP and negative):
        return whole + <int32_t>(rest > <float>0.5)
    if rounding == HALF_EVEN:
        return whole + <int32_t>((rest > <float>0.5) | ((rest == <float>0.5) & (whole & 1)))
    return whole + <int32_t>(rest >= <float>0.5)


cdef inline void round_integers(
    const float* source, int64_t n, float low, float high, uint8_t mask, Rounding rounding,
    uint64_t seed, uint64_t first, uint8_t* codes,
) noexcept nogil:
    """round(clamp(x, low, high)) as two's complement fields; the bounds are integers."""
    cdef aq_const_floats x = source
    cdef aq_bytes out = codes
    cdef int64_t i
    cdef int32_t whole
    cdef float v, rest
    cdef uint32_t half
    if rounding == HALF_AWAY:
        # exactly truncation of v + copysign(0.5 - 2**-25, v) in float32
        for i in range(n):
            v = x[i]
            v = v if v < high else high
            v = v if v > low else low
            half = <uint32_t>0x3EFFFFFF | (aq_bits(v) & <uint32_t>0x80000000)
            out[i] = <uint8_t>(<int32_t>(v + aq_float(half)) & mask)
    elif rounding == HALF_EVEN:
        # adding 1.5 * 2**23 rounds to nearest even in the addition itself
        for i in range(n):
            v = x[i]
            v = v if v < high else high
            v = v if v > low else low
            out[i] = <uint8_t>(aq_bits(v + <float>12582912.0) & mask)
    elif rounding == STOCHASTIC:
        for i in range(n):
            v = x[i]
            v = v if v < high else high
            v = v if v > low else low
            whole = <int32_t>v - <int32_t>(<float><int32_t>v > v)
            rest = v - <float>whole
            whole += <int32_t>(uniform(seed, first + <uint64_t>i) < rest)
            out[i] = <uint8_t>(whole & mask)
    elif rounding == HALF_UP:
        for i in range(n):
            v = x[i]
            v = v if v < high else high
            v = v if v > low else low
            whole = <int32_t>v - <int32_t>(<float><int32_t>v > v)
            out[i] = <uint8_t>((whole + <int32_t>(v - <float>whole >= <float>0.5)) & mask)
    else:
        for i in range(n):
            v = x[i]
            v = v if v < high else high
            v = v if v > low else low
            whole = <int32_t>v
            rest = v - <float>whole
            whole += <int32_t>(rest > <float>0.5) - <int32_t>(rest < <float>-0.5)
            out[i] = <uint8_t>(whole & mask)


cdef inline float round_whole(float x, Rounding rounding) noexcept nogil:
    """A number of less than 2**22 in magnitude to the nearest integer; ties by the rule, not for
    the stochastic one, which is about elements."""
    cdef uint32_t bits = aq_bits(x), sign = bits & <uint32_t>0x80000000
    cdef int32_t magnitude = round_magnitude(aq_float(bits ^ sign), sign >> 31, rounding, 0, 0)
    return <float>(-magnitude if sign else magnitude)
