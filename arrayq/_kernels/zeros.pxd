"""Zero points of affine blocks: from bounds and scale to what is stored, and to what codes need."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from arrayq._kernels.bits cimport (
    aq_bits, aq_const_floats, aq_floats, aq_float, aq_load_u32, aq_narrow_bf16, aq_narrow_f16, aq_store_u32, aq_widen_bf16,
    aq_widen_f16,
)
from arrayq._kernels.rounding cimport HALF_EVEN, Rounding, round_whole
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
    int32_t* ranges, float* lows, float* highs, int64_t n, bint in_range, bint constants_widen,
) noexcept nogil:
    """Bounds as the scale is made from: widened to zero where asked, zeros where nothing finite
    was seen. The range becomes zero where the span is."""
    cdef int64_t i
    for i in range(n):
        if lows[i] > highs[i]:
            lows[i] = 0
            highs[i] = 0
        if in_range or (constants_widen and lows[i] == highs[i]):
            lows[i] = lows[i] if lows[i] < 0 else 0
            highs[i] = highs[i] if highs[i] > 0 else 0
        if 0 < ranges[i] < 0x7F800000 and lows[i] == highs[i]:
            ranges[i] = 0


cdef inline float raw_zero(
    float low, float high, float scale, ZeroRules* rules,
) noexcept nogil:
    """Zero point of a block as a float32, before it is rounded to its dtype."""
    cdef float steps
    if rules.kind == BIAS:
        return low - rules.low * scale
    if rules.kind == INVERSE_CODE:
        steps = -low * inverse_of_scale(low, high, rules.divisor) + rules.low
        if rules.whole and -MOST_STEPS < steps < MOST_STEPS:
            return round_whole(steps, HALF_EVEN)
        return steps
    steps = low / scale if scale != 0 else <float>0.0
    steps = rules.low - round_whole(clamp(steps, -MOST_STEPS, MOST_STEPS), rules.rounding)
    if rules.in_range:
        return clamp(steps, rules.low, rules.high)
    return clamp(steps, 256 - MOST_STEPS, MOST_STEPS - 256)


cdef inline void store_zeros(
    const float* lows, const float* highs, const float* scales, int64_t n, ZeroRules* rules,
    uint8_t* stored,
) noexcept nogil:
    cdef int64_t i
    cdef float zero
    cdef uint16_t* halves = <uint16_t*>stored
    for i in range(n):
        # under a scale of NaN everything is NaN, and the zero point 0
        zero = <float>0.0
        if scales[i] == scales[i]:
            # adding zero turns -0.0 into 0.0
            zero = raw_zero(lows[i], highs[i], scales[i], rules) + <float>0.0
            zero = clamp(zero, -LARGEST_ZERO[<int>rules.dtype], LARGEST_ZERO[<int>rules.dtype])
        if rules.dtype <= ZERO_U8:
            stored[i] = <uint8_t><int32_t>zero
        elif rules.dtype == ZERO_I32:
            aq_store_u32(stored + 4 * i, <uint32_t><int32_t>zero)
        elif rules.dtype == ZERO_F32:
            aq_store_u32(stored + 4 * i, aq_bits(zero))
        else:
            halves[i] = aq_narrow_f16(zero) if rules.dtype == ZERO_F16 else aq_narrow_bf16(zero)
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
    cdef int64_t i
    cdef const uint16_t* halves = <const uint16_t*>stored
    for i in range(n):
        if dtype == ZERO_I8:
            zeros[i] = <float><signed char>stored[i]
        elif dtype == ZERO_U8:
            zeros[i] = <float>stored[i]
        elif dtype == ZERO_I32:
            zeros[i] = <float><int32_t>aq_load_u32(stored + 4 * i)
        elif dtype == ZERO_F32:
            zeros[i] = aq_float(aq_load_u32(stored + 4 * i))
        elif dtype == ZERO_F16:
            zeros[i] = aq_widen_f16(halves[i])
        else:
            zeros[i] = aq_widen_bf16(halves[i])


cdef inline void affine_block(
    const float* source, int64_t n, float middle, float factor, bint multiply, float addend,
    float low, float high, float* quotients,
) noexcept nogil:
    """clamp((x - middle) / factor + addend) of one block; the product instead where `multiply`."""
    cdef aq_const_floats x = source
    cdef aq_floats out = quotients
    cdef int64_t i
    if middle == 0:
        for i in range(n):
            out[i] = x[i] * factor if multiply else x[i] / factor
    elif multiply:
        for i in range(n):
            out[i] = (x[i] - middle) * factor
    else:
        for i in range(n):
            out[i] = (x[i] - middle) / factor
    if addend != 0:
        for i in range(n):
            out[i] = out[i] + addend
    clamp_block(out, n, low, high)


cdef inline void clamp_block(float* values, int64_t n, float low, float high) noexcept nogil:
    cdef aq_floats x = values
    cdef int64_t i
    cdef float v
    for i in range(n):
        v = x[i]
        v = v if v < high else high
        x[i] = v if v > low else low


cdef inline void affine_quotients(
    const float* source, int64_t n, int64_t first, int64_t block, const float* scales,
    const float* zeros, ZeroRules* rules, bint reciprocal, float* quotients,
) noexcept nogil:
    """Elements in units of their block's scale, clamped so that the code that `shift_codes`
    makes of the rounded number stays inside the range."""
    cdef const float* x = source
    cdef float* out = quotients
    cdef int64_t i, k = 0, taken
    cdef float scale, inverse, low, high, middle, addend
    cdef bint multiply
    while n > 0:
        taken = min(block - first, n)
        scale = scales[k]
        inverse = <float>1.0 / scale
        multiply = (reciprocal or rules.kind == INVERSE_CODE) and inverse - inverse == 0
        middle = 0
        addend = 0
        low = rules.low
        high = rules.high
        if rules.kind == BIAS:
            middle = zeros[k] + rules.low * scale
            low = 0
            high = rules.high - rules.low
        elif rules.kind == INVERSE_CODE:
            addend = zeros[k]
        else:
            low = rules.low - zeros[k]
            high = rules.high - zeros[k]
        if scale == 0:
            for i in range(taken):
                out[i] = addend
            clamp_block(out, taken, low, high)
        else:
            affine_block(
                x, taken, middle, inverse if multiply else scale, multiply, addend, low, high, out
            )
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
    if rules.kind == INVERSE_CODE:
        return
    while n > 0:
        taken = min(block - first, n)
        shift = <uint8_t><int32_t>(rules.low if rules.kind == BIAS else zeros[k])
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
