"""The walk over an array: boxes of lines, each line read as tiles of float32.

A *line* runs along the innermost axis of the collapsed array (``arrayq.layout.collapse``). A
*box* is a rectangle of lines and columns whose blocks and words no other box touches, so that
boxes can be worked on in any order and by any thread.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from arrayq._kernels.bits cimport (
    aq_const_floats, aq_floats, aq_load_f32, aq_load_f32_swapped, aq_load_f64,
    aq_load_f64_swapped, aq_load_u16, aq_load_u16_swapped, aq_narrow_bf16, aq_narrow_f16,
    aq_prefetch, aq_store_f32, aq_store_f64, aq_store_u16, aq_widen_bf16, aq_widen_f16,
)

cdef enum:
    ALL = -1              # the end of a range of boxes that ends with the last
    MAX_AXES = 64
    TILE = 2048           # elements worked on at a time: 8 KB of float32, inside the L1 cache
    TILE_MARGIN = 64      # room for a last word that is not full

# Element types of the caller's arrays, numbered as in arrayq._paths.host.ELEMENT_KINDS.
cdef enum ElementKind:
    FLOAT32 = 0
    FLOAT64 = 1
    FLOAT16 = 2
    BFLOAT16 = 3

# Rows of the geometry table, numbered as in arrayq.layout.Lines.table.
cdef enum:
    ROW_SHAPE = 0
    ROW_BLOCK = 1
    ROW_OFFSET = 2
    ROW_GRID_STRIDE = 3
    ROW_ARRAY_STRIDE = 4
    ROW_DATA_STRIDE = 5
    ROW_BOX = 6
    GEOMETRY_ROWS = 7

cdef struct Geometry:
    int lead                        # axes before the line
    int packed                      # collapsed packed axis, -1 when codes are not packed
    int64_t codes_per_word
    int64_t shape[MAX_AXES]
    int64_t block[MAX_AXES]
    int64_t offset[MAX_AXES]
    int64_t grid_stride[MAX_AXES]   # in scales
    int64_t array_stride[MAX_AXES]  # in bytes
    int64_t data_stride[MAX_AXES]   # in words (of the packed axis: per word)
    int64_t box[MAX_AXES]
    int64_t chunk                   # columns of a box

cdef struct Box:
    int64_t low[MAX_AXES]
    int64_t high[MAX_AXES]
    int64_t first_column
    int64_t end_column
    int64_t first_scale             # index of the box's first scale in the grid
    int64_t rows                    # rows of the box's part of the grid
    int64_t columns                 # scales per row
    int64_t row_stride[MAX_AXES]    # rows to advance per block of each axis
    int64_t row_extent[MAX_AXES]    # blocks of the box along each axis


cdef inline void read_geometry(
    Geometry* g, const int64_t[:, ::1] table, int packed, int64_t codes_per_word, int64_t chunk,
) except *:
    cdef int axis, axes = <int>table.shape[1]
    if table.shape[0] != GEOMETRY_ROWS or not 1 <= axes <= MAX_AXES:
        raise ValueError(f"geometry requires {<int>GEOMETRY_ROWS} rows and 1 to {<int>MAX_AXES} axes")
    g.lead = axes - 1
    g.packed = packed
    g.codes_per_word = codes_per_word
    g.chunk = chunk
    for axis in range(axes):
        g.shape[axis] = table[ROW_SHAPE, axis]
        g.block[axis] = table[ROW_BLOCK, axis]
        g.offset[axis] = table[ROW_OFFSET, axis]
        g.grid_stride[axis] = table[ROW_GRID_STRIDE, axis]
        g.array_stride[axis] = table[ROW_ARRAY_STRIDE, axis]
        g.data_stride[axis] = table[ROW_DATA_STRIDE, axis]
        g.box[axis] = table[ROW_BOX, axis]


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    return (a + b - 1) // b


cdef inline int64_t count_boxes(Geometry* g) noexcept nogil:
    cdef int axis
    cdef int64_t boxes = ceil_div(g.shape[g.lead], g.chunk)
    for axis in range(g.lead):
        boxes *= ceil_div(g.shape[axis], g.box[axis])
    return boxes


cdef inline int64_t element_bytes(ElementKind kind) noexcept nogil:
    if kind == FLOAT64:
        return 8
    return 4 if kind == FLOAT32 else 2


cdef inline int64_t array_bytes(Geometry* g, ElementKind kind) noexcept nogil:
    """Bytes of all elements, without what their strides may leave between them."""
    cdef int axis
    cdef int64_t size = element_bytes(kind)
    for axis in range(g.lead + 1):
        size *= g.shape[axis]
    return size


cdef inline bint lies_in_floats(Geometry* g, ElementKind kind, bint swapped) noexcept nogil:
    """Whether lines are float32 as the loops want it, if the array starts at such an address."""
    cdef int axis
    cdef bint direct = kind == FLOAT32 and not swapped and g.array_stride[g.lead] == 4
    for axis in range(g.lead):
        direct = direct and g.array_stride[axis] % 4 == 0
    return direct


cdef inline int64_t scales_per_box(Geometry* g) noexcept nogil:
    """Room for the scales of any box. A box may start and end inside a block, so that it touches
    one block more per axis than its extent alone would say."""
    cdef int axis
    cdef int64_t n = (g.chunk - 1) // g.block[g.lead] + 2
    for axis in range(g.lead):
        n *= (g.box[axis] - 1) // g.block[axis] + 2
    return n


cdef inline int64_t grid_row(Geometry* g, Box* box, int64_t row) noexcept nogil:
    """Index of the first scale of row `row` of the box."""
    cdef int64_t index = box.first_scale
    cdef int axis
    for axis in range(g.lead - 1, -1, -1):
        index += row % box.row_extent[axis] * g.grid_stride[axis]
        row = row // box.row_extent[axis]
    return index


cdef inline void copy_rows(
    Geometry* g, Box* box, uint8_t* grid, uint8_t* rows, int64_t size, bint into_grid,
) noexcept nogil:
    """Copy the box's part of a grid of `size`-byte entries from the grid, or into it."""
    cdef int64_t row, length = box.columns * size
    cdef uint8_t* part
    for row in range(box.rows):
        part = grid + grid_row(g, box, row) * size
        if into_grid:
            memcpy(part, rows + row * length, length)
        else:
            memcpy(rows + row * length, part, length)


cdef inline void locate_box(Geometry* g, int64_t index, Box* box) noexcept nogil:
    """The rectangle of box number `index` and the part of the scale grid that it owns."""
    cdef int axis
    cdef int64_t along, first, rows = 1
    cdef int64_t chunks = ceil_div(g.shape[g.lead], g.chunk)
    box.first_column = (index % chunks) * g.chunk
    box.end_column = min(box.first_column + g.chunk, g.shape[g.lead])
    box.first_scale = box.first_column // g.block[g.lead] * g.grid_stride[g.lead]
    box.columns = (box.end_column - 1) // g.block[g.lead] - box.first_column // g.block[g.lead] + 1
    index = index // chunks
    for axis in range(g.lead - 1, -1, -1):
        along = ceil_div(g.shape[axis], g.box[axis])
        box.low[axis] = (index % along) * g.box[axis]
        box.high[axis] = min(box.low[axis] + g.box[axis], g.shape[axis])
        index = index // along
        first = box.low[axis] // g.block[axis]
        box.first_scale += first * g.grid_stride[axis]
        box.row_stride[axis] = rows
        box.row_extent[axis] = (box.high[axis] - 1) // g.block[axis] - first + 1
        rows *= box.row_extent[axis]
    box.rows = rows


cdef inline bint next_line(Geometry* g, Box* box, int64_t* position) noexcept nogil:
    """Advance to the next line of the box in C order; False after the last one."""
    cdef int axis
    for axis in range(g.lead - 1, -1, -1):
        position[axis] += 1
        if position[axis] < box.high[axis]:
            return True
        position[axis] = box.low[axis]
    return False


cdef inline int64_t tile_length(Geometry* g) noexcept nogil:
    """Columns per tile: whole words where words run along the line, and whole blocks if they fit."""
    cdef int64_t words = g.codes_per_word if g.packed == g.lead else 1
    cdef int64_t step = g.block[g.lead]
    cdef int64_t a = step, b = words
    while b:
        a, b = b, a % b
    if step <= TILE // words * a:
        step = step // a * words
    else:
        step = words
    return TILE // step * step


cdef inline void prefetch(const char* source, int64_t bytes) noexcept nogil:
    """Ask for memory that the next box will read; addresses beyond the array do no harm."""
    cdef int64_t i
    for i in range(0, bytes, 64):
        aq_prefetch(source + i)


cdef inline const float* load_tile(
    const char* source, int64_t stride, int64_t n, ElementKind kind, bint swapped, bint direct,
    float* buffer,
) noexcept nogil:
    """`n` elements from `source` on as float32: the array itself when `direct`, else `buffer`."""
    cdef aq_floats out = buffer
    cdef int64_t i
    if direct:
        return <const float*>source
    if kind == FLOAT16:
        if swapped:
            for i in range(n):
                out[i] = aq_widen_f16(aq_load_u16_swapped(source + i * stride))
        elif stride == 2:
            for i in range(n):
                out[i] = aq_widen_f16(aq_load_u16(source + i * 2))
        else:
            for i in range(n):
                out[i] = aq_widen_f16(aq_load_u16(source + i * stride))
    elif kind == BFLOAT16:
        if swapped:
            for i in range(n):
                out[i] = aq_widen_bf16(aq_load_u16_swapped(source + i * stride))
        elif stride == 2:
            for i in range(n):
                out[i] = aq_widen_bf16(aq_load_u16(source + i * 2))
        else:
            for i in range(n):
                out[i] = aq_widen_bf16(aq_load_u16(source + i * stride))
    elif kind == FLOAT64:
        if swapped:
            for i in range(n):
                out[i] = <float>aq_load_f64_swapped(source + i * stride)
        elif stride == 8:
            for i in range(n):
                out[i] = <float>aq_load_f64(source + i * 8)
        else:
            for i in range(n):
                out[i] = <float>aq_load_f64(source + i * stride)
    elif swapped:
        for i in range(n):
            out[i] = aq_load_f32_swapped(source + i * stride)
    else:
        for i in range(n):
            out[i] = aq_load_f32(source + i * stride)
    return buffer


cdef inline void store_tile(
    char* target, int64_t stride, int64_t n, ElementKind kind, const float* buffer,
) noexcept nogil:
    """`n` float32 values rounded to nearest even into the element type of `target`."""
    cdef aq_const_floats values = buffer
    cdef int64_t i
    if kind == FLOAT16:
        if stride == 2:
            for i in range(n):
                aq_store_u16(target + i * 2, aq_narrow_f16(values[i]))
        else:
            for i in range(n):
                aq_store_u16(target + i * stride, aq_narrow_f16(values[i]))
    elif kind == BFLOAT16:
        if stride == 2:
            for i in range(n):
                aq_store_u16(target + i * 2, aq_narrow_bf16(values[i]))
        else:
            for i in range(n):
                aq_store_u16(target + i * stride, aq_narrow_bf16(values[i]))
    elif kind == FLOAT64:
        for i in range(n):
            aq_store_f64(target + i * stride, <double>values[i])
    else:
        for i in range(n):
            aq_store_f32(target + i * stride, values[i])
