"""Dask: arrays that are computed chunk by chunk, when they are asked for."""

from __future__ import annotations

from typing import Any

import array_api_compat.dask.array
import dask.array as da
import numpy as np

from arrayq.errors import UnsupportedSchemeError
from arrayq.interop.access import Access, Host
from arrayq.namespaces import library_of

__all__ = ["DaskAccess"]


class DaskAccess(Access):
    """How dask's arrays are reached: never, before someone computes them."""

    def namespace(self, x: Any) -> Any:
        """Return dask.array as array_api_compat wraps it."""
        return array_api_compat.dask.array

    def device(self, x: Any) -> Any:
        """Return None: a graph has no device, its chunks do."""
        return None

    def shape(self, x: Any) -> tuple[int, ...]:
        """Return the shape of an array.

        Raises
        ------
        UnsupportedSchemeError
            The size of a chunk is not known, so that nobody can say where its blocks start.
        """
        if any(np.isnan(length) for lengths in x.chunks for length in lengths):
            raise UnsupportedSchemeError(
                f"a dask array requires chunks of known sizes, because blocks are counted from the "
                f"start of the array, got shape {x.shape}; call x.compute_chunk_sizes() first"
            )
        return super().shape(x)

    def sees_values(self, x: Any) -> bool:
        """Return False: seeing a value would compute the graph."""
        return False

    def copied(self, x: Any) -> Host:
        """Compute an array, for whoever asked for it in CPU memory."""
        computed = x.compute()
        return library_of(computed).reach().copied(computed)

    def wrap(self, host: Host, like: Any, dtype: str | None = None) -> Any:
        """Return an array of dask over memory; `like` does not matter."""
        if dtype is None:
            return da.from_array(host)
        import ml_dtypes  # NumPy's own dtypes have no bfloat16

        return da.from_array(host.view(getattr(ml_dtypes, dtype)))

    def asarray(self, host: Host, like: Any) -> Any:
        """Return an array of dask over a copy of memory."""
        return da.from_array(np.array(host))

    def duplicate(self, x: Any) -> Any:
        """Return another array with the same graph, which assignment to `x` does not change."""
        return x.copy()
