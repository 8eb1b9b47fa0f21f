"""What the paths share: what a quantized array is stored in, and what to do about NaN."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Met", "Parts", "Policy", "Stored"]


class Policy(enum.IntEnum):
    """What becomes of NaN and infinities; numbered as in boxes.pxd."""

    RAISE = 0
    PROPAGATE = 1
    SATURATE = 2
    IGNORE = 3


class Met(enum.IntFlag):
    """What a pass met; numbered as in boxes.pxd."""

    NONFINITE = 1
    NAN = 2

    @property
    def refused(self) -> Met:
        """The part that no saturation can express."""
        return self & Met.NAN


class Parts(Protocol):
    """Whatever has the stored parts of a quantized array."""

    @property
    def data(self) -> Any:
        """Codes or words."""

    @property
    def scale_data(self) -> Any:
        """The grid of scales."""

    @property
    def zero_point(self) -> Any:
        """The grid of zero points, or None."""

    @property
    def tensor_scale(self) -> Any:
        """The tensor scale, or None."""


@dataclass(eq=False, slots=True)
class Stored:
    """The arrays of a quantized array: data, grids of scales and zero points, tensor scale."""

    data: Any
    scale_data: Any
    zero_point: Any
    tensor_scale: Any
