"""Both paths over one array, and the comparison of what they store and decode to."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy
import numpy as np
import numpy.typing as npt

import arrayq as aq
from arrayq._paths import generic, host
from arrayq._paths.parts import Policy, Stored
from arrayq._paths.space import Space
from arrayq.layout import Plan, plan
from arrayq.numerics import Calibration

NUMPY = Space(array_api_compat.numpy, views=True, rewrites=False)
PARTS = ("scale_data", "zero_point", "tensor_scale", "data")
QUIET = {"over": "ignore", "under": "ignore", "divide": "ignore", "invalid": "ignore"}


def by_host(
    x: npt.NDArray[Any],
    layout: Plan,
    policy: Policy = Policy.RAISE,
    given: Stored | None = None,
    *,
    encode: bool = True,
) -> Stored:
    """Quantize through the kernels."""
    stored = host.allocate(layout)
    if given is not None:
        for name in PARTS[:3]:
            if getattr(given, name) is not None:
                getattr(stored, name)[...] = getattr(given, name)
    host.quantize(
        x, layout, Calibration.MINMAX, policy, 1, stored, encode=encode, scaled=given is not None
    )
    return stored


def decoded_by_host(stored: Stored, layout: Plan) -> npt.NDArray[np.float32]:
    values = np.empty(layout.shape, np.float32)
    host.dequantize(stored, layout, values, 1)
    return values


def by_generic(
    x: Any,
    layout: Plan,
    policy: Policy = Policy.RAISE,
    given: Stored | None = None,
    space: Space = NUMPY,
) -> Stored:
    """Quantize through the array API."""
    with np.errstate(**QUIET):
        return generic.quantize(space, x, layout, Calibration.MINMAX, policy, given=given)


def decoded_by_generic(stored: Stored, layout: Plan, space: Space = NUMPY) -> Any:
    with np.errstate(**QUIET):
        return generic.dequantize(space, stored, layout)


def bits(array: Any) -> npt.NDArray[Any]:
    """Return the bits of float32 numbers, those of one NaN for all of them; else the array."""
    array = np.asarray(array)
    if array.dtype != np.float32:
        return array
    return np.asarray(np.where(np.isnan(array), np.float32(np.nan), array)).view(np.uint32)


def assert_same_bits(got: Any, expected: npt.NDArray[Any], what: str) -> None:
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), what
    np.testing.assert_array_equal(bits(got), bits(expected), err_msg=what)


def assert_same_parts(got: Stored, expected: Stored, what: str) -> None:
    for name in PARTS:
        one, other = getattr(got, name), getattr(expected, name)
        if other is None:
            assert one is None, f"{what}: {name}"
        else:
            assert_same_bits(one, other, f"{what}: {name}")


def assert_paths_agree(
    x: npt.NDArray[Any],
    scheme: aq.QuantScheme,
    policy: Policy = Policy.RAISE,
    given: Stored | None = None,
) -> None:
    """Quantize and dequantize by both paths: every bit is the same."""
    layout = plan(scheme, x.shape)
    expected = by_host(x, layout, policy, given)
    got = by_generic(x, layout, policy, given)
    assert_same_parts(got, expected, str(scheme))
    values = decoded_by_host(expected, layout)
    assert_same_bits(decoded_by_generic(got, layout), values, f"{scheme}: values")
