"""What quantizing arrays in CPU memory takes, prepared once for all that are laid out alike.

A pass over an array is one call of a kernel over its boxes (:func:`arrayq.layout.collapse`):
a box is measured, scaled and encoded while it is in cache. Only where blocks are so large that
there are fewer boxes than threads do the three phases run one after the other.

What follows from a plan and from how an array lies in memory is a :class:`Quantization` or a
:class:`Dequantization`, and kept: a call on a small array takes little longer than its kernel.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache, partial, reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from arrayq._kernels import kernels
from arrayq._kernels.codecs import codec_of_scheme
from arrayq._paths.memory import allocate, new_parts
from arrayq._paths.parts import Met, Parts, Policy, Stored
from arrayq._paths.scale_rules import Measure, largest_raw_scale, measure_of, scale_arguments
from arrayq._paths.threads import run_boxes
from arrayq.layout import Cut, Plan, collapse
from arrayq.numerics import Calibration, TensorFrom
from arrayq.scheme import ScaleDtype

__all__ = ["ELEMENT_KINDS", "Dequantization", "Quantization", "dequantization", "quantization"]

Array = npt.NDArray[Any]

# Numbered as ElementKind in lines.pxd.
ELEMENT_KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3}


class Phase(enum.IntFlag):
    """What a pass does with each box; numbered as in boxes.pxd."""

    MEASURE = 1
    SCALE = 2
    ENCODE = 4


# Looking up a member by its value takes a good part of a small kernel's time.
_METS: tuple[Met, ...] = tuple(Met(flags) for flags in range(4))
# By whether scales are given, then whether codes are wanted.
_PHASES = (
    (Phase.MEASURE | Phase.SCALE, Phase.MEASURE | Phase.SCALE | Phase.ENCODE),
    (Phase.MEASURE, Phase.MEASURE | Phase.ENCODE),
)
_PREPARED = 1024


class _Walk:
    """How the kernels walk arrays of one plan, dtype and strides.

    Parameters
    ----------
    plan : Plan
        The layout.
    dtype : dtype
        Of the array.
    strides : tuple of int
        Of the array, in bytes.
    name : str, optional
        Element type whose bits the array holds as integers; by default that of `dtype`.
    """

    def __init__(
        self, plan: Plan, dtype: np.dtype[Any], strides: tuple[int, ...], name: str | None
    ) -> None:
        self.plan = plan
        self.strides = strides
        self.kind = ELEMENT_KINDS[name or dtype.name]
        self.swapped = not dtype.isnative
        self.empty = 0 in plan.shape
        # bfloat16 arrays do not export a buffer
        self.as_bits = name is None and dtype.name == "bfloat16"

    def arguments(self, cut: Cut, plan: Plan | None = None) -> dict[str, Any]:
        """What both kernels are made from; `plan`, where given, is another view of the array."""
        scheme, plan = self.plan.scheme, plan or self.plan
        lines = collapse(plan, self.strides, cut)
        return {
            "kind": self.kind,
            "geometry": np.array(lines.table, np.int64),
            "packed": lines.packed,
            "codes_per_word": lines.codes_per_word,
            "chunk": lines.chunk,
            "word_bytes": plan.word_bytes,
            "codec": codec_of_scheme(scheme).arguments,
            "rules": scale_arguments(scheme),
            "scale_count": prod(plan.grid),
            "word_count": prod(plan.data_shape),
        }


def _nothing(_x: Array, _policy: Policy) -> None:
    """Do nothing at once."""


class Quantization(_Walk):
    """Quantizing arrays of one plan, dtype and strides; made by :func:`quantization`.

    ``at_once(x, policy)`` is :meth:`into_new` on one thread without the detour over Python, or
    None where it takes that.
    """

    def __init__(
        self,
        plan: Plan,
        calibration: Calibration,
        dtype: np.dtype[Any],
        strides: tuple[int, ...],
        name: str | None,
    ) -> None:
        super().__init__(plan, dtype, strides, name)
        self.measure = measure_of(plan.scheme, calibration)
        self.blocks: Any = None
        self.whole: Any = None
        self.at_once: Callable[[Array, Policy], tuple[int, Any, Any, Any, Any] | None] = _nothing
        if self.empty:
            return
        if plan.scheme.two_level and self.measure is Measure.MAGNITUDE:
            self.whole = self._kernel(Cut.WORDS, plan.as_one_block)
        self.blocks = self._kernel(Cut.BLOCKS, new_parts=new_parts(plan, False), whole=self.whole)
        if not self.as_bits:
            self.at_once = self.blocks.quantize

    @cached_property
    def words(self) -> Any:
        """The kernel for passes that may cut blocks."""
        return self._kernel(Cut.WORDS)

    def _kernel(self, cut: Cut, plan: Plan | None = None, **more: Any) -> Any:
        return kernels.quantize.Quantizer(
            **self.arguments(cut, plan), swapped=self.swapped, measure=self.measure, **more
        )

    def into_new(self, x: Array, policy: Policy, threads: int) -> tuple[int, Any, Any, Any, Any]:
        """Quantize an array of this plan, dtype and strides into memory of its own.

        Returns
        -------
        flags : int
            What was met, as in :class:`Met`.
        data, scale_data, zero_point, tensor_scale : ndarray or None
            The stored parts.
        """
        made = self.at_once(x, policy) if threads == 1 else None
        if made is not None:
            return made
        stored = allocate(self.plan)
        met = self.run(x, policy, threads, stored)
        return met, stored.data, stored.scale_data, stored.zero_point, stored.tensor_scale

    def run(
        self,
        x: Array,
        policy: Policy,
        threads: int,
        stored: Stored,
        encode: bool = True,
        scaled: bool = False,
        tensor_scaled: bool = False,
    ) -> Met:
        """Quantize an array of this plan, dtype and strides; see :func:`quantize`."""
        kernel = self.blocks
        if kernel is None:
            if not scaled:
                self._store_empty(stored)
            return _METS[0]
        if self.as_bits:
            x = x.view(np.uint16)
        tensor_scale = stored.tensor_scale
        if tensor_scale is not None and not (scaled or tensor_scaled):
            refused = self._find_tensor_scale(x, policy, threads, tensor_scale)
            if refused is not None:
                return refused
        phases = _PHASES[scaled][encode]
        if threads > kernel.boxes and self.measure is Measure.MAGNITUDE:
            return self._run_apart(x, policy, threads, stored, phases)
        return _run(kernel, x, stored, phases, policy, threads)

    def _find_tensor_scale(
        self, x: Array, policy: Policy, threads: int, tensor_scale: Array
    ) -> Met | None:
        """Store the tensor scale; return what was met where the policy refuses it."""
        kernel = self.whole or self.blocks
        flags, largest = self._largest_range(x, threads)
        if flags:
            met = _METS[flags]
            if policy is Policy.RAISE or (policy is Policy.SATURATE and met.refused):
                return met
            if policy is Policy.SATURATE and largest == 0:
                # nothing finite but zeros: any scale serves, so long as products with it do not
                # vanish
                tensor_scale[()] = 1
                return None
        if self.measure is Measure.BOUNDS:
            raw = largest_raw_scale(self._floats(x), self.plan.scheme, finite=not flags)
            tensor_scale[()] = kernel.tensor_scale(largest, raw)
        else:
            tensor_scale[()] = kernel.tensor_scale(largest)
        return None

    def _largest_range(self, x: Array, threads: int) -> tuple[int, float]:
        kernel = self.whole or self.blocks
        flags: int
        if threads == 1:
            flags, largest = kernel.largest_range(x)
        else:
            parts = run_boxes(partial(kernel.largest_range, x), kernel.boxes, threads)
            flags, largest = _union(part[0] for part in parts), max(part[1] for part in parts)
        return flags, largest

    def largest_range(self, x: Array, threads: int) -> tuple[Met, float]:
        """Measure an array of this plan, dtype and strides; see :func:`largest_range`."""
        flags, largest = self._largest_range(x.view(np.uint16) if self.as_bits else x, threads)
        return _METS[flags], largest

    def _floats(self, x: Array) -> Array:
        """The array as NumPy can compute with it."""
        if self.kind != ELEMENT_KINDS["bfloat16"]:
            return x
        return (x.astype(np.uint32) << 16).view(np.float32)

    def _run_apart(
        self, x: Array, policy: Policy, threads: int, stored: Stored, phases: Phase
    ) -> Met:
        """Run the phases one after the other, the first and the last of them across blocks."""
        ranges = np.zeros(stored.scale_data.size, np.int32)
        met = _measure_apart(self.words, x, ranges, policy, threads)
        if (met and policy is Policy.RAISE) or (met.refused and policy is Policy.SATURATE):
            return met
        if Phase.SCALE in phases:
            _run(self.blocks, x, stored, Phase.SCALE, policy, 1, ranges)
        elif policy is Policy.PROPAGATE and met:
            _propagate(stored, ranges, self.plan.scheme.scale_dtype)
        if Phase.ENCODE in phases:
            _run(self.words, x, stored, Phase.ENCODE, policy, threads)
        return met

    def _store_empty(self, stored: Stored) -> None:
        stored.scale_data[...] = 0
        if stored.zero_point is not None:
            stored.zero_point[...] = 0
        if stored.tensor_scale is not None:
            # what the kernel makes of a range of zero
            relative = self.plan.scheme.numerics.tensor_from is TensorFrom.BLOCK_SCALES
            stored.tensor_scale[...] = np.finfo(np.float32).smallest_normal if relative else 0


@lru_cache(maxsize=_PREPARED)
def quantization(
    plan: Plan,
    calibration: Calibration,
    dtype: np.dtype[Any],
    strides: tuple[int, ...],
    name: str | None = None,
) -> Quantization:
    """Prepare for quantizing arrays of a plan, dtype and strides; see :class:`_Walk`."""
    return Quantization(plan, calibration, dtype, strides, name)


def _union(flags: Iterable[int]) -> Met:
    return reduce(operator.or_, map(Met, flags))


def _run(
    kernel: Any,
    x: Array,
    stored: Stored,
    phases: Phase,
    policy: Policy,
    threads: int,
    ranges: npt.NDArray[np.int32] | None = None,
) -> Met:
    """Run phases over all boxes; `ranges`, where given, is the grid of ranges to scale by."""
    data, scales, zeros = stored.data, stored.scale_data, stored.zero_point
    tensor_scale = stored.tensor_scale
    if threads == 1:
        flags: int = kernel.run(x, data, scales, zeros, tensor_scale, ranges, phases, policy)
        return _METS[flags]
    work = partial(kernel.run, x, data, scales, zeros, tensor_scale, ranges, phases, policy)
    return _union(run_boxes(work, kernel.boxes, threads))


def _measure_apart(
    kernel: Any, x: Array, ranges: npt.NDArray[np.int32], policy: Policy, threads: int
) -> Met:
    """Measure blocks that threads may share, each into a grid of its own, into `ranges`."""

    def work(first: int, end: int) -> tuple[int, npt.NDArray[np.int32]]:
        own = np.zeros_like(ranges)
        flags = kernel.run(x, None, None, None, None, own, Phase.MEASURE, policy, first, end)
        return flags, own

    measured = run_boxes(work, kernel.boxes, threads)
    for _, own in measured:
        # -1 marks blocks with infinities and no finite range
        marked = np.maximum(ranges, own) <= 0
        np.copyto(ranges, np.where(marked, np.minimum(ranges, own), np.maximum(ranges, own)))
    return _union(flags for flags, _ in measured)


def _propagate(stored: Stored, ranges: npt.NDArray[np.int32], dtype: ScaleDtype) -> None:
    nan = np.nan if dtype is ScaleDtype.F32 else dtype.format.nan_code
    spoilt = ranges >= np.float32(np.inf).view(np.int32)
    stored.scale_data.reshape(-1)[spoilt] = nan
    if stored.zero_point is not None:
        stored.zero_point.reshape(-1)[spoilt] = 0


class Dequantization(_Walk):
    """Decoding into arrays of one plan, dtype and strides; made by :func:`dequantization`."""

    def __init__(
        self, plan: Plan, dtype: np.dtype[Any], strides: tuple[int, ...] | None, name: str | None
    ) -> None:
        self.new_array: Any = None
        if strides is None:
            strides = tuple(
                dtype.itemsize * prod(plan.shape[axis + 1 :]) for axis in range(len(plan.shape))
            )
            self.new_array = partial(np.empty, plan.shape, dtype)
        super().__init__(plan, dtype, strides, name)
        self.lines: Any = None
        if not self.empty:
            self.lines = kernels.dequantize.Dequantizer(
                **self.arguments(Cut.LINES), new_array=self.new_array
            )

    def into_new(self, stored: Parts, threads: int) -> Array:
        """Decode into memory of its own, in C order; only where prepared without strides."""
        if threads == 1 and not (self.empty or self.as_bits):
            try:
                made: Array = self.lines.dequantize(
                    stored.data, stored.scale_data, stored.zero_point, stored.tensor_scale
                )
                return made
            except BufferError:
                pass  # as in `run`, which is to do it
        out: Array = self.new_array()
        self.run(stored, out, threads)
        return out

    def run(self, stored: Parts, out: Array, threads: int) -> None:
        """Decode into an array of this plan, dtype and strides; see :func:`dequantize`."""
        if self.lines is None:
            return
        if self.as_bits:
            out = out.view(np.uint16)
        try:
            self._run(stored, out, threads)
        except BufferError:
            # asking beforehand would take longer than decoding a small array
            self._run(_contiguous(stored), out, threads)

    def _run(self, stored: Parts, out: Array, threads: int) -> None:
        kernel = self.lines
        data, scales, zeros = stored.data, stored.scale_data, stored.zero_point
        if threads == 1:
            kernel.run(out, data, scales, zeros, stored.tensor_scale)
        else:
            work = partial(kernel.run, out, data, scales, zeros, stored.tensor_scale)
            run_boxes(work, kernel.boxes, threads)


def _contiguous(stored: Parts) -> Stored:
    zeros = stored.zero_point
    return Stored(
        np.ascontiguousarray(stored.data),
        np.ascontiguousarray(stored.scale_data),
        None if zeros is None else np.ascontiguousarray(zeros),
        stored.tensor_scale,
    )


@lru_cache(maxsize=_PREPARED)
def dequantization(
    plan: Plan,
    dtype: np.dtype[Any],
    strides: tuple[int, ...] | None = None,
    name: str | None = None,
) -> Dequantization:
    """Prepare for decoding into arrays of a plan, dtype and strides; see :class:`_Walk`.

    Without strides for :meth:`Dequantization.into_new`.
    """
    return Dequantization(plan, dtype, strides, name)
