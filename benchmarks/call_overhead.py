"""What a call on a small array costs beside its kernel, in one interleaved run.

A call on a (64, 64) float32 array is compared with the same kernel call, everything else about it
prepared, and the allocation of its results: two for quantize (data and scales), one for
dequantize. 1.0 would be a call that costs nothing beside them; the goal is 1.5. Every round times
each work; a row's figure is the ratio of medians (in brackets: of minimums). Times are those of
this thread, so that a machine that is shared counts for little.

Where torch is installed and arrayq takes its tensors, two columns say how many microseconds a
call on a tensor takes more than one on an array.

    python benchmarks/call_overhead.py [--rounds 31] [--calls 1000]
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import arrayq as aq
from arrayq._kernels import kernels
from arrayq._paths import host
from arrayq.errors import ArrayqError
from arrayq.layout import plan

SPELLINGS = ("nvfp4", "int8/32", "int4/32", "nf4/64", "mxfp4", "int4a/32")
SHAPE = (64, 64)


def timed(work: Callable[[], object], calls: int) -> float:
    """Microseconds of one call."""
    start = time.thread_time()
    for _ in range(calls):
        work()
    return (time.thread_time() - start) / calls * 1e6


def quantize_kernel(x: np.ndarray[Any, Any], spelling: str) -> Callable[[], object]:
    """The kernel calls of quantize and two allocations."""
    scheme = aq.scheme(spelling)
    layout = plan(scheme, x.shape)
    prepared = host.quantization(layout, scheme.numerics.calibration, x.dtype, x.strides)
    stored = host.allocate(layout)
    data, scales, zeros, tensor = (
        stored.data, stored.scale_data, stored.zero_point, stored.tensor_scale,
    )  # fmt: skip
    data_shape, data_dtype, grid, scale_dtype = data.shape, data.dtype, scales.shape, scales.dtype
    phases = int(host.Phase.MEASURE | host.Phase.SCALE | host.Phase.ENCODE)
    policy = int(host.Policy.RAISE)
    run, empty = prepared.blocks.run, np.empty
    if tensor is None:

        def one_level() -> None:
            empty(data_shape, data_dtype)
            empty(grid, scale_dtype)
            run(x, data, scales, zeros, None, None, phases, policy)

        return one_level
    largest_range = prepared.whole.largest_range

    def two_levels() -> None:
        empty(data_shape, data_dtype)
        empty(grid, scale_dtype)
        largest_range(x)
        run(x, data, scales, zeros, tensor, None, phases, policy)

    prepared.run(x, host.Policy.RAISE, 1, stored)  # leaves the tensor scale
    return two_levels


def dequantize_kernel(q: aq.QuantizedArray) -> Callable[[], object]:
    """The kernel call of dequantize and one allocation."""
    out = np.empty(q.shape, np.float32)
    run = host.dequantization(q.plan, out.dtype, out.strides).lines.run
    data, scales, zeros, tensor = q.data, q.scale_data, q.zero_point, q.tensor_scale
    shape, dtype, empty = out.shape, out.dtype, np.empty

    def work() -> None:
        empty(shape, dtype)
        run(out, data, scales, zeros, tensor)

    return work


def torch_tensor(x: np.ndarray[Any, Any]) -> tuple[Any, str]:
    """The array as a tensor, or None and why not."""
    if importlib.util.find_spec("torch") is None:
        return None, "torch is not installed"
    import torch

    tensor = torch.from_numpy(x)
    try:
        aq.dequantize(aq.quantize(tensor, SPELLINGS[0]))
    except (ArrayqError, TypeError) as refused:
        return None, f"torch's tensors are refused: {refused}"
    return tensor, ""


def works_of(x: np.ndarray[Any, Any], tensor: Any) -> dict[tuple[str, str], Callable[[], object]]:
    works: dict[tuple[str, str], Callable[[], object]] = {}
    for spelling in SPELLINGS:
        q = aq.quantize(x, spelling)
        works[spelling, "quantize"] = lambda s=spelling: aq.quantize(x, s)
        works[spelling, "quantize kernel"] = quantize_kernel(x, spelling)
        works[spelling, "dequantize"] = lambda q=q: aq.dequantize(q)
        works[spelling, "dequantize kernel"] = dequantize_kernel(q)
        if tensor is not None:
            p = aq.quantize(tensor, spelling)
            works[spelling, "quantize torch"] = lambda s=spelling: aq.quantize(tensor, s)
            works[spelling, "dequantize torch"] = lambda p=p: aq.dequantize(p)
    return works


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--calls", type=int, default=1000, help="calls of each work in a round")
    options = parser.parse_args()
    x = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    tensor, refused = torch_tensor(x)
    works = works_of(x, tensor)
    times: dict[tuple[str, str], list[float]] = {key: [] for key in works}
    for work in works.values():
        timed(work, options.calls)
    for _ in range(options.rounds):
        for key, work in works.items():
            times[key].append(timed(work, options.calls))

    print(
        f"array {SHAPE[0]} x {SHAPE[1]} float32, kernels {kernels.level}, {options.rounds} rounds "
        f"of {options.calls} calls; microseconds are medians\n"
    )
    directions = ("quantize", "dequantize")
    more = [f"{direction} torch - numpy (us)" for direction in directions if tensor is not None]
    headings = [
        "scheme",
        *(f"{d}{part}" for d in directions for part in (" (us)", " kernel (us)", " ratio")),
        *more,
    ]
    print(f"| {' | '.join(headings)} |\n|{' --- |' * len(headings)}")
    for spelling in SPELLINGS:
        cells = [spelling]
        for direction in directions:
            call, kernel = times[spelling, direction], times[spelling, f"{direction} kernel"]
            medians = statistics.median(call), statistics.median(kernel)
            cells += [f"{medians[0]:.2f}", f"{medians[1]:.2f}"]
            cells.append(f"{medians[0] / medians[1]:.2f} ({min(call) / min(kernel):.2f})")
        for direction in directions if more else ():
            torch_calls, calls = times[spelling, f"{direction} torch"], times[spelling, direction]
            cells.append(f"{statistics.median(torch_calls) - statistics.median(calls):.2f}")
        print(f"| {' | '.join(cells)} |")
    if refused:
        print(f"\nNo figures for torch: {refused}")


if __name__ == "__main__":
    main()
