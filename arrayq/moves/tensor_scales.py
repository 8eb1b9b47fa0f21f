"""Bringing two-level arrays with different tensor scales together.

An element is multiplied with ``f32(block scale * tensor scale)``. A part with tensor scale g can
take another one, G, exactly where every block scale s has a partner S in the block dtype with
``f32(S * G) == f32(s * g)``. Otherwise block scales have to be rounded, which is done on request
only and comes with a report of the error. Parts whose elements are all zero, or that have none,
can take any tensor scale, and have no say in which one it is. G need not be one of the given
tensor scales.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from arrayq.moves.parts import Array, Parts, cannot_move
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
    if not given:
        return parts, _report(parts, parts) if rescale else None
    if len({scale.tobytes() for scale in given}) == 1:
        return parts, _report(parts, parts) if rescale else None
    heard = [_has_a_say(one) for one in parts]
    asked = [one.tensor_scale for one, has_say in zip(parts, heard, strict=True) if has_say]
    scales = [scale for scale in asked if scale is not None] or given
    candidates = sorted({float(scale) for scale in scales}, key=abs, reverse=True)
    heard_parts = [one for one, has_say in zip(parts, heard, strict=True) if has_say]
    for candidate in itertools.chain(candidates, _derived(heard_parts)):
        exact = [_rescaled(one, np.float32(candidate)) for one in parts]
        pairs = zip(exact, parts, heard, strict=True)
        if all(_same_scales(one, was) for one, was, has_say in pairs if has_say):
            return exact, _report(exact, parts, heard) if rescale else None
    if not rescale:
        cannot_move(
            operation,
            "one tensor scale, or block scales that absorb the difference without rounding "
            "(rescale=True rounds them and reports the error)",
            "tensor scales " + ", ".join(f"{scale:.6g}" for scale in candidates[:4])
            + (" ..." if len(candidates) > 4 else ""),
        )  # fmt: skip
    # Under the largest one no block scale can exceed its dtype.
    rounded = [_rescaled(one, np.float32(candidates[0])) for one in parts]
    return rounded, _report(rounded, parts, heard)


def _derived(parts: Sequence[Parts]) -> Iterator[float]:
    """Yield tensor scales, other than those given, under which every block scale may be exact.

    One that is must turn some scale of the block dtype into the largest product of all; of those
    the largest scales leave the smaller products the most room, so one binade of them and what
    lies above its gaps will do.
    """
    if not parts:
        return
    dtype = parts[0].scheme.scale_dtype
    products = np.unique(np.abs(np.concatenate([_effective(one).ravel() for one in parts])))
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


def _has_a_say(parts: Parts) -> bool:
    """Whether some element is not zero, so that it matters what scales are relative to."""
    if 0 in parts.shape or not _effective(parts).any():
        return False
    q = parts.close()
    # Mostly the first element tells, and the rest need not be decoded.
    return bool(q[(0,) * q.ndim].dequantize().any() or q.dequantize().any())


def _scales(parts: Parts) -> npt.NDArray[np.float32]:
    return bits_to_scale(parts.grids["scale_data"], parts.scheme.scale_dtype)


def _effective(parts: Parts) -> npt.NDArray[np.float32]:
    scales = _scales(parts)
    return scales if parts.tensor_scale is None else scales * parts.tensor_scale


def _rescaled(parts: Parts, tensor_scale: np.float32) -> Parts:
    """Parts with another tensor scale and the block scales nearest to what they were."""
    if not parts.shape or 0 in parts.shape or parts.tensor_scale is None:
        return replace(parts, tensor_scale=np.asarray(tensor_scale))
    dtype = parts.scheme.scale_dtype
    wanted = _scales(parts).astype(np.float64) * np.float64(parts.tensor_scale)
    with np.errstate(all="ignore"):
        raw = wanted / np.float64(tensor_scale)
    nearest = _nearest(np.where(wanted == 0, wanted, raw), dtype)
    return replace(
        parts,
        tensor_scale=np.asarray(tensor_scale),
        grids={**parts.grids, "scale_data": scale_to_bits(nearest, dtype)},
    )


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


def _same_scales(one: Parts, was: Parts) -> bool:
    if 0 in was.shape:
        return True
    now, before = _effective(one), _effective(was)
    return bool(((now == before) | (np.isnan(now) & np.isnan(before))).all())


def _report(
    now: Sequence[Parts], before: Sequence[Parts], heard: Sequence[bool] | None = None
) -> RescaleReport:
    """Compare parts with what they were: their effective scales, and their elements."""
    tensor_scale = now[0].tensor_scale
    blocks = rounded = 0
    scale_error = error = 0.0
    for one, was, has_say in zip(now, before, heard or [True] * len(now), strict=True):
        new, old = _effective(one), _effective(was)
        blocks += new.size
        if not has_say:
            continue
        changed = (new != old) & ~(np.isnan(new) & np.isnan(old))
        rounded += int(np.count_nonzero(changed))
        if changed.any():
            scale_error = max(scale_error, _largest_ratio(new[changed], old[changed]))
            error = max(error, _largest_difference(one.close().dequantize(), was.close()))
    return RescaleReport(
        1.0 if tensor_scale is None else float(tensor_scale), blocks, rounded, scale_error, error
    )


def _largest_ratio(new: Array, old: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(new.astype(np.float64) / old - 1)))


def _largest_difference(values: Array, was: QuantizedArray) -> float:
    return float(np.nanmax(np.abs(values.astype(np.float64) - was.dequantize())))
