"""torch: CPU tensors share their memory; other devices, tracers and wrappers do not."""

from __future__ import annotations

from typing import Any

import array_api_compat.torch
import numpy as np
import torch

from arrayq.interop.access import Access, Host

__all__ = ["TorchAccess"]

_PLAIN = (torch.Tensor, torch.nn.Parameter)
# Dtypes that NumPy lacks, by the integers of their size.
_BITS = {
    torch.bfloat16: torch.uint16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
    torch.float8_e8m0fnu: torch.uint8,
    torch.float4_e2m1fn_x2: torch.uint8,
}


class TorchAccess(Access):
    """How torch's tensors are reached."""

    takes_bits = True

    def namespace(self, x: Any) -> Any:
        """Return torch as array_api_compat wraps it."""
        return array_api_compat.torch

    def device(self, x: Any) -> Any:
        """Return the device of a tensor."""
        return x.device

    def view(self, x: Any) -> Host | None:
        """Return the memory of a plain CPU tensor."""
        if type(x) not in _PLAIN or x.device.type != "cpu" or torch.compiler.is_compiling():
            return None
        bits = _BITS.get(x.dtype)
        try:
            x = x.detach()
            host: Host = (x if bits is None else x.view(bits)).numpy()
        except (RuntimeError, TypeError):
            return None
        return host

    def wrap(self, host: Host, like: Any, dtype: str | None = None) -> Any:
        """Return a tensor over the memory."""
        if not host.flags.writeable or any(stride < 0 for stride in host.strides):
            host = host.copy()
        tensor = torch.from_numpy(host)
        return tensor if dtype is None else tensor.view(getattr(torch, dtype))

    def asarray(self, host: Host, like: Any) -> Any:
        """Return a copy on the device of `like`."""
        return torch.from_numpy(np.array(host)).to(like.device)

    def sees_values(self, x: Any) -> bool:
        """Whether the tensor is neither traced nor of the meta device."""
        return (
            type(x) in _PLAIN
            and x.device.type != "meta"
            and not torch.compiler.is_compiling()
            and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        )

    def detached(self, x: Any) -> Any:
        """Return the tensor without its history."""
        return x.detach()

    def duplicate(self, x: Any) -> Any:
        """Return a copy of a tensor."""
        return x.detach().clone()

    def reinterpreted(self, bits: Any, dtype: str) -> Any:
        """Return the same memory in another dtype."""
        return bits.view(getattr(torch, dtype))

    def bits_of(self, x: Any, *, signed: bool) -> Any:
        """Return the same memory as integers."""
        if x.element_size() == 2:
            return x.view(torch.uint16)
        return x.view(torch.int8 if signed else torch.uint8)

    def _fetched(self, x: Any) -> Host:
        bits = _BITS.get(x.dtype)
        x = x.detach().cpu()
        host: Host = (x if bits is None else x.view(bits)).numpy()
        return host
