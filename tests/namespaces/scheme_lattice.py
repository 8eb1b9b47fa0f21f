"""Schemes and arrays that every library is given, made from the tables that the code reads.

Designs, from small to large: one published scheme; a few; every part (a value, a store, a rule's
choice, an input) at least once; every pair of parts that can meet; these and the lattice of value,
scale dtype, store, mode and level, over one shape for each or over all of them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

import arrayq as aq
from arrayq.capability_table import CapabilityRow, capabilities
from arrayq.choice import Choice
from arrayq.numerics import Numerics, Rounding
from arrayq.scheme import (
    BlockScale,
    ChannelScale,
    QuantMode,
    QuantScheme,
    QuantStore,
    QuantValue,
    ScaleDtype,
    ZeroDtype,
    ZeroKind,
    ZeroPoint,
)

Array = npt.NDArray[Any]

DESIGNS = ("one", "few", "parts", "pairs", "lattice", "whole")

BLOCKS: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {
    (6, 44): ((7,), (4, 16)),
    (2, 5, 26): ((2, 9), (2, -1, 4)),
}
"""Shapes, and block sizes under which they have ragged blocks; one of them of more axes."""

STORES = ("native", "packed_native", "packed_u32", "packed_native(1)", "packed_u32(1)")

FILLS = ("ordinary", "wide", "edges", "spoiled", "infinite")
"""What arrays hold; see `filled`."""

POLICIES = {"spoiled": "propagate", "infinite": "saturate"}
"""What is asked for where an array holds what is not finite."""

_SMALLEST_SCALES = (2.0**-100, 1e-5, 1.0)


@dataclass(frozen=True)
class Problem:
    """A scheme, and the array that it is to be tried on.

    Attributes
    ----------
    scheme : QuantScheme
        The scheme.
    shape : tuple of int
        The shape of the array.
    fill : str
        One of `FILLS`.
    """

    scheme: QuantScheme
    shape: tuple[int, ...]
    fill: str = "ordinary"

    @property
    def array(self) -> npt.NDArray[np.float32]:
        return filled(self.fill, self.shape, self.scheme.value, self.scheme.codebook)

    @property
    def nonfinite(self) -> str | None:
        return POLICIES.get(self.fill)

    def parts(self) -> frozenset[tuple[str, Hashable]]:
        """Return what the problem is made of."""
        scheme = self.scheme
        parts: dict[str, Hashable] = {
            "value": scheme.value,
            "scale": scheme.scale_dtype,
            "store": str(scheme.store),
            "mode": scheme.mode,
            "level": _level(scheme),
            "zero": scheme.zero,
            "shape": self.shape,
            "fill": self.fill,
            **{rule.name: getattr(scheme.numerics, rule.name) for rule in fields(Numerics)},
        }
        del parts["seed"]
        return frozenset(parts.items())


def _level(scheme: QuantScheme) -> str:
    if isinstance(scheme.block, ChannelScale):
        return "channel"
    if scheme.block is None:
        return "tensor"
    return f"{'two' if scheme.two_level else 'block'} {scheme.block.size}"


@functools.cache
def filled(
    fill: str, shape: tuple[int, ...], value: QuantValue, codebook: tuple[float, ...] | None
) -> npt.NDArray[np.float32]:
    """Return an array of one kind.

    ``ordinary`` and all that build upon it have lines of many magnitudes, some zeros, and a line
    of zeros of both signs. ``wide`` has lines of every float32 magnitude; ``edges`` the numbers of
    the value, the middles between them and the neighbours of both, times powers of two;
    ``spoiled`` a few NaN and infinities, ``infinite`` only the latter.
    """
    rng = np.random.default_rng([len(shape), *fill.encode(), value.bits])
    reach = (-148, 126) if fill == "wide" else (-12, 12)
    lines = (*shape[:-1], 1)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(*reach, lines))
    if fill == "edges":
        edges = neighbours_of_edges(value, codebook)
        x = rng.choice(edges, shape) * np.exp2(rng.integers(-3, 4, lines))
        x[..., :1] = np.abs(edges).max() * np.exp2(rng.integers(-3, 4, lines))
    else:
        x[rng.random(shape) < 0.1] = 0.0
    x[(0,) * (len(shape) - 1)] = np.copysign(0.0, x[(0,) * (len(shape) - 1)])
    specials = {"spoiled": (np.nan, np.inf, -np.inf), "infinite": (np.inf, -np.inf)}
    for place, special in zip(itertools.count(2), specials.get(fill, ())):
        x.ravel()[place * 43 % x.size] = special
    x = x.astype(np.float32)
    x.flags.writeable = False
    return x


def neighbours_of_edges(
    value: QuantValue, codebook: tuple[float, ...] | None
) -> npt.NDArray[np.float32]:
    """Return the numbers of a value and the middles between them, with their float32 neighbours.

    Those of zero, which are subnormal, are left to arrays of every magnitude.
    """
    table = value.format.values if codebook is None else codebook
    numbers = np.array(sorted({number for number in table if math.isfinite(number)}))
    middles = (numbers[1:] + numbers[:-1]) / 2
    edges = np.concatenate([numbers, middles]).astype(np.float32)
    beside = [np.nextafter(edges, np.float32(end)) for end in (-np.inf, np.inf)]
    near = np.concatenate([edges, *beside])
    return near[(near == 0) | (np.abs(near) >= np.finfo(np.float32).tiny)]


@functools.cache
def codebook_of(value: QuantValue) -> tuple[float, ...]:
    """Return an unsorted table with entries that are equal."""
    rng = np.random.default_rng(value.bits)
    table = rng.standard_normal(2**value.bits).astype(np.float32)
    table[-1] = table[0]
    return tuple(float(entry) for entry in table)


def levels_of(dtype: ScaleDtype, shape: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Return the levels that a scale dtype may be tried at, as parameters of a scheme."""
    yield {"tensor": dtype}
    yield {"block": ChannelScale(0, dtype)}
    for size in BLOCKS[shape]:
        yield {"block": BlockScale(size, dtype)}
        yield {"block": BlockScale(size, dtype), "tensor": "f32"}


def schemes_of_row(row: CapabilityRow, shape: tuple[int, ...]) -> Iterator[QuantScheme]:
    """Return the schemes that a row of the capability table of quantize stands for."""
    value = QuantValue(row.value)
    lookup = row.mode == "lookup"
    assert row.scale is not None
    assert row.mode is not None
    for store, level in itertools.product(STORES, levels_of(ScaleDtype(row.scale), shape)):
        if QuantStore.of(store).kind.value != row.store:
            continue
        try:
            yield QuantScheme(
                value, store, row.mode, codebook=codebook_of(value) if lookup else None, **level
            )
        except aq.SchemeError:
            continue


Rows = tuple[CapabilityRow, ...]


@functools.cache
def rows_of(name: str, *, ok: bool) -> Rows:
    """Return what the table says of quantize on a library: what works, or what does not."""
    return tuple(row for row in capabilities(name) if row.operation == "quantize" and row.ok == ok)


@functools.cache
def lattice(rows: Rows, *, whole: bool = False) -> tuple[Problem, ...]:
    """Return every combination of value, scale dtype, store, mode and level, each on one array.

    Rows of the table take turns with the shapes, unless the lattice is to be whole.
    """
    schemes = [
        (scheme, shape)
        for row, turn in zip(rows, itertools.cycle(BLOCKS), strict=False)
        for shape in (BLOCKS if whole else [turn])
        for scheme in schemes_of_row(row, shape)
    ]
    return tuple(
        Problem(scheme, shape, fill)
        for (scheme, shape), fill in zip(schemes, itertools.cycle(FILLS), strict=False)
    )


def choices_of_rules() -> list[dict[str, Any]]:
    """Return every choice of every rule of `Numerics` other than the usual one."""
    usual = Numerics()
    found: list[dict[str, Any]] = [
        {"smallest_scale": smallest, "zero_block": block}
        for smallest in _SMALLEST_SCALES
        for block in ("zero", "smallest")
    ]
    for rule in fields(Numerics):
        choice = getattr(usual, rule.name)
        if rule.name == "rounding":
            choice = Rounding.HALF_AWAY
            found.append({"rounding": choice})
        if isinstance(choice, Choice):
            found += [{rule.name: other} for other in type(choice) if other is not choice]
        elif isinstance(choice, bool):
            found.append({rule.name: not choice})
    return [{**rule, "seed": 2**64 - 3} if _is_stochastic(rule) else rule for rule in found]


def _is_stochastic(rules: dict[str, Any]) -> bool:
    return rules.get("rounding") is Rounding.STOCHASTIC


ZEROS = (
    None,
    *(ZeroPoint(ZeroKind.CODE, dtype) for dtype in ZeroDtype),
    *(ZeroPoint(ZeroKind.BIAS, dtype) for dtype in (ZeroDtype.F32, ZeroDtype.F16, ZeroDtype.BF16)),
)


@functools.cache
def candidates(rows: Rows) -> tuple[Problem, ...]:
    """Return problems among which designs choose: of the lattice, with rules of every kind."""
    rng = np.random.default_rng(7)
    start = lattice(rows)
    rules = choices_of_rules()
    found = []
    for rule, more in [*itertools.product(rules, [*rules, {}])] * 12:
        choices = {**more, **rule}
        zero = ZEROS[rng.integers(len(ZEROS))]
        fill = FILLS[rng.integers(len(FILLS))]
        for _ in range(6):
            problem = start[rng.integers(len(start))]
            scheme = problem.scheme
            if scheme.mode is not QuantMode.AFFINE:
                zero = None
            try:
                numerics = Numerics(**choices)
                made = _remade(scheme, numerics, zero)
            except aq.SchemeError:
                continue
            found.append(Problem(made, problem.shape, fill))
            break
    return tuple(dict.fromkeys([*found, *start]))


def _remade(scheme: QuantScheme, numerics: Numerics, zero: ZeroPoint | None) -> QuantScheme:
    return QuantScheme(
        scheme.value, scheme.store, scheme.mode, scheme.block, scheme.tensor, numerics,
        scheme.codebook, zero,
    )  # fmt: skip


def _chosen(problems: Sequence[Problem], *, paired: Collection[str] | None) -> tuple[Problem, ...]:
    """Return some of the problems, such that every part that any of them has is in one.

    So is every pair of parts of the kinds in `paired`; None stands for all kinds.
    """
    numbers: dict[Hashable, int] = {}
    made_of = []
    for problem in problems:
        parts = sorted(problem.parts(), key=lambda part: part[0])
        kept = [part for part in parts if paired is None or part[0] in paired]
        keys = [*((part,) for part in parts), *itertools.combinations(kept, 2)]
        made_of.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys]))
    missing = np.ones(len(numbers), bool)
    chosen: list[Problem] = []
    left = list(zip(problems, made_of, strict=True))
    for worth in (60, 40, 25, 15, 10, 6, 4, 3, 2, 1):
        rest = []
        for problem, keys in left:
            new = np.count_nonzero(missing[keys])
            if new >= worth:
                chosen.append(problem)
                missing[keys] = False
            elif new:
                rest.append((problem, keys))
        left = rest
    return tuple(chosen)


_SHORT = ("mode", "scale", "store", "scaling", "scale_rounding", "shape", "fill", "tensor_from")

FEW = ("int8/row", "nvfp4", "mxfp4", "int4/32", "int4a/32", "nf4/64", "e5m2/tensor")


def design(name: str, which: str) -> tuple[Problem, ...]:
    """Return the problems of one of `DESIGNS` for the library of a name."""
    return design_of(rows_of(name, ok=True), which)


@functools.cache
def design_of(rows: Rows, which: str) -> tuple[Problem, ...]:
    """Return the problems of one of `DESIGNS` for what works by the table."""
    shape = next(iter(BLOCKS))
    if which in ("one", "few"):
        spellings = FEW if which == "few" else FEW[:1]
        return tuple(Problem(aq.scheme(spelling), shape) for spelling in spellings)
    if which == "parts":
        return _chosen(candidates(rows), paired=_SHORT)
    if which == "pairs":
        return _chosen(candidates(rows), paired=None)
    cells = lattice(rows, whole=which == "whole")
    return tuple(dict.fromkeys([*design_of(rows, "pairs"), *cells]))


def everything_is_somewhere() -> dict[str, set[Any]]:
    """Return all choices of each part, as the tables of the code have them."""
    numerics: dict[str, set[Any]] = {}
    for rules in choices_of_rules():
        made = Numerics(**rules)
        for rule in rules:
            numerics.setdefault(rule, set()).add(getattr(made, rule))
    del numerics["seed"]
    return {
        "value": set(QuantValue),
        "scale": set(ScaleDtype),
        "store": set(STORES),
        "mode": set(QuantMode),
        "fill": set(FILLS),
        "shape": set(BLOCKS),
        **numerics,
    }
