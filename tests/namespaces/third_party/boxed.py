"""An array library of somebody else's: NumPy's arrays in boxes.

``boxed_arrayq.py`` beside it tells arrayq about it, found by the entry point in
``boxed-1.0.dist-info``.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


class Box:
    """An array that NumPy does not know to be one."""

    __array_ufunc__ = None

    def __init__(self, inside: Any) -> None:
        self.inside = np.asarray(inside)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return sys.modules[__name__]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inside.shape

    @property
    def ndim(self) -> int:
        return self.inside.ndim

    @property
    def size(self) -> int:
        return self.inside.size

    @property
    def dtype(self) -> Any:
        return self.inside.dtype

    @property
    def device(self) -> str:
        return "cpu"

    def to_device(self, device: str) -> Box:
        return self

    def __bool__(self) -> bool:
        return bool(self.inside)

    def __int__(self) -> int:
        return int(self.inside)

    def __float__(self) -> float:
        return float(self.inside)

    def __getitem__(self, index: Any) -> Box:
        return Box(self.inside[_unboxed(index)])


def _operator(name: str) -> Any:
    def apply(self: Box, *others: Any) -> Box:
        return Box(getattr(self.inside, name)(*_unboxed(others)))

    return apply


_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
    "rshift", "eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "invert", "radd", "rsub", "rmul",
    "rtruediv", "rand", "ror", "rxor",
)  # fmt: skip
for _name in _OPERATORS:
    setattr(Box, f"__{_name}__", _operator(f"__{_name}__"))


def _unboxed(x: Any) -> Any:
    if isinstance(x, Box):
        return x.inside
    if isinstance(x, tuple | list):
        return type(x)(map(_unboxed, x))
    return x


def __getattr__(name: str) -> Any:
    """Return NumPy's function of that name for boxes, or its dtype."""
    if name.startswith("__"):
        raise AttributeError(name)
    thing = getattr(np, name)
    if isinstance(thing, type) or not callable(thing):
        return thing

    def function(*args: Any, device: str | None = None, **kwargs: Any) -> Any:
        given = {key: _unboxed(value) for key, value in kwargs.items()}
        result = thing(*map(_unboxed, args), **given)
        return Box(result) if isinstance(result, np.ndarray | np.generic) else result

    return function
