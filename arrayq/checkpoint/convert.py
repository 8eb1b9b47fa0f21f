"""The streaming converter: quantize a file, dequantize a file.

Tensors pass one at a time: mapped, converted, written, let go. What is in memory is one
tensor and its codes, whatever the size of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from arrayq._paths.threads import resolve_threads
from arrayq.array import QuantizedArray
from arrayq.checkpoint.arrayq_layout import (
    METADATA_KEY,
    StoredTensor,
    check_names,
    encode_index,
    matrix_shape,
    read_index,
    read_tensor,
    require_plain,
    write_tensor,
)
from arrayq.checkpoint.container import SafetensorsReader, writing
from arrayq.checkpoint.dtypes import FileDtype
from arrayq.checkpoint.errors import CheckpointError, naming_tensor
from arrayq.checkpoint.header import TensorEntry
from arrayq.checkpoint.narrow import OUTPUT_DTYPES, OutputDtype
from arrayq.checkpoint.outcome import FileOutcome, TensorOutcome
from arrayq.checkpoint.package_path import resolve
from arrayq.checkpoint.progress import Progress, Steps
from arrayq.checkpoint.replacing import check_target
from arrayq.checkpoint.selection import Selection
from arrayq.layout import plan
from arrayq.pipeline import dequantize, quantize
from arrayq.presets import scheme as parse_scheme
from arrayq.report.metrics import Metrics, measure
from arrayq.report.parts import split
from arrayq.scheme import QuantScheme

__all__ = ["dequantize_file", "quantize_file"]

PathLike = str | os.PathLike[str]

_PART_ELEMENTS = 1 << 20


def quantize_file(
    source: PathLike,
    target: PathLike,
    scheme: str | QuantScheme,
    *,
    selection: Selection | None = None,
    threads: int | None = None,
    on_progress: Progress | None = None,
) -> FileOutcome:
    """Quantize the tensors of a safetensors file into another one.

    Parameters
    ----------
    source : path
        The file to read, or ``pkg:package/path``.
    target : path
        The file to write; one that exists is replaced when the new one is complete.
    scheme : scheme or spelling
        How to encode each tensor.
    selection : Selection, optional
        Which tensors to quantize. Tensors of more than two axes are quantized as (first axis,
        everything else); those that are not F64, F32, F16 or BF16 are always kept.
    threads : int, optional
        As in :func:`arrayq.quantize`.
    on_progress : callable, optional
        Called after each step.

    Returns
    -------
    FileOutcome
        What became of each tensor, with its error.

    Raises
    ------
    CorruptFileError
        If `source` is damaged.
    CheckpointError
        If `source` is quantized already, or `target` cannot be written.
    NonFiniteError
        If a tensor holds NaN or inf; nothing is written.
    """
    threads = resolve_threads(threads)
    scheme, selection = parse_scheme(scheme), selection or Selection()
    with SafetensorsReader(resolve(source)) as reader:
        check_target(target, (reader.path,))
        require_plain(reader)
        unmatched = selection.check(reader.entries, str(reader.path))
        reasons = {e.name: selection.reason_to_keep(e) for e in reader.entries.values()}
        stored = {
            entry.name: _plan(entry, scheme)
            for entry in reader.entries.values()
            if reasons[entry.name] is None
        }
        steps = Steps(reader.entries.values(), on_progress)
        outcomes = []
        planned = [part for entry in reader.entries.values() for part in _parts(entry, stored)]
        check_names(name for name, _, _ in planned)
        index = {METADATA_KEY: encode_index(stored.values())} if stored else {}
        metadata = _plain_metadata(reader)
        with writing(target, planned, metadata | index, (reader.path,)) as writer:
            for name, entry in reader.entries.items():
                metrics = None
                if name in stored:
                    with naming_tensor(name, entry.shape, stored[name].quantized_shape):
                        x = reader.floats(name).reshape(stored[name].quantized_shape)
                        q = quantize(x, stored[name].scheme, threads=threads)
                    steps.advance(name, entry.nbytes // 2)
                    write_tensor(writer, stored[name], q)
                    metrics = _measured(x, q, entry, threads, steps)
                    del x, q  # before the next tensor is mapped
                else:
                    writer.write_chunks(name, reader.chunks(name))
                    steps.advance(name, entry.nbytes)
                outcomes.append(_outcome(entry, reasons[name], metrics, stored.get(name)))
        return FileOutcome(
            str(source), str(target), tuple(outcomes), reader.nbytes, writer.nbytes, unmatched
        )


def dequantize_file(
    source: PathLike,
    target: PathLike,
    dtype: str = "f32",
    *,
    threads: int | None = None,
    on_progress: Progress | None = None,
) -> FileOutcome:
    """Decode the quantized tensors of a file into another one, in their own shapes.

    Parameters
    ----------
    source : path
        A file that :func:`quantize_file` wrote, or ``pkg:package/path``.
    target : path
        The file to write; one that exists is replaced when the new one is complete.
    dtype : {"f32", "f16", "bf16"}
        The type of the decoded tensors. f32 is exact; the others round to nearest even, and
        what they cannot hold becomes an infinity, which the outcome counts.
    threads : int, optional
        As in :func:`arrayq.dequantize`.
    on_progress : callable, optional
        Called after each step.

    Returns
    -------
    FileOutcome

    Raises
    ------
    CorruptFileError
        If `source` is damaged.
    CheckpointError
        If `source` holds nothing that arrayq quantized, or `target` cannot be written.
    """
    if dtype not in OUTPUT_DTYPES:
        raise CheckpointError(f"dtype requires one of {', '.join(OUTPUT_DTYPES)}, got {dtype!r}")
    output, threads = OUTPUT_DTYPES[dtype], resolve_threads(threads)
    with SafetensorsReader(resolve(source)) as reader:
        check_target(target, (reader.path,))
        index = read_index(reader)
        if not index:
            raise CheckpointError(
                f"dequantize requires a file that arrayq quantized, and {reader.path} holds no"
                " quantized tensor"
            )
        parts = {name for tensor in index.values() for name, _, _ in tensor.parts()}
        kept = {name: e for name, e in reader.entries.items() if name not in parts}
        planned = [(name, e.dtype, e.shape) for name, e in kept.items()]
        planned += [(name, output.row, tensor.shape) for name, tensor in index.items()]
        check_names(name for name, _, _ in planned)
        metadata = _plain_metadata(reader)
        steps = Steps(reader.entries.values(), on_progress)
        outcomes = []
        with writing(target, planned, metadata, (reader.path,)) as writer:
            for name, tensor in index.items():
                on_part = steps.by_element(name, tensor.nbytes, tensor.size)
                decoding = _Decoding(read_tensor(reader, tensor), output, threads, on_part)
                writer.write_chunks(name, decoding)
                outcomes.append(
                    TensorOutcome(
                        name,
                        tensor.shape,
                        output.row.name,
                        tensor.nbytes,
                        scheme=tensor.spelling,
                        overflowed=decoding.overflowed,
                    )
                )
            for name, entry in kept.items():
                writer.write_chunks(name, reader.chunks(name))
                steps.advance(name, entry.nbytes)
                outcomes.append(_outcome(entry, "not quantized", None, None))
        return FileOutcome(str(source), str(target), tuple(outcomes), reader.nbytes, writer.nbytes)


class _Decoding:
    """The bytes of a decoded tensor, part by part; counts what overflows on the way."""

    def __init__(
        self,
        q: QuantizedArray,
        output: OutputDtype,
        threads: int | None,
        on_part: Callable[[int], None],
    ) -> None:
        self._q, self._output, self._threads, self._on_part = q, output, threads, on_part
        self.overflowed = 0

    def __iter__(self) -> Iterator[memoryview]:
        for _, _, part in split(self._q, _PART_ELEMENTS):
            values = np.ascontiguousarray(dequantize(part, threads=self._threads)).reshape(-1)
            narrow = self._output.narrow(values)
            self.overflowed += int(np.count_nonzero(np.isinf(self._output.widen(narrow))))
            stored = narrow.astype(self._output.row.raw, copy=False)
            yield stored.view(np.uint8).data
            self._on_part(values.size)


def _plain_metadata(reader: SafetensorsReader) -> dict[str, str]:
    """Return the metadata that is not ours."""
    return {key: text for key, text in reader.metadata.items() if key != METADATA_KEY}


def _plan(entry: TensorEntry, scheme: QuantScheme) -> StoredTensor:
    """Decide how a tensor is stored; everything that its shape rules out raises here."""
    shape = matrix_shape(entry.shape)
    with naming_tensor(entry.name, entry.shape, shape):
        resolved = plan(scheme, shape).scheme
    return StoredTensor(entry.name, resolved, entry.shape, shape, entry.dtype.name)


def _parts(
    entry: TensorEntry, stored: dict[str, StoredTensor]
) -> list[tuple[str, FileDtype, tuple[int, ...]]]:
    if entry.name in stored:
        return list(stored[entry.name].parts())
    return [(entry.name, entry.dtype, entry.shape)]


def _measured(
    x: np.ndarray, q: QuantizedArray, entry: TensorEntry, threads: int | None, steps: Steps
) -> Metrics:
    on_part = steps.by_element(entry.name, entry.nbytes - entry.nbytes // 2, entry.size)
    metrics = measure(x, q, threads=threads, on_part=on_part)
    return replace(metrics, source_bytes=entry.nbytes)


def _outcome(
    entry: TensorEntry, kept: str | None, metrics: Metrics | None, stored: StoredTensor | None
) -> TensorOutcome:
    scheme = None if stored is None else stored.spelling
    return TensorOutcome(
        entry.name, entry.shape, entry.dtype.name, entry.nbytes, kept, scheme, metrics
    )
