"""Reports from practice (CASES 12): moving a quantized array without changing a value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import arrayq as aq

SCHEMES = {
    "block 32": aq.scheme("int8/32"),
    "block [2, 32]": aq.QuantScheme().with_value("q8s").with_store("native").per_block([2, 32]),
    "nvfp4": aq.nvfp4(),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_case_12_a_transposed_array_reads_back_transposed(name: str) -> None:
    x = np.random.default_rng(12).standard_normal((6, 64)).astype(np.float32)
    q = aq.quantize(x, SCHEMES[name])
    np.testing.assert_array_equal(aq.permute_dims(q, (1, 0)).dequantize(), q.dequantize().T)
    again = q.T.T
    assert again.scheme == q.scheme
    np.testing.assert_array_equal(again.data, q.data)
    np.testing.assert_array_equal(again.scale_data, q.scale_data)


@pytest.mark.parametrize("store", ["native", "packed_native", "packed_u32"])
@pytest.mark.parametrize("ndim", range(1, 6))
def test_case_12_every_permutation_is_exact_and_undone_by_its_inverse(
    ndim: int, store: str
) -> None:
    shape = (6, 5, 4, 3, 7)[:ndim]
    x = np.random.default_rng(ndim).standard_normal(shape).astype(np.float32)
    block = (2, 3, 2, 1, 4)[-ndim:]
    for dim in range(ndim) if store != "native" else [0]:
        packing = store if store == "native" else f"{store}({dim})"
        scheme = aq.QuantScheme().with_value("q4s").with_store(packing).per_block(block, "f16")
        q = aq.quantize(x, scheme)
        values = q.dequantize()
        for order in itertools.permutations(range(ndim)):
            moved = aq.permute_dims(q, order)
            np.testing.assert_array_equal(moved.dequantize(), values.transpose(order))
            back = aq.permute_dims(moved, tuple(np.argsort(order)))
            assert back.scheme == q.scheme
            np.testing.assert_array_equal(back.data, q.data)
            np.testing.assert_array_equal(back.scale_data, q.scale_data)


@pytest.mark.parametrize("store", ["packed_native", "packed_u32"])
@pytest.mark.parametrize("place", [0, 1])
def test_case_12_the_packed_axis_moves_to_the_front_and_to_the_middle(
    place: int, store: str
) -> None:
    x = np.random.default_rng(7).standard_normal((5, 6, 33)).astype(np.float32)
    scheme = aq.QuantScheme().with_value("e2m1").with_store(store).per_block([16], "ue4m3")
    q = aq.quantize(x, scheme.per_tensor("f32"))
    moved = aq.moveaxis(q, -1, place)
    assert moved.scheme.store.dim == 2 - place
    np.testing.assert_array_equal(moved.dequantize(), np.moveaxis(q.dequantize(), -1, place))
