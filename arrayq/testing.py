"""What tests of arrayq, and of packages that add a namespace to it, need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from arrayq import namespaces

__all__ = ["generic_path"]


@contextmanager
def generic_path() -> Iterator[None]:
    """Work on arrays by the functions of their namespace, even where the kernels could.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> from arrayq.testing import generic_path
    >>> x = np.linspace(-1, 1, 8, dtype=np.float32)
    >>> with generic_path():
    ...     q = aq.quantize(x, "int8/tensor")
    >>> bool((q.data == aq.quantize(x, "int8/tensor").data).all())
    True
    """
    namespaces._forced.append("generic")
    try:
        yield
    finally:
        namespaces._forced.pop()
