"""Arrays of dask, chunk by chunk; nothing is computed before the result is asked for.

Chunks are aligned to blocks and words, and each goes through the path that arrays of its library
take: `host` for what lies in CPU memory, `generic` for all else. Three shapes of graph::

    blocks inside chunks     x ------------------------> encode -> data, scales, zero points
    with a tensor scale      x -> bounds => tensor scale -> encode -> data, scales, zero points
    blocks of many chunks    x -> bounds => scales ------> encode -> data

``->`` is a task for each chunk, ``=>`` a tree of tasks that combines what chunks measured.

=============  ==========================================================
`alignment`    where chunks may be cut: integers only
`bounds`       smallest and largest element of a block, piece by piece
`chunk`        what is done with the memory of one chunk
`grids`        scales beside the chunks that they belong to; trees
`again`        the tasks of an array a second time, for a second pass
`quantizing`   the graph of quantize
`dequantizing` the graph of dequantize
=============  ==========================================================
"""

from arrayq._paths.chunked.dequantizing import dequantize
from arrayq._paths.chunked.quantizing import quantize

__all__ = ["dequantize", "quantize"]
