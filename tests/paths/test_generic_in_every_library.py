"""The generic path over the arrays of other libraries: the bits of the kernels in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from path_comparison import PARTS, QUIET, assert_same_bits, by_host, decoded_by_host

import arrayq as aq
from arrayq._paths import generic
from arrayq._paths.parts import Policy, Stored
from arrayq._paths.space import Space
from arrayq.layout import Plan, plan

Array = npt.NDArray[Any]
Function = Callable[..., Any]


def scheme(value: str, **rules: Any) -> aq.QuantScheme:
    return aq.QuantScheme().with_value(value).with_numerics(**rules)


def affine(value: str, kind: str, dtype: str, **rules: Any) -> aq.QuantScheme:
    return aq.QuantScheme(
        value,
        "packed_u32",
        "affine",
        aq.BlockScale(8, "f16"),
        numerics=aq.Numerics(**rules),
        zero=aq.ZeroPoint(kind, dtype),
    )


TABLE = [float(entry) for entry in np.random.default_rng(8).standard_normal(256).astype("f4")]
ROUNDED = scheme("q4s", rounding="stochastic", seed=2**63 + 11)

SCHEMES = {
    "nvfp4": aq.scheme("nvfp4"),
    "mxfp4": aq.scheme("mxfp4"),
    "int8 of rows": aq.scheme("int8/row"),
    "nf4": aq.scheme("nf4/16"),
    "codes from a zero point": affine("u4", "code", "u8"),
    "codes from a bias": affine("q4f", "bias", "bf16"),
    "stochastic codes": ROUNDED.with_store("packed_u32(1)").per_block([2, 5], "bf16"),
    "signed scales": scheme("q4f", scale_from="signed_max").per_block(16, "f16"),
}
"""What is compiled as well; each takes a second."""

FEW_SCHEMES = ("nvfp4", "nf4", "codes from a bias")
"""For libraries that take seconds for each."""

MORE_SCHEMES = {
    "mxfp8": aq.scheme("mxfp8"),
    "mxfp6": aq.scheme("mxfp6-e3m2"),
    "two levels by hand": scheme("e5m2").per_block(7, "f16").per_tensor("f32"),
    "ends of the range": scheme("q8f", scale_from="endpoints", rounding="half_up"),
    "an inverse range": affine("u3", "code", "f32", scale_from="inverse_range"),
    "a range without zero": affine("u8", "code", "i32", zero_in_range=False),
    "a table of 256": aq.QuantScheme()
    .with_value("u8")
    .with_mode("lookup", TABLE)
    .with_store("native")
    .per_block(16, "f32"),
    "powers of two as numbers": scheme("e2m3", scale_from="nearest_log2"),
    "stochastic minifloats": scheme("e4m3", rounding="stochastic", seed=5).per_channel(0, "f16"),
    "reciprocals": scheme("q2s", scaling="reciprocal", rounding="half_to_zero").per_block(9, "f32"),
    **SCHEMES,
}


def some_array(*, negative_zeros: bool = True) -> npt.NDArray[np.float32]:
    """Return an array of ragged blocks, with zeros and a few elements that are not finite."""
    rng = np.random.default_rng(12)
    x = rng.standard_normal((6, 83)) * np.exp2(rng.integers(-9, 9, (6, 1)))
    x[1, :20] = -0.0 if negative_zeros else 0.0
    x[2] = 0.0
    x[3, 5], x[3, 40], x[4, 82] = np.nan, np.inf, -np.inf
    return x.astype(np.float32)


@dataclass(frozen=True)
class Library:
    """How a library is computed in.

    Attributes
    ----------
    space : Space
        Where.
    into, back : callable
        From and to NumPy.
    compiled : callable
        What is done to a function before it is called.
    negative_zeros : bool
        Whether -0.0 is not 0.0.
    """

    space: Space
    into: Function
    back: Function
    compiled: Function = lambda function: function
    negative_zeros: bool = True


def _torch() -> Library:
    torch = pytest.importorskip("torch")
    from array_api_compat import torch as xp

    return Library(
        Space(xp, word_integer="int64", views=True, rewrites=False),
        torch.from_numpy,
        lambda x: x.numpy(),
    )


def _torch_fx() -> Library:
    torch = pytest.importorskip("torch")
    from torch.fx.experimental.proxy_tensor import make_fx

    def compiled(function: Function) -> Function:
        # over fake tensors: whatever asked for a value would raise
        return lambda *arrays: make_fx(function, tracing_mode="fake")(*arrays)(*arrays)

    library = _torch()
    assert torch is not None
    return Library(library.space, library.into, library.back, compiled)


def _jax() -> Library:
    jax = pytest.importorskip("jax")
    return Library(Space(jax.numpy, views=True), jax.numpy.asarray, np.asarray)


def _jax_jit() -> Library:
    jax = pytest.importorskip("jax")
    return Library(Space(jax.numpy, views=True), jax.numpy.asarray, np.asarray, jax.jit)


def _strict(device: str | None = None) -> Library:
    xp = pytest.importorskip("array_api_strict")
    place = None if device is None else xp.Device(device)
    cpu = xp.Device("CPU_DEVICE")
    return Library(
        Space(xp, device=place, rewrites=False),
        lambda x: xp.asarray(x, device=place),
        lambda x: np.asarray(x.to_device(cpu)),
    )


def _mlx() -> Library:
    xp = pytest.importorskip("mlx.core")
    return Library(Space(xp, views=True, rewrites=False), xp.array, np.asarray)


def _mlx_compiled() -> Library:
    xp = pytest.importorskip("mlx.core")
    return Library(Space(xp, views=True, rewrites=False), xp.array, np.asarray, xp.compile)


def _dask() -> Library:
    da = pytest.importorskip("dask.array")
    from array_api_compat.dask import array as xp

    return Library(Space(xp), da.from_array, lambda x: x.compute())


def _ndonnx() -> Library:
    xp = pytest.importorskip("ndonnx")
    space = Space(xp, word_integer="int64", index_integer="int64")
    return Library(space, xp.asarray, lambda x: x.unwrap_numpy(), negative_zeros=False)


EAGER = {
    "torch": _torch,
    "jax": _jax,
    "strict": _strict,
    "strict, another device": lambda: _strict("device1"),
    "mlx": _mlx,
    "dask": _dask,
    "ndonnx": _ndonnx,
}
COMPILED = {"torch fx": _torch_fx, "jax.jit": _jax_jit, "mlx.compile": _mlx_compiled}
SLOW = ("jax", "ndonnx", "torch fx", "mlx.compile")


def pairs(libraries: Iterable[str], schemes: Iterable[str]) -> list[tuple[str, str]]:
    """Return each library with each scheme, the slow ones with few."""
    return [
        (library, name)
        for library in libraries
        for name in (FEW_SCHEMES if library in SLOW else schemes)
    ]


def both_ways(library: Library, layout: Plan, policy: Policy) -> Function:
    """Return the function from an array to its stored parts and what they decode to."""

    def function(x: Any) -> tuple[Any, ...]:
        space = library.space
        stored = generic.quantize(space, x, layout, aq.Calibration.MINMAX, policy)
        values = generic.dequantize(space, stored, layout)
        parts = [getattr(stored, name) for name in PARTS]
        return (*(part for part in parts if part is not None), values)

    return function


def expected_parts(x: Array, layout: Plan, policy: Policy) -> list[Array]:
    stored = by_host(x, layout, policy)
    parts = [getattr(stored, name) for name in PARTS]
    return [*(part for part in parts if part is not None), decoded_by_host(stored, layout)]


def assert_library_agrees(library: Library, described: aq.QuantScheme) -> None:
    x = some_array(negative_zeros=library.negative_zeros)
    layout = plan(described, x.shape)
    expected = expected_parts(x, layout, Policy.PROPAGATE)
    with np.errstate(**QUIET):
        function = library.compiled(both_ways(library, layout, Policy.PROPAGATE))
        got = [library.back(part) for part in function(library.into(x))]
    if not library.negative_zeros:
        got[-1], expected[-1] = got[-1] + 0.0, expected[-1] + 0.0
    for one, other in zip(got, expected, strict=True):
        assert_same_bits(one, other, str(described))


@pytest.mark.parametrize(("library", "name"), pairs(EAGER, MORE_SCHEMES))
def test_arrays_of_a_library(library: str, name: str) -> None:
    assert_library_agrees(EAGER[library](), MORE_SCHEMES[name])


@pytest.mark.parametrize(("library", "name"), pairs(COMPILED, SCHEMES))
def test_compiled_functions_of_a_library(library: str, name: str) -> None:
    assert_library_agrees(COMPILED[library](), SCHEMES[name])


@contextmanager
def strict_flags(**flags: Any) -> Iterator[Any]:
    xp = pytest.importorskip("array_api_strict")
    before = xp.get_array_api_strict_flags()
    xp.set_array_api_strict_flags(**flags)
    try:
        yield xp
    finally:
        xp.set_array_api_strict_flags(**before)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MORE_SCHEMES)
def test_the_standard_of_2022_without_its_options_is_enough(name: str) -> None:
    # no indexing by booleans, nothing whose shape depends on values, no linalg, no fft
    with strict_flags(
        api_version="2022.12",
        boolean_indexing=False,
        data_dependent_shapes=False,
        enabled_extensions=(),
    ):
        assert_library_agrees(_strict(), MORE_SCHEMES[name])


@pytest.mark.parametrize("name", SCHEMES)
def test_batches_of_vmap_are_as_one_by_one(name: str) -> None:
    jax = pytest.importorskip("jax")
    batch = np.stack([some_array(), some_array()[::-1], np.roll(some_array(), 3, 1)])
    layout = plan(SCHEMES[name], batch.shape[1:])
    function = both_ways(_jax(), layout, Policy.PROPAGATE)
    parts = jax.jit(jax.vmap(function))(jax.numpy.asarray(batch))
    for i, x in enumerate(batch):
        for one, other in zip(parts, expected_parts(x, layout, Policy.PROPAGATE), strict=True):
            assert_same_bits(one[i], other, name)


@pytest.mark.parametrize("name", MORE_SCHEMES)
def test_torch_batches_and_arrays_without_memory(name: str) -> None:
    torch = pytest.importorskip("torch")
    library = _torch()
    batch = np.stack([some_array(), np.roll(some_array(), 3, 1)])
    layout = plan(MORE_SCHEMES[name], batch.shape[1:])
    function = both_ways(library, layout, Policy.PROPAGATE)
    expected = [expected_parts(x, layout, Policy.PROPAGATE) for x in batch]
    parts = torch.func.vmap(function)(torch.from_numpy(batch))
    for i, one in enumerate(expected):
        for got, other in zip(parts, one, strict=True):
            assert_same_bits(got[i].numpy(), other, name)
    meta = replace(library.space, device=torch.device("meta"))
    shapes = both_ways(Library(meta, None, None), layout, Policy.PROPAGATE)(  # type: ignore[arg-type]
        torch.empty(layout.shape, device="meta")
    )
    for got, other in zip(shapes, expected[0], strict=True):
        assert (tuple(got.shape), str(got.dtype)) == (other.shape, f"torch.{other.dtype}")


def without_subnormals(x: Array, layout: Plan) -> npt.NDArray[np.bool_]:
    """Return the blocks of single rows whose exact arithmetic meets no float32 subnormal."""
    stored = by_host(x, layout)
    smallest = np.float32(2.0**-126)
    magnitudes = np.abs(x).reshape(*layout.grid, layout.block[-1])
    elements = ((magnitudes == 0) | (magnitudes >= smallest)).all(-1)
    ones = Stored(np.ones_like(stored.data), stored.scale_data, None, stored.tensor_scale)
    scales = decoded_by_host(ones, layout).reshape(magnitudes.shape)[..., 0]
    largest = magnitudes.max(-1)
    # half of the smallest normal scale is where its rounding starts
    raw = largest / np.float32(layout.scheme.value.format.half_range)
    return np.asarray(elements & (scales >= 2 * smallest) & (raw >= 2 * smallest) | (largest == 0))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "ue8m0"])
@pytest.mark.parametrize("value", ["q8s", "e4m3"])
def test_jax_differs_only_where_subnormals_are_met(value: str, dtype: str) -> None:
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(1)
    x = rng.standard_normal((512, 32)) * np.exp2(rng.integers(-140, 120, (512, 1)))
    x = x.astype(np.float32)
    described = aq.QuantScheme().with_value(value).with_store("native").per_block(8, dtype)
    layout = plan(described, x.shape)
    expected = by_host(x, layout)
    function = both_ways(_jax(), layout, Policy.RAISE)
    scales, data, _ = jax.jit(function)(jax.numpy.asarray(x))
    met = ~without_subnormals(x, layout)
    assert 0 < met.mean() < 0.2
    assert_same_bits(np.asarray(scales)[~met], expected.scale_data[~met], "scales")
    blocks = (*layout.grid, layout.block[-1])
    got, codes = np.asarray(data).reshape(blocks), expected.data.reshape(blocks)
    assert_same_bits(got[~met], codes[~met], "data")


def test_no_division_under_jit_is_anything_but_a_division() -> None:
    jax = pytest.importorskip("jax")
    from arrayq._paths.generic.guards import divide, settle

    space = Space(jax.numpy, views=True)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4096, 256)).astype(np.float32)
    s = rng.uniform(0.5, 2, (4096, 1)).astype(np.float32)
    g = np.float32(0.7)

    def function(x: Any, s: Any, g: Any) -> tuple[Any, ...]:
        quotient = divide(space, x, s)
        return (
            quotient,
            divide(space, x, 2688.0),
            divide(space, settle(space, quotient), g),
            settle(space, x * s) + g,
        )

    got = jax.jit(function)(*map(jax.numpy.asarray, (x, s, g)))
    q = x / s
    for one, other in zip(got, (q, x / np.float32(2688), q / g, x * s + g), strict=True):
        assert_same_bits(one, other, "a million numbers")
