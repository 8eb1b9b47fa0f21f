"""Moving without decoding: shape operations on quantized arrays.

The law, for every operation f here but those that go by value::

    dequantize(f(q)) == f(dequantize(q))     bit for bit

Codes are moved and never computed anew, and whether a move is possible follows from the layout
alone. A map, in the order in which things are used::

    blocks.py         blocks along one axis under a move: integers only
    operations.py     what a move does to arrays, whichever library they are of
    host.py           ... in CPU memory: NumPy and the compiled kernels
    transposing.py    bytes in another order
    generic.py        ... anywhere: traced, lazy, on other devices
    gathering.py      index arrays by one flat `take`
    parts.py          an array taken apart and put together again
    words.py          codes in words: whole words, shifted words, fields
    positions.py      positions, masks and counts, seen and unseen
    axes.py           permute_dims, flip, expand_dims, squeeze, broadcast_to ...
    indexing.py       q[...], take, take_along_axis
    reshaping.py      reshape
    tensor_scales.py  two-level arrays of different tensor scales
    seams.py          parts laid end to end
    joining.py        concat, stack, roll, tile, repeat, split, unstack
    values.py         values in CPU memory, and those of other libraries
    by_value.py       what decodes: argmax, sort, comparison, requantize
    methods.py        the methods and operators of QuantizedArray

Moves decide from shapes and blocks; what they decide is done by one of the two sets of
operations, so that every move is written once.

This module imports none of them, because QuantizedArray takes its methods from here.
"""
