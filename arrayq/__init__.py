"""Quantize arrays: floats into small codes plus scales, and back.

A map of the package, in the direction in which data flows::

    errors.py                       what can go wrong, by kind
    formats.py                      the registry: one row per value format and scale dtype
    numerics.py                     the rules that decide the bits, as data
    scheme.py  presets.py           how an array is encoded; published schemes and spellings
    layout.py                       block geometry, integers only
    qparams.py                      scales and codebooks, and what makes them valid
    capability.py  namespaces.py    what each array library can do, and which one it is
    _paths/  _kernels/              where the arithmetic happens; the compiled loops
    pipeline.py                     quantize, dequantize, calibrate, fake_quantize
    array.py                        QuantizedArray
    codes.py  serialize.py          codes without scales; arrays as bytes
    report/  checkpoint/  cli/      judging, files, the command line
"""

from arrayq.array import QuantizedArray
from arrayq.capability import Verdict, capabilities, supports
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
    "calibrate",
    "capabilities",
    "compare",
    "decode",
    "dequantize",
    "encode",
    "fake_quantize",
    "from_bytes",
    "int2",
    "int4",
    "int8",
    "mxfp4",
    "mxfp6",
    "mxfp8",
    "nf4",
    "nvfp4",
    "pack",
    "quantize",
    "scheme",
    "supports",
    "ternary",
    "to_bytes",
    "unpack",
]
