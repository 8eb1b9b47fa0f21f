"""Let a request to terminate unwind the program before it is obeyed.

SIGTERM and SIGHUP end a process on the spot, with no ``finally`` run. Inside
:func:`unwinding` they raise instead; files are removed, the terminal is restored, and then
the process ends by the same signal, so that whoever sent it sees what it expects.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["unwinding"]

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class _TerminatedError(BaseException):
    """Not an Exception: code that handles errors must not take this for one."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _raise_terminated(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
    raise _TerminatedError(number)


@contextmanager
def unwinding() -> Iterator[None]:
    """Run a block so that SIGTERM and SIGHUP unwind it before they end the process.

    Does nothing outside the main thread, and leaves alone a signal for which the program
    (or an outer block) has a handler of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in taken:
            signal.signal(number, _raise_terminated)
        yield
    except _TerminatedError as terminated:
        if terminated.number not in taken:
            raise  # the outer block that took the signal ends the process
        signal.signal(terminated.number, signal.SIG_DFL)
        signal.raise_signal(terminated.number)
        raise  # the signal is blocked: leave in the ordinary way
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
