"""What a conversion did, tensor by tensor and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from arrayq.report.metrics import Metrics

__all__ = ["FileOutcome", "TensorOutcome", "count_reasons"]


def count_reasons(reasons: Iterable[str | None]) -> dict[str, int]:
    """Return how often each reason to keep a tensor occurs, the most frequent first."""
    counted = Counter(reason for reason in reasons if reason is not None)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class TensorOutcome:
    """What became of one tensor.

    Parameters
    ----------
    name, shape, dtype
        The tensor in the source; `dtype` is its safetensors type.
    nbytes : int
        Its bytes in the source.
    kept : str or None
        Why it was copied as it is, None when it was converted.
    scheme : str or None
        What it is encoded with, in the file that holds it encoded.
    metrics : Metrics or None
        Size and error, for a tensor that was quantized.
    overflowed : int
        Elements that became infinite because the output type is too narrow for them.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    kept: str | None = None
    scheme: str | None = None
    metrics: Metrics | None = None
    overflowed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON types."""
        record: dict[str, Any] = {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "bytes": self.nbytes,
        }
        if self.kept is not None:
            return record | {"kept": self.kept}
        if self.metrics is not None:
            return record | {"scheme": self.scheme, **self.metrics.to_dict()}
        return record | {"scheme": self.scheme, "overflowed": self.overflowed}


@dataclass(frozen=True)
class FileOutcome:
    """What a conversion did; `bytes_before` and `bytes_after` are the sizes of whole files."""

    source: str
    target: str
    tensors: tuple[TensorOutcome, ...]
    bytes_before: int
    bytes_after: int
    unmatched_patterns: tuple[str, ...] = field(default=())

    @property
    def converted(self) -> tuple[TensorOutcome, ...]:
        """The tensors that were quantized or dequantized."""
        return tuple(tensor for tensor in self.tensors if tensor.kept is None)

    @property
    def kept(self) -> tuple[TensorOutcome, ...]:
        """The tensors that were copied as they are."""
        return tuple(tensor for tensor in self.tensors if tensor.kept is not None)

    @property
    def kept_by_reason(self) -> dict[str, int]:
        """How many tensors were kept, by reason, the most frequent first."""
        return count_reasons(tensor.kept for tensor in self.tensors)

    @cached_property
    def metrics(self) -> Metrics:
        """Size and error of all quantized tensors together."""
        return sum((t.metrics for t in self.tensors if t.metrics is not None), Metrics())

    @property
    def overflowed(self) -> int:
        """Elements that became infinite because the output type is too narrow for them."""
        return sum(tensor.overflowed for tensor in self.tensors)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON types."""
        return {
            "source": self.source,
            "target": self.target,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "tensors_converted": len(self.converted),
            "tensors_kept": len(self.kept),
            "kept_by_reason": self.kept_by_reason,
            "tensors": [tensor.to_dict() for tensor in self.tensors],
        }
