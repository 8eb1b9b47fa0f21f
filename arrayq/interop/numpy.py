"""NumPy: arrays are their own memory."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy
import numpy as np

from arrayq.errors import UnsupportedSchemeError
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

    def duplicate(self, x: Any) -> Host:
        """Return a copy of an array."""
        return np.array(x)

    def reinterpreted(self, bits: Any, dtype: str) -> Host:
        """Return the same memory in another dtype."""
        if bits.dtype.name == dtype:
            return np.asarray(bits)
        if dtype == "float16":
            return np.asarray(bits.view(np.float16))
        try:
            import ml_dtypes
        except ImportError as error:
            raise UnsupportedSchemeError(
                f"native on numpy requires the package ml_dtypes for {dtype}; install it"
            ) from error
        view: Host = bits.view(getattr(ml_dtypes, dtype))
        return view

    def bits_of(self, x: Any, *, signed: bool) -> Host:
        """Return the same memory as integers."""
        kind = "i" if signed else "u"
        view: Host = x.view(np.dtype(f"{kind}{x.dtype.itemsize}"))
        return view

    def sees_values(self, x: Any) -> bool:
        """Return True: values are there."""
        return True
