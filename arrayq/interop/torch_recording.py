"""What torch.compile and torch.export are shown of arrayq.

Dynamo follows the bytecode of what it compiles. `TorchRecorder` is as much of a call as it may see:
what is given is taken apart into plain tensors, one call on these goes into the graph unread
(``allow_in_graph``), and what comes out is put together again. How, is found by the same call on
tensors without memory while the graph is made.
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any, Final

import torch
from torch.utils import _pytree

from arrayq import recording
from arrayq.array import QuantizedArray
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


# What a function is given and what it returns: a form, which is static, and plain tensors.

_CONSTANT, _TENSOR, _ARRAY, _QPARAMS, _LIST, _TUPLE, _DICT = range(7)


def _taken_apart(given: Any, tensors: list[Any]) -> tuple[int, int, Any]:
    """Return the form of something that may hold tensors, and append those to a list."""
    if isinstance(given, QuantizedArray):
        leaves, static = _flatten(given)
        tensors.extend(leaves)
        return _ARRAY, len(leaves), static
    if isinstance(given, QParams):
        leaves, static = _flatten_numbers(given)
        tensors.extend(leaves)
        return _QPARAMS, len(leaves), static
    if isinstance(given, torch.Tensor):
        tensors.append(given)
        return _TENSOR, 1, None
    if isinstance(given, dict):
        forms = [_taken_apart(each, tensors) for each in given.values()]
        return _DICT, 0, (tuple(given), tuple(forms))
    if isinstance(given, list | tuple):
        forms = [_taken_apart(each, tensors) for each in given]
        return (_LIST if isinstance(given, list) else _TUPLE), 0, tuple(forms)
    # an integer that dynamo lets vary becomes one that the graph is made for
    return _CONSTANT, 0, operator.index(given) if type(given) is int else given


def _put_together(form: tuple[int, int, Any], tensors: list[Any]) -> Any:
    """Return what has a form, of the tensors at the start of a list, which are removed."""
    kind, count, static = form
    if kind == _CONSTANT:
        return static
    if kind in (_LIST, _TUPLE):
        put = [_put_together(each, tensors) for each in static]
        return put if kind == _LIST else tuple(put)
    if kind == _DICT:
        keys, forms = static
        return {key: _put_together(each, tensors) for key, each in zip(keys, forms, strict=True)}
    leaves = [tensors.pop(0) for _ in range(count)]
    if kind == _TENSOR:
        return leaves[0]
    return _unflatten(leaves, static) if kind == _ARRAY else _unflatten_numbers(leaves, static)


def _in_graph(name: str, form: Any, *tensors: Any) -> tuple[Any, ...]:
    """Run a function on tensors; dynamo puts the call into its graph unread."""
    given, options = _put_together(form, list(tensors))
    made: list[Any] = []
    _taken_apart(recording.FUNCTIONS[name](*given, **options), made)
    return tuple(made)


def _form_made(name: str, form: Any, shapes: Any, dtypes: Any) -> tuple[int, int, Any]:
    """Return the form of a function's result: run for real, on tensors without memory."""
    described = zip(shapes, dtypes, strict=True)
    tensors = [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in described]
    given, options = _put_together(form, tensors)
    return _taken_apart(recording.FUNCTIONS[name](*given, **options), [])


class TorchRecorder:
    """See `arrayq.recording.Recorder`."""

    def run(self, name: str, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the result of one of `arrayq.recording.FUNCTIONS`."""
        tensors: list[Any] = []
        form = _taken_apart((given, options), tensors)
        shapes = tuple([tuple([operator.index(length) for length in x.shape]) for x in tensors])
        result = _form_made(name, form, shapes, tuple([x.dtype for x in tensors]))
        return _put_together(result, list(_in_graph(name, form, *tensors)))


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
    torch.compiler.allow_in_graph(_in_graph)  # type: ignore[no-untyped-call]
    torch.compiler.assume_constant_result(_form_made)  # type: ignore[no-untyped-call]
    # Values of classes that torch does not know are constants to it only by this registration,
    # which is not public yet; without it dynamic shapes and strict export are what is lost.
    with contextlib.suppress(ImportError, AttributeError):
        from torch._library.opaque_object import MemberType, register_opaque_type

        QuantScheme.__fx_repr__ = _spelled  # type: ignore[attr-defined]
        fields = ("value", "store", "mode", "block", "tensor", "numerics", "codebook", "zero")
        members = dict.fromkeys(fields, MemberType.USE_REAL)
        register_opaque_type(QuantScheme, typ="value", members=members)
    recording.use(TorchRecorder(), torch.compiler.is_dynamo_compiling)
