"""The rules that decide the bits, as data.

A scheme says how values are stored; its `Numerics` says how they get there. The defaults are
burn's; presets carry the rules of the format that they name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final, SupportsFloat, SupportsIndex

from arrayq.choice import Choice
from arrayq.errors import SchemeError
from arrayq.formats import Kind, round_to_float32

__all__ = [
    "ROUNDING_OF_KIND",
    "Calibration",
    "Numerics",
    "Rounding",
    "RuleValue",
    "ScaleFrom",
    "ScaleRounding",
    "Scaling",
    "TensorFrom",
    "ZeroBlock",
    "ZeroRounding",
]

RuleValue = Choice | str | float | None
"""What a rule may be given as; integers and booleans are floats to a type checker."""


class Rounding(Choice):
    """Where a number between two codes goes; all but STOCHASTIC differ at halves only."""

    HALF_AWAY = "half_away"
    """To the nearest, halves to the one further from zero, as Rust's and C's ``round`` do."""
    HALF_EVEN = "half_even"
    """To the nearest, halves to the one with the even code, as IEEE 754 does."""
    HALF_UP = "half_up"
    """To the nearest, halves to the larger one, as ``floor(x + 1/2)`` does."""
    HALF_TO_ZERO = "half_to_zero"
    """To the nearest, halves to the one closer to zero."""
    STOCHASTIC = "stochastic"
    """Up or down at random, so that the mean over many seeds is the number itself."""


class Scaling(Choice):
    """How an element is divided by its scale."""

    DIVIDE = "divide"
    """``f32(x / s)``, one true division."""
    RECIPROCAL = "reciprocal"
    """``f32(x * f32(1 / s))``; where ``f32(1 / s)`` is infinite it divides instead."""


class ScaleFrom(Choice):
    """How the range of a block becomes its raw scale.

    Below, ``r`` is the largest magnitude that calibration gives a block, ``min`` and ``max``
    its ends, and ``[qmin, qmax]`` the range of the value. Under LOOKUP, RANGE and QMAX are both
    ``r`` over the largest magnitude in the codebook.

    The rules from FLOOR on are for UE8M0 scales. ``emax`` is the exponent of the value's
    largest magnitude, and the exponent of the scale is limited to [-127, 127].
    """

    RANGE = "range"
    """``f32(r / ((qmax - qmin) / 2))``: burn's ``2r / (b - a)`` without its overflow. AFFINE:
    ``f32(f32(max - min) / (qmax - qmin))``."""
    QMAX = "qmax"
    """``f32(r / qmax)``: the largest element gets the largest code."""
    ENDPOINTS = "endpoints"
    """``max(f32(min / qmin), f32(max / qmax))`` of a range that includes 0: the finest scale
    under which nothing is clipped. torchao calls it SYMMETRIC_NO_CLIPPING_ERR."""
    SIGNED_MAX = "signed_max"
    """``f32(m / qmin)``, with ``m`` the first of the elements of the largest magnitude, its sign
    included: the scale is negative where ``m`` is positive, and ``m`` gets the code ``qmin``.
    ggml's Q4_0 and Q5_0."""
    INVERSE_RANGE = "inverse_range"
    """``f32(1 / inv)`` with ``inv = f32(f32(1 / range) * (qmax - qmin))``, 1 for ranges of at
    most 1e-4, and at most 2e4: HQQ. Elements are multiplied by the reciprocal of the scale."""
    FLOOR = "floor"
    """``2^(floor(log2 r) - emax)``: OCP Microscaling v1.0, section 6.3."""
    CEIL = "ceil"
    """``2^(ceil(log2 r) - emax)``."""
    RCEIL = "rceil"
    """``2^ceil(log2 f32(r / qmax))``: the smallest power of two under which nothing is clipped,
    for NVIDIA's hardware."""
    EVEN = "even"
    """As FLOOR, after ``r`` is rounded to the mantissa of the element, halves up."""
    NEAREST_LOG2 = "nearest_log2"
    """``2^k`` with ``k`` the integer nearest to ``log2 f32(r / qmax)``."""


class ScaleRounding(Choice):
    """How a raw scale is rounded to its dtype; of a negative scale, the magnitude is rounded."""

    UP = "up"
    """To the smallest scale that is not below it, so that nothing new is clipped."""
    NEAREST = "nearest"
    """To the nearest scale, ties to even; for UE8M0 ties go up."""


class ZeroBlock(Choice):
    """The scale that a block of zeros stores; its codes are those of zero whatever it is."""

    ZERO = "zero"
    """0; in UE8M0, which has no zero, byte 0."""
    SMALLEST = "smallest"
    """`Numerics.smallest_scale`."""
    ONE = "one"
    """1."""


class ZeroRounding(Choice):
    """How a zero point that INVERSE_RANGE computes is rounded before it is stored."""

    NONE = "none"
    """Not at all."""
    WHOLE = "whole"
    """To a whole number, halves to even: HQQ's ``round_zero``."""


class TensorFrom(Choice):
    """Where the tensor scale of a two-level scheme comes from."""

    BLOCK_SCALES = "block_scales"
    """``max(f32(largest raw block scale / largest value of the block dtype), 2^-126)``."""
    AMAX = "amax"
    """``f32(amax of the tensor / (qmax * largest value of the block dtype))``: NVFP4."""


class Calibration(Choice):
    """How the elements of a block give its range."""

    MINMAX = "minmax"
    """The largest magnitude."""
    ABSMEAN = "absmean"
    """The mean magnitude, as BitNet b1.58 (arXiv 2402.17764) does."""


ROUNDING_OF_KIND: Final[Mapping[Kind, Rounding]] = MappingProxyType(
    {
        Kind.INT: Rounding.HALF_AWAY,
        Kind.MINIFLOAT: Rounding.HALF_EVEN,
        Kind.FIELD: Rounding.HALF_AWAY,
    }
)
"""The rounding of each kind of value where none is given.

A lookup has none: it takes the nearest entry, ties to the lower.
"""

_SEEDS: Final = 2**64


@dataclass(frozen=True, slots=True, init=False)
class Numerics:
    """The rules that decide the bits of a scheme.

    Wherever a member is expected, its string is accepted.

    Parameters
    ----------
    rounding : Rounding or str, optional
        How elements are rounded. None is what the kind of value uses (`ROUNDING_OF_KIND`).
    seed : int
        The seed of stochastic rounding, from 0 to 2**64 - 1.
    scaling : Scaling or str
        How an element is divided by its scale.
    scale_from : ScaleFrom or str
        How a range becomes a raw scale.
    scale_rounding : ScaleRounding or str
        How a raw scale is rounded to its dtype.
    smallest_scale : float
        What raw scales of blocks that are not zero are raised to, in float32: an epsilon.
    zero_block : ZeroBlock or str
        The scale that a block of zeros stores.
    tensor_from : TensorFrom or str
        Where the tensor scale of a two-level scheme comes from.
    calibration : Calibration or str
        How the elements of a block give its range.
    zero_in_range : bool
        Whether an AFFINE range is widened to include 0.
    zero_rounding : ZeroRounding or str
        How a zero point that INVERSE_RANGE computes is rounded.

    Raises
    ------
    SchemeError
        A rule has no choice of that name, or a number is out of its range.
    """

    rounding: Rounding | None
    seed: int
    scaling: Scaling
    scale_from: ScaleFrom
    scale_rounding: ScaleRounding
    smallest_scale: float
    zero_block: ZeroBlock
    tensor_from: TensorFrom
    calibration: Calibration
    zero_in_range: bool
    zero_rounding: ZeroRounding

    def __init__(
        self,
        rounding: Rounding | str | None = None,
        seed: SupportsIndex = 0,
        scaling: Scaling | str = Scaling.DIVIDE,
        scale_from: ScaleFrom | str = ScaleFrom.RANGE,
        scale_rounding: ScaleRounding | str = ScaleRounding.UP,
        smallest_scale: SupportsFloat = 0.0,
        zero_block: ZeroBlock | str = ZeroBlock.ZERO,
        tensor_from: TensorFrom | str = TensorFrom.BLOCK_SCALES,
        calibration: Calibration | str = Calibration.MINMAX,
        zero_in_range: bool = True,
        zero_rounding: ZeroRounding | str = ZeroRounding.NONE,
    ) -> None:
        rules = {
            "rounding": None if rounding is None else Rounding.of(rounding, "rounding"),
            "seed": _seed(seed),
            "scaling": Scaling.of(scaling, "scaling"),
            "scale_from": ScaleFrom.of(scale_from, "scale_from"),
            "scale_rounding": ScaleRounding.of(scale_rounding, "scale_rounding"),
            "smallest_scale": _smallest_scale(smallest_scale),
            "zero_block": ZeroBlock.of(zero_block, "zero_block"),
            "tensor_from": TensorFrom.of(tensor_from, "tensor_from"),
            "calibration": Calibration.of(calibration, "calibration"),
            "zero_in_range": _boolean(zero_in_range, "zero_in_range"),
            "zero_rounding": ZeroRounding.of(zero_rounding, "zero_rounding"),
        }
        for rule, choice in rules.items():
            object.__setattr__(self, rule, choice)

    def to_dict(self) -> dict[str, str | float | None]:
        """Return the rules as JSON types, by name."""
        return {
            rule: choice.value if isinstance(choice, Choice) else choice
            for rule, choice in self._items()
        }

    @classmethod
    def from_dict(cls, rules: Mapping[str, Any]) -> Numerics:
        """Return the numerics that `to_dict` wrote; rules that are left out take their default.

        Raises
        ------
        SchemeError
            A rule or a choice is unknown.
        """
        return cls(**known_rules(rules))

    def non_default(self) -> dict[str, str]:
        """Return the rules that differ from the default, by name, for messages and reprs."""
        default = Numerics()
        return {
            rule: str(choice) for rule, choice in self._items() if choice != getattr(default, rule)
        }

    def _items(self) -> list[tuple[str, Any]]:
        return [(rule.name, getattr(self, rule.name)) for rule in fields(self)]


def known_rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return `rules` as a dictionary after checking that each is a rule of `Numerics`."""
    known = [rule.name for rule in fields(Numerics)]
    if not isinstance(rules, Mapping):
        raise SchemeError(f"numerics requires a dictionary of rules, got {rules!r}")
    unknown = sorted(str(rule) for rule in set(rules) - set(known))
    if unknown:
        raise SchemeError(f"numerics requires rules among {', '.join(known)}, got {unknown[0]!r}")
    return dict(rules)


def _seed(given: SupportsIndex) -> int:
    try:
        if isinstance(given, bool):
            raise TypeError
        seed = operator.index(given)
    except TypeError:
        seed = -1
    if not 0 <= seed < _SEEDS:
        raise SchemeError(f"seed requires an integer from 0 to 2**64 - 1, got {given!r}")
    return seed


def _smallest_scale(given: SupportsFloat) -> float:
    """Return a float32 that is not negative; the sign of zero is dropped."""
    try:
        if isinstance(given, bool | str | bytes):
            raise TypeError
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    rounded = round_to_float32(number)
    if not (math.isfinite(rounded) and rounded >= 0 and (rounded > 0) == (number > 0)):
        raise SchemeError(
            f"smallest_scale requires a finite float32 of at least 0, got {given!r}; 0 raises "
            "nothing"
        )
    return rounded + 0.0


def _boolean(given: bool, what: str) -> bool:
    if not isinstance(given, bool):
        raise SchemeError(f"{what} requires True or False, got {given!r}")
    return given
