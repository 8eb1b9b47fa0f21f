"""JAX: arrays on one CPU device share their memory, tracers and other devices do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from arrayq.interop.access import Access, Host

__all__ = ["JaxAccess"]


class JaxAccess(Access):
    """How JAX's arrays are reached."""

    aligned = True

    def namespace(self, x: Any) -> Any:
        """Return jax.numpy."""
        return jnp

    def device(self, x: Any) -> Any:
        """Return the device or sharding of an array; None for a tracer."""
        return None if isinstance(x, jax.core.Tracer) else x.device

    def view(self, x: Any) -> Host | None:
        """Return the read-only memory of an array on one CPU device."""
        if isinstance(x, jax.core.Tracer) or not x.is_fully_addressable:
            return None
        devices = x.devices()
        if len(devices) != 1 or next(iter(devices)).platform != "cpu":
            return None
        return np.asarray(x)

    def wrap(self, host: Host, like: Any, dtype: str | None = None) -> Any:
        """Return an array on the device of `like`; memory that starts on 64 bytes is taken over."""
        if host.flags.writeable and host.flags.c_contiguous and host.ctypes.data % 64 == 0:
            array = jnp.from_dlpack(host)
        else:
            array = jnp.asarray(host)
        return self._beside(array, like)

    def asarray(self, host: Host, like: Any) -> Any:
        """Return a copy on the device of `like`."""
        return self._beside(jnp.asarray(host), like)

    def _beside(self, array: Any, like: Any) -> Any:
        device = self.device(like)
        if device is None or device == array.device:
            return array
        return jax.device_put(array, device)

    def sees_values(self, x: Any) -> bool:
        """Whether the array is no tracer."""
        return not isinstance(x, jax.core.Tracer)

    def straight_through(
        self, x: Any, forward: Callable[[Any], tuple[Any, Callable[[], Any]]]
    ) -> Any:
        """Return the first result of `forward`; its gradient is passed where the second is true."""

        @jax.custom_vjp
        def passed(x: Any) -> Any:
            return forward(x)[0]

        def ahead(x: Any) -> tuple[Any, Any]:
            y, inside = forward(x)
            return y, inside()

        def back(inside: Any, gradient: Any) -> tuple[Any]:
            return (jnp.where(inside, gradient, jnp.zeros_like(gradient)),)

        passed.defvjp(ahead, back)
        return passed(x)
