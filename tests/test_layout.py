"""Block geometry: grids, words, offsets, and the walk of the kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest

import arrayq as aq
from arrayq.layout import Cut, collapse, plan

BASE = aq.QuantScheme(value="q4s", store="native")


@pytest.mark.parametrize(
    ("scheme", "shape", "grid"),
    [
        (BASE.per_block([32]), (4, 100), (4, 4)),
        (BASE.per_block([2, 4]), (5, 7), (3, 2)),
        (BASE.per_block([2, -1]), (5, 7), (3, 1)),
        (BASE.per_block([64]), (3,), (1,)),
        (BASE.per_block([64]), (3, 0), (3, 0)),
        (BASE.per_block([64]), (0, 32), (0, 1)),
        (BASE.per_channel(0), (5, 7, 2), (5, 1, 1)),
        (BASE.per_channel(-1), (5, 7, 2), (1, 1, 2)),
        (BASE, (5, 7), (1, 1)),
        (BASE, (0, 7), (1, 1)),
        (BASE, (), ()),
    ],
)
def test_the_grid_has_one_scale_per_block(
    scheme: aq.QuantScheme, shape: tuple[int, ...], grid: tuple[int, ...]
) -> None:
    assert plan(scheme, shape).grid == grid


@pytest.mark.parametrize(
    ("store", "shape", "data_shape", "dtype"),
    [
        ("native", (3, 5), (3, 5), "int8"),
        ("packed_native", (3, 5), (3, 3), "uint8"),
        ("packed_u32", (3, 3), (3, 1), "uint32"),
        ("packed_u32(1)", (9, 5), (2, 5), "uint32"),
        ("packed_native", (), (), "uint8"),
        ("packed_native", (2, 0), (2, 0), "uint8"),
    ],
)
def test_only_the_packed_axis_is_divided(
    store: str, shape: tuple[int, ...], data_shape: tuple[int, ...], dtype: str
) -> None:
    layout = plan(BASE.with_store(store), shape)
    assert (layout.data_shape, layout.data_dtype) == (data_shape, dtype)


def test_a_block_offset_adds_the_blocks_that_it_cuts() -> None:
    assert plan(BASE.per_block([4]), (8,), (3,)).grid == (3,)
    assert plan(BASE.per_block([2, 4]), (4, 8), (1, 0)).grid == (3, 2)


@pytest.mark.parametrize("offset", [(4,), (-1,), (0, 0, 0)])
def test_an_offset_outside_its_block_is_refused(offset: tuple[int, ...]) -> None:
    with pytest.raises(aq.LayoutError, match="block_offset requires"):
        plan(BASE.per_block([4]), (2, 8), offset)


def test_a_block_of_more_axes_than_the_array_is_refused() -> None:
    with pytest.raises(aq.LayoutError):
        plan(BASE.per_block([2, 4]), (8,))


def test_a_packed_axis_that_does_not_exist_is_refused() -> None:
    with pytest.raises(aq.LayoutError, match="more than 2 axes"):
        plan(BASE.with_store("packed_u32(2)"), (8, 8))


@pytest.mark.parametrize(
    ("scheme", "shape", "axes"),
    [
        (BASE.per_block([32]), (4, 8, 64), 1),
        (BASE.per_block([32]), (4, 8, 100), 2),
        (BASE, (4, 8, 100), 1),
        (BASE.per_channel(0), (4, 8, 100), 1),
        (BASE.per_channel(1), (4, 8, 100), 2),
        (BASE.per_block([2, 16]), (4, 8, 64), 2),
        (BASE.with_store("packed_native").per_block([32]), (4, 96), 1),
        (BASE.with_store("packed_native"), (4, 7), 2),
    ],
)
def test_contiguous_axes_merge_as_far_as_blocks_and_words_allow(
    scheme: aq.QuantScheme, shape: tuple[int, ...], axes: int
) -> None:
    strides = np.empty(shape, np.float32).strides
    assert len(collapse(plan(scheme, shape), strides).table[0]) == axes


def test_axes_that_memory_separates_do_not_merge() -> None:
    x = np.empty((4, 64), np.float32)[:, :32]
    assert len(collapse(plan(BASE, x.shape), x.strides).table[0]) == 2


@pytest.mark.parametrize("cut", Cut)
@pytest.mark.parametrize(
    ("scheme", "shape"),
    [
        (BASE.per_block([3, 7]).with_store("packed_u32(1)"), (50, 1000)),
        (BASE.per_block([-1, 1]), (300, 500)),
        (BASE, (1000, 1000)),
        (BASE.with_store("packed_native").per_block([3]), (7, 999)),
    ],
)
def test_boxes_tile_the_array(scheme: aq.QuantScheme, shape: tuple[int, ...], cut: Cut) -> None:
    layout = plan(scheme, shape)
    lines = collapse(layout, np.empty(shape, np.float32).strides, cut)
    lengths, blocks, extents = lines.table[0], lines.table[1], lines.table[-1]
    assert math.prod(lengths) == math.prod(shape)
    assert lines.boxes == math.prod(-(-n // e) for n, e in zip(lengths, extents, strict=True))
    for axis, (length, block, extent) in enumerate(zip(lengths, blocks, extents, strict=True)):
        words = lines.codes_per_word if axis == lines.packed else 1
        whole = extent == length
        if cut is Cut.BLOCKS:
            assert whole or extent % block == 0
        if cut is not Cut.LINES or axis == len(lengths) - 1:
            assert whole or extent % words == 0
