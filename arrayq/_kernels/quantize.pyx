"""Ranges, scales and codes of the boxes of an array, in one pass while each box is in cache."""

from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from arrayq._kernels.bits cimport aq_float
from arrayq._kernels.boxes cimport (
    ENCODE, IGNORE, MEASURE, MET_NAN, RAISE, SATURATE, SCALE, Job, Measure, Policy, Scratch,
    allocate_scratch, encode_box, measure_box, publish_ranges, scale_box, take_scales,
)
from arrayq._kernels.buffers cimport release_all, take_array, take_part
from arrayq._kernels.encode cimport check_codec_tables, read_codec
from arrayq._kernels.lines cimport (
    ALL, Box, ElementKind, Geometry, array_bytes, copy_rows, count_boxes, lies_in_floats, locate_box,
    read_geometry, scales_per_box,
)
from arrayq._kernels.rounding cimport HALF_EVEN, STOCHASTIC
from arrayq._kernels.scales cimport (
    read_scale_rules, scale_bytes, tensor_scale_of_range, tensor_scale_of_raw,
)
from arrayq._kernels.zeros cimport NO_ZERO, ZeroDtype, ZeroKind, zero_bytes


cdef int _run(Job* job, int64_t first_box, int64_t end_box, int32_t* largest) noexcept nogil:
    """Work on a range of boxes; returns what was met, or -1 without memory.

    `largest`, unless it is NULL, is raised to the largest range of any block."""
    cdef Scratch scratch
    cdef Box box
    cdef int64_t index, i
    cdef int met = 0
    if not allocate_scratch(&scratch, scales_per_box(job.geometry)):
        return -1
    for index in range(first_box, end_box):
        locate_box(job.geometry, index, &box)
        if job.phases & MEASURE:
            measure_box(job, &box, &scratch, &met)
            if met and (job.policy == RAISE or (job.policy == SATURATE and met & MET_NAN)):
                break
        elif job.phases & SCALE:
            copy_rows(job.geometry, &box, <uint8_t*>job.ranges, <uint8_t*>scratch.ranges, 4, False)
        if largest != NULL:
            for i in range(box.rows * box.columns):
                largest[0] = scratch.ranges[i] if scratch.ranges[i] > largest[0] else largest[0]
        if job.phases & SCALE:
            scale_box(job, &box, &scratch)
        elif job.phases & ENCODE:
            take_scales(job, &box, &scratch)
        if job.phases & ENCODE:
            encode_box(job, &box, &scratch)
        if job.phases & MEASURE and job.ranges != NULL:
            publish_ranges(job, &box, &scratch)
    free(scratch.memory)
    return met


cdef extern from "Python.h":
    object PyObject_Call(object, object, PyObject*)


cdef inline object _made(tuple new):
    """New memory; calling a partial takes half as long again."""
    return PyObject_Call(<object>PyTuple_GET_ITEM(new, 0), <object>PyTuple_GET_ITEM(new, 1), NULL)


cdef class Quantizer:
    """All that follows from a scheme and from how an array lies in memory, ready to be run.

    Parameters
    ----------
    kind, swapped : int, bool
        Element type of the arrays, and whether their bytes are in the other order.
    geometry, packed, codes_per_word, chunk, word_bytes
        How to walk them (``arrayq.layout.Lines``).
    codec : tuple of five arrays
        The element format (``arrayq._kernels.codecs.Codec``).
    rules : ScaleArguments
        The rules for scales and zero points (``arrayq._paths.scale_rules``).
    measure : int
        What is measured of a block.
    scale_count, word_count : int
        Entries of the whole grid and words of the whole data.
    new_parts : tuple of four functools.partial or None, optional
        Make memory for data, scales, zeros and tensor scale, for `quantize`.
    whole : Quantizer, optional
        Sees the same arrays as one block, for `quantize` under a tensor scale.
    """

    cdef Geometry geometry
    cdef Job job
    cdef bint floats                 # lines are float32 as the loops want it, if aligned
    cdef int64_t array_bytes
    cdef int64_t scale_count
    cdef int64_t data_bytes
    cdef object tables               # keeps the memory that job.codec points into
    # what makes memory, and its arguments
    cdef tuple new_data, new_scales, new_zeros, new_tensor_scale
    cdef Quantizer whole
    cdef readonly int64_t boxes

    def __init__(
        self, *, int kind, bint swapped, const int64_t[:, ::1] geometry, int packed,
        int64_t codes_per_word, int64_t chunk, int word_bytes, tuple codec, rules, int measure,
        int64_t scale_count, int64_t word_count, tuple new_parts=(None, None, None, None),
        Quantizer whole=None,
    ):
        cdef Job* job = &self.job
        read_geometry(&self.geometry, geometry, packed, codes_per_word, chunk)
        fields, bounds, edges, order, table = codec
        check_codec_tables(fields, bounds, edges, order, table)
        read_codec(&job.codec, fields, bounds, edges, order, table)
        read_scale_rules(&job.rules, rules.fields, rules.numbers)
        zero_kind, zero_dtype, zero_in_range, zero_whole = rules.zero
        job.geometry = &self.geometry
        job.kind = <ElementKind>kind
        job.swapped = swapped
        job.codec.seed = rules.seed
        job.reciprocal = rules.reciprocal
        job.measure = <Measure>measure
        job.word_bytes = word_bytes
        job.zero.kind = <ZeroKind><int>zero_kind
        job.zero.dtype = <ZeroDtype><int>zero_dtype
        job.zero.in_range = zero_in_range
        job.zero.whole = zero_whole
        job.zero.low = job.codec.low
        job.zero.high = job.codec.high
        job.zero.divisor = job.rules.divisor
        # a zero point has no place among the elements to draw a number for
        job.zero.rounding = HALF_EVEN if job.codec.rounding == STOCHASTIC else job.codec.rounding
        if job.zero.kind != NO_ZERO:
            # quotients are clamped by block; the codec only rounds them
            job.codec.low = -4194304
            job.codec.high = 4194304
        self.tables = codec
        self.new_data, self.new_scales, self.new_zeros, self.new_tensor_scale = [
            None if new is None else (new.func, new.args) for new in new_parts
        ]
        self.whole = whole
        self.boxes = count_boxes(&self.geometry)
        self.floats = lies_in_floats(&self.geometry, job.kind, swapped)
        self.array_bytes = array_bytes(&self.geometry, job.kind)
        self.scale_count = scale_count
        self.data_bytes = word_count * word_bytes

    def quantize(self, array, int policy):
        """Quantize an array into new memory, on this thread.

        Returns
        -------
        tuple or None
            What was met, data, scales, zeros and tensor scale. None where there is a tensor
            scale and the array is not all finite: what becomes of it then is for the caller.
        """
        cdef int met
        cdef int32_t largest = 0
        zeros = tensor_scale = None
        if self.new_tensor_scale is not None:
            if self.whole is None or self.whole._call(
                array, None, None, None, None, None, MEASURE, IGNORE, 0, ALL, &largest
            ):
                return None
            tensor_scale = _made(self.new_tensor_scale)
            tensor_scale[()] = self.tensor_scale(aq_float(<uint32_t>largest))
        data, scales = _made(self.new_data), _made(self.new_scales)
        if self.new_zeros is not None:
            zeros = _made(self.new_zeros)
        met = self._call(
            array, data, scales, zeros, tensor_scale, None, MEASURE | SCALE | ENCODE, policy, 0,
            ALL, NULL,
        )
        return met, data, scales, zeros, tensor_scale

    def run(
        self, array, data, scales, zeros, tensor_scale, ranges, int phases, int policy,
        int64_t first_box=0, int64_t end_box=ALL,
    ):
        """Measure, scale and encode boxes `first_box` to `end_box` of an array, by default all.

        `array` is any exporter of the buffer protocol, with the strides of the geometry. The
        others are the stored parts, and the grid of ranges as int32, in C order, or None where
        `phases` do not need them.

        Returns
        -------
        int
            What was met, as a set of flags: 1 a NaN or an infinity, 2 a NaN.
        """
        return self._call(
            array, data, scales, zeros, tensor_scale, ranges, phases, policy, first_box, end_box,
            NULL,
        )

    def largest_range(self, array, int64_t first_box=0, int64_t end_box=ALL):
        """What was met in some boxes, and the largest finite range of any of their blocks."""
        cdef int32_t largest = 0
        cdef int met = self._call(
            array, None, None, None, None, None, MEASURE, IGNORE, first_box, end_box, &largest
        )
        return met, aq_float(<uint32_t>largest)

    def tensor_scale(self, float largest_range, float largest_raw=-1):
        """The tensor scale of an array whose blocks have at most this range; or at most this raw
        scale, where that does not follow from the range."""
        if self.job.rules.tensor_amax:
            return tensor_scale_of_range(largest_range, &self.job.rules)
        if largest_raw < 0:
            largest_raw = largest_range / self.job.rules.divisor
        return tensor_scale_of_raw(largest_raw, &self.job.rules)

    cdef int _call(
        self, array, data, scales, zeros, tensor_scale, ranges, int phases, int policy,
        int64_t first_box, int64_t end_box, int32_t* largest,
    ) except -1:
        cdef Py_buffer views[6]
        cdef Job job = self.job
        cdef int met
        if end_box == ALL:
            end_box = self.boxes
        if not 0 <= first_box <= end_box <= self.boxes:
            raise ValueError("boxes outside the array")
        if (
            (phases & (SCALE | ENCODE) and scales is None)
            or (phases & ENCODE and data is None)
            or (phases & SCALE and not phases & MEASURE and ranges is None)
            or (phases & (SCALE | ENCODE) and job.zero.kind != NO_ZERO and zeros is None)
        ):
            raise ValueError("these phases require memory for ranges, scales or data")
        memset(views, 0, sizeof(views))
        try:
            take_array(array, &views[0], False)
            if views[0].len != self.array_bytes:
                raise ValueError(f"array requires {self.array_bytes} bytes, got {views[0].len}")
            take_part(data, &views[1], self.data_bytes, True)
            take_part(scales, &views[2], self.scale_count * scale_bytes(job.rules.kind), True)
            take_part(zeros, &views[3], self.scale_count * zero_bytes(job.zero.dtype), True)
            take_part(tensor_scale, &views[4], sizeof(float), False)
            take_part(ranges, &views[5], self.scale_count * sizeof(int32_t), True)
            job.array = <const char*>views[0].buf
            job.direct = self.floats and <uint64_t>job.array % 4 == 0
            job.data = <uint8_t*>views[1].buf
            job.scales = <uint8_t*>views[2].buf
            job.zeros = <uint8_t*>views[3].buf
            if views[4].buf != NULL:
                job.rules.tensor_scale = (<float*>views[4].buf)[0]
            job.ranges = <int32_t*>views[5].buf
            job.phases = phases
            job.policy = <Policy>policy
            with nogil:
                met = _run(&job, first_box, end_box, largest)
        finally:
            release_all(views, 6)
        if met < 0:
            raise MemoryError("no memory for the scales of one box")
        return met
