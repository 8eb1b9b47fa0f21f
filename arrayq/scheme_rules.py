"""The rules that the parts of a scheme must keep together.

Each rule is a function that returns the sentence naming what a scheme breaks, or None. A new
rule is a function and a row of `RULES`; a new way to make a scale is a row of
`SCALE_FROM_NEEDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from arrayq.choice import Choice
from arrayq.formats import FORMATS, Kind
from arrayq.numerics import (
    Calibration,
    Rounding,
    ScaleFrom,
    Scaling,
    TensorFrom,
    ZeroBlock,
    ZeroRounding,
)
from arrayq.scheme_parts import QuantMode, QuantValue, ScaleDtype
from arrayq.zero_points import ZeroDtype, ZeroKind

if TYPE_CHECKING:
    from arrayq.scheme import QuantScheme

__all__ = ["RULES", "SCALE_FROM_NEEDS", "Needs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a scheme must be for a choice of `ScaleFrom` to mean something."""

    modes: tuple[QuantMode, ...] = (QuantMode.SYMMETRIC,)
    values: tuple[QuantValue, ...] = tuple(QuantValue)
    scale_dtypes: tuple[ScaleDtype, ...] = tuple(ScaleDtype)
    calibrations: tuple[Calibration, ...] = tuple(Calibration)
    has_raw_scale: bool = True
    """Whether there is a scale before rounding, which a smallest scale could raise."""


_SYMMETRIC_OR_LOOKUP: Final = (QuantMode.SYMMETRIC, QuantMode.LOOKUP)
_MINIFLOATS: Final = tuple(value for value in QuantValue if value.kind is Kind.MINIFLOAT)
_FULL_RANGE: Final = (QuantValue.Q8F, QuantValue.Q4F, QuantValue.Q2F)
_SIGNED_SCALES: Final = tuple(dtype for dtype in ScaleDtype if dtype.format.signed)
_MINMAX: Final = (Calibration.MINMAX,)
_POWERS: Final = (ScaleDtype.UE8M0,)
_POWER_OF_TWO: Final = Needs(modes=_SYMMETRIC_OR_LOOKUP, scale_dtypes=_POWERS, has_raw_scale=False)

SCALE_FROM_NEEDS: Final[Mapping[ScaleFrom, Needs]] = MappingProxyType(
    {
        ScaleFrom.RANGE: Needs(modes=tuple(QuantMode)),
        ScaleFrom.QMAX: Needs(modes=_SYMMETRIC_OR_LOOKUP),
        ScaleFrom.ENDPOINTS: Needs(calibrations=_MINMAX),
        ScaleFrom.SIGNED_MAX: Needs(
            values=_FULL_RANGE, scale_dtypes=_SIGNED_SCALES, calibrations=_MINMAX
        ),
        ScaleFrom.INVERSE_RANGE: Needs(modes=(QuantMode.AFFINE,), has_raw_scale=False),
        ScaleFrom.FLOOR: _POWER_OF_TWO,
        ScaleFrom.CEIL: _POWER_OF_TWO,
        ScaleFrom.RCEIL: _POWER_OF_TWO,
        ScaleFrom.EVEN: Needs(values=_MINIFLOATS, scale_dtypes=_POWERS, has_raw_scale=False),
        ScaleFrom.NEAREST_LOG2: replace(
            _POWER_OF_TWO, scale_dtypes=(ScaleDtype.UE8M0, ScaleDtype.F32)
        ),
    }
)
"""What each way to make a scale needs."""


def _listed(choices: Iterable[Choice]) -> str:
    """Return the names of choices: "f32, f16 or bf16"."""
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}" if others else last


# Modes.


def _field_needs_meaning(scheme: QuantScheme) -> str | None:
    if scheme.value.kind is not Kind.FIELD or scheme.mode is not QuantMode.SYMMETRIC:
        return None
    return (
        f"value {scheme.value} requires mode lookup or affine, got {scheme.mode}; a field means "
        "something only through a codebook or a zero point: use with_mode('lookup', codebook) or "
        "with_mode('affine')"
    )


def _minifloat_needs_symmetric(scheme: QuantScheme) -> str | None:
    if scheme.value.kind is not Kind.MINIFLOAT or scheme.mode is QuantMode.SYMMETRIC:
        return None
    return (
        f"mode {scheme.mode} requires an integer or field value, got {scheme.value}; use "
        f"u{scheme.value.bits}, whose codes have the same width"
    )


def _codebook_needs_lookup(scheme: QuantScheme) -> str | None:
    if scheme.codebook is None or scheme.mode is QuantMode.LOOKUP:
        return None
    return f"a codebook requires mode lookup, got {scheme.mode}; use with_mode('lookup', codebook)"


# Levels.


def _two_level_tensor_scale_is_f32(scheme: QuantScheme) -> str | None:
    if not scheme.two_level or scheme.tensor is ScaleDtype.F32:
        return None
    return (
        f"a two-level scheme requires an f32 tensor scale, got {scheme.tensor}; use "
        "per_tensor('f32')"
    )


def _two_level_block_dtype_is_within_f16(scheme: QuantScheme) -> str | None:
    largest = FORMATS["f16"].qmax
    if not scheme.two_level or scheme.scale_dtype.format.qmax <= largest:
        return None
    return (
        f"a two-level scheme requires a block scale dtype whose largest value is at most f16's "
        f"{largest:g}, got {scheme.scale_dtype}; use f16 or ue4m3, or leave out the tensor level"
    )


def _tensor_amax_needs_two_levels(scheme: QuantScheme) -> str | None:
    if scheme.numerics.tensor_from is not TensorFrom.AMAX or scheme.two_level:
        return None
    return (
        "tensor_from amax requires a two-level scheme, got one level; use per_block(size, dtype) "
        "and per_tensor('f32') before this rule"
    )


# Affine schemes.


def _affine_has_one_level(scheme: QuantScheme) -> str | None:
    if scheme.mode is not QuantMode.AFFINE or not scheme.two_level:
        return None
    return (
        "mode affine requires one level of scales, got two; leave out per_tensor, or the block "
        "or channel level"
    )


def _affine_scale_has_fractions(scheme: QuantScheme) -> str | None:
    if scheme.mode is not QuantMode.AFFINE or scheme.scale_dtype is not ScaleDtype.UE8M0:
        return None
    allowed = _listed(dtype for dtype in ScaleDtype if dtype is not ScaleDtype.UE8M0)
    return (
        f"mode affine requires {allowed} scales, got ue8m0; a power of two leaves the ends of a "
        "range unused: use per_block(size, 'f16')"
    )


def _affine_is_minmax(scheme: QuantScheme) -> str | None:
    calibration = scheme.numerics.calibration
    if scheme.mode is not QuantMode.AFFINE or calibration is Calibration.MINMAX:
        return None
    return (
        f"mode affine requires calibration minmax, got {calibration}; a mean magnitude says "
        "nothing about where a range lies"
    )


def _zero_needs_affine(scheme: QuantScheme) -> str | None:
    if scheme.zero is None or scheme.mode is QuantMode.AFFINE:
        return None
    return f"a zero point requires mode affine, got {scheme.mode}; use with_mode('affine') first"


def _integer_zero_reaches_every_code(scheme: QuantScheme) -> str | None:
    if scheme.zero is None or scheme.zero.dtype.is_float:
        return None
    (low, high), (qmin, qmax) = scheme.zero.dtype.range, scheme.value.range
    if low <= qmin and qmax <= high:
        return None
    return (
        f"a zero point of {scheme.value} requires a dtype that holds {qmin:g} to {qmax:g}, got "
        f"{scheme.zero.dtype}; use i32, or leave the dtype out"
    )


def _fractional_zero_needs_inverse_range(scheme: QuantScheme) -> str | None:
    if scheme.zero is None or scheme.zero.kind is ZeroKind.BIAS or not scheme.zero.dtype.is_float:
        return None
    if scheme.numerics.scale_from is ScaleFrom.INVERSE_RANGE:
        return None
    return (
        f"a zero point of kind code and dtype {scheme.zero.dtype} requires scale_from "
        f"inverse_range, got {scheme.numerics.scale_from}; use an integer dtype, or that rule "
        "first"
    )


def _inverse_range_needs_fractional_zero(scheme: QuantScheme) -> str | None:
    zero = scheme.zero
    if scheme.numerics.scale_from is not ScaleFrom.INVERSE_RANGE or zero is None:
        return None
    if zero.kind is ZeroKind.CODE and zero.dtype.is_float:
        return None
    return (
        "scale_from inverse_range requires a zero point of kind code and dtype f32, f16 or bf16, "
        f"got {zero}; use with_zero('code') before this rule"
    )


def _zero_in_range_needs_affine(scheme: QuantScheme) -> str | None:
    if scheme.numerics.zero_in_range or scheme.mode is QuantMode.AFFINE:
        return None
    return (
        f"zero_in_range False requires mode affine, got {scheme.mode}; every other mode has zero "
        "in its range: leave the rule out"
    )


def _zero_outside_the_codes_needs_room(scheme: QuantScheme) -> str | None:
    zero = scheme.zero
    if scheme.numerics.zero_in_range or zero is None or zero.kind is ZeroKind.BIAS:
        return None
    if zero.dtype is ZeroDtype.I32 or zero.dtype.is_float:
        return None
    return (
        f"zero_in_range False requires a zero point of dtype i32 or of kind bias, got {zero}; a "
        "range without zero puts the zero point outside the codes: use with_zero('code', 'i32') "
        "or with_zero('bias') before this rule"
    )


def _zero_rounding_needs_inverse_range(scheme: QuantScheme) -> str | None:
    numerics = scheme.numerics
    own = numerics.zero_rounding is ZeroRounding.NONE
    if own or numerics.scale_from is ScaleFrom.INVERSE_RANGE:
        return None
    return (
        f"zero_rounding {numerics.zero_rounding} requires scale_from inverse_range, got "
        f"{numerics.scale_from}; integer zero points are whole as they are: leave the rule out"
    )


# Rounding and scaling of elements.


def _lookup_has_no_rounding(scheme: QuantScheme) -> str | None:
    rounding = scheme.numerics.rounding
    if scheme.mode is not QuantMode.LOOKUP or rounding is None:
        return None
    return (
        f"rounding of {scheme.value} in mode lookup requires its own rule (nearest entry, ties to "
        f"the lower), got {rounding}; leave rounding out"
    )


def _seed_needs_stochastic(scheme: QuantScheme) -> str | None:
    seed = scheme.numerics.seed
    if not seed or scheme.rounding is Rounding.STOCHASTIC:
        return None
    return (
        f"a seed requires rounding stochastic, got seed {seed} and rounding {scheme.rounding}; "
        "leave seed out, or set it to 0"
    )


def _inverse_range_multiplies(scheme: QuantScheme) -> str | None:
    numerics = scheme.numerics
    if numerics.scale_from is not ScaleFrom.INVERSE_RANGE or numerics.scaling is Scaling.DIVIDE:
        return None
    return (
        "scale_from inverse_range requires no other scaling, got reciprocal; it multiplies by the "
        "inverse that it computes: leave scaling out"
    )


# Scales.


def _scale_from_has_what_it_needs(scheme: QuantScheme) -> str | None:
    numerics = scheme.numerics
    needs = SCALE_FROM_NEEDS[numerics.scale_from]
    parts: tuple[tuple[str, tuple[Choice, ...], Choice, str], ...] = (
        ("mode {}", needs.modes, scheme.mode, "use with_mode(...)"),
        ("value {}", needs.values, scheme.value, "use with_value(...)"),
        ("{} scales", needs.scale_dtypes, scheme.scale_dtype, "use per_block(size, dtype)"),
        ("calibration {}", needs.calibrations, numerics.calibration, "leave calibration out"),
    )
    for described, allowed, given, instead in parts:
        if given not in allowed:
            return (
                f"scale_from {numerics.scale_from} requires {described.format(_listed(allowed))}, "
                f"got {given}; {instead} before this rule, or choose another scale_from"
            )
    return None


def _smallest_scale_raises_raw_scales(scheme: QuantScheme) -> str | None:
    numerics = scheme.numerics
    if not numerics.smallest_scale or SCALE_FROM_NEEDS[numerics.scale_from].has_raw_scale:
        return None
    allowed = _listed(rule for rule, needs in SCALE_FROM_NEEDS.items() if needs.has_raw_scale)
    return (
        f"a smallest_scale requires scale_from {allowed}, got {numerics.scale_from}; that rule "
        "has limits of its own: leave smallest_scale out"
    )


def _smallest_scale_has_one_level(scheme: QuantScheme) -> str | None:
    if not scheme.numerics.smallest_scale or not scheme.two_level:
        return None
    return (
        "a smallest_scale requires one level of scales, got two; block scales are relative to "
        "the tensor scale: leave smallest_scale out"
    )


def _smallest_scale_is_a_scale(scheme: QuantScheme) -> str | None:
    largest = scheme.scale_dtype.format.qmax
    if scheme.numerics.smallest_scale <= largest:
        return None
    return (
        f"a smallest_scale of {scheme.scale_dtype} scales requires at most their largest value, "
        f"{largest:g}, got {scheme.numerics.smallest_scale:g}"
    )


def _zero_block_smallest_needs_smallest_scale(scheme: QuantScheme) -> str | None:
    numerics = scheme.numerics
    if numerics.zero_block is not ZeroBlock.SMALLEST or numerics.smallest_scale:
        return None
    return (
        "zero_block smallest requires a smallest_scale above 0, got 0; give both rules at once, "
        "or leave zero_block out"
    )


RULES: Final[tuple[Callable[[QuantScheme], str | None], ...]] = (
    _field_needs_meaning,
    _minifloat_needs_symmetric,
    _codebook_needs_lookup,
    _two_level_tensor_scale_is_f32,
    _affine_has_one_level,
    _two_level_block_dtype_is_within_f16,
    _tensor_amax_needs_two_levels,
    _affine_scale_has_fractions,
    _affine_is_minmax,
    _zero_needs_affine,
    _zero_in_range_needs_affine,
    _zero_outside_the_codes_needs_room,
    _scale_from_has_what_it_needs,
    _zero_rounding_needs_inverse_range,
    _integer_zero_reaches_every_code,
    _fractional_zero_needs_inverse_range,
    _inverse_range_needs_fractional_zero,
    _lookup_has_no_rounding,
    _seed_needs_stochastic,
    _inverse_range_multiplies,
    _smallest_scale_raises_raw_scales,
    _smallest_scale_has_one_level,
    _smallest_scale_is_a_scale,
    _zero_block_smallest_needs_smallest_scale,
)
"""Every rule, in the order in which they are checked."""
