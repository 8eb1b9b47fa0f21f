"""torchao_affine.npz: torchao's integer, tinygemm, HQQ and float8 quantization, bit for bit.

Skipped by their own text are cases of 16-bit arithmetic and informational ones. Left out are
blocks whose scale torchao made infinite, and float8 blocks of zeros, which are NaN there.
"""

from __future__ import annotations

import pytest
from golden_affine import assert_is_produced, compared_cases, outside_the_contract, produced_by
from golden_cases import Case, cases_of
from scheme_drawing import scheme_of

import arrayq as aq

FILE = "torchao_affine.npz"


@pytest.mark.parametrize("case", compared_cases(FILE))
def test_scales_zero_points_codes_and_values_are_torchaos(case: Case) -> None:
    produced = produced_by(case)
    q = aq.quantize(produced.x, scheme_of(produced.spec))
    assert_is_produced(
        produced, scales=q.scale, zeros=q.zero, codes=q.codes(), values=aq.dequantize(q)
    )


def test_a_case_is_left_out_only_for_what_its_producer_says() -> None:
    for param in cases_of(FILE):
        case: Case = param.values[0]
        text = outside_the_contract(case)
        assert text == "" or "16-bit" in case.exact or "informational" in case.exact
