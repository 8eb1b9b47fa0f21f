"""Indexing: NumPy's meaning and NumPy's errors, offsets, packed axes, and what is refused."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import arrayq as aq

X = np.random.default_rng(3).standard_normal((6, 5, 40)).astype(np.float32)
BASE = aq.QuantScheme().with_value("q4s").with_store("packed_u32")
BLOCKS = BASE.per_block([2, 1, 16], "f16")

WRONG = [
    9, -7, 1.5, "a", (0, 0, 0, 0), (0, 9), (slice(None), slice(None), -41), (..., ...),
    [7], [True, False], np.ones((6, 4), bool), np.ones((2, 2, 2, 2), bool), ([0, 1], [0, 1, 2]),
    np.array([0.5]), {"a": 1}, (None, 6), ([0, 99], 0), slice(None, None, 0), slice(0.5),
    [[1, 2], [3]],
]  # fmt: skip


@pytest.mark.parametrize("index", WRONG, ids=repr)
def test_an_index_that_numpy_refuses_is_refused_in_its_words(index: Any) -> None:
    q = aq.quantize(X, BLOCKS)
    refused = raised_by(X, index)
    assert refused is not None
    with pytest.raises(type(refused)) as caught:
        q[index]
    assert str(caught.value) == str(refused)


def raised_by(x: npt.NDArray[Any], index: Any) -> Exception | None:
    try:
        x[index]
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(
    ("index", "offset", "grid"),
    [
        ((), (), (3, 5, 3)),
        (slice(1, 5), (1, 0, 0), (3, 5, 3)),
        ((..., slice(3, None)), (3,), (3, 5, 3)),
        ((..., slice(16, 33)), (), (3, 5, 2)),
        ((..., slice(15, 17)), (15,), (3, 5, 2)),
        ((..., slice(None, None, -1)), (8,), (3, 5, 3)),
        ((slice(None, None, -1), 0), (), (3, 3)),
        ((slice(3, 0, -1),), (), (2, 5, 3)),
        ((..., slice(5, None, 4)), (1,), (3, 5, 3)),
        ((..., slice(5, None, 32)), (), (3, 5, 2)),
        ((1, 2, slice(7, 7)), (), (0,)),
    ],
)
def test_a_slice_says_where_its_first_block_starts(
    index: Any, offset: tuple[int, ...], grid: tuple[int, ...]
) -> None:
    q = aq.quantize(X, BLOCKS)[index]
    assert (q.block_offset, q.grid) == (offset, grid)


@pytest.mark.parametrize("spelling", ["q8s/tensor", "int4/row", "q8s/1"])
@pytest.mark.parametrize(
    "index",
    [
        (slice(None), [0, 1], ..., [0, 1]), (slice(None), 0, ..., [0, 1]),
        (slice(None), [0], ..., 0), (slice(None), [0, 1], [0, 1], ...),
        (slice(None), ..., [0, 1], [1, 1]), (1, ..., 0, 1), (slice(None), [0, 1], None, ..., 1),
        (slice(None), [True, False], ..., 1),
    ],
    ids=repr,
)  # fmt: skip
def test_an_ellipsis_for_no_axes_keeps_index_arrays_apart(index: Any, spelling: str) -> None:
    q = aq.quantize(np.arange(8, dtype=np.float32).reshape(2, 2, 2), spelling)
    if spelling == "int4/row":
        q = q.T
    expected = q.dequantize()[index]
    np.testing.assert_array_equal(q[index].dequantize(), expected)


def test_a_step_divides_the_extent_or_takes_one_element_of_each_block() -> None:
    q = aq.quantize(X, BLOCKS)
    assert q[..., ::4].scheme.block.size == (2, 1, 4)
    assert q[..., ::-8].scheme.block.size == (2, 1, 2)
    assert q[..., ::16].scheme.block.size == (2, 1, 1)
    assert q[..., ::32].scheme.block.size == (2, 1, 1)


@pytest.mark.parametrize(
    ("index", "named"),
    [
        ((..., slice(None, None, 3)), r"axis 2 .*extent 16.*got a step of 3"),
        ((..., [0, 1]), r"axis 2 .*got 3 blocks of extent 16"),
        (X[:, 0, 0] > 0, r"axis 0 .*got 3 blocks of extent 2"),
        ((..., [0]), r"axis 2 "),
    ],
)
def test_an_index_that_tears_blocks_apart_names_the_way_out(index: Any, named: str) -> None:
    q = aq.quantize(X, BLOCKS)
    with pytest.raises(aq.LayoutError, match=named) as caught:
        q[index]
    assert "q.dequantize()" in str(caught.value)
    assert "requantize(scheme)" in str(caught.value)


def test_whether_an_array_may_index_does_not_depend_on_its_values() -> None:
    q = aq.quantize(X, BLOCKS)
    for positions in ([0], [0, 1], [4, 0], list(range(40))):
        with pytest.raises(aq.LayoutError):
            q[..., positions]
        assert q[:, positions[:1] * 3].shape == (6, 3, 40)


@pytest.mark.parametrize("store", ["packed_u32", "packed_native"])
@pytest.mark.parametrize("value", ["q4s", "q2f", "e3m2", "u1", "u3", "u5", "q8s"])
@pytest.mark.parametrize("start", [0, 1, 2, 3, 5, 8, 31])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_packed_axis_sliced_anywhere_starts_in_field_0(
    value: str, store: str, dim: int, start: int
) -> None:
    scheme = aq.QuantScheme().with_value(value).with_store(f"{store}({dim})")
    if value[0] == "u":
        scheme = scheme.with_codebook(range(2**scheme.value.bits))
    x = np.moveaxis(X[:4, :3], -1, 2 - dim)
    q = aq.quantize(np.ascontiguousarray(x), scheme)
    for stop in (start + 1, 33, 38, 40):
        index = (slice(None),) * (2 - dim) + (slice(start, stop),)
        part = q[index]
        np.testing.assert_array_equal(part.codes(), q.codes()[index])
        np.testing.assert_array_equal(part.data, aq.pack(part.codes(), value, f"{store}({dim})"))


def test_an_integer_that_removes_the_packed_axis_packs_the_innermost() -> None:
    q = aq.quantize(X, BASE.with_store("packed_u32(1)"))
    assert q[:, 3].scheme.store == aq.QuantStore.packed_u32(0)
    assert q[:, 3].data.shape == (6, 5)
    assert q[2].scheme.store == aq.QuantStore.packed_u32(1)
    assert q[..., 2].scheme.store == aq.QuantStore.packed_u32(0)
    np.testing.assert_array_equal(q[:, 3].dequantize(), q.dequantize()[:, 3])


def test_squeezing_the_packed_axis_packs_the_innermost() -> None:
    q = aq.quantize(X[..., :1], BASE)
    assert aq.squeeze(q).scheme.store == aq.QuantStore.packed_u32(0)
    assert aq.squeeze(q).data.shape == (6, 1)
    np.testing.assert_array_equal(aq.squeeze(q).dequantize(), q.dequantize()[..., 0])


@pytest.mark.parametrize("spelling", ["int4/32", "nvfp4", "mxfp4", "nf4/64", "int8/row", "ternary"])
def test_a_single_element_is_an_array_without_axes(spelling: str) -> None:
    x = X[0]
    q = aq.quantize(x, spelling)
    for place in np.ndindex(3, 40):
        one = q[place]
        assert one.shape == one.grid == ()
        assert one.tensor_scale is None
        assert one.dequantize() == q.dequantize()[place]
    assert q[2, 3][None, None].dequantize() == q.dequantize()[2, 3]


def test_ravel_and_flatten_give_one_axis() -> None:
    q = aq.quantize(X, BASE)
    for flat in (q.ravel(), q.flatten()):
        np.testing.assert_array_equal(flat.dequantize(), q.dequantize().ravel())
    assert not np.shares_memory(q.flatten().data, q.data)


def test_iterating_gives_the_arrays_along_the_first_axis() -> None:
    q = aq.quantize(X, BLOCKS)
    assert len(q) == 6
    for part, again, values in zip(q, aq.unstack(q), q.dequantize(), strict=True):
        np.testing.assert_array_equal(part.dequantize(), values)
        np.testing.assert_array_equal(again.dequantize(), values)


@pytest.mark.parametrize("use", [len, iter, bool, lambda q: 1.0 in q])
def test_an_array_without_axes_has_no_length_and_no_truth(use: Any) -> None:
    with pytest.raises(TypeError):
        use(aq.quantize(np.array(1.0, np.float32), "int8/tensor"))


def test_an_array_is_not_an_integer_index() -> None:
    q = aq.quantize(X, BLOCKS)
    with pytest.raises(TypeError):
        X[q]
    with pytest.raises(TypeError):
        operator.index(q)  # type: ignore[arg-type]
    with pytest.raises(IndexError) as expected:
        X[X]
    for index in (q, (0, q), (q, ...)):
        with pytest.raises(IndexError) as caught:
            q[index]
        assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, f: f.permute_dims(a, (0, 0, 1)),
        lambda a, f: f.permute_dims(a, (0, 1)),
        lambda a, f: f.permute_dims(a, (0, 1, 5)),
        lambda a, f: f.swapaxes(a, 0, 7),
        lambda a, f: f.moveaxis(a, 0, 3),
        lambda a, f: f.moveaxis(a, (0, 1), 1),
        lambda a, f: f.flip(a, 3),
        lambda a, f: f.expand_dims(a, 5),
        lambda a, f: f.squeeze(a, 0),
        lambda a, f: f.broadcast_to(a, (6, 5, 41)),
        lambda a, f: f.reshape(a, (7, -1)),
        lambda a, f: f.take(a, [9], axis=0),
        lambda a, f: f.take(a, [0], axis=3),
        lambda a, f: f.concat([a, a[:, :3]], axis=0),
        lambda a, f: f.concat([a, a[0]], axis=0),
        lambda a, f: f.concat([a, a], axis=3),
        lambda a, f: f.concat([], axis=0),
        lambda a, f: f.stack([a, a[:3]]),
        lambda a, f: f.stack([]),
        lambda a, f: f.stack([a], axis=5),
        lambda a, f: f.split(a, 4),
        lambda a, f: f.repeat(a, -1, axis=0),
        lambda a, f: f.repeat(a, [1, 2], axis=1),
        lambda a, f: f.roll(a, (1, 2, 3), (0, 1)),
        lambda a, f: f.roll(a, 1, 3),
    ],
)
def test_a_move_that_numpy_refuses_is_refused_in_its_words(call: Any) -> None:
    q = aq.quantize(X, BASE)
    with pytest.raises((ValueError, IndexError)) as expected:
        call(X, np)
    with pytest.raises(type(expected.value)) as caught:
        call(q, aq)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, f: f.split(a, [1.7], 1),
        lambda a, f: f.split(a, ["a"], 1),
        lambda a, f: f.tile(a, 2.7),
        lambda a, f: f.tile(a, (1, 2.5, 1)),
    ],
)
def test_a_count_that_is_no_integer_is_refused_in_numpys_words(call: Any) -> None:
    q = aq.quantize(X, BASE)
    with pytest.raises(TypeError) as expected:
        call(X, np)
    with pytest.raises(TypeError) as caught:
        call(q, aq)
    assert str(caught.value) == str(expected.value)


def test_half_a_repetition_is_refused() -> None:
    with pytest.raises(TypeError, match="Cannot cast"):
        aq.quantize(X, BASE).repeat(1.5, 0)


@pytest.mark.parametrize("sections", [np.array(2), np.int64(3), 2, 3.0, [], (1, 4), [-1], [5, 2]])
def test_a_split_takes_what_numpys_takes(sections: Any) -> None:
    q = aq.quantize(X, BASE)
    expected = np.split(q.dequantize(), sections)
    got = aq.split(q, sections)
    assert len(got) == len(expected)
    for part, values in zip(got, expected, strict=True):
        np.testing.assert_array_equal(part.dequantize(), values)


@pytest.mark.parametrize("name", [
    "permute_dims", "flip", "expand_dims", "squeeze", "matrix_transpose", "argmax", "max", "sort",
    "unstack",
])  # fmt: skip
def test_a_plain_array_is_refused_by_name(name: str) -> None:
    with pytest.raises(aq.ArrayTypeError, match=f"{name} requires a QuantizedArray, got ndarray"):
        getattr(aq, name)(X)
