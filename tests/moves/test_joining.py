"""Joins: seams, shared scales, formats, and tensor scales that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arrayq as aq

X = np.random.default_rng(6).standard_normal((4, 32)).astype(np.float32)
Q4 = aq.QuantScheme().with_value("q4s").with_store("packed_native")


def equal_bits(q: aq.QuantizedArray, values: npt.NDArray[Any]) -> None:
    np.testing.assert_array_equal(q.dequantize().view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("lengths", [(16, 16), (16, 5), (3, 3), (8, 24, 7)])
def test_parts_join_where_their_seams_are_block_boundaries(lengths: tuple[int, ...]) -> None:
    parts = [aq.quantize(X[:, :n] * 2.0**k, Q4.per_block([8])) for k, n in enumerate(lengths)]
    for first in (parts[0], parts[0][:, 1:]):
        joined = aq.concat([first, *parts[1:]], axis=1)
        values = [part.dequantize() for part in (first, *parts[1:])]
        equal_bits(joined, np.concatenate(values, axis=1))


def test_a_seam_inside_a_block_is_refused_with_the_way_out() -> None:
    parts = [aq.quantize(X[:, :12], Q4.per_block([8])), aq.quantize(X * 3, Q4.per_block([8]))]
    with pytest.raises(aq.LayoutError, match=r"along axis 1 requires seams on block") as caught:
        aq.concat(parts, axis=1)
    assert "requantize(scheme)" in str(caught.value)


def test_parts_that_share_their_scales_join_anywhere() -> None:
    q = aq.quantize(np.full((4, 11), 0.5, np.float32), Q4.per_block([8]))
    equal_bits(aq.concat([q, q[:, 3:]], axis=1), np.full((4, 19), 0.5, np.float32))
    equal_bits(aq.roll(q, 3, 1), q.dequantize())
    equal_bits(aq.tile(q, (1, 3)), np.full((4, 33), 0.5, np.float32))


def test_whole_arrays_of_one_scale_each_become_blocks() -> None:
    parts = [aq.quantize(X * 10.0**k, Q4.per_tensor()) for k in range(3)]
    joined = aq.concat(parts)
    assert joined.grid == (3, 1)
    assert joined.scheme.block.size == (4, -1)
    equal_bits(joined, np.concatenate([part.dequantize() for part in parts]))
    again = aq.concat([parts[0], parts[0]])
    assert again.scheme == parts[0].scheme


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (2, 1, 0), (0, 0, 1)])
def test_a_run_of_parts_of_one_scale_becomes_a_block(order: tuple[int, ...]) -> None:
    lengths = [(3, 1), (2, 1), (4, 5)]
    whole = [aq.quantize(np.full(n, by, np.float32), "int8/tensor") for n, by in lengths]
    parts = [whole[i] for i in order]
    equal_bits(aq.concat(parts), np.concatenate([part.dequantize() for part in parts]))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("spelling", ["int4/16", "int8/row", "int8/tensor", "mxfp4"])
def test_stacked_arrays_keep_their_scales_whatever_they_are(spelling: str, axis: int) -> None:
    parts = [aq.quantize(X * 3.0**k, spelling) for k in range(3)]
    stacked = aq.stack(parts, axis=axis)
    equal_bits(stacked, np.stack([part.dequantize() for part in parts], axis=axis))
    assert stacked.grid[axis] == 3


@pytest.mark.parametrize("by", [0, 116, -232, (58, 58), ()])
def test_rolling_all_the_way_round_is_no_move(by: Any) -> None:
    q = aq.quantize(X[:, :30], Q4.per_block([4, 4]))[:, 1:]
    equal_bits(aq.roll(q, by), q.dequantize())
    with pytest.raises(aq.LayoutError):
        aq.roll(q, 1)


@pytest.mark.parametrize("by", [8, -16, 40, 0, 32, 3, -5])
def test_rolling_an_axis_of_whole_blocks_stays_quantized(by: int) -> None:
    q = aq.quantize(X, Q4.per_block([8]))
    equal_bits(aq.roll(q, by, axis=1), np.roll(q.dequantize(), by, axis=1))


def test_rolling_a_short_block_into_the_middle_is_refused() -> None:
    q = aq.quantize(X[:, :30], Q4.per_block([8]))
    with pytest.raises(aq.LayoutError, match="roll along axis 1"):
        aq.roll(q, 11, axis=1)
    equal_bits(aq.roll(q, 5, axis=1), np.roll(q.dequantize(), 5, axis=1))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Q4.with_value("e2m1").per_block([8]), "e2m1"),
        (Q4.per_block([8], "f16"), "q4s/8 at 1"),
        (Q4.with_store("native").per_block([8]), "native"),
        (Q4.per_block([8]).with_numerics(scale_from="qmax"), "qmax"),
        (aq.nvfp4(), "nvfp4"),
    ],
)
def test_different_formats_are_refused(other: aq.QuantScheme, named: str) -> None:
    parts = [aq.quantize(X, Q4.per_block([8])), aq.quantize(X, other)]
    with pytest.raises(aq.LayoutError, match=f"one element format.*{named}.*requantize"):
        aq.concat(parts)
    with pytest.raises(aq.LayoutError):
        aq.stack(parts)


def test_different_blocks_along_another_axis_are_refused() -> None:
    parts = [aq.quantize(X, Q4.per_block([8])), aq.quantize(X, Q4.per_block([16]))]
    with pytest.raises(aq.LayoutError, match=r"concat requires the same blocks.*axis 1"):
        aq.concat(parts)


def test_parts_packed_along_different_axes_join() -> None:
    q = aq.quantize(X, Q4.per_block([8]))
    other = aq.quantize(np.ascontiguousarray(X.T), Q4.per_block([8, 1])).T
    assert other.scheme.store.dim == 1
    equal_bits(aq.concat([q, other]), np.concatenate([q.dequantize(), other.dequantize()]))


# Two levels.


def scaled(*factors: float) -> list[aq.QuantizedArray]:
    return [aq.quantize(X * np.float32(factor), "nvfp4") for factor in factors]


@pytest.mark.parametrize("join", [aq.concat, aq.stack])
def test_equal_tensor_scales_join_without_touching_a_scale(join: Any) -> None:
    parts = scaled(1, -1)
    joined = join(parts)
    assert joined.tensor_scale == parts[0].tensor_scale
    assert set(joined.scale.ravel()) <= {s for part in parts for s in part.scale.ravel()}


@pytest.mark.parametrize("join", [aq.concat, aq.stack])
def test_block_scales_absorb_a_power_of_two(join: Any) -> None:
    parts = scaled(1, 2)
    assert parts[0].tensor_scale != parts[1].tensor_scale
    plain = np.concatenate if join is aq.concat else np.stack
    joined, report = join(parts, rescale=True)
    expected = plain([part.dequantize() for part in parts])
    equal_bits(join(parts), expected)
    equal_bits(joined, expected)
    assert report.rounded_blocks == 0
    assert report.max_error == report.max_scale_error == 0.0
    assert report.blocks == sum(part.scale.size for part in parts)


@pytest.mark.parametrize("join", [aq.concat, aq.stack])
def test_tensor_scales_that_need_rounding_are_refused_unless_asked_for(join: Any) -> None:
    parts = scaled(1, 1.7)
    with pytest.raises(aq.LayoutError, match=r"one tensor scale.*rescale=True.*got tensor scales"):
        join(parts)
    joined, report = join(parts, rescale=True)
    plain = np.concatenate if join is aq.concat else np.stack
    exact = plain([part.dequantize() for part in parts])
    error = np.abs(joined.dequantize().astype(np.float64) - exact)
    assert report.max_error == error.max() > 0
    assert 0 < report.rounded_blocks <= report.blocks
    assert 0 < report.max_scale_error <= 2.0**-4
    assert (
        report.tensor_scale
        == float(joined.tensor_scale)
        == max(float(part.tensor_scale) for part in parts)
    )
    np.testing.assert_array_equal(joined.codes(), plain([part.codes() for part in parts]))


def test_an_array_of_zeros_joins_any_other() -> None:
    parts = [aq.quantize(X * 0, "nvfp4"), aq.quantize(X, "nvfp4")]
    equal_bits(aq.concat(parts), np.concatenate([part.dequantize() for part in parts]))


def test_an_empty_part_does_not_bring_its_tensor_scale() -> None:
    parts = [aq.quantize(X[:0], "nvfp4"), aq.quantize(X, "nvfp4")]
    joined = aq.concat(parts)
    equal_bits(joined, parts[1].dequantize())


SIGNED = (
    Q4.with_value("q4f").per_block([16], "f16").per_tensor("f32")
    .with_numerics(scale_from="signed_max")
)  # fmt: skip


@pytest.mark.parametrize("join", [aq.concat, aq.stack])
def test_signed_scales_absorb_a_power_of_two(join: Any) -> None:
    parts = [aq.quantize(X * np.float32(factor), SIGNED) for factor in (1, 2)]
    assert (parts[0].scale < 0).any()
    assert parts[1].tensor_scale == 2 * parts[0].tensor_scale
    plain = np.concatenate if join is aq.concat else np.stack
    equal_bits(join(parts), plain([part.dequantize() for part in parts]))


def test_rescaling_signed_scales_keeps_their_signs() -> None:
    parts = [aq.quantize(X * np.float32(factor), SIGNED) for factor in (1, 1.7)]
    joined, report = aq.concat(parts, rescale=True)
    before = np.concatenate([part.scale for part in parts])
    np.testing.assert_array_equal(np.sign(joined.scale), np.sign(before))
    assert 0 < report.max_scale_error <= 2.0**-4


def of_zeros(kind: str) -> aq.QuantizedArray:
    """Return an array without any number but zero, of a large tensor scale."""
    if kind == "empty":
        return aq.quantize(X * 1000, "nvfp4")[:0]
    scale = np.full((4, 2), 0.0 if kind == "zero scales" else 1.0, np.float32)
    return aq.quantize(X * 0, "nvfp4", qparams=aq.QParams(scale, tensor_scale=1000.0))


@pytest.mark.parametrize("kind", ["empty", "zero scales", "zero codes"])
def test_parts_of_zeros_have_no_say_in_the_tensor_scale(kind: str) -> None:
    silent = of_zeros(kind)
    n = len(silent)
    parts = [silent, *scaled(1, 1.7)]
    assert silent.tensor_scale > max(part.tensor_scale for part in parts[1:])
    joined, report = aq.concat(parts, rescale=True)
    alone, expected = aq.concat(parts[1:], rescale=True)
    assert joined.tensor_scale == alone.tensor_scale
    equal_bits(joined[n:], alone.dequantize())
    equal_bits(joined[:n], silent.dequantize())
    assert report.rounded_blocks == expected.rounded_blocks
    assert report.max_error == expected.max_error
    equal_bits(aq.concat(parts[:2])[n:], parts[1].dequantize())


def test_rescaling_one_level_changes_nothing_and_says_so() -> None:
    q = aq.quantize(X, "int4/16")
    joined, report = aq.concat([q, q], rescale=True)
    equal_bits(joined, np.concatenate([q.dequantize()] * 2))
    assert report == aq.RescaleReport(1.0, 16, 0, 0.0, 0.0)


@given(st.lists(st.floats(2.0**-12, 2.0**12), min_size=2, max_size=4), st.booleans())
def test_two_levels_join_exactly_or_say_what_it_cost(factors: list[float], halves: bool) -> None:
    scheme = Q4.per_block([8], "f16").per_tensor("f32") if halves else aq.nvfp4()
    parts = [aq.quantize(X * np.float32(factor), scheme) for factor in factors]
    exact = np.concatenate([part.dequantize() for part in parts])
    joined, report = aq.concat(parts, rescale=True)
    error = np.abs(joined.dequantize().astype(np.float64) - exact)
    assert report.max_error == error.max()
    if report.rounded_blocks == 0:
        equal_bits(aq.concat(parts), exact)
    else:
        with pytest.raises(aq.LayoutError):
            aq.concat(parts)
