"""Reports from practice (CASES 7): which power of two scales a block, by the name of its rule."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import arrayq as aq

RULES = ["floor", "ceil", "rceil", "even", "nearest_log2"]


def block_of(amax: float) -> npt.NDArray[np.float32]:
    """Return 32 values, the largest of them a given one."""
    x = np.linspace(-0.5, 0.5, 32, dtype=np.float32) * np.float32(amax)
    x[17] = amax
    return x


@pytest.mark.parametrize(
    ("spelling", "amax", "rule", "scale", "decoded"),
    [
        ("mxfp8", 630, "floor", 2.0, 640),
        ("mxfp8", 630, "rceil", 2.0, 640),
        ("mxfp8", 630, "even", 2.0, 640),
        ("mxfp8", 630, "ceil", 4.0, 640),
        ("mxfp8", 630, "nearest_log2", 1.0, 448),
        ("mxfp8", 500, "floor", 1.0, 448),
        ("mxfp8", 500, "rceil", 2.0, 512),
        ("mxfp8", 500, "even", 2.0, 512),
        ("mxfp8", 500, "ceil", 2.0, 512),
        ("mxfp8", 500, "nearest_log2", 1.0, 448),
        ("mxfp4", 7.9, "floor", 1.0, 6),
        ("mxfp4", 7.9, "rceil", 2.0, 8),
        ("mxfp4", 7.9, "even", 2.0, 8),
        ("mxfp4", 7.9, "ceil", 2.0, 8),
        ("mxfp4", 7.9, "nearest_log2", 1.0, 6),
        ("mxfp4", 5, "floor", 1.0, 4),
        ("mxfp4", 5, "rceil", 1.0, 4),
        ("mxfp4", 5, "even", 1.0, 4),
        ("mxfp4", 5, "ceil", 2.0, 4),
        ("mxfp4", 5, "nearest_log2", 1.0, 4),
    ],
)
def test_case_07_the_rule_by_name_decides_what_saturates(
    spelling: str, amax: float, rule: str, scale: float, decoded: float
) -> None:
    q = aq.quantize(block_of(amax), aq.scheme(spelling).with_numerics(scale_from=rule))
    assert q.scale[0] == scale
    assert q.scale_data[0] == 127 + int(np.log2(scale))
    assert aq.dequantize(q)[17] == decoded


def test_case_07_the_default_of_the_mx_formats_is_the_specifications_floor() -> None:
    for spelling in ("mxfp4", "mxfp8", "mxfp8-e5m2", "mxfp6-e3m2", "mxfp6-e2m3"):
        scheme = aq.scheme(spelling)
        for amax in (630, 500, 7.9, 5):
            expected = aq.quantize(block_of(amax), scheme.with_numerics(scale_from="floor"))
            assert aq.to_bytes(aq.quantize(block_of(amax), scheme)) == aq.to_bytes(expected)


@pytest.mark.parametrize("spelling", ["mxfp4", "mxfp8", "mxfp8-e5m2", "mxfp6-e3m2", "mxfp6-e2m3"])
def test_case_07_a_ceiling_of_the_ratio_never_saturates(spelling: str) -> None:
    rng = np.random.default_rng(7)
    x = (rng.standard_normal((200, 32)) * 2.0 ** rng.uniform(-20, 20, (200, 1))).astype(np.float32)
    scheme = aq.scheme(spelling).with_numerics(scale_from="rceil")
    q = aq.quantize(x, scheme)
    largest = np.float32(scheme.value.range[1])
    assert (np.abs(x).max(axis=1, keepdims=True) / q.scale <= largest).all()
    # One step less would leave the range: the scale is the smallest that does not.
    assert (np.abs(x).max(axis=1, keepdims=True) / (q.scale / 2) > largest).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("spelling", ["mxfp4", "mxfp8", "mxfp6-e3m2"])
def test_case_07_blocks_of_zeros_and_of_the_smallest_numbers_store_byte_0(
    spelling: str, rule: str
) -> None:
    x = np.zeros((3, 32), np.float32)
    x[1, 5], x[2, 6] = 2.0**-149, -(2.0**-127)
    q = aq.quantize(x, aq.scheme(spelling).with_numerics(scale_from=rule))
    np.testing.assert_array_equal(q.scale_data.ravel(), [0, 0, 0])
    values = aq.dequantize(q)
    assert (values[0] == 0).all()
    assert values[2, 6] == -(2.0**-127)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("spelling", ["mxfp4", "mxfp8", "mxfp6-e2m3"])
def test_case_07_the_largest_numbers_have_a_finite_scale(spelling: str, rule: str) -> None:
    x = np.full(32, 3.4028235e38, np.float32)
    q = aq.quantize(x, aq.scheme(spelling).with_numerics(scale_from=rule))
    assert q.scale_data[0] <= 254
    assert np.isfinite(q.scale[0])
    assert not np.isnan(aq.dequantize(q)).any()
