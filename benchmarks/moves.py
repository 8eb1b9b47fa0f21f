"""Moves of quantized arrays against NumPy copies of the packed bytes, in one interleaved run.

Machines are shared and noisy, so only ratios taken in the same rounds mean anything: every round
times the two copies and then the move. *copy* is ``data.copy()`` of the packed bytes of the
result; *same move* is what NumPy takes to move those bytes the same way, for instance
``data.T.copy(order="C")``. Figures are ratios of medians (in brackets: of minimums);
lower is faster.

    python benchmarks/moves.py [--rows 4096] [--columns 4096] [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import arrayq as aq

SCHEMES = {
    "int4/32": aq.scheme("int4/32"),
    "int4/32 in u32": aq.scheme("int4/32").with_store("packed_u32"),
    "nvfp4": aq.nvfp4(),
    "int8/32": aq.scheme("int8/32"),
}


@dataclass(frozen=True)
class Row:
    """A move, the same move of packed bytes by NumPy, and how many times its time is allowed."""

    name: str
    move: Callable[[aq.QuantizedArray], Any]
    of_bytes: Callable[[np.ndarray], np.ndarray]
    goal: float | None
    shape: Callable[[int, int], tuple[int, ...]] = lambda rows, columns: (rows, columns)


def cube(rows: int, columns: int) -> tuple[int, ...]:
    return (16, rows // 16, columns)


ROWS = (
    Row("q.T", lambda q: q.T, lambda d: d.T, 2),
    Row("permute_dims (1, 0, 2)", lambda q: aq.permute_dims(q, (1, 0, 2)),
        lambda d: d.transpose(1, 0, 2), 2, cube),
    Row("permute_dims (2, 0, 1)", lambda q: aq.permute_dims(q, (2, 0, 1)),
        lambda d: d.transpose(2, 0, 1), 2, cube),
    Row("permute_dims (0, 2, 1)", lambda q: aq.permute_dims(q, (0, 2, 1)),
        lambda d: d.transpose(0, 2, 1), 2, cube),
    Row("q[64:-64]", lambda q: q[64:-64], lambda d: d[64:-64].copy(), 2),
    Row("q[:, 64:-64]", lambda q: q[:, 64:-64],
        lambda d: d[:, d.shape[1] // 64 : -(d.shape[1] // 64)], 2),
    Row("q[::2]", lambda q: q[::2], lambda d: d[::2], None),
    Row("q[:, 3:-5]", lambda q: q[:, 3:-5], lambda d: d[:, 1:-2], 4),
    Row("q[:, 1:]", lambda q: q[:, 1:], lambda d: d, 4),
    Row("q[:, ::-1]", lambda q: q[:, ::-1], lambda d: d[:, ::-1], None),
    Row("q[:, ::2]", lambda q: q[:, ::2], lambda d: d[:, : d.shape[1] // 2], None),
    Row("concat([q, q], 1)", lambda q: aq.concat([q, q], 1), lambda d: np.hstack([d, d]), None),
)  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((options.rows, options.columns), np.float32)
    print(f"array {options.rows} x {options.columns}, {options.rounds} rounds\n")
    print("| scheme | move | times the copy | times the same move of bytes | goal |")
    print("| --- | --- | --- | --- | --- |")
    for name, scheme in SCHEMES.items():
        for row in ROWS:
            q = aq.quantize(x.reshape(row.shape(options.rows, options.columns)), scheme)
            result = row.move(q).data
            copies, same, moves = [], [], []
            for _ in range(options.rounds):
                copies.append(timed(result.copy))
                same.append(timed(lambda row=row, q=q: row.of_bytes(q.data).copy(order="C")))
                moves.append(timed(lambda row=row, q=q: row.move(q)))
            cells = [
                f"{statistics.median(moves) / statistics.median(other):.2f} "
                f"({min(moves) / min(other):.2f})"
                for other in (copies, same)
            ]
            goal = "" if row.goal is None else f"{row.goal}"
            print(f"| {name} | {row.name} | {cells[0]} | {cells[1]} | {goal} |")


if __name__ == "__main__":
    main()
