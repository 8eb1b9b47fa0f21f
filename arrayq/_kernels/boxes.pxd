"""What a pass does with one box: measure its blocks, scale them, encode them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memset

from arrayq._kernels.bits cimport aq_bits, aq_float
from arrayq._kernels.encode cimport (
    Codec, clear_nan_blocks, divide_by_blocks, encode_tile, multiply_by_inverses,
)
from arrayq._kernels.lines cimport (
    MAX_AXES, TILE, TILE_MARGIN, Box, ElementKind, Geometry, copy_rows, grid_row, load_tile,
    next_line, prefetch, tile_length,
)
from arrayq._kernels.pack cimport merge_into_words, pack_words
from arrayq._kernels.ranges cimport (
    INFINITY_BITS, add_magnitudes, find_extremes, widen_all, widen_bounds, widen_finite_ranges,
    widen_ranges,
)
from arrayq._kernels.rounding cimport HALF_AWAY
from arrayq._kernels.scales cimport (
    ScaleRules, apply_tensor_scale, decode_scales, lower_overflowing_scales, raw_scales,
    round_scales, scale_bytes, store_exceptional_scales,
)
from arrayq._kernels.zeros cimport (
    CODE, NO_ZERO, ZeroRules, affine_quotients, clear_nan_zeros, decode_zeros, divide_into_codes,
    settle_bounds, shift_codes, store_whole_codes, store_zeros, zero_bytes,
)

cdef extern from *:
    """
    #define AQ_LARGE_TENSOR_SCALE 0x1p111f
    """
    # no product of a smaller one with a block scale, at most 65504, leaves float32
    const float LARGE_TENSOR_SCALE "AQ_LARGE_TENSOR_SCALE"

# What to do with the boxes; numbered as in arrayq._paths.host.Phase.
cdef enum Phase:
    MEASURE = 1        # ranges of the blocks
    SCALE = 2          # stored scales from the ranges
    ENCODE = 4         # codes from the stored scales

# What is measured of a block; numbered as in arrayq._paths.scale_rules.Measure.
cdef enum Measure:
    MAGNITUDE = 0      # the largest magnitude
    MEAN = 1           # the mean magnitude
    BOUNDS = 2         # smallest and largest element
    EXTREME = 3        # the element of the largest magnitude

# Numbered as in arrayq._paths.host.Policy.
cdef enum Policy:
    RAISE = 0
    PROPAGATE = 1
    SATURATE = 2
    IGNORE = 3         # ranges of the finite elements, whatever else there is

# What was met; numbered as in arrayq._paths.host.Met.
cdef enum Met:
    MET_NONFINITE = 1
    MET_NAN = 2

cdef struct Job:
    Geometry* geometry
    ElementKind kind
    bint swapped
    bint direct             # the line is float32 in memory as the loops want it
    Codec codec
    ScaleRules rules
    Measure measure
    ZeroRules zero
    bint reciprocal
    int word_bytes
    int phases              # this and what follows differs from call to call
    Policy policy
    const char* array
    int32_t* ranges         # of the whole grid, or NULL
    uint8_t* scales         # of the whole grid, or NULL
    uint8_t* zeros          # of the whole grid, or NULL
    uint8_t* data

cdef struct Scratch:
    char* memory            # of all that follow, each with room for the scales of one box
    int32_t* ranges
    uint8_t* stored
    float* scales
    double* sums
    int64_t* counts
    float* lows             # smallest element
    float* highs            # largest element, or that of the largest magnitude
    uint8_t* stored_zeros
    float* zeros


cdef inline void measure_box(Job* job, Box* box, Scratch* scratch, int* met) noexcept nogil:
    """Ranges of the box's blocks into ``scratch.ranges``."""
    cdef Geometry* g = job.geometry
    cdef int64_t position[MAX_AXES]
    cdef float buffer[TILE]
    cdef const float* x
    cdef const char* line
    cdef int64_t n = box.rows * box.columns, block = g.block[g.lead]
    cdef int64_t stride = g.array_stride[g.lead], tile = tile_length(g)
    cdef int64_t row, column, length, place, i
    cdef int32_t seen, largest = 0
    cdef int axis
    memset(scratch.ranges, 0, n * sizeof(int32_t))
    if job.measure == MEAN:
        memset(scratch.sums, 0, n * sizeof(double))
        memset(scratch.counts, 0, n * sizeof(int64_t))
    elif job.measure != MAGNITUDE:
        for i in range(n):
            scratch.lows[i] = aq_float(<uint32_t>INFINITY_BITS)
            scratch.highs[i] = -scratch.lows[i] if job.measure == BOUNDS else <float>0.0
    for axis in range(g.lead):
        position[axis] = box.low[axis]
    while True:
        line = job.array
        row = 0
        for axis in range(g.lead):
            line += position[axis] * g.array_stride[axis]
            row += (position[axis] // g.block[axis] - box.low[axis] // g.block[axis]) * box.row_stride[axis]
        column = box.first_column
        while column < box.end_column:
            length = min(tile, box.end_column - column)
            x = load_tile(line + column * stride, stride, length, job.kind, job.swapped, job.direct, buffer)
            place = row * box.columns + column // block - box.first_column // block
            i = column % block
            if job.policy == SATURATE or job.policy == IGNORE:
                seen = widen_finite_ranges(x, length, i, block, scratch.ranges + place)
                largest = seen if seen > largest else largest
            elif job.measure == BOUNDS:
                widen_all(
                    x, length, i, block, scratch.ranges + place, scratch.lows + place,
                    scratch.highs + place,
                )
            else:
                widen_ranges(x, length, i, block, scratch.ranges + place)
            if job.measure == MEAN:
                add_magnitudes(x, length, i, block, scratch.sums + place, scratch.counts + place)
            elif job.measure == BOUNDS and job.policy != RAISE and job.policy != PROPAGATE:
                widen_bounds(x, length, i, block, scratch.lows + place, scratch.highs + place)
            elif job.measure == EXTREME:
                find_extremes(x, length, i, block, scratch.highs + place)
            column += length
        if not next_line(g, box, position):
            break
    if job.policy == RAISE or job.policy == PROPAGATE:
        for i in range(n):
            largest = scratch.ranges[i] if scratch.ranges[i] > largest else largest
    if largest >= INFINITY_BITS:
        met[0] |= MET_NONFINITE
        if largest > INFINITY_BITS:
            met[0] |= MET_NAN
    if job.measure == BOUNDS:
        settle_bounds(
            scratch.ranges, scratch.lows, scratch.highs, n, job.zero.in_range,
            job.zero.kind == CODE, job.zero.divisor,
        )
    elif job.measure == MEAN:
        for i in range(n):
            if 0 < scratch.ranges[i] < INFINITY_BITS and scratch.counts[i] > 0:
                scratch.ranges[i] = <int32_t>aq_bits(<float>(scratch.sums[i] / <double>scratch.counts[i]))
                if scratch.ranges[i] == 0:
                    scratch.ranges[i] = 1


cdef inline void scale_box(Job* job, Box* box, Scratch* scratch) noexcept nogil:
    """Stored scales of the box, from its ranges into ``scratch.stored`` and the grid."""
    cdef int64_t n = box.rows * box.columns, size = scale_bytes(job.rules.kind)
    raw_scales(scratch.ranges, scratch.lows, scratch.highs, n, &job.rules, scratch.scales)
    round_scales(scratch.ranges, scratch.highs, scratch.scales, n, &job.rules, scratch.stored)
    if job.rules.two_level and job.rules.tensor_scale > LARGE_TENSOR_SCALE:
        lower_overflowing_scales(
            scratch.stored, n, job.rules.kind, job.rules.tensor_scale, scratch.scales
        )
    store_exceptional_scales(
        scratch.ranges, n, job.rules.kind, job.policy == PROPAGATE, scratch.stored
    )
    copy_rows(job.geometry, box, job.scales, scratch.stored, size, True)
    if job.zero.kind != NO_ZERO:
        decode_scales(scratch.stored, n, job.rules.kind, scratch.scales)
        store_zeros(
            scratch.lows, scratch.highs, scratch.scales, n, &job.zero, scratch.zeros,
            scratch.stored_zeros,
        )
        copy_rows(job.geometry, box, job.zeros, scratch.stored_zeros, zero_bytes(job.zero.dtype), True)


cdef inline void take_scales(Job* job, Box* box, Scratch* scratch) noexcept nogil:
    """Given scales of the box into ``scratch.stored``; NaN where the box shows that it must be."""
    cdef int64_t n = box.rows * box.columns, size = scale_bytes(job.rules.kind)
    copy_rows(job.geometry, box, job.scales, scratch.stored, size, False)
    if job.zero.kind != NO_ZERO:
        copy_rows(job.geometry, box, job.zeros, scratch.stored_zeros, zero_bytes(job.zero.dtype), False)
    if job.phases & MEASURE and job.policy == PROPAGATE:
        store_exceptional_scales(scratch.ranges, n, job.rules.kind, True, scratch.stored)
        copy_rows(job.geometry, box, job.scales, scratch.stored, size, True)
        if job.zero.kind != NO_ZERO:
            clear_nan_zeros(scratch.ranges, n, job.zero.dtype, scratch.stored_zeros)
            copy_rows(job.geometry, box, job.zeros, scratch.stored_zeros, zero_bytes(job.zero.dtype), True)


cdef inline void encode_box(Job* job, Box* box, Scratch* scratch) noexcept nogil:
    """Codes of the box against the scales in ``scratch.stored``, into the data."""
    cdef Geometry* g = job.geometry
    cdef Codec* codec = &job.codec
    cdef int64_t position[MAX_AXES]
    cdef float buffer[TILE]
    cdef float quotients[TILE]
    cdef uint8_t codes[TILE + TILE_MARGIN]
    cdef uint8_t* target
    cdef uint8_t* words
    cdef const float* x
    cdef const float* scales
    cdef const char* line
    cdef bint along_line = g.packed == g.lead, has_nan = False
    cdef int64_t n = box.rows * box.columns, block = g.block[g.lead]
    cdef int64_t stride = g.array_stride[g.lead], tile = tile_length(g)
    cdef int64_t row, column, length, i, padded, word, linear, cell, done
    cdef int axis, shift
    decode_scales(scratch.stored, n, job.rules.kind, scratch.scales)
    if job.rules.two_level:
        apply_tensor_scale(scratch.scales, n, job.rules.tensor_scale)
    if job.zero.kind != NO_ZERO:
        decode_zeros(scratch.stored_zeros, n, job.zero.dtype, scratch.zeros)
    for i in range(n):
        has_nan |= scratch.scales[i] != scratch.scales[i]
    for axis in range(g.lead):
        position[axis] = box.low[axis]
    while True:
        line = job.array
        row = 0
        word = 0
        shift = 0
        linear = 0
        for axis in range(g.lead):
            line += position[axis] * g.array_stride[axis]
            linear = linear * g.shape[axis] + position[axis]
            row += (position[axis] // g.block[axis] - box.low[axis] // g.block[axis]) * box.row_stride[axis]
            if axis == g.packed:
                word += position[axis] // g.codes_per_word * g.data_stride[axis]
                shift = <int>(position[axis] % g.codes_per_word) * codec.bits
            else:
                word += position[axis] * g.data_stride[axis]
        linear *= g.shape[g.lead]
        words = job.data + word * job.word_bytes
        column = box.first_column
        while column < box.end_column:
            length = min(tile, box.end_column - column)
            x = load_tile(line + column * stride, stride, length, job.kind, job.swapped, job.direct, buffer)
            cell = row * box.columns + column // block - box.first_column // block
            scales = scratch.scales + cell
            i = column % block
            if job.phases & MEASURE and job.direct:
                prefetch(line + (column + g.chunk) * stride, length * stride)
            done = 0
            if job.zero.kind != NO_ZERO:
                if i == 0 and codec.rounding == HALF_AWAY and not job.reciprocal:
                    done = divide_into_codes(
                        x, length, block, scales, scratch.zeros + cell, &job.zero, quotients
                    )
                affine_quotients(
                    x + done, length - done, i, block, scales + done // block,
                    scratch.zeros + cell + done // block, &job.zero, job.reciprocal,
                    quotients + done,
                )
            elif job.reciprocal:
                multiply_by_inverses(x, length, i, block, scales, quotients)
            else:
                divide_by_blocks(x, length, i, block, scales, quotients)
            target = &codes[0]
            if g.packed < 0:
                target = words + column
            if done:
                store_whole_codes(quotients, done, codec.mask, target)
            encode_tile(
                quotients + done, length - done, codec, <uint64_t>(linear + column + done),
                target + done,
            )
            if job.zero.kind != NO_ZERO:
                shift_codes(
                    target + done, length - done, i, block, scratch.zeros + cell + done // block,
                    &job.zero, codec.mask,
                )
            if has_nan:
                clear_nan_blocks(target, length, i, block, scales, codec.zero_code)
            if along_line:
                padded = (length + g.codes_per_word - 1) // g.codes_per_word
                memset(codes + length, 0, padded * g.codes_per_word - length)
                pack_words(
                    codes, padded, g.codes_per_word, codec.bits, job.word_bytes,
                    words + column // g.codes_per_word * job.word_bytes,
                )
            elif g.packed >= 0:
                merge_into_words(codes, length, shift, job.word_bytes, words + column * job.word_bytes)
            column += length
        if not next_line(g, box, position):
            break


cdef inline void publish_ranges(Job* job, Box* box, Scratch* scratch) noexcept nogil:
    """Raise the ranges of the whole grid by those of the box."""
    cdef int64_t row, column, index
    cdef int32_t magnitude
    for row in range(box.rows):
        index = grid_row(job.geometry, box, row)
        for column in range(box.columns):
            magnitude = scratch.ranges[row * box.columns + column]
            if magnitude != 0 and (
                magnitude > job.ranges[index + column] or job.ranges[index + column] == 0
            ):
                job.ranges[index + column] = magnitude


cdef inline bint allocate_scratch(Scratch* scratch, int64_t room) noexcept nogil:
    """Memory for the scales of one box, the widest entries first; False without."""
    cdef int64_t wide = room * sizeof(double), narrow = room * sizeof(float)
    cdef char* memory = <char*>malloc(2 * wide + 7 * narrow)
    scratch.memory = memory
    scratch.sums = <double*>memory
    scratch.counts = <int64_t*>(memory + wide)
    memory += 2 * wide
    scratch.ranges = <int32_t*>memory
    scratch.stored = <uint8_t*>(memory + narrow)
    scratch.scales = <float*>(memory + 2 * narrow)
    scratch.lows = <float*>(memory + 3 * narrow)
    scratch.highs = <float*>(memory + 4 * narrow)
    scratch.stored_zeros = <uint8_t*>(memory + 5 * narrow)
    scratch.zeros = <float*>(memory + 6 * narrow)
    return scratch.memory != NULL
