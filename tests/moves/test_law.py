"""The law of every move: dequantize(f(q)) equals f(dequantize(q)), bit for bit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from move_drawing import DRAWN, Move, basic_indices, moves
from scheme_drawing import problems, scheme_of

import arrayq as aq
from arrayq.formats import Kind


def assert_same_bits(q: aq.QuantizedArray, values: npt.NDArray[np.float32], what: str) -> None:
    decoded = q.dequantize()
    assert q.shape == decoded.shape == values.shape, what
    np.testing.assert_array_equal(
        decoded.view(np.uint32), np.ascontiguousarray(values).view(np.uint32), what
    )


@np.errstate(over="ignore")
def assert_well_formed(q: aq.QuantizedArray) -> None:
    """Assert that the parts make the same array again, and that unused fields are zero."""
    factor = np.float32(1) if q.tensor_scale is None else q.tensor_scale
    if np.isinf(factor) or np.isinf(q.scale * factor).any():
        return  # made near float32's maximum; the constructor takes no such scales
    again = aq.QuantizedArray(
        q.data, q.scale_data, q.scheme, extent=q.extent, tensor_scale=q.tensor_scale,
        zero_point=q.zero_point,
        block_offset=q.block_offset,
    )  # fmt: skip
    assert (again.shape, again.grid, again.block_offset) == (q.shape, q.grid, q.block_offset)
    assert q.data.flags.c_contiguous
    assert q.scale_data.flags.c_contiguous
    packs_alike = q.scheme.codes_signed or q.scheme.value.kind is not Kind.INT
    if q.scheme.store.is_packed and packs_alike:
        repacked = aq.pack(q.codes(), q.scheme.value, q.scheme.store)
        np.testing.assert_array_equal(repacked, q.data)


def moved_or_refused(move: Move, q: aq.QuantizedArray) -> aq.QuantizedArray | aq.LayoutError:
    try:
        return move.on_quantized(q)
    except aq.LayoutError as error:
        return error


def check(move: Move, q: aq.QuantizedArray) -> aq.QuantizedArray | None:
    """Return the moved array, or None where it cannot stay quantized and need not."""
    moved = moved_or_refused(move, q)
    if isinstance(moved, aq.QuantizedArray):
        return moved
    assert not move.always, f"{move} on {q} always stays quantized, but: {moved}"
    assert "dequantize()" in str(moved)
    assert "requantize(scheme)" in str(moved)
    return None


@given(problems(), st.data())
@settings(max_examples=300)
def test_any_chain_of_moves_keeps_every_bit(problem: tuple[Any, Any], data: st.DataObject) -> None:
    x, spec = problem
    q = aq.quantize(x, scheme_of(spec))
    values = q.dequantize()
    for _ in range(data.draw(st.integers(1, 5))):
        move = data.draw(moves(q))
        moved = check(move, q)
        event(f"{'refused' if moved is None else 'moved'}, always={move.always}")
        if moved is None:
            continue
        q, values = moved, np.asarray(move.on_values(values))
        assert_same_bits(q, values, f"after {move}")
        assert_well_formed(q)


@pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.__name__)
@given(problem=problems(), data=st.data())
def test_each_kind_of_move_keeps_every_bit(
    kind: Any, problem: tuple[Any, Any], data: st.DataObject
) -> None:
    x, spec = problem
    q = aq.quantize(x, scheme_of(spec))
    # half of the arrays start inside a block
    if data.draw(st.booleans()):
        q = data.draw(basic_indices(q)).on_quantized(q)
    move = data.draw(kind(q))
    moved = check(move, q)
    if moved is not None:
        assert_same_bits(moved, np.asarray(move.on_values(q.dequantize())), repr(move))
        assert_well_formed(moved)


@given(problem=problems(), data=st.data())
def test_every_part_of_the_shape_of_the_grid_moves_alike(
    problem: tuple[Any, Any], data: st.DataObject
) -> None:
    x, spec = problem
    q = aq.quantize(x, scheme_of(spec))
    move = data.draw(moves(q))
    # numbers that tell the cells apart stand in for zero points
    numbers = np.arange(q.scale_data.size, dtype=np.float32).reshape(q.grid)
    met = []
    from_parts = aq.QuantizedArray._from_parts

    def spy(data: Any, grids: Any, tensor_scale: Any, layout: Any) -> aq.QuantizedArray:
        met.append(grids)
        return from_parts(data, grids, tensor_scale, layout)

    alike = numbers.astype(q.scale_data.dtype)
    q = q._with_parts(q.data, alike, alike, q.tensor_scale)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aq.QuantizedArray, "_from_parts", spy)
        moved_or_refused(move, q)
    for grids in met:
        assert grids["zero_point"].shape == grids["scale_data"].shape
        if grids["scale_data"].shape:
            np.testing.assert_array_equal(grids["zero_point"], grids["scale_data"])


def test_no_refusal_among_the_moves_that_always_stay_quantized() -> None:
    counts: Counter[tuple[str, str]] = Counter()

    @given(problem=problems(), data=st.data())
    @settings(max_examples=600)
    def count(problem: tuple[Any, Any], data: st.DataObject) -> None:
        x, spec = problem
        q = aq.quantize(x, scheme_of(spec))
        move = data.draw(moves(q))
        result = moved_or_refused(move, q)
        promised = "promised" if move.always else "not promised"
        kept = "kept" if isinstance(result, aq.QuantizedArray) else "refused"
        counts[promised, kept] += 1

    count()
    assert counts["promised", "refused"] == 0
    assert counts["promised", "kept"] > 200
    assert counts["not promised", "refused"] > 0
    assert counts["not promised", "kept"] > 0
