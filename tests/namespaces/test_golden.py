"""burn.npz and torchao_affine.npz in every library: the published bits, not NumPy's."""

from __future__ import annotations

from typing import Any

import golden_burn
import numpy as np
import numpy.typing as npt
import pytest
from golden_affine import assert_is_produced, compared_cases, produced_by
from golden_cases import Case, cases_of
from libraries import WAYS, Opened, Way
from scheme_drawing import scheme_of

import arrayq as aq

Array = npt.NDArray[Any]

eager = pytest.mark.parametrize(
    "way",
    [
        # XLA compiles every operation for every shape, which takes seconds for each case
        pytest.param(way, id=name, marks=[pytest.mark.slow] if name == "jax generic" else [])
        for name, way in WAYS.items()
        if way.is_eager or way.path == "chunked"
    ],
)


def both(way: Way, opened: Opened, x: Array, scheme: aq.QuantScheme) -> tuple[Any, Array]:
    """Return the array that a library quantizes, as NumPy's, and what it dequantizes to."""
    with way.taken():
        q = aq.quantize(opened.into(x), scheme)
        q, values = opened.computed((q, aq.dequantize(q)))
    parts = [None if part is None else opened.back(part) for part in q._parts()]
    return q._with_parts(*parts), opened.back(values)


@eager
def test_burns_cases(way: Way, opened: Opened, subtests: pytest.Subtests) -> None:
    for param in cases_of("burn.npz", lambda case: "scales" in case.roles):
        case: Case = param.values[0]
        scheme = golden_burn.scheme_of(case)
        for x, expected in golden_burn.tensors(case):
            if way.keeps_subnormals or is_normal(x, scheme):
                with subtests.test(case=case.id):
                    golden_burn.assert_is_burns(expected, *both(way, opened, x, scheme))


@eager
def test_torchaos_cases(way: Way, opened: Opened, subtests: pytest.Subtests) -> None:
    compared = 0
    for param in compared_cases("torchao_affine.npz"):
        if param.marks:
            continue
        case: Case = param.values[0]
        produced = produced_by(case)
        scheme, x = scheme_of(produced.spec), produced.x
        if x.dtype.name not in way.row.dtypes:
            continue
        if way.keeps_subnormals or is_normal(x, scheme):
            with subtests.test(case=case.id):
                q, values = both(way, opened, x, scheme)
                assert_is_produced(
                    produced, scales=q.scale, zeros=q.zero, codes=q.codes(), values=values
                )
            compared += 1
    assert compared >= 20


def is_normal(x: Array, scheme: aq.QuantScheme) -> bool:
    """Return whether neither elements nor scales nor values come near a subnormal."""
    q = aq.quantize(x, scheme)
    scale = np.abs(q.scale.astype(np.float64) * (1.0 if q.tensor_scale is None else q.tensor_scale))
    numbers = [np.abs(x.astype(np.float64)), scale, np.abs(q.dequantize().astype(np.float64))]
    return all(((n == 0) | (n > 2.0**-100)).all() for n in numbers)
