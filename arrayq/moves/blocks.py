"""Blocks along one axis, and what becomes of them when the axis is moved. Integers only.

An axis of `length` elements is cut into blocks of `extent`; element 0 lies `offset` places inside
the first of them. Element i therefore lies in cell ``(offset + i) // extent`` of the scale grid::

    length 9, extent 4, offset 0      |0 1 2 3|4 5 6 7|8      |    3 cells
    its elements 2 to 8               |    2 3|4 5 6 7|8      |    length 7, offset 2
    flipped                           |      8|7 6 5 4|3 2    |    length 7, offset 3

Every function here returns the blocks of the moved axis, and those that pick cells say which;
None means that the result is no such axis. Scales themselves are never looked at, except through
the answers of `shares` in `joined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

from arrayq.scheme import SPAN

__all__ = ["AxisBlocks", "joined", "merged", "reshaped", "split"]

# Offsets and extents beyond this could overflow 64 bits when a kernel adds a position to them.
_LARGEST_PLACE = 2**62


@dataclass(frozen=True, slots=True)
class AxisBlocks:
    """Blocks along one axis.

    Parameters
    ----------
    length : int
        Elements along the axis.
    extent : int
        Elements of a block, or SPAN for one block whatever the length.
    offset : int
        Place of element 0 inside its block; 0 where the block spans the axis.
    """

    length: int
    extent: int
    offset: int = 0

    @property
    def cells(self) -> int:
        """Blocks that the axis touches; an axis without elements touches none."""
        if not self.length:
            return 0
        return 1 if self.extent == SPAN else -(-(self.offset + self.length) // self.extent)

    @property
    def is_one_block(self) -> bool:
        """Whether all elements share one block, so that their order does not matter."""
        return self.cells <= 1

    @property
    def partition(self) -> tuple[int, int] | None:
        """What decides which elements share a block; None where all do."""
        return None if self.is_one_block else (self.extent, self.offset)

    def cell(self, position: int) -> int:
        """Return the cell that an element lies in."""
        return 0 if self.extent == SPAN else (self.offset + position) // self.extent

    def flipped(self) -> AxisBlocks:
        """Return the blocks of the axis read backwards."""
        covers = self.extent == SPAN or (not self.offset and self.extent >= self.length)
        if covers or not self.length:
            return AxisBlocks(self.length, self.extent)
        return _placed(self.length, self.extent, -(self.offset + self.length) % self.extent)

    def sliced(self, picks: range) -> tuple[AxisBlocks, range] | None:
        """Return the blocks of a slice, and the cells that it keeps, in their new order."""
        if not picks:
            return AxisBlocks(0, self.extent), range(0)
        if picks.step < 0:
            ascending = self.sliced(picks[::-1])
            return ascending and (ascending[0].flipped(), ascending[1][::-1])
        length, step = len(picks), picks.step
        if self.extent == SPAN:
            return AxisBlocks(length, SPAN), range(1)
        first, last = self.cell(picks[0]), self.cell(picks[-1])
        if self.extent % step == 0:
            extent = self.extent // step
            offset = (self.offset + picks[0]) // step % extent
            return _placed(length, extent, offset), range(first, last + 1)
        if step % self.extent == 0:
            return AxisBlocks(length, 1), range(first, last + 1, step // self.extent)
        if self.is_one_block or length == 1:
            return AxisBlocks(length, SPAN), range(first, first + 1)
        return None

    def gathered(self, length: int) -> AxisBlocks:
        """Return the blocks of `length` elements picked in any order from a single block."""
        fits = self.extent != SPAN and length <= self.extent
        return AxisBlocks(length, self.extent if fits else SPAN)

    def broadcast(self, length: int) -> AxisBlocks:
        """Return the blocks of a single element repeated."""
        return self if length == self.length else AxisBlocks(length, SPAN)

    def repeated(self, count: int) -> AxisBlocks:
        """Return the blocks after every element is repeated `count` times."""
        if self.extent == SPAN or not count:
            return AxisBlocks(self.length * count, self.extent)
        return _placed(self.length * count, self.extent * count, self.offset * count)


def _placed(length: int, extent: int, offset: int) -> AxisBlocks:
    """Blocks in their normal form: no places that 64 bits could not count from."""
    if not length:
        return AxisBlocks(0, min(extent, _LARGEST_PLACE))
    if offset + length <= extent and max(extent, offset + length) > _LARGEST_PLACE:
        return AxisBlocks(length, SPAN)
    return AxisBlocks(length, extent, offset)


# Reshaping. A reshape keeps the order of the elements, so cells keep their order as well: where
# blocks stay rectangles, the scale grid is reshaped too.


def merged(outer: AxisBlocks, inner: AxisBlocks) -> AxisBlocks | None:
    """Return the blocks of two neighbouring axes read as one."""
    length = outer.length * inner.length
    if inner.is_one_block:
        if outer.extent == SPAN:
            return AxisBlocks(length, SPAN)
        return _placed(length, outer.extent * inner.length, outer.offset * inner.length)
    every_row_starts_a_block = not inner.offset and inner.length % inner.extent == 0
    if (outer.extent == 1 and every_row_starts_a_block) or outer.length == 1:
        return AxisBlocks(length, inner.extent, inner.offset)
    return None


def split(axis: AxisBlocks, inner_length: int) -> tuple[AxisBlocks, AxisBlocks] | None:
    """Return the blocks of an axis cut into rows of `inner_length`: those of the two axes."""
    rows = axis.length // inner_length
    if rows == 1:
        return AxisBlocks(1, 1), axis
    if inner_length == 1:
        return axis, AxisBlocks(1, 1)
    if axis.extent == SPAN:
        return AxisBlocks(rows, SPAN), AxisBlocks(inner_length, SPAN)
    if axis.extent % inner_length == 0 and axis.offset % inner_length == 0:
        outer = AxisBlocks(rows, axis.extent // inner_length, axis.offset // inner_length)
        return outer, AxisBlocks(inner_length, inner_length)
    if inner_length % axis.extent == 0 and not axis.offset:
        return AxisBlocks(rows, 1), AxisBlocks(inner_length, axis.extent)
    if axis.is_one_block:
        return AxisBlocks(rows, SPAN), AxisBlocks(inner_length, SPAN)
    return None


def reshaped(axes: Sequence[AxisBlocks], shape: Sequence[int]) -> tuple[AxisBlocks, ...] | None:
    """Return the blocks of axes without zero lengths under another shape.

    Axes of length 1 hold nothing together and are left out first and put back last.
    """
    long_axes = [_by_element(axis) for axis in axes if axis.length != 1]
    long_shape = [length for length in shape if length != 1]
    found: list[AxisBlocks] = []
    for group, lengths in _groups(long_axes, long_shape):
        # Cutting first keeps blocks apart that merging would lose; merging first serves
        # lengths without a common cut.
        blocks = _cut_and_merged(group, lengths) or _merged_and_cut(group, lengths)
        if blocks is None:
            return None
        found += blocks
    remaining = iter(found)
    return tuple(AxisBlocks(1, 1) if length == 1 else next(remaining) for length in shape)


def _by_element(axis: AxisBlocks) -> AxisBlocks:
    """An axis on which no two elements share a block has, for all that matters, extent 1."""
    return AxisBlocks(axis.length, 1) if axis.cells == axis.length else axis


def _groups(
    axes: Sequence[AxisBlocks], shape: Sequence[int]
) -> Iterator[tuple[list[AxisBlocks], list[int]]]:
    """Shortest runs of axes and lengths that hold the same number of elements."""
    i = j = 0
    while i < len(axes):
        first_i, first_j = i, j
        before, after = axes[i].length, shape[j]
        i, j = i + 1, j + 1
        while before != after:
            if before < after:
                before *= axes[i].length
                i += 1
            else:
                after *= shape[j]
                j += 1
        yield list(axes[first_i:i]), list(shape[first_j:j])


def _cut_and_merged(axes: list[AxisBlocks], shape: list[int]) -> list[AxisBlocks] | None:
    ends = sorted(
        set(accumulate((axis.length for axis in reversed(axes)), int.__mul__))
        | set(accumulate(reversed(shape), int.__mul__))
    )
    if any(larger % smaller for smaller, larger in pairwise(ends)):
        return None
    pieces: list[AxisBlocks] = []
    below = prod(axis.length for axis in axes)
    for axis in axes:
        above, below = below, below // axis.length
        cut = _cut(axis, [end // below for end in reversed(ends) if below < end < above])
        if cut is None:
            return None
        pieces += cut
    return _merge_up(pieces, shape)


def _merged_and_cut(axes: list[AxisBlocks], shape: list[int]) -> list[AxisBlocks] | None:
    whole = _merge_up(axes, [prod(shape)])
    rows = list(accumulate(reversed(shape[1:]), int.__mul__))
    return None if whole is None else _cut(whole[0], rows[::-1])


def _cut(axis: AxisBlocks, rows: list[int]) -> list[AxisBlocks] | None:
    """Cut an axis into rows of each of some descending lengths."""
    pieces = []
    for row in rows:
        halves = split(axis, row)
        if halves is None:
            return None
        pieces.append(halves[0])
        axis = halves[1]
    return [*pieces, axis]


def _merge_up(pieces: list[AxisBlocks], shape: list[int]) -> list[AxisBlocks] | None:
    """Merge neighbours into axes of the lengths of `shape`, innermost first."""
    left, found = list(pieces), []
    for length in reversed(shape):
        axis = left.pop()
        while axis.length < length:
            larger = merged(left.pop(), axis)
            if larger is None:
                return None
            axis = larger
        found.append(axis)
    return found[::-1]


# Joining.


def joined(parts: Sequence[AxisBlocks], shares: Callable[[int], bool]) -> AxisBlocks | None:
    """Return the blocks of parts laid end to end.

    Parameters
    ----------
    parts : sequence of AxisBlocks
        Parts with elements.
    shares : callable
        Whether the last cell of part ``i - 1`` and the first cell of part ``i`` hold the same
        scales; asked only where it matters.

    Returns
    -------
    AxisBlocks or None
        None where a seam falls inside a block whose two sides have scales of their own.
    """
    starts = [0, *accumulate(part.length for part in parts)]
    total = starts.pop()
    rigid = next((i for i, part in enumerate(parts) if not part.is_one_block), None)
    if rigid is not None:
        extent = parts[rigid].extent
        offset = (parts[rigid].offset - starts[rigid]) % extent
        return _if_they_fit(parts, starts, _placed(total, extent, offset), shares)
    parted = next((i for i in range(1, len(parts)) if not shares(i)), None)
    if parted is None:
        first = parts[0]
        alike = all(part.extent == first.extent for part in parts)
        if alike and first.extent != SPAN and first.offset + total <= first.extent:
            return _placed(total, first.extent, first.offset)
        return AxisBlocks(total, SPAN)
    # Parts of one block each fit blocks of several extents; those they came with come first.
    declared = dict.fromkeys(part.extent for part in parts if part.extent != SPAN)
    longest = max(part.length for part in parts)
    # A run of parts of the same scales may be one block as well.
    seams = [0, *(i for i in range(1, len(parts)) if not shares(i)), len(parts)]
    runs = {sum(part.length for part in parts[i:j]) for i, j in pairwise(seams)}
    for extent in dict.fromkeys((*declared, longest, *sorted(runs))):
        found = _placed(total, extent, -starts[parted] % extent)
        if _if_they_fit(parts, starts, found, shares):
            return found
    return None


def _if_they_fit(
    parts: Sequence[AxisBlocks],
    starts: Sequence[int],
    whole: AxisBlocks,
    shares: Callable[[int], bool],
) -> AxisBlocks | None:
    """Return `whole` if every part keeps its blocks in it."""
    for i, (part, start) in enumerate(zip(parts, starts, strict=True)):
        if part.is_one_block:
            if whole.cell(start) != whole.cell(start + part.length - 1):
                return None
        elif part.extent != whole.extent or (whole.offset + start - part.offset) % whole.extent:
            return None
        if i and whole.cell(start - 1) == whole.cell(start) and not shares(i):
            return None
    return whole
