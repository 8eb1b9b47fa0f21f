"""torch: CPU tensors share their memory; other devices, tracers and wrappers do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import array_api_compat.torch
import numpy as np
import torch
import torch.autograd.forward_ad as forward_mode

from arrayq._paths.space import Space
from arrayq.errors import ArrayTypeError, LayoutError, UnsupportedSchemeError
from arrayq.interop.access import Access, Host
from arrayq.interop.torch_recording import register

__all__ = ["TorchAccess", "is_plain"]

# Dtypes that NumPy lacks, by the integers of their size.
_BITS = {
    torch.bfloat16: torch.uint16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
    torch.float8_e8m0fnu: torch.uint8,
    torch.float4_e2m1fn_x2: torch.uint8,
}
# torch writes tensors of these dtypes by pickle, and cannot read them (2.13).
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32}
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_tracing_state: Callable[[], Any] = torch._C._get_tracing_state
_transformation: Callable[[], Any] = torch._C._functorch.maybe_current_level


def is_plain(x: Any) -> bool:
    """Return whether a tensor is values and nothing else: not traced, wrapped or transformed."""
    return (
        (type(x) is torch.Tensor or type(x) is torch.nn.Parameter)
        and not _dispatch_modes()
        and _tracing_state() is None
        and _transformation() is None
    )


def _is_functionalized() -> bool:
    """Whether the innermost transformation is functionalize, which knows no custom functions."""
    innermost = torch._C._functorch.peek_interpreter_stack()
    kind = torch._C._functorch.TransformType.Functionalize
    return innermost is not None and innermost.key() == kind


class TorchAccess(Access):
    """How torch's tensors are reached."""

    takes_bits = True

    def namespace(self, x: Any) -> Any:
        """Return torch as array_api_compat wraps it."""
        return array_api_compat.torch

    def space(self, x: Any) -> Space:
        """Return where a tensor is computed."""
        return replace(super().space(x), by_index=_dispatch_modes() > 0)

    def device(self, x: Any) -> Any:
        """Return the device of a tensor."""
        return x.device

    def view(self, x: Any) -> Host | None:
        """Return the memory of a plain CPU tensor."""
        if x.is_nested:
            raise ArrayTypeError(
                "x requires a tensor of one length per axis, got a nested one; convert it with "
                "torch.nested.to_padded_tensor(x, 0.0)"
            )
        if x.layout is not torch.strided:
            raise ArrayTypeError(
                f"x requires a dense tensor, got one of layout {x.layout}; convert it with "
                "x.to_dense()"
            )
        if not x.is_cpu or not is_plain(x):
            return None
        bits = _BITS.get(x.dtype)
        try:
            if x.requires_grad:
                x = x.detach()
            host: Host = (x if bits is None else x.view(bits)).numpy()
        except (RuntimeError, TypeError):  # negated or conjugated, but not yet in memory
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
        return is_plain(x) and not x.is_meta

    def check_out(self, out: Any) -> None:
        """Refuse a tensor whose history would say something else than its memory."""
        wanted = out.requires_grad and torch.is_grad_enabled()
        if wanted or forward_mode._current_level >= 0:
            raise LayoutError(
                "out requires a tensor without a gradient, got one with; write under "
                "torch.no_grad(), or omit out"
            )

    def wrote(self, out: Any) -> None:
        """Let autograd find out where it needs what was there before."""
        torch.autograd.graph.increment_version(out)

    def detached(self, x: Any) -> Any:
        """Return the tensor without its history."""
        return x.detach()

    def duplicate(self, x: Any) -> Any:
        """Return a copy of a tensor."""
        return x.detach().clone()

    def pickled(self, x: Any) -> Any:
        """Return a tensor that torch pickles: of its own memory, of no unsigned dtype but uint8."""
        if x.dtype in _SIGNED:
            x = x.view(_SIGNED[x.dtype])
        whole = x.untyped_storage().nbytes() == x.numel() * x.element_size()
        return x if whole else x.clone()

    def unpickled(self, x: Any, dtype: str) -> Any:
        """Return the tensor in its own dtype."""
        return x.view(getattr(torch, dtype))

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

    def straight_through(
        self, x: Any, forward: Callable[[Any], tuple[Any, Callable[[], Any]]]
    ) -> Any:
        """Return the first result of `forward`; its gradient is passed where the second is true."""
        if _tracing_state() is not None:
            raise UnsupportedSchemeError(
                "fake_quantize on torch requires eager tensors, torch.compile or torch.export, got "
                "torch.jit.trace; use torch.export"
            )
        wanted = x.requires_grad and torch.is_grad_enabled()
        if not wanted and _is_functionalized():
            return forward(x)[0]
        if is_plain(x) and forward_mode._current_level < 0 and not wanted:
            return forward(x)[0]
        return _StraightThrough.apply(x, forward)[0]  # type: ignore[no-untyped-call]


class _StraightThrough(torch.autograd.Function):
    """A function whose derivative is 1 where a mask is true, and 0 elsewhere."""

    # torch makes the rule for vmap; one written by hand is not asked under grad of vmap
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, forward: Callable[[Any], tuple[Any, Callable[[], Any]]]) -> Any:
        y, mask = forward(x)
        return y, mask()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        mask = output[1]
        ctx.mark_non_differentiable(mask)
        ctx.save_for_backward(mask)
        ctx.save_for_forward(mask)

    @staticmethod
    def backward(ctx: Any, gradient: Any, _: Any) -> Any:
        return _masked(gradient, *ctx.saved_tensors), None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return _masked(tangent, *ctx.saved_tensors), None


def _masked(x: Any, mask: Any) -> Any:
    return torch.where(mask, x, torch.zeros((), dtype=x.dtype, device=x.device))


register()
