"""Ranges, scales and codes of the boxes of an array, in one pass while each box is in cache."""

from cpython.buffer cimport PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from arrayq._kernels.bits cimport aq_bits, aq_float
from arrayq._kernels.encode cimport (
    Codec, check_codec_tables, clear_nan_blocks, divide_by_blocks, encode_tile,
    multiply_by_inverses, read_codec,
)
from arrayq._kernels.lines cimport (
    FLOAT32, MAX_AXES, GEOMETRY_ROWS, TILE, TILE_MARGIN, Box, ElementKind, Geometry, count_boxes,
    load_tile, locate_box, next_line, prefetch, read_geometry, tile_length,
)
from arrayq._kernels.pack cimport merge_into_words, pack_words
from arrayq._kernels.ranges cimport (
    INFINITY_BITS, add_magnitudes, find_extremes, widen_all, widen_bounds, widen_finite_ranges,
    widen_ranges,
)
from arrayq._kernels.rounding cimport HALF_AWAY, HALF_EVEN, STOCHASTIC
from arrayq._kernels.scales cimport (
    ScaleRules, apply_tensor_scale, decode_scales, lower_overflowing_scales, raw_scales,
    read_scale_rules, round_scales, scale_bytes, store_exceptional_scales,
)
from arrayq._kernels.zeros cimport (
    CODE, NO_ZERO, ZeroDtype, ZeroKind, ZeroRules, affine_quotients, clear_nan_zeros, decode_zeros,
    divide_into_codes, settle_bounds, store_whole_codes,
    shift_codes, store_zeros, zero_bytes,
)

# No product of a smaller one with a block scale, at most 65504, leaves float32.
cdef float LARGE_TENSOR_SCALE = 2.0 ** 111

# What to do with the boxes; numbered as in arrayq._paths.host.Phase.
cdef enum Phase:
    MEASURE = 1        # ranges of the blocks
    SCALE = 2          # stored scales from the ranges
    ENCODE = 4         # codes from the stored scales

# What is measured of a block; numbered as in arrayq._paths.host.Measure.
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
    const char* array
    ElementKind kind
    bint swapped
    bint direct             # the line is float32 in memory as the loops want it
    Geometry geometry
    Codec codec
    ScaleRules rules
    int phases
    Policy policy
    Measure measure
    ZeroRules zero
    bint reciprocal
    int word_bytes
    int32_t* ranges         # of the whole grid, or NULL
    uint8_t* scales         # of the whole grid, or NULL
    uint8_t* zeros          # of the whole grid, or NULL
    uint8_t* data

cdef struct Scratch:
    int32_t* ranges         # each with room for the scales of one box
    uint8_t* stored
    float* scales
    double* sums
    int64_t* counts
    float* lows             # smallest element
    float* highs            # largest element, or that of the largest magnitude
    uint8_t* stored_zeros
    float* zeros


cdef int64_t _scales_per_box(Geometry* g) noexcept nogil:
    """Room for the scales of any box. A box may start and end inside a block, so that it touches
    one block more per axis than its extent alone would say."""
    cdef int axis
    cdef int64_t n = (g.chunk - 1) // g.block[g.lead] + 2
    for axis in range(g.lead):
        n *= (g.box[axis] - 1) // g.block[axis] + 2
    return n


cdef void _measure(Job* job, Box* box, Scratch* scratch, int* met) noexcept nogil:
    """Ranges of the box's blocks into ``scratch.ranges``."""
    cdef Geometry* g = &job.geometry
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


cdef inline int64_t _grid_row(Job* job, Box* box, int64_t row) noexcept nogil:
    """Index of the first scale of row `row` of the box."""
    cdef Geometry* g = &job.geometry
    cdef int64_t index = box.first_scale
    cdef int axis
    for axis in range(g.lead - 1, -1, -1):
        index += row % box.row_extent[axis] * g.grid_stride[axis]
        row = row // box.row_extent[axis]
    return index


cdef void _copy_rows(
    Job* job, Box* box, uint8_t* grid, uint8_t* rows, int64_t size, bint into_grid,
) noexcept nogil:
    """Copy the box's part of a grid of `size`-byte entries from the grid, or into it."""
    cdef int64_t row, length = box.columns * size
    cdef uint8_t* part
    for row in range(box.rows):
        part = grid + _grid_row(job, box, row) * size
        if into_grid:
            memcpy(part, rows + row * length, length)
        else:
            memcpy(rows + row * length, part, length)


cdef void _scale(Job* job, Box* box, Scratch* scratch) noexcept nogil:
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
    _copy_rows(job, box, job.scales, scratch.stored, size, True)
    if job.zero.kind != NO_ZERO:
        decode_scales(scratch.stored, n, job.rules.kind, scratch.scales)
        store_zeros(
            scratch.lows, scratch.highs, scratch.scales, n, &job.zero, scratch.zeros,
            scratch.stored_zeros,
        )
        _copy_rows(job, box, job.zeros, scratch.stored_zeros, zero_bytes(job.zero.dtype), True)


cdef void _take_scales(Job* job, Box* box, Scratch* scratch) noexcept nogil:
    """Given scales of the box into ``scratch.stored``; NaN where the box shows that it must be."""
    cdef int64_t n = box.rows * box.columns, size = scale_bytes(job.rules.kind)
    _copy_rows(job, box, job.scales, scratch.stored, size, False)
    if job.zero.kind != NO_ZERO:
        _copy_rows(job, box, job.zeros, scratch.stored_zeros, zero_bytes(job.zero.dtype), False)
    if job.phases & MEASURE and job.policy == PROPAGATE:
        store_exceptional_scales(scratch.ranges, n, job.rules.kind, True, scratch.stored)
        _copy_rows(job, box, job.scales, scratch.stored, size, True)
        if job.zero.kind != NO_ZERO:
            clear_nan_zeros(scratch.ranges, n, job.zero.dtype, scratch.stored_zeros)
            _copy_rows(job, box, job.zeros, scratch.stored_zeros, zero_bytes(job.zero.dtype), True)


cdef void _encode(Job* job, Box* box, Scratch* scratch) noexcept nogil:
    """Codes of the box against the scales in ``scratch.stored``, into the data."""
    cdef Geometry* g = &job.geometry
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


cdef void _publish_ranges(Job* job, Box* box, Scratch* scratch) noexcept nogil:
    """Raise the ranges of the whole grid by those of the box."""
    cdef int64_t row, column, index
    cdef int32_t magnitude
    for row in range(box.rows):
        index = _grid_row(job, box, row)
        for column in range(box.columns):
            magnitude = scratch.ranges[row * box.columns + column]
            if magnitude != 0 and (
                magnitude > job.ranges[index + column] or job.ranges[index + column] == 0
            ):
                job.ranges[index + column] = magnitude


cdef bint _allocate(Scratch* scratch, int64_t room) noexcept nogil:
    """Memory for the scales of one box; False without."""
    scratch.ranges = <int32_t*>malloc(room * sizeof(int32_t))
    scratch.stored = <uint8_t*>malloc(room * sizeof(float))
    scratch.scales = <float*>malloc(room * sizeof(float))
    scratch.sums = <double*>malloc(room * sizeof(double))
    scratch.counts = <int64_t*>malloc(room * sizeof(int64_t))
    scratch.lows = <float*>malloc(room * sizeof(float))
    scratch.highs = <float*>malloc(room * sizeof(float))
    scratch.stored_zeros = <uint8_t*>malloc(room * sizeof(float))
    scratch.zeros = <float*>malloc(room * sizeof(float))
    return (
        scratch.ranges != NULL and scratch.stored != NULL and scratch.scales != NULL
        and scratch.sums != NULL and scratch.counts != NULL and scratch.lows != NULL
        and scratch.highs != NULL and scratch.stored_zeros != NULL and scratch.zeros != NULL
    )


cdef void _release(Scratch* scratch) noexcept nogil:
    free(scratch.ranges)
    free(scratch.stored)
    free(scratch.scales)
    free(scratch.sums)
    free(scratch.counts)
    free(scratch.lows)
    free(scratch.highs)
    free(scratch.stored_zeros)
    free(scratch.zeros)


cdef int _run(Job* job, int64_t first_box, int64_t end_box) noexcept nogil:
    """Work on a range of boxes; returns what was met, or -1 without memory."""
    cdef Scratch scratch
    cdef Box box
    cdef int64_t index
    cdef int met = 0
    if not _allocate(&scratch, _scales_per_box(&job.geometry)):
        _release(&scratch)
        return -1
    for index in range(first_box, end_box):
        locate_box(&job.geometry, index, &box)
        if job.phases & MEASURE:
            _measure(job, &box, &scratch, &met)
            if met and (job.policy == RAISE or (job.policy == SATURATE and met & MET_NAN)):
                break
        elif job.phases & SCALE:
            _copy_rows(job, &box, <uint8_t*>job.ranges, <uint8_t*>scratch.ranges, 4, False)
        if job.phases & SCALE:
            _scale(job, &box, &scratch)
        elif job.phases & ENCODE:
            _take_scales(job, &box, &scratch)
        if job.phases & ENCODE:
            _encode(job, &box, &scratch)
        if job.phases & MEASURE and job.ranges != NULL:
            _publish_ranges(job, &box, &scratch)
    _release(&scratch)
    return met


def run(
    array, int kind, bint swapped, const int64_t[:, ::1] geometry, int packed,
    int64_t codes_per_word, int64_t chunk, const int32_t[::1] codec_fields,
    const float[::1] codec_bounds, const float[::1] edges, const uint8_t[::1] order,
    const float[::1] table, uint64_t seed, bint reciprocal, const int32_t[::1] rule_fields,
    const float[::1] rule_numbers, float tensor_scale, int zero_kind, int zero_dtype,
    bint zero_in_range, bint zero_whole, int phases, int policy, int measure, int word_bytes,
    int32_t[::1] ranges, uint8_t[::1] scales, uint8_t[::1] zeros, uint8_t[::1] data,
    int64_t first_box, int64_t end_box,
):
    """Measure, scale and encode boxes `first_box` to `end_box` of an array.

    `array` is any exporter of the buffer protocol, read through its strides; the geometry says
    how to walk it. `ranges`, `scales`, `zeros` and `data` are whole grids and the whole data as
    flat memory, or None where `phases` does not need them.

    Returns
    -------
    int
        What was met, as a set of flags: 1 a NaN or an infinity, 2 a NaN.
    """
    cdef Py_buffer view
    cdef Job job
    cdef int met
    if geometry.shape[0] != GEOMETRY_ROWS or not 1 <= geometry.shape[1] <= MAX_AXES:
        raise ValueError(f"geometry requires {<int>GEOMETRY_ROWS} rows and 1 to {<int>MAX_AXES} axes")
    check_codec_tables(codec_fields, codec_bounds, edges, order, table)
    read_geometry(&job.geometry, geometry, packed, codes_per_word, chunk)
    read_codec(&job.codec, codec_fields, codec_bounds, edges, order, table)
    if not 0 <= first_box <= end_box <= count_boxes(&job.geometry):
        raise ValueError("boxes outside the array")
    job.kind = <ElementKind>kind
    job.swapped = swapped
    read_scale_rules(&job.rules, rule_fields, rule_numbers, tensor_scale)
    job.codec.seed = seed
    job.reciprocal = reciprocal
    job.zero.kind = <ZeroKind>zero_kind
    job.zero.dtype = <ZeroDtype>zero_dtype
    job.zero.in_range = zero_in_range
    job.zero.whole = zero_whole
    job.zero.low = job.codec.low
    job.zero.high = job.codec.high
    job.zero.divisor = rule_numbers[0]
    # a zero point has no place among the elements to draw a number for
    job.zero.rounding = HALF_EVEN if job.codec.rounding == STOCHASTIC else job.codec.rounding
    if zero_kind != NO_ZERO:
        # quotients are clamped by block; the codec only rounds them
        job.codec.low = -4194304
        job.codec.high = 4194304
    job.phases = phases
    job.policy = <Policy>policy
    job.measure = <Measure>measure
    job.word_bytes = word_bytes
    job.ranges = &ranges[0] if ranges is not None else NULL
    job.scales = &scales[0] if scales is not None else NULL
    job.zeros = &zeros[0] if zeros is not None else NULL
    job.data = &data[0] if data is not None else NULL
    if (
        (phases & (SCALE | ENCODE) and scales is None)
        or (phases & ENCODE and data is None)
        or (phases & SCALE and not phases & MEASURE and ranges is None)
        or (phases & (SCALE | ENCODE) and zero_kind != NO_ZERO and zeros is None)
    ):
        raise ValueError("these phases require memory for ranges, scales or data")
    PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)
    try:
        job.array = <const char*>view.buf
        job.direct = (
            kind == FLOAT32 and not swapped and job.geometry.array_stride[job.geometry.lead] == 4
            and <uint64_t>view.buf % 4 == 0
        )
        for axis in range(job.geometry.lead):
            job.direct = job.direct and job.geometry.array_stride[axis] % 4 == 0
        with nogil:
            met = _run(&job, first_box, end_box)
    finally:
        PyBuffer_Release(&view)
    if met < 0:
        raise MemoryError("no memory for the scales of one box")
    return met

