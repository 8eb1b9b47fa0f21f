"""Every library gives NumPy's bits, for every scheme that its row of the table allows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from libraries import WAYS, Opened, Way, results_of
from path_comparison import bits
from scheme_lattice import (
    Problem,
    codebook_of,
    design,
    everything_is_somewhere,
    neighbours_of_edges,
    rows_of,
)
from subnormals import meets_subnormals
from tallies import TALLIES, Tally

import arrayq as aq
from arrayq.capability import PROFILES, Laziness
from arrayq.numerics import Rounding
from arrayq.scheme import QuantMode, QuantScheme, QuantValue

Array = npt.NDArray[Any]

ways = pytest.mark.parametrize("way", WAYS.values(), ids=lambda way: way.name)
values = pytest.mark.parametrize("value", QuantValue)


# What the tables say is what is tested.


def test_every_row_is_a_way_on_each_of_its_paths() -> None:
    assert {(way.row.name, way.path) for way in WAYS.values()} >= {
        (name, path) for name, row in PROFILES.items() for path in row.paths
    }


def test_what_a_compiler_traces_is_compiled() -> None:
    traced = {name for name, row in PROFILES.items() if row.laziness is Laziness.TRACED}
    assert traced <= {way.row.name for way in WAYS.values() if way.is_traced}


@pytest.mark.parametrize("which", ["parts", "pairs"])
def test_designs_have_every_choice_of_every_part(which: str) -> None:
    found: dict[str, set[Any]] = {}
    for problem in design("numpy", which):
        for part, choice in problem.parts():
            found.setdefault(part, set()).add(choice)
    missing = {part: choices - found[part] for part, choices in everything_is_somewhere().items()}
    assert not any(missing.values()), missing


@pytest.mark.parametrize("name", [name for name, row in PROFILES.items() if row.paths])
def test_the_lattice_has_every_row_that_works(name: str) -> None:
    def row_of(scheme: QuantScheme) -> tuple[str, ...]:
        return str(scheme.value), str(scheme.scale_dtype), scheme.store.kind.value, str(scheme.mode)

    in_lattice = {row_of(problem.scheme) for problem in design(name, "lattice")}
    assert in_lattice >= {row[1:5] for row in rows_of(name, ok=True)}


# Bits.


@cache
def expected_of(problem: Problem) -> tuple[aq.QuantizedArray, Array]:
    """Return what NumPy makes of a problem, which other tests hold against the oracle."""
    q = aq.quantize(problem.array, problem.scheme, nonfinite=problem.nonfinite)
    return q, aq.dequantize(q)


def differences(way: Way, problem: Problem, got: Sequence[Array], tally: Tally) -> list[str]:
    """Return what differs from NumPy's results in what the library promises."""
    q, numbers = expected_of(problem)
    parts = {"data": q.data, "scale_data": q.scale_data, "zero_point": q.zero_point}
    parts |= {"tensor_scale": q.tensor_scale, "values": numbers}
    parts = {name: part for name, part in parts.items() if part is not None}
    found = []
    for (name, part), one in zip(parts.items(), got, strict=True):
        if (one.dtype, one.shape) != (part.dtype, part.shape):
            found.append(f"{name} is {one.dtype} of {one.shape}, not {part.dtype} of {part.shape}")
    if found:
        return found
    given = dict(zip(parts, got, strict=True))
    if not way.row.signed_zeros:
        given["values"], parts["values"] = given["values"] + 0.0, numbers + 0.0
    tally.schemes += 1
    tally.compared += numbers.size
    if way.keeps_subnormals:
        apart = {name: np.zeros(part.shape, bool) for name, part in parts.items()}
    else:
        met = meets_subnormals(problem, q, numbers)
        if problem.fill != "wide":
            assert not met.elements.any(), f"{problem} is no ordinary array"
        apart = {"scale_data": met.blocks, "zero_point": met.blocks, "values": met.values}
        apart |= {"data": met.elements, "tensor_scale": np.all(met.blocks)}
        # words are compared by their fields
        both = [{**given}, {**parts}]
        for each in both:
            stored = [each.get(part) for part in ("data", "scale_data", "zero_point")]
            each["data"] = q._with_parts(*stored, each.get("tensor_scale")).codes()
        given, parts = both
        tally.apart += int(met.values.sum())
    for name, part in parts.items():
        differs = bits(given[name]) != bits(part)
        if name == "values":
            tally.different += int((differs & apart[name]).sum())
        if (differs & ~apart[name]).any():
            place = tuple(int(i) for i in np.argwhere(differs & ~apart[name])[0])
            found.append(
                f"{name}{list(place)} is {given[name][place]!r}, not {part[place]!r}; "
                f"{int((differs & ~apart[name]).sum())} of {part.size} differ"
            )
    return found


def without_negative_zeros(problem: Problem) -> Problem:
    """Return a problem of the same array without what a library may not know."""
    return NoNegativeZeros(problem.scheme, problem.shape, problem.fill)


class NoNegativeZeros(Problem):
    @property
    def array(self) -> npt.NDArray[np.float32]:
        return super().array + np.float32(0)


def assert_bits(way: Way, opened: Opened, problems: Sequence[Problem]) -> None:
    """Compare what a way makes of the problems that its row does not refuse."""
    if not way.row.signed_zeros:
        problems = [without_negative_zeros(problem) for problem in problems]
    tried = [problem for problem in problems if not way.refuses(problem.scheme)]
    asked = [(problem.scheme, problem.nonfinite) for problem in tried]
    tally = Tally()
    results = results_of(way, opened, asked, [problem.array for problem in tried]) if tried else []
    wrong = [
        f"{problem.scheme!r} of {problem.shape}, {problem.fill}: {difference}"
        for problem, got in zip(tried, results, strict=True)
        for difference in differences(way, problem, got, tally)
    ]
    TALLIES[way.name].add(tally)
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:10])
    assert tally.apart <= (0 if way.keeps_subnormals else tally.compared // 2)


@ways
@values
def test_every_scheme(way: Way, value: QuantValue, opened: Opened) -> None:
    problems = [p for p in design(way.row.name, way.design) if p.scheme.value is value]
    assert_bits(way, opened, problems)


ROUNDINGS = [rounding for rounding in Rounding if rounding is not Rounding.STOCHASTIC]


def scheme_of_one_scale(value: QuantValue, rounding: Rounding) -> QuantScheme | None:
    """Return a scheme whose codes are those of the elements themselves; None where there is none.

    Lookup has one rounding, which is taken the first time.
    """
    scheme = QuantScheme().with_value(value).with_store("native")
    if scheme.mode is not QuantMode.LOOKUP:
        return scheme.with_numerics(rounding=rounding)
    scheme = scheme.with_mode("lookup", codebook_of(value))
    return scheme if rounding is ROUNDINGS[0] else None


@pytest.mark.parametrize(
    "way",
    [way for way in WAYS.values() if way.row.name != "ndonnx" and "compile" not in way.name],
    ids=lambda way: way.name,
)
def test_every_edge_and_its_neighbours(way: Way, opened: Opened) -> None:
    found = [scheme_of_one_scale(v, r) for v in QuantValue for r in ROUNDINGS]
    schemes = [scheme for scheme in found if scheme is not None]
    # of one length, so that XLA compiles operations once
    tried = [
        np.resize(neighbours_of_edges(scheme.value, scheme.codebook), 1536) for scheme in schemes
    ]
    one = aq.QParams(np.ones(1, np.float32))

    def function(*arrays: Any) -> list[Any]:
        return [
            aq.quantize(x, scheme, qparams=one).data
            for x, scheme in zip(arrays, schemes, strict=True)
        ]

    with way.taken():
        results = opened.computed(opened.compiled(function)(*map(opened.into, tried)))
    for x, scheme, got in zip(tried, schemes, results, strict=True):
        expected = aq.quantize(x, scheme, qparams=one).data
        np.testing.assert_array_equal(opened.back(got), expected, err_msg=str(scheme))


@pytest.mark.slow
@ways
@values
def test_every_scheme_slowly(way: Way, value: QuantValue, opened: Opened) -> None:
    problems = [p for p in design(way.row.name, way.slowly) if p.scheme.value is value]
    for start in range(0, len(problems), 40):
        assert_bits(way, opened, problems[start : start + 40])
