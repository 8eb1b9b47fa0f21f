"""Words back into elements, tile by tile: unpack, decode, multiply by the scale of the block."""

from cpython.buffer cimport PyBUF_STRIDED, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from arrayq._kernels.decode cimport decode_tile, multiply_by_blocks
from arrayq._kernels.encode cimport Codec, check_codec_tables, read_codec
from arrayq._kernels.lines cimport (
    FLOAT32, GEOMETRY_ROWS, MAX_AXES, TILE, TILE_MARGIN, ElementKind, Geometry, ceil_div,
    count_boxes, read_geometry, store_tile, tile_length,
)
from arrayq._kernels.pack cimport split_from_words, unpack_words
from arrayq._kernels.scales cimport ScaleKind, apply_tensor_scale, decode_scales, scale_bytes
from arrayq._kernels.zeros cimport (
    NO_ZERO, ZeroDtype, ZeroKind, affine_values, decode_zeros, zero_bytes,
)

cdef struct Job:
    char* array
    ElementKind kind
    bint direct             # the line is float32 in memory as the loops want it
    Geometry geometry
    Codec codec
    ScaleKind scale_kind
    bint two_level
    float tensor_scale
    ZeroKind zero_kind
    ZeroDtype zero_dtype
    const uint8_t* zeros
    int word_bytes
    const uint8_t* scales
    const uint8_t* data


cdef void _decode_line(
    Job* job, const int64_t* position, int64_t first_column, int64_t end_column, float* factors,
    float* zeros,
) noexcept nogil:
    cdef Geometry* g = &job.geometry
    cdef Codec* codec = &job.codec
    cdef float buffer[TILE]
    cdef uint8_t codes[TILE + TILE_MARGIN]
    cdef const uint8_t* words
    cdef const uint8_t* source
    cdef char* line = job.array
    cdef float* values
    cdef bint along_line = g.packed == g.lead
    cdef int64_t block = g.block[g.lead], offset = g.offset[g.lead]
    cdef int64_t stride = g.array_stride[g.lead], tile = tile_length(g)
    cdef int64_t size = scale_bytes(job.scale_kind), scale = 0, word = 0
    cdef int64_t column = first_column, length, first, scales
    cdef int axis, shift = 0
    for axis in range(g.lead):
        line += position[axis] * g.array_stride[axis]
        scale += (position[axis] + g.offset[axis]) // g.block[axis] * g.grid_stride[axis]
        if axis == g.packed:
            word += position[axis] // g.codes_per_word * g.data_stride[axis]
            shift = <int>(position[axis] % g.codes_per_word) * codec.bits
        else:
            word += position[axis] * g.data_stride[axis]
    words = job.data + word * job.word_bytes
    while column < end_column:
        length = min(tile, end_column - column)
        if along_line:
            unpack_words(
                words + column // g.codes_per_word * job.word_bytes, length, g.codes_per_word,
                codec.bits, job.word_bytes, codes,
            )
            source = codes
        elif g.packed >= 0:
            split_from_words(
                words + column * job.word_bytes, length, shift, codec.bits, job.word_bytes, codes
            )
            source = codes
        else:
            source = words + column
        values = <float*>(line + column * stride) if job.direct else buffer
        decode_tile(source, length, codec, values)
        first = (column + offset) // block
        scales = (column + offset + length - 1) // block - first + 1
        decode_scales(
            job.scales + (scale + first * g.grid_stride[g.lead]) * size, scales, job.scale_kind,
            factors,
        )
        if job.two_level:
            apply_tensor_scale(factors, scales, job.tensor_scale)
        if job.zero_kind == NO_ZERO:
            multiply_by_blocks(values, length, (column + offset) % block, block, factors)
        else:
            decode_zeros(
                job.zeros + (scale + first * g.grid_stride[g.lead]) * zero_bytes(job.zero_dtype),
                scales, job.zero_dtype, zeros,
            )
            affine_values(
                values, length, (column + offset) % block, block, factors, zeros, job.zero_kind
            )
        if not job.direct:
            store_tile(line + column * stride, stride, length, job.kind, buffer)
        column += length


cdef void _run(Job* job, int64_t first_box, int64_t end_box) noexcept nogil:
    cdef Geometry* g = &job.geometry
    cdef int64_t position[MAX_AXES]
    cdef int64_t index, rest, chunks = ceil_div(g.shape[g.lead], g.chunk)
    cdef int axis
    cdef float factors[TILE + 2]
    cdef float zeros[TILE + 2]
    for index in range(first_box, end_box):
        rest = index // chunks
        for axis in range(g.lead - 1, -1, -1):
            position[axis] = rest % g.shape[axis]
            rest = rest // g.shape[axis]
        _decode_line(
            job, position, index % chunks * g.chunk,
            min((index % chunks + 1) * g.chunk, g.shape[g.lead]), factors, zeros,
        )


def run(
    array, int kind, const int64_t[:, ::1] geometry, int packed, int64_t codes_per_word,
    int64_t chunk, const int32_t[::1] codec_fields, const float[::1] codec_bounds,
    const float[::1] edges, const uint8_t[::1] order, const float[::1] table, int scale_kind,
    bint two_level, float tensor_scale, int zero_kind, int zero_dtype, int word_bytes,
    const uint8_t[::1] scales, const uint8_t[::1] zeros, const uint8_t[::1] data, int64_t first_box, int64_t end_box,
):
    """Decode boxes `first_box` to `end_box` (one line, or `chunk` columns of it, each) into
    `array`, any writable exporter of the buffer protocol, through its strides."""
    cdef Py_buffer view
    cdef Job job
    if geometry.shape[0] != GEOMETRY_ROWS or not 1 <= geometry.shape[1] <= MAX_AXES:
        raise ValueError(f"geometry requires {<int>GEOMETRY_ROWS} rows and 1 to {<int>MAX_AXES} axes")
    check_codec_tables(codec_fields, codec_bounds, edges, order, table)
    read_geometry(&job.geometry, geometry, packed, codes_per_word, chunk)
    read_codec(&job.codec, codec_fields, codec_bounds, edges, order, table)
    if not 0 <= first_box <= end_box <= count_boxes(&job.geometry):
        raise ValueError("boxes outside the array")
    job.kind = <ElementKind>kind
    job.scale_kind = <ScaleKind>scale_kind
    job.two_level = two_level
    job.tensor_scale = tensor_scale
    job.word_bytes = word_bytes
    job.scales = &scales[0]
    job.zero_kind = <ZeroKind>zero_kind
    job.zero_dtype = <ZeroDtype>zero_dtype
    job.zeros = &zeros[0] if zeros is not None else NULL
    if zero_kind != NO_ZERO and zeros is None:
        raise ValueError("affine codes require zero points")
    job.data = &data[0]
    PyObject_GetBuffer(array, &view, PyBUF_STRIDED)
    try:
        job.array = <char*>view.buf
        job.direct = (
            kind == FLOAT32 and job.geometry.array_stride[job.geometry.lead] == 4
            and <uint64_t>view.buf % 4 == 0
        )
        for axis in range(job.geometry.lead):
            job.direct = job.direct and job.geometry.array_stride[axis] % 4 == 0
        with nogil:
            _run(&job, first_box, end_box)
    finally:
        PyBuffer_Release(&view)
