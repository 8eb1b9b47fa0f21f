"""The header of a safetensors file: eight bytes of length, then JSON, then the tensors.

::

    offset 0      8            8 + n                     end of file
           | u64 n | JSON ... |  tensor | tensor | ... |
                                 ^ data_offsets count from here

Reading trusts nothing: whatever the JSON says is checked against the file's size before a
byte of any tensor is touched, and each fault is a CorruptFileError that names the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from arrayq.checkpoint.dtypes import DTYPES, FileDtype
from arrayq.errors import CorruptFileError

__all__ = [
    "LENGTH_BYTES",
    "MAX_HEADER_BYTES",
    "RESERVED_NAME",
    "Header",
    "TensorEntry",
    "encode_header",
    "is_text",
    "parse_header",
]

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors library: a larger header is taken for damage."""

RESERVED_NAME = "__metadata__"
"""Where the header keeps the metadata: no tensor can have this name."""

_MAX_AXES = 64
_MAX_BYTES = 2**63 - 1
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where one tensor lies: its type, shape and bytes counted from the end of the header."""

    name: str
    dtype: FileDtype
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor in the file."""
        return self.end - self.begin

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """A validated header."""

    entries: dict[str, TensorEntry]
    """By name, in the order of the header."""
    metadata: dict[str, str]
    data_start: int
    """Offset in the file of the first tensor byte."""


class _DuplicateKeyError(ValueError):
    pass


def parse_header(raw: bytes, file_size: int, file: str) -> Header:
    """Parse and validate the JSON of a header.

    Parameters
    ----------
    raw : bytes
        The JSON text, without the length in front of it.
    file_size : int
        Size of the whole file in bytes.
    file : str
        The file's name, for messages.

    Raises
    ------
    CorruptFileError
        If the JSON does not describe exactly the bytes that follow it.
    """
    document = _load_json(raw, file)
    metadata = _parse_metadata(document.pop(RESERVED_NAME, None), file)
    entries = {name: _parse_entry(name, fields, file) for name, fields in document.items()}
    data_start = LENGTH_BYTES + len(raw)
    _check_coverage(entries.values(), file_size - data_start, file)
    return Header(entries, metadata, data_start)


def encode_header(
    tensors: Iterable[tuple[str, FileDtype, tuple[int, ...]]], metadata: Mapping[str, str]
) -> tuple[bytes, dict[str, TensorEntry]]:
    """Lay tensors out and return the bytes in front of them, and where each one goes.

    Wider types come first, so that every tensor is aligned to its own element; within a
    width the given order stands. The header is padded with spaces to eight bytes.

    Returns
    -------
    bytes
        Length and JSON.
    dict of TensorEntry
        By name, in the order of the file.
    """
    entries: dict[str, TensorEntry] = {}
    document: dict[str, Any] = {RESERVED_NAME: dict(metadata)} if metadata else {}
    begin = 0
    for name, dtype, shape in sorted(tensors, key=lambda tensor: -tensor[1].bits):
        nbytes = dtype.nbytes(math.prod(shape))
        if nbytes is None:
            raise ValueError(f"{name}: {dtype.name} of shape {shape} does not fill whole bytes")
        entries[name] = TensorEntry(name, dtype, shape, begin, begin + nbytes)
        document[name] = {
            "dtype": dtype.name,
            "shape": list(shape),
            "data_offsets": [begin, begin + nbytes],
        }
        begin += nbytes
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text, entries


def is_text(value: object) -> bool:
    """Return whether a value is text that UTF-8 can hold; a lone surrogate is none."""
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)


def _fail(file: str, fault: str) -> NoReturn:
    raise CorruptFileError(f"{file} is not a valid safetensors file: {fault}")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKeyError(key)
        found[key] = value
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _load_json(raw: bytes, file: str) -> dict[str, Any]:
    try:
        document = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        _fail(file, f"its header is not UTF-8 text ({error.reason} at byte {error.start})")
    except _DuplicateKeyError as error:
        _fail(file, f"its header names {error.args[0]!r} twice")
    except (ValueError, RecursionError) as error:
        _fail(file, f"its header is not JSON ({error})")
    if not isinstance(document, dict):
        _fail(file, f"its header must be a JSON object, got {type(document).__name__}")
    for name in document:
        if not is_text(name):
            _fail(file, f"the name {name!r} is not Unicode text")
    return document


def _parse_metadata(metadata: Any, file: str) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(map(is_text, (*metadata, *metadata.values()))):
        _fail(file, f"{RESERVED_NAME} must map text to text")
    return dict(metadata)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _parse_entry(name: str, fields: Any, file: str) -> TensorEntry:
    if not isinstance(fields, dict) or not {"dtype", "shape", "data_offsets"} <= fields.keys():
        _fail(file, f"tensor {name!r} must have dtype, shape and data_offsets")
    dtype_name, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    dtype = DTYPES.get(dtype_name) if isinstance(dtype_name, str) else None
    if dtype is None:
        _fail(
            file,
            f"tensor {name!r} has the unknown dtype {dtype_name!r}; known: {', '.join(DTYPES)}",
        )
    if not isinstance(shape, list) or not all(_is_count(extent) for extent in shape):
        _fail(file, f"tensor {name!r} must have a shape of non-negative integers, got {shape!r}")
    if len(shape) > _MAX_AXES:
        _fail(file, f"tensor {name!r} has {len(shape)} axes; at most {_MAX_AXES} can be read")
    # Extents of 0 do not help: no array library can have the other ones either.
    if math.prod(max(extent, 1) for extent in shape) * dtype.bits // 8 > _MAX_BYTES:
        _fail(file, f"tensor {name!r} has a shape too large for any machine: {shape}")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(_is_count(offset) for offset in offsets)
        or offsets[0] > offsets[1]
    ):
        _fail(
            file,
            f"tensor {name!r} must have data_offsets [begin, end] with"
            f" 0 <= begin <= end, got {offsets!r}",
        )
    begin, end = offsets
    needed = dtype.nbytes(math.prod(shape))
    if needed is None:
        _fail(
            file,
            f"tensor {name!r} of dtype {dtype.name} and shape {shape} does not fill whole bytes",
        )
    if needed != end - begin:
        _fail(
            file,
            f"tensor {name!r} of dtype {dtype.name} and shape {shape} takes {needed}"
            f" bytes, but its data_offsets {offsets} span {end - begin}",
        )
    return TensorEntry(name, dtype, tuple(shape), begin, end)


def _check_coverage(entries: Iterable[TensorEntry], available: int, file: str) -> None:
    """Require that the tensors cover the bytes after the header once, without a gap."""
    reached, before = 0, "the header"
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.end > available:
            _fail(
                file,
                f"it is truncated: tensor {entry.name!r} ends at byte {entry.end} of the"
                f" data, which holds {available}",
            )
        if entry.begin < reached:
            _fail(file, f"tensor {entry.name!r} at {entry.begin}:{entry.end} overlaps {before}")
        if entry.begin > reached:
            _fail(
                file,
                f"bytes {reached}:{entry.begin} in front of tensor {entry.name!r}"
                " belong to no tensor",
            )
        reached, before = entry.end, f"tensor {entry.name!r}"
    if reached != available:
        _fail(file, f"{available - reached} bytes after the last tensor belong to no tensor")
