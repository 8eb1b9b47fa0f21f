"""Parameters whose memory is out of reach: of traced, lazy and device arrays.

Their structure is checked always, their numbers where these can be seen. `arrayq.qparams` does
the same for arrays in CPU memory, and names the first number that is wrong.
"""

from __future__ import annotations

from typing import Any

from arrayq._paths.generic import scales, zeros
from arrayq._paths.parts import Stored
from arrayq._paths.space import Array, Space
from arrayq.errors import QParamsError
from arrayq.layout import Plan
from arrayq.qparams import QParams, check_levels

__all__ = ["stored_elsewhere"]


def stored_elsewhere(
    space: Space, qparams: QParams, layout: Plan, *, visible: bool, allow_nan: bool
) -> Stored:
    """Return parameters as they are stored, without data.

    Parameters
    ----------
    space : Space
        Where they are, or are brought.
    qparams : QParams
        Numbers, and arrays of NumPy or of the library.
    layout : Plan
        What they are for.
    visible : bool
        Whether numbers can be looked at.
    allow_nan : bool
        Whether scales may be NaN.

    Raises
    ------
    QParamsError
        A parameter is missing, superfluous, of the wrong shape, or not one of this scheme.
    """
    scheme = layout.scheme
    check_levels(qparams, scheme)
    scale = _on_grid(space, qparams.scale, layout.grid, "scale")
    # -0.0 has no code in UE4M3
    scale = space.xp.where(scale == 0, space.full((), 0.0), scale)
    scale_data = scales.encode_exact(space, scale, scheme.scale_dtype)
    if visible:
        same = scales.decode(space, scale_data, scheme.scale_dtype) == scale
        if not scheme.scales_signed:
            same = same & (scale >= 0)
        if allow_nan:
            same = same | space.xp.isnan(scale)
        same = same & ~space.xp.isinf(scale)
        _check(space, same, "scale", f"that {scheme.scale_dtype} can represent")
    tensor_scale = zero_point = None
    if scheme.two_level:
        tensor_scale = _on_grid(space, qparams.tensor_scale, (), "tensor_scale")
        if visible:
            good = space.xp.isfinite(tensor_scale) & (tensor_scale >= 0)
            _check(space, good, "tensor_scale", "that are finite and at least 0")
            fits = ~space.xp.isinf(scale * tensor_scale)
            _check(space, fits, "tensor_scale", "whose products with the scales float32 can hold")
    if scheme.zero is not None:
        dtype = scheme.zero.dtype
        numbers = _on_grid(space, qparams.zero_point, layout.grid, "zero_point")
        zero_point = zeros.encode(space, space.cast(numbers, dtype.number_dtype), dtype)
        if visible:
            same = zeros.decode(space, zero_point, dtype) == numbers
            _check(space, same, "zero_point", f"that {dtype} can represent")
    return Stored(None, scale_data, zero_point, tensor_scale)


def _on_grid(space: Space, given: Any, grid: tuple[int, ...], what: str) -> Array:
    """Return float32 numbers in the shape of the grid of blocks."""
    array = space.brought(given)
    shape = tuple(array.shape)
    if shape != grid:
        if len(shape) > len(grid) or any(n != 1 for n in (*shape, *grid)):
            raise QParamsError(
                f"{what} requires the shape {grid} of the grid of blocks, got {shape}; give one "
                "for each block"
            )
        array = space.xp.reshape(array, grid)
    return space.cast(array, "float32")


def _check(space: Space, good: Array, what: str, requirement: str) -> None:
    if not bool(space.xp.all(good)):
        raise QParamsError(
            f"{what} requires numbers {requirement}, got others; calibrate() gives such numbers"
        )
