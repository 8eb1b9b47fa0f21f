"""Whole arrays: a plain description of a scheme, and encode and decode under it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import divide, multiply, to_float32
from .blocks import cell_numbers, grid_shape, members
from .elements import ELEMENTS, Integer, Minifloat, encode_values, nearest_entry, value_of
from .scales import (
    FLOAT32_SMALLEST_NORMAL,
    Level,
    block_range,
    scale_bits,
    smallest_scale,
    stored_scale,
    two_level_scales,
)
from .words import pack_fields


@dataclass(frozen=True)
class Spec:
    """A scheme in plain words: names, numbers and tuples only.

    ``block`` is None for a scheme of one per-tensor level, else the block size as the
    user writes it. ``channel`` is the axis of a per-channel scheme.
    """

    value: str = "q8s"
    table: tuple[float, ...] | None = None
    store: str = "native"
    dim: int = 0
    block: tuple[int, ...] | None = None
    channel: int | None = None
    scale_dtype: str = "f32"
    two_level: bool = False
    scale_from: str = "range"
    scale_rounding: str = "up"
    tensor_from: str = "block_scales"
    calibration: str = "minmax"

    def block_on(self, ndim: int) -> tuple[int, ...] | None:
        """Return the block of an array of a given rank."""
        if self.channel is None:
            return self.block
        axis = self.channel % ndim
        return tuple(1 if k == axis else -1 for k in range(ndim))

    @property
    def level(self) -> Level:
        return Level(
            self.value,
            self.table,
            self.scale_dtype,
            self.scale_from,
            self.scale_rounding,
            self.tensor_from,
            self.two_level,
        )

    @property
    def bits(self) -> int:
        return ELEMENTS[self.value].width


@dataclass(frozen=True)
class Encoded:
    """An encoded array: unsigned code fields and everything stored beside them."""

    codes: npt.NDArray[np.int64]
    data: npt.NDArray[np.generic]
    scales: npt.NDArray[np.float64]
    scale_data: npt.NDArray[np.generic]
    tensor_scale: np.float32 | None
    values: npt.NDArray[np.float32]


class NaNFoundError(ValueError):
    """A NaN where the policy cannot encode one."""


def encode_array(
    x: Any,
    spec: Spec,
    *,
    nonfinite: str = "raise",
    scales: npt.NDArray[np.float64] | None = None,
    tensor_scale: float | None = None,
) -> Encoded:
    """Encode an array; given ``scales`` replace calibration."""
    floats = to_float32(x)
    bad = ~np.isfinite(floats)
    if bad.any() and (nonfinite == "raise" or (nonfinite == "saturate" and np.isnan(floats).any())):
        raise NaNFoundError("the array holds values that are not finite")
    block = spec.block_on(floats.ndim)
    cells = cell_numbers(floats.shape, block)
    grid = grid_shape(floats.shape, block)
    if scales is None:
        tensor_scale, flat = _calibrate(floats, cells, math.prod(grid), spec, nonfinite)
        scales = np.array(flat, np.float64).reshape(grid)
    codes = encode_with(floats, effective(scales, tensor_scale, cells), spec)
    stored = None if tensor_scale is None else np.float32(tensor_scale)
    return Encoded(
        codes=codes,
        data=stored_data(codes, spec),
        scales=scales,
        scale_data=scale_bits(scales, spec.scale_dtype),
        tensor_scale=stored,
        values=decode_array(codes, scales, tensor_scale, spec),
    )


def _calibrate(
    floats: npt.NDArray[np.float32],
    cells: npt.NDArray[np.int64],
    count: int,
    spec: Spec,
    nonfinite: str,
) -> tuple[float | None, list[float]]:
    flat = floats.ravel().tolist()
    groups = [[flat[k] for k in positions] for positions in members(cells, count)]
    finite = [[v for v in group if math.isfinite(v)] for group in groups]
    ranges = [block_range(group, spec.calibration) for group in finite]
    tensor: float | None = None
    if spec.two_level:
        amax = max(ranges, default=0.0)
        tensor, stored = two_level_scales(ranges, amax, spec.level)
        if nonfinite == "saturate" and amax == 0.0 and not np.isfinite(floats).all():
            # Nothing finite but zeros beside infinities: a scale that makes no product vanish.
            tensor = 1.0
    else:
        stored = [stored_scale(r, spec.level) for r in ranges]
    for k, group in enumerate(groups):
        if len(finite[k]) == len(group):
            continue
        if nonfinite == "propagate":
            stored[k] = math.nan
        elif ranges[k] == 0.0:
            smallest = smallest_scale(spec.scale_dtype)
            stored[k] = FLOAT32_SMALLEST_NORMAL if spec.scale_dtype == "f32" else smallest
    return tensor, stored


def effective(
    scales: npt.NDArray[np.float64], tensor_scale: float | None, cells: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Return the multiplier of every element: f32(scale * tensor scale) of its block."""
    flat = scales.ravel().astype(np.float32)
    if tensor_scale is not None:
        flat = multiply(flat, np.float32(tensor_scale))
    return flat[cells] if flat.size else np.zeros(cells.shape, np.float32)


def encode_with(
    floats: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], spec: Spec
) -> npt.NDArray[np.int64]:
    """Return the codes of f32(x / scale); where the scale is 0 or NaN, the codes of zero.

    An infinity has the largest code of its sign under every other scale, infinity included.
    """
    zero = np.copysign(np.float32(0), floats)
    usable = np.where((scale == 0) | np.isnan(scale), np.float32(1), scale)
    v = np.where(scale == 0, zero, divide(floats, usable))
    v = np.where(np.isinf(floats) & (scale != 0), floats, v)
    v = np.where(np.isnan(scale), np.float32(0), v)
    if spec.table is not None:
        return nearest_entry(v, spec.table)
    return encode_values(v, spec.value)


def stored_data(codes: npt.NDArray[np.int64], spec: Spec) -> npt.NDArray[np.generic]:
    """Return the data array: int8 codes, uint8 fields, or packed words."""
    words = pack_fields(codes, spec.bits, spec.store, spec.dim)
    if spec.store == "packed_u32":
        return words.astype(np.uint32)
    element = ELEMENTS[spec.value]
    if spec.store == "native" and spec.table is None and isinstance(element, Integer):
        half = 2 ** (element.width - 1)
        return np.where(codes >= half, codes - 2 * half, codes).astype(np.int8)
    return words.astype(np.uint8)


def decode_array(
    codes: npt.NDArray[np.int64],
    scales: npt.NDArray[np.float64],
    tensor_scale: float | None,
    spec: Spec,
    *,
    offset: Sequence[int] | None = None,
) -> npt.NDArray[np.float32]:
    """Return f32(value of the code * effective scale)."""
    cells = cell_numbers(codes.shape, spec.block_on(codes.ndim), offset)
    element = ELEMENTS[spec.value]
    assert isinstance(element, Integer | Minifloat)
    table = spec.table or tuple(value_of(element, code) for code in range(2**element.width))
    return multiply(effective(scales, tensor_scale, cells), np.array(table, np.float32)[codes])
