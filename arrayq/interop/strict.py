"""array_api_strict: NumPy's memory on its first device, none on the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayq.interop.access import Access, Host

__all__ = ["StrictAccess"]


class StrictAccess(Access):
    """How array_api_strict's arrays are reached."""

    def view(self, x: Any) -> Host | None:
        """Return the memory of an array on the CPU device, which alone gives it."""
        try:
            return np.asarray(x)
        except (RuntimeError, TypeError, ValueError):
            return None

    def _fetched(self, x: Any) -> Host:
        xp = self.namespace(x)
        return np.asarray(x.to_device(xp.Device("CPU_DEVICE")))
