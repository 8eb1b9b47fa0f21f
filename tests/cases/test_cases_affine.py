"""Reports from practice, affine schemes (CASES 1, 10, 13), and ranges that are hardly ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import arrayq as aq
from arrayq.formats import VALUE_FORMATS, Kind, format_of

Zero = tuple[str, str | None, str]
"""The kind of a zero point, its dtype, and the rule that its scale comes from."""

WHOLE = [name for name in VALUE_FORMATS if format_of(name).kind is not Kind.MINIFLOAT]
SCALES = ["f32", "f16", "bf16", "ue4m3"]
ZEROS = [
    ("code", None, "range"),
    ("code", "i32", "range"),
    ("bias", "f32", "range"),
    ("bias", "f16", "range"),
    ("bias", "bf16", "range"),
    ("code", "f32", "inverse_range"),
    ("code", "f16", "inverse_range"),
]
LEVELS = ["tensor", "channel", "block", "ragged_block"]


def affine(name: str, zero: Zero, **rules: Any) -> aq.QuantScheme:
    kind, dtype, source = zero
    scheme = aq.QuantScheme().with_value(name).with_store("native").with_mode("affine")
    if source == "inverse_range":
        numerics = aq.Numerics(scale_from=source, **rules)
        point = aq.ZeroPoint(kind, dtype or "f32")
        return aq.QuantScheme(name, "native", "affine", numerics=numerics, zero=point)
    return scheme.with_zero(kind, dtype).with_numerics(**rules)


def at_level(scheme: aq.QuantScheme, level: str, dtype: str) -> aq.QuantScheme:
    if level == "tensor":
        return scheme.per_tensor(dtype)
    if level == "channel":
        return scheme.per_channel(0, dtype)
    return scheme.per_block([4] if level == "block" else [2, 3], dtype)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("in_range", [True, False])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("zero", ZEROS, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_case_01_zeros_are_exact_zeros_under_every_affine_scheme(
    name: str, zero: Zero, level: str, in_range: bool
) -> None:
    for scale in SCALES:
        scheme = at_level(affine(name, zero, zero_in_range=in_range), level, scale)
        q = aq.quantize(np.zeros((2, 4), np.float32), scheme)
        # HQQ scales a range without a width by 1.
        assert (q.scale == (1 if zero[2] == "inverse_range" else 0)).all()
        assert (q.codes() == format_of(name).qmin).all()
        values = aq.dequantize(q)
        np.testing.assert_array_equal(values, np.zeros((2, 4), np.float32))
        assert not np.signbit(values).any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("zero", ZEROS, ids=str)
@pytest.mark.parametrize("name", ["q8s", "q4f", "u1", "u4", "u8"])
def test_case_01_a_row_of_zeros_leaves_affine_neighbours_alone(
    name: str, zero: Zero, level: str, scale: str
) -> None:
    scheme = at_level(affine(name, zero), level, scale)
    x = np.random.default_rng(0).standard_normal((6, 9)).astype(np.float32)
    x[2:4] = 0.0
    q = aq.quantize(x, scheme)
    values = aq.dequantize(q)
    assert (values[2:4] == 0).all()
    assert np.isfinite(values).all()
    assert np.isfinite(q.scale).all()
    apart = aq.quantize(x[[0, 1, 4, 5]], scheme)
    np.testing.assert_array_equal(values[[0, 1, 4, 5]], aq.dequantize(apart))


@pytest.mark.parametrize("sign", [0.0, -0.0])
@pytest.mark.parametrize("zero", ZEROS, ids=str)
def test_case_01_a_zero_point_of_zeros_has_no_sign(zero: Zero, sign: float) -> None:
    x = np.full((2, 4), sign, np.float32)
    q = aq.quantize(x, affine("u4", zero).per_block([4]))
    assert q.zero_point is not None
    assert not q.zero_point.view(np.uint8).any()
    positive = aq.quantize(np.float32([[0.0, 1.0], [1.0, -0.0]]), affine("u4", zero).per_block([2]))
    assert positive.zero_point is not None
    assert not positive.zero_point.view(np.uint8).any()


@pytest.mark.parametrize("zero", ZEROS[:5], ids=str)
@pytest.mark.parametrize(("rule", "scale"), [("zero", 0.0), ("one", 1.0), ("smallest", 2.0**-7)])
def test_case_01_what_a_block_of_zeros_stores_is_a_rule_and_changes_no_value(
    rule: str, scale: float, zero: Zero
) -> None:
    rules = {"zero_block": rule, "smallest_scale": 2.0**-7 if rule == "smallest" else 0.0}
    for name in ("q4f", "u4"):
        q = aq.quantize(np.zeros((2, 8), np.float32), affine(name, zero, **rules).per_block([4]))
        assert (q.scale == scale).all()
        assert (aq.dequantize(q) == 0).all()


ROWS = np.array([[1, 20, -3], [4, 5, -60]], np.float32)


@pytest.mark.parametrize(("name", "right"), [("q8f", [-128, 42, 127]), ("u8", [0, 170, 255])])
def test_case_10_affine_codes_saturate_where_calibration_ended(name: str, right: list[int]) -> None:
    scheme = affine(name, ("bias", "f32", "range"), zero_in_range=False).per_channel(1)
    found = aq.calibrate(ROWS, scheme)
    np.testing.assert_array_equal(found.scale, np.float32([[3, 15, 57]]) / np.float32(255))
    q = aq.quantize(np.array([[-1, 15, 1]], np.float32), scheme, qparams=found)
    np.testing.assert_array_equal(q.codes(), [right])
    decoded = aq.dequantize(q)
    np.testing.assert_allclose(decoded, [[1, 15, -3]], rtol=0, atol=57 / 255 / 2)


@pytest.mark.parametrize("zero", ZEROS, ids=str)
@pytest.mark.parametrize("name", ["q8f", "q8s", "q4s", "q2f", "u1", "u3", "u8"])
def test_case_10_numbers_beyond_an_affine_range_take_its_ends(name: str, zero: Zero) -> None:
    scheme = affine(name, zero)
    row = format_of(name)
    found = aq.calibrate(np.linspace(-2, 1, 64, dtype=np.float32), scheme)
    x = np.array([-1e9, -3e38, 1e9, 3e38, 3.4028235e38], np.float32)
    q = aq.quantize(x, scheme, qparams=found)
    np.testing.assert_array_equal(q.codes(), [row.qmin, row.qmin, row.qmax, row.qmax, row.qmax])


def test_case_10_affine_ranges_saturate_nothing_that_calibration_saw() -> None:
    x = np.random.default_rng(10).standard_normal((16, 64)).astype(np.float32)
    (row,) = aq.compare(x, ["int8a/32:f32"]).rows
    assert row.saturated == 0


@pytest.mark.parametrize("store", ["native", "packed_native", "packed_u32"])
@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ((4, 100), (64,)),
        ((5, 7), (2, 4)),
        ((1,), (64,)),
        ((7,), (1000,)),
        ((1, 1, 1), (3, 3, 3)),
        ((3, 5, 7), (2, 2, 2)),
        ((2, 33), (-1, 32)),
    ],
)
@pytest.mark.parametrize("name", ["q8f", "q4s", "q2f", "u1", "u3", "u4", "u8"])
def test_case_13_affine_ends_of_a_short_block_are_those_of_its_own_elements(
    name: str, shape: tuple[int, ...], block: tuple[int, ...], store: str
) -> None:
    x = np.random.default_rng(13).uniform(5, 6, shape).astype(np.float32)
    scheme = affine(name, ("bias", "f32", "range"), zero_in_range=False)
    q = aq.quantize(x, scheme.with_store(store).per_block(block))
    assert q.shape == shape
    assert q.zero is not None
    row = format_of(name)
    steps = np.float32(row.qmax - row.qmin)
    full = (1,) * (len(shape) - len(block)) + block
    sizes = [n if size == -1 else size for n, size in zip(shape, full, strict=True)]
    values = aq.dequantize(q)
    for cell in np.ndindex(q.scale.shape):
        inside = tuple(slice(c * s, (c + 1) * s) for c, s in zip(cell, sizes, strict=True))
        part = x[inside]
        scale = (part.max() - part.min()) / steps
        assert q.scale[cell] == scale
        assert q.zero[cell] == part.min() - np.float32(row.qmin) * scale
        assert np.abs(values[inside] - part).max() <= scale / 2 + 1e-6


@pytest.mark.parametrize("name", ["q8s", "q4f", "u2", "u4", "u8"])
def test_case_13_the_minimum_of_5_and_6_is_5(name: str) -> None:
    x = np.array([5, 6, 5, 6, 5, 6], np.float32)
    row = format_of(name)
    biased = affine(name, ("bias", "f32", "range"), zero_in_range=False).per_block([4])
    q = aq.quantize(x, biased)
    np.testing.assert_array_equal(q.codes(), np.where(x == 5, row.qmin, row.qmax))
    np.testing.assert_allclose(aq.dequantize(q), x, rtol=0, atol=1e-6)
    widened = aq.quantize(x, affine(name, ("code", None, "range")).per_block([4]))
    np.testing.assert_array_equal(
        widened.scale, np.full((2,), np.float32(6 / (row.qmax - row.qmin)))
    )
    assert (widened.zero == row.qmin).all()


def test_case_13_unused_fields_of_affine_words_are_zero() -> None:
    x = np.array([[5, 7, 8, 8, 8]] * 3, np.float32)
    scheme = affine("u4", ("bias", "f32", "range"), zero_in_range=False).per_block([5])
    q = aq.quantize(x, scheme.with_store("packed_native"))
    np.testing.assert_array_equal(q.data, [[0xA0, 0xFF, 0x0F]] * 3)
    np.testing.assert_array_equal(q.codes(), [[0, 10, 15, 15, 15]] * 3)


# The scales of numbers below 2**-118 lose digits of their own.
CONSTANTS = [1.0, 0.1, -0.7, 3.0, -448.0, 6.1e-5, -1e-20, 2.0**-118, 2.0**-149, 60000.0, 1e30]


def step_at(c: float, q: aq.QuantizedArray) -> float:
    """Return one step of what is stored: of the codes, or of the dtype of a bias."""
    zero = q.scheme.zero
    assert zero is not None
    spacing = {
        "f16": max(abs(c) * 2.0**-11, 2.0**-25),
        "bf16": max(abs(c) * 2.0**-8, 2.0**-134),
    }
    of_zero = spacing.get(str(zero.dtype), 0.0)
    return max(float(q.scale.max()), of_zero, abs(c) * 2.0**-23)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("in_range", [True, False])
@pytest.mark.parametrize("scale", ["f32", "bf16"])
@pytest.mark.parametrize("zero", ZEROS, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_constant_blocks_and_single_elements_come_back_to_one_code_step(
    name: str, zero: Zero, scale: str, in_range: bool
) -> None:
    scheme = affine(name, zero, zero_in_range=in_range)
    for c in CONSTANTS:
        if abs(c) > 65504 and zero[1] == "f16":
            continue
        x = np.full((2, 6), c, np.float32)
        for placed in (scheme.per_block([4], scale), scheme.per_tensor(scale)):
            q = aq.quantize(x, placed)
            assert np.isfinite(q.scale).all()
            assert np.abs(aq.dequantize(q).astype(np.float64) - x).max() <= step_at(c, q), c
        single = aq.quantize(x[:1, :1], scheme.per_block([1], scale))
        error = np.abs(aq.dequantize(single).astype(np.float64) - x[:1, :1]).max()
        assert error <= step_at(c, single), c


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["q8f", "q4s", "u1", "u4", "u8"])
def test_a_constant_is_its_own_bias(name: str) -> None:
    scheme = affine(name, ("bias", "f32", "range"), zero_in_range=False).per_block([4])
    x = np.repeat(np.float32(CONSTANTS), 4).reshape(-1, 4)
    q = aq.quantize(x, scheme)
    assert (q.scale == 0).all()
    assert (q.codes() == format_of(name).qmin).all()
    np.testing.assert_array_equal(aq.dequantize(q), x)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("in_range", [True, False])
@pytest.mark.parametrize("zero", ZEROS, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_ranges_near_the_largest_float32_give_no_nan(name: str, zero: Zero, in_range: bool) -> None:
    largest = np.float32(3.4028235e38)
    ends = [(-largest, largest), (largest, largest), (-largest, -largest), (largest / 2, largest)]
    scheme = affine(name, zero, zero_in_range=in_range).per_block([4])
    for low, high in ends:
        x = np.array([low, high, low, 0.5 * low], np.float32)
        q = aq.quantize(x, scheme)
        assert q.zero is not None
        assert np.isfinite(q.scale).all()
        assert np.isfinite(q.zero).all()
        assert not np.isnan(aq.dequantize(q)).any()
        given = aq.quantize(x, scheme, qparams=aq.calibrate(x, scheme))
        assert aq.to_bytes(given) == aq.to_bytes(q)


POLICIES = [(name, zero) for name in ("q8f", "q4s", "u4", "u8") for zero in ZEROS]


@pytest.mark.parametrize(("name", "zero"), POLICIES, ids=str)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_case_09_propagate_spoils_an_affine_block_and_no_other(
    name: str, zero: Zero, special: float
) -> None:
    x = np.linspace(-1, 3, 32, dtype=np.float32)
    clean = aq.quantize(x, affine(name, zero).per_block([16]))
    x[3] = special
    q = aq.quantize(x, affine(name, zero).per_block([16]), nonfinite="propagate")
    assert q.zero is not None
    assert clean.zero is not None
    assert np.isnan(q.scale[0])
    assert q.zero[0] == 0
    assert (q.codes()[:16] == 0).all()
    values = aq.dequantize(q)
    assert np.isnan(values[:16]).all()
    np.testing.assert_array_equal(values[16:], aq.dequantize(clean)[16:])
    assert q.zero[1] == clean.zero[1]


@pytest.mark.parametrize(("name", "zero"), POLICIES, ids=str)
def test_case_09_saturate_makes_infinities_the_ends_of_an_affine_range(
    name: str, zero: Zero
) -> None:
    x = np.array([np.inf, -np.inf, 1.0, -0.5, 0.25, 0.0], np.float32)
    scheme = affine(name, zero).per_block([6])
    q = aq.quantize(x, scheme, nonfinite="saturate")
    row = format_of(name)
    np.testing.assert_array_equal(q.codes()[:2], [row.qmax, row.qmin])
    finite = aq.quantize(x[2:], scheme.per_block([4]))
    np.testing.assert_array_equal(q.scale, finite.scale)
    np.testing.assert_array_equal(q.codes()[2:], finite.codes())


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", ["q8f", "q8s", "q4f", "q4s", "q2f", "q2s", "u4", "u8"])
@pytest.mark.parametrize("rules", [{"smallest_scale": 1e-5, "zero_block": "smallest"},
                                   {"zero_block": "one"}])  # fmt: skip
def test_case_01_zeros_with_a_bias_decode_to_zero_under_any_scale(
    rules: dict[str, Any], name: str, dtype: str
) -> None:
    scheme = affine(name, ("bias", dtype, "range"), **rules).per_block([4])
    q = aq.quantize(np.zeros(8, np.float32), scheme)
    assert q.scale.all()
    np.testing.assert_array_equal(aq.dequantize(q), 0)


@pytest.mark.parametrize(
    "block",
    [[5, 5.000001, 5, 5.0000005], [3e5, 3e5 + 1, 3e5 + 0.5, 3e5], [1e6, 1e6 + 1, 1e6, 1e6],
     [-7e8, -7e8 + 64, -7e8, -7e8], [5, 5.1, 5.05, 5.02], [1000, 1001, 1002, 1003]],
)  # fmt: skip
@pytest.mark.parametrize("name", ["q8f", "q4s", "u4", "u8"])
def test_a_narrow_range_far_from_zero_comes_back_within_one_code_step(
    name: str, block: list[float]
) -> None:
    scheme = affine(name, ("code", "i32", "range"), zero_in_range=False).per_block([4])
    x = np.float32(block)
    q = aq.quantize(x, scheme)
    steps = np.abs(aq.dequantize(q).astype(np.float64) - x) / q.scale.astype(np.float64)
    assert steps.max() <= 1
