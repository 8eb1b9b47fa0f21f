"""NVFP4 under jax.jit against torchao's own NVFP4, in one interleaved run on the CPU.

Machines are shared and noisy, so only ratios taken in the same rounds mean anything: every round
times each function once. *torchao* is ``nvfp4_quantize`` in eager mode with its scale of the
tensor, which it has to find first. Figures are milliseconds (medians), and the ratio of medians to
torchao's (in brackets: of minimums); lower is faster. What jit gives is compared with what the
kernels give before, bit for bit.

    python benchmarks/jit_nvfp4.py [--rows 4096] [--columns 4096] [--rounds 9] [--compile]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch

import arrayq as aq

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

SCHEME = aq.nvfp4()


def by_torchao(x: torch.Tensor) -> Any:
    largest = torch.amax(torch.abs(x)).to(torch.float32)
    return nvfp4_quantize(x, per_tensor_scale=largest / (448.0 * 6.0))


def functions(x: torch.Tensor, *, compiled: bool) -> dict[str, Callable[[], Any]]:
    """Return what is timed, by name; each returns only when its result is there."""
    numbers = jax.device_put(x.float().numpy())
    if x.dtype == torch.bfloat16:
        numbers = numbers.astype(jax.numpy.bfloat16)
    found: dict[str, Callable[[], Any]] = {"torchao, eager": lambda: by_torchao(x)}
    jitted = jax.jit(lambda x: aq.quantize(x, SCHEME))
    found["jax.jit"] = lambda: jax.block_until_ready(jitted(numbers))
    found["kernels"] = lambda: aq.quantize(x, SCHEME)
    if compiled:
        ours = torch.compile(lambda x: aq.quantize(x, SCHEME), fullgraph=True)
        theirs = torch.compile(by_torchao)
        found["torch.compile"] = lambda: ours(x)
        found["torch.compile, torchao"] = lambda: theirs(x)
    return found


def check(found: dict[str, Callable[[], Any]]) -> None:
    jitted, expected = found["jax.jit"](), found["kernels"]()
    for one, other in zip(jitted._parts(), expected._parts(), strict=True):
        if other is not None:
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--compile", action="store_true", help="torch.compile of both as well")
    given = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(given.rows, given.columns, generator=generator)
    for dtype in (torch.float32, torch.bfloat16):
        x = numbers.to(dtype)
        found = functions(x, compiled=given.compile)
        check(found)
        seconds: dict[str, list[float]] = {name: [] for name in found}
        for function in found.values():
            function()
        for _ in range(given.rounds):
            for name, function in found.items():
                start = time.perf_counter()
                function()
                seconds[name].append(time.perf_counter() - start)
        print(f"{given.rows} x {given.columns} {dtype}, {torch.get_num_threads()} threads")
        base = seconds["torchao, eager"]
        for name, taken in seconds.items():
            median = statistics.median(taken)
            ratio, least = median / statistics.median(base), min(taken) / min(base)
            print(f"  {name:28} {median * 1e3:8.1f} ms  {ratio:6.3f}  ({least:.3f})")


if __name__ == "__main__":
    main()
