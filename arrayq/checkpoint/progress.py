"""How far a pass over a file has come, in bytes of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from arrayq.checkpoint.header import TensorEntry

__all__ = ["Progress", "Steps"]

Progress = Callable[[str, int, int], None]
"""Called with a tensor's name, the bytes done so far, and their total."""


class Steps:
    """Counts the bytes done and tells `report`, if there is one.

    Parameters
    ----------
    entries : iterable of TensorEntry
        The tensors of the file.
    report : callable or None
        Called after each step.
    rounds : int
        How often each tensor is gone through.
    """

    def __init__(
        self, entries: Iterable[TensorEntry], report: Progress | None, rounds: int = 1
    ) -> None:
        self._total = sum(entry.nbytes for entry in entries) * rounds
        self._report = report
        self._done = 0

    def advance(self, name: str, nbytes: int) -> None:
        """Count `nbytes` of tensor `name` as done."""
        self._done += nbytes
        if self._report is not None:
            self._report(name, self._done, self._total)

    def by_element(self, name: str, nbytes: int, elements: int) -> Callable[[int], None]:
        """Return a function that counts `nbytes` as done while it is told of `elements`."""
        told, counted = 0, 0

        def advance(more: int) -> None:
            nonlocal told, counted
            told += more
            reached = nbytes * told // max(elements, 1)
            self.advance(name, reached - counted)
            counted = reached

        return advance
