"""What transformations are tried on: one scheme of each kind, and comparison leaf by leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import arrayq as aq

AFFINE = aq.QuantScheme(
    "u4", "packed_u32", "affine", aq.BlockScale(8, "f16"), zero=aq.ZeroPoint("code", "u8")
)
SCHEMES = {
    "integers of rows": aq.scheme("int8/row"),
    "packed integers, ragged": aq.scheme("int4/64"),
    "a table": aq.scheme("nf4/32"),
    "minifloats": aq.scheme("mxfp8"),
    "two levels": aq.scheme("nvfp4"),
    "zero points": AFFINE,
    "a tensor": aq.scheme("q4s/tensor"),
}
FEW = ("a table", "two levels", "zero points")
"""For what takes seconds for each."""


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(shape or (4, 96)).astype(np.float32)


def assert_same_array(got: aq.QuantizedArray, expected: aq.QuantizedArray) -> None:
    assert (got.shape, got.scheme, got.block_offset) == (
        expected.shape,
        expected.scheme,
        expected.block_offset,
    )
    for one, other in zip(got._parts(), expected._parts(), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert type(one) is type(other)
            assert_same(one, other)


def assert_same(got: Any, expected: Any) -> None:
    got, expected = _numpy(got), _numpy(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(got, expected)


def _numpy(array: Any) -> npt.NDArray[Any]:
    return np.asarray(array.detach() if hasattr(array, "detach") else array)


def quantized_bytes(given: tuple[Any, str]) -> tuple[bytes, aq.QuantizedArray]:
    """Quantize in whatever process this is; spawned ones find it here by its module's name."""
    x, spelling = given
    q = aq.quantize(x, spelling, threads=2)
    return aq.to_bytes(q), q
