"""Scales, zero points and codebooks: what calibration finds and a scheme does not hold.

This module checks parameters against a scheme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from arrayq.errors import CodebookError, QParamsError
from arrayq.namespaces import Located, located
from arrayq.scheme import QuantMode, QuantScheme, ScaleDtype, ZeroPoint
from arrayq.scheme_parts import normal_codebook
from arrayq.stored_numbers import PART, ZeroArray, bits_to_scale, representable, whole_steps

__all__ = ["QParams", "check_levels", "hosted", "validate"]

Float32Array = npt.NDArray[np.float32]

# bfloat16 is not NumPy's own, so it is known by its name.
_REAL_INPUT: Final = frozenset({"float16", "bfloat16", "float32", "float64"})


# How far from the codes a zero point may lie: what rounding in float32 can still tell apart.
_MOST_STEPS: Final = float(2**22 - 256)


@dataclass(frozen=True, eq=False)
class QParams:
    """The parameters of a quantization that are arrays, together.

    Parameters
    ----------
    scale : array of float32
        The scales as numbers, one for each block: of shape ``ceil(shape / block)``, or all ones
        for one scale. With two levels they are relative to `tensor_scale`.
    tensor_scale : array of float32, optional
        The scale of the whole array, of shape ``()``; for two-level schemes only.
    zero_point : array of int32 or float32, optional
        For affine schemes: the zero points as numbers, in the shape of `scale`.
    codebook : sequence of float, optional
        For lookup schemes: the codebook to use instead of the scheme's own.
    """

    scale: Any
    tensor_scale: Any = None
    zero_point: Any = None
    codebook: Sequence[float] | None = None


def hosted(qparams: QParams) -> tuple[QParams, Located | None]:
    """Return parameters as NumPy sees them, and the first that it cannot see.

    Parameters
    ----------
    qparams : QParams
        Arrays of any library.

    Returns
    -------
    qparams : QParams
        The same parameters without a copy, as arrays of NumPy where all lie in CPU memory.
    unseen : Located or None
        A parameter that does not; what it quantizes has to go where it is.
    """
    if not isinstance(qparams, QParams):
        return qparams, None
    seen: dict[str, Any] = {}
    for name in ("scale", "tensor_scale", "zero_point"):
        given = getattr(qparams, name)
        if not hasattr(given, "dtype") or isinstance(given, np.ndarray | np.generic):
            continue
        here = located(given)
        if here.view is None:
            return qparams, here
        seen[name] = here.view
        if here.dtype == "bfloat16" and here.view.dtype == np.uint16:
            seen[name] = bits_to_scale(here.view, ScaleDtype.BF16)
    return (replace(qparams, **seen) if seen else qparams), None


def validate(
    qparams: QParams,
    scheme: QuantScheme,
    grid_shape: tuple[int, ...],
    *,
    allow_nan: bool = False,
    copy: bool = True,
) -> QParams:
    """Return parameters in their normal form, after checking that they fit.

    Parameters
    ----------
    qparams : QParams
        What the caller gave.
    scheme : QuantScheme
        What it is for.
    grid_shape : tuple of int
        The number of blocks along each axis of the array.
    allow_nan : bool
        Whether scales may be NaN, as they are in blocks that propagate NaN.
    copy : bool
        Whether the scales returned must not share memory with those given.

    Returns
    -------
    QParams
        `scale` as a float32 array of `grid_shape`, `tensor_scale` as a 0-d float32 array or
        None, `zero_point` as an array of `grid_shape` and the number dtype of the scheme's zero
        points or None, `codebook` as a tuple of float32 numbers for lookup schemes and None for
        others.

    Raises
    ------
    QParamsError
        A parameter is missing, superfluous, of the wrong shape, or not a scale or zero point of
        this scheme.
    CodebookError
        The codebook does not fit the scheme, or a lookup scheme has none.
    """
    check_levels(qparams, scheme)
    scale = _on_grid(_float32(qparams.scale, "scale"), grid_shape, "scale")
    scale = _checked_scale(scale, scheme, allow_nan=allow_nan)
    tensor_scale = _tensor_scale(qparams.tensor_scale, scheme)
    _check_product(scale, tensor_scale)
    return QParams(
        scale=scale.copy() if copy else scale,
        tensor_scale=tensor_scale,
        zero_point=_zero_point(qparams.zero_point, scheme, grid_shape),
        codebook=_codebook(qparams.codebook, scheme),
    )


def check_levels(qparams: QParams, scheme: QuantScheme) -> None:
    """Check that the parameters are there that a scheme has, and no others.

    Raises
    ------
    QParamsError
        The tensor scale or the zero points are missing or superfluous.
    """
    if not isinstance(qparams, QParams):
        raise QParamsError(
            f"qparams requires a QParams, got {type(qparams).__name__}; use QParams(scale=...)"
        )
    if scheme.two_level and qparams.tensor_scale is None:
        raise QParamsError(
            f"a two-level scheme should have a per-tensor scale: {scheme} requires tensor_scale, "
            "got None; give QParams(scale=..., tensor_scale=...)"
        )
    if not scheme.two_level and qparams.tensor_scale is not None:
        raise QParamsError(
            f"a one-level scheme requires no tensor_scale: {scheme} got one; multiply it into "
            "scale, or add a level with per_block(...) and per_tensor('f32')"
        )
    if scheme.zero is not None and qparams.zero_point is None:
        raise QParamsError(
            f"an affine scheme should have a zero point: {scheme} requires zero_point, got None; "
            "give QParams(scale=..., zero_point=...)"
        )
    if scheme.zero is None and qparams.zero_point is not None:
        raise QParamsError(
            f"{scheme} requires no zero_point, got one; mode {scheme.mode} has no zero points"
        )


def _real(given: object, what: str, instead: str) -> npt.NDArray[Any]:
    """Return `given` as an array of real numbers."""
    try:
        array: npt.NDArray[Any] = np.asarray(given)
    except ValueError:
        raise QParamsError(
            f"{what} requires an array, got lists of unequal lengths; give {instead}"
        ) from None
    if array.dtype.name not in _REAL_INPUT and array.dtype.kind not in "iu":
        raise QParamsError(
            f"{what} requires real numbers, got {_described(given, array)}; give {instead}"
        )
    return array


def _float32(given: object, what: str) -> Float32Array:
    """Return `given` as a native float32 array, rounding float64 once."""
    array = _real(given, what, "a float32 array")
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32, order="C", copy=False)
    vanished = (rounded == 0) & (array != 0)
    if vanished.any():
        raise QParamsError(
            f"{what} requires numbers that float32 can represent, got {_first(array, vanished)}; "
            "round it up to 2**-149, or set it to 0"
        )
    return rounded


def _on_grid(array: npt.NDArray[Any], grid_shape: tuple[int, ...], what: str) -> npt.NDArray[Any]:
    """Return `array` in the shape of the grid of blocks, which one number fits if it has one."""
    grid_shape = tuple(grid_shape)
    if array.ndim == 0 and grid_shape == (1,) * len(grid_shape):
        array = array.reshape(grid_shape)
    if array.shape != grid_shape:
        raise QParamsError(
            f"{what} requires the shape {grid_shape} of the grid of blocks, got {array.shape}; "
            "give one for each block"
        )
    return array


def _described(given: object, array: npt.NDArray[Any]) -> str:
    return "None" if given is None else f"dtype {array.dtype.name}"


def _first(array: npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> str:
    """Return the first element that `where` marks, with its index unless there is only one."""
    index = tuple(int(i) for i in np.unravel_index(int(where.argmax()), where.shape))
    number = float(array[index])
    return f"{number!r} at index {index}" if array.ndim else repr(number)


_Faults = tuple[tuple[str, npt.NDArray[np.bool_], str], ...]
"""What is required of numbers, where they fail it, and what to do instead."""


def _check(array: npt.NDArray[Any], what: str, faults: _Faults) -> None:
    """Raise QParamsError for the first number of the first fault that there is."""
    for requirement, faulty, advice in faults:
        if faulty.any():
            raise QParamsError(
                f"{what} requires numbers {requirement}, got {_first(array, faulty)}; {advice}"
            )


def _checked_scale(scale: Float32Array, scheme: QuantScheme, *, allow_nan: bool) -> Float32Array:
    """Return scales without negative zeros, after checking that all are scales of the scheme.

    The check goes part by part: a grid may be a good part of the array that it belongs to.
    """
    flat = scale.reshape(-1)
    negative_zero = False
    for start in range(0, flat.size, PART):
        part = flat[start : start + PART]
        good = representable(part, scheme.scale_dtype, signed=scheme.scales_signed)
        if allow_nan:
            good |= np.isnan(part)
        if not good.all():
            _check_scale(scale, scheme, allow_nan=allow_nan)
        negative_zero |= bool((np.signbit(part) & (part == 0)).any())
    # -0.0 means the same as 0.0 but has no code in UE4M3; adding zero makes it that.
    return scale + np.float32(0) if negative_zero else scale


def _check_scale(scale: Float32Array, scheme: QuantScheme, *, allow_nan: bool) -> None:
    """Raise QParamsError for the first scale that is no scale of the scheme."""
    dtype, signed = scheme.scale_dtype, scheme.scales_signed
    nan = np.isnan(scale)
    faults = (
        ("that are not NaN", nan & (not allow_nan), "quantize with nonfinite='propagate'"),
        ("that are finite", np.isinf(scale), f"clip it to {dtype.format.qmax!r}"),
        ("that are not negative", (scale < 0) & (not signed), "give its magnitude"),
        (
            f"that {dtype} can represent",
            ~representable(scale, dtype, signed=signed) & ~nan,
            f"round it up to {dtype}, whose largest value is {dtype.format.qmax!r}",
        ),
    )
    _check(scale, "scale", faults)


def _check_product(scale: Float32Array, tensor_scale: Float32Array | None) -> None:
    """Raise QParamsError where two levels multiply to infinity: a code of zero would be NaN."""
    if tensor_scale is None or not scale.size:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isinf(np.fmax.reduce(scale, axis=None) * tensor_scale):
            return
        infinite = np.isinf(scale * tensor_scale)
    if infinite.any():
        raise QParamsError(
            "tensor_scale requires products with the block scales that float32 can hold, got "
            f"{float(tensor_scale)!r} beside a scale of {_first(scale, infinite)}"
        )


def _tensor_scale(given: object, scheme: QuantScheme) -> Float32Array | None:
    """Return the tensor scale as a 0-d array, after checking that the scheme has one."""
    if given is None:
        return None
    tensor_scale = _float32(given, "tensor_scale")
    if tensor_scale.size != 1:
        raise QParamsError(
            f"tensor_scale requires one number, got shape {tensor_scale.shape}; give the scales "
            "of blocks as scale"
        )
    tensor_scale = tensor_scale.reshape(())
    if not (np.isfinite(tensor_scale) and tensor_scale >= 0):
        raise QParamsError(
            f"tensor_scale requires a finite number of at least 0, got {float(tensor_scale)!r}; "
            "calibrate on finite elements"
        )
    return np.asarray(tensor_scale + np.float32(0))


def _zero_point(
    given: object, scheme: QuantScheme, grid_shape: tuple[int, ...]
) -> ZeroArray | None:
    """Return the zero points as numbers, after checking that the scheme has them."""
    if scheme.zero is None or given is None:
        return None
    if scheme.zero.dtype.is_float:
        return _float_zero(given, scheme.zero, grid_shape)
    if not scheme.numerics.zero_in_range:
        limits = (-_MOST_STEPS, _MOST_STEPS)
        return _integer_zero(given, limits, "the steps float32 can tell apart", grid_shape)
    return _integer_zero(given, scheme.value.range, "the codes of the value", grid_shape)


def _float_zero(given: object, zero: ZeroPoint, grid_shape: tuple[int, ...]) -> Float32Array:
    numbers = _on_grid(_float32(given, "zero_point"), grid_shape, "zero_point")
    row = zero.dtype.format
    _check(
        numbers,
        "zero_point",
        (
            ("that are finite", ~np.isfinite(numbers), "calibrate on finite elements"),
            (
                f"that {zero.dtype} can represent",
                ~whole_steps(numbers, row, signed=True),
                f"round it to {zero.dtype}, whose largest value is {row.qmax!r}",
            ),
        ),
    )
    return numbers.copy()


def _integer_zero(
    given: object, codes: tuple[float, float], what: str, grid_shape: tuple[int, ...]
) -> npt.NDArray[np.int32]:
    numbers = _on_grid(_real(given, "zero_point", "an int32 array"), grid_shape, "zero_point")
    wide = numbers.astype(np.float64)
    low, high = codes
    with np.errstate(invalid="ignore"):
        faults = (
            ("that are whole", np.floor(wide) != wide, "round it to a code"),
            (
                f"from {low:.0f} to {high:.0f}, {what}",
                ~((low <= wide) & (wide <= high)),
                "clamp it",
            ),
        )
    _check(numbers, "zero_point", faults)
    return wide.astype(np.int32)


def _codebook(given: Sequence[float] | None, scheme: QuantScheme) -> tuple[float, ...] | None:
    """Return the codebook that counts: the caller's, else the scheme's."""
    if scheme.mode is not QuantMode.LOOKUP:
        if given is None:
            return None
        raise CodebookError(
            f"{scheme} requires no codebook, got one; use with_mode('lookup', codebook)"
        )
    if given is None:
        return scheme.require_codebook()
    return normal_codebook(given, scheme.value.bits)
