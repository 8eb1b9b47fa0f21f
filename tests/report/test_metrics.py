"""Figures equal those of a plain float64 computation on the whole array."""

import json
import math

import numpy as np
import pytest

import arrayq as aq
from arrayq.report import Metrics, measure
from arrayq.report.parts import split

SCHEMES = [
    *map(aq.scheme, ["int8/row", "int4/32", "q2f/tensor", "nf4/64", "mxfp4", "mxfp6-e3m2",
                     "nvfp4", "ternary", "e4m3/tensor", "e5m2/7", "q4f/3x5"]),
    aq.QuantScheme(),
    aq.QuantScheme().with_value("q4f").with_store("packed_u32(1)").per_block([3, -1], "ue4m3"),
    aq.QuantScheme().with_value("e2m1").with_store("packed_native(1)").per_block([5, 2], "ue8m0"),
    aq.QuantScheme("u3", "packed_u32", "lookup", codebook=np.linspace(-1, 1.5, 8)).per_tensor(),
]  # fmt: skip
SHAPES = [(7, 70), (1, 33), (40, 1), (100,), (1, 1, 90), (3, 4, 50), (6, 1, 5, 11), ()]


def fits(scheme: aq.QuantScheme, shape: tuple[int, ...]) -> bool:
    try:
        aq.quantize(np.zeros(shape), scheme)
    except aq.LayoutError:
        return False
    return True


CASES = [(scheme, shape) for scheme in SCHEMES for shape in SHAPES if fits(scheme, shape)]


def plain_figures(x: np.ndarray, q: aq.QuantizedArray) -> dict[str, float]:
    """Return the figures in the most direct way, block by block."""
    y = q.dequantize().astype(np.float64)
    scale = q.scale * (np.float32(1) if q.tensor_scale is None else q.tensor_scale)
    blocks = zip(q.scheme.block_extents(x.ndim), x.shape, strict=True)
    extents = [length if extent == -1 else extent for extent, length in blocks]
    saturated = zero_blocks = 0
    for cell in np.ndindex(q.grid):
        block = x[tuple(slice(i * e, (i + 1) * e) for i, e in zip(cell, extents, strict=True))]
        zero_blocks += not block.any()
        if scale[cell] != 0:
            ratio = (block.astype(np.float32) / scale[cell]).astype(np.float64)
            if q.codebook is not None:
                outside = (ratio < min(q.codebook)) | (ratio > max(q.codebook))
            else:
                low, high = q.scheme.value.range
                if q.scheme.value.kind.value == "int":
                    rounded = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
                else:
                    step = 2.0 ** (
                        math.floor(math.log2(high)) - q.scheme.value.format.mantissa_bits
                    )
                    rounded = np.round(ratio / step) * step
                outside = (rounded < low) | (rounded > high)
            saturated += int(outside.sum())
    return {
        "signal": float((x.astype(np.float64) ** 2).sum()),
        "noise": float(((x - y) ** 2).sum()),
        "max_abs_error": float(np.abs(x - y).max()),
        "saturated": saturated,
        "zero_blocks": zero_blocks,
    }


@pytest.mark.parametrize(("scheme", "shape"), CASES, ids=str)
@pytest.mark.parametrize("part", [1, 20, 10**6])
def test_figures_are_those_of_the_whole_array_however_it_is_cut(
    scheme: aq.QuantScheme, shape: tuple[int, ...], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arrayq.report.metrics._PART_ELEMENTS", part)
    rng = np.random.default_rng(8)
    x = np.asarray(rng.normal(size=shape) * (rng.random(shape) < 0.5))
    q = aq.quantize(x, scheme)
    metrics = measure(x, q)
    assert metrics.elements == x.size
    assert metrics.stored_bytes == q.nbytes
    assert metrics.source_bytes == x.nbytes
    for name, expected in plain_figures(x, q).items():
        assert getattr(metrics, name) == pytest.approx(expected, rel=1e-12), name


@pytest.mark.parametrize(("scheme", "shape"), CASES, ids=str)
def test_parts_decode_to_the_whole(scheme: aq.QuantScheme, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).normal(size=shape)
    q = aq.quantize(x, scheme)
    whole = q.dequantize()
    parts = list(split(q, 10))
    np.testing.assert_array_equal(
        np.concatenate([part.dequantize().ravel() for _, _, part in parts]), whole.ravel()
    )
    for index, cells, part in parts:
        assert part.shape == whole[index].shape
        assert part.scale_data.shape == q.scale_data[cells].shape


def test_a_small_array_comes_whole_and_an_empty_one_too() -> None:
    for shape in [(4, 4), (0, 4), (4, 0), ()]:
        q = aq.quantize(np.ones(shape), "int8/tensor")
        assert [part for _, _, part in split(q, 10)][-1].dequantize().size == math.prod(shape) or 1


def test_metrics_of_two_arrays_add_up() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(4, 32)), rng.normal(size=(3, 50)) * 100]
    parts = [measure(x, aq.quantize(x, "int4/32")) for x in arrays]
    total = sum(parts, Metrics())
    assert total.elements == 4 * 32 + 3 * 50
    assert total.noise == parts[0].noise + parts[1].noise
    assert total.max_abs_error == max(part.max_abs_error for part in parts)
    assert total.bits_per_element == 8 * total.stored_bytes / total.elements


def test_an_exact_result_is_infinitely_good() -> None:
    x = np.array([[1.0, -127.0, 3.0]], np.float32)
    metrics = measure(x, aq.quantize(x, "int8/row"))
    assert metrics.sqnr_db == math.inf
    assert metrics.max_abs_error == 0


@pytest.mark.parametrize("scheme", ["int8/row", "nf4/64", "mxfp4", "nvfp4", "e4m3/tensor"])
def test_zeros_are_exact_and_give_no_nan(scheme: str) -> None:
    x = np.zeros((4, 64), np.float16)
    q = aq.quantize(x, scheme)
    metrics = measure(x, q)
    assert metrics.sqnr_db == math.inf
    assert metrics.zero_blocks == q.scale_data.size
    assert metrics.saturated == 0
    json.dumps(metrics.to_dict(), allow_nan=False)


def test_an_empty_array_has_figures_too() -> None:
    x = np.empty((0, 32), np.float32)
    metrics = measure(x, aq.quantize(x, "int8/32"))
    assert metrics.elements == metrics.zero_blocks == 0
    assert metrics.bits_per_element == 0
    assert metrics.sqnr_db == math.inf


def test_a_codebook_without_zero_makes_noise_of_zeros() -> None:
    scheme = aq.QuantScheme("u1", "packed_native", "lookup", codebook=[-1, 1])
    x = np.array([[0.0, 0.0]], np.float32)
    q = aq.quantize(x, scheme, qparams=aq.QParams(np.ones((1, 1), np.float32)))
    assert measure(x, q).sqnr_db == -math.inf


def test_products_that_overflow_are_counted_and_never_nan() -> None:
    x = np.array([[3.4e38, 1.0]], np.float32)
    q = aq.quantize(x, "e5m2/tensor")
    huge = aq.QuantizedArray(q.data, np.full((1, 1), 3e38, np.float32), q.scheme)
    metrics = measure(x, huge)
    assert metrics.overflowed == 1
    assert metrics.max_abs_error == math.inf
    assert metrics.sqnr_db == -math.inf
    assert metrics.to_dict()["sqnr_db"] == "-inf"
    json.dumps(metrics.to_dict(), allow_nan=False)


def test_saturation_is_counted_at_its_edges() -> None:
    def saturated(value: str, *numbers: float) -> int:
        scheme = aq.QuantScheme(value, "native").per_tensor()
        x = np.array(numbers, np.float32)
        return measure(x, aq.quantize(x, scheme, qparams=aq.QParams(np.float32(1)))).saturated

    below = np.nextafter(np.float32(127.5), np.float32(0))
    assert saturated("q8s", 127.0, float(below), -float(below)) == 0
    assert saturated("q8s", 127.5, -127.5, 1e30) == 3
    assert saturated("q8f", -128.0, -128.25, 127.0) == 0
    assert saturated("e4m3", 448.0, 464.0, -464.0) == 0
    assert saturated("e4m3", float(np.nextafter(np.float32(464), np.float32(465)))) == 1
    assert saturated("e2m1", 6.0, 6.5, 6.9) in (0, 1)


def test_float64_is_judged_against_itself() -> None:
    x = np.array([[1.0 + 2**-40]])
    metrics = measure(x, aq.quantize(x, "e4m3/tensor"))
    assert metrics.noise > 0


def test_parts_are_reported_as_they_are_judged() -> None:
    x = np.ones((1000, 1000), np.float32)
    told: list[int] = []
    measure(x, aq.quantize(x, "nvfp4"), on_part=told.append)
    assert sum(told) == x.size
    assert len(told) > 2
