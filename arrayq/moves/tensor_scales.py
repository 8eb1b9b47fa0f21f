"""Bringing two-level arrays with different tensor scales together.

An element is multiplied with ``f32(block scale * tensor scale)``. A part with tensor scale g can
take another one, G, exactly where every block scale s has a partner S in the block dtype with
``f32(S * G) == f32(s * g)``. Otherwise block scales have to be rounded, which is done on request
only and comes with a report of the error. Parts whose elements are all zero, or that have none,
can take any tensor scale, and have no say in which one it is. G need not be one of the given
tensor scales.

All of this depends on values. Where they cannot be seen, in traced and lazy arrays, only arrays
that share one tensor scale join.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from arrayq.errors import LayoutError
from arrayq.moves.operations import Array, Host
from arrayq.moves.parts import Parts, cannot_move, parts_of
from arrayq.scheme import ScaleDtype
from arrayq.stored_numbers import bits_to_scale, scale_to_bits

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["RescaleReport", "Rescaled", "with_one_tensor_scale"]


class RescaleReport(NamedTuple):
    """What it took to bring tensor scales together.

    Attributes
    ----------
    tensor_scale : float
        The tensor scale of the joined array.
    blocks : int
        Blocks of all parts together.
    rounded_blocks : int
        Blocks whose effective scale changed, but for those of parts of zeros alone; 0 means that
        the join is exact.
    max_scale_error : float
        Largest relative change of an effective scale.
    max_error : float
        Largest absolute change of an element.
    """

    tensor_scale: float
    blocks: int
    rounded_blocks: int
    max_scale_error: float
    max_error: float


class Rescaled(NamedTuple):
    """A joined array and the error that joining it made.

    Attributes
    ----------
    array : QuantizedArray
        The joined array.
    report : RescaleReport
        What changed.
    """

    array: QuantizedArray
    report: RescaleReport


def with_one_tensor_scale(
    parts: list[Parts], operation: str, *, rescale: bool
) -> tuple[list[Parts], RescaleReport | None]:
    """Give all parts one tensor scale.

    Parameters
    ----------
    parts : list of Parts
        Parts of one format.
    operation : str
        What for, for messages.
    rescale : bool
        Whether block scales may be rounded.

    Returns
    -------
    list of Parts
        The parts, with the same tensor scale.
    RescaleReport or None
        What that changed, where `rescale` allows changes.

    Raises
    ------
    LayoutError
        Block scales would have to be rounded and `rescale` does not allow it.
    """
    given = [one.tensor_scale for one in parts if one.tensor_scale is not None]
    _check_seen(parts, given, operation, rescale=rescale)
    if not given:
        return parts, RescaleReport(1.0, _blocks(parts), 0, 0.0, 0.0) if rescale else None
    if all(scale is given[0] for scale in given) and not rescale:
        return parts, None
    numbers = [one.on.fetched(scale) for one, scale in zip(parts, given, strict=True)]
    if len({number.tobytes() for number in numbers}) == 1:
        report = RescaleReport(float(numbers[0]), _blocks(parts), 0, 0.0, 0.0)
        return parts, report if rescale else None
    before = [_levels(one, number) for one, number in zip(parts, numbers, strict=True)]
    heard = [_has_a_say(one, levels) for one, levels in zip(parts, before, strict=True)]
    asked = list(itertools.compress(numbers, heard)) or numbers
    candidates = sorted({float(scale) for scale in asked}, key=abs, reverse=True)
    dtype = parts[0].scheme.scale_dtype
    derived = _derived(list(itertools.compress(before, heard)), dtype)
    for candidate in itertools.chain(candidates, derived):
        now = [levels.under(np.float32(candidate), dtype) for levels in before]
        pairs = zip(now, before, heard, strict=True)
        if all(one.means_the_same_as(was) for one, was, has_say in pairs if has_say):
            break
    else:
        if not rescale:
            cannot_move(
                operation,
                "one tensor scale, or block scales that absorb the difference without rounding "
                "(rescale=True rounds them and reports the error)",
                "tensor scales " + ", ".join(f"{scale:.6g}" for scale in candidates[:4])
                + (" ..." if len(candidates) > 4 else ""),
            )  # fmt: skip
        # Under the largest one no block scale can exceed its dtype.
        now = [levels.under(np.float32(candidates[0]), dtype) for levels in before]
    rescaled = _rescaled(parts, now)
    if not rescale:
        return rescaled, None
    changes = list(map(_Change, rescaled, parts, now, before))
    tensor_scale = float(now[0].tensor_scale)
    report = _report(tensor_scale, _blocks(parts), list(itertools.compress(changes, heard)))
    return rescaled, report


def _check_seen(
    parts: Sequence[Parts], given: Sequence[Array], operation: str, *, rescale: bool
) -> None:
    """Raise LayoutError where tensor scales decide that cannot be seen."""
    if not given or all(one.on.sees_values for one in parts):
        return
    if any(scale is not given[0] for scale in given):
        raise LayoutError(
            f"{operation} requires tensor scales that can be seen or are one and the same array, "
            f"got several of traced or lazy arrays of {parts[0].on.library}; quantize all parts "
            "with the same QParams.tensor_scale, or join the floats before quantizing"
        )
    if rescale:
        raise LayoutError(
            f"{operation} with rescale=True requires tensor scales that can be seen, to report "
            f"the error, got traced or lazy arrays of {parts[0].on.library}; leave rescale out, "
            "since parts with the same tensor scale join exactly"
        )


def _blocks(parts: Sequence[Parts]) -> int:
    return sum(prod(one.grids["scale_data"].shape) for one in parts)


class _Levels(NamedTuple):
    """The scales of a part as numbers."""

    scales: npt.NDArray[np.float32]
    tensor_scale: Host
    is_empty: bool

    @property
    def effective(self) -> npt.NDArray[np.float32]:
        """What elements are multiplied with."""
        return np.asarray(self.scales * self.tensor_scale)

    def under(self, tensor_scale: np.float32, dtype: ScaleDtype) -> _Levels:
        """Return another tensor scale and the block scales nearest to what they were."""
        if self.is_empty:
            return self._replace(tensor_scale=np.asarray(tensor_scale))
        wanted = self.scales.astype(np.float64) * np.float64(self.tensor_scale)
        with np.errstate(all="ignore"):
            raw = wanted / np.float64(tensor_scale)
        nearest = _nearest(np.where(wanted == 0, wanted, raw), dtype)
        return _Levels(nearest, np.asarray(tensor_scale), False)

    def means_the_same_as(self, was: _Levels) -> bool:
        """Return whether no element changes."""
        return self.is_empty or not self.changed(was).any()

    def changed(self, was: _Levels) -> npt.NDArray[np.bool_]:
        """Return where effective scales differ."""
        now, before = self.effective, was.effective
        return np.asarray((now != before) & ~(np.isnan(now) & np.isnan(before)))


def _levels(parts: Parts, tensor_scale: Host) -> _Levels:
    bits = parts.on.fetched(parts.grids["scale_data"])
    return _Levels(bits_to_scale(bits, parts.scheme.scale_dtype), tensor_scale, 0 in parts.shape)


def _derived(levels: Sequence[_Levels], dtype: ScaleDtype) -> Iterator[float]:
    """Yield tensor scales, other than those given, under which every block scale may be exact.

    One that is must turn some scale of the block dtype into the largest product of all; of those
    the largest scales leave the smaller products the most room, so one binade of them and what
    lies above its gaps will do.
    """
    if not levels:
        return
    products = np.unique(np.abs(np.concatenate([one.effective.ravel() for one in levels])))
    products = products[np.isfinite(products) & (products > 0)]
    if not products.size:
        return
    codes = np.arange(dtype.format.max_code + 1, dtype=dtype.stored_dtype)
    top = bits_to_scale(codes, dtype)
    top = top[top > dtype.format.qmax / 4].astype(np.float64)
    with np.errstate(all="ignore"):
        nearest = (products[-1] / top).astype(np.float32)
        tried = np.concatenate([nearest, np.nextafter(nearest, 0), np.nextafter(nearest, np.inf)])
        # most fail on a few products, which are quicker to try than all
        few = products[np.linspace(0, products.size - 1, min(products.size, 64)).astype(int)]
        scales = _nearest(few.astype(np.float64) / tried.astype(np.float64)[:, None], dtype)
        kept = (scales * tried[:, None] == few).all(axis=1)
    yield from (float(scale) for scale in tried[kept & (tried > 0) & np.isfinite(tried)])


def _has_a_say(parts: Parts, levels: _Levels) -> bool:
    """Whether some element is not zero, so that it matters what scales are relative to."""
    if levels.is_empty or not levels.effective.any():
        return False
    # Mostly the first element tells, and the rest need not be fetched and decoded.
    first = parts_of(parts.close()[(0,) * len(parts.axes)], "joining").fetched()
    return bool(first.dequantize().any() or parts.fetched().dequantize().any())


def _rescaled(parts: Sequence[Parts], levels: Sequence[_Levels]) -> list[Parts]:
    """Parts with other scales, and one tensor scale for all."""
    tensor_scale = parts[0].on.placed(levels[0].tensor_scale)
    dtype = parts[0].scheme.scale_dtype
    rescaled = []
    for one, new in zip(parts, levels, strict=True):
        grids = dict(one.grids)
        if not new.is_empty:
            grids["scale_data"] = one.on.placed(scale_to_bits(new.scales, dtype))
        rescaled.append(replace(one, tensor_scale=tensor_scale, grids=grids))
    return rescaled


def _nearest(scales: npt.NDArray[np.float64], dtype: ScaleDtype) -> npt.NDArray[np.float32]:
    """Nearest numbers of a dtype, ties to even; signs stay, and only zeros become zero."""
    row = dtype.format
    exponent = np.frexp(np.where(np.isfinite(scales), scales, 1))[1]
    exponent = np.maximum(exponent, int(np.frexp(row.smallest_normal)[1]))
    spacing = np.ldexp(1.0, exponent - 1 - row.mantissa_bits)
    smallest = np.ldexp(row.smallest_normal, -row.mantissa_bits)
    magnitudes = np.maximum(np.round(np.abs(scales) / spacing) * spacing, smallest)
    nearest = np.where(scales == 0, 0.0, np.minimum(magnitudes, row.qmax))
    return np.where(np.isnan(scales), np.nan, np.copysign(nearest, scales)).astype(np.float32)


class _Change(NamedTuple):
    """A part and its scales, now and before."""

    part: Parts
    part_was: Parts
    levels: _Levels
    levels_were: _Levels


def _report(tensor_scale: float, blocks: int, changes: Sequence[_Change]) -> RescaleReport:
    """Compare parts with what they were: their effective scales, and their elements."""
    rounded = 0
    scale_error = error = 0.0
    for part, part_was, levels, levels_were in changes:
        changed = levels.changed(levels_were)
        if not changed.any():
            continue
        rounded += int(np.count_nonzero(changed))
        new, old = levels.effective[changed], levels_were.effective[changed]
        scale_error = max(scale_error, _largest_ratio(new, old))
        values, values_were = part.fetched().dequantize(), part_was.fetched().dequantize()
        error = max(error, _largest_difference(values, values_were))
    return RescaleReport(tensor_scale, blocks, rounded, scale_error, error)


def _largest_ratio(new: Host, old: Host) -> float:
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(new.astype(np.float64) / old - 1)))


def _largest_difference(values: Host, were: Host) -> float:
    return float(np.nanmax(np.abs(values.astype(np.float64) - were)))
