"""How a quantized tensor is kept in a safetensors file: arrayq's own layout, version 1.

docs/file-layout.md describes it for readers in other languages. A tensor NAME becomes

=============================  ==========================================================
``NAME.arrayq.data``           the packed codes: I8, U8 or U32
``NAME.arrayq.scale``          the grid of scales: F32, or their bits as U16 or U8
``NAME.arrayq.zero_point``     the zero points of an affine scheme, a grid as that of scales:
                               I8, U8, I32, F32, or bits as U16
``NAME.arrayq.tensor_scale``   the tensor scale of a two-level scheme: F32, no axes
=============================  ==========================================================

and one entry of the index, which is JSON under the metadata key ``arrayq``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from arrayq.array import QuantizedArray
from arrayq.checkpoint.container import SafetensorsReader, SafetensorsWriter, writing
from arrayq.checkpoint.dtypes import DTYPES, FileDtype, file_dtype_of
from arrayq.checkpoint.errors import CheckpointError
from arrayq.checkpoint.header import RESERVED_NAME, is_text
from arrayq.errors import (
    ArrayTypeError,
    CodeError,
    CorruptFileError,
    LayoutError,
    QParamsError,
)
from arrayq.layout import plan
from arrayq.scheme import ChannelScale, QuantScheme

__all__ = [
    "FORMAT_VERSION",
    "METADATA_KEY",
    "StoredTensor",
    "check_names",
    "encode_index",
    "load_file",
    "matrix_shape",
    "read_index",
    "read_tensor",
    "require_plain",
    "save_file",
    "write_tensor",
]

METADATA_KEY = "arrayq"
FORMAT_VERSION = 1

_DATA, _SCALE, _TENSOR_SCALE = ".arrayq.data", ".arrayq.scale", ".arrayq.tensor_scale"
_ZERO_POINT = ".arrayq.zero_point"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One entry of the index.

    Parameters
    ----------
    name : str
        The tensor's name.
    scheme : QuantScheme
        How it is encoded, ``per_channel`` already resolved to a block.
    shape : tuple of int
        The shape of the tensor.
    quantized_shape : tuple of int
        The shape it was given to be quantized; the elements are the same in C order.
    dtype : str or None
        The safetensors type it had before it was quantized, where that is known.
    """

    name: str
    scheme: QuantScheme
    shape: tuple[int, ...]
    quantized_shape: tuple[int, ...]
    dtype: str | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all stored parts."""
        return sum(math.prod(shape) * dtype.bits // 8 for _, dtype, shape in self.parts())

    @property
    def bits_per_element(self) -> float:
        """Stored bits, scales included, for each element; 0 when there is none."""
        return 8 * self.nbytes / self.size if self.size else 0.0

    def parts(self) -> Iterator[tuple[str, FileDtype, tuple[int, ...]]]:
        """Yield name, type and shape of every stored part."""
        scheme, layout = self.scheme, plan(self.scheme, self.quantized_shape)
        yield self.name + _DATA, _part_dtype(layout.data_dtype), layout.data_shape
        yield self.name + _SCALE, _part_dtype(scheme.scale_dtype.stored_dtype), layout.grid
        if scheme.zero is not None:
            yield self.name + _ZERO_POINT, _part_dtype(scheme.zero.dtype.stored_dtype), layout.grid
        if scheme.two_level:
            yield self.name + _TENSOR_SCALE, DTYPES["F32"], ()

    @property
    def spelling(self) -> str:
        """The scheme as text, short where it has a spelling for tensors of any rank."""
        ndim, scheme = len(self.quantized_shape), self.scheme
        rows = ChannelScale(0, scheme.scale_dtype)
        if ndim and scheme.block == rows.block_of_rank(ndim):
            scheme = scheme.per_channel(rows.axis, rows.dtype)
        return str(scheme)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON types."""
        return {
            "scheme": self.scheme.to_dict(),
            "shape": list(self.shape),
            "quantized_shape": list(self.quantized_shape),
            "dtype": self.dtype,
        }


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape a tensor of a file is quantized in: (first axis, everything else)."""
    return shape if len(shape) <= 2 else (shape[0], math.prod(shape[1:]))


def encode_index(tensors: Iterable[StoredTensor]) -> str:
    """Return the JSON text of an index."""
    document = {
        "format_version": FORMAT_VERSION,
        "tensors": {tensor.name: tensor.to_dict() for tensor in tensors},
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def read_index(reader: SafetensorsReader) -> dict[str, StoredTensor]:
    """Return the index of a file by tensor name: empty for one that arrayq did not write.

    Raises
    ------
    CorruptFileError
        If the index is damaged, of a newer version, or does not fit the file's tensors.
    """
    text = reader.metadata.get(METADATA_KEY)
    if text is None:
        return {}
    try:
        document = json.loads(text)
        version = document["format_version"]
        if type(version) is not int or version != FORMAT_VERSION:
            _fail(
                reader,
                f"its index has version {version!r}, this arrayq reads"
                f" {FORMAT_VERSION}; a newer arrayq wrote it",
            )
        index = {name: _stored_tensor(name, fields) for name, fields in document["tensors"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, CorruptFileError):
            raise
        _fail(reader, f"its arrayq index is damaged ({type(error).__name__}: {error})")
    for tensor in index.values():
        _check_parts(reader, tensor)
    return index


def require_plain(reader: SafetensorsReader) -> None:
    """Raise CheckpointError for a file that holds quantized tensors."""
    if read_index(reader):
        raise CheckpointError(
            f"quantizing requires original weights, and {reader.path} is quantized already;"
            " dequantize it first, or start from the original file"
        )


def read_tensor(reader: SafetensorsReader, tensor: StoredTensor) -> QuantizedArray:
    """Return a quantized tensor, in its quantized shape, as views of the mapped file.

    Raises
    ------
    CorruptFileError
        If its scales are none the scheme can have.
    """
    parts = {name.removeprefix(tensor.name): reader.raw(name) for name, _, _ in tensor.parts()}
    scheme, shape = tensor.scheme, tensor.quantized_shape
    try:
        q = QuantizedArray(
            parts[_DATA],
            parts[_SCALE],
            scheme,
            extent=shape[-1 - scheme.store.dim] if scheme.store.is_packed and shape else None,
            tensor_scale=parts.get(_TENSOR_SCALE),
            zero_point=parts.get(_ZERO_POINT),
            nonfinite="propagate",
        )
    except (QParamsError, LayoutError, CodeError) as error:
        _fail(reader, f"tensor {tensor.name!r} is damaged ({error})")
    bits = q.scale_data[np.isnan(q.scale)]
    if bits.dtype.kind == "u" and (bits != scheme.scale_dtype.format.nan_code).any():
        _fail(reader, f"tensor {tensor.name!r} is damaged (a scale is no {scheme.scale_dtype})")
    return q


def write_tensor(writer: SafetensorsWriter, tensor: StoredTensor, q: QuantizedArray) -> None:
    """Write the parts of a quantized tensor."""
    arrays = {
        _DATA: q.data,
        _SCALE: q.scale_data,
        _ZERO_POINT: q.zero_point,
        _TENSOR_SCALE: q.tensor_scale,
    }
    for name, _, _ in tensor.parts():
        writer.write(name, np.asarray(arrays[name.removeprefix(tensor.name)]))


def save_file(
    path: str | os.PathLike[str],
    tensors: Mapping[str, QuantizedArray | np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write quantized arrays, and plain ones beside them, to a safetensors file.

    Parameters
    ----------
    path : path
        The file; one that exists is replaced when the new one is complete.
    tensors : mapping of str to QuantizedArray or ndarray
        What to write, by name.
    metadata : mapping of str to str, optional
        Metadata of the file; the key ``arrayq`` is taken.

    Raises
    ------
    ArrayTypeError
        If what is given is no mapping of arrays, or has a dtype that safetensors cannot hold.
    LayoutError
        If a quantized array starts inside a block.
    CheckpointError
        If a name is taken or no Unicode text, or `metadata` maps anything but text to text.
    """
    _check_tensors(tensors)
    _check_metadata(metadata)
    stored: dict[str, StoredTensor] = {}
    planned: list[tuple[str, FileDtype, tuple[int, ...]]] = []
    for name, array in tensors.items():
        if isinstance(array, QuantizedArray):
            if array.block_offset:
                raise LayoutError(
                    f"a file requires blocks that start with the array, got {name!r} with"
                    f" block_offset {array.block_offset}; dequantize and quantize it first"
                )
            stored[name] = StoredTensor(name, array.scheme, array.shape, array.shape)
            planned += stored[name].parts()
        else:
            planned.append((name, _dtype_in_file(name, array), array.shape))
    check_names(name for name, _, _ in planned)
    index = {METADATA_KEY: encode_index(stored.values())} if stored else {}
    with writing(path, planned, {**(metadata or {}), **index}) as writer:
        for name, array in tensors.items():
            if isinstance(array, QuantizedArray):
                write_tensor(writer, stored[name], array)
            else:
                row = _dtype_in_file(name, array)
                writer.write(name, array.view(row.raw or array.dtype) if row.extension else array)


def load_file(path: str | os.PathLike[str]) -> dict[str, QuantizedArray | np.ndarray]:
    """Read every tensor of a safetensors file as a read-only view of the mapped file.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict
        By name: QuantizedArray for what arrayq quantized, in the tensor's quantized shape, and
        ndarray for the rest (BF16 and F8 as ml_dtypes where it is installed, else their bits).

    Raises
    ------
    CorruptFileError
        If the file is damaged.
    """
    with SafetensorsReader(Path(path)) as reader:
        index = read_index(reader)
        parts = {name for tensor in index.values() for name, _, _ in tensor.parts()}
        kept = {name: reader.read(name) for name in reader.entries if name not in parts}
        return {**kept, **{name: read_tensor(reader, tensor) for name, tensor in index.items()}}


def check_names(names: Iterable[str]) -> None:
    """Raise CheckpointError for names that the tensors of one file cannot have."""
    seen: set[str] = set()
    for name in names:
        _check_name(name)
        if name in seen:
            raise CheckpointError(
                f"two tensors of the output would be named {name!r}; exclude one of them"
            )
        seen.add(name)


def _check_name(name: Any) -> None:
    if not is_text(name):
        raise CheckpointError(f"the name of a tensor requires Unicode text, got {name!r}")
    if name == RESERVED_NAME:
        raise CheckpointError(
            f"the name of a tensor requires another text than {name!r}, which is where a"
            " safetensors file keeps its metadata"
        )


def _check_tensors(tensors: Any) -> None:
    if not isinstance(tensors, Mapping):
        raise ArrayTypeError(
            f"tensors requires a mapping of names to arrays, got {type(tensors).__name__}"
        )
    for name, array in tensors.items():
        _check_name(name)
        if not isinstance(array, QuantizedArray | np.ndarray | np.generic):
            raise ArrayTypeError(
                f"tensor {name!r} requires a QuantizedArray or a numpy array, got"
                f" {type(array).__name__}"
            )


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        raise CheckpointError(
            f"metadata requires a mapping of text to text, got {type(metadata).__name__}"
        )
    for key, text in metadata.items():
        if not (is_text(key) and is_text(text)):
            raise CheckpointError(
                f"metadata requires a mapping of text to text, got {text!r} for {key!r}"
            )
    if METADATA_KEY in metadata:
        raise CheckpointError(f"metadata requires other keys than {METADATA_KEY!r}")


def _dtype_in_file(name: str, array: np.ndarray) -> FileDtype:
    row = file_dtype_of(array)
    if row is None:
        raise ArrayTypeError(
            f"tensor {name!r} requires a dtype that safetensors holds, got {array.dtype};"
            f" one of {', '.join(DTYPES)}"
        )
    return row


def _part_dtype(numpy_name: str) -> FileDtype:
    row = file_dtype_of(np.empty(0, numpy_name))
    assert row is not None
    return row


def _fail(reader: SafetensorsReader, fault: str) -> NoReturn:
    raise CorruptFileError(f"{reader.path} is not a valid arrayq file: {fault}")


def _stored_tensor(name: str, fields: dict[str, Any]) -> StoredTensor:
    tensor = StoredTensor(
        name,
        QuantScheme.from_dict(fields["scheme"]),
        _shape(fields["shape"]),
        _shape(fields["quantized_shape"]),
        fields["dtype"],
    )
    if math.prod(tensor.shape) != math.prod(tensor.quantized_shape):
        raise ValueError(f"the shapes of tensor {name!r} differ in size")
    if tensor.dtype is not None and tensor.dtype not in DTYPES:
        raise ValueError(f"the dtype {tensor.dtype!r} of tensor {name!r} is unknown")
    if plan(tensor.scheme, tensor.quantized_shape).scheme != tensor.scheme:
        raise ValueError(f"the scheme of tensor {name!r} is not resolved to a block")
    tensor.scheme.code_table()
    return tensor


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        raise ValueError(f"{value!r} is no shape")
    return tuple(value)


def _check_parts(reader: SafetensorsReader, tensor: StoredTensor) -> None:
    if tensor.name in reader.entries:
        _fail(reader, f"tensor {tensor.name!r} is in it both quantized and as it was")
    for name, dtype, shape in tensor.parts():
        entry = reader.entries.get(name)
        if entry is None:
            _fail(reader, f"{name!r}, a part of tensor {tensor.name!r}, is missing")
        if (entry.dtype, entry.shape) != (dtype, shape):
            _fail(
                reader,
                f"{name!r} should be {dtype.name} of shape {shape}, got"
                f" {entry.dtype.name} of shape {entry.shape}",
            )
