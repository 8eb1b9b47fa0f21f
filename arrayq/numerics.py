"""The rules that decide the bits, as data.

A scheme says how values are stored; its `Numerics` says how they get there. The defaults are
burn's; presets carry the rules of the format that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final

from arrayq.choice import Choice
from arrayq.errors import SchemeError
from arrayq.formats import Kind

__all__ = [
    "ROUNDING_OF_KIND",
    "Calibration",
    "Numerics",
    "Rounding",
    "ScaleFrom",
    "ScaleRounding",
    "TensorFrom",
]


class Rounding(Choice):
    """Where a number halfway between two codes goes."""

    HALF_AWAY = "half_away"
    """To the one further from zero, as Rust's and C's ``round`` do."""
    HALF_EVEN = "half_even"
    """To the one with the even code, as IEEE 754 does."""


class ScaleFrom(Choice):
    """How the range of a block becomes its raw scale.

    Below, ``r`` is the largest magnitude that calibration gives a block and ``[qmin, qmax]``
    the range of the value. Under LOOKUP all but FLOOR are ``r`` over the largest magnitude in
    the codebook.
    """

    RANGE = "range"
    """``f32(r / ((qmax - qmin) / 2))``: burn's ``2r / (b - a)`` without its overflow."""
    QMAX = "qmax"
    """``f32(r / qmax)``: the largest element gets the largest code."""
    FLOOR = "floor"
    """``2^(floor(log2 r) - emax)``: OCP Microscaling v1.0, section 6.3. UE8M0 scales only."""


class ScaleRounding(Choice):
    """How a raw scale is rounded to its dtype."""

    UP = "up"
    """To the smallest scale that is not below it, so that nothing new is clipped."""
    NEAREST = "nearest"
    """To the nearest scale, ties to even; for UE8M0 ties go up."""


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
    {Kind.INT: Rounding.HALF_AWAY, Kind.MINIFLOAT: Rounding.HALF_EVEN}
)
"""The rounding of each kind of value; a lookup takes the nearest entry, ties to the lower."""


@dataclass(frozen=True, slots=True, init=False)
class Numerics:
    """The rules that decide the bits of a scheme.

    Parameters
    ----------
    rounding : Rounding or str, optional
        How elements are rounded. None is what the kind of value uses (`ROUNDING_OF_KIND`).
    scale_from : ScaleFrom or str
        How a range becomes a raw scale.
    scale_rounding : ScaleRounding or str
        How a raw scale is rounded to its dtype.
    tensor_from : TensorFrom or str
        Where the tensor scale of a two-level scheme comes from.
    calibration : Calibration or str
        How the elements of a block give its range.

    Raises
    ------
    SchemeError
        A rule has no choice of that name.
    """

    rounding: Rounding | None
    scale_from: ScaleFrom
    scale_rounding: ScaleRounding
    tensor_from: TensorFrom
    calibration: Calibration

    def __init__(
        self,
        rounding: Rounding | str | None = None,
        scale_from: ScaleFrom | str = ScaleFrom.RANGE,
        scale_rounding: ScaleRounding | str = ScaleRounding.UP,
        tensor_from: TensorFrom | str = TensorFrom.BLOCK_SCALES,
        calibration: Calibration | str = Calibration.MINMAX,
    ) -> None:
        choices = {
            "rounding": None if rounding is None else Rounding.of(rounding, "rounding"),
            "scale_from": ScaleFrom.of(scale_from, "scale_from"),
            "scale_rounding": ScaleRounding.of(scale_rounding, "scale_rounding"),
            "tensor_from": TensorFrom.of(tensor_from, "tensor_from"),
            "calibration": Calibration.of(calibration, "calibration"),
        }
        for rule, choice in choices.items():
            object.__setattr__(self, rule, choice)

    def to_dict(self) -> dict[str, str | None]:
        """Return the rules as JSON types, by name."""
        return {rule: None if choice is None else choice.value for rule, choice in self._items()}

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
            rule: str(choice)
            for rule, choice in self._items()
            if choice is not getattr(default, rule)
        }

    def _items(self) -> list[tuple[str, Choice | None]]:
        return [(rule.name, getattr(self, rule.name)) for rule in fields(self)]


def known_rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return `rules` as a dictionary after checking that each is a rule of `Numerics`."""
    known = [rule.name for rule in fields(Numerics)]
    if not isinstance(rules, Mapping):
        raise SchemeError(f"numerics requires a dictionary of rules, got {rules!r}")
    unknown = sorted(set(rules) - set(known))
    if unknown:
        raise SchemeError(f"numerics requires rules among {', '.join(known)}, got {unknown[0]!r}")
    return dict(rules)
