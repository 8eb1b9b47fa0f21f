"""Words back into elements, tile by tile: unpack, decode, multiply by the scale of the block."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from arrayq._kernels.buffers cimport release_all, take_array, take_part
from arrayq._kernels.decode cimport decode_tile, multiply_by_blocks
from arrayq._kernels.encode cimport Codec, check_codec_tables, read_codec
from arrayq._kernels.lines cimport (
    ALL, MAX_AXES, TILE, TILE_MARGIN, ElementKind, Geometry, array_bytes, ceil_div, count_boxes,
    lies_in_floats, read_geometry, store_tile, tile_length,
)
from arrayq._kernels.pack cimport split_from_words, unpack_words
from arrayq._kernels.scales cimport ScaleKind, apply_tensor_scale, decode_scales, scale_bytes
from arrayq._kernels.zeros cimport (
    NO_ZERO, ZeroDtype, ZeroKind, affine_values, decode_zeros, zero_bytes,
)

cdef struct Job:
    Geometry* geometry
    ElementKind kind
    bint direct             # the line is float32 in memory as the loops want it
    Codec codec
    ScaleKind scale_kind
    bint two_level
    ZeroKind zero_kind
    ZeroDtype zero_dtype
    int word_bytes
    char* array             # this and what follows differs from call to call
    float tensor_scale
    const uint8_t* zeros
    const uint8_t* scales
    const uint8_t* data


cdef void _decode_line(
    Job* job, const int64_t* position, int64_t first_column, int64_t end_column, float* factors,
    float* zeros,
) noexcept nogil:
    cdef Geometry* g = job.geometry
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
    cdef Geometry* g = job.geometry
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


cdef class Dequantizer:
    """All that follows from a scheme and from how a result lies in memory, ready to be run.

    Parameters
    ----------
    kind : int
        Element type of the results, in native byte order.
    geometry, packed, codes_per_word, chunk, word_bytes
        How to walk them (``arrayq.layout.Lines``).
    codec : tuple of five arrays
        The element format (``arrayq._kernels.codecs.Codec``).
    rules : ScaleArguments
        The rules for scales and zero points (``arrayq._paths.scale_rules``).
    scale_count, word_count : int
        Entries of the whole grid and words of the whole data.
    new_array : callable, optional
        Makes memory for `dequantize`.
    """

    cdef Geometry geometry
    cdef Job job
    cdef bint floats                 # lines are float32 as the loops want it, if aligned
    cdef int64_t array_bytes
    cdef int64_t scale_count
    cdef int64_t data_bytes
    cdef object tables               # keeps the memory that job.codec points into
    cdef object new_array
    cdef readonly int64_t boxes

    def __init__(
        self, *, int kind, const int64_t[:, ::1] geometry, int packed, int64_t codes_per_word,
        int64_t chunk, int word_bytes, tuple codec, rules, int64_t scale_count, int64_t word_count,
        new_array=None,
    ):
        cdef Job* job = &self.job
        read_geometry(&self.geometry, geometry, packed, codes_per_word, chunk)
        fields, bounds, edges, order, table = codec
        check_codec_tables(fields, bounds, edges, order, table)
        read_codec(&job.codec, fields, bounds, edges, order, table)
        zero_kind, zero_dtype = rules.zero[:2]
        job.geometry = &self.geometry
        job.kind = <ElementKind>kind
        job.scale_kind = <ScaleKind><int>rules.kind
        job.two_level = rules.two_level
        job.zero_kind = <ZeroKind><int>zero_kind
        job.zero_dtype = <ZeroDtype><int>zero_dtype
        job.word_bytes = word_bytes
        self.tables = codec
        self.new_array = new_array
        self.boxes = count_boxes(&self.geometry)
        self.floats = lies_in_floats(&self.geometry, job.kind, False)
        self.array_bytes = array_bytes(&self.geometry, job.kind)
        self.scale_count = scale_count
        self.data_bytes = word_count * word_bytes

    def dequantize(self, data, scales, zeros, tensor_scale):
        """Decode into new memory, on this thread."""
        array = self.new_array()
        self._call(array, data, scales, zeros, tensor_scale, 0, ALL)
        return array

    def run(
        self, array, data, scales, zeros, tensor_scale, int64_t first_box=0, int64_t end_box=ALL,
    ):
        """Decode boxes `first_box` to `end_box` (one line, or `chunk` columns of it, each), by
        default all, into `array`, any writable exporter of the buffer protocol with the strides
        of the geometry.

        The others are the stored parts, in C order, and None where the scheme has none."""
        self._call(array, data, scales, zeros, tensor_scale, first_box, end_box)

    cdef int _call(
        self, array, data, scales, zeros, tensor_scale, int64_t first_box, int64_t end_box,
    ) except -1:
        cdef Py_buffer views[5]
        cdef Job job = self.job
        if end_box == ALL:
            end_box = self.boxes
        if not 0 <= first_box <= end_box <= self.boxes:
            raise ValueError("boxes outside the array")
        if data is None or scales is None:
            raise ValueError("codes require data and scales")
        if job.zero_kind != NO_ZERO and zeros is None:
            raise ValueError("affine codes require zero points")
        memset(views, 0, sizeof(views))
        try:
            take_array(array, &views[0], True)
            if views[0].len != self.array_bytes:
                raise ValueError(f"array requires {self.array_bytes} bytes, got {views[0].len}")
            take_part(data, &views[1], self.data_bytes, False)
            take_part(scales, &views[2], self.scale_count * scale_bytes(job.scale_kind), False)
            take_part(zeros, &views[3], self.scale_count * zero_bytes(job.zero_dtype), False)
            take_part(tensor_scale, &views[4], sizeof(float), False)
            job.array = <char*>views[0].buf
            job.direct = self.floats and <uint64_t>job.array % 4 == 0
            job.data = <const uint8_t*>views[1].buf
            job.scales = <const uint8_t*>views[2].buf
            job.zeros = <const uint8_t*>views[3].buf
            job.tensor_scale = 1 if views[4].buf == NULL else (<const float*>views[4].buf)[0]
            with nogil:
                _run(&job, first_box, end_box)
        finally:
            release_all(views, 5)
        return 0
