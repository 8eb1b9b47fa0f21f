"""Objects that hold arrays, as the transformations of JAX and torch take them apart.

Leaves are arrays, or whatever a transformation puts in their place; the rest is static, hashable,
and part of what a compiled function is compiled for. Nothing is checked and nothing computed when
an object is put together again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from arrayq.array import QuantizedArray, _assembled
from arrayq.qparams import QParams

__all__ = ["TREES", "Tree"]


@dataclass(frozen=True, slots=True)
class Tree:
    """How objects of a class come apart.

    Parameters
    ----------
    kind : type
        The class.
    leaves : tuple of str
        The attributes that are leaves, in their order.
    flatten : callable
        Returns the leaves of an object, and its static rest.
    unflatten : callable
        Returns the object of leaves and a static rest.
    """

    kind: type
    leaves: tuple[str, ...]
    flatten: Callable[[Any], tuple[tuple[Any, ...], Any]]
    unflatten: Callable[[tuple[Any, ...], Any], Any]


def _parts(q: QuantizedArray) -> tuple[tuple[Any, ...], Any]:
    return q._parts(), q._static()


def _array(parts: tuple[Any, ...], static: Any) -> QuantizedArray:
    data, scale_data, zero_point, tensor_scale = parts
    return _assembled((data, scale_data, zero_point, tensor_scale), static)


def _numbers(p: QParams) -> tuple[tuple[Any, ...], Any]:
    codebook = p.codebook
    return (p.scale, p.tensor_scale, p.zero_point), None if codebook is None else tuple(codebook)


def _qparams(numbers: tuple[Any, ...], codebook: Any) -> QParams:
    scale, tensor_scale, zero_point = numbers
    return QParams(scale, tensor_scale, zero_point, codebook)


TREES: Final = (
    Tree(QuantizedArray, ("data", "scale_data", "zero_point", "tensor_scale"), _parts, _array),
    Tree(QParams, ("scale", "tensor_scale", "zero_point"), _numbers, _qparams),
)
"""Every class that is registered as a tree."""
