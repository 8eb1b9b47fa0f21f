"""burn.npz: burn's symmetric quantization, bit for bit.

Skipped are blocks whose scale burn made infinite (2 * amax overflows there), and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from golden_cases import Case, assert_same_floats, cases_of

import arrayq as aq


def scheme_of(case: Case) -> aq.QuantScheme:
    """Build the scheme that a case's parameters describe, with burn's own numerics."""
    params = case.params
    dtype = params["scale_dtype"].lower()
    scheme = aq.QuantScheme().with_value(params["value"].lower()).with_store("native")
    if params["block"] == "-":
        return scheme.per_tensor(dtype)
    scheme = scheme.per_block([int(size) for size in params["block"].split(",")], dtype)
    return scheme.per_tensor("f32") if params["two_level"] else scheme


def tensors(case: Case) -> list[tuple[npt.NDArray[Any], dict[str, npt.NDArray[Any]]]]:
    """Return each tensor that the producer quantized with what it made of it."""
    x = case.input()
    arrays = {role: case.array(role) for role in case.roles}
    if "every row a separate" not in case.function:
        return [(x, arrays)]
    return [
        (x[row : row + 1], {role: array[row : row + 1] for role, array in arrays.items()})
        for row in range(len(x))
    ]


def elements_of(blocks: npt.NDArray[np.bool_], q: aq.QuantizedArray) -> npt.NDArray[np.bool_]:
    """Spread a flag for each block over the block's elements."""
    sizes = [
        n if size == -1 else size
        for n, size in zip(q.shape, q.scheme.block_extents(q.ndim), strict=True)
    ]
    spread = blocks.reshape(q.scale.shape)
    for axis, size in enumerate(sizes):
        spread = spread.repeat(size, axis)
    return spread[tuple(slice(n) for n in q.shape)]


@pytest.mark.parametrize("case", cases_of("burn.npz", lambda case: "scales" in case.roles))
def test_codes_scales_and_values_are_burns(case: Case) -> None:
    scheme = scheme_of(case)
    for x, expected in tensors(case):
        q = aq.quantize(x, scheme)
        scales = expected["scales"].reshape(q.scale.shape)
        usable = ~np.isinf(scales)
        np.testing.assert_array_equal(q.scale[usable], scales[usable])
        seen = elements_of(usable, q)
        np.testing.assert_array_equal(q.data[seen], expected["q"][seen])
        assert_same_floats(aq.dequantize(q)[seen], expected["deq"][seen])
        if scheme.two_level:
            assert q.tensor_scale == expected["global"].ravel()[0]
        else:
            assert q.tensor_scale is None


@pytest.mark.parametrize("case", cases_of("burn.npz", lambda case: "rounded" in case.roles))
def test_scales_round_up_as_burn_rounds_them(case: Case) -> None:
    # A block of one element under Q2S has the element's magnitude as its raw scale.
    dtype = case.params["scale_dtype"].lower()
    scheme = aq.QuantScheme().with_value("q2s").with_store("native").per_block([1], dtype)
    q = aq.quantize(case.input(), scheme)
    np.testing.assert_array_equal(q.scale, case.array("rounded"))


@pytest.mark.parametrize("case", cases_of("burn.npz", lambda case: "words" in case.roles))
def test_words_unpack_to_burns_codes_and_pack_back(case: Case) -> None:
    value, extent = case.params["value"].lower(), case.params["numel"]
    words, codes = case.array("words"), case.array("q")
    got = aq.unpack(words, value, "packed_u32", extent)
    assert got.dtype == codes.dtype
    np.testing.assert_array_equal(got, codes)
    # The fields after the last code belong to nobody; pack writes zeros there.
    again = aq.unpack(aq.pack(codes, value, "packed_u32"), value, "packed_u32", extent)
    np.testing.assert_array_equal(again, codes)


def test_every_case_is_compared() -> None:
    compared = {"scales", "rounded", "words"}
    assert all(param.values[0].roles & compared for param in cases_of("burn.npz"))
