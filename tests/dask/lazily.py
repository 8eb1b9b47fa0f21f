"""What the tests of dask share: arrays in any chunks, and a scheduler that must not be reached."""

from __future__ import annotations

import itertools
from typing import Any, NoReturn

import dask
import dask.array as da
import numpy as np
from hypothesis import strategies as st

import arrayq as aq
from arrayq._paths import chunked
from arrayq._paths.parts import Policy, Stored
from arrayq._paths.space import Space
from arrayq.layout import Plan, plan
from arrayq.numerics import Calibration

SPACE = Space(da)


def refuse_to_compute(*_args: object, **_kwargs: object) -> NoReturn:
    raise AssertionError("something was computed while the graph was built")


def nothing_computed() -> Any:
    """Return a context in which computing anything fails."""
    return dask.config.set(scheduler=refuse_to_compute)


@st.composite
def cuts(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Draw chunks of a shape, of any lengths, empty ones now and then."""
    chunks = []
    for length in shape:
        ends = draw(st.lists(st.integers(0, length), max_size=5))
        edges = [0, *sorted(ends), length]
        lengths = [end - start for start, end in itertools.pairwise(edges)]
        chunks.append(tuple(n for n in lengths if n or draw(st.integers(0, 9)) == 0) or (length,))
    return tuple(chunks)


def lazy(x: np.ndarray, chunks: Any) -> Any:
    return da.from_array(x, chunks=chunks)


def quantize(
    x: Any,
    scheme: aq.QuantScheme | str,
    *,
    method: str | None = None,
    policy: Policy = Policy.PROPAGATE,
    given: Stored | None = None,
    encode: bool = True,
) -> tuple[Stored, Plan]:
    """Build the graph of quantize; nothing is computed."""
    scheme = aq.scheme(scheme)
    layout = plan(scheme, x.shape)
    calibration = scheme.numerics.calibration if method is None else Calibration.of(method, "")
    with nothing_computed():
        stored = chunked.quantize(SPACE, x, layout, calibration, policy, given=given, encode=encode)
    return stored, layout


def dequantize(stored: Stored, layout: Plan, dtype: str = "float32") -> Any:
    with nothing_computed():
        return chunked.dequantize(SPACE, stored, layout, dtype)


def parts_of(stored: Any) -> tuple[Any, Any, Any, Any]:
    return stored.data, stored.scale_data, stored.zero_point, stored.tensor_scale


def computed(stored: Stored) -> tuple[Any, Any, Any, Any]:
    result: tuple[Any, Any, Any, Any] = dask.compute(*parts_of(stored), scheduler="synchronous")
    return result


def assert_same_bits(lazily: Any, eagerly: Any) -> None:
    """Compare arrays, or None, bit for bit."""
    if eagerly is None:
        assert lazily is None
        return
    lazily, eagerly = np.asarray(lazily), np.asarray(eagerly)
    assert (lazily.dtype, lazily.shape) == (eagerly.dtype, eagerly.shape)
    bits = f"u{eagerly.dtype.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(lazily).view(bits), np.ascontiguousarray(eagerly).view(bits)
    )


def assert_equals_numpy(stored: Stored, q: aq.QuantizedArray) -> None:
    for lazily, eagerly in zip(computed(stored), parts_of(q), strict=True):
        assert_same_bits(lazily, eagerly)
