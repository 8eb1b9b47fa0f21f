"""Arrays in CPU memory, through the compiled kernels, without a copy.

A pass over an array is one call of a kernel over its boxes (:func:`arrayq.layout.collapse`):
a box is measured, scaled and encoded while it is in cache. Only where blocks are so large that
there are fewer boxes than threads do the three phases run one after the other.
"""

from __future__ import annotations

import enum
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from arrayq._kernels import kernels
from arrayq._kernels.codecs import codec_of_scheme
from arrayq._paths.threads import run_boxes
from arrayq.layout import Cut, Lines, Plan, collapse
from arrayq.numerics import Calibration, ScaleFrom, ScaleRounding, TensorFrom
from arrayq.scheme import QuantMode, QuantScheme, ScaleDtype

__all__ = ["Met", "Policy", "Stored", "allocate", "dequantize", "quantize"]

Array = npt.NDArray[Any]

# Numbered as ElementKind in lines.pxd.
ELEMENT_KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3}
# Numbered as ScaleKind in scales.pxd.
SCALE_KINDS = {
    ScaleDtype.F32: 0,
    ScaleDtype.F16: 1,
    ScaleDtype.BF16: 2,
    ScaleDtype.UE8M0: 3,
    ScaleDtype.UE4M3: 4,
}
# Numbered as ScaleRule in scales.pxd.
SCALE_RULES = {ScaleRounding.UP: 0, ScaleRounding.NEAREST: 1, ScaleFrom.FLOOR: 2}

_SMALLEST_NORMAL = np.float32(2.0**-126)
_SMALLEST_SUBNORMAL = np.float32(2.0**-149)


class Phase(enum.IntFlag):
    """What a pass does with each box; numbered as in quantize.pyx."""

    MEASURE = 1
    SCALE = 2
    ENCODE = 4


class Policy(enum.IntEnum):
    """What becomes of NaN and infinities; numbered as in quantize.pyx."""

    RAISE = 0
    PROPAGATE = 1
    SATURATE = 2
    IGNORE = 3


class Met(enum.IntFlag):
    """What a pass met; numbered as in quantize.pyx."""

    NONFINITE = 1
    NAN = 2

    @property
    def refused(self) -> Met:
        """The part that no saturation can express."""
        return self & Met.NAN


@dataclass(frozen=True, eq=False)
class Stored:
    """The arrays of a quantized array: data, scale grid and tensor scale."""

    data: Array
    scale_data: Array
    tensor_scale: Array | None


@dataclass(frozen=True)
class _ScaleRules:
    """Scale arguments of the kernels, from a scheme."""

    kind: int
    rule: int
    divisor: float
    largest_exponent: int
    two_level: bool
    keeps_vanished: bool

    def arguments(self, tensor_scale: float) -> tuple[Any, ...]:
        return (
            self.kind, self.rule, self.divisor, self.largest_exponent, self.two_level,
            self.keeps_vanished, tensor_scale,
        )  # fmt: skip


@lru_cache(maxsize=256)
def _scale_rules(scheme: QuantScheme) -> _ScaleRules:
    numerics = scheme.numerics
    rule = SCALE_RULES[numerics.scale_rounding]
    if numerics.scale_from is ScaleFrom.FLOOR:
        rule = SCALE_RULES[ScaleFrom.FLOOR]
    return _ScaleRules(
        SCALE_KINDS[scheme.scale_dtype], rule, _range_divisor(scheme),
        _largest_exponent(scheme), scheme.two_level,
        scheme.two_level and numerics.tensor_from is TensorFrom.BLOCK_SCALES,
    )  # fmt: skip


def _largest_value(scheme: QuantScheme) -> float:
    """Largest magnitude that a code means before it is scaled."""
    if scheme.mode is QuantMode.LOOKUP:
        return max(abs(entry) for entry in scheme.require_codebook())
    return scheme.value.format.qmax


def _range_divisor(scheme: QuantScheme) -> float:
    if scheme.mode is QuantMode.SYMMETRIC and scheme.numerics.scale_from is ScaleFrom.RANGE:
        return scheme.value.format.half_range
    return _largest_value(scheme)


def _largest_exponent(scheme: QuantScheme) -> int:
    if scheme.mode is QuantMode.LOOKUP:
        return int(np.frexp(_largest_value(scheme))[1]) - 1
    return scheme.value.format.largest_exponent


def allocate(plan: Plan) -> Stored:
    """Uninitialised arrays for a plan."""
    scheme = plan.scheme
    return Stored(
        np.empty(plan.data_shape, plan.data_dtype),
        np.empty(plan.grid, scheme.scale_dtype.stored_dtype),
        np.empty((), np.float32) if scheme.two_level else None,
    )


class _Source:
    """A float array as the kernels read it."""

    def __init__(self, x: Array) -> None:
        name = x.dtype.name
        self.kind = ELEMENT_KINDS[name]
        self.swapped = not x.dtype.isnative
        # bfloat16 arrays do not export a buffer
        self.array = x.view(np.uint16) if name == "bfloat16" else x
        self.strides = x.strides


def _flat_bytes(array: Array) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


class _Pass:
    """One array, one plan: the arguments that all calls of the quantize kernel share."""

    def __init__(self, x: Array, plan: Plan, calibration: Calibration, policy: Policy) -> None:
        self.source = _Source(x)
        self.plan = plan
        self.absmean = calibration is Calibration.ABSMEAN
        self.policy = policy
        self.codec = codec_of_scheme(plan.scheme)
        self.scales = _scale_rules(plan.scheme)

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
        data = None if stored is None else _flat_bytes(stored.data)
        # threads that may share a block measure into grids of their own
        shared = Phase.MEASURE in phases and cut is Cut.WORDS and ranges is not None

        def work(first: int, end: int) -> tuple[int, npt.NDArray[np.int32] | None]:
            own = np.zeros_like(ranges) if shared else ranges
            met = kernels.quantize.run(
                self.source.array, self.source.kind, self.source.swapped, geometry, lines.packed,
                lines.codes_per_word, lines.chunk, *self.codec.arguments,
                *self.scales.arguments(tensor_scale), int(phases),
                int(self.policy if policy is None else policy), self.absmean,
                self.plan.word_bytes, own, scales, data, first, end,
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

    Returns
    -------
    Met
        What was met.
    """
    if not x.size:
        _store_empty(plan, stored, scaled=scaled)
        return Met(0)
    work = _Pass(x, plan, calibration, policy)
    met = Met(0)
    if stored.tensor_scale is not None and not scaled:
        found, largest = _tensor_range(work, threads)
        if policy is not Policy.PROPAGATE and (found if policy is Policy.RAISE else found.refused):
            return found
        stored.tensor_scale[...] = _tensor_scale(largest, plan.scheme)
        if found and largest == 0 and policy is Policy.SATURATE:
            # nothing finite but zeros: any scale serves, so long as products with it do not vanish
            stored.tensor_scale[...] = 1
    tensor_scale = 1.0 if stored.tensor_scale is None else float(stored.tensor_scale)
    phases = Phase.MEASURE
    if not scaled:
        phases |= Phase.SCALE
    if encode:
        phases |= Phase.ENCODE
    few_boxes = work.lines(Cut.BLOCKS).boxes < threads and not work.absmean
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
    stored.scale_data.reshape(-1)[ranges >= np.float32(np.inf).view(np.int32)] = nan


def _store_empty(plan: Plan, stored: Stored, *, scaled: bool) -> None:
    if scaled:
        return
    stored.scale_data[...] = 0
    if stored.tensor_scale is not None:
        stored.tensor_scale[...] = _tensor_scale(np.float32(0), plan.scheme)


def _tensor_range(work: _Pass, threads: int) -> tuple[Met, np.float32]:
    """What the array holds beside finite numbers, and its largest finite block range."""
    if work.absmean:
        ranges = np.zeros(int(np.prod(work.plan.grid)), np.int32)
        met = work.run(Phase.MEASURE, Cut.BLOCKS, threads, ranges=ranges, policy=Policy.IGNORE)
    else:
        ranges = np.zeros(1, np.int32)
        whole = copy(work)
        whole.plan = work.plan.as_one_block
        met = whole.run(Phase.MEASURE, Cut.WORDS, threads, ranges=ranges, policy=Policy.IGNORE)
    return met, np.maximum(ranges.max(), 0).view(np.float32)


def _tensor_scale(largest: np.float32, scheme: QuantScheme) -> np.float32:
    """Tensor scale from the largest range of any block, by the scheme's rule."""
    block_dtype = scheme.scale_dtype.format
    with np.errstate(all="ignore"):
        if scheme.numerics.tensor_from is TensorFrom.AMAX:
            scale = largest / np.float32(_largest_value(scheme) * block_dtype.qmax)
            scale = np.minimum(scale, np.finfo(np.float32).max)
            return _SMALLEST_SUBNORMAL if largest > 0 and scale == 0 else np.float32(scale)
        raw = np.minimum(largest / np.float32(_range_divisor(scheme)), np.finfo(np.float32).max)
        return np.float32(np.maximum(raw / np.float32(block_dtype.qmax), _SMALLEST_NORMAL))


def dequantize(stored: Stored, plan: Plan, out: Array, threads: int) -> None:
    """Decode into `out`, an array of shape ``plan.shape`` in native byte order."""
    if not out.size:
        return
    source = _Source(out)
    lines = collapse(plan, source.strides, Cut.LINES)
    geometry = np.array(lines.table, np.int64)
    codec = codec_of_scheme(plan.scheme)
    tensor_scale = 1.0 if stored.tensor_scale is None else float(stored.tensor_scale)
    data, scales = _flat_bytes(stored.data), _flat_bytes(stored.scale_data)

    def work(first: int, end: int) -> None:
        kernels.dequantize.run(
            source.array, source.kind, geometry, lines.packed, lines.codes_per_word, lines.chunk,
            *codec.arguments, SCALE_KINDS[plan.scheme.scale_dtype], stored.tensor_scale is not None,
            tensor_scale, plan.word_bytes, scales, data, first, end,
        )  # fmt: skip

    run_boxes(work, lines.boxes, threads)
