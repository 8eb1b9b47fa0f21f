"""Moves on arrays of every library are those of NumPy's: the same bits, blocks and offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from move_drawing import Move, basic_indices, moves
from scheme_drawing import problems, scheme_of

import arrayq as aq
from arrayq import hosting, namespaces

LIBRARIES = {
    "torch": ("torch", lambda module, part: module.from_numpy(np.array(part))),
    "jax": ("jax.numpy", lambda module, part: module.asarray(part)),
    "array_api_strict": ("array_api_strict", lambda module, part: module.asarray(part)),
    "mlx": ("mlx.core", lambda module, part: module.array(np.array(part)).reshape(part.shape)),
    "dask": ("dask.array", lambda module, part: module.from_array(part, chunks=3)),
}


def put(q: aq.QuantizedArray, library: str) -> aq.QuantizedArray:
    """Return an array of NumPy's as one of another library."""
    name, convert = LIBRARIES[library]
    module = pytest.importorskip(name)
    return q._with_parts(*(None if part is None else convert(module, part) for part in q._parts()))


def fetched(q: aq.QuantizedArray) -> aq.QuantizedArray:
    """Return an array of another library as one of NumPy's."""
    copied = hosting.access_of(q).copied
    return q._with_parts(*(None if part is None else copied(part) for part in q._parts()))


def assert_same(got: aq.QuantizedArray, expected: aq.QuantizedArray, what: object = "") -> None:
    """Assert that two arrays of NumPy's have the same parts, bit for bit."""
    assert got.scheme == expected.scheme, what
    assert (got.extent, got.block_offset) == (expected.extent, expected.block_offset), what
    for one, other in zip(got._parts(), expected._parts(), strict=True):
        assert (one is None) == (other is None), what
        if one is not None:
            assert (one.dtype, one.shape) == (other.dtype, other.shape), what
            np.testing.assert_array_equal(_bits(one), _bits(other), str(what))


def _bits(part: Any) -> Any:
    return np.ascontiguousarray(part).view(f"u{part.dtype.itemsize}")


def outcome(move: Move, q: aq.QuantizedArray) -> aq.QuantizedArray | str:
    """Return the moved array, or the words in which it was refused."""
    try:
        return move.on_quantized(q)
    except aq.LayoutError as error:
        return str(error)


@pytest.fixture
def _in_library() -> Iterator[None]:
    """Keep arrays away from the compiled kernels."""
    namespaces._forced.append("generic")
    yield
    namespaces._forced.clear()


def assert_moves_alike(library: str, problem: tuple[Any, Any], data: st.DataObject) -> None:
    x, spec = problem
    expected: Any = aq.quantize(x, scheme_of(spec))
    if data.draw(st.booleans()):
        expected = data.draw(basic_indices(expected)).on_quantized(expected)
    q = put(expected, library)
    for _ in range(data.draw(st.integers(1, 3))):
        move = data.draw(moves(expected))
        moved, got = outcome(move, expected), outcome(move, q)
        if isinstance(moved, str):
            assert got == moved
            continue
        assert isinstance(got, aq.QuantizedArray), (move, got)
        assert type(got.data) is type(q.data)
        q, expected = got, moved
        assert_same(fetched(q), expected, move)


EAGER = ["torch", "jax", "array_api_strict", "mlx"]


@pytest.mark.parametrize("library", EAGER)
@given(problem=problems(), data=st.data())
def test_arrays_in_cpu_memory_move_as_numpys_do(
    library: str, problem: tuple[Any, Any], data: st.DataObject
) -> None:
    assert_moves_alike(library, problem, data)


@pytest.mark.usefixtures("_in_library")
@pytest.mark.parametrize("library", EAGER)
@given(problem=problems(), data=st.data())
def test_arrays_elsewhere_move_as_numpys_do(
    library: str, problem: tuple[Any, Any], data: st.DataObject
) -> None:
    assert_moves_alike(library, problem, data)
