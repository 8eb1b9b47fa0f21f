"""Moving without decoding: shape operations on quantized arrays.

The law, for every operation f here but those that go by value::

    dequantize(f(q)) == f(dequantize(q))     bit for bit

Codes are moved and never computed anew, and whether a move is possible follows from the layout
alone. A map, in the order in which things are used::

    blocks.py         blocks along one axis under a move: integers only
    parts.py          an array taken apart and put together again
    words.py          codes in words: whole words, shifted words, fields
    transposing.py    bytes in another order
    axes.py           permute_dims, flip, expand_dims, squeeze, broadcast_to ...
    indexing.py       q[...], take, take_along_axis
    reshaping.py      reshape
    tensor_scales.py  two-level arrays of different tensor scales
    joining.py        concat, stack, roll, tile, repeat, split, unstack
    by_value.py       what decodes: argmax, sort, comparison, requantize
    methods.py        the methods and operators of QuantizedArray

This module imports none of them, because QuantizedArray takes its methods from here.
"""
