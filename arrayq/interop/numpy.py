"""NumPy: arrays are their own memory."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy
import numpy as np

from arrayq.interop.access import Access, Host

__all__ = ["NumpyAccess"]


class NumpyAccess(Access):
    """How NumPy's arrays are reached; those of subclasses are taken as what they hold."""

    def namespace(self, x: Any) -> Any:
        """Return NumPy as array_api_compat wraps it."""
        return array_api_compat.numpy

    def device(self, x: Any) -> Any:
        """Return None: there is one device."""
        return None

    def shape(self, x: Any) -> tuple[int, ...]:
        """Return the shape of an array."""
        shape: tuple[int, ...] = x.shape
        return shape

    def dtype_name(self, x: Any) -> str:
        """Return the name of the dtype of an array."""
        name: str = x.dtype.name
        return name

    def view(self, x: Any) -> Host | None:
        """Return the array itself."""
        return np.asarray(x)

    def wrap(self, host: Host, like: Any, dtype: str | None = None) -> Host:
        """Return the memory itself."""
        return host if dtype is None else host.view(dtype)

    def sees_values(self, x: Any) -> bool:
        """Return True: values are there."""
        return True
