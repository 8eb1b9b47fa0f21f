"""The faults of FORMATS.md section 2.6, each by name, with the right value."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import arrayq as aq

Q8 = aq.QuantScheme().with_value("q8s").with_store("native")


def test_fault_1_flip_turns_scales_with_their_blocks() -> None:
    x = np.array([[1, 1, 1, 1, 100, 100, 100, 100]], np.float32)
    q = aq.quantize(x, Q8.per_block([4]))
    assert aq.flip(q).dequantize().tolist() == [[100, 100, 100, 100, 1, 1, 1, 1]]
    assert aq.flip(q).scale.tolist() == q.scale[:, ::-1].tolist()


def test_fault_2_slice_takes_the_scales_of_its_blocks() -> None:
    x = np.repeat(np.array([[1, 10, 100, 1000]], np.float32), 4, axis=1)
    q = aq.quantize(x, Q8.per_block([4]))
    assert q[:, 6:11].dequantize().tolist() == [[10, 10, 100, 100, 100]]
    assert q[:, 6:11].block_offset == (2,)
    assert q[:, 6:11].grid == (1, 2)
    # the number of blocks is the same, and burn gave the old scales to the new order
    assert q[:, ::-1].dequantize().tolist() == x[:, ::-1].tolist()


def test_fault_2_select_of_a_permutation_of_rows_permutes_their_scales() -> None:
    x = np.array([[1, 1], [10, 10], [100, 100]], np.float32)
    q = aq.quantize(x, Q8.per_channel(0))
    order = [2, 0, 1]
    assert aq.take(q, order, axis=0).dequantize().tolist() == x[order].tolist()
    assert q[np.array(order)].dequantize().tolist() == x[order].tolist()
    assert q[[True, False, True]].dequantize().tolist() == x[[0, 2]].tolist()


def test_fault_2_gather_takes_the_scale_of_every_element() -> None:
    x = np.array([[1, 2, 4], [100, 200, 400]], np.float32)
    places = np.array([[2, 0], [1, 1]])
    expected = [[4, 1], [200, 200]]
    by_row = aq.quantize(x, aq.QuantScheme().with_value("q4s").per_channel(0))
    by_element = aq.quantize(x, Q8.per_block([1]))
    assert aq.take_along_axis(by_element, places, axis=1).dequantize().tolist() == expected
    np.testing.assert_array_equal(
        aq.take_along_axis(by_row, places, axis=1).dequantize(),
        np.take_along_axis(by_row.dequantize(), places, axis=1),
    )


def test_fault_2_expand_repeats_codes_under_one_scale() -> None:
    x = np.array([[3], [300]], np.float32)
    q = aq.broadcast_to(aq.quantize(x, Q8.per_block([1, 1])), (2, 2, 5))
    assert q.dequantize().tolist() == np.broadcast_to(x, (2, 2, 5)).tolist()
    assert q.grid == (1, 2, 1)


def test_fault_3_reshape_keeps_rectangles_or_refuses() -> None:
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    squares = aq.quantize(x, Q8.per_block([2, 2]))
    with pytest.raises(aq.LayoutError, match=r"rectangles.*\(2, 2\)"):
        squares.reshape(2, 8)
    wide = aq.quantize(x.reshape(2, 8), Q8.per_block([4]))
    tall = wide.reshape(8, 2)
    assert tall.scheme.block.size == (2, 2)
    np.testing.assert_array_equal(tall.dequantize(), wide.dequantize().reshape(8, 2))


def test_fault_4_argmax_and_argmin_go_by_value() -> None:
    x = np.array([1.0, 0.1, 100.0, 70.0, -1.0, 0.0, -100.0, -70.0], np.float32)
    q = aq.quantize(x, Q8.per_block([2]))
    assert q.codes().tolist() == [127, 13, 127, 89, -127, 0, -127, -89]
    assert q.argmax() == aq.argmax(q) == 2
    assert q.argmin() == aq.argmin(q) == 6


@pytest.mark.parametrize(
    "move",
    [
        lambda a: a.T,
        lambda a: a[1:5, ::-1],
        lambda a: aq.flip(a, 0) if isinstance(a, aq.QuantizedArray) else np.flip(a, 0),
        lambda a: a.reshape(6, 2, 16),
        lambda a: a[:, 5:29],
    ],
)
def test_fault_5_no_move_quantizes_again(move: Any) -> None:
    x = np.random.default_rng(5).standard_normal((6, 32)).astype(np.float32)
    q = aq.quantize(x, Q8.per_block([16], "f16"))
    np.testing.assert_array_equal(move(q).codes(), move(q.codes()))
    assert set(move(q).scale.ravel()) <= set(q.scale.ravel())
    np.testing.assert_array_equal(move(q).dequantize(), move(q.dequantize()))


def test_fault_7_no_result_takes_the_scheme_of_an_operand() -> None:
    q = aq.quantize(np.ones((2, 8), np.float32), Q8.per_block([4]))
    for result in (q + q, q - 1, 2 * q, q / q, aq.sort(q), -q):
        assert isinstance(result, np.ndarray)
        assert result.dtype == np.float32


@pytest.mark.parametrize("value", ["q4s", "q2s", "e2m1", "e3m2"])
def test_fault_8_every_line_is_padded_by_itself(value: str) -> None:
    x = np.random.default_rng(8).standard_normal((3, 13)).astype(np.float32)
    q = aq.quantize(x, aq.QuantScheme().with_value(value).with_store("packed_u32"))
    per_word = q.plan.codes_per_word
    assert q.data.shape == (3, -(-13 // per_word))
    values = q.dequantize()
    np.testing.assert_array_equal(q[1:].dequantize(), values[1:])
    np.testing.assert_array_equal(q.reshape(39).dequantize(), values.reshape(39))
    assert q.reshape(39).data.shape == (-(-39 // per_word),)
    np.testing.assert_array_equal(q[:, 3:].dequantize(), values[:, 3:])


@pytest.mark.parametrize("dim", range(3))
@pytest.mark.parametrize("store", ["packed_u32", "packed_native"])
def test_fault_9_the_packed_axis_is_the_one_that_is_divided(store: str, dim: int) -> None:
    x = np.random.default_rng(9).standard_normal((9, 11, 13)).astype(np.float32)
    q = aq.quantize(x, aq.QuantScheme().with_value("e2m1").with_store(f"{store}({dim})"))
    for order in itertools.permutations(range(3)):
        moved = aq.permute_dims(q, order)
        lengths = [x.shape[axis] for axis in order]
        place = order.index(2 - dim)
        lengths[place] = -(-lengths[place] // q.plan.codes_per_word)
        assert moved.data.shape == tuple(lengths)
        np.testing.assert_array_equal(moved.dequantize(), q.dequantize().transpose(order))


@pytest.mark.parametrize("dim", range(3))
def test_fault_10_the_packed_axis_follows_a_permutation(dim: int) -> None:
    x = np.random.default_rng(10).standard_normal((9, 11, 13)).astype(np.float32)
    q = aq.quantize(x, aq.QuantScheme().with_value("q4s").with_store(f"packed_u32({dim})"))
    for first, second in itertools.combinations(range(3), 2):
        moved = aq.swapaxes(q, first, second)
        old = 2 - dim
        new = {first: second, second: first}.get(old, old)
        assert moved.scheme.store == aq.QuantStore.packed_u32(2 - new)
        np.testing.assert_array_equal(moved.dequantize(), q.dequantize().swapaxes(first, second))


def test_fault_12_a_ternary_array_keeps_its_calibration_when_it_is_touched() -> None:
    x = np.random.default_rng(12).standard_normal((8, 8)).astype(np.float32)
    q = aq.quantize(x, "ternary")
    assert q[3:, 1:].scale.ravel().tolist() == q.scale.ravel().tolist()
    assert q.T.scheme.numerics == q.scheme.numerics
    assert aq.requantize(q[3:], "int8/row").scheme.numerics.calibration is aq.Calibration.MINMAX
