"""Files of weights: read, write and convert safetensors, one tensor in memory at a time.

======================  =============================================================
module                  what it holds
======================  =============================================================
``dtypes.py``           the element types of safetensors, one row each
``header.py``           parsing, validating and laying out a file's header
``container.py``        :class:`SafetensorsReader` (mapped) and :func:`writing` (streamed)
``replacing.py``        files that appear complete or not at all
``termination.py``      SIGTERM that cleans up first
``package_path.py``     ``pkg:package/path``
``arrayq_layout.py``    how a quantized tensor is stored; a new file layout is a new module
``selection.py``        which tensors are quantized
``convert.py``          the one streaming converter
``compare.py``          schemes judged on a file
``narrow.py``           the types that decoded tensors may be written in
``progress.py``         how far a pass over a file has come
``outcome.py``          what a conversion reports
``errors.py``           requests that cannot be carried out
======================  =============================================================
"""

from arrayq.checkpoint.arrayq_layout import load_file, save_file
from arrayq.checkpoint.compare import TensorComparison, compare_file
from arrayq.checkpoint.container import SafetensorsReader, writing
from arrayq.checkpoint.convert import dequantize_file, quantize_file
from arrayq.checkpoint.errors import CheckpointError, PackagePathError
from arrayq.checkpoint.outcome import FileOutcome, TensorOutcome
from arrayq.checkpoint.package_path import resolve
from arrayq.checkpoint.selection import Selection

__all__ = [
    "CheckpointError",
    "FileOutcome",
    "PackagePathError",
    "SafetensorsReader",
    "Selection",
    "TensorComparison",
    "TensorOutcome",
    "compare_file",
    "dequantize_file",
    "load_file",
    "quantize_file",
    "resolve",
    "save_file",
    "writing",
]
