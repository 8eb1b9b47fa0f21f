"""Running a kernel over ranges of boxes on several threads.

Kernels release the GIL and boxes are independent, so plain short-lived Python threads do; there
is no pool that a forked child could inherit half alive.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import TypeVar

from arrayq._kernels.cpu import (  # type: ignore[import-not-found]
    environment,
    environment_lacks,
)
from arrayq.errors import ArgumentError

__all__ = ["is_unset", "resolve_threads", "run_boxes"]

T = TypeVar("T")

_VARIABLE = "ARRAYQ_NUM_THREADS"

is_unset: Callable[[], bool] = environment_lacks(_VARIABLE.encode())
"""Whether the environment says nothing about threads, without the detour over Python."""


def resolve_threads(threads: int | None) -> int:
    """Number of threads to use: what was asked for, else ``ARRAYQ_NUM_THREADS``, else 1.

    Raises
    ------
    ArgumentError
        When the number is not an integer of at least 1.
    """
    asked: object = threads
    source = "threads"
    if threads is None:
        given = environment(_VARIABLE.encode())
        if not given:
            return 1
        asked, source = os.fsdecode(given), _VARIABLE
    try:
        count = int(asked) if isinstance(asked, str) else operator.index(asked)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        count = 0
    if count < 1 or isinstance(asked, bool):
        raise ArgumentError(f"{source} requires an integer of at least 1, got {asked!r}")
    return count


def run_boxes(work: Callable[[int, int], T], boxes: int, threads: int) -> list[T]:
    """Call ``work(first, end)`` over contiguous parts of ``range(boxes)``.

    Parameters
    ----------
    work : callable
        Takes the first box and the box after the last one.
    boxes : int
        Number of boxes.
    threads : int
        How many parts, each on a thread of its own, at most.

    Returns
    -------
    list
        What the calls returned, in order of their boxes.
    """
    parts = max(1, min(threads, boxes))
    if parts == 1:
        return [work(0, boxes)]
    from concurrent.futures import ThreadPoolExecutor  # 10 ms that one thread need not wait for

    bounds = [boxes * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(work, bounds[:-1], bounds[1:]))
