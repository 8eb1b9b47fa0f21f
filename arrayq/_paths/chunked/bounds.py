"""What of a block decides its scale, put together from pieces of the block.

The bounds of a block are three float32 numbers along a last axis: its smallest and its largest
finite element, infinite the wrong way round where it has none, and what else it holds: 0 nothing,
1 infinities, 2 NaN. The bounds of its pieces combine in any order. Three elements with the same
bounds have the scale of the whole block, so that scales are made by the usual path.

Pure array API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from arrayq._paths.space import Space

__all__ = ["INFINITE", "NAN", "combined", "elements_of", "measured", "of_number"]

Array = Any
_Reduction = Callable[..., Array]

INFINITE: Final = 1
NAN: Final = 2


def measured(space: Space, x: Array, block: tuple[int, ...]) -> Array:
    """Return the bounds of the blocks of an array of floats that starts on one.

    Parameters
    ----------
    space : Space
        Where `x` is computed.
    x : array
        The array, of at least one element.
    block : tuple of int
        Extent of a block along each axis.

    Returns
    -------
    array of float32 of shape (*grid, 3)
        The bounds.
    """
    xp = space.xp
    if x.dtype != xp.float64:
        x = space.cast(x, "float32")
    low = space.cast(_by_block(xp, xp.min, x, block), "float32")
    high = space.cast(_by_block(xp, xp.max, x, block), "float32")
    if bool(xp.all(xp.isfinite(low) & xp.isfinite(high))):
        return xp.stack([low, high, xp.zeros_like(low)], axis=-1)
    x = space.cast(x, "float32")
    finite = xp.isfinite(x)
    inf = xp.full_like(x, float("inf"))
    # 0, 1 or 2, as sums of what is not finite and what is no number
    beside = space.cast(~finite, "float32") + space.cast(xp.isnan(x), "float32")
    return xp.stack(
        [
            _by_block(xp, xp.min, xp.where(finite, x, inf), block),
            _by_block(xp, xp.max, xp.where(finite, x, -inf), block),
            _by_block(xp, xp.max, beside, block),
        ],
        axis=-1,
    )


def _by_block(xp: Any, reduce: _Reduction, x: Array, block: tuple[int, ...]) -> Array:
    """Reduce each block to one element; first along the axes that this shortens the most."""
    for axis in sorted(range(x.ndim), key=lambda axis: -block[axis]):
        length, extent = x.shape[axis], block[axis]
        if extent >= length:
            x = reduce(x, axis=axis, keepdims=True)
        elif extent > 1:
            whole = length // extent * extent
            before, after = (slice(None),) * axis, (slice(None),) * (x.ndim - axis - 1)
            blocks = xp.reshape(
                x[(*before, slice(0, whole), *after)],
                (*x.shape[:axis], whole // extent, extent, *x.shape[axis + 1 :]),
            )
            parts = [reduce(blocks, axis=axis + 1)]
            if whole < length:
                rest = x[(*before, slice(whole, length), *after)]
                parts.append(reduce(rest, axis=axis, keepdims=True))
            x = xp.concat(parts, axis=axis)
    return x


def combined(xp: Any, bounds: Array, axes: tuple[int, ...]) -> Array:
    """Return the bounds of what lies along axes, taken together; the axes stay, of length 1."""
    low, high, beside = bounds[..., 0], bounds[..., 1], bounds[..., 2]
    return xp.stack(
        [
            xp.min(low, axis=axes, keepdims=True),
            xp.max(high, axis=axes, keepdims=True),
            xp.max(beside, axis=axes, keepdims=True),
        ],
        axis=-1,
    )


def of_number(space: Space, number: Array | float, beside: float, ndim: int) -> Array:
    """Return the bounds of one block that holds a number and its negative."""
    xp = space.xp
    number = space.cast(xp.asarray(number), "float32")
    one = xp.stack([-number, number, xp.full_like(number, beside)])
    return xp.reshape(one, (1,) * ndim + (3,))


def elements_of(xp: Any, bounds: Array) -> Array:
    """Return three elements for each block that have its bounds, of the shape of `bounds`."""
    low, high, beside = bounds[..., 0], bounds[..., 1], bounds[..., 2]
    nothing_finite = low > high
    inf = xp.full_like(low, float("inf"))
    other = xp.where(beside == NAN, xp.full_like(low, float("nan")), inf)
    return xp.stack(
        [
            xp.where(nothing_finite, other, low),
            xp.where(nothing_finite, other, high),
            xp.where(beside > 0, other, low),
        ],
        axis=-1,
    )
