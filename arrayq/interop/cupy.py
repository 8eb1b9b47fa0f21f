"""CuPy: arrays on a CUDA device."""

from __future__ import annotations

from typing import Any

from arrayq.interop.access import Access, Host

__all__ = ["CupyAccess"]


class CupyAccess(Access):
    """How CuPy's arrays are reached; they stay on their device."""

    def _fetched(self, x: Any) -> Host:
        host: Host = x.get()
        return host

    def sees_values(self, x: Any) -> bool:
        """Return True: the device is waited for."""
        return True
