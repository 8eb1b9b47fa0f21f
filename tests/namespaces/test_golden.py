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


@pytest.mark.parametrize("case", cases_of("burn.npz", lambda case: "scales" in case.roles))
@eager
def test_burns_cases(way: Way, opened: Opened, case: Case) -> None:
    scheme = golden_burn.scheme_of(case)
    tensors = golden_burn.tensors(case)
    if not way.keeps_subnormals:
        tensors = [(x, expected) for x, expected in tensors if is_normal(x, scheme)]
    for x, expected in tensors if way.path == "host" else tensors[:20]:
        golden_burn.assert_is_burns(expected, *both(way, opened, x, scheme))


@pytest.mark.parametrize("case", compared_cases("torchao_affine.npz"))
@eager
def test_torchaos_cases(way: Way, opened: Opened, case: Case) -> None:
    produced = produced_by(case)
    scheme, x = scheme_of(produced.spec), produced.x
    if x.dtype.name not in way.row.dtypes:
        pytest.skip(f"{way.row.name} has no {x.dtype.name}")
    if not (way.keeps_subnormals or is_normal(x, scheme)):
        pytest.skip(f"{way.row.name} takes subnormals for zero")
    q, values = both(way, opened, x, scheme)
    assert_is_produced(produced, scales=q.scale, zeros=q.zero, codes=q.codes(), values=values)


def is_normal(x: Array, scheme: aq.QuantScheme) -> bool:
    """Return whether neither elements nor scales nor values come near a subnormal."""
    q = aq.quantize(x, scheme)
    scale = np.abs(q.scale.astype(np.float64) * (1.0 if q.tensor_scale is None else q.tensor_scale))
    numbers = [np.abs(x.astype(np.float64)), scale, np.abs(q.dequantize().astype(np.float64))]
    return all(((n == 0) | (n > 2.0**-100)).all() for n in numbers)
