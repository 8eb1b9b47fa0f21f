"""Zero points of affine blocks: from bounds and scale to what is stored, and to what codes need."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from arrayq._kernels.bits cimport (
    aq_bits, aq_bytes, aq_const_floats, aq_floats, aq_float, aq_load_u32, aq_narrow_bf16, aq_narrow_f16, aq_store_u32, aq_widen_bf16,
    aq_widen_f16,
)
from arrayq._kernels.rounding cimport HALF_AWAY, HALF_EVEN, Rounding, round_whole
from arrayq._kernels.scales cimport inverse_of_scale

cdef extern from *:
    """
    #define AQ_MOST_STEPS 4194304.0f
    static const float aq_largest_zero[6] = {
        4194304.0f, 4194304.0f, 4194304.0f, 3.4028234663852886e38f, 65504.0f, 3.3895313892515355e38f
    };
    """
    const float MOST_STEPS "AQ_MOST_STEPS"            # what rounding by float32 additions allows
    const float* LARGEST_ZERO "aq_largest_zero"       # by ZeroDtype

# Numbered as in arrayq._paths.scale_rules.
cdef enum ZeroKind:
    NO_ZERO = 0
    CODE = 1            # value = (code - zero) * scale
    BIAS = 2            # value = code * scale + zero
    INVERSE_CODE = 3    # as CODE, codes from x * (1 / scale) + zero in floats

# Dtypes of stored zero points, numbered as in arrayq._paths.scale_rules.
cdef enum ZeroDtype:
    ZERO_I8 = 0
    ZERO_U8 = 1
    ZERO_I32 = 2
    ZERO_F32 = 3
    ZERO_F16 = 4
    ZERO_BF16 = 5

cdef struct ZeroRules:
    ZeroKind kind
    ZeroDtype dtype
    bint in_range        # widen the bounds to include zero
    bint whole           # a fractional zero point is rounded to a whole number
    float divisor        # largest less smallest code
    float low            # smallest and largest code
    float high
    Rounding rounding


cdef inline int64_t zero_bytes(ZeroDtype dtype) noexcept nogil:
    if dtype <= ZERO_U8:
        return 1
    return 2 if dtype >= ZERO_F16 else 4


cdef inline float clamp(float x, float low, float high) noexcept nogil:
    x = x if x > low else low
    return x if x < high else high


cdef inline void settle_bounds(
    int32_t* ranges, float* lows, float* highs, int64_t n, bint in_range, bint codes,
    float divisor,
) noexcept nogil:
    """Bounds as the scale is made from: widened to zero where asked, zeros where nothing finite
    was seen. The range becomes zero where the span is.

    Zero points that count codes need a span that is not lost beside the distance from zero: a
    block whose zero point would lie 2**21 steps away or more is widened to zero as well."""
    cdef int64_t i
    cdef float furthest
    for i in range(n):
        if lows[i] > highs[i]:
            lows[i] = 0
            highs[i] = 0
        furthest = -lows[i] if -lows[i] > highs[i] else highs[i]
        if in_range or (
            codes and furthest * divisor >= (highs[i] - lows[i]) * <float>2097152.0
        ):
            lows[i] = lows[i] if lows[i] < 0 else 0
            highs[i] = highs[i] if highs[i] > 0 else 0
        if 0 < ranges[i] < 0x7F800000 and lows[i] == highs[i]:
            ranges[i] = 0


cdef inline void raw_zeros(
    const float* lows, const float* highs, const float* scales, int64_t n, ZeroRules* rules,
    float* zeros,
) noexcept nogil:
    """Zero points of blocks as float32, before they are rounded to their dtype."""
    cdef aq_const_floats low = lows, scale = scales
    cdef aq_floats out = zeros
    cdef int64_t i
    cdef float steps, first = rules.low, most = MOST_STEPS, bottom, top
    if rules.kind == BIAS:
        for i in range(n):
            out[i] = low[i] - first * scale[i]
            # zeros decode to zero under any scale: code 0 and bias 0
            out[i] = out[i] if low[i] != 0 or highs[i] != 0 else <float>0.0
        return
    if rules.kind == INVERSE_CODE:
        for i in range(n):
            steps = -lows[i] * inverse_of_scale(lows[i], highs[i], rules.divisor) + first
            zeros[i] = steps
            if rules.whole and -most < steps < most:
                zeros[i] = round_whole(steps, HALF_EVEN)
        return
    bottom = first if rules.in_range else 256 - most
    top = rules.high if rules.in_range else most - 256
    for i in range(n):
        steps = low[i] / scale[i]
        steps = steps if scale[i] != 0 else <float>0.0
        out[i] = clamp(steps, -most, most)
    if rules.rounding == HALF_AWAY:
        for i in range(n):
            out[i] = <float><int32_t>(
                out[i] + aq_float(<uint32_t>0x3EFFFFFF | (aq_bits(out[i]) & <uint32_t>0x80000000))
            )
    else:
        for i in range(n):
            zeros[i] = round_whole(zeros[i], rules.rounding)
    for i in range(n):
        out[i] = clamp(first - out[i], bottom, top)


cdef inline void store_zeros(
    const float* lows, const float* highs, const float* scales, int64_t n, ZeroRules* rules,
    float* zeros, uint8_t* stored,
) noexcept nogil:
    """Zero points of blocks, by way of `zeros`, in the dtype that they are stored in."""
    cdef aq_floats out = zeros
    cdef uint16_t* halves = <uint16_t*>stored
    cdef int64_t i
    cdef float largest = LARGEST_ZERO[<int>rules.dtype]
    raw_zeros(lows, highs, scales, n, rules, zeros)
    for i in range(n):
        # adding zero turns -0.0 into 0.0; under a scale of NaN the zero point is 0
        out[i] = clamp(out[i] + <float>0.0, -largest, largest)
        out[i] = out[i] if scales[i] == scales[i] else <float>0.0
    if rules.dtype <= ZERO_U8:
        for i in range(n):
            stored[i] = <uint8_t><int32_t>out[i]
    elif rules.dtype == ZERO_I32:
        for i in range(n):
            aq_store_u32(stored + 4 * i, <uint32_t><int32_t>out[i])
    elif rules.dtype == ZERO_F32:
        memcpy(stored, zeros, 4 * n)
    else:
        for i in range(n):
            halves[i] = aq_narrow_f16(out[i]) if rules.dtype == ZERO_F16 else aq_narrow_bf16(out[i])
            # a negative number that rounded to zero is zero
            halves[i] = halves[i] if halves[i] != 0x8000 else 0


cdef inline void clear_nan_zeros(
    const int32_t* ranges, int64_t n, ZeroDtype dtype, uint8_t* stored,
) noexcept nogil:
    """Zero points of 0 for the blocks whose scale becomes NaN."""
    cdef int64_t i, size = zero_bytes(dtype)
    for i in range(n):
        if ranges[i] >= 0x7F800000:
            memset(stored + i * size, 0, size)


cdef inline void decode_zeros(
    const uint8_t* stored, int64_t n, ZeroDtype dtype, float* zeros,
) noexcept nogil:
    """Stored zero points as float32."""
    cdef aq_floats out = zeros
    cdef int64_t i
    cdef const uint16_t* halves = <const uint16_t*>stored
    if dtype == ZERO_I8:
        for i in range(n):
            out[i] = <float><signed char>stored[i]
    elif dtype == ZERO_U8:
        for i in range(n):
            out[i] = <float>stored[i]
    elif dtype == ZERO_I32:
        for i in range(n):
            out[i] = <float><int32_t>aq_load_u32(stored + 4 * i)
    elif dtype == ZERO_F32:
        memcpy(zeros, stored, 4 * n)
    elif dtype == ZERO_F16:
        for i in range(n):
            out[i] = aq_widen_f16(halves[i])
    else:
        for i in range(n):
            out[i] = aq_widen_bf16(halves[i])


cdef inline float whole_code(float v, float low, float high, float shift) noexcept nogil:
    """clamp(v) rounded half away from zero, as in `round_integers`, plus an integer."""
    v = v if v < high else high
    v = v if v > low else low
    return <float><int32_t>(
        v + aq_float(<uint32_t>0x3EFFFFFF | (aq_bits(v) & <uint32_t>0x80000000))
    ) + shift


cdef inline void divide_into_codes_16(
    aq_const_floats x, float middle, float scale, float low, float high, float shift,
    aq_floats codes,
) noexcept nogil:
    cdef int i
    for i in range(16):
        codes[i] = whole_code((x[i] - middle) / scale, low, high, shift)


cdef struct Terms:
    float middle     # subtracted from an element before it is divided by the scale
    float addend     # added to the quotient before it is rounded
    float low        # bounds of the quotient, so that the code stays inside the range
    float high
    float shift      # added to the rounded quotient to give the code


cdef inline Terms terms_of_block(ZeroRules* rules, float zero, float scale) noexcept nogil:
    """What a zero point means for the elements of its block."""
    cdef Terms terms
    terms.middle = 0
    terms.addend = 0
    terms.low = rules.low
    terms.high = rules.high
    terms.shift = 0
    if rules.kind == BIAS:
        terms.middle = zero + rules.low * scale
        terms.low = 0
        terms.high = rules.high - rules.low
        terms.shift = rules.low
    elif rules.kind == INVERSE_CODE:
        terms.addend = zero
    else:
        terms.low = rules.low - zero
        terms.high = rules.high - zero
        terms.shift = zero
    return terms


cdef inline void affine_block(
    const float* source, int64_t n, float factor, bint multiply, Terms terms, float* quotients,
) noexcept nogil:
    """clamp((x - middle) / factor + addend) of one block; the product instead where `multiply`."""
    cdef aq_const_floats x = source
    cdef aq_floats out = quotients
    cdef int64_t i
    for i in range(n):
        out[i] = x[i] - terms.middle
    for i in range(n):
        out[i] = out[i] * factor if multiply else out[i] / factor
    for i in range(n):
        out[i] = out[i] + terms.addend
    for i in range(n):
        out[i] = clamp_quotient(out[i], terms)


cdef inline float clamp_quotient(float v, Terms terms) noexcept nogil:
    v = v if v < terms.high else terms.high
    return v if v > terms.low else terms.low


cdef inline int64_t divide_into_codes(
    const float* source, int64_t n, int64_t block, const float* scales, const float* zeros,
    ZeroRules* rules, float* codes,
) noexcept nogil:
    """Whole blocks of a multiple of sixteen elements straight into codes, as whole float32
    numbers: the usual case of division and rounding half away. Returns how many elements."""
    cdef int64_t i, k = 0, start = 0
    cdef Terms terms
    if block % 16 or rules.kind == INVERSE_CODE:
        return 0
    while n - start >= block and scales[k] != 0:
        terms = terms_of_block(rules, zeros[k], scales[k])
        for i in range(start, start + block, 16):
            divide_into_codes_16(
                source + i, terms.middle, scales[k], terms.low, terms.high, terms.shift, codes + i
            )
        start += block
        k += 1
    return start


cdef inline void store_whole_codes(
    const float* whole, int64_t n, uint8_t mask, uint8_t* codes,
) noexcept nogil:
    """Codes that `divide_into_codes` made, into bytes."""
    cdef aq_const_floats x = whole
    cdef aq_bytes out = codes
    cdef int64_t i
    for i in range(n):
        out[i] = <uint8_t>(<int32_t>x[i] & mask)


cdef inline void affine_quotients(
    const float* source, int64_t n, int64_t first, int64_t block, const float* scales,
    const float* zeros, ZeroRules* rules, bint reciprocal, float* quotients,
) noexcept nogil:
    """Elements in units of their block's scale, clamped so that the code that `shift_codes`
    makes of the rounded number stays inside the range."""
    cdef const float* x = source
    cdef float* out = quotients
    cdef int64_t i, k = 0, taken
    cdef float scale, inverse = 0
    cdef bint multiply
    cdef Terms terms
    while n > 0:
        taken = min(block - first, n)
        scale = scales[k]
        terms = terms_of_block(rules, zeros[k], scale)
        multiply = reciprocal or rules.kind == INVERSE_CODE
        if multiply:
            inverse = <float>1.0 / scale
            multiply = inverse - inverse == 0
        if scale == 0:
            for i in range(taken):
                out[i] = clamp_quotient(terms.addend, terms)
        else:
            affine_block(x, taken, inverse if multiply else scale, multiply, terms, out)
        k += 1
        x += taken
        out += taken
        n -= taken
        first = 0


cdef inline void shift_codes(
    uint8_t* codes, int64_t n, int64_t first, int64_t block, const float* zeros, ZeroRules* rules,
    uint8_t mask,
) noexcept nogil:
    """Add what the quotients left out: the zero point of the block, or the smallest code."""
    cdef int64_t i, k = 0, taken
    cdef uint8_t shift
    while n > 0:
        taken = min(block - first, n)
        # the shift does not depend on the scale
        shift = <uint8_t><int32_t>terms_of_block(rules, zeros[k], 1).shift
        for i in range(taken):
            codes[i] = (codes[i] + shift) & mask
        k += 1
        codes += taken
        n -= taken
        first = 0


cdef inline void affine_values(
    float* values, int64_t n, int64_t first, int64_t block, const float* scales,
    const float* zeros, ZeroKind kind,
) noexcept nogil:
    """Codes as floats into values, in place: (c - z) * s, or c * s + z in two roundings."""
    cdef int64_t i, k = 0, taken
    cdef float scale, zero
    while n > 0:
        taken = min(block - first, n)
        scale = scales[k]
        zero = zeros[k]
        if kind == BIAS:
            for i in range(taken):
                values[i] = values[i] * scale + zero
        else:
            for i in range(taken):
                values[i] = (values[i] - zero) * scale
        k += 1
        values += taken
        n -= taken
        first = 0
