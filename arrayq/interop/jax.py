"""JAX: arrays on one CPU device share their memory, tracers and other devices do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from arrayq._paths.space import Space
from arrayq.errors import ArrayTypeError, UnsupportedSchemeError
from arrayq.interop import trees
from arrayq.interop.access import Access, Host

__all__ = ["JaxAccess"]


# Bits of the dtypes that take less than a byte.
_WIDTHS = {"float4_e2m1fn": 4, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2}


def _is_sharded_explicitly(x: Any) -> bool:
    """Whether the sharding of an array is part of its type, so that every reshape must name one."""
    sharding = jax.typeof(x).sharding
    if not any(axis is not None for axis in sharding.spec):
        return False
    return any(kind is jax.sharding.AxisType.Explicit for kind in sharding.mesh.axis_types)


class JaxAccess(Access):
    """How JAX's arrays are reached."""

    aligned = True

    def namespace(self, x: Any) -> Any:
        """Return jax.numpy."""
        return jnp

    def device(self, x: Any) -> Any:
        """Return the device or sharding of an array; None for a tracer."""
        return None if isinstance(x, jax.core.Tracer) else x.device

    def space(self, x: Any) -> Space:
        """Return where an array is computed; one over several devices draws constants to them."""
        space = super().space(x)
        return space if isinstance(space.device, jax.Device | None) else replace(space, device=None)

    def view(self, x: Any) -> Host | None:
        """Return the read-only memory of an array on one CPU device."""
        if _is_sharded_explicitly(x):
            raise UnsupportedSchemeError(
                "arrays of jax require a sharding that the compiler may change, got explicit "
                f"axes {jax.typeof(x).sharding.spec}; wrap the call in jax.sharding.auto_axes, or "
                "make the mesh with AxisType.Auto"
            )
        if isinstance(x, jax.core.Tracer) or not x.is_fully_addressable:
            return None
        if jnp.issubdtype(x.dtype, jax.dtypes.extended):
            return None  # a random key, which NumPy cannot show
        devices = x.devices()
        if len(devices) != 1 or next(iter(devices)).platform != "cpu":
            return None
        return np.asarray(x)

    def wrap(self, host: Host, like: Any, dtype: str | None = None) -> Any:
        """Return an array on the device of `like`; memory that starts on 64 bytes is taken over."""
        return self._beside(host, like)

    def asarray(self, host: Host, like: Any) -> Any:
        """Return a copy on the device of `like`."""
        return self._beside(np.array(host), like)

    def _beside(self, host: Host, like: Any) -> Any:
        # as numpy.asarray of a JAX array does, this keeps memory alive and takes it as it is;
        # unlike from_dlpack, in any dtype, and on a device only where `like` was put on one
        if isinstance(like, jax.core.Tracer) or not like.committed:
            return jax.device_put(host)
        return jax.device_put(host, like.sharding)

    def detached(self, x: Any) -> Any:
        """Return an array that no gradient flows through."""
        return jax.lax.stop_gradient(x)

    def duplicate(self, x: Any) -> Any:
        """Return a copy of an array."""
        return jnp.copy(x)

    def reinterpreted(self, bits: Any, dtype: str) -> Any:
        """Return the same bits in another dtype; XLA copies what is narrower than a byte."""
        target = getattr(jnp, dtype)
        width = _WIDTHS.get(dtype)
        if width is None:
            return bits.view(target)
        integer = getattr(jnp, f"uint{width}")
        narrow = (bits.view(jnp.uint8) & ((1 << width) - 1)).astype(integer)
        return jax.lax.bitcast_convert_type(narrow, target)

    def bits_of(self, x: Any, *, signed: bool) -> Any:
        """Return the bits as integers of a byte or two."""
        width = _WIDTHS.get(x.dtype.name)
        if width is None:
            kind = "int" if signed else "uint"
            return x.view(getattr(jnp, f"{kind}{8 * x.dtype.itemsize}"))
        if signed:
            integer = getattr(jnp, f"int{width}")
            return jax.lax.bitcast_convert_type(x, integer).astype(jnp.int8)
        integer = getattr(jnp, f"uint{width}")
        return jax.lax.bitcast_convert_type(x, integer).astype(jnp.uint8)

    def check_dtype(self, name: str) -> None:
        """Refuse float64 where JAX would make float32 of it."""
        if name == "float64" and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            raise ArrayTypeError(
                "dtype float64 on jax requires jax_enable_x64, which is off; use float32, or "
                "jax.config.update('jax_enable_x64', True)"
            )

    def sees_values(self, x: Any) -> bool:
        """Whether the array is no tracer."""
        return not isinstance(x, jax.core.Tracer)

    def straight_through(
        self, x: Any, forward: Callable[[Any], tuple[Any, Callable[[], Any]]]
    ) -> Any:
        """Return the first result of `forward`; its gradient is passed where the second is true."""
        if not isinstance(x, jax.core.Tracer):
            return forward(x)[0]
        detached = jax.lax.stop_gradient(x)
        y, inside = forward(detached)
        return _passed(x, y, inside())


@jax.custom_jvp
def _passed(x: Any, y: Any, inside: Any) -> Any:
    """Return `y`, which changes with `x` where `inside` is true, and nowhere else."""
    return y


@_passed.defjvp
def _tangent(primals: Any, tangents: Any) -> Any:
    _, _, inside = primals
    tangent = tangents[0]
    # the result once more as it is differentiated, for derivatives of derivatives
    return _passed(*primals), jnp.where(inside, tangent, jnp.zeros_like(tangent))


def _register(tree: trees.Tree) -> None:
    keys = [GetAttrKey(name) for name in tree.leaves]

    def with_keys(x: Any) -> tuple[list[tuple[GetAttrKey, Any]], Any]:
        leaves, static = tree.flatten(x)
        return list(zip(keys, leaves, strict=True)), static

    def unflatten(static: Any, leaves: Any) -> Any:
        return tree.unflatten(tuple(leaves), static)

    register_pytree_with_keys(tree.kind, with_keys, unflatten, tree.flatten)


for _tree in trees.TREES:
    _register(_tree)
