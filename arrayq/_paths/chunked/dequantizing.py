"""The graph of dequantize."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from arrayq._paths.chunked.alignment import Part, parts_of_grid, without_empty
from arrayq._paths.chunked.chunk import Decode
from arrayq._paths.chunked.grids import beside, empty, rechunked
from arrayq._paths.parts import Stored
from arrayq._paths.space import Space
from arrayq.layout import Plan

__all__ = ["dequantize"]

Array = Any


def dequantize(space: Space, stored: Stored, plan: Plan, dtype: str = "float32") -> Array:
    """Elements that a quantized array means, when they are asked for.

    Parameters
    ----------
    space : Space
        Not used: each chunk is computed where it is.
    stored : Stored
        The arrays of the quantized array, in any chunks.
    plan : Plan
        Its layout.
    dtype : str
        Name of the dtype of the elements.

    Returns
    -------
    dask array of shape plan.shape
        The elements, in the chunks of the data.
    """
    data = da.asarray(stored.data)
    data = rechunked(data, without_empty(data.chunks))
    chunks = list(data.chunks)
    last_words = None
    if plan.packed_axis is not None and plan.shape[plan.packed_axis]:
        words = chunks[plan.packed_axis]
        lengths = [count * plan.codes_per_word for count in words]
        lengths[-1] = plan.shape[plan.packed_axis] - sum(lengths[:-1])
        chunks[plan.packed_axis] = tuple(lengths)
        last_words = (len(lengths) - 1, lengths[-1])
    parts = parts_of_grid(plan, tuple(chunks))
    known = {
        "scale_data": stored.scale_data,
        "zero_point": stored.zero_point,
        "tensor_scale": stored.tensor_scale,
    }
    known = {name: da.asarray(part) for name, part in known.items() if part is not None}
    grids = [
        part if name == "tensor_scale" else beside(part, parts) for name, part in known.items()
    ]
    task = Decode(plan.scheme, dtype, tuple(known), tuple(map(_offsets, parts)), last_words)
    result = _dtype_named(dtype)
    return data.map_blocks(
        task, *grids, dtype=result, chunks=tuple(chunks), meta=empty(data.ndim, result),
    )  # fmt: skip


def _offsets(along: tuple[Part, ...]) -> int | tuple[int, ...]:
    offsets = tuple(part.offset for part in along)
    return offsets[0] if len(set(offsets)) == 1 else offsets


def _dtype_named(name: str) -> np.dtype[Any]:
    """Return a dtype by its name, bfloat16 included."""
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16
