"""quantize and dequantize: arguments, refusals, memory of the caller's, threads."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import arrayq as aq
from arrayq.presets import SPELLINGS

X = np.random.default_rng(3).standard_normal((6, 100)).astype(np.float32)
SCHEMES = ["int8/row", "int4/32", "int2/32", "nf4/64", "mxfp4", "mxfp6-e3m2", "nvfp4", "ternary"]


# "int8/B[:S]" stands for int8/32, int8/row and int8/tensor, and for each with a scale dtype.
CONCRETE = dict.fromkeys(
    pattern.replace("[:S]", scale).replace("B", placement)
    for pattern in SPELLINGS
    for placement in ("32", "2x16", "row", "tensor")
    for scale in ("", ":bf16")
)


@pytest.mark.parametrize("spelling", CONCRETE)
def test_every_documented_spelling_quantizes(spelling: str) -> None:
    q = aq.quantize(X, spelling)
    assert q.shape == X.shape
    assert np.isfinite(q.dequantize()).all()


@pytest.mark.parametrize("spelling", SCHEMES)
def test_calibrating_first_changes_nothing(spelling: str) -> None:
    qparams = aq.calibrate(X, spelling)
    given = aq.quantize(X, spelling, qparams=qparams)
    assert aq.to_bytes(given) == aq.to_bytes(aq.quantize(X, spelling))


def test_qparams_of_one_array_serve_another() -> None:
    q = aq.quantize(X, "int8/row", qparams=aq.quantize(4 * X, "int8/row").qparams)
    assert int(np.abs(q.codes()).max()) < 40


def test_a_codebook_in_qparams_goes_into_the_scheme() -> None:
    scheme = aq.QuantScheme(value="u2", mode="lookup", store="packed_native")
    with pytest.raises(aq.CodebookError):
        aq.quantize(X, scheme)
    qparams = aq.QParams(np.float32(1.0), codebook=(-1.0, -0.25, 0.25, 1.0))
    q = aq.quantize(X, scheme, qparams=qparams)
    assert q.codebook == (-1.0, -0.25, 0.25, 1.0)
    assert set(np.unique(q.dequantize())) <= {-1.0, -0.25, 0.25, 1.0}


@pytest.mark.parametrize(
    ("qparams", "message"),
    [
        (aq.QParams(np.ones((6, 7), np.float32)), "two-level scheme should have a per-tensor"),
        (aq.QParams(np.ones((6, 6), np.float32), 1.0), r"shape \(6, 7\)"),
        (aq.QParams(-np.ones((6, 7), np.float32), 1.0), "negative"),
        (aq.QParams(np.full((6, 7), np.nan, np.float32), 1.0), "NaN"),
        (aq.QParams(np.full((6, 7), 1.01, np.float32), 1.0), "ue4m3 can represent"),
        (aq.QParams(np.full((6, 7), 448, np.float32), 3e38), "float32 can hold"),
    ],
)
def test_qparams_that_do_not_fit_are_refused(qparams: aq.QParams, message: str) -> None:
    with pytest.raises(aq.QParamsError, match=message):
        aq.quantize(X, "nvfp4", qparams=qparams)


def test_a_tensor_scale_for_one_level_is_refused() -> None:
    with pytest.raises(aq.QParamsError, match="one-level"):
        aq.quantize(X, "int8/row", qparams=aq.QParams(np.ones((6, 1), np.float32), 1.0))


@pytest.mark.parametrize("spelling", SCHEMES)
def test_out_is_filled_and_returned(spelling: str) -> None:
    out = aq.quantize(np.ones_like(X), spelling)
    data = out.data
    assert aq.quantize(X, spelling, out=out) is out
    assert out.data is data
    assert aq.to_bytes(out) == aq.to_bytes(aq.quantize(X, spelling))


def test_out_of_another_plan_is_refused() -> None:
    out = aq.quantize(X, "int8/row")
    with pytest.raises(aq.LayoutError, match="out requires a QuantizedArray of shape"):
        aq.quantize(X[:3], "int8/row", out=out)
    with pytest.raises(aq.LayoutError, match="out requires a QuantizedArray of shape"):
        aq.quantize(X, "int8/32", out=out)
    with pytest.raises(aq.LayoutError, match="got ndarray"):
        aq.quantize(X, "int8/32", out=X)  # type: ignore[arg-type]


def test_out_that_cannot_be_written_is_refused() -> None:
    out = aq.quantize(X, "int8/row")
    out.data.flags.writeable = False
    with pytest.raises(aq.LayoutError, match="got data without"):
        aq.quantize(X, "int8/row", out=out)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bfloat16"])
@pytest.mark.parametrize("spelling", SCHEMES)
def test_dequantize_rounds_once_into_the_dtype_asked_for(spelling: str, dtype: str) -> None:
    q = aq.quantize(X, spelling)
    expected = q.dequantize().astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    got = q.dequantize(dtype=dtype)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    strided = np.zeros((6, 200), expected.dtype)[:, ::2]
    assert aq.dequantize(q, out=strided) is strided
    np.testing.assert_array_equal(strided, expected)


@pytest.mark.parametrize("dtype", ["int32", "complex64", ">f4", "nonsense", "float128"])
def test_dequantize_into_other_dtypes_is_refused(dtype: str) -> None:
    with pytest.raises(aq.ArrayTypeError, match="dtype requires one of float32"):
        aq.dequantize(aq.quantize(X, "int8/row"), dtype=dtype)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((6, 99), np.float32), "shape"),
        (np.broadcast_to(np.float32(0), (6, 100)), "read-only"),
        (np.lib.stride_tricks.as_strided(np.zeros(100, np.float32), (6, 100), (0, 4)), "overlap"),
        ([], "got list"),
    ],
)
def test_dequantize_into_unsuitable_memory_is_refused(out: Any, message: str) -> None:
    with pytest.raises(aq.LayoutError, match=message):
        aq.dequantize(aq.quantize(X, "int8/row"), out=out)


def test_dequantize_of_anything_else_is_refused() -> None:
    with pytest.raises(aq.ArrayTypeError, match="q requires a QuantizedArray, got ndarray"):
        aq.dequantize(X)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ">f4"])
def test_fake_quantize_keeps_the_dtype(dtype: Any) -> None:
    x = X.astype(dtype)
    fake = aq.fake_quantize(x, "int4/32")
    assert fake.dtype == x.dtype.newbyteorder("=")
    np.testing.assert_array_equal(fake, aq.dequantize(aq.quantize(x, "int4/32"), dtype=fake.dtype))


@pytest.mark.parametrize("spelling", [*SCHEMES, "q8s/tensor", "e4m3/tensor:f16"])
@pytest.mark.parametrize("shape", [(6, 100), (1, 5000), (5000, 1), (2, 3, 4, 50)])
def test_threads_change_nothing(spelling: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    alone = aq.quantize(x, spelling)
    for threads in (2, 3, 8):
        q = aq.quantize(x, spelling, threads=threads)
        assert aq.to_bytes(q) == aq.to_bytes(alone)
        np.testing.assert_array_equal(q.dequantize(threads=threads), alone.dequantize())
        given = aq.quantize(x, spelling, qparams=alone.qparams, threads=threads)
        assert aq.to_bytes(given) == aq.to_bytes(alone)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two", True])
def test_threads_is_a_positive_integer(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads requires an integer of at least 1"):
        aq.quantize(X, "int8/row", threads=threads)


def test_the_environment_gives_the_default_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARRAYQ_NUM_THREADS", "2")
    assert aq.to_bytes(aq.quantize(X, "int4/32")) == aq.to_bytes(
        aq.quantize(X, "int4/32", threads=1)
    )
    monkeypatch.setenv("ARRAYQ_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="ARRAYQ_NUM_THREADS requires an integer"):
        aq.quantize(X, "int4/32")


def test_a_float64_beyond_float32_counts_as_infinite_and_says_so() -> None:
    x = np.array([1.0, 1e300])
    with pytest.raises(aq.NonFiniteError, match="1 of them finite in float64") as caught:
        aq.quantize(x, "int8/row")
    assert (caught.value.nan, caught.value.inf, caught.value.first_index) == (0, 1, (1,))


@pytest.mark.parametrize("policy", ["ignore", "", 3])
def test_an_unknown_policy_is_refused(policy: Any) -> None:
    with pytest.raises(aq.ArgumentError, match="nonfinite requires one of"):
        aq.quantize(X, "int8/row", nonfinite=policy)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(aq.SchemeError, match="method requires one of minmax, absmean"):
        aq.quantize(X, "int8/row", method="mse")


def test_absmean_is_the_mean_magnitude() -> None:
    q = aq.quantize(X, "int8/row", method="absmean")
    expected = np.abs(X).astype(np.float64).sum(axis=1) / 100
    np.testing.assert_array_equal(q.scale[:, 0], (expected.astype(np.float32) / np.float32(127)))
    np.testing.assert_array_equal(aq.calibrate(X, "int8/row", "absmean").scale, q.scale)


def test_ternary_uses_the_mean_unless_asked_otherwise() -> None:
    assert aq.to_bytes(aq.quantize(X, "ternary")) == aq.to_bytes(
        aq.quantize(X, "ternary", method="absmean")
    )
    assert aq.quantize(X, "ternary", method="minmax").scale.item() == np.abs(X).max()


@pytest.mark.parametrize("spelling", SCHEMES)
def test_propagated_nan_scales_serve_as_given_scales(spelling: str) -> None:
    x = X.copy()
    x[2, 5] = np.nan
    found = aq.calibrate(x, spelling, nonfinite="propagate")
    given = aq.quantize(x, spelling, qparams=found, nonfinite="propagate")
    assert aq.to_bytes(given) == aq.to_bytes(aq.quantize(x, spelling, nonfinite="propagate"))
    with pytest.raises(aq.QParamsError, match="NaN"):
        aq.quantize(X, spelling, qparams=found)


def test_dequantize_into_the_memory_of_its_own_codes_is_refused() -> None:
    memory = np.zeros(256, np.uint8)
    q = aq.QuantizedArray(memory[:64].view(np.int8), np.ones(1, np.float32), "int8/tensor")
    with pytest.raises(aq.LayoutError, match="got memory that q lies in"):
        aq.dequantize(q, out=memory.view(np.float32))


def test_dequantize_into_elements_that_overlap_is_refused() -> None:
    q = aq.quantize(X[:4, :8], "int8/tensor")
    for strides in ((4, 4), (8, 4), (0, 4), (-4, 4)):
        out = np.lib.stride_tricks.as_strided(np.zeros(100, np.float32)[40:], (4, 8), strides)
        with pytest.raises(aq.LayoutError, match="do not overlap"):
            aq.dequantize(q, out=out)
    reversed_columns = np.zeros((8, 4), np.float32).T[::-1]
    np.testing.assert_array_equal(aq.dequantize(q, out=reversed_columns), q.dequantize())


def test_quantize_into_the_memory_of_its_input_is_refused() -> None:
    memory = np.zeros(4 * 64, np.uint8)
    x = memory.view(np.float32)
    out = aq.QuantizedArray(memory[192:].view(np.int8), np.ones(1, np.float32), "int8/tensor")
    with pytest.raises(aq.LayoutError, match="memory of its own"):
        aq.quantize(x, "int8/tensor", out=out)


def test_given_scales_are_checked_beyond_the_first_part() -> None:
    scale = np.ones((40_000, 1), np.float32)
    scale[39_000] = -1
    with pytest.raises(aq.QParamsError, match=r"-1.0 at index \(39000, 0\)"):
        aq.quantize(np.ones((40_000, 2), np.float32), "int8/row", qparams=aq.QParams(scale))


@pytest.mark.parametrize("policy", [[], {}, 1.5])
def test_policies_of_any_type_are_refused_alike(policy: Any) -> None:
    with pytest.raises(aq.ArgumentError, match="nonfinite requires one of"):
        aq.quantize(X, "int8/row", nonfinite=policy)
    with pytest.raises(aq.ArgumentError, match="nonfinite requires raise or propagate"):
        aq.from_bytes(b"\0" * 8, "int8/tensor", 4, nonfinite=policy)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: aq.supports("numpy", "nvfp4", []), aq.UnsupportedSchemeError, "an operation"),
        (lambda: aq.capabilities([]), aq.ArrayTypeError, "name of an array library"),
        (lambda: aq.encode(X, "e4m3", nan="x"), aq.CodeError, "nan requires a code"),
        (lambda: aq.encode(X, "e4m3", overflow="x"), aq.ArgumentError, "overflow requires"),
        (
            lambda: aq.unpack(np.zeros(1, "u4"), "q4s", "packed_u32", "x"),
            aq.LayoutError,
            "extent requires an integer",
        ),
        (lambda: aq.QuantStore("x"), aq.SchemeError, "StoreKind"),
        (lambda: aq.Numerics.from_dict(3), aq.SchemeError, "dictionary of rules"),
        (
            lambda: aq.QuantizedArray(
                np.zeros(2, "i1"), np.ones(1, "f4"), "int8/tensor", extent="x"
            ),
            aq.LayoutError,
            "extent requires an integer",
        ),
        (
            lambda: aq.QuantizedArray(
                np.zeros(2, "i1"), np.ones(1, "f4"), "int8/tensor", block_offset=("x",)
            ),
            aq.LayoutError,
            "block_offset requires an integer",
        ),
    ],
)
def test_arguments_of_the_wrong_type_are_named(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
