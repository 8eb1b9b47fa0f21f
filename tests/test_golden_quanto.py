"""quanto.npz: optimum-quanto's int8, and its int4 and int2 with a float shift, bit for bit.

Left out are groups of one number, or of a range that overflows: their scale is 0 or infinite
there and what follows is NaN. How quanto packs codes into bytes is a matter of its file layout,
not of the arithmetic.
"""

from __future__ import annotations

import pytest
from golden_affine import assert_is_produced, compared_cases, produced_by
from golden_cases import Case
from scheme_drawing import scheme_of

import arrayq as aq


@pytest.mark.parametrize("case", compared_cases("quanto.npz"))
def test_scales_shifts_codes_and_values_are_quantos(case: Case) -> None:
    produced = produced_by(case)
    q = aq.quantize(produced.x, scheme_of(produced.spec))
    assert_is_produced(
        produced, scales=q.scale, zeros=q.zero, codes=q.codes(), values=aq.dequantize(q)
    )
