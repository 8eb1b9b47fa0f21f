"""Blocks along one axis: every rule against a list of which cell each element lies in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayq.moves.blocks import AxisBlocks, joined, merged, reshaped, split
from arrayq.scheme import SPAN


@st.composite
def axes(draw: st.DrawFn, lengths: st.SearchStrategy[int] | None = None) -> AxisBlocks:
    length = draw(st.integers(0, 40) if lengths is None else lengths)
    extent = draw(st.sampled_from([SPAN, 1, 2, 3, 4, 6, 8, 12, 100, 2**62, 2**63 - 1]))
    offset = draw(st.integers(0, min(extent, 50) - 1)) if extent != SPAN and length else 0
    return AxisBlocks(length, extent, offset)


def cells(axis: AxisBlocks) -> list[int]:
    return [axis.cell(i) for i in range(axis.length)]


def same_partition(got: list[int], expected: list[object]) -> bool:
    """Whether two labellings put the same elements together."""
    return len(got) == len(expected) and len(set(got)) == len(set(expected)) == len(
        set(zip(got, expected, strict=True))
    )


def assert_regular(axis: AxisBlocks) -> None:
    assert axis.extent == SPAN or 0 <= axis.offset < axis.extent
    assert axis.extent != SPAN or axis.offset == 0
    assert cells(axis) == sorted(cells(axis))
    assert set(cells(axis)) == set(range(axis.cells))


@given(axes())
def test_elements_fill_the_cells_one_after_the_other(axis: AxisBlocks) -> None:
    assert_regular(axis)


@given(axes(), st.data())
def test_a_slice_keeps_the_cells_of_its_elements(axis: AxisBlocks, data: st.DataObject) -> None:
    step = data.draw(st.sampled_from([1, -1, 2, -2, 3, 4, -6, 8, 100]))
    bound = st.none() | st.integers(-45, 45)
    picks = range(axis.length)[data.draw(bound) : data.draw(bound) : step]
    kept = axis.sliced(picks)
    if kept is None:
        assert axis.extent % step
        assert step % axis.extent
        assert not axis.is_one_block
        return
    blocks, cells_kept = kept
    assert_regular(blocks)
    assert blocks.length == len(picks)
    assert len(cells_kept) == blocks.cells
    assert [cells_kept[cell] for cell in cells(blocks)] == [axis.cell(i) for i in picks]


@given(axes())
def test_a_flip_turns_the_cells_round(axis: AxisBlocks) -> None:
    flipped = axis.flipped()
    assert_regular(flipped)
    assert [axis.cells - 1 - cell for cell in cells(flipped)] == cells(axis)[::-1]
    assert flipped.flipped().partition == axis.partition


@pytest.mark.parametrize(
    ("length", "extent", "offset", "expected"), [(6, 4, 0, 2), (7, 4, 2, 3), (8, 4, 0, 0)]
)
def test_the_offset_of_a_flip_counts_from_the_other_end(
    length: int, extent: int, offset: int, expected: int
) -> None:
    flipped = AxisBlocks(length, extent, offset).flipped()
    assert flipped.offset == expected == -(offset + length) % extent


@given(axes(), st.integers(0, 5))
def test_repeating_elements_repeats_their_cells(axis: AxisBlocks, count: int) -> None:
    repeated = axis.repeated(count)
    if count:
        assert cells(repeated) == [cell for cell in cells(axis) for _ in range(count)]
    assert repeated.length == axis.length * count


@given(axes(st.integers(1, 9)), axes(st.integers(1, 9)))
def test_merged_axes_keep_elements_together_and_apart(outer: AxisBlocks, inner: AxisBlocks) -> None:
    whole = merged(outer, inner)
    if whole is not None:
        assert_regular(whole)
        assert cells(whole) == [
            i * inner.cells + j for i in cells(outer) for j in cells(inner)
        ]  # fmt: skip


@given(axes(st.integers(1, 40)), st.integers(1, 40))
def test_a_cut_axis_keeps_elements_together_and_apart(axis: AxisBlocks, row: int) -> None:
    if axis.length % row:
        return
    halves = split(axis, row)
    if halves is None:
        assert axis.extent % row or axis.offset % row
        assert row % axis.extent or axis.offset
        return
    outer, inner = halves
    assert_regular(outer)
    assert_regular(inner)
    assert cells(axis) == [i * inner.cells + j for i in cells(outer) for j in cells(inner)]


def test_reshaping_there_and_back_gives_the_same_blocks() -> None:
    axes = (AxisBlocks(4, 2), AxisBlocks(6, SPAN))
    there = reshaped(axes, (2, 2, 2, 3))
    assert there == (AxisBlocks(2, 1), AxisBlocks(2, 2), AxisBlocks(2, SPAN), AxisBlocks(3, SPAN))
    back = reshaped(there, (4, 6))
    assert back is not None
    assert [axis.partition for axis in back] == [axis.partition for axis in axes]


def test_cells_of_one_element_each_are_merged_as_blocks_of_extent_1() -> None:
    assert reshaped((AxisBlocks(2, 4, 3), AxisBlocks(8, 4)), (16,)) == (AxisBlocks(16, 4),)
    assert reshaped((AxisBlocks(2, 4, 3), AxisBlocks(8, 4)), (4, 4)) == (
        AxisBlocks(4, 1), AxisBlocks(4, 4),
    )  # fmt: skip


def test_lengths_without_a_common_cut_are_merged_first() -> None:
    assert reshaped((AxisBlocks(2, 1), AxisBlocks(9, 3)), (3, 6)) == (
        AxisBlocks(3, 1), AxisBlocks(6, 3),
    )  # fmt: skip


def test_blocks_that_would_not_stay_rectangles_are_none() -> None:
    assert reshaped((AxisBlocks(4, 2), AxisBlocks(4, 2)), (2, 8)) is None
    assert reshaped((AxisBlocks(10, 4),), (2, 5)) is None


@given(st.lists(axes(st.integers(1, 12)), min_size=1, max_size=4), st.data())
def test_joined_parts_keep_elements_together_and_apart(
    parts: list[AxisBlocks], data: st.DataObject
) -> None:
    # scales are small numbers: two sides of a seam often have the same
    scales = [
        data.draw(st.lists(st.integers(0, 2), min_size=part.cells, max_size=part.cells))
        for part in parts
    ]
    whole = joined(parts, lambda i: scales[i - 1][-1] == scales[i][0])
    if whole is None:
        return
    assert_regular(whole)
    expected = [
        scales[i][cell] for i, part in enumerate(parts) for cell in cells(part)
    ]  # fmt: skip
    by_cell: dict[int, int] = {}
    for cell, scale in zip(cells(whole), expected, strict=True):
        assert by_cell.setdefault(cell, scale) == scale


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([AxisBlocks(8, 4), AxisBlocks(6, 4)], AxisBlocks(14, 4)),
        ([AxisBlocks(6, 4, 2), AxisBlocks(6, 4)], AxisBlocks(12, 4, 2)),
        ([AxisBlocks(3, 4), AxisBlocks(8, 4)], AxisBlocks(11, 4, 1)),
        ([AxisBlocks(8, 4), AxisBlocks(3, 4, 1)], AxisBlocks(11, 4)),
        ([AxisBlocks(5, SPAN), AxisBlocks(5, SPAN)], AxisBlocks(10, 5)),
        ([AxisBlocks(6, 4), AxisBlocks(6, 4)], None),
        ([AxisBlocks(8, 4), AxisBlocks(8, 2)], None),
        ([AxisBlocks(3, 4), AxisBlocks(2, 4), AxisBlocks(3, 4)], None),
    ],
)
def test_parts_of_different_scales_join_on_block_boundaries(
    parts: list[AxisBlocks], expected: AxisBlocks | None
) -> None:
    assert joined(parts, lambda _: False) == expected


def test_parts_that_share_their_scales_join_anywhere() -> None:
    parts = [AxisBlocks(3, SPAN), AxisBlocks(4, 64), AxisBlocks(5, 8, 2)]
    assert joined(parts, lambda _: True) == AxisBlocks(12, SPAN)
