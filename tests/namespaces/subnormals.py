"""Which blocks and elements pass a float32 subnormal, in libraries that take those for zero.

Found from the array and from what is stored of it on a library that keeps them; where it is in
doubt, the answer is yes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scheme_lattice import Problem

import arrayq as aq
from arrayq.numerics import ScaleFrom, Scaling
from arrayq.scheme import QuantMode

Mask = npt.NDArray[np.bool_]

SMALLEST = 2.0**-126
"""The smallest normal number."""


class Met(NamedTuple):
    """Where subnormals are met.

    Attributes
    ----------
    blocks : array of bool, a grid
        Blocks whose scale, or something on the way to it, is one.
    elements : array of bool
        Elements whose code depends on one.
    values : array of bool
        Elements whose value depends on one, or is one.
    """

    blocks: Mask
    elements: Mask
    values: Mask


def _is_small(x: Any) -> Any:
    """Return where numbers or their halves are subnormal."""
    return (x != 0) & (np.abs(x) < 2 * SMALLEST)


def meets_subnormals(problem: Problem, q: aq.QuantizedArray, values: npt.NDArray[Any]) -> Met:
    """Return where the arithmetic of a problem meets subnormals.

    Parameters
    ----------
    problem : Problem
        The scheme and the array.
    q, values : QuantizedArray, ndarray
        What NumPy makes of them.
    """
    with np.errstate(all="ignore"):
        return _met(problem, q, values)


def _met(problem: Problem, q: aq.QuantizedArray, values: npt.NDArray[Any]) -> Met:
    scheme, layout = q.scheme, q.plan
    x = problem.array.astype(np.float64)
    x[~np.isfinite(x)] = 0.0
    cells = np.indices(x.shape)
    places = tuple(cell // block for cell, block in zip(cells, layout.block, strict=True))
    low, high = np.zeros(layout.grid), np.zeros(layout.grid)
    if not scheme.numerics.zero_in_range:
        low, high = np.full(layout.grid, np.inf), np.full(layout.grid, -np.inf)
    np.minimum.at(low, places, x)
    np.maximum.at(high, places, x)
    ranges = high - low if scheme.mode is QuantMode.AFFINE else np.maximum(-low, high)
    largest = max(map(abs, scheme.codebook or scheme.value.range))
    raw = ranges / (2 * largest)
    tensor = 1.0 if q.tensor_scale is None else float(q.tensor_scale)
    stored = np.abs(q.scale.astype(np.float64))
    scale = stored * tensor
    blocks = _is_small(ranges) | _is_small(raw)
    blocks |= (ranges != 0) & (_is_small(scale) | _is_small(stored) | _is_small(raw / tensor))
    if _is_small(tensor):
        blocks[...] = True
    if scheme.mode is QuantMode.AFFINE:
        blocks |= _is_small(low) | _is_small(high)
    if scheme.numerics.scaling is Scaling.RECIPROCAL:
        blocks |= scale > 1 / (4 * SMALLEST)
    if scheme.numerics.scale_from is ScaleFrom.INVERSE_RANGE:
        blocks |= ranges > 1 / (4 * SMALLEST)
    elements = blocks[places] | _is_small(x)
    return Met(blocks, elements, elements | _is_small(values))
