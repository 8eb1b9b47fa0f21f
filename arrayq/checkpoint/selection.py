"""Which tensors of a file are quantized, and why the others are kept as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from arrayq.checkpoint.dtypes import FLOAT_DTYPES
from arrayq.checkpoint.errors import CheckpointError
from arrayq.checkpoint.header import TensorEntry

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The rules by which tensors are chosen.

    Parameters
    ----------
    include : tuple of str
        Shell patterns; when there are any, only tensors whose name matches one are quantized.
    exclude : tuple of str
        Shell patterns of tensors to keep; they win over `include`.
    one_dimensional : bool
        Quantize tensors of one axis too. They are kept by default: biases and the gains of
        normalizations take little room and weigh heavily.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    one_dimensional: bool = False

    def reason_to_keep(self, entry: TensorEntry) -> str | None:
        """Return why a tensor is kept, or None when it is to be quantized."""
        if entry.dtype.name not in FLOAT_DTYPES:
            return f"type {entry.dtype.name}"
        if _matches(entry.name, self.exclude):
            return "excluded"
        if self.include and not _matches(entry.name, self.include):
            return "not included"
        if entry.size == 0:
            return "no elements"
        if not entry.shape:
            return "a single number"
        if len(entry.shape) == 1 and not self.one_dimensional:
            return "one axis"
        return None

    def check(self, names: Iterable[str], file: str) -> tuple[str, ...]:
        """Return the patterns that match none of `names`.

        Raises
        ------
        CheckpointError
            If there are include patterns and none of them matches anything.
        """
        known = tuple(names)
        if self.include and not any(_matches(name, self.include) for name in known):
            raise CheckpointError(
                f"include {', '.join(map(repr, self.include))} requires a tensor to match,"
                f" and none of the {len(known)} in {file} does; arrayq info lists their names"
            )
        patterns = (*self.include, *self.exclude)
        return tuple(
            pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in known)
        )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
