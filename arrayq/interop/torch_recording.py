"""What torch.compile and torch.export are shown of arrayq.

Dynamo follows the bytecode of what it compiles. Each function of `TorchRecorder` is as much of it
as it may see: one call of a function on plain tensors that it puts into its graph unread
(``allow_in_graph``), and a `QuantizedArray` assembled from the tensors that come out. What is
static about that array is computed for real while the graph is made.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import torch
from torch.utils import _pytree

from arrayq import pipeline, recording
from arrayq.array import QuantizedArray
from arrayq.layout import plan
from arrayq.presets import scheme as parse_scheme
from arrayq.qparams import QParams
from arrayq.scheme import QuantScheme

__all__ = ["TorchRecorder", "register"]

_LEAVES: Final = ("data", "scale_data", "zero_point", "tensor_scale")
_NUMBERS: Final = ("scale", "zero_point", "tensor_scale")


# Trees. torch takes None for a leaf, so that absent parts are left out. Dynamo reads these four
# functions, which is why they are as plain as they are.


def _flatten(q: Any) -> tuple[list[Any], Any]:
    has_zero, has_tensor = q.zero_point is not None, q.tensor_scale is not None
    leaves = [q.data, q.scale_data]
    if has_zero:
        leaves.append(q.zero_point)
    if has_tensor:
        leaves.append(q.tensor_scale)
    scheme, extent, block_offset = q._static()
    return leaves, (scheme, extent, block_offset, has_zero, has_tensor)


def _unflatten(leaves: Any, static: Any) -> Any:
    scheme, extent, block_offset, has_zero, has_tensor = static
    leaves = list(leaves)
    q = QuantizedArray.__new__(QuantizedArray)
    object.__setattr__(q, "data", leaves[0])
    object.__setattr__(q, "scale_data", leaves[1])
    object.__setattr__(q, "zero_point", leaves[2] if has_zero else None)
    object.__setattr__(q, "tensor_scale", leaves[-1] if has_tensor else None)
    object.__setattr__(q, "_layout", (scheme, extent, block_offset))
    return q


def _flatten_numbers(p: Any) -> tuple[list[Any], Any]:
    has_zero, has_tensor = p.zero_point is not None, p.tensor_scale is not None
    leaves = [p.scale]
    if has_zero:
        leaves.append(p.zero_point)
    if has_tensor:
        leaves.append(p.tensor_scale)
    return leaves, (p.codebook, has_zero, has_tensor)


def _unflatten_numbers(leaves: Any, static: Any) -> Any:
    codebook, has_zero, has_tensor = static
    leaves = list(leaves)
    p = QParams.__new__(QParams)
    object.__setattr__(p, "scale", leaves[0])
    object.__setattr__(p, "zero_point", leaves[1] if has_zero else None)
    object.__setattr__(p, "tensor_scale", leaves[-1] if has_tensor else None)
    object.__setattr__(p, "codebook", codebook)
    return p


# In the graph, unread.


def _quantized(
    x: Any, scheme: Any, method: Any, nonfinite: Any, static: Any, *numbers: Any
) -> tuple[Any, ...]:
    qparams = None if static is None else _unflatten_numbers(numbers, static)
    q = pipeline.quantize(x, scheme, qparams=qparams, method=method, nonfinite=nonfinite)
    return tuple(_flatten(q)[0])


def _dequantized(dtype: Any, static: Any, *leaves: Any) -> Any:
    return pipeline.dequantize(_unflatten(leaves, static), dtype=dtype)


def _calibrated(x: Any, scheme: Any, method: Any, nonfinite: Any) -> tuple[Any, ...]:
    p = pipeline.calibrate(x, scheme, method, nonfinite=nonfinite)
    return tuple(_flatten_numbers(p)[0])


def _rounded(x: Any, scheme: Any, method: Any, nonfinite: Any, static: Any, *numbers: Any) -> Any:
    qparams = None if static is None else _unflatten_numbers(numbers, static)
    return pipeline.fake_quantize(x, scheme, qparams=qparams, method=method, nonfinite=nonfinite)


# For real, while the graph is made.


def _static_of(scheme: Any, codebook: Any, *shape: int) -> Any:
    scheme = parse_scheme(scheme)
    if codebook is not None:
        scheme = scheme.with_codebook(codebook)
    layout = plan(scheme, tuple(int(length) for length in shape))
    return *layout.meaning, scheme.zero is not None, scheme.two_level


def _static_numbers_of(scheme: Any) -> Any:
    scheme = parse_scheme(scheme)
    return scheme.codebook, scheme.zero is not None, scheme.two_level


class TorchRecorder:
    """See `arrayq.recording.Recorder`."""

    def quantize(self, x: Any, scheme: Any, qparams: Any, method: Any, nonfinite: Any) -> Any:
        """Return a quantized array."""
        numbers, static = ([], None) if qparams is None else _flatten_numbers(qparams)
        leaves = _quantized(x, scheme, method, nonfinite, static, *numbers)
        codebook = None if static is None else static[0]
        return _unflatten(leaves, _static_of(scheme, codebook, *x.shape))

    def dequantize(self, q: Any, dtype: Any) -> Any:
        """Return an array of floats."""
        leaves, static = _flatten(q)
        return _dequantized(dtype, static, *leaves)

    def calibrate(self, x: Any, scheme: Any, method: Any, nonfinite: Any) -> Any:
        """Return parameters."""
        return _unflatten_numbers(
            _calibrated(x, scheme, method, nonfinite), _static_numbers_of(scheme)
        )

    def fake_quantize(self, x: Any, scheme: Any, qparams: Any, method: Any, nonfinite: Any) -> Any:
        """Return an array of floats with a straight-through gradient."""
        numbers, static = ([], None) if qparams is None else _flatten_numbers(qparams)
        return _rounded(x, scheme, method, nonfinite, static, *numbers)


def _write_static(static: Any) -> list[Any]:
    scheme, extent, block_offset, has_zero, has_tensor = static
    return [scheme.to_dict(), extent, list(block_offset), has_zero, has_tensor]


def _read_static(written: Any) -> Any:
    scheme, extent, block_offset, has_zero, has_tensor = written
    return QuantScheme.from_dict(scheme), extent, tuple(block_offset), has_zero, has_tensor


def _keyed(names: tuple[str, ...], flatten: Any) -> Any:
    def flatten_with_keys(x: Any) -> tuple[list[Any], Any]:
        leaves, static = flatten(x)
        present = [name for name in names if getattr(x, name) is not None]
        keys = [_pytree.GetAttrKey(name) for name in present]
        return list(zip(keys, leaves, strict=True)), static

    return flatten_with_keys


def _spelled(scheme: QuantScheme) -> tuple[str, dict[str, Any]]:
    """Return the source of an expression that makes a scheme, and the names in it."""
    return f"_arrayq_scheme({scheme.to_dict()!r})", {"_arrayq_scheme": QuantScheme.from_dict}


def register() -> None:
    """Make the trees, the scheme and the recorder known to torch."""
    _pytree.register_pytree_node(
        QuantizedArray, _flatten, _unflatten,
        serialized_type_name="arrayq.QuantizedArray",
        flatten_with_keys_fn=_keyed(_LEAVES, _flatten),
        to_dumpable_context=_write_static,
        from_dumpable_context=_read_static,
    )  # fmt: skip
    _pytree.register_pytree_node(
        QParams, _flatten_numbers, _unflatten_numbers,
        serialized_type_name="arrayq.QParams",
        flatten_with_keys_fn=_keyed(_NUMBERS, _flatten_numbers),
    )  # fmt: skip
    for function in (_quantized, _dequantized, _calibrated, _rounded):
        torch.compiler.allow_in_graph(function)  # type: ignore[no-untyped-call]
    for constant in (_static_of, _static_numbers_of):
        torch.compiler.assume_constant_result(constant)  # type: ignore[no-untyped-call]
    # Values of classes that torch does not know are constants to it only by this registration,
    # which is not public yet; without it dynamic shapes and strict export are what is lost.
    with contextlib.suppress(ImportError, AttributeError):
        from torch._library.opaque_object import MemberType, register_opaque_type

        QuantScheme.__fx_repr__ = _spelled  # type: ignore[attr-defined]
        fields = ("value", "store", "mode", "block", "tensor", "numerics", "codebook", "zero")
        members = dict.fromkeys(fields, MemberType.USE_REAL)
        register_opaque_type(QuantScheme, typ="value", members=members)
    recording.use(TorchRecorder(), torch.compiler.is_dynamo_compiling)
