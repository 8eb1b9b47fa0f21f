"""Quantize arrays: floats into small codes plus scales, and back.

A map of the package, in the direction in which data flows::

    errors.py                       what can go wrong, by kind
    formats.py                      the registry: one row per value format and scale dtype
    numerics.py                     the rules that decide the bits, as data
    scheme.py  presets.py           how an array is encoded; published schemes and spellings
    layout.py                       block geometry, integers only
    qparams.py                      scales and codebooks, and what makes them valid
    qparams_elsewhere.py            the same where values may not be seen
    stored_numbers.py               scales and zero points as numbers and as stored bits
    stored_parts.py                 the stored parts of any library: checks, codes, numbers
    capability.py                   what each array library can do: one row per library
    capability_table.py             the rows asked and printed: supports, capabilities, facts
    namespaces.py                   which library an array belongs to, and where its memory lies
    interop/                        how the arrays of each library are reached
    hosting.py                      arrays of any library as NumPy's memory, and back
    _paths/  _kernels/              where the arithmetic happens; the compiled loops
    outputs.py                      memory that results are written to
    nonfinite.py                    NaN and infinities, found and refused
    pipeline.py                     quantize, dequantize, calibrate, fake_quantize
    straight_through.py             where the gradient of fake_quantize passes
    recording.py                    what compilers that read Python are shown instead
    array.py  native.py             QuantizedArray; its parts in narrow dtypes
    moves/                          shape operations that move codes without decoding them
    codes.py  serialize.py          codes without scales; arrays as bytes
    report/  checkpoint/  cli/      judging, files, the command line
    testing.py                      for tests, of arrayq and of added libraries
"""

from arrayq.array import QuantizedArray
from arrayq.capability_table import Verdict, capabilities, supports
from arrayq.codes import decode, encode, pack, unpack
from arrayq.errors import (
    ArgumentError,
    ArrayqError,
    ArrayTypeError,
    CodebookError,
    CodeError,
    CorruptFileError,
    LayoutError,
    NonFiniteError,
    QParamsError,
    SchemeError,
    UnsupportedSchemeError,
)
from arrayq.moves.axes import (
    broadcast_to,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    squeeze,
    swapaxes,
)
from arrayq.moves.by_value import (
    argmax,
    argmin,
    argsort,
    equal,
    max,
    min,
    not_equal,
    requantize,
    sort,
)
from arrayq.moves.indexing import take, take_along_axis
from arrayq.moves.joining import concat, repeat, roll, split, stack, tile, unstack
from arrayq.moves.reshaping import reshape
from arrayq.moves.tensor_scales import Rescaled, RescaleReport
from arrayq.namespaces import introduce
from arrayq.numerics import (
    Calibration,
    Numerics,
    Rounding,
    ScaleFrom,
    ScaleRounding,
    Scaling,
    TensorFrom,
    ZeroBlock,
    ZeroRounding,
)
from arrayq.pipeline import calibrate, dequantize, fake_quantize, quantize
from arrayq.presets import int2, int4, int8, mxfp4, mxfp6, mxfp8, nf4, nvfp4, scheme, ternary
from arrayq.qparams import QParams
from arrayq.report import Comparison, compare
from arrayq.scheme import (
    BlockScale,
    ChannelScale,
    QuantMode,
    QuantScheme,
    QuantStore,
    QuantValue,
    ScaleDtype,
    ZeroDtype,
    ZeroKind,
    ZeroPoint,
)
from arrayq.serialize import from_bytes, to_bytes

__version__ = "0.1.0"

introduce()

__all__ = [
    "ArgumentError",
    "ArrayTypeError",
    "ArrayqError",
    "BlockScale",
    "Calibration",
    "ChannelScale",
    "CodeError",
    "CodebookError",
    "Comparison",
    "CorruptFileError",
    "LayoutError",
    "NonFiniteError",
    "Numerics",
    "QParams",
    "QParamsError",
    "QuantMode",
    "QuantScheme",
    "QuantStore",
    "QuantValue",
    "QuantizedArray",
    "RescaleReport",
    "Rescaled",
    "Rounding",
    "ScaleDtype",
    "ScaleFrom",
    "ScaleRounding",
    "Scaling",
    "SchemeError",
    "TensorFrom",
    "UnsupportedSchemeError",
    "Verdict",
    "ZeroBlock",
    "ZeroDtype",
    "ZeroKind",
    "ZeroPoint",
    "ZeroRounding",
    "__version__",
    "argmax",
    "argmin",
    "argsort",
    "broadcast_to",
    "calibrate",
    "capabilities",
    "compare",
    "concat",
    "decode",
    "dequantize",
    "encode",
    "equal",
    "expand_dims",
    "fake_quantize",
    "flip",
    "from_bytes",
    "int2",
    "int4",
    "int8",
    "matrix_transpose",
    "max",
    "min",
    "moveaxis",
    "mxfp4",
    "mxfp6",
    "mxfp8",
    "nf4",
    "not_equal",
    "nvfp4",
    "pack",
    "permute_dims",
    "quantize",
    "repeat",
    "requantize",
    "reshape",
    "roll",
    "scheme",
    "sort",
    "split",
    "squeeze",
    "stack",
    "supports",
    "swapaxes",
    "take",
    "take_along_axis",
    "ternary",
    "tile",
    "to_bytes",
    "unpack",
    "unstack",
]
