"""ndonnx: constants and arguments of an ONNX graph."""

from __future__ import annotations

from typing import Any

from arrayq.interop.access import Access, Host

__all__ = ["NdonnxAccess"]


class NdonnxAccess(Access):
    """How ndonnx's arrays are reached; constants can be seen, arguments cannot."""

    def device(self, x: Any) -> Any:
        """Return None: a graph has no device."""
        return None

    def sees_values(self, x: Any) -> bool:
        """Whether the array is a constant."""
        try:
            x.unwrap_numpy()
        except ValueError:
            return False
        return True

    def _fetched(self, x: Any) -> Host:
        host: Host = x.unwrap_numpy()
        return host
