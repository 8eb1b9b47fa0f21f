"""The oracle is checked without arrayq: against exact rationals, ml_dtypes and golden vectors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import oracle
import pytest
from golden_affine import assert_is_produced, compared_cases, produced_by
from golden_cases import Case, assert_same_floats, cases_of
from hypothesis import given
from hypothesis import strategies as st
from oracle.arithmetic import divide_exactly, multiply_exactly
from oracle.elements import ELEMENTS, Integer, value_of
from oracle.rounding import to_whole, uniform, uniforms
from oracle.scales import round_up

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)

# Where ml_dtypes has the format: its dtype and the name of the conventions its cast follows.
ML_DTYPES = {
    "e4m3": (ml_dtypes.float8_e4m3fn, {"overflow": "nan"}),
    "e5m2": (ml_dtypes.float8_e5m2, {"overflow": "inf", "nan": 0x7E}),
    "e2m1": (ml_dtypes.float4_e2m1fn, {"nan": 0x8}),
    "e2m3": (ml_dtypes.float6_e2m3fn, {"nan": 0x20}),
    "e3m2": (ml_dtypes.float6_e3m2fn, {"nan": 0x20}),
    "ue8m0": (ml_dtypes.float8_e8m0fnu, {"overflow": "nan", "nonpositive": "nan"}),
    "f16": (np.float16, {"overflow": "inf"}),
    "bf16": (ml_dtypes.bfloat16, {"overflow": "inf"}),
}


def same(a: float, b: float) -> bool:
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


@given(finite, finite)
def test_array_arithmetic_rounds_the_exact_result_once(x: float, y: float) -> None:
    assert same(float(oracle.multiply(x, y)), multiply_exactly(x, y))
    if y != 0:
        assert same(float(oracle.divide(x, y)), divide_exactly(x, y))


@pytest.mark.parametrize("name", ML_DTYPES)
def test_every_code_means_what_ml_dtypes_says(name: str) -> None:
    dtype = np.dtype(ML_DTYPES[name][0])
    width = ELEMENTS[name].width
    codes = np.arange(2**width)
    narrow = codes.astype({1: np.uint8, 2: np.uint16}[dtype.itemsize])
    expected = narrow.view(dtype).astype(np.float32)
    got = oracle.decode_codes(codes, name)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got)[got == 0], np.signbit(expected)[expected == 0])


@pytest.mark.parametrize("name", ML_DTYPES)
def test_codes_are_those_of_ml_dtypes_at_every_magnitude(name: str) -> None:
    dtype, conventions = ML_DTYPES[name]
    rng = np.random.default_rng(7)
    points = np.array(oracle.decision_points(name), np.float32)
    near = np.concatenate([np.nextafter(points, np.float32(s)) for s in (-np.inf, np.inf)])
    wide = rng.standard_normal(4000) * 2.0 ** rng.integers(-140, 127, 4000)
    special = [0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3e38, np.nan]
    x = np.concatenate([points, near, wide.astype(np.float32), np.array(special, np.float32)])
    x = x.astype(np.float32)
    if name == "ue8m0":
        # between 2**-127 and the middle of the way to 2**-126, casts went up until ml_dtypes 0.6,
        # as torch's do; from 0.7 on they go to the nearest
        x = x[~((x > 2.0**-127) & (x < 1.5 * 2.0**-127))]
    width = np.dtype(dtype).itemsize
    with np.errstate(all="ignore"):
        expected = x.astype(dtype).view({1: np.uint8, 2: np.uint16}[width])
    np.testing.assert_array_equal(oracle.encode_values(x, name, **conventions), expected)


@pytest.mark.parametrize("name", [n for n, e in ELEMENTS.items() if isinstance(e, Integer)])
def test_integers_round_half_away_and_clamp(name: str) -> None:
    element = ELEMENTS[name]
    assert isinstance(element, Integer)
    assert value_of(element, 2**element.width - 1) == (-1.0 if element.low < 0 else element.high)
    for k in range(element.low - 2, element.high + 3):
        for x, away in ((k - 0.5, k - 1 if k <= 0 else k), (k + 0.25, k), (float(k), k)):
            code = int(oracle.encode_values([x], name)[0])
            assert value_of(element, code) == min(max(away, element.low), element.high)


# The first outputs of splitmix64, as published with its reference implementation.
SPLITMIX64 = {
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F],
    1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423],
}


@pytest.mark.parametrize("seed", SPLITMIX64)
def test_uniform_numbers_are_the_top_bits_of_splitmix64(seed: int) -> None:
    expected = [(word >> 40) / 2**24 for word in SPLITMIX64[seed]]
    np.testing.assert_array_equal(uniforms(seed, (3,)), np.float32(expected))
    assert uniform(2**64 - 1, 0) == uniform(0x9E3779B97F4A7C15 - 1, -1)


TIES = {
    "half_away": (-3, -2, -1, 1, 2, 3),
    "half_even": (-2, -2, 0, 0, 2, 2),
    "half_up": (-2, -1, 0, 1, 2, 3),
    "half_to_zero": (-2, -1, 0, 0, 1, 2),
}


@pytest.mark.parametrize("rule", TIES)
def test_whole_numbers_are_the_nearest_and_ties_follow_the_rule(rule: str) -> None:
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    np.testing.assert_array_equal(to_whole(halves, rule), TIES[rule])
    for k in range(-4, 5):
        near = np.nextafter(np.float32([k - 0.5, k + 0.5]), np.float32(k))
        np.testing.assert_array_equal(to_whole(near, rule), [k, k])


@given(finite, st.integers(0, 2**24 - 1))
def test_a_stochastic_number_is_one_of_its_neighbours(x: float, k: int) -> None:
    drawn = np.float32(k / 2**24)
    got = float(to_whole(np.float32(x), "stochastic", drawn))
    assert got in (math.floor(x), math.ceil(x))
    exact = Fraction(x) - math.floor(x)
    if abs(exact - Fraction(float(drawn))) > Fraction(1, 2**23):
        assert (got > math.floor(x)) == (float(drawn) < exact)


@pytest.mark.parametrize(
    "case", [*compared_cases("torchao_affine.npz"), *compared_cases("quanto.npz")]
)
def test_the_oracle_reproduces_torchao_and_quanto(case: Case) -> None:
    produced = produced_by(case)
    got = oracle.encode_array(produced.x, produced.spec)
    assert_is_produced(
        produced,
        scales=got.scales.astype(np.float32),
        zeros=None if got.zeros is None else got.zeros.astype(np.float32),
        codes=got.codes,
        values=got.values,
    )


@pytest.mark.parametrize("case", cases_of("torchao_mx.npz", lambda case: "mode" in case.params))
def test_powers_of_two_are_those_of_torchaos_rules(case: Case) -> None:
    x, params = case.input().astype(np.float32), case.params
    spec = oracle.Spec(
        params["elem"],
        block=(params["block"],),
        scale_dtype="ue8m0",
        scale_from=params["mode"],
    )
    got = oracle.encode_array(x, spec, nonfinite="propagate")
    finite = np.isfinite(x.reshape(*x.shape[:-1], -1, params["block"])).all(axis=-1)
    np.testing.assert_array_equal(got.scale_data[finite], case.array("scale")[finite])


@pytest.mark.parametrize(
    "case", cases_of("gguf_py.npz", lambda case: case.params.get("type") == "Q4_0")
)
def test_signed_scales_are_those_of_ggml(case: Case) -> None:
    x, blocks = case.input().astype(np.float32), case.array("blocks")
    stored = np.ascontiguousarray(blocks.reshape(*x.shape[:-1], -1, 18)[..., :2])
    expected = stored.view("<u2")[..., 0]
    spec = oracle.Spec(
        "q4f",
        block=(32,),
        scale_dtype="f16",
        scale_from="signed_max",
        scale_rounding="nearest",
    )
    got = oracle.encode_array(x, spec)
    # ggml lets a scale overflow to infinity, and underflow to zero.
    magnitude = expected & 0x7FFF
    usable = (magnitude != 0) & (magnitude != 0x7C00)
    np.testing.assert_array_equal(got.scale_data[usable], expected[usable])


def burn_spec(case: Case) -> oracle.Spec:
    params = case.params
    block = None if params["block"] == "-" else tuple(map(int, params["block"].split(",")))
    return oracle.Spec(
        value=params["value"].lower(),
        block=block,
        scale_dtype=params["scale_dtype"].lower(),
        two_level=params["two_level"],
    )


def is_burn_array(case: Case) -> bool:
    return "scales" in case.roles


def assert_is_burns(x: Any, spec: oracle.Spec, expected: dict[str, Any]) -> None:
    got = oracle.encode_array(x, spec)
    scales = expected["scales"].reshape(got.scales.shape).astype(np.float64)
    usable = np.isfinite(scales)
    np.testing.assert_array_equal(got.scales[usable], scales[usable])
    seen = usable.ravel()[oracle.cell_numbers(x.shape, spec.block)]
    np.testing.assert_array_equal(got.data[seen], expected["q"][seen])
    assert_same_floats(got.values[seen], expected["deq"][seen])
    if spec.two_level:
        assert got.tensor_scale == np.ravel(expected["global"])[0]


@pytest.mark.parametrize("case", cases_of("burn.npz", is_burn_array))
def test_the_oracle_reproduces_burn(case: Case) -> None:
    x, spec = case.input(), burn_spec(case)
    arrays = {role: case.array(role) for role in case.roles}
    if "global" not in arrays or arrays["global"].size == 1:
        assert_is_burns(x, spec, arrays)
        return
    for row, part in enumerate(x):
        assert_is_burns(part, spec, {role: array[row] for role, array in arrays.items()})


@pytest.mark.parametrize("case", cases_of("burn.npz", lambda case: "rounded" in case.roles))
def test_the_oracle_rounds_scales_up_as_burn_does(case: Case) -> None:
    dtype = case.params["scale_dtype"].lower()
    got = [round_up(float(scale), dtype) for scale in case.input()]
    np.testing.assert_array_equal(np.array(got, np.float32), case.array("rounded"))
