"""The rules that the parts of a scheme must keep together.

Each rule is a function that returns the sentence naming what a scheme breaks, or None. A new
rule is a function and a row of `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from arrayq.formats import FORMATS, Kind
from arrayq.numerics import ROUNDING_OF_KIND, Rounding, ScaleFrom, TensorFrom
from arrayq.scheme_parts import QuantMode, ScaleDtype

if TYPE_CHECKING:
    from arrayq.scheme import QuantScheme

__all__ = ["RULES"]


def _field_needs_lookup(scheme: QuantScheme) -> str | None:
    if scheme.value.kind is not Kind.FIELD or scheme.mode is QuantMode.LOOKUP:
        return None
    return (
        f"value {scheme.value} requires mode lookup, got {scheme.mode}; a field means something "
        "only through a codebook: use with_mode('lookup', codebook)"
    )


def _lookup_needs_integer_or_field(scheme: QuantScheme) -> str | None:
    if scheme.mode is not QuantMode.LOOKUP or scheme.value.kind is not Kind.MINIFLOAT:
        return None
    return (
        f"mode lookup requires an integer or field value, got {scheme.value}; use "
        f"u{scheme.value.bits}, whose codes have the same width"
    )


def _codebook_needs_lookup(scheme: QuantScheme) -> str | None:
    if scheme.codebook is None or scheme.mode is QuantMode.LOOKUP:
        return None
    return f"a codebook requires mode lookup, got {scheme.mode}; use with_mode('lookup', codebook)"


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


def _rounding_is_that_of_the_value(scheme: QuantScheme) -> str | None:
    rounding = scheme.numerics.rounding
    lookup = scheme.mode is QuantMode.LOOKUP
    own: Rounding | None = None if lookup else ROUNDING_OF_KIND.get(scheme.value.kind)
    if rounding is None or rounding is own:
        return None
    described = "nearest entry, ties to the lower" if own is None else str(own)
    return (
        f"rounding of {scheme.value} in mode {scheme.mode} requires its own rule ({described}), "
        f"got {rounding}; leave rounding out"
    )


def _floor_needs_powers_of_two(scheme: QuantScheme) -> str | None:
    powers_only = scheme.scale_dtype is ScaleDtype.UE8M0
    if scheme.numerics.scale_from is not ScaleFrom.FLOOR or powers_only:
        return None
    return (
        f"scale_from floor requires ue8m0 scales, got {scheme.scale_dtype}; use "
        "per_block(size, 'ue8m0') before this rule, or scale_from range or qmax"
    )


def _tensor_amax_needs_two_levels(scheme: QuantScheme) -> str | None:
    if scheme.numerics.tensor_from is not TensorFrom.AMAX or scheme.two_level:
        return None
    return (
        "tensor_from amax requires a two-level scheme, got one level; use per_block(size, dtype) "
        "and per_tensor('f32') before this rule"
    )


RULES: Final[tuple[Callable[[QuantScheme], str | None], ...]] = (
    _field_needs_lookup,
    _lookup_needs_integer_or_field,
    _codebook_needs_lookup,
    _two_level_tensor_scale_is_f32,
    _two_level_block_dtype_is_within_f16,
    _rounding_is_that_of_the_value,
    _floor_needs_powers_of_two,
    _tensor_amax_needs_two_levels,
)
"""Every rule, in the order in which they are checked."""
