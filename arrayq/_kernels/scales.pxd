"""From the range of a block to its stored scale, and from a stored scale to a multiplier.

Each step is a loop of its own over the scales of one box, one float32 rounding per operation.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from arrayq._kernels.bits cimport (
    aq_bits, aq_const_floats, aq_float, aq_floats, aq_ints, aq_const_ints, aq_narrow_f16,
    aq_widen_bf16, aq_widen_f16, aq_bytes,
)

# Scale dtypes, numbered as in arrayq._paths.host.SCALE_KINDS.
cdef enum ScaleKind:
    SCALE_F32 = 0
    SCALE_F16 = 1
    SCALE_BF16 = 2
    SCALE_UE8M0 = 3
    SCALE_UE4M3 = 4

# Rules, numbered as in arrayq._paths.host.SCALE_RULES.
cdef enum ScaleRule:
    ROUND_UP = 0
    ROUND_NEAREST = 1
    POWER_FLOOR = 2       # OCP MX: 2 ** (floor(log2 amax) - largest exponent of the element)

cdef enum:
    SMALLEST_SUBNORMAL = 1
    SMALLEST_NORMAL = 0x00800000
    QUIET_NAN = 0x7FC00000
    LARGEST_FINITE = 0x7F7FFFFF

cdef struct ScaleRules:
    ScaleKind kind
    ScaleRule rule
    float divisor          # range / divisor is the raw scale
    int largest_exponent   # of the element format, for POWER_FLOOR
    bint two_level
    bint keeps_vanished    # a raw scale that float32 itself flushes to zero stays zero
    float tensor_scale


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


cdef inline void raw_scales(
    const int32_t* ranges, int64_t n, ScaleRules* rules, float* raw,
) noexcept nogil:
    """range / divisor, over the tensor scale where there is one.

    What vanishes in a division although the range is not zero becomes the smallest positive
    float32, so that it rounds up and not away; burn's two levels keep the zero."""
    cdef aq_const_ints source = ranges
    cdef aq_floats out = raw
    cdef int64_t i
    cdef float divisor = rules.divisor, tensor_scale = rules.tensor_scale
    cdef uint32_t bits, vanished = 0 if rules.keeps_vanished else SMALLEST_SUBNORMAL
    for i in range(n):
        out[i] = aq_float(<uint32_t>source[i]) / divisor
    if rules.two_level:
        for i in range(n):
            out[i] = out[i] / tensor_scale
    for i in range(n):
        bits = aq_bits(out[i])
        bits = bits if bits != 0 else vanished
        bits = bits if <int32_t>bits < LARGEST_FINITE else <uint32_t>LARGEST_FINITE
        bits = bits if source[i] != 0 else <uint32_t>0
        out[i] = aq_float(bits)


cdef inline void round_scales(
    const int32_t* ranges, float* raw, int64_t n, ScaleRules* rules, uint8_t* stored,
) noexcept nogil:
    """Raw scales into codes of the scale dtype. A nonzero scale never becomes zero."""
    cdef aq_const_floats source = raw
    cdef aq_bytes codes = stored
    cdef uint16_t* halves = <uint16_t*>stored
    cdef bint up = rules.rule == ROUND_UP
    cdef int64_t i
    cdef int32_t power
    cdef uint32_t code
    if rules.rule == POWER_FLOOR:
        for i in range(n):
            power = (ranges[i] >> 23) - rules.largest_exponent
            power = power if power < 254 else 254
            codes[i] = <uint8_t>(power if power > 0 and ranges[i] != 0 else 0)
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
        if aq_bits(scales[i] * tensor_scale) == 0x7F800000:
            if kind == SCALE_F16:
                halves[i] -= 1
            else:
                stored[i] -= 1


cdef inline void apply_tensor_scale(float* scales, int64_t n, float tensor_scale) noexcept nogil:
    cdef aq_floats out = scales
    cdef int64_t i
    for i in range(n):
        out[i] = out[i] * tensor_scale
