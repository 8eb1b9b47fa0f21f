"""Memory of Python objects, through the buffer protocol."""

from cpython.buffer cimport (
    PyBUF_STRIDED_RO, PyBUF_WRITABLE, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer,
)


cdef inline int take_array(object exporter, Py_buffer* view, bint writable) except -1:
    """Any memory; its shape and strides are for the caller to know."""
    PyObject_GetBuffer(exporter, view, PyBUF_STRIDED_RO | (PyBUF_WRITABLE if writable else 0))
    return 0


cdef inline int take_part(
    object exporter, Py_buffer* view, Py_ssize_t length, bint writable,
) except -1:
    """`length` bytes in C order, or NULL of None."""
    if exporter is None:
        return 0
    take_array(exporter, view, writable)
    if view.len != length:
        raise ValueError(f"a stored part requires {length} bytes, got {view.len}")
    if not PyBuffer_IsContiguous(view, b"C"):
        raise BufferError("a stored part requires C-contiguous memory")
    return 0


cdef inline void release_all(Py_buffer* views, int count) noexcept:
    """Give back what was taken; views start as zeros, which stand for nothing."""
    cdef int i
    for i in range(count):
        PyBuffer_Release(&views[i])
