"""MLX: memory that CPU and GPU share, seen once the array is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from arrayq.interop.access import Access, Host

__all__ = ["MlxAccess"]


class MlxAccess(Access):
    """How MLX's arrays are reached. Reading the memory computes what is still to be computed."""

    takes_bits = True

    def namespace(self, x: Any) -> Any:
        """Return mlx.core."""
        return mx

    def device(self, x: Any) -> Any:
        """Return None: an array has no device of its own."""
        return None

    def view(self, x: Any) -> Host | None:
        """Return the memory; None inside `mlx.core.compile` and other transformations."""
        try:
            return np.asarray(x.view(mx.uint16) if x.dtype == mx.bfloat16 else x)
        except (RuntimeError, ValueError):
            return None

    def wrap(self, host: Host, like: Any, dtype: str | None = None) -> Any:
        """Return a copy, which is the only way in."""
        # left to itself, MLX makes float32 of float64
        wide = {"dtype": mx.float64} if host.dtype == np.float64 else {}
        array = mx.array(np.ascontiguousarray(host), **wide).reshape(host.shape)
        return array if dtype is None else array.view(getattr(mx, dtype))

    asarray = wrap

    def reinterpreted(self, bits: Any, dtype: str) -> Any:
        """Return the same bits in another dtype."""
        return bits.view(getattr(mx, dtype))

    def bits_of(self, x: Any, *, signed: bool) -> Any:
        """Return the bits as integers of a byte or two."""
        if x.itemsize == 2:
            return x.view(mx.uint16)
        return x.view(mx.int8 if signed else mx.uint8)

    def duplicate(self, x: Any) -> Any:
        """Return a copy of an array."""
        return mx.array(x)

    def detached(self, x: Any) -> Any:
        """Return an array that no gradient flows through."""
        return mx.stop_gradient(x)

    def sees_values(self, x: Any) -> bool:
        """Whether the array is not one that a transformation traces."""
        return self.view(x) is not None

    def straight_through(
        self, x: Any, forward: Callable[[Any], tuple[Any, Callable[[], Any]]]
    ) -> Any:
        """Return the first result of `forward`; its gradient is passed where the second is true."""

        @mx.custom_function
        def passed(x: Any) -> Any:
            return forward(x)[0]

        @passed.vjp
        def back(x: Any, gradient: Any, _: Any) -> Any:
            return mx.where(forward(x)[1](), gradient, mx.zeros_like(gradient))

        return passed(x)
