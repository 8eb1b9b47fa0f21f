"""burn.npz: burn's symmetric quantization, bit for bit.

Skipped are blocks whose scale burn made infinite (2 * amax overflows there), and nothing else.
"""

from __future__ import annotations

import numpy as np
import pytest
from golden_burn import assert_is_burns, scheme_of, tensors
from golden_cases import Case, cases_of

import arrayq as aq


@pytest.mark.parametrize("case", cases_of("burn.npz", lambda case: "scales" in case.roles))
def test_codes_scales_and_values_are_burns(case: Case) -> None:
    scheme = scheme_of(case)
    for x, expected in tensors(case):
        q = aq.quantize(x, scheme)
        assert_is_burns(expected, q, aq.dequantize(q))


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
