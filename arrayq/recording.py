"""Compilers that read Python itself, and what they are shown instead of arrayq's own Python.

torch.compile follows the bytecode of what it compiles and cannot follow caches, patterns and
tables. While it does, the functions of `arrayq` hand over to a `Recorder`, which shows it single
operations on plain arrays. `arrayq.interop` sets the recorder of a library that has such a
compiler; without one this is a question with the answer no.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Recorder", "is_recording", "recorder", "use"]


class Recorder(Protocol):
    """What a compiler that reads Python is shown. Arguments are those of the public functions."""

    def quantize(self, x: Any, scheme: Any, qparams: Any, method: Any, nonfinite: Any) -> Any:
        """Return a quantized array."""

    def dequantize(self, q: Any, dtype: Any) -> Any:
        """Return an array of floats."""

    def calibrate(self, x: Any, scheme: Any, method: Any, nonfinite: Any) -> Any:
        """Return parameters."""

    def fake_quantize(self, x: Any, scheme: Any, qparams: Any, method: Any, nonfinite: Any) -> Any:
        """Return an array of floats with a straight-through gradient."""


def _never() -> bool:
    return False


is_recording: Callable[[], bool] = _never
"""Whether a compiler is reading Python just now."""

recorder: Any = None
"""The recorder of that compiler."""


def use(new: Recorder, active: Callable[[], bool]) -> None:
    """Let a recorder answer while `active` says so."""
    global is_recording, recorder
    recorder, is_recording = new, active
