"""Whole arrays: a plain description of a scheme, and encode and decode under it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import add, divide, multiply, subtract, to_float32
from .blocks import cell_numbers, grid_shape, members
from .elements import ELEMENTS, Integer, Minifloat, encode_values, nearest_entry, value_of
from .extents import extent_of
from .rounding import to_whole, uniforms
from .scales import (
    FLOAT32_SMALLEST_NORMAL,
    Level,
    is_zero,
    no_scale,
    scale_bits,
    smallest_scale,
    stored_scale,
    two_level_scales,
)
from .words import pack_fields
from .zeros import Zero, decoded, settled, zero_bits, zero_point

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spec:
    """A scheme in plain words: names, numbers and tuples only.

    ``block`` is None for a scheme of one per-tensor level, else the block size as the
    user writes it. ``channel`` is the axis of a per-channel scheme. A scheme with a ``zero`` is
    affine.
    """

    value: str = "q8s"
    table: tuple[float, ...] | None = None
    store: str = "native"
    dim: int = 0
    block: tuple[int, ...] | None = None
    channel: int | None = None
    scale_dtype: str = "f32"
    two_level: bool = False
    zero: Zero | None = None
    rounding: str | None = None
    seed: int = 0
    scaling: str = "divide"
    scale_from: str = "range"
    scale_rounding: str = "up"
    smallest_scale: float = 0.0
    zero_block: str = "zero"
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
            self.zero is not None,
            float(np.float32(self.smallest_scale)),
            self.zero_block,
        )

    @property
    def rounding_rule(self) -> str:
        """The rule that rounds elements where nothing looks them up."""
        minifloat = isinstance(ELEMENTS[self.value], Minifloat)
        return self.rounding or ("half_even" if minifloat else "half_away")

    @property
    def bits(self) -> int:
        return ELEMENTS[self.value].width


@dataclass(frozen=True)
class Encoded:
    """An encoded array: unsigned code fields and everything stored beside them."""

    codes: npt.NDArray[np.int64]
    data: npt.NDArray[np.generic]
    scales: Doubles
    scale_data: npt.NDArray[np.generic]
    tensor_scale: np.float32 | None
    zeros: Doubles | None
    zero_data: npt.NDArray[np.generic] | None
    values: Floats


class NaNFoundError(ValueError):
    """A NaN where the policy cannot encode one."""


def encode_array(
    x: Any,
    spec: Spec,
    *,
    nonfinite: str = "raise",
    scales: Doubles | None = None,
    tensor_scale: float | None = None,
    zeros: Doubles | None = None,
) -> Encoded:
    """Encode an array; given ``scales`` and ``zeros`` replace calibration."""
    floats = to_float32(x)
    bad = ~np.isfinite(floats)
    if bad.any() and (nonfinite == "raise" or (nonfinite == "saturate" and np.isnan(floats).any())):
        raise NaNFoundError("the array holds values that are not finite")
    block = spec.block_on(floats.ndim)
    cells = cell_numbers(floats.shape, block)
    grid = grid_shape(floats.shape, block)
    if scales is None:
        found = _calibrate(floats, cells, math.prod(grid), spec, nonfinite)
        tensor_scale, flat_scales, flat_zeros = found
        scales = np.array(flat_scales, np.float64).reshape(grid)
        zeros = None if flat_zeros is None else np.array(flat_zeros, np.float64).reshape(grid)
    scale = effective(scales, tensor_scale, cells)
    codes = encode_with(floats, scale, per_element(zeros, cells), spec)
    stored = None if tensor_scale is None else np.float32(tensor_scale)
    return Encoded(
        codes=codes,
        data=stored_data(codes, spec),
        scales=scales,
        scale_data=scale_bits(scales, spec.scale_dtype),
        tensor_scale=stored,
        zeros=zeros,
        zero_data=None if zeros is None or spec.zero is None else zero_bits(zeros, spec.zero.dtype),
        values=decode_array(codes, scales, tensor_scale, spec, zeros=zeros),
    )


def _calibrate(
    floats: Floats, cells: npt.NDArray[np.int64], count: int, spec: Spec, nonfinite: str
) -> tuple[float | None, list[float], list[float] | None]:
    """Return the tensor scale, the stored scales and the stored zero points."""
    flat = floats.ravel().tolist()
    groups = [[flat[k] for k in positions] for positions in members(cells, count)]
    finite = [[v for v in group if math.isfinite(v)] for group in groups]
    extents = [extent_of(group, spec.calibration) for group in finite]
    if spec.zero is not None:
        extents = [settled(extent, spec.zero, spec.level) for extent in extents]
    tensor: float | None = None
    if spec.two_level:
        tensor, stored = two_level_scales(extents, spec.level)
        zeros_only = all(is_zero(extent, spec.level) for extent in extents)
        if nonfinite == "saturate" and zeros_only and not np.isfinite(floats).all():
            # Nothing finite but zeros beside infinities: a scale that makes no product vanish.
            tensor = 1.0
    else:
        stored = [stored_scale(extent, spec.level) for extent in extents]
    if not flat:
        # Blocks without elements are no blocks of zeros.
        nothing = [no_scale(spec.scale_dtype)] * count
        return tensor, nothing, None if spec.zero is None else [0.0] * count
    for k, group in enumerate(groups):
        if len(finite[k]) == len(group):
            continue
        if nonfinite == "propagate":
            stored[k] = math.nan
        elif is_zero(extents[k], spec.level):
            smallest = smallest_scale(spec.scale_dtype)
            stored[k] = FLOAT32_SMALLEST_NORMAL if spec.scale_dtype == "f32" else smallest
    if spec.zero is None:
        return tensor, stored, None
    zeros = [
        zero_point(extent, scale, spec.zero, spec.level, spec.rounding_rule)
        for extent, scale in zip(extents, stored, strict=True)
    ]
    return tensor, stored, zeros


def per_element(grid: Doubles | None, cells: npt.NDArray[np.int64]) -> Floats:
    """Return the number of every element's block; zeros where there is no grid."""
    if grid is None or not grid.size:
        return np.zeros(cells.shape, np.float32)
    return grid.ravel().astype(np.float32)[cells]


def effective(scales: Doubles, tensor_scale: float | None, cells: npt.NDArray[np.int64]) -> Floats:
    """Return the multiplier of every element: f32(scale * tensor scale) of its block."""
    scale = per_element(scales, cells)
    return scale if tensor_scale is None else multiply(scale, np.float32(tensor_scale))


def quotients(x: Floats, scale: Floats, *, by_reciprocal: bool) -> Floats:
    """Return x / scale, or x * (1 / scale) where 1 / scale is finite; a zero where scale is 0."""
    usable = np.where((scale == 0) | np.isnan(scale), np.float32(1), scale)
    inverse = divide(1.0, usable)
    products = by_reciprocal & np.isfinite(inverse)
    v = np.where(products, multiply(x, inverse), divide(x, usable))
    return np.where(scale == 0, np.copysign(np.float32(0), x), v)


def encode_with(floats: Floats, scale: Floats, zero: Floats, spec: Spec) -> npt.NDArray[np.int64]:
    """Return the codes of f32(x / scale); where the scale is 0 or NaN, the codes of zero.

    An infinity has the code that decodes furthest to its side under every other scale.
    """
    beyond = np.isinf(floats) & (scale != 0)
    far = np.where(scale < 0, -floats, floats)
    inverts = spec.zero is not None and spec.scale_from == "inverse_range"
    by_reciprocal = inverts or spec.scaling == "reciprocal"
    finite = np.where(np.isinf(floats), np.copysign(np.float32(0), floats), floats)
    drawn = uniforms(spec.seed, floats.shape) if spec.rounding == "stochastic" else None
    if spec.zero is None:
        v = quotients(finite, scale, by_reciprocal=by_reciprocal)
        v = np.where(beyond, far, v)
        v = np.where(np.isnan(scale), np.float32(0), v)
        if spec.table is not None:
            return nearest_entry(v, spec.table)
        return encode_values(v, spec.value, rounding=spec.rounding_rule, drawn=drawn)
    element = ELEMENTS[spec.value]
    assert isinstance(element, Integer)
    low, high = np.float32(element.low), np.float32(element.high)
    if spec.zero.kind == "bias":
        finite, shift = subtract(finite, add(zero, multiply(low, scale))), low
    else:
        shift = zero
    v = quotients(finite, scale, by_reciprocal=by_reciprocal)
    if not spec.zero.is_whole and spec.zero.kind == "code":
        v, shift = add(v, zero), np.float32(0)
    v = np.where(beyond, far, v)
    v = np.where(np.isnan(scale), np.float32(0), v)
    codes = np.clip(to_whole(v, spec.rounding_rule, drawn) + shift, low, high)
    of_nan = np.clip(0, low, high)
    whole = np.where(np.isnan(scale), of_nan, codes).astype(np.int64)
    return whole % 2**element.width


def stored_data(codes: npt.NDArray[np.int64], spec: Spec) -> npt.NDArray[np.generic]:
    """Return the data array: int8 codes, uint8 fields, or packed words."""
    words = pack_fields(codes, spec.bits, spec.store, spec.dim)
    if spec.store == "packed_u32":
        return words.astype(np.uint32)
    element = ELEMENTS[spec.value]
    signed = isinstance(element, Integer) and element.low < 0 and spec.table is None
    if spec.store == "native" and signed:
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
    zeros: Doubles | None = None,
) -> Floats:
    """Return f32(value of the code * effective scale); affine codes as their zero point says."""
    cells = cell_numbers(codes.shape, spec.block_on(codes.ndim), offset)
    element = ELEMENTS[spec.value]
    assert isinstance(element, Integer | Minifloat)
    table = spec.table or tuple(value_of(element, code) for code in range(2**element.width))
    numbers, scale = np.array(table, np.float32)[codes], effective(scales, tensor_scale, cells)
    if spec.zero is not None:
        return decoded(numbers, scale, per_element(zeros, cells), spec.zero.kind)
    return multiply(scale, numbers)
