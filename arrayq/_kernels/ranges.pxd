"""The range of each block: its largest magnitude, or the mean of its magnitudes.

Magnitudes are compared as integers (``bits & 0x7fffffff``): the order is that of the floats, a
NaN sorts above infinity and so is never lost, and the loop vectorises.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from arrayq._kernels.bits cimport (
    aq_bits, aq_const_floats, aq_doubles, aq_float, aq_ints, aq_longs,
)

cdef enum:
    INFINITY_BITS = 0x7F800000
    MAGNITUDE_MASK = 0x7FFFFFFF


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


cdef inline int32_t ordered(uint32_t bits) noexcept nogil:
    """An integer that sorts as the float32 with these bits does; its own inverse."""
    return <int32_t>(bits ^ (<uint32_t>(<int32_t>bits >> 31) & <uint32_t>MAGNITUDE_MASK))


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


cdef inline int32_t lowest_of_32(aq_const_floats x) noexcept nogil:
    cdef int i
    cdef int32_t key, lowest = 0x7FFFFFFF
    for i in range(32):
        key = ordered(aq_bits(x[i]))
        lowest = key if key < lowest else lowest
    return lowest


cdef inline int32_t highest_of_32(aq_const_floats x) noexcept nogil:
    cdef int i
    cdef int32_t key, highest = -0x7FFFFFFF
    for i in range(32):
        key = ordered(aq_bits(x[i]))
        highest = key if key > highest else highest
    return highest


cdef inline void widen_all(
    const float* x, int64_t n, int64_t first, int64_t block, int32_t* ranges, float* lows,
    float* highs,
) noexcept nogil:
    """Ranges and bounds of blocks at once: keys that sort as the floats do show NaN and
    infinities at their ends, and the larger magnitude of the bounds is the range."""
    cdef int64_t k = 0, i
    cdef int32_t key, low, high, magnitude
    if first == 0 and block % 32 == 0:
        while n >= block:
            low = ordered(aq_bits(lows[k]))
            high = ordered(aq_bits(highs[k]))
            low = low if low < MAGNITUDE_MASK else MAGNITUDE_MASK
            for i in range(0, block, 32):
                key = lowest_of_32(x + i)
                low = key if key < low else low
                key = highest_of_32(x + i)
                high = key if key > high else high
            if ordered(<uint32_t>0xFF800000) < low and high < INFINITY_BITS:
                lows[k] = aq_float(<uint32_t>ordered(<uint32_t>low))
                highs[k] = aq_float(<uint32_t>ordered(<uint32_t>high))
                magnitude = <int32_t>(aq_bits(lows[k]) & MAGNITUDE_MASK)
                ranges[k] = magnitude if magnitude > ranges[k] else ranges[k]
                magnitude = <int32_t>(aq_bits(highs[k]) & MAGNITUDE_MASK)
                ranges[k] = magnitude if magnitude > ranges[k] else ranges[k]
            else:
                widen_ranges(x, block, 0, block, ranges + k)
                widen_bounds(x, block, 0, block, lows + k, highs + k)
            k += 1
            x += block
            n -= block
    widen_ranges(x, n, first, block, ranges + k)
    widen_bounds(x, n, first, block, lows + k, highs + k)


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
