"""From the range of a block to its stored scale, and from a stored scale to a multiplier.

Each step is a loop of its own over the scales of one box, one float32 rounding per operation.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from arrayq._kernels.bits cimport (
    aq_bits, aq_const_floats, aq_float, aq_floats, aq_const_ints, aq_narrow_f16,
    aq_widen_bf16, aq_widen_f16, aq_bytes,
)

# Scale dtypes, numbered as in arrayq._paths.scale_rules.SCALE_KINDS.
cdef enum ScaleKind:
    SCALE_F32 = 0
    SCALE_F16 = 1
    SCALE_BF16 = 2
    SCALE_UE8M0 = 3
    SCALE_UE4M3 = 4

# How a range becomes a raw scale, numbered as in arrayq._paths.scale_rules.
cdef enum ScaleFrom:
    FROM_RANGE = 0          # range / divisor
    FROM_BOUNDS = 1         # (max - min) / divisor
    FROM_ENDPOINTS = 2      # max(min / qmin, max / qmax)
    FROM_EXTREME = 3        # signed element of the largest magnitude / qmin
    FROM_INVERSE = 4        # 1 / (1 / (max - min) * divisor)
    POWER_FLOOR = 5         # 2 ** (floor(log2 amax) - largest exponent of the element)
    POWER_CEIL = 6
    POWER_EVEN = 7
    POWER_ABOVE = 8         # 2 ** ceil(log2(amax / largest value))
    POWER_NEAREST = 9       # 2 ** round(log2(amax / largest value))

# What a block of zeros stores, numbered as in arrayq._paths.scale_rules.
cdef enum ZeroBlock:
    STORE_ZERO = 0
    STORE_SMALLEST = 1
    STORE_ONE = 2

# Fields of the integer table of scale rules, numbered as in arrayq._paths.scale_rules.
cdef enum:
    RULE_KIND = 0
    RULE_FROM = 1
    RULE_ROUND_UP = 2
    RULE_LARGEST_EXPONENT = 3
    RULE_MANTISSA_BITS = 4
    RULE_TWO_LEVEL = 5
    RULE_KEEPS_VANISHED = 6
    RULE_ZERO_BLOCK = 7
    RULE_TENSOR_AMAX = 8
    RULE_FIELDS = 9

# As above, of the table of float32 numbers.
cdef enum:
    NUMBER_DIVISOR = 0
    NUMBER_QMIN = 1
    NUMBER_QMAX = 2
    NUMBER_SMALLEST = 3
    NUMBER_SCALE_QMAX = 4
    NUMBER_TENSOR_DIVISOR = 5
    RULE_NUMBERS = 6

cdef enum:
    SMALLEST_SUBNORMAL = 1
    SMALLEST_NORMAL = 0x00800000
    QUIET_NAN = 0x7FC00000
    LARGEST_FINITE = 0x7F7FFFFF

cdef struct ScaleRules:
    ScaleKind kind
    ScaleFrom source
    bint up                # round up rather than to nearest
    int largest_exponent   # of the element format, for the rules on powers of two
    int mantissa_bits      # of the element format, for POWER_EVEN
    bint two_level
    bint keeps_vanished    # a raw scale that float32 itself flushes to zero stays zero
    ZeroBlock zero_block
    float divisor
    float qmin
    float qmax
    float smallest         # raw scales are raised to it
    float scale_qmax       # largest number that the scale dtype holds
    bint tensor_amax       # the tensor scale is the largest range over `tensor_divisor`
    float tensor_divisor
    float tensor_scale


cdef inline void read_scale_rules(
    ScaleRules* rules, const int32_t[::1] fields, const float[::1] numbers,
) except *:
    if fields.shape[0] != RULE_FIELDS or numbers.shape[0] != RULE_NUMBERS:
        raise ValueError("the scale rules are incomplete")
    rules.kind = <ScaleKind>fields[RULE_KIND]
    rules.source = <ScaleFrom>fields[RULE_FROM]
    rules.up = fields[RULE_ROUND_UP]
    rules.largest_exponent = fields[RULE_LARGEST_EXPONENT]
    rules.mantissa_bits = fields[RULE_MANTISSA_BITS]
    rules.two_level = fields[RULE_TWO_LEVEL]
    rules.keeps_vanished = fields[RULE_KEEPS_VANISHED]
    rules.zero_block = <ZeroBlock>fields[RULE_ZERO_BLOCK]
    rules.divisor = numbers[NUMBER_DIVISOR]
    rules.qmin = numbers[NUMBER_QMIN]
    rules.qmax = numbers[NUMBER_QMAX]
    rules.smallest = numbers[NUMBER_SMALLEST]
    rules.scale_qmax = numbers[NUMBER_SCALE_QMAX]
    rules.tensor_amax = fields[RULE_TENSOR_AMAX]
    rules.tensor_divisor = numbers[NUMBER_TENSOR_DIVISOR]
    rules.tensor_scale = 1


cdef inline float capped(float x) noexcept nogil:
    """At most the largest finite float32."""
    cdef float largest = aq_float(<uint32_t>LARGEST_FINITE)
    return largest if x > largest else x


cdef inline float tensor_scale_of_range(float range, ScaleRules* rules) noexcept nogil:
    """The tensor scale of an array whose largest block range is `range`, by the rule AMAX."""
    cdef float scale = capped(range / rules.tensor_divisor)
    return aq_float(<uint32_t>SMALLEST_SUBNORMAL) if range > 0 and scale == 0 else scale


cdef inline float tensor_scale_of_raw(float raw, ScaleRules* rules) noexcept nogil:
    """The tensor scale of an array whose largest raw block scale is `raw`."""
    cdef float scale = capped(raw) / rules.scale_qmax
    cdef float smallest = aq_float(<uint32_t>SMALLEST_NORMAL)
    return scale if scale > smallest else smallest


cdef inline int64_t scale_bytes(ScaleKind kind) noexcept nogil:
    if kind == SCALE_F32:
        return 4
    return 2 if kind == SCALE_F16 or kind == SCALE_BF16 else 1


cdef inline float decode_ue4m3(uint32_t code) noexcept nogil:
    cdef uint32_t subnormal = aq_bits(
        aq_float((code << 20) + (<uint32_t>121 << 23)) - aq_float(<uint32_t>121 << 23)
    )
    cdef uint32_t bits = subnormal if <int32_t>code < 8 else (code << 20) + (<uint32_t>120 << 23)
    return aq_float(bits if code != 0x7F else <uint32_t>QUIET_NAN)


cdef inline uint32_t nearest_ue4m3(float x) noexcept nogil:
    """Code of a non-negative float32, ties to even, saturating."""
    cdef int32_t magnitude = <int32_t>aq_bits(x), exponent
    cdef uint32_t addend
    magnitude = magnitude if magnitude < 0x43E00000 else 0x43E00000
    exponent = magnitude & 0x7F800000
    exponent = exponent if exponent > 0x3C800000 else 0x3C800000
    addend = <uint32_t>exponent + (<uint32_t>20 << 23)
    return (
        aq_bits(aq_float(<uint32_t>magnitude) + aq_float(addend)) - addend
        + (<uint32_t>(exponent - 0x3C800000) >> 20)
    )


cdef inline uint32_t nearest_f16(float x) noexcept nogil:
    """As `aq_narrow_f16` for a non-negative float32, saturating at 65504."""
    cdef uint32_t code = aq_narrow_f16(x)
    return code if code < 0x7BFF else 0x7BFF


cdef inline uint32_t nearest_bf16(float x) noexcept nogil:
    cdef uint32_t bits = aq_bits(x)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return bits if bits < 0x7F7F else 0x7F7F


cdef inline uint32_t above_bf16(float x) noexcept nogil:
    cdef uint32_t bits = (aq_bits(x) + 0xFFFF) >> 16
    return bits if bits < 0x7F7F else 0x7F7F


cdef inline uint32_t power_ue8m0(float x, bint up) noexcept nogil:
    """Exponent byte of a non-negative float32: the power of two not below it, or the nearest
    with ties up (below 2**-126 whatever exceeds 2**-127 goes up, as in the casts of torch)."""
    cdef uint32_t bits = aq_bits(x)
    cdef uint32_t byte = (bits >> 23) + <uint32_t>((bits & 0x7FFFFF) >= (<uint32_t>1 if up else <uint32_t>0x400000))
    if bits < SMALLEST_NORMAL:
        byte = <uint32_t>(bits > 0x400000)
    return byte if byte < 254 else 254


cdef inline float decode_ue8m0(uint32_t byte) noexcept nogil:
    if byte == 0xFF:
        return aq_float(QUIET_NAN)
    return aq_float(byte << 23 if byte else 0x400000)


cdef inline float bounds_scale(float low, float high, float divisor) noexcept nogil:
    """(high - low) / divisor, by halves where the difference overflows."""
    cdef float span = high - low
    if aq_bits(span) >= 0x7F800000:
        return (high * <float>0.5 - low * <float>0.5) / (divisor * <float>0.5)
    return span / divisor


cdef inline float inverse_of_scale(float low, float high, float divisor) noexcept nogil:
    """What HQQ multiplies by: divisor / (high - low) by way of a reciprocal, at most 2e4."""
    cdef float span = high - low, inverse
    inverse = (<float>1.0 / span) * divisor
    if aq_bits(span) >= 0x7F800000:
        inverse = (<float>1.0 / (high * <float>0.5 - low * <float>0.5)) * (divisor * <float>0.5)
    inverse = inverse if span > <float>1e-4 else <float>1.0
    return inverse if inverse < <float>2e4 else <float>2e4


cdef inline void raw_scales(
    const int32_t* ranges, const float* lows, const float* highs, int64_t n, ScaleRules* rules,
    float* raw,
) noexcept nogil:
    """Magnitudes of the raw scales, over the tensor scale where there is one.

    What vanishes in a division although the range is not zero becomes the smallest positive
    float32, so that it rounds up and not away; burn's two levels keep the zero."""
    cdef aq_const_ints source = ranges
    cdef aq_floats out = raw
    cdef int64_t i
    cdef float divisor = rules.divisor, tensor_scale = rules.tensor_scale
    cdef float below, above, smallest = rules.smallest
    cdef uint32_t bits, vanished = 0 if rules.keeps_vanished else SMALLEST_SUBNORMAL
    if rules.source == FROM_BOUNDS:
        for i in range(n):
            out[i] = bounds_scale(lows[i], highs[i], divisor)
    elif rules.source == FROM_INVERSE:
        for i in range(n):
            below = <float>1.0 / inverse_of_scale(lows[i], highs[i], divisor)
            out[i] = below if aq_bits(below) < 0x7F800000 else aq_float(<uint32_t>LARGEST_FINITE)
    elif rules.source == FROM_ENDPOINTS:
        for i in range(n):
            below = lows[i] / rules.qmin
            above = highs[i] / rules.qmax
            # adding zero turns -0.0 into 0.0
            out[i] = (above if above > below else below) + <float>0.0
    else:
        for i in range(n):
            out[i] = aq_float(<uint32_t>source[i]) / divisor
    if rules.two_level:
        for i in range(n):
            out[i] = out[i] / tensor_scale
    if rules.source == FROM_INVERSE:
        return
    for i in range(n):
        bits = aq_bits(out[i])
        bits = bits if bits != 0 else vanished
        bits = bits if <int32_t>bits < LARGEST_FINITE else <uint32_t>LARGEST_FINITE
        bits = bits if source[i] != 0 else <uint32_t>0
        out[i] = aq_float(bits)
    if smallest > 0:
        for i in range(n):
            out[i] = out[i] if out[i] > smallest or source[i] == 0 else smallest
    if rules.zero_block != STORE_ZERO:
        for i in range(n):
            if source[i] == 0:
                out[i] = smallest if rules.zero_block == STORE_SMALLEST else <float>1.0
    if rules.source == FROM_BOUNDS:
        for i in range(n):
            if lows[i] == highs[i] and lows[i] != 0:
                out[i] = smallest


cdef inline uint32_t nearest_power_bits(float x) noexcept nogil:
    """Bits of the power of two nearest to a positive float32 in the logarithm."""
    cdef uint32_t bits = aq_bits(x), power
    if bits >= SMALLEST_NORMAL:
        power = (bits >> 23) + <uint32_t>((bits & 0x7FFFFF) >= 0x3504F4)
        return (power if power < 254 else <uint32_t>254) << 23
    power = 1
    while 2 * power <= bits:
        power *= 2
    # squares of significands, exactly: up when (bits / power) ** 2 >= 2
    if <uint64_t>bits * bits >= 2 * <uint64_t>power * power:
        power *= 2
    return power


cdef inline int32_t power_byte(int32_t range_bits, float raw, ScaleRules* rules) noexcept nogil:
    """Exponent byte of a block by one of the rules on powers of two, before clamping to 0..254."""
    cdef uint32_t bits = aq_bits(raw)
    if rules.source == POWER_FLOOR:
        return (range_bits >> 23) - rules.largest_exponent
    if rules.source == POWER_CEIL:
        return (range_bits >> 23) + <int32_t>((range_bits & 0x7FFFFF) != 0) - rules.largest_exponent
    if rules.source == POWER_EVEN:
        return ((range_bits + (1 << (22 - rules.mantissa_bits))) >> 23) - rules.largest_exponent
    if rules.source == POWER_ABOVE:
        return <int32_t>power_ue8m0(raw, True)
    # the significand of sqrt(2) is 0x3504F3.34...; below 2**-126 the same bound as a subnormal
    if bits < SMALLEST_NORMAL:
        return <int32_t>(bits >= 0x5A827A)
    return <int32_t>(bits >> 23) + <int32_t>((bits & 0x7FFFFF) >= 0x3504F4)


cdef inline void round_scales(
    const int32_t* ranges, const float* extremes, float* raw, int64_t n, ScaleRules* rules,
    uint8_t* stored,
) noexcept nogil:
    """Raw scales into codes of the scale dtype. A nonzero scale never becomes zero."""
    cdef aq_const_floats source = raw
    cdef aq_bytes codes = stored
    cdef uint16_t* halves = <uint16_t*>stored
    cdef uint32_t* words = <uint32_t*>stored
    cdef bint up = rules.up
    cdef int64_t i
    cdef int32_t power
    cdef uint32_t code
    if rules.source == POWER_NEAREST and rules.kind == SCALE_F32:
        for i in range(n):
            words[i] = nearest_power_bits(source[i]) if ranges[i] != 0 else aq_bits(source[i])
    elif rules.source >= POWER_FLOOR:
        for i in range(n):
            power = power_byte(ranges[i], source[i], rules)
            power = power if power < 254 else 254
            codes[i] = <uint8_t>(power if power > 0 and ranges[i] != 0 else 0)
            if ranges[i] == 0 and rules.zero_block != STORE_ZERO:
                codes[i] = <uint8_t>power_ue8m0(source[i], up)
    elif rules.kind == SCALE_F32:
        memcpy(stored, raw, 4 * n)
    elif rules.kind == SCALE_F16:
        for i in range(n):
            code = nearest_f16(source[i])
            code += <uint32_t>(up & (aq_widen_f16(code) < source[i]) & (code < 0x7BFF))
            halves[i] = <uint16_t>(code + <uint32_t>((code == 0) & (source[i] > 0)))
    elif rules.kind == SCALE_BF16:
        for i in range(n):
            code = above_bf16(source[i]) if up else nearest_bf16(source[i])
            halves[i] = <uint16_t>(code + <uint32_t>((code == 0) & (source[i] > 0)))
    elif rules.kind == SCALE_UE8M0:
        for i in range(n):
            codes[i] = <uint8_t>power_ue8m0(source[i], up)
    elif up:
        for i in range(n):
            code = nearest_ue4m3(source[i])
            code += <uint32_t>((decode_ue4m3(code) < source[i]) & (code < 0x7E))
            codes[i] = <uint8_t>(code + <uint32_t>((code == 0) & (source[i] > 0)))
    else:
        for i in range(n):
            code = nearest_ue4m3(source[i])
            codes[i] = <uint8_t>(code + <uint32_t>((code == 0) & (source[i] > 0)))
    if rules.source == FROM_EXTREME:
        # the smallest code is negative, so a positive extreme makes a negative scale
        for i in range(n):
            if extremes[i] > 0 and rules.kind == SCALE_F32 and words[i] != 0:
                words[i] |= <uint32_t>0x80000000
            elif extremes[i] > 0 and rules.kind != SCALE_F32 and halves[i] != 0:
                halves[i] |= 0x8000


cdef inline void store_exceptional_scales(
    const int32_t* ranges, int64_t n, ScaleKind kind, bint is_nan, uint8_t* stored,
) noexcept nogil:
    """Scales of blocks with NaN or infinities (range bits at or above infinity): NaN when they
    propagate; blocks marked -1 by `widen_finite_ranges`: the smallest positive scale."""
    cdef int64_t i
    cdef uint32_t* words = <uint32_t*>stored
    cdef uint16_t* halves = <uint16_t*>stored
    for i in range(n):
        if is_nan and ranges[i] >= 0x7F800000:
            if kind == SCALE_F32:
                words[i] = QUIET_NAN
            elif kind == SCALE_F16:
                halves[i] = 0x7E00
            elif kind == SCALE_BF16:
                halves[i] = 0x7FC0
            else:
                stored[i] = 0x7F if kind == SCALE_UE4M3 else 0xFF
        elif ranges[i] < 0:
            if kind == SCALE_F32:
                words[i] = SMALLEST_NORMAL
            elif kind == SCALE_F16 or kind == SCALE_BF16:
                halves[i] = 1
            else:
                stored[i] = 1 if kind == SCALE_UE4M3 else 0


cdef inline void decode_scales(
    const uint8_t* stored, int64_t n, ScaleKind kind, float* scales,
) noexcept nogil:
    """Stored codes as float32."""
    cdef aq_floats out = scales
    cdef const uint16_t* halves = <const uint16_t*>stored
    cdef int64_t i
    if kind == SCALE_F32:
        memcpy(scales, stored, 4 * n)
    elif kind == SCALE_F16:
        for i in range(n):
            out[i] = aq_widen_f16(halves[i])
    elif kind == SCALE_BF16:
        for i in range(n):
            out[i] = aq_widen_bf16(halves[i])
    elif kind == SCALE_UE8M0:
        for i in range(n):
            out[i] = decode_ue8m0(stored[i])
    else:
        for i in range(n):
            out[i] = decode_ue4m3(stored[i])


cdef inline void lower_overflowing_scales(
    uint8_t* stored, int64_t n, ScaleKind kind, float tensor_scale, float* scales,
) noexcept nogil:
    """One step down for each stored scale whose product with the tensor scale is infinite.

    Near float32's maximum rounding may lift that product over it, and a code of zero would then
    decode to NaN. The next lower scale lies below the raw one, which is finite."""
    cdef uint16_t* halves = <uint16_t*>stored
    cdef int64_t i
    decode_scales(stored, n, kind, scales)
    for i in range(n):
        if aq_bits(scales[i] * tensor_scale) & 0x7FFFFFFF == 0x7F800000:
            if kind == SCALE_F16:
                halves[i] -= 1
            else:
                stored[i] -= 1


cdef inline void apply_tensor_scale(float* scales, int64_t n, float tensor_scale) noexcept nogil:
    cdef aq_floats out = scales
    cdef int64_t i
    for i in range(n):
        out[i] = out[i] * tensor_scale
