"""Where the chunks of an array may be cut, so that none splits a word and few split a block.

Integers only: lengths of chunks go in and come out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import lcm, prod
from typing import NamedTuple

from arrayq.layout import Plan

__all__ = ["Alignment", "Chunks", "Part", "align", "parts_of_grid", "without_empty"]

Chunks = tuple[tuple[int, ...], ...]
"""Lengths of the chunks along each axis, as dask writes them."""

# Chunks of so many bytes are merged rather than read twice, as blocks of several chunks are.
SMALL_CHUNK = 2**20


@dataclass(frozen=True, slots=True)
class Alignment:
    """Chunks that start on words.

    Attributes
    ----------
    chunks : tuple of tuple of int
        Their lengths along each axis; none is 0 unless the axis is.
    split : tuple of bool
        Whether blocks extend over several chunks, by axis. Along such an axis each chunk lies in
        one block, along every other it is made of whole blocks.
    """

    chunks: Chunks
    split: tuple[bool, ...]

    @property
    def splits_blocks(self) -> bool:
        """Whether any block extends over several chunks."""
        return any(self.split)


class Part(NamedTuple):
    """The part of a grid along an axis that belongs to a chunk."""

    first: int
    end: int
    offset: int
    """Place of the chunk's first element inside its first block; 0 where one block holds all."""


def align(
    plan: Plan, chunks: Chunks, itemsize: int, *, whole: bool = False, limit: int = 2**27
) -> Alignment:
    """Move the ends of chunks to where an array may be cut.

    Parameters
    ----------
    plan : Plan
        The layout of the array, without a block offset.
    chunks : tuple of tuple of int
        The chunks that there are.
    itemsize : int
        Bytes of one element.
    whole : bool
        Whether every block must lie in one chunk, however large that becomes.
    limit : int
        Bytes above which a chunk that grows so becomes shorter along the other axes.

    Returns
    -------
    Alignment
        Chunks as close to the given ones as blocks and words allow.
    """
    if 0 in plan.shape:
        return Alignment(tuple((length,) for length in plan.shape), (False,) * len(plan.shape))
    sizes = [max(lengths) for lengths in chunks]
    limit = max(limit, itemsize * prod(sizes))
    aligned: list[tuple[int, ...]] = []
    split: list[bool] = []
    for axis, lengths in enumerate(chunks):
        others = itemsize * prod(sizes[:axis] + sizes[axis + 1 :])
        lengths, is_split = _aligned(
            lengths, plan.block[axis], _word(plan, axis), others, whole=whole
        )
        sizes[axis] = max(lengths)
        aligned.append(lengths)
        split.append(is_split)
    for axis, lengths in enumerate(aligned):
        excess = -(-itemsize * prod(sizes) // limit)
        if whole and excess > 1:
            step = lcm(plan.block[axis], _word(plan, axis))
            longest = max(1, sizes[axis] // excess // step) * step
            aligned[axis] = _shortened(lengths, longest)
            sizes[axis] = max(aligned[axis])
    return Alignment(tuple(aligned), tuple(split))


def _word(plan: Plan, axis: int) -> int:
    return plan.codes_per_word if axis == plan.packed_axis else 1


def _aligned(
    lengths: tuple[int, ...], block: int, word: int, others: int, *, whole: bool
) -> tuple[tuple[int, ...], bool]:
    """Return lengths of chunks along an axis, and whether they split blocks.

    `others` is the bytes of a chunk of length 1.
    """
    length, largest = sum(lengths), max(lengths)
    step = lcm(block, word)
    unsplit = _between(_snapped(lengths, step), length)
    spanned = block >= length
    small = step <= largest or max(unsplit) * others <= SMALL_CHUNK
    if whole or (small and not spanned) or not (spanned or block % word == 0):
        return unsplit, False
    pieces = _between((*_snapped(lengths, word), *range(block, length, block)), length)
    return pieces, len(pieces) > 1


def _snapped(lengths: tuple[int, ...], step: int) -> Iterable[int]:
    """Return where to cut an axis, at multiples of a step.

    Chunks of one length stay of one length, as files require them; others are cut where they are
    cut, or just before.
    """
    first, last = lengths[0], lengths[-1]
    if len(lengths) > 1 and set(lengths[:-1]) == {first} and last <= first:
        return range(0, sum(lengths), max(step, first // step * step))
    return (cut // step * step for cut in accumulate(lengths[:-1]))


def _between(cuts: Iterable[int], length: int) -> tuple[int, ...]:
    """Return the lengths of the pieces that cuts leave of an axis."""
    return tuple(end - start for start, end in pairwise(sorted({0, *cuts, length})))


def _shortened(lengths: tuple[int, ...], longest: int) -> tuple[int, ...]:
    pieces: list[int] = []
    for length in lengths:
        whole, rest = divmod(length, longest)
        pieces += [longest] * whole + [rest] * bool(rest)
    return tuple(pieces)


def without_empty(chunks: Chunks) -> Chunks:
    """Return chunks without those of length 0, of which an axis of length 0 keeps one."""
    return tuple(tuple(filter(None, lengths)) or (0,) for lengths in chunks)


def parts_of_grid(plan: Plan, chunks: Chunks) -> tuple[tuple[Part, ...], ...]:
    """Return which part of a grid of scales belongs to each chunk, by axis.

    Parameters
    ----------
    plan : Plan
        The layout of the array.
    chunks : tuple of tuple of int
        Lengths of chunks, cut anywhere.
    """
    return tuple(
        tuple(
            _part(plan, axis, end - length, end)
            for length, end in zip(lengths, accumulate(lengths), strict=True)
        )
        for axis, lengths in enumerate(chunks)
    )


def _part(plan: Plan, axis: int, start: int, end: int) -> Part:
    if start == end:
        return Part(0, plan.grid[axis], 0)
    block, offset = plan.block[axis], plan.block_offset[axis]
    first, last = (offset + start) // block, -(-(offset + end) // block)
    return Part(first, last, (offset + start) % block if last - first > 1 else 0)
