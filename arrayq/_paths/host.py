"""Arrays in CPU memory, through the compiled kernels, without a copy.

A pass over an array is one call of a kernel over its boxes (:func:`arrayq.layout.collapse`):
a box is measured, scaled and encoded while it is in cache. Only where blocks are so large that
there are fewer boxes than threads do the three phases run one after the other.
"""

from __future__ import annotations

import enum
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from arrayq._kernels import kernels
from arrayq._kernels.codecs import codec_of_scheme
from arrayq._paths.parts import Met, Policy, Stored
from arrayq._paths.scale_rules import (
    largest_value,
    range_divisor,
    scale_arguments,
)
from arrayq._paths.threads import run_boxes
from arrayq.layout import Cut, Lines, Plan, collapse
from arrayq.numerics import Calibration, ScaleFrom, TensorFrom
from arrayq.scheme import QuantMode, QuantScheme, ScaleDtype

__all__ = ["Met", "Policy", "Stored", "allocate", "dequantize", "largest_range", "quantize"]

Array = npt.NDArray[Any]

# Numbered as ElementKind in lines.pxd.
ELEMENT_KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3}
_SMALLEST_NORMAL = np.float32(2.0**-126)
_SMALLEST_SUBNORMAL = np.float32(2.0**-149)


class Phase(enum.IntFlag):
    """What a pass does with each box; numbered as in quantize.pyx."""

    MEASURE = 1
    SCALE = 2
    ENCODE = 4


class Measure(enum.IntEnum):
    """What is measured of a block; numbered as in quantize.pyx."""

    MAGNITUDE = 0
    MEAN = 1
    BOUNDS = 2
    EXTREME = 3


def allocate(plan: Plan, *, aligned: bool = False) -> Stored:
    """Uninitialised arrays for a plan."""
    scheme = plan.scheme
    return Stored(
        np.empty(plan.data_shape, plan.data_dtype),
        np.empty(plan.grid, scheme.scale_dtype.stored_dtype),
        None if scheme.zero is None else np.empty(plan.grid, scheme.zero.dtype.stored_dtype),
        np.empty((), np.float32) if scheme.two_level else None,
    )


def empty_host(shape, dtype):
    n = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(n + 64, np.uint8)
    o = -raw.ctypes.data % 64
    return raw[o : o + n].view(dtype).reshape(shape)


class _Source:
    """A float array as the kernels read it."""

    def __init__(self, x: Array, dtype=None) -> None:
        name = dtype or x.dtype.name
        self.kind = ELEMENT_KINDS[name]
        self.swapped = not x.dtype.isnative
        # bfloat16 arrays do not export a buffer
        self.array = x.view(np.uint16) if name == "bfloat16" and x.dtype != np.uint16 else x
        self.strides = x.strides


def _flat_bytes(array: Array) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _flat_copy(array: Array | None) -> npt.NDArray[np.uint8] | None:
    """Bytes of an array, which may be a slice of another, copied if they do not lie together."""
    return None if array is None else _flat_bytes(np.ascontiguousarray(array))


def _flat_zeros(stored: Stored | None) -> npt.NDArray[np.uint8] | None:
    return None if stored is None or stored.zero_point is None else _flat_bytes(stored.zero_point)


def _measure(scheme: QuantScheme, calibration: Calibration) -> Measure:
    """What has to be known of a block to give it a scale."""
    if scheme.mode is QuantMode.AFFINE or scheme.numerics.scale_from is ScaleFrom.ENDPOINTS:
        return Measure.BOUNDS
    if scheme.numerics.scale_from is ScaleFrom.SIGNED_MAX:
        return Measure.EXTREME
    return Measure.MEAN if calibration is Calibration.ABSMEAN else Measure.MAGNITUDE


class _Pass:
    """One array, one plan: the arguments that all calls of the quantize kernel share."""

    def __init__(
        self, x: Array, plan: Plan, calibration: Calibration, policy: Policy, dtype=None
    ) -> None:
        self.source = _Source(x, dtype)
        self.plan = plan
        self.measure = _measure(plan.scheme, calibration)
        self.policy = policy
        self.codec = codec_of_scheme(plan.scheme)
        self.rules = scale_arguments(plan.scheme)

    def lines(self, cut: Cut) -> Lines:
        return collapse(self.plan, self.source.strides, cut)

    def run(
        self,
        phases: Phase,
        cut: Cut,
        threads: int,
        *,
        stored: Stored | None = None,
        tensor_scale: float = 1.0,
        ranges: npt.NDArray[np.int32] | None = None,
        policy: Policy | None = None,
    ) -> Met:
        """Run phases over all boxes; `ranges`, where given, is the grid of ranges."""
        lines = self.lines(cut)
        geometry = np.array(lines.table, np.int64)
        scales = None if stored is None else _flat_bytes(stored.scale_data)
        zeros = _flat_zeros(stored)
        data = None if stored is None else _flat_bytes(stored.data)
        rules = self.rules
        # threads that may share a block measure into grids of their own
        shared = Phase.MEASURE in phases and cut is Cut.WORDS and ranges is not None

        def work(first: int, end: int) -> tuple[int, npt.NDArray[np.int32] | None]:
            own = np.zeros_like(ranges) if shared else ranges
            met = kernels.quantize.run(
                self.source.array, self.source.kind, self.source.swapped, geometry, lines.packed,
                lines.codes_per_word, lines.chunk, *self.codec.arguments, rules.seed,
                rules.reciprocal, rules.fields, rules.numbers, tensor_scale, *rules.zero,
                int(phases), int(self.policy if policy is None else policy), int(self.measure),
                self.plan.word_bytes, own, scales, zeros, data, first, end,
            )  # fmt: skip
            return met, own

        met = Met(0)
        for flags, own in run_boxes(work, lines.boxes, threads):
            met |= Met(flags)
            if shared and ranges is not None and own is not None:
                _raise_ranges(ranges, own)
        return met


def _raise_ranges(ranges: npt.NDArray[np.int32], part: npt.NDArray[np.int32]) -> None:
    """Combine ranges measured apart; -1 marks blocks with infinities and no finite range."""
    marked = np.maximum(ranges, part) <= 0
    np.copyto(ranges, np.where(marked, np.minimum(ranges, part), np.maximum(ranges, part)))


def quantize(
    x: Array,
    plan: Plan,
    calibration: Calibration,
    policy: Policy,
    threads: int,
    stored: Stored,
    *,
    encode: bool = True,
    scaled: bool = False,
    tensor_scaled: bool = False,
    dtype=None,
) -> Met:
    """Scales and codes of an array, into `stored`.

    Parameters
    ----------
    x : ndarray of shape plan.shape
        float16, float32, float64 or bfloat16, any strides and byte order.
    plan : Plan
        Its layout.
    calibration : Calibration
        How the elements of a block give its range.
    policy : Policy
        What to do about NaN and infinities; under RAISE, and under SATURATE when a NaN is met,
        the pass stops and `stored` is left unfinished.
    threads : int
        Threads to use.
    stored : Stored
        Receives the result.
    encode : bool
        False: scales only.
    scaled : bool
        True: `stored` already holds the scales to encode against.
    tensor_scaled : bool
        True: `stored` already holds the tensor scale, that of a larger array.

    Returns
    -------
    Met
        What was met.
    """
    if not x.size:
        _store_empty(plan, stored, scaled=scaled)
        return Met(0)
    work = _Pass(x, plan, calibration, policy, dtype)
    met = Met(0)
    if stored.tensor_scale is not None and not (scaled or tensor_scaled):
        found, largest = _tensor_range(work, threads)
        if policy is not Policy.PROPAGATE and (found if policy is Policy.RAISE else found.refused):
            return found
        raw = None
        if work.measure is Measure.BOUNDS:
            raw = _raw_endpoints(x, plan.scheme, found)
        stored.tensor_scale[...] = _tensor_scale(largest, plan.scheme, raw)
        if found and largest == 0 and policy is Policy.SATURATE:
            # nothing finite but zeros: any scale serves, so long as products with it do not vanish
            stored.tensor_scale[...] = 1
    tensor_scale = 1.0 if stored.tensor_scale is None else float(stored.tensor_scale)
    phases = Phase.MEASURE
    if not scaled:
        phases |= Phase.SCALE
    if encode:
        phases |= Phase.ENCODE
    few_boxes = work.lines(Cut.BLOCKS).boxes < threads and work.measure is Measure.MAGNITUDE
    if not few_boxes:
        return work.run(phases, Cut.BLOCKS, threads, stored=stored, tensor_scale=tensor_scale)
    ranges = np.zeros(stored.scale_data.size, np.int32)
    met = work.run(Phase.MEASURE, Cut.WORDS, threads, ranges=ranges)
    if (met and policy is Policy.RAISE) or (met.refused and policy is Policy.SATURATE):
        return met
    if scaled:
        if policy is Policy.PROPAGATE and met:
            _propagate(stored, ranges, plan.scheme.scale_dtype)
    else:
        work.run(
            Phase.SCALE, Cut.BLOCKS, 1, stored=stored, tensor_scale=tensor_scale, ranges=ranges
        )
    if encode:
        work.run(Phase.ENCODE, Cut.WORDS, threads, stored=stored, tensor_scale=tensor_scale)
    return met


def _propagate(stored: Stored, ranges: npt.NDArray[np.int32], dtype: ScaleDtype) -> None:
    nan = np.nan if dtype is ScaleDtype.F32 else dtype.format.nan_code
    spoilt = ranges >= np.float32(np.inf).view(np.int32)
    stored.scale_data.reshape(-1)[spoilt] = nan
    if stored.zero_point is not None:
        stored.zero_point.reshape(-1)[spoilt] = 0


def _store_empty(plan: Plan, stored: Stored, *, scaled: bool) -> None:
    if scaled:
        return
    stored.scale_data[...] = 0
    if stored.zero_point is not None:
        stored.zero_point[...] = 0
    if stored.tensor_scale is not None:
        stored.tensor_scale[...] = _tensor_scale(np.float32(0), plan.scheme)


def largest_range(
    x: Array, plan: Plan, calibration: Calibration, threads: int, dtype=None
) -> tuple[Met, np.float32]:
    """What an array of at least one element holds beside finite numbers, and its largest finite
    block range: what the tensor scale follows from, under every rule but ENDPOINTS.
    """
    return _tensor_range(_Pass(x, plan, calibration, Policy.IGNORE, dtype), threads)


def _tensor_range(work: _Pass, threads: int) -> tuple[Met, np.float32]:
    """What the array holds beside finite numbers, and its largest finite block range."""
    if work.measure is not Measure.MAGNITUDE:
        ranges = np.zeros(int(np.prod(work.plan.grid)), np.int32)
        met = work.run(Phase.MEASURE, Cut.BLOCKS, threads, ranges=ranges, policy=Policy.IGNORE)
    else:
        ranges = np.zeros(1, np.int32)
        whole = copy(work)
        whole.plan = work.plan.as_one_block
        met = whole.run(Phase.MEASURE, Cut.WORDS, threads, ranges=ranges, policy=Policy.IGNORE)
    return met, np.maximum(ranges.max(), 0).view(np.float32)


def _raw_endpoints(x: Array, scheme: QuantScheme, met: Met) -> np.float32:
    """Largest raw scale of any block under the rule ENDPOINTS: that of the array's own bounds."""
    row = scheme.value.format
    finite: Any = True
    with np.errstate(all="ignore"):
        if met or x.dtype.name == "bfloat16":
            # what is finite is decided in float32; otherwise no copy of the array is needed
            x = x.astype(np.float32)
            finite = np.isfinite(x)
        low = np.float32(np.min(x, where=finite, initial=0))
        high = np.float32(np.max(x, where=finite, initial=0))
        return np.float32(np.maximum(low / np.float32(row.qmin), high / np.float32(row.qmax)))


def _tensor_scale(
    largest: np.float32, scheme: QuantScheme, raw: np.float32 | None = None
) -> np.float32:
    """Tensor scale from the largest range of any block, or from the largest raw scale where that
    does not follow from the range.
    """
    block_dtype = scheme.scale_dtype.format
    with np.errstate(all="ignore"):
        if scheme.numerics.tensor_from is TensorFrom.AMAX:
            scale = largest / np.float32(largest_value(scheme) * block_dtype.qmax)
            scale = np.minimum(scale, np.finfo(np.float32).max)
            return _SMALLEST_SUBNORMAL if largest > 0 and scale == 0 else np.float32(scale)
        if raw is None:
            raw = largest / np.float32(range_divisor(scheme))
        raw = np.minimum(raw, np.finfo(np.float32).max)
        return np.float32(np.maximum(raw / np.float32(block_dtype.qmax), _SMALLEST_NORMAL))


def dequantize(stored: Stored, plan: Plan, out: Array, threads: int, dtype=None) -> None:
    """Decode into `out`, an array of shape ``plan.shape`` in native byte order."""
    if not out.size:
        return
    source = _Source(out, dtype)
    lines = collapse(plan, source.strides, Cut.LINES)
    geometry = np.array(lines.table, np.int64)
    codec = codec_of_scheme(plan.scheme)
    tensor_scale = 1.0 if stored.tensor_scale is None else float(stored.tensor_scale)
    data, scales, zeros = map(_flat_copy, (stored.data, stored.scale_data, stored.zero_point))
    rules = scale_arguments(plan.scheme)

    def work(first: int, end: int) -> None:
        kernels.dequantize.run(
            source.array, source.kind, geometry, lines.packed, lines.codes_per_word, lines.chunk,
            *codec.arguments, rules.kind, rules.two_level, tensor_scale, *rules.zero[:2],
            plan.word_bytes, scales, zeros, data, first, end,
        )  # fmt: skip

    run_boxes(work, lines.boxes, threads)
