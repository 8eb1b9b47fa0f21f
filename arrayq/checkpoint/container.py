"""Read and write safetensors files, one tensor in memory at a time.

Why not the safetensors library: docs/decisions/0001-own-safetensors-container.md.
"""

from __future__ import annotations

import importlib
import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import numpy as np

from arrayq.checkpoint.dtypes import FileDtype
from arrayq.checkpoint.errors import CheckpointError
from arrayq.checkpoint.header import (
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    TensorEntry,
    encode_header,
    parse_header,
)
from arrayq.checkpoint.narrow import widen_bfloat16
from arrayq.checkpoint.replacing import OutputFile, replacing
from arrayq.codes import decode, unpack
from arrayq.errors import CorruptFileError

__all__ = ["SafetensorsReader", "SafetensorsWriter", "writing"]

_COPY_BYTES = 1 << 22


class SafetensorsReader:
    """A safetensors file, its header checked and its tensors mapped on demand.

    Every array is a read-only view of a mapping of its own, which ends with the array: what
    is resident is what the caller holds, however many tensors the file has.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    CorruptFileError
        If the header does not describe the file.
    OSError
        If the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not stat.S_ISREG(self.path.stat().st_mode):  # opening a pipe would wait for it
            raise CheckpointError(f"the input requires a regular file, got {self.path}")
        self._file = self.path.open("rb", buffering=0)
        try:
            self.nbytes = os.fstat(self._file.fileno()).st_size
            header = parse_header(self._read_header(), self.nbytes, str(self.path))
        except BaseException:
            self._file.close()
            raise
        self.entries: dict[str, TensorEntry] = header.entries
        self.metadata: dict[str, str] = header.metadata
        self._data_start = header.data_start

    def __enter__(self) -> SafetensorsReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; arrays already read stay valid."""
        self._file.close()

    def raw(self, name: str) -> np.ndarray:
        """Return a tensor in the numpy type of its stored elements.

        Types numpy lacks come as the unsigned integers of their bits; types whose elements
        share bytes (F4, F6) come as a flat array of bytes.
        """
        entry = self.entries[name]
        if entry.dtype.raw is None:
            return self._map(entry, np.dtype(np.uint8)).reshape(-1)
        return self._map(entry, np.dtype(entry.dtype.raw)).reshape(entry.shape)

    def read(self, name: str) -> np.ndarray:
        """Return a tensor in its own type: ml_dtypes' where it is installed, else as `raw`."""
        entry, array = self.entries[name], self.raw(name)
        if entry.dtype.extension is None:
            return array
        try:
            extension = getattr(importlib.import_module("ml_dtypes"), entry.dtype.extension)
        except (ImportError, AttributeError):
            return array
        return array.view(np.dtype(extension))

    def floats(self, name: str) -> np.ndarray:
        """Return a floating-point tensor as numpy floats, every value exact.

        F64, F32 and F16 come as they are, BF16, F8 and F4 widened to float32.

        Raises
        ------
        CheckpointError
            If the tensor does not hold numbers of a known floating-point format.
        """
        entry, array = self.entries[name], self.raw(name)
        if array.dtype.kind == "f":
            return array
        if entry.dtype.name == "BF16":
            return widen_bfloat16(array)
        if entry.dtype.codec is None:
            raise CheckpointError(
                f"tensor {name!r} of {self.path} holds {entry.dtype.name}, which does not decode"
                " to float32"
            )
        return _decode(array, entry)

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a tensor, a few MB at a time."""
        entry = self.entries[name]
        position = self._data_start + entry.begin
        end = self._data_start + entry.end
        while position < end:
            self._file.seek(position)
            chunk = self._file.read(min(_COPY_BYTES, end - position))
            if not chunk:
                raise CorruptFileError(f"{self.path} became shorter while it was read")
            yield chunk
            position += len(chunk)

    def _read_header(self) -> bytes:
        if self.nbytes < LENGTH_BYTES:
            self._corrupt(
                f"it is truncated: {self.nbytes} bytes, fewer than the"
                f" {LENGTH_BYTES} of the header's length"
            )
        length = int.from_bytes(self._file.read(LENGTH_BYTES), "little")
        if length > self.nbytes - LENGTH_BYTES:
            self._corrupt(
                f"its header claims {length} bytes, the file has"
                f" {self.nbytes - LENGTH_BYTES} after the length: it is truncated, or"
                " no safetensors file at all"
            )
        if length > MAX_HEADER_BYTES:
            self._corrupt(
                f"its header is too large: {length} bytes, at most {MAX_HEADER_BYTES} are allowed"
            )
        return self._file.read(length)

    def _corrupt(self, fault: str) -> NoReturn:
        raise CorruptFileError(f"{self.path} is not a valid safetensors file: {fault}")

    def _map(self, entry: TensorEntry, dtype: np.dtype) -> np.ndarray:
        if entry.nbytes == 0:
            return np.empty(0, dtype)
        start = self._data_start + entry.begin
        skipped = start % mmap.ALLOCATIONGRANULARITY
        mapping = mmap.mmap(
            self._file.fileno(),
            entry.nbytes + skipped,
            access=mmap.ACCESS_READ,
            offset=start - skipped,
        )
        array = np.frombuffer(mapping, np.uint8, entry.nbytes, skipped)
        if start % dtype.alignment:
            array = array.copy()  # other writers align nothing, typed memoryviews need it
            array.flags.writeable = False
        return array.view(dtype)


def _decode(array: np.ndarray, entry: TensorEntry) -> np.ndarray:
    codec = entry.dtype.codec
    assert codec is not None
    codes = array if entry.dtype.raw else unpack(array, codec, "packed_native", entry.size)
    return np.asarray(decode(codes, codec)).reshape(entry.shape)


class SafetensorsWriter:
    """The file that :func:`writing` has opened: each planned tensor is written once."""

    def __init__(self, file: OutputFile, header: bytes, entries: dict[str, TensorEntry]) -> None:
        self.nbytes = len(header) + sum(entry.nbytes for entry in entries.values())
        self._file = file
        self._data_start = file.write_at(0, header)
        self._entries = entries
        self._missing = set(entries)

    def write(self, name: str, array: np.ndarray) -> None:
        """Write a whole tensor, given in the byte order of this machine."""
        dtype = array.dtype.newbyteorder("<")
        dense = np.ascontiguousarray(array, dtype=dtype)
        self.write_chunks(name, [dense.reshape(-1).view(np.uint8).data])

    def write_chunks(self, name: str, chunks: Iterable[bytes | memoryview]) -> None:
        """Write a tensor from pieces of its bytes, in order."""
        entry = self._entries[name]
        if name not in self._missing:
            raise ValueError(f"tensor {name!r} has been written already")
        offset = self._data_start + entry.begin
        for chunk in chunks:
            offset = self._file.write_at(offset, chunk)
        written = offset - self._data_start - entry.begin
        if written != entry.nbytes:
            raise ValueError(f"tensor {name!r} requires {entry.nbytes} bytes, got {written}")
        self._missing.discard(name)

    def check_complete(self) -> None:
        """Raise ValueError if a planned tensor has not been written."""
        if self._missing:
            raise ValueError(f"tensors never written: {', '.join(sorted(self._missing))}")


@contextmanager
def writing(
    target: str | os.PathLike[str],
    tensors: Iterable[tuple[str, FileDtype, tuple[int, ...]]],
    metadata: Mapping[str, str],
    sources: tuple[Path, ...] = (),
) -> Iterator[SafetensorsWriter]:
    """Open a safetensors file whose tensors are known by type and shape, to fill in any order.

    The file appears under its name when the block ends without an exception, complete and on
    disk; otherwise nothing is left behind (see :func:`arrayq.checkpoint.replacing.replacing`).

    Parameters
    ----------
    target : path
        The file; one that exists is replaced.
    tensors : iterable of (name, dtype, shape)
        Every tensor that will be written.
    metadata : mapping of str to str
        The file's metadata.
    sources : tuple of Path
        Files that are being read: `target` must not be one of them.
    """
    header, entries = encode_header(tensors, metadata)
    if len(header) - LENGTH_BYTES > MAX_HEADER_BYTES:
        raise CheckpointError(
            f"the header of {os.fspath(target)} would take {len(header)} bytes, and readers"
            f" refuse more than {MAX_HEADER_BYTES}; use --exclude or several files"
        )
    with replacing(target, sources) as file:
        writer = SafetensorsWriter(file, header, entries)
        yield writer
        writer.check_complete()
