"""Quantize and dequantize against copying the same float32 array, in one interleaved run.

Machines are shared and noisy, so only ratios taken in the same rounds mean anything: every round
times the copy and then each row, and a row's figure is the ratio of medians (in brackets: of
minimums). 1.0 is the speed of ``numpy.copyto`` of the float32 array; higher is faster. Outputs
are warm (``out=``), one thread unless asked otherwise.

    python benchmarks/memory_speed.py [--rows 4096] [--columns 4096] [--rounds 15] [--threads 1]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import arrayq as aq
from arrayq._kernels import kernels


@dataclass(frozen=True)
class Goal:
    """A scheme and the share of the copy's speed that its two directions should reach."""

    spelling: str
    quantize: float | None
    dequantize: float | None


GOALS = (
    Goal("q8s/32", 0.5, 0.6),
    Goal("q4s/32", 0.5, 0.6),
    Goal("nf4/64", 0.3, 0.6),
    Goal("nvfp4", 0.3, 0.6),
    Goal("e4m3/32", 0.3, None),
    Goal("int4/32", None, None),
    Goal("int4a/32", None, None),
    Goal("int8/row", None, None),
    Goal("int4/row", None, None),
    Goal("int2/32", None, None),
    Goal("e5m2/32", None, None),
    Goal("mxfp4", None, None),
    Goal("mxfp8", None, None),
    Goal("mxfp6-e3m2", None, None),
    Goal("ternary", None, None),
)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


PROGRAM = """
import gc, re, sys
import numpy as np, arrayq as aq

def resident(field):
    return 1024 * int(re.search(field + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])

x = np.ones((int(sys.argv[2]), int(sys.argv[3])), np.float32)
aq.quantize(x[:64], sys.argv[1])
gc.collect()
open("/proc/self/clear_refs", "w").write("5")  # resets VmHWM
before = resident("VmRSS")
q = aq.quantize(x, sys.argv[1])
print(resident("VmHWM") - before - q.nbytes)
"""


def extra_memory(spelling: str, rows: int, columns: int) -> float:
    """Megabytes by which a process grows at the peak of a quantize call, beyond its outputs."""
    eager = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, spelling, str(rows), str(columns)],
        env={**os.environ, **eager},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    threads = options.threads
    x = np.random.default_rng(0).standard_normal((options.rows, options.columns), np.float32)
    copy, back = np.empty_like(x), np.empty_like(x)

    works: dict[tuple[str, str], Callable[[], object]] = {}
    for goal in GOALS:
        q = aq.quantize(x, goal.spelling)
        works[goal.spelling, "quantize"] = lambda s=goal.spelling, q=q: aq.quantize(
            x, s, out=q, threads=threads
        )
        works[goal.spelling, "dequantize"] = lambda q=q: aq.dequantize(q, out=back, threads=threads)
    copies: list[float] = []
    times: dict[tuple[str, str], list[float]] = {key: [] for key in works}
    for _ in range(options.rounds):
        for key, work in works.items():
            copies.append(timed(lambda: np.copyto(copy, x)))
            times[key].append(timed(work))

    gigabytes = x.nbytes / 1e9
    speeds = gigabytes / statistics.median(copies), gigabytes / min(copies)
    print(
        f"array {options.rows} x {options.columns} float32, {threads} thread(s), kernels "
        f"{kernels.level}, {options.rounds} rounds; copy {speeds[0]:.1f} GB/s "
        f"(best {speeds[1]:.1f})\n"
    )
    print("| scheme | quantize | goal | dequantize | goal | extra memory of quantize |")
    print("| --- | --- | --- | --- | --- | --- |")
    for goal in GOALS:
        cells = []
        for direction in ("quantize", "dequantize"):
            taken = times[goal.spelling, direction]
            median = statistics.median(copies) / statistics.median(taken)
            best = min(copies) / min(taken)
            wanted = getattr(goal, direction)
            cells += [f"{median:.2f} ({best:.2f})", "" if wanted is None else f"{wanted}"]
        extra = extra_memory(goal.spelling, options.rows, options.columns)
        print(f"| {goal.spelling} | {' | '.join(cells)} | {extra:.2f} MB |")


if __name__ == "__main__":
    main()
