"""Moves that look at no value: traced by JAX and torch, and lazy in dask."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest
from library_arrays import assert_same, fetched, put

import arrayq as aq
from arrayq.array import _assembled

X = np.random.default_rng(6).standard_normal((6, 8, 48)).astype(np.float32)
SPELLINGS = ["int4/16", "nvfp4", "u3", "int8/tensor"]

Moved = Callable[[aq.QuantizedArray], aq.QuantizedArray]

MOVES: dict[str, Moved] = {
    "slices": lambda q: q[1:5, ::-1, 3:35],
    "whole words": lambda q: q[:, :, 16:-16],
    "step": lambda q: q[..., ::4],
    "step backwards": lambda q: q[::-2, :, ::-2],
    "integers and None": lambda q: q[None, 2, :, None, 7],
    "integer of the packed axis": lambda q: q[..., 7],
    "one element": lambda q: q[2, 3, 5],
    "ellipsis": lambda q: q[..., 1:, :],
    "transposed": lambda q: q.T,
    "permuted": lambda q: aq.permute_dims(q, (1, 0, 2)),
    "moved": lambda q: aq.moveaxis(q, 2, 0),
    "flipped": lambda q: aq.flip(q),
    "expanded": lambda q: aq.expand_dims(q, (0, 2)),
    "squeezed": lambda q: aq.squeeze(q[:, :, :1]),
    "broadcast": lambda q: aq.broadcast_to(q[:1, :, :1], (2, 3, 8, 5)),
    "positions": lambda q: q[[4, 0, -1, 4]],
    "positions apart": lambda q: q[[4, 0, -1], :, None, 3:][:, [1, 1]],
    "positions twice": lambda q: q[[[4], [0]], [1, -1, 0]],
    "mask": lambda q: q[np.arange(6) % 2 == 0],
    "taken": lambda q: aq.take(q, [[1, 2], [3, 3]], 1),
    "repeated": lambda q: aq.repeat(q, 3, 2),
    "repeated by counts": lambda q: aq.repeat(q, [0, 1, 2, 0, 1, 3], 0),
    "reshaped": lambda q: q.reshape(3, 2, 8, 48),
    "rows cut": lambda q: q.reshape(6, 8, 3, 16),
    "stacked": lambda q: aq.stack([q, q], axis=1),
    "joined": lambda q: aq.concat([q[:2], q[2:], q[:1]]),
    "joined along the packed axis": lambda q: aq.concat(aq.split(q, [16, 32], 2), axis=2),
    "rolled": lambda q: aq.roll(q, (2, -16), (0, 2)),
    "tiled": lambda q: aq.tile(q, (2, 1, 1)),
    "unstacked": lambda q: aq.unstack(q, 1)[-1],
}


def quantized(spelling: str, x: Any = X) -> aq.QuantizedArray:
    if spelling == "u3":
        scheme = aq.QuantScheme().with_value("u3").with_store("packed_u32(1)")
        return aq.quantize(x, scheme.with_codebook(range(8)).per_block([1, 16], "ue4m3"))
    return aq.quantize(x, spelling)


def jitted(
    function: Callable[..., list[aq.QuantizedArray]], q: aq.QuantizedArray, *arguments: Any
) -> list[aq.QuantizedArray]:
    """Return what a function of a quantized array returns under `jax.jit`."""
    jax = pytest.importorskip("jax")
    static: list[Any] = []

    def of_parts(parts: Any, *arguments: Any) -> Any:
        results = function(_assembled(parts, q._static()), *arguments)
        static[:] = [one._static() for one in results]
        return [one._parts() for one in results]

    found = jax.jit(of_parts)(q._parts(), *arguments)
    return [_assembled(*pair) for pair in zip(found, static, strict=True)]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_moves_are_traced_by_jax(spelling: str) -> None:
    host = quantized(spelling)
    moved = jitted(lambda q: [move(q) for move in MOVES.values()], put(host, "jax"))
    for (name, move), got in zip(MOVES.items(), moved, strict=True):
        assert_same(fetched(got), move(host), name)


def _never(*_arguments: object, **_options: object) -> NoReturn:
    raise AssertionError("something was computed")


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")
def test_moves_stay_lazy_in_dask(name: str) -> None:
    dask = pytest.importorskip("dask")
    for spelling in SPELLINGS:
        host = quantized(spelling)
        with dask.config.set(scheduler=_never):
            moved = MOVES[name](put(host, "dask"))
        with dask.config.set(scheduler="synchronous"):
            assert_same(fetched(moved), MOVES[name](host), spelling)


@pytest.mark.parametrize("name", MOVES)
def test_moves_of_torch_know_the_shapes_of_tensors_without_memory(name: str) -> None:
    torch = pytest.importorskip("torch")
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    host = quantized("nvfp4")
    mode = fake.FakeTensorMode()
    on_meta = (lambda part: part.to("meta")), contextlib.nullcontext()
    for convert, within in (on_meta, (mode.from_tensor, mode)):
        parts = (None if p is None else convert(torch.from_numpy(p)) for p in host._parts())
        with within:
            moved = MOVES[name](host._with_parts(*parts))
        assert moved._static() == MOVES[name](host)._static()
        for part, expected in zip(moved._parts(), MOVES[name](host)._parts(), strict=True):
            assert part is expected or part.shape == expected.shape


@pytest.mark.parametrize("spelling", ["int4/16", "nvfp4"])
def test_moves_are_traced_by_torch(spelling: str) -> None:
    torch = pytest.importorskip("torch")
    tracer = pytest.importorskip("torch.fx.experimental.proxy_tensor")
    host = quantized(spelling)
    q = put(host, "torch")
    kept = [part for part in q._parts() if part is not None]
    static: list[Any] = []

    def of_parts(*parts: Any) -> Any:
        given = iter(parts)
        placed = tuple(None if part is None else next(given) for part in q._parts())
        results = [move(_assembled(placed, q._static())) for move in MOVES.values()]
        static[:] = [one._static() for one in results]
        return [[part for part in one._parts() if part is not None] for one in results]

    graph = tracer.make_fx(of_parts, tracing_mode="fake")(*kept)
    for (name, move), parts, about in zip(MOVES.items(), graph(*kept), static, strict=True):
        expected, given = move(host), iter(parts)
        placed = tuple(None if part is None else next(given) for part in expected._parts())
        assert isinstance(placed[0], torch.Tensor)
        assert_same(fetched(_assembled(placed, about)), expected, name)


# Positions that are traced or lazy.


PICKED: dict[str, Callable[[aq.QuantizedArray, Any], aq.QuantizedArray]] = {
    "index": lambda q, p: q[p],
    "index beside slices": lambda q, p: q[1:, p, ::-1],
    "index beside an array": lambda q, p: q[p, [[0], [5]]],
    "take": lambda q, p: aq.take(q, p, 1),
    "number": lambda q, p: q[p[0] if p.ndim else p],
    "number of a blocked axis": lambda q, p: q[..., p[1] - 1],
}


@pytest.mark.parametrize("spelling", SPELLINGS[:2])
def test_traced_positions_pick_what_numpys_do(spelling: str) -> None:
    host = quantized(spelling)
    positions = np.array([3, -2, 0], np.int32)
    moved = jitted(
        lambda q, p: [pick(q, p) for pick in PICKED.values()], put(host, "jax"), positions
    )
    for (name, pick), got in zip(PICKED.items(), moved, strict=True):
        assert_same(fetched(got), pick(host, positions), name)


@pytest.mark.parametrize("spelling", SPELLINGS[:2])
@pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")
def test_lazy_positions_pick_what_numpys_do(spelling: str) -> None:
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    host = quantized(spelling)
    positions = np.array([3, -2, 0], np.int32)
    for name, pick in PICKED.items():
        with dask.config.set(scheduler=_never):
            moved = pick(put(host, "dask"), array.from_array(positions, chunks=2))
        with dask.config.set(scheduler="synchronous"):
            assert_same(fetched(moved), pick(host, positions), name)


def test_traced_positions_pick_from_an_array_that_is_none() -> None:
    host = quantized("int4/16")
    q = put(host, "jax")
    (moved,) = jitted(lambda _, p: [q[p]], q, np.array([3, 0], np.int32))
    assert_same(fetched(moved), host[[3, 0]])


def test_traced_positions_are_taken_along_an_axis() -> None:
    host = quantized("nvfp4")[..., :16]
    positions = np.array([[[5, -1]], [[0, 2]]] * 3, np.int32)
    (moved,) = jitted(lambda q, p: [aq.take_along_axis(q, p, 2)], put(host, "jax"), positions)
    assert_same(fetched(moved), aq.take_along_axis(host, positions, 2))


def test_traced_positions_tear_no_blocks_apart() -> None:
    host = quantized("int4/16")
    positions = np.array([3, 0], np.int32)
    with pytest.raises(aq.LayoutError, match=r"axis 2 .*got 3 blocks of extent 16"):
        jitted(lambda q, p: [q[..., p]], put(host, "jax"), positions)


def test_positions_of_another_library_are_refused_where_they_cannot_be_seen() -> None:
    host = quantized("int4/16")
    with pytest.raises(aq.ArrayTypeError, match=r"an array of numpy requires .* those of jax"):
        jitted(lambda _, p: [host[p]], put(host, "jax"), np.array([3, 0], np.int32))


REFUSED: dict[str, tuple[Callable[[aq.QuantizedArray, Any], Any], str]] = {
    "mask": (lambda q, a: q[a > 0], "indexing requires a mask whose values can be seen"),
    "counts": (lambda q, a: aq.repeat(q, a, 0), "repeat requires counts whose values"),
    "shift": (lambda q, a: aq.roll(q, a[0], 0), "roll requires a shift whose values"),
    "cuts": (lambda q, a: aq.split(q, a), "split requires positions whose values"),
    "copies": (lambda q, a: aq.tile(q, a), "tile requires numbers of copies whose values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_decides_a_shape_has_to_be_seen(name: str) -> None:
    array, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    host = quantized("int8/16")
    numbers = np.array([1, 0, 2, 1, 0, 1], np.int32)
    call, words = REFUSED[name]
    with pytest.raises(aq.LayoutError, match=words):
        jitted(lambda q, a: [call(q, a)], put(host, "jax"), numbers)
    with dask.config.set(scheduler=_never), pytest.raises(aq.LayoutError, match=words):
        call(put(host, "dask"), array.from_array(numbers))


# Scales and tensor scales that cannot be seen.


def test_parts_of_one_array_share_its_tensor_scale_and_join() -> None:
    host = quantized("nvfp4")
    (moved,) = jitted(lambda q: [aq.concat(aq.split(q, 3)[::-1])], put(host, "jax"))
    assert_same(fetched(moved), aq.concat(aq.split(host, 3)[::-1]))


@pytest.mark.parametrize("rescale", [False, True])
def test_tensor_scales_that_cannot_be_seen_do_not_join(rescale: bool) -> None:
    host = quantized("nvfp4")
    q = put(host, "jax")

    def join(one: aq.QuantizedArray, *other: Any) -> Any:
        return [aq.concat([one, _assembled(other, q._static())], rescale=rescale)]

    with pytest.raises(aq.LayoutError, match=r"QParams.tensor_scale, or join the floats"):
        jitted(join, q, *q._parts())
    lazy = [put(host, "dask") for _ in range(2)]
    with pytest.raises(aq.LayoutError, match=r"QParams.tensor_scale, or join the floats"):
        aq.concat(lazy, rescale=rescale)


def test_a_report_needs_values() -> None:
    q = put(quantized("nvfp4"), "dask")
    with pytest.raises(aq.LayoutError, match="leave rescale out"):
        aq.concat([q, q], rescale=True)
    _, report = aq.concat([put(quantized("int8/16"), "dask")] * 2, rescale=True)
    assert (report.blocks, report.rounded_blocks, report.max_error) == (2 * 6 * 8 * 3, 0, 0.0)


def test_seams_inside_a_block_are_refused_where_scales_cannot_be_seen() -> None:
    q = put(quantized("int8/16"), "dask")
    parts = aq.split(q, [5], 2)
    with pytest.raises(aq.LayoutError, match="which traced and lazy arrays do not show"):
        aq.concat(parts, axis=2)
    with pytest.raises(aq.LayoutError, match="which traced and lazy arrays do not show"):
        aq.roll(q[..., :45], 20, 2)


def test_one_scale_for_all_is_known_to_be_shared() -> None:
    host = quantized("int8/tensor")
    q = put(host, "dask")
    assert_same(fetched(aq.roll(q, 5, 2)), aq.roll(host, 5, 2))
    assert_same(
        fetched(aq.concat(aq.split(q, [5], 2), axis=2)), aq.concat(aq.split(host, [5], 2), axis=2)
    )


def test_a_function_that_a_library_lacks_is_named() -> None:
    q = put(quantized("nvfp4")[..., :16], "dask")
    with pytest.raises(aq.UnsupportedSchemeError, match=r"take_along_axis on dask .* in CPU"):
        aq.take_along_axis(q, np.zeros((6, 8, 1), int), 2)


def test_a_length_that_is_not_known_is_refused() -> None:
    array = pytest.importorskip("dask.array")
    host = quantized("int8/16")
    data = array.from_array(host.data, chunks=3)
    q = host._with_parts(data[data[:, 0, 0] > 0], host.scale_data, None, None)
    with pytest.raises(aq.UnsupportedSchemeError, match="known"):
        aq.flip(q)
