"""What comes out lies where what went in does: library, device, dtype; nothing visits the host."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from libraries import WAYS, Opened, Way, parts_of, quantizing
from path_comparison import bits
from scheme_lattice import FEW, Problem, design

import arrayq as aq
from arrayq.interop.access import Access

X = np.random.default_rng(3).standard_normal((4, 48)).astype(np.float32)

single = pytest.mark.parametrize(
    "way",
    [way for way in WAYS.values() if not way.is_traced or way.path == "chunked"],
    ids=lambda way: way.name,
)
away = pytest.mark.parametrize(
    "way",
    [
        way
        for way in WAYS.values()
        if way.path == "generic" and not way.is_forced and way.design != "one"
    ],
    ids=lambda way: way.name,
)


@single
@pytest.mark.parametrize("spelling", ["nvfp4", "int4a/32"])
def test_results_are_arrays_of_the_library_on_the_device(
    way: Way, opened: Opened, spelling: str
) -> None:
    x = opened.into(X)
    with way.taken():
        q = aq.quantize(x, spelling)
        p = aq.calibrate(x, spelling)
        results = (aq.dequantize(q), aq.fake_quantize(x, spelling), q.codes(), q.scale, p.scale)
    device = q.device
    for part in (*parts_of(q), *results):
        assert type(part) is type(x)
        assert getattr(part, "device", None) == getattr(x, "device", None)
    if opened.device is not None:
        assert device == opened.device


WITHOUT_BFLOAT16 = ("numpy generic", "other generic", "array_api_strict generic")


@single
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_every_dtype_of_a_row_goes_in_and_comes_out(way: Way, opened: Opened, dtype: str) -> None:
    if dtype not in way.row.dtypes:
        pytest.skip(f"{way.row.name} has no {dtype}")
    if dtype == "float64" and way.row.name in ("jax", "mlx"):
        pytest.skip(f"{way.row.name} makes float32 of NumPy's float64")
    if dtype == "bfloat16" and way.name in WITHOUT_BFLOAT16:
        pytest.skip("the namespace has no dtype of that name")
    host = X.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    expected = aq.quantize(host, "mxfp8")
    with way.taken():
        x = opened.into(host)
        q = aq.quantize(x, "mxfp8")
        y = aq.fake_quantize(x, "mxfp8")
        wanted, q, z = opened.computed((y, q, aq.dequantize(q, dtype=dtype)))
    assert (bits(opened.back(q.data)) == expected.data).all()
    assert (bits(opened.back(q.scale_data)) == expected.scale_data).all()
    numbers = expected.dequantize(dtype=host.dtype)
    for got in (wanted, z):
        seen = opened.back(got)
        if seen.dtype == np.uint16:
            seen = seen.view(ml_dtypes.bfloat16)
        assert seen.dtype == numbers.dtype
        assert (seen == numbers).all()


@pytest.mark.parametrize("name", WITHOUT_BFLOAT16)
def test_a_dtype_that_the_namespace_lacks_is_refused_by_name(name: str) -> None:
    way = WAYS[name]
    opened = way.open(None)
    with way.taken():
        q = aq.quantize(opened.into(X), "int8/row")
        with pytest.raises(aq.ArrayTypeError, match=r"has a dtype|both have, got bfloat16"):
            aq.dequantize(q, dtype="bfloat16")


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is copied to the host, or looked at by NumPy, while a test runs."""
    copied: list[str] = []

    def spy(owner: Any, name: str, is_foreign: Any) -> None:
        original = getattr(owner, name)

        def spied(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)  # which may refuse, and nothing is copied
            if any(map(is_foreign, args)):
                copied.append(f"{name} of {type(args[-1]).__name__}")
            return result

        monkeypatch.setattr(owner, name, spied)

    def is_foreign(x: Any) -> bool:
        return hasattr(x, "shape") and not isinstance(x, np.ndarray | np.generic | type)

    for name in ("asarray", "array", "ascontiguousarray", "from_dlpack"):
        spy(np, name, is_foreign)
    monkeypatch.setattr(Access, "copied", lambda *_: copied.append("copied"))
    return copied


@away
def test_nothing_is_copied_to_the_host(way: Way, opened: Opened, no_copies: list[str]) -> None:
    spellings = FEW if way.design != "few" else FEW[:2]
    arrays = [opened.into(X) for _ in spellings]
    function = quantizing([(spelling, "propagate") for spelling in spellings])
    opened.compiled(function)(*arrays)
    assert not no_copies


def test_torchs_meta_device_has_shapes_and_no_values() -> None:
    torch = pytest.importorskip("torch")
    for problem in design("torch", "pairs"):
        if WAYS["torch generic"].refuses(problem.scheme):
            continue
        assert_meta(torch, problem)


def assert_meta(torch: Any, problem: Problem) -> None:
    expected = aq.quantize(problem.array, problem.scheme, nonfinite=problem.nonfinite)
    x = torch.empty(problem.shape, device="meta")
    q = aq.quantize(x, problem.scheme, nonfinite=problem.nonfinite)
    assert (q.shape, q.grid, q.scheme) == (expected.shape, expected.grid, expected.scheme)
    for got, part in zip(parts_of(q), parts_of(expected), strict=True):
        assert got.is_meta
        assert (tuple(got.shape), str(got.dtype)) == (part.shape, f"torch.{part.dtype}")
    y = aq.dequantize(q)
    assert y.is_meta
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
