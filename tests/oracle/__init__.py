"""A slow, independent oracle for the quantization formats.

Everything here is written from the format definitions (IEEE 754, the OCP 8-bit
float and Microscaling specifications, burn's published rules) in plain Python
numbers. Nothing is imported from ``arrayq`` and no table is shared with it.

    arithmetic   float32 arithmetic, one rounding per operation
    elements     element formats: the value of a code, the code of a value
    rounding     rounding rules by name, and the numbers of the stochastic one
    extents      what the elements of a block say about its scale
    powers       scales that are powers of two
    scales       from the extent of a block to the scale that is stored
    zeros        zero points of affine blocks
    blocks       which elements share a scale
    words        codes to stored words and bytes
    arrays       a description of a scheme, and whole arrays through it
"""

from .arithmetic import divide, multiply, narrow, to_float32
from .arrays import Encoded, Spec, decode_array, encode_array
from .blocks import cell_numbers, grid_shape, members
from .elements import ELEMENTS, NF4, decision_points, decode_codes, encode_values, nearest_entry
from .scales import Level, scale_bits, stored_scale
from .words import pack_fields, packed_shape, unpack_fields
from .zeros import Zero, zero_bits

__all__ = [
    "ELEMENTS",
    "NF4",
    "Encoded",
    "Level",
    "Spec",
    "Zero",
    "cell_numbers",
    "decision_points",
    "decode_array",
    "decode_codes",
    "divide",
    "encode_array",
    "encode_values",
    "grid_shape",
    "members",
    "multiply",
    "narrow",
    "nearest_entry",
    "pack_fields",
    "packed_shape",
    "scale_bits",
    "stored_scale",
    "to_float32",
    "unpack_fields",
    "zero_bits",
]
