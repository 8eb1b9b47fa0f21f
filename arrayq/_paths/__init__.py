"""Implementation families: where the arithmetic of quantize and dequantize is carried out.

``host``
    arrays in CPU memory, through the compiled kernels, without a copy.
``generic``
    arrays of any library, through the array-API standard: the readable definition.
``chunked``
    arrays of dask: chunk by chunk through one of the two, when they are computed.
"""
