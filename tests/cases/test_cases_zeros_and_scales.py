"""Reports from practice (CASES 1, 2, 4, 5, 6): blocks of zeros, and scales that underflow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import nullcontext

import numpy as np
import oracle
import pytest

import arrayq as aq
from arrayq.formats import SCALE_FORMATS, VALUE_FORMATS, Kind, format_of

SYMMETRIC = [name for name in VALUE_FORMATS if format_of(name).kind is not Kind.FIELD]
LOOKED_UP = [name for name in VALUE_FORMATS if format_of(name).kind is not Kind.MINIFLOAT]
LEVELS = ["tensor", "channel", "block", "ragged_block", "two_level"]


def at_level(scheme: aq.QuantScheme, level: str, dtype: str) -> aq.QuantScheme:
    """Return the scheme with its scales at a level; skip what is no scheme."""
    if level == "tensor":
        return scheme.per_tensor(dtype)
    if level == "channel":
        return scheme.per_channel(0, dtype)
    if level == "two_level":
        if dtype not in ("f16", "ue4m3"):
            pytest.skip(f"a two-level scheme has no {dtype} blocks")
        return scheme.per_block([4], dtype).per_tensor("f32")
    return scheme.per_block([4] if level == "block" else [2, 3], dtype)


def ramp(bits: int) -> list[float]:
    """Return a codebook with an exact zero in the middle."""
    half = 2 ** (bits - 1)
    return [(k - half) / half for k in range(2**bits)]


def schemes() -> list[object]:
    base = aq.QuantScheme().with_store("native")
    found = [pytest.param(base.with_value(name), id=f"{name}-symmetric") for name in SYMMETRIC]
    for name in LOOKED_UP:
        table = ramp(format_of(name).bits)
        scheme = aq.QuantScheme(value=name, store="native", mode="lookup", codebook=table)
        found.append(pytest.param(scheme, id=f"{name}-lookup"))
    return found


def code_of_zero(scheme: aq.QuantScheme) -> int:
    return scheme.code_table().index(0.0)


def stored_zero(dtype: str) -> float:
    """A zero block stores scale 0; UE8M0, which has none, stores byte 0."""
    return 2.0**-127 if dtype == "ue8m0" else 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", SCALE_FORMATS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scheme", schemes())
def test_case_01_zeros_encode_to_zero_codes_and_exact_zeros(
    scheme: aq.QuantScheme, level: str, dtype: str
) -> None:
    scheme = at_level(scheme, level, dtype)
    q = aq.quantize(np.zeros((2, 4), np.float32), scheme)
    assert (q.codes() == code_of_zero(scheme)).all()
    assert (q.scale == stored_zero(dtype)).all()
    assert (aq.dequantize(q) == 0).all()
    if scheme.two_level:
        assert q.tensor_scale == 2.0**-126


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", SCALE_FORMATS)
@pytest.mark.parametrize("level", [level for level in LEVELS if level != "tensor"])
@pytest.mark.parametrize("scheme", schemes())
def test_case_01_a_row_of_zeros_leaves_its_neighbours_alone(
    scheme: aq.QuantScheme, level: str, dtype: str
) -> None:
    scheme = at_level(scheme, level, dtype)
    x = np.random.default_rng(0).standard_normal((6, 9)).astype(np.float32)
    x[2:4] = 0.0
    q = aq.quantize(x, scheme)
    values = aq.dequantize(q)
    assert (values[2:4] == 0).all()
    assert np.isfinite(values).all()
    assert np.isfinite(q.scale).all()
    assert values[[0, 1, 4, 5]].any()


@pytest.mark.parametrize("name", SYMMETRIC)
def test_case_01_zeros_keep_their_sign_where_the_format_has_one(name: str) -> None:
    x = np.array([0.0, -0.0, 0.0, -0.0], np.float32)
    q = aq.quantize(x, aq.QuantScheme().with_value(name).with_store("native").per_block([4]))
    signs = np.signbit(aq.dequantize(q))
    has_negative_zero = format_of(name).kind is Kind.MINIFLOAT
    np.testing.assert_array_equal(signs, [False, has_negative_zero] * 2)


def test_case_01_the_floor_rule_stores_byte_0_for_zeros_whatever_the_table() -> None:
    table = [-0.003, 0.0, 0.001, 0.002]
    scheme = aq.QuantScheme(value="u2", store="native", mode="lookup", codebook=table)
    scheme = scheme.per_block([2], "ue8m0").with_numerics(scale_from="floor")
    q = aq.quantize(np.float32([0, 0, 3e38, -3e38]), scheme)
    np.testing.assert_array_equal(q.scale_data, [0, 254])


@pytest.mark.parametrize("spelling", ["nvfp4", "mxfp4", "mxfp8", "nf4/64", "ternary", "int4/row"])
def test_case_01_every_preset_gives_zeros_back(spelling: str) -> None:
    q = aq.quantize(np.zeros((3, 70), np.float32), spelling)
    assert (aq.dequantize(q) == 0).all()
    if spelling == "nvfp4":
        assert q.tensor_scale == 0


def test_case_01_a_codebook_without_zero_takes_its_nearest_entry() -> None:
    table = [-0.9, -0.25, 0.5, 1.0]
    scheme = aq.QuantScheme(value="u2", store="native", mode="lookup", codebook=table)
    q = aq.quantize(np.zeros((2, 4), np.float32), scheme.per_block([4]))
    assert (q.codes() == 1).all()
    assert (aq.dequantize(q) == 0).all()
    mixed = aq.quantize(np.float32([0.0, 2.0]), scheme.per_block([2]))
    np.testing.assert_array_equal(mixed.codes(), [1, 3])
    np.testing.assert_array_equal(aq.dequantize(mixed), np.float32([-0.5, 2.0]))


def test_case_02_a_zero_block_never_writes_a_nan_scale() -> None:
    x = np.concatenate([np.zeros(16), np.full(16, 0.006)]).astype(np.float32)
    q = aq.quantize(x, "nvfp4")
    assert q.tensor_scale == np.float32(0.006) / np.float32(6 * 448)
    np.testing.assert_array_equal(q.scale_data, [0x00, 0x7E])
    assert not {0x7F, 0xFF} & set(q.scale_data.tolist())
    values = aq.dequantize(q)
    np.testing.assert_array_equal(values[:16], np.zeros(16))
    np.testing.assert_array_max_ulp(values[16:], x[16:], maxulp=1)


def dynamic_table() -> list[float]:
    """Return 256 entries, dense near zero like an 8-bit dynamic map."""
    magnitudes = np.geomspace(1e-6, 1.0, 127)
    return np.concatenate([-magnitudes[::-1], [0.0], magnitudes, [1.5]]).tolist()


@pytest.fixture
def _lasting_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the threads of one call for the next: starting them takes longer than the kernels."""
    with futures.ThreadPoolExecutor(8) as pool:
        monkeypatch.setattr(futures, "ThreadPoolExecutor", lambda _: nullcontext(pool))
        yield


@pytest.mark.usefixtures("_lasting_threads")
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_case_04_a_block_of_zeros_survives_ten_thousand_repeats(threads: int) -> None:
    x = np.random.default_rng(0).random(10000).astype(np.float32)
    x[:256] = 0.0
    table = dynamic_table()
    scheme = aq.QuantScheme(value="u8", store="native", mode="lookup", codebook=table)
    scheme = scheme.per_block([256])
    first = aq.quantize(x, scheme)
    assert (first.codes()[:256] == table.index(0.0)).all()
    assert (aq.dequantize(first)[:256] == 0).all()
    again = first.copy()
    for repeat in range(10000):
        aq.quantize(x, scheme, threads=threads, out=again)
        if repeat % 500 == 0:
            np.testing.assert_array_equal(again.data, first.data)
    np.testing.assert_array_equal(again.data, first.data)
    np.testing.assert_array_equal(again.scale_data, first.scale_data)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_case_04_nan_never_leaves_the_table(bits: int, threads: int) -> None:
    x = np.random.default_rng(1).random(1000).astype(np.float32)
    x[::7] = np.nan
    table = ramp(bits)
    scheme = aq.QuantScheme(value=f"u{bits}", store="native", mode="lookup", codebook=table)
    q = aq.quantize(x, scheme.per_block([16]), nonfinite="propagate", threads=threads)
    assert (q.codes() == table.index(0.0)).all()
    assert np.isnan(aq.dequantize(q)).all()


def test_case_05_float16_input_is_divided_in_float32() -> None:
    x = np.array([[0, 0, 0.1, 0.1]], np.float16)
    q = aq.quantize(x, "e5m2/row")
    assert q.scale[0, 0] == np.float32(1.7434359e-06)
    np.testing.assert_array_equal(aq.decode(q.codes(), "e5m2"), [[0, 0, 57344, 57344]])
    np.testing.assert_array_equal(aq.dequantize(q), x.astype(np.float32))


def test_case_06_a_scale_that_underflows_is_rounded_up_and_obeyed() -> None:
    x = np.zeros(32, np.float32)
    x[0] = 1e-7
    q = aq.quantize(x, "q4s/32")
    assert q.scale[0] == 2.0**-24
    assert q.codes()[0] == 2
    assert aq.dequantize(q)[0] == np.float32(2.0**-23)


@pytest.mark.parametrize("rounding", ["up", "nearest"])
@pytest.mark.parametrize("dtype", SCALE_FORMATS)
@pytest.mark.parametrize("name", VALUE_FORMATS)
def test_case_06_codes_are_made_against_the_scale_as_stored(
    name: str, dtype: str, rounding: str
) -> None:
    scheme = aq.QuantScheme().with_store("native")
    if format_of(name).kind is Kind.FIELD:
        table = tuple(np.float32(ramp(format_of(name).bits)).tolist())
        scheme = aq.QuantScheme(value=name, store="native", mode="lookup", codebook=table)
    else:
        table, scheme = None, scheme.with_value(name)
    scheme = scheme.per_block([8], dtype).with_numerics(scale_rounding=rounding)
    rng = np.random.default_rng(3)
    magnitudes = 2.0 ** np.arange(-149, 100, 3.0)
    x = (rng.uniform(0.5, 1.0, (magnitudes.size, 8)) * magnitudes[:, None]).astype(np.float32)
    q = aq.quantize(x, scheme)
    assert np.isfinite(q.scale).all()
    assert (q.scale[x.any(axis=1)] > 0).all()
    spec = oracle.Spec(value=name, table=table, block=(8,), scale_dtype=dtype)
    given = oracle.encode_array(x, spec, scales=q.scale.astype(np.float64))
    np.testing.assert_array_equal(q.data, given.data)
    np.testing.assert_array_equal(aq.dequantize(q), given.values)
