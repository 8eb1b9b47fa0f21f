"""The range of each block: its largest magnitude, or the mean of its magnitudes.

Magnitudes are compared as integers (``bits & 0x7fffffff``): the order is that of the floats, a
NaN sorts above infinity and so is never lost, and the loop vectorises.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from arrayq._kernels.bits cimport (
    aq_bits, aq_const_floats, aq_float, aq_floats, aq_ints,
)

cdef extern from "tables.h" nogil:
    int32_t aq_key(uint32_t) noexcept
    void aq_bounds32(const float*, int32_t*, int32_t*) noexcept


cdef enum:
    INFINITY_BITS = 0x7F800000
    MAGNITUDE_MASK = 0x7FFFFFFF
    NEGATIVE_INFINITY_KEY = -0x7F800001
    KEYS = 64             # blocks whose bounds are reduced before they are compared


cdef inline int32_t largest_magnitude(const float* source, int64_t n) noexcept nogil:
    """Bits of the largest magnitude of `n` elements."""
    cdef aq_const_floats x = source
    cdef int64_t i
    cdef int32_t magnitude, largest = 0
    for i in range(n):
        magnitude = <int32_t>(aq_bits(x[i]) & MAGNITUDE_MASK)
        largest = magnitude if magnitude > largest else largest
    return largest


cdef inline int32_t largest_finite_magnitude(const float* source, int64_t n) noexcept nogil:
    """As `largest_magnitude`, passing over NaN and infinities."""
    cdef aq_const_floats x = source
    cdef int64_t i
    cdef int32_t magnitude, largest = 0
    for i in range(n):
        magnitude = <int32_t>(aq_bits(x[i]) & MAGNITUDE_MASK)
        magnitude = magnitude if magnitude < INFINITY_BITS else 0
        largest = magnitude if magnitude > largest else largest
    return largest


cdef inline int32_t largest_of_16(aq_const_floats x) noexcept nogil:
    cdef int i
    cdef int32_t magnitude, largest = 0
    for i in range(16):
        magnitude = <int32_t>(aq_bits(x[i]) & MAGNITUDE_MASK)
        largest = magnitude if magnitude > largest else largest
    return largest


cdef inline int32_t largest_of_32(aq_const_floats x) noexcept nogil:
    cdef int i
    cdef int32_t magnitude, largest = 0
    for i in range(32):
        magnitude = <int32_t>(aq_bits(x[i]) & MAGNITUDE_MASK)
        largest = magnitude if magnitude > largest else largest
    return largest


cdef inline void widen_ranges(
    const float* x, int64_t n, int64_t first, int64_t block, int32_t* ranges,
) noexcept nogil:
    """Raise `ranges`, one per block, by `n` elements of which the first is number `first`
    of its block."""
    cdef aq_ints out = ranges
    cdef int64_t i, k, taken
    cdef int32_t magnitude, largest
    if block == 1:
        for i in range(n):
            magnitude = <int32_t>(aq_bits(x[i]) & MAGNITUDE_MASK)
            out[i] = magnitude if magnitude > out[i] else out[i]
        return
    k = 0
    if first == 0 and block == 16:
        while n >= 16:
            largest = largest_of_16(x)
            out[k] = largest if largest > out[k] else out[k]
            k += 1
            x += 16
            n -= 16
    elif first == 0 and block % 32 == 0:
        while n >= block:
            largest = out[k]
            for i in range(block // 32):
                magnitude = largest_of_32(x + 32 * i)
                largest = magnitude if magnitude > largest else largest
            out[k] = largest
            k += 1
            x += block
            n -= block
    while n > 0:
        taken = min(block - first, n)
        largest = largest_magnitude(x, taken)
        out[k] = largest if largest > out[k] else out[k]
        k += 1
        x += taken
        n -= taken
        first = 0


cdef inline int32_t widen_finite_ranges(
    const float* x, int64_t n, int64_t first, int64_t block, int32_t* ranges,
) noexcept nogil:
    """As `widen_ranges` over finite elements only. A block with nothing but zeros beside an
    infinity is marked -1. Returns the largest magnitude of all, infinities and NaN included."""
    cdef int64_t k = 0, taken
    cdef int32_t largest, seen, seen_anywhere = 0
    while n > 0:
        taken = min(block - first, n)
        seen = largest_magnitude(x, taken)
        largest = seen if seen < INFINITY_BITS else largest_finite_magnitude(x, taken)
        if largest > 0:
            ranges[k] = largest if largest > ranges[k] else ranges[k]
        elif seen >= INFINITY_BITS and ranges[k] == 0:
            ranges[k] = -1
        seen_anywhere = seen if seen > seen_anywhere else seen_anywhere
        k += 1
        x += taken
        n -= taken
        first = 0
    return seen_anywhere


cdef inline void add_magnitudes(
    const float* x, int64_t n, int64_t first, int64_t block, double* sums, int64_t* counts,
) noexcept nogil:
    """Add the finite magnitudes of each block to `sums` in C order, in float64."""
    cdef int64_t k = 0, i, taken
    cdef uint32_t magnitude
    cdef double total
    cdef int64_t count
    while n > 0:
        taken = min(block - first, n)
        total = sums[k]
        count = counts[k]
        for i in range(taken):
            magnitude = aq_bits(x[i]) & MAGNITUDE_MASK
            if magnitude < INFINITY_BITS:
                total += <double>aq_float(magnitude)
                count += 1
        sums[k] = total
        counts[k] = count
        k += 1
        x += taken
        n -= taken
        first = 0


cdef inline void widen_bound(
    const float* source, int64_t n, float* low, float* high,
) noexcept nogil:
    cdef aq_const_floats x = source
    cdef float v, lowest = low[0], highest = high[0], infinity = aq_float(<uint32_t>INFINITY_BITS)
    cdef bint finite
    cdef int64_t i
    for i in range(n):
        finite = <int32_t>(aq_bits(x[i]) & MAGNITUDE_MASK) < INFINITY_BITS
        v = x[i] if finite else infinity
        lowest = v if v < lowest else lowest
        v = x[i] if finite else -infinity
        highest = v if v > highest else highest
    low[0] = lowest
    high[0] = highest


cdef inline void widen_bounds(
    const float* x, int64_t n, int64_t first, int64_t block, float* lows, float* highs,
) noexcept nogil:
    """Lower `lows` and raise `highs`, one per block, by the finite elements."""
    cdef int64_t k = 0, taken
    while n > 0:
        taken = min(block - first, n)
        widen_bound(x, taken, lows + k, highs + k)
        k += 1
        x += taken
        n -= taken
        first = 0


cdef inline void widen_all(
    const float* x, int64_t n, int64_t first, int64_t block, int32_t* ranges, float* lows,
    float* highs,
) noexcept nogil:
    """Ranges and bounds of blocks at once: keys that sort as the floats do show NaN and
    infinities at their ends, and the larger magnitude of the bounds is the range."""
    cdef int32_t low_keys[KEYS]
    cdef int32_t high_keys[KEYS]
    cdef int32_t low, high, lowest, highest
    cdef int64_t k, i, count
    cdef bint finite
    while first == 0 and block % 32 == 0 and n >= block:
        count = min(n // block, <int64_t>KEYS)
        finite = True
        for k in range(count):
            aq_bounds32(x + k * block, &low, &high)
            for i in range(32, block, 32):
                aq_bounds32(x + k * block + i, &lowest, &highest)
                low = lowest if lowest < low else low
                high = highest if highest > high else high
            low_keys[k] = low
            high_keys[k] = high
        for k in range(count):
            finite &= (low_keys[k] > NEGATIVE_INFINITY_KEY) & (high_keys[k] < INFINITY_BITS)
        if finite:
            widen_by_keys(low_keys, high_keys, count, ranges, lows, highs)
        else:
            widen_ranges(x, count * block, 0, block, ranges)
            widen_bounds(x, count * block, 0, block, lows, highs)
        x += count * block
        n -= count * block
        ranges += count
        lows += count
        highs += count
    widen_ranges(x, n, first, block, ranges)
    widen_bounds(x, n, first, block, lows, highs)


cdef inline void widen_by_keys(
    const int32_t* low_keys, const int32_t* high_keys, int64_t n, int32_t* ranges, float* lows,
    float* highs,
) noexcept nogil:
    cdef aq_ints out = ranges
    cdef aq_floats lowest = lows, highest = highs
    cdef int64_t k
    cdef int32_t low, high, magnitude
    for k in range(n):
        low = aq_key(aq_bits(lowest[k]))
        low = low_keys[k] if low_keys[k] < low else low
        lowest[k] = aq_float(<uint32_t>aq_key(<uint32_t>low))
        high = aq_key(aq_bits(highest[k]))
        high = high_keys[k] if high_keys[k] > high else high
        highest[k] = aq_float(<uint32_t>aq_key(<uint32_t>high))
        magnitude = aq_key(<uint32_t>low) & MAGNITUDE_MASK
        magnitude = magnitude if magnitude > high else high
        out[k] = magnitude if magnitude > out[k] else out[k]


cdef inline void find_extremes(
    const float* x, int64_t n, int64_t first, int64_t block, float* extremes,
) noexcept nogil:
    """Element of the largest magnitude of each block, the first one of equals; finite ones only."""
    cdef int64_t k = 0, i, taken
    cdef int32_t magnitude, largest
    while n > 0:
        taken = min(block - first, n)
        largest = <int32_t>(aq_bits(extremes[k]) & MAGNITUDE_MASK)
        for i in range(taken):
            magnitude = <int32_t>(aq_bits(x[i]) & MAGNITUDE_MASK)
            if largest < magnitude < INFINITY_BITS:
                largest = magnitude
                extremes[k] = x[i]
        k += 1
        x += taken
        n -= taken
        first = 0
