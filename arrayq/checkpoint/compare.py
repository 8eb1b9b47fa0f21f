"""Judge schemes on the tensors of a file, writing nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from arrayq._paths.threads import resolve_threads
from arrayq.checkpoint.arrayq_layout import matrix_shape, require_plain
from arrayq.checkpoint.container import SafetensorsReader
from arrayq.checkpoint.errors import naming_tensor
from arrayq.checkpoint.header import TensorEntry
from arrayq.checkpoint.package_path import resolve
from arrayq.checkpoint.progress import Progress, Steps
from arrayq.checkpoint.selection import Selection
from arrayq.pipeline import quantize
from arrayq.presets import scheme as parse_scheme
from arrayq.report.metrics import Metrics, measure
from arrayq.scheme import QuantScheme

__all__ = ["TensorComparison", "compare_file"]


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """One tensor under every scheme, or the reason why it would be kept."""

    entry: TensorEntry
    kept: str | None
    metrics: tuple[Metrics, ...]


def compare_file(
    source: str | os.PathLike[str],
    schemes: Sequence[str | QuantScheme],
    *,
    selection: Selection | None = None,
    threads: int | None = None,
    on_progress: Progress | None = None,
) -> Iterator[TensorComparison]:
    """Quantize every tensor of a file under several schemes and report size and error.

    Parameters
    ----------
    source : path
        The file to read, or ``pkg:package/path``.
    schemes : sequence of schemes or spellings
        What to compare.
    selection, threads, on_progress
        As in :func:`arrayq.checkpoint.quantize_file`.

    Yields
    ------
    TensorComparison
        One per tensor, in the order of the file, its metrics in the order of `schemes`.

    Raises
    ------
    CorruptFileError, CheckpointError, NonFiniteError
        As :func:`arrayq.checkpoint.quantize_file` does.
    """
    threads = resolve_threads(threads)
    parsed, selection = [parse_scheme(each) for each in schemes], selection or Selection()
    with SafetensorsReader(resolve(source)) as reader:
        require_plain(reader)
        selection.check(reader.entries, str(reader.path))
        steps = Steps(reader.entries.values(), on_progress, rounds=len(parsed))
        for name, entry in reader.entries.items():
            kept = selection.reason_to_keep(entry)
            if kept is None:
                metrics = tuple(_judged(reader, entry, parsed, threads, steps))
            else:
                metrics = ()
                steps.advance(name, entry.nbytes * len(parsed))
            yield TensorComparison(entry, kept, metrics)


def _judged(
    reader: SafetensorsReader,
    entry: TensorEntry,
    schemes: Sequence[QuantScheme],
    threads: int | None,
    steps: Steps,
) -> Iterator[Metrics]:
    shape = matrix_shape(entry.shape)
    with naming_tensor(entry.name, entry.shape, shape):
        x = reader.floats(entry.name).reshape(shape)
        for scheme in schemes:
            q = quantize(x, scheme, threads=threads)
            encoded = entry.nbytes // 2
            steps.advance(entry.name, encoded)
            on_part = steps.by_element(entry.name, entry.nbytes - encoded, entry.size)
            metrics = measure(x, q, threads=threads, on_part=on_part)
            yield replace(metrics, source_bytes=entry.nbytes)
            del q  # before the next one takes its memory
