"""Moves on arrays of every library are those of NumPy's: the same bits, blocks and offsets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from library_arrays import EAGER, assert_same, fetched, put
from move_drawing import Move, basic_indices, moves
from scheme_drawing import problems, scheme_of

import arrayq as aq
from arrayq.testing import generic_path

X = np.random.default_rng(5).standard_normal((6, 8, 40)).astype(np.float32)


def outcome(move: Move, q: aq.QuantizedArray) -> aq.QuantizedArray | str:
    """Return the moved array, or the words in which it was refused."""
    try:
        return move.on_quantized(q)
    except aq.LayoutError as error:
        return str(error)


def assert_moves_alike(
    library: str, problem: tuple[Any, Any], data: st.DataObject, reach: Callable[[], Any]
) -> None:
    x, spec = problem
    expected: Any = aq.quantize(x, scheme_of(spec))
    if data.draw(st.booleans()):
        expected = data.draw(basic_indices(expected)).on_quantized(expected)
    q = put(expected, library)
    for _ in range(data.draw(st.integers(1, 3))):
        move = data.draw(moves(expected))
        moved = outcome(move, expected)
        with reach():
            got = outcome(move, q)
        if isinstance(moved, str):
            assert got == moved
            continue
        assert isinstance(got, aq.QuantizedArray), (move, got)
        assert type(got.data) is type(q.data)
        q, expected = got, moved
        assert_same(fetched(q), expected, move)


@pytest.mark.parametrize("library", EAGER)
@given(problem=problems(), data=st.data())
def test_arrays_in_cpu_memory_move_as_numpys_do(
    library: str, problem: tuple[Any, Any], data: st.DataObject
) -> None:
    assert_moves_alike(library, problem, data, contextlib.nullcontext)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict", "mlx"])
@given(problem=problems(), data=st.data())
def test_arrays_out_of_reach_move_as_numpys_do(
    library: str, problem: tuple[Any, Any], data: st.DataObject
) -> None:
    assert_moves_alike(library, problem, data, generic_path)


@given(problem=problems(), data=st.data())
@settings(max_examples=10)
def test_arrays_of_jax_out_of_reach_move_as_numpys_do(
    problem: tuple[Any, Any], data: st.DataObject
) -> None:
    # few, since every shape is compiled anew; jax.jit has tests of its own
    assert_moves_alike("jax", problem, data, generic_path)


def test_arrays_on_another_device_stay_there() -> None:
    xp = pytest.importorskip("array_api_strict")
    device = xp.Device("device1")
    host = aq.quantize(X, "nvfp4")
    q = host._with_parts(
        *(None if part is None else xp.asarray(part, device=device) for part in host._parts())
    )
    for move in (
        lambda q: q[1:, ::-1, 3:33], lambda q: q.T, lambda q: q[[0, 2, 1]],
        lambda q: aq.concat(aq.split(q, [5], 2), axis=2), lambda q: q[2, 3, 5],
        lambda q: aq.concat([q[:2], q[2:] ]), lambda q: aq.tile(q, (2, 1, 1)),
    ):  # fmt: skip
        moved = move(q)
        assert all(part.device == device for part in moved._parts() if part is not None)
        assert_same(fetched(moved), move(host))


def test_tensor_scales_that_differ_are_brought_together_on_another_device() -> None:
    xp = pytest.importorskip("array_api_strict")
    device = xp.Device("device1")
    parts = [aq.quantize(X * np.float32(f), "nvfp4") for f in (1, 2, 1.7, 0)]
    away = [
        q._with_parts(
            *(None if part is None else xp.asarray(part, device=device) for part in q._parts())
        )
        for q in parts
    ]
    assert_same(fetched(aq.concat(away[:2])), aq.concat(parts[:2]))
    assert_same(fetched(aq.concat(away[::3])), aq.concat(parts[::3]))
    with pytest.raises(aq.LayoutError, match="rescale=True rounds them"):
        aq.concat(away)
    joined, report = aq.concat(away, rescale=True)
    expected = aq.concat(parts, rescale=True)
    assert_same(fetched(joined), expected.array)
    assert report == expected.report


@pytest.mark.parametrize("library", EAGER)
@pytest.mark.parametrize("reach", [True, False])
def test_index_arrays_of_the_same_library_mean_what_numpys_do(library: str, reach: bool) -> None:
    host = aq.quantize(X, "int4/16")
    q = put(host, library)
    positions = np.array([[3, -1], [0, 3]], np.int32)
    along = np.array([2, 0, -6, 1], np.int32).reshape(4, 1, 1)
    host_t = host[..., :16]
    q_t = put(host_t, library)
    mask = np.array([True, False, True, True, False, False])

    def native(array: Any) -> Any:
        return put(host._with_parts(array, None, None, None), library).data

    def check() -> None:
        assert_same(fetched(q[native(positions)]), host[positions])
        assert_same(fetched(q[:, native(positions), 3:]), host[:, positions, 3:])
        assert_same(fetched(q[native(mask)]), host[mask])
        assert_same(fetched(q[1:, native(np.int32(2).reshape(()))]), host[1:, 2])
        assert_same(fetched(aq.take(q, native(positions), 1)), aq.take(host, positions, 1))
        last = np.array([5, 0, 15], np.int32).reshape(1, 1, 3)
        assert_same(
            fetched(aq.take_along_axis(q_t, native(last), 2)), aq.take_along_axis(host_t, last, 2)
        )
        with pytest.raises(aq.LayoutError, match="take_along_axis along axis 0"):
            aq.take_along_axis(q, native(along), 0)
        with pytest.raises(IndexError, match="integer"):
            q[native(np.array([0.5], np.float32))]

    if reach:
        check()
    else:
        with generic_path():
            check()


@pytest.mark.parametrize("join", [aq.concat, aq.stack])
def test_arrays_of_different_libraries_are_not_joined(join: Any) -> None:
    host = aq.quantize(X, "int8/16")
    with pytest.raises(
        aq.ArrayTypeError, match=r"requires arrays of one library, got one of numpy .* of torch"
    ):
        join([host, put(host, "torch")])
    with pytest.raises(aq.ArrayTypeError, match="one of torch at 0 and one of jax at 1"):
        join([put(host, "torch"), put(host, "jax")])
