"""Transposing bytes and words in memory."""

from __future__ import annotations

import numpy as np

from arrayq.moves.parts import Array

__all__ = ["transposed"]


def transposed(data: Array, order: tuple[int, ...]) -> Array:
    """Return data with its axes in another order."""
    return np.ascontiguousarray(data.transpose(order))
