"""What the producers of affine and float8 vectors did, as schemes in plain words.

Shared by the test_golden modules of torchao_affine.npz and quanto.npz and by the tests of the
oracle. Everything is read from a case's parameters, its function and its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import oracle
import pytest
from golden_cases import Case, assert_same_floats, cases_of

Array = npt.NDArray[Any]

SIGNED = {
    (-128, 127): "q8f",
    (-127, 127): "q8s",
    (-8, 7): "q4f",
    (-7, 7): "q4s",
    (-2, 1): "q2f",
    (-1, 1): "q2s",
}
UNSIGNED = {(0, 2**bits - 1): f"u{bits}" for bits in range(1, 9)}
BOUNDS = {"int8": (-128, 127), "uint8": (0, 255)}
SMALLEST_NORMAL = 2.0**-126
EPSILONS = {"finfo(input.dtype).smallest_normal": SMALLEST_NORMAL}

# How torch rounds, and what its quantizers do with blocks of zeros.
TORCH = oracle.Spec(rounding="half_even", smallest_scale=SMALLEST_NORMAL, zero_block="smallest")


def as_stored(zeros: Array, scales: Array) -> Array:
    return zeros


@dataclass(frozen=True)
class Produced:
    """One array as a producer quantized it.

    ``codes`` are counted as ours are. ``usable`` marks the blocks whose arithmetic the producer
    finished; ``publish`` turns our zero points and scales into what the producer stores.
    """

    x: Array
    spec: oracle.Spec
    scale: Array
    codes: Array
    usable: npt.NDArray[np.bool_]
    zero: Array | None = None
    values: Array | None = None
    publish: Callable[[Array, Array], Array] = as_stored


def outside_the_contract(case: Case) -> str:
    """Return why a case is not compared, in its producer's words; empty when it is."""
    named = "16-bit arithmetic" in case.exact or case.exact.startswith("informational")
    return case.exact if named else ""


def compared_cases(file: str) -> list[Any]:
    """Return a parameter for every case; those outside the contract are skipped by their text."""
    params = []
    for param in cases_of(file):
        case: Case = param.values[0]
        reason = outside_the_contract(case)
        marks = [pytest.mark.skip(reason=reason)] if reason else []
        params.append(pytest.param(case, id=case.id, marks=marks))
    return params


def _produced(case: Case, x: Array, spec: oracle.Spec, *, codes: Array, **parts: Any) -> Produced:
    grid = oracle.grid_shape(x.shape, spec.block_on(x.ndim))
    scale = case.array("scale").reshape(grid)
    parts = {"usable": np.isfinite(scale), **parts}
    if parts.get("zero") is not None:
        parts["zero"] = parts["zero"].reshape(grid)
    values = case.array("deq").reshape(x.shape) if "deq" in case.roles else None
    return Produced(x, spec, scale, codes.reshape(x.shape), values=values, **parts)


def torchao_integers(case: Case) -> Produced:
    """choose_qparams_affine, quantize_affine, dequantize_affine."""
    params = case.params
    bounds = (params["quant_min"], params["quant_max"])
    low, high = BOUNDS[params["target"]] if bounds == (None, None) else bounds
    eps = params["eps"]
    smallest = EPSILONS[eps] if isinstance(eps, str) else float(eps)
    base = replace(
        TORCH, scaling="reciprocal", smallest_scale=smallest, block=tuple(params["block_size"])
    )
    codes, zero = case.array("q").astype(np.int64), case.array("zero_point")
    if params["mapping"] == "ASYMMETRIC":
        value = (SIGNED | UNSIGNED)[low, high]
        spec = replace(base, value=value, zero=oracle.Zero("code", "i32"))
        return _produced(case, case.input(), spec, codes=codes, zero=zero)
    # A symmetric range on unsigned codes puts zero in their middle: ours, shifted.
    middle = (low + high + 1) // 2
    assert (zero == middle).all()
    source = {"SYMMETRIC": "range", "SYMMETRIC_NO_CLIPPING_ERR": "endpoints"}[params["mapping"]]
    spec = replace(base, value=SIGNED[low - middle, high - middle], scale_from=source)
    return _produced(case, case.input(), spec, codes=codes - middle)


def tinygemm(case: Case) -> Produced:
    """A zero point in the unit of the elements, of the middle code."""
    params = case.params
    low, high = params["quant_min"], params["quant_max"]
    middle = (low + high + 1) // 2
    spec = replace(
        TORCH,
        value=SIGNED[low - middle, high - middle],
        zero=oracle.Zero("bias", "f32", in_range=False),
        block=tuple(params["block_size"]),
    )
    codes = case.array("q").astype(np.int64) - middle
    return _produced(case, case.input(), spec, codes=codes, zero=case.array("zero_point"))


def dont_preserve_zero(case: Case) -> Produced:
    """A range that is not widened to include 0."""
    params = case.params
    spec = replace(
        TORCH,
        value=UNSIGNED[params["quant_min"], params["quant_max"]],
        zero=oracle.Zero("code", "i32", in_range=False),
        scaling="reciprocal",
        block=tuple(params["block_size"]),
    )
    codes = case.array("q").astype(np.int64)
    return _produced(case, case.input(), spec, codes=codes, zero=case.array("zero_point"))


def hqq(case: Case) -> Produced:
    """HQQ without its optimizer, its zero points converted to tinygemm's."""
    bits, group = case.params["nbits"], case.params["group"]
    spec = oracle.Spec(
        value=f"u{bits}",
        zero=oracle.Zero("code", "f32", in_range=False, rounding="whole"),
        scale_from="inverse_range",
        rounding="half_even",
        block=(group,),
    )
    middle = np.float32(2 ** (bits - 1))
    return _produced(
        case,
        case.input().reshape(-1, group),
        spec,
        codes=case.array("q").astype(np.int64),
        zero=case.array("zero"),
        publish=lambda zeros, scales: (middle - zeros) * scales,
    )


def float8(case: Case) -> Produced:
    """Scales of float32, powers of two or not; a block of zeros is 0 / 0 there."""
    params = case.params
    source = {"none": "range", "exp2(round(log2(s)))": "nearest_log2"}[params["scale_round"]]
    spec = oracle.Spec(value=params["float8"], scale_from=source, block=tuple(params["block_size"]))
    scale = case.array("scale")
    usable = np.isfinite(scale) & (scale != 0)
    codes = case.array("q").astype(np.int64)
    return _produced(case, case.input(), spec, codes=codes, usable=usable)


def quanto_int8(case: Case) -> Produced:
    """AbsmaxOptimizer and quantize_symmetric."""
    axis = case.params["axis"]
    spec = oracle.Spec(value="q8f", channel=axis, rounding="half_even", scale_from="qmax")
    return _produced(case, case.input(), spec, codes=case.array("q").astype(np.int64))


def quanto_grouped(case: Case) -> Produced:
    """MaxOptimizer and quantize_affine; a constant group is 0 / 0 there."""
    group, codes, packed = case.params["group_size"], case.array("q"), case.array("packed")
    # Words hold 8 / bits rows, the last of them perhaps fewer.
    bits = next(b for b in (4, 2) if len(packed) == -(-len(codes) * b // 8))
    spec = oracle.Spec(
        value=f"u{bits}",
        zero=oracle.Zero("bias", "f32", in_range=False),
        rounding="half_even",
        block=(group,),
    )
    scale = case.array("scale")
    return _produced(
        case,
        case.input().reshape(-1, group),
        spec,
        codes=codes.astype(np.int64),
        usable=np.isfinite(scale) & (scale != 0),
        zero=case.array("shift"),
        publish=lambda zeros, scales: -zeros,
    )


PRODUCERS: dict[str, Callable[[Case], Produced]] = {
    "choose_qparams_affine/quantize_affine/dequantize_affine": torchao_integers,
    "_choose_qparams_affine_tinygemm": tinygemm,
    "_choose_qparams_affine_dont_preserve_zero": dont_preserve_zero,
    "_choose_qparams_and_quantize_affine_hqq": hqq,
    "_choose_scale_float8": float8,
    "quanto::quantize_symmetric": quanto_int8,
    "quanto::quantize_affine": quanto_grouped,
}


def produced_by(case: Case) -> Produced:
    """Read a case in the terms of the package."""
    (read,) = [read for name, read in PRODUCERS.items() if name in case.function]
    return read(case)


def assert_is_produced(
    produced: Produced,
    *,
    scales: Array,
    zeros: Array | None,
    codes: Array,
    values: Array,
) -> None:
    """Compare everything in the blocks that the producer finished."""
    spec, usable = produced.spec, produced.usable
    cells = oracle.cell_numbers(produced.x.shape, spec.block_on(produced.x.ndim))
    seen = usable.ravel()[cells]
    np.testing.assert_array_equal(scales[usable], produced.scale[usable], err_msg="scales")
    if produced.zero is None:
        assert zeros is None
    else:
        assert zeros is not None
        published = produced.publish(zeros.astype(produced.zero.dtype), scales)
        np.testing.assert_array_equal(published[usable], produced.zero[usable], err_msg="zeros")
    fields = produced.codes % 2**spec.bits
    np.testing.assert_array_equal(
        codes[seen].astype(np.int64) % 2**spec.bits, fields[seen], err_msg="codes"
    )
    if produced.values is not None:
        assert_same_floats(values[seen], produced.values[seen])
