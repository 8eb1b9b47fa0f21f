"""What the generic path calls is what CuPy has: read, where there is no GPU to run it on.

CuPy's modules can be imported without a GPU, so that every call that the generic path makes of
NumPy's namespace is bound to the signature of CuPy's function of that name.
"""

from __future__ import annotations

import inspect
from typing import Any

import array_api_compat.numpy
import numpy as np
import pytest
from libraries import WAYS
from scheme_lattice import design

import arrayq as aq
from arrayq.interop.numpy import NumpyAccess
from arrayq.testing import generic_path

Call = tuple[str, int, tuple[str, ...]]


class Recording:
    """NumPy's namespace, which remembers what was asked of it."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.calls: dict[Call, tuple[Any, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(array_api_compat.numpy, name)
        self.names.add(name)
        if isinstance(found, type) or not callable(found):
            return found

        def called(*args: Any, **kwargs: Any) -> Any:
            self.calls[name, len(args), tuple(sorted(kwargs))] = (args, kwargs)
            return found(*args, **kwargs)

        return called


@pytest.fixture(scope="module")
def recorded() -> Recording:
    recording = Recording()
    with pytest.MonkeyPatch.context() as patch, generic_path():
        patch.setattr(NumpyAccess, "namespace", lambda *_: recording)
        patch.setattr(NumpyAccess, "device", lambda *_: "cpu")
        for problem in design("cupy", "pairs"):
            if WAYS["numpy generic"].refuses(problem.scheme):
                continue
            with np.errstate(all="ignore"):
                q = aq.quantize(problem.array, problem.scheme, nonfinite=problem.nonfinite)
                aq.dequantize(q, dtype="float16"), q.codes(), q.scale, q.zero
            if problem.fill == "ordinary":
                aq.quantize(problem.array, problem.scheme, qparams=q.qparams)
                aq.fake_quantize(problem.array, problem.scheme)
        with pytest.raises(aq.NonFiniteError):
            aq.quantize(np.full(3, np.inf, np.float32), "int8/tensor")
        for shape in ((), (0,), (0, 3), (1,)):
            aq.dequantize(aq.quantize(np.zeros(shape, np.float32), "int8/tensor"))
    return recording


@pytest.fixture(scope="module")
def cupy() -> Any:
    pytest.importorskip("cupy")
    return pytest.importorskip("array_api_compat.cupy")


def test_something_was_recorded(recorded: Recording) -> None:
    assert {"where", "astype", "reshape", "take", "asarray"} <= recorded.names
    assert len(recorded.calls) > 15


def test_cupy_has_every_name(recorded: Recording, cupy: Any) -> None:
    assert not [name for name in recorded.names if not hasattr(cupy, name)]


def test_cupys_functions_take_the_arguments(recorded: Recording, cupy: Any) -> None:
    import cupy as own

    wrong = []
    for (name, count, keywords), (args, kwargs) in recorded.calls.items():
        function = getattr(cupy, name)
        if isinstance(function, own.ufunc):
            fits = count == function.nin and set(keywords) <= {"out", "dtype", "casting"}
        else:
            try:
                inspect.signature(function).bind(*args, **kwargs)
                fits = True
            except TypeError:
                fits = False
        if not fits:
            wrong.append((name, count, keywords))
    assert not wrong
