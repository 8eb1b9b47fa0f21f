"""Hypothesis strategies: moves that mean the same for quantized arrays and for NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import arrayq as aq

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, repr=False)
class Move:
    """A move: what it does to a quantized array, and to its values.

    ``always`` says that DESIGN.md promises that it stays quantized.
    """

    name: str
    always: bool
    on_quantized: Callable[[aq.QuantizedArray], aq.QuantizedArray]
    on_values: Callable[[Floats], Floats]

    def __repr__(self) -> str:
        return self.name


def both(name: str, always: bool, move: Callable[[Any], Any]) -> Move:
    """Return a move that is spelled alike for both kinds of array."""
    return Move(name, always, move, move)


def named(name: str, always: bool, *arguments: Any, **keywords: Any) -> Move:
    """Return a move that is a function of the same name in both libraries."""
    spelled = ", ".join([*map(repr, arguments), *(f"{k}={v!r}" for k, v in keywords.items())])
    return Move(
        f"{name}({spelled})",
        always,
        lambda q: getattr(aq, name)(q, *arguments, **keywords),
        lambda x: getattr(np, name)(x, *arguments, **keywords),
    )


def extents(q: aq.QuantizedArray) -> tuple[int, ...]:
    return q.plan.block


def stays(q: aq.QuantizedArray, axis: int, step: int) -> bool:
    """Whether DESIGN.md promises that a slice of this step along an axis stays quantized."""
    if abs(step) == 1 or q.scheme.block is None:
        return True
    extent = q.scheme.block_extents(q.ndim)[axis]
    return extent == -1 or extent % abs(step) == 0 or abs(step) % extent == 0


def along_which_arrays_go(q: aq.QuantizedArray, axis: int) -> bool:
    """Whether an axis has blocks of extent 1 or a single block."""
    if q.scheme.block is None or q.grid[axis] <= 1:
        return True
    return q.scheme.block_extents(q.ndim)[axis] == 1


def maybe_none(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.none() | strategy


@st.composite
def basic_indices(draw: st.DrawFn, q: aq.QuantizedArray, any_step: bool = False) -> Move:
    always = True
    index: list[Any] = []
    ellipsis_at = draw(st.none() | st.integers(0, q.ndim))
    for axis, length in enumerate(q.shape):
        if axis == ellipsis_at:
            index.append(Ellipsis)
        if draw(st.integers(0, 5)) == 0:
            index.append(None)
        if length and q.ndim > 1 and draw(st.integers(0, 5)) == 0:
            index.append(draw(st.integers(-length, length - 1)))
            continue
        bound = st.integers(-length - 2, length + 2)
        steps = st.sampled_from([1, -1] if not any_step else [1, -1, 2, -2, 3, 4, -4, 6, 8, 16])
        step = draw(st.none() | steps)
        part = slice(draw(maybe_none(bound)), draw(maybe_none(bound)), step)
        if not range(length)[part] and draw(st.integers(0, 3)):
            part = slice(None, None, step)
        always &= stays(q, axis, step or 1)
        index.append(part)
    to = tuple(index)
    return both(f"[{to}]", always, lambda a: a[to])


@st.composite
def orders(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    n = q.ndim
    axis = st.integers(-n, n - 1)
    kind = draw(st.sampled_from(["permute", "swap", "move", "T", "mT"]))
    if kind == "T" or n == 0:
        return both(".T", True, lambda a: a.T)
    if kind == "mT" and n > 1:
        return both(".mT", True, lambda a: a.mT)
    if kind == "swap":
        return named("swapaxes", True, draw(axis), draw(axis))
    if kind == "move":
        return named("moveaxis", True, draw(axis), draw(axis))
    return named("permute_dims", True, tuple(draw(st.permutations(range(n)))))


@st.composite
def flips(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    axes = draw(st.none() | st.sets(st.integers(0, q.ndim - 1))) if q.ndim else None
    return named("flip", True, axis=None if axes is None else tuple(axes))


@st.composite
def ones(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    """Draw a move that adds or removes axes of length one, or repeats them."""
    single = [axis for axis, length in enumerate(q.shape) if length == 1]
    kind = draw(st.sampled_from(["expand", "squeeze", "broadcast", "stack"]))
    if kind == "squeeze":
        some = tuple(draw(st.sets(st.sampled_from(single)))) if single else ()
        return named("squeeze", True, some)
    if q.ndim >= 6:
        return named("squeeze", True)
    if kind == "stack" and q.size < 500:
        copies, axis = draw(st.integers(1, 3)), draw(st.integers(-q.ndim - 1, q.ndim))
        return Move(
            f"stack({copies} of it, {axis})",
            True,
            lambda q: aq.stack([q] * copies, axis=axis),
            lambda x: np.stack([x] * copies, axis=axis),
        )
    if kind == "broadcast":
        lengths = [draw(st.integers(0, 4)) if n == 1 else n for n in q.shape]
        added = [] if q.size > 300 else draw(st.lists(st.integers(0, 3), max_size=1))
        return named("broadcast_to", True, (*added, *lengths))
    return named("expand_dims", True, draw(st.integers(-q.ndim - 1, q.ndim)))


@st.composite
def parts(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    """Draw a part of a split, or everything split and joined again."""
    if not q.ndim:
        return both("[...]", True, lambda a: a[...])
    axis = draw(st.integers(0, q.ndim - 1))
    length = q.shape[axis]
    cuts = sorted(draw(st.lists(st.integers(0, length), min_size=1, max_size=3)))
    if draw(st.booleans()):
        which = draw(st.integers(0, len(cuts)))
        return Move(
            f"split({cuts}, {axis})[{which}]",
            True,
            lambda q: aq.split(q, cuts, axis)[which],
            lambda x: np.split(x, cuts, axis)[which],
        )
    return Move(
        f"concat(split({cuts}, {axis}), {axis})",
        True,
        lambda q: aq.concat(aq.split(q, cuts, axis), axis=axis),
        lambda x: x,
    )


@st.composite
def repeats(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    if not q.ndim or q.size > 500:
        return both("[...]", True, lambda a: a[...])
    axis = draw(st.integers(0, q.ndim - 1))
    if draw(st.booleans()):
        return named("repeat", True, draw(st.integers(0, 3)), axis)
    counts = draw(st.lists(st.integers(0, 2), min_size=q.shape[axis], max_size=q.shape[axis]))
    return named("repeat", along_which_arrays_go(q, axis), np.array(counts, int), axis)


@st.composite
def gathers(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    """Draw an index with arrays and masks among integers and slices."""
    if not q.ndim:
        return both("[True]", True, lambda a: a[True])
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(3,), (1,), (2, 3), (0,), (4, 1), (5,)]))
    index: list[Any] = []
    always, axis = True, 0
    masked = 0
    while axis < q.ndim:
        length = q.shape[axis]
        kind = draw(st.sampled_from(["slice", "slice", "array", "array", "mask", "integer"]))
        if draw(st.integers(0, 6)) == 0:
            index.append(None)
        if kind == "array" and not masked and (length or 0 in shape):
            some = shape if draw(st.booleans()) else shape[-1:]
            index.append(rng.integers(-length, length, some) if length else np.empty(some, int))
        elif kind == "mask" and not any(isinstance(one, np.ndarray) for one in index):
            axes = draw(st.integers(1, min(2, q.ndim - axis)))
            index.append(rng.random(q.shape[axis : axis + axes]) < 0.5)
            always &= all(along_which_arrays_go(q, axis + k) for k in range(axes))
            masked, axis = 1, axis + axes
            continue
        elif kind == "integer" and length:
            index.append(int(rng.integers(-length, length)))
            axis += 1
            continue
        else:
            index.append(slice(None, None, draw(st.sampled_from([None, -1]))))
            axis += 1
            continue
        always &= along_which_arrays_go(q, axis)
        axis += 1
    if draw(st.booleans()):
        # it stands for no axes, and still keeps arrays on its two sides apart
        advanced = [isinstance(one, np.ndarray | int) for one in index]
        between = [i for i, pair in enumerate(pairwise(advanced), 1) if all(pair)]
        places = st.sampled_from(between) if between else st.integers(0, len(index))
        index.insert(draw(places), Ellipsis)
    to = tuple(index)
    return both(f"[{to}]", always, lambda a: a[to])


@st.composite
def takes(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    if not q.size or not q.ndim:
        return both("[...]", True, lambda a: a[...])
    axis = draw(st.integers(0, q.ndim - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    length = q.shape[axis]
    if draw(st.booleans()):
        places = rng.integers(-length, length, draw(st.sampled_from([(), (4,), (2, 2)])))
        always = places.ndim == 0 or along_which_arrays_go(q, axis)
        return named("take", always, places, axis)
    shape = [n if draw(st.booleans()) else 1 for n in q.shape]
    shape[axis] = draw(st.integers(0, 5))
    places = rng.integers(-length, length, shape)
    one_block = q.scheme.block is None or q.grid[axis] == 1
    return named("take_along_axis", one_block, places, axis)


@st.composite
def rolls_and_tiles(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    if not q.ndim or q.size > 400:
        return both("[...]", True, lambda a: a[...])
    axis = draw(st.integers(0, q.ndim - 1))
    one_block = q.scheme.block is None or q.grid[axis] <= 1
    whole = q.shape[axis] % extents(q)[axis] == 0 and not q.plan.block_offset[axis]
    kind = draw(st.sampled_from(["roll", "roll flat", "tile", "concat"]))
    if kind == "roll":
        by = draw(st.integers(-20, 20))
        return named("roll", one_block or whole, by, axis)
    if kind == "roll flat":
        return named("roll", False, draw(st.integers(-9, 9)))
    if kind == "tile":
        counts = draw(st.lists(st.integers(0, 2), max_size=q.ndim + 1))
        return named("tile", False, counts)
    return Move(
        f"concat([it, it], {axis})",
        one_block or whole,
        lambda q: aq.concat([q, q], axis=axis),
        lambda x: np.concatenate([x, x], axis=axis),
    )


@st.composite
def reshapes(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    if not q.size:
        return named("reshape", True, (0, 3))
    left, shape = math.prod(q.shape), []
    while left > 1 and len(shape) < 4:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        shape.append(draw(st.sampled_from(divisors)))
        left //= shape[-1]
    return named("reshape", q.scheme.block is None, (*shape, left))


DRAWN = (
    basic_indices, orders, flips, ones, parts, repeats, gathers, takes, rolls_and_tiles, reshapes,
)  # fmt: skip


@st.composite
def moves(draw: st.DrawFn, q: aq.QuantizedArray) -> Move:
    """Draw any move of an array."""
    kind = draw(st.sampled_from(DRAWN))
    if kind is basic_indices:
        return draw(basic_indices(q, draw(st.booleans())))
    return draw(kind(q))
