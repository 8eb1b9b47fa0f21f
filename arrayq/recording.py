"""Compilers that read Python itself, and what they are shown instead of arrayq's own Python.

torch.compile follows the bytecode of what it compiles and cannot follow caches, patterns and
tables. While it does, the functions of `arrayq` hand over to a `Recorder`, which shows it single
operations on plain arrays. `arrayq.interop` sets the recorder of a library that has such a
compiler; without one this is a question with the answer no.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast

__all__ = ["FUNCTIONS", "Recorder", "is_recording", "recorded", "recorder", "use"]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class Recorder(Protocol):
    """What a compiler that reads Python is shown."""

    def run(self, name: str, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the result of one of `FUNCTIONS`, as one operation of the compiled graph."""


def _never() -> bool:
    return False


is_recording: Callable[[], bool] = _never
"""Whether a compiler is reading Python just now."""

recorder: Any = None
"""The recorder of that compiler."""

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""What a recorder can run, by name."""


def use(new: Recorder, active: Callable[[], bool]) -> None:
    """Let a recorder answer while `active` says so."""
    global is_recording, recorder
    recorder, is_recording = new, active


def recorded(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Let a function on quantized arrays be one operation to a compiler that reads Python."""
    name = f"{function.__module__}.{function.__qualname__}"
    FUNCTIONS[name] = function

    @functools.wraps(function)
    def either(*given: _Given.args, **options: _Given.kwargs) -> _Result:
        if is_recording():
            return cast("_Result", recorder.run(name, given, options))
        return function(*given, **options)

    return either
