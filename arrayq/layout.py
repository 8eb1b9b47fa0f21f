"""Block geometry: where scales and words lie. Integers only, no array library.

:func:`plan` says, for a scheme and a shape, what the scale grid and the stored data look like.
:func:`collapse` then merges axes that memory and blocks allow to be walked as one, and cuts the
array into boxes for the kernels. Both are cached: they depend on nothing but their arguments.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import lcm, prod
from typing import Any, NamedTuple

from arrayq.errors import LayoutError
from arrayq.scheme import QuantScheme

__all__ = ["Cut", "Lines", "Plan", "collapse", "part_dtypes", "plan"]

# Elements of one box: its float32 values (16 KB) stay in the first-level cache between the pass
# that measures and the pass that encodes.
BOX_ELEMENTS = 4096
# A box narrower than this would waste the cache lines that its lines touch.
BOX_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """Shapes that follow from a scheme and the shape of an array.

    Attributes
    ----------
    scheme : QuantScheme
        The scheme with ``per_channel`` resolved to a block of the array's rank.
    shape : tuple of int
        Shape of the array.
    block : tuple of int
        Block extent per axis; an extent that spans its axis is that axis's length.
    block_offset : tuple of int
        Place of element 0 inside its first block, per axis, counted from the first axis.
    grid : tuple of int
        Shape of the scale grid: ``ceil((block_offset + shape) / block)`` per axis.
    packed_axis : int or None
        Axis along which codes share words; None when every code has its own.
    codes_per_word : int
        Codes in one word, 1 when every code has its own.
    data_shape : tuple of int
        Shape of the stored data: the packed axis divided by `codes_per_word`, rounding up.
    data_dtype : str
        Name of the dtype of the stored data.
    """

    scheme: QuantScheme
    shape: tuple[int, ...]
    block: tuple[int, ...]
    block_offset: tuple[int, ...]
    grid: tuple[int, ...]
    packed_axis: int | None
    codes_per_word: int
    data_shape: tuple[int, ...]
    data_dtype: str
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # plans are the keys of caches, and hashing a scheme takes longer than a small kernel
        key = self.scheme, self.shape, self.block, self.block_offset, self.packed_axis
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # hashes differ from process to process
        return Plan, tuple(getattr(self, one.name) for one in fields(self) if one.init)

    @property
    def meaning(self) -> tuple[QuantScheme, int | None, tuple[int, ...]]:
        """What the stored parts do not tell of themselves: the scheme, the length of the packed
        axis, and the block offset without leading zeros.
        """
        offset, packed = self.block_offset, self.packed_axis
        while offset and offset[0] == 0:
            offset = offset[1:]
        return self.scheme, None if packed is None else self.shape[packed], offset

    @property
    def word_bytes(self) -> int:
        """Bytes of one word of the stored data."""
        return 4 if self.data_dtype == "uint32" else 1

    @property
    def part_dtypes(self) -> tuple[str, str, str | None, str | None]:
        """Names of the dtypes of data, scales, zero points and tensor scale; None for none."""
        return part_dtypes(self.scheme)

    @property
    def as_one_block(self) -> Plan:
        """The same array as a single block of unpacked elements, for what concerns all of it."""
        return replace(
            self,
            block=tuple(max(1, length) for length in self.shape),
            block_offset=(0,) * len(self.shape),
            grid=(1,) * len(self.shape),
            packed_axis=None,
            codes_per_word=1,
            data_shape=self.shape,
        )


def part_dtypes(scheme: QuantScheme) -> tuple[str, str, str | None, str | None]:
    """Return the names of the dtypes of data, scales, zero points and tensor scale; None for what
    a scheme lacks.
    """
    return (
        scheme.data_dtype,
        scheme.scale_dtype.stored_dtype,
        None if scheme.zero is None else scheme.zero.dtype.stored_dtype,
        "float32" if scheme.two_level else None,
    )


@lru_cache(maxsize=4096)
def plan(scheme: QuantScheme, shape: tuple[int, ...], block_offset: tuple[int, ...] = ()) -> Plan:
    """Lay out an array of a shape under a scheme.

    Parameters
    ----------
    scheme : QuantScheme
        Any scheme; ``per_channel`` is resolved for the rank of `shape`.
    shape : tuple of int
        Shape of the array.
    block_offset : tuple of int, optional
        Place of element 0 inside its first block per axis, aligned to the trailing axes;
        missing leading axes are 0.

    Returns
    -------
    Plan
        The layout.

    Raises
    ------
    LayoutError
        When the block has more axes than the array, the packed axis does not exist, or an
        offset lies outside its block.
    """
    ndim = len(shape)
    resolved = scheme.resolve(ndim)
    extents = resolved.block_extents(ndim)
    offset = (0,) * (ndim - len(block_offset)) + tuple(block_offset)
    if len(offset) != ndim:
        raise LayoutError(
            f"block_offset requires at most {ndim} axes for shape {shape}, got {block_offset}"
        )
    for axis, (start, extent) in enumerate(zip(offset, extents, strict=True)):
        if start < 0 or (start and not start < extent):
            raise LayoutError(
                f"block_offset requires 0 <= offset < block extent on each axis, got {start} on "
                f"axis {axis} with block {extents}"
            )
    block = tuple(
        extent if start else max(1, length if extent == -1 else min(extent, length))
        for extent, start, length in zip(extents, offset, shape, strict=True)
    )
    if resolved.block is None:
        grid = (1,) * ndim
    else:
        grid = tuple(
            -(-(start + length) // extent) if length else 0
            for start, length, extent in zip(offset, shape, block, strict=True)
        )
    store = resolved.store
    codes_per_word = store.codes_per_word(resolved.value)
    packed_axis = None
    data_shape = shape
    if store.is_packed:
        if ndim and store.dim >= ndim:
            raise LayoutError(
                f"store {store} requires more than {store.dim} axes, got shape {shape}"
            )
        if ndim:
            packed_axis = ndim - 1 - store.dim
            words = -(-shape[packed_axis] // codes_per_word)
            data_shape = (*shape[:packed_axis], words, *shape[packed_axis + 1 :])
    return Plan(
        resolved, shape, block, offset, grid, packed_axis, codes_per_word, data_shape,
        resolved.data_dtype,
    )  # fmt: skip


class Cut(enum.Enum):
    """How far an array may be cut into boxes."""

    BLOCKS = "no two boxes share a block or a word: a pass that measures, scales and encodes"
    WORDS = "no two boxes share a word: a pass that only measures or only encodes"
    LINES = "any part of any line: a pass that decodes"


class _Axis(NamedTuple):
    """One axis on its way through :func:`collapse`."""

    shape: int
    block: int
    offset: int
    grid_stride: int
    array_stride: int
    data_stride: int
    packed: bool


@dataclass(frozen=True, slots=True)
class Lines:
    """An array as the kernels walk it: collapsed axes and the boxes they are cut into.

    Attributes
    ----------
    table : tuple of tuple of int
        Rows shape, block, offset, grid stride (scales), array stride (bytes), data stride
        (words) and box extent, one column per collapsed axis, the line last.
    packed : int
        Collapsed packed axis, -1 when every code has its own word.
    codes_per_word : int
        Codes in one word.
    chunk : int
        Columns of one box.
    boxes : int
        Number of boxes.
    """

    table: tuple[tuple[int, ...], ...]
    packed: int
    codes_per_word: int
    chunk: int
    boxes: int


@lru_cache(maxsize=4096)
def collapse(plan: Plan, strides: tuple[int, ...], cut: Cut = Cut.BLOCKS) -> Lines:
    """Merge what can be walked as one and cut the array into boxes.

    Parameters
    ----------
    plan : Plan
        Layout of an array without zero-size axes.
    strides : tuple of int
        Byte strides of the float array.
    cut : Cut
        What the boxes must not share.

    Returns
    -------
    Lines
        Geometry for the kernels.
    """
    axes = _merged_axes(plan, strides)
    line = axes[-1]
    steps = [_step(axis, plan.codes_per_word, cut) for axis in axes]
    if cut is Cut.LINES:
        steps[:-1] = [1] * (len(axes) - 1)
    boxes = [min(axis.shape, step) for axis, step in zip(axes[:-1], steps, strict=False)]
    columns = max(BOX_COLUMNS, BOX_ELEMENTS // prod(boxes))
    chunk = min(line.shape, max(1, columns // steps[-1]) * steps[-1])
    extents = (*boxes, chunk)
    packed = next((i for i, axis in enumerate(axes) if axis.packed), -1)
    return Lines(
        (*zip(*(axis[:6] for axis in axes), strict=True), extents),
        packed,
        plan.codes_per_word,
        chunk,
        prod(-(-axis.shape // extent) for axis, extent in zip(axes, extents, strict=True)),
    )


def _step(axis: _Axis, codes_per_word: int, cut: Cut) -> int:
    """Smallest extent along an axis after which a new box may start."""
    words = codes_per_word if axis.packed else 1
    return lcm(words, axis.block) if cut is Cut.BLOCKS else words


def _c_strides(shape: tuple[int, ...]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def _merged_axes(plan: Plan, strides: tuple[int, ...]) -> list[_Axis]:
    """Axes of the walk, outermost first; axes of length 1 that hold no words are dropped."""
    grid_strides = _c_strides(plan.grid)
    data_strides = _c_strides(plan.data_shape)
    merged: list[_Axis] = []
    for i in range(len(plan.shape) - 1, -1, -1):
        packed = i == plan.packed_axis
        if plan.shape[i] == 1 and not packed:
            continue
        axis = _Axis(
            plan.shape[i], plan.block[i], plan.block_offset[i], grid_strides[i], strides[i],
            data_strides[i], packed,
        )  # fmt: skip
        joined = _join(axis, merged[-1], plan) if merged else None
        if joined is None:
            merged.append(axis)
        else:
            merged[-1] = joined
    merged.reverse()
    if not merged:
        merged.append(_Axis(1, 1, 0, 1, 0, 1, not plan.shape and plan.codes_per_word > 1))
    return merged


def _join(outer: _Axis, inner: _Axis, plan: Plan) -> _Axis | None:
    """One axis that visits `outer` and `inner` in the same order, or None."""
    if outer.packed or (inner.packed and inner.shape % plan.codes_per_word):
        return None
    if outer.array_stride != inner.shape * inner.array_stride or outer.offset or inner.offset:
        return None
    shape = outer.shape * inner.shape
    if inner.block >= inner.shape:
        return inner._replace(
            shape=shape, block=outer.block * inner.shape, grid_stride=outer.grid_stride,
            array_stride=inner.array_stride,
        )  # fmt: skip
    if outer.block == 1 and inner.shape % inner.block == 0:
        return inner._replace(shape=shape)
    return None
