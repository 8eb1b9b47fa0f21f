"""Tensor scales that are found, where none of those given is exact for all parts."""

from __future__ import annotations

import numpy as np
import pytest

import arrayq as aq
from arrayq.stored_numbers import scale_to_bits


def array_of(scales: list[float], tensor_scale: float, dtype: str) -> aq.QuantizedArray:
    """Return an array of blocks of two with given scales."""
    scheme = aq.QuantScheme(value="e2m1", store="native").per_block([2], dtype).per_tensor()
    stored = scale_to_bits(np.float32(scales), scheme.scale_dtype)
    data = np.full(2 * len(scales), 7, np.uint8)
    return aq.QuantizedArray(data, stored, scheme, tensor_scale=np.float32(tensor_scale))


@pytest.mark.parametrize("dtype", ["ue4m3", "f16"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([1, 1.25], 3), ([1, 1.5], 5)),
        (([1, 2], 3), ([1], 7)),
        (([1.25], 3), ([1.5, 0], 5)),
        (([1], 9), ([1], 15)),
    ],
)
def test_a_tensor_scale_that_is_exact_for_all_parts_is_found(
    one: tuple[list[float], float], other: tuple[list[float], float], dtype: str
) -> None:
    parts = [array_of(*one, dtype), array_of(*other, dtype)]
    joined = aq.concat(parts)
    expected = np.concatenate([part.dequantize() for part in parts])
    np.testing.assert_array_equal(joined.dequantize(), expected)
    assert aq.concat(parts, rescale=True).report.rounded_blocks == 0


def test_products_that_no_tensor_scale_can_make_are_still_refused() -> None:
    parts = [array_of([1, 1.125, 1.25, 1.375], 1, "ue4m3"), array_of([1, 1.125], 1.1, "ue4m3")]
    with pytest.raises(aq.LayoutError, match="one tensor scale"):
        aq.concat(parts)
