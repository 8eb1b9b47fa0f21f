"""One table of ways: each library on each path that its row of the capability table names.

A way is where an array goes before it is quantized, and how what comes out is seen. A new row of
`arrayq.capability.PROFILES` is a new way by itself; `OPENERS` says more of libraries whose arrays
do not come from ``asarray`` and go to ``numpy.asarray``, `MORE` adds compilers and devices.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import arrayq as aq
from arrayq.capability import PROFILES, Profile, refusal_of
from arrayq.testing import generic_path

Array = Any
Host = npt.NDArray[Any]
Function = Callable[..., Any]


def _same(function: Function) -> Function:
    return function


@dataclass(frozen=True)
class Opened:
    """A library that is imported.

    Attributes
    ----------
    into, back : callable
        From and to NumPy.
    compiled : callable
        What is done to a function of several arrays before it is called.
    computed : callable
        What is done to all results at once, before they are seen.
    device : object
        Where its arrays are, as `QuantizedArray.device` says it.
    """

    into: Callable[[Host], Array]
    back: Callable[[Array], Host]
    compiled: Callable[[Function], Function] = _same
    computed: Callable[[Any], Any] = lambda results: results
    device: object = None


Opener = Callable[[str | None], Opened]


@dataclass(frozen=True)
class Way:
    """How arrays are quantized and dequantized in a library.

    Attributes
    ----------
    name : str
        What it is called in the output of pytest.
    row : Profile
        The row of the library.
    path : str
        The path that its arrays take.
    open : callable
        Imports the library, or skips the test. Takes the option ``--device``.
    design, slowly : str
        Which problems it is given, and which under ``-m slow``; see `scheme_lattice.DESIGNS`.
    is_forced : bool
        Whether the arrays take another path than their usual one.
    is_traced : bool
        Whether values cannot be seen.
    """

    name: str
    row: Profile
    path: str
    open: Opener
    design: str = "parts"
    slowly: str = "pairs"
    is_forced: bool = False
    is_traced: bool = False

    @property
    def keeps_subnormals(self) -> bool:
        """Whether its arithmetic knows subnormals; the kernels know them in every library."""
        return self.row.subnormals or self.path == "host"

    def refuses(self, scheme: aq.QuantScheme, operation: str = "quantize") -> str:
        """Return why the row refuses a scheme on this path; empty where it does not."""
        refusal = refusal_of(self.row, scheme, operation, None, self.path)
        return "" if refusal is None else refusal[1]

    @property
    def is_eager(self) -> bool:
        """Whether it computes at once, so that single calls are cheap."""
        return not self.is_traced and self.design != "few"

    def taken(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which arrays take this way."""
        return generic_path() if self.is_forced else contextlib.nullcontext()


def _by_name(name: str) -> Opener:
    """Return how to open a library whose module is its name: what the standard offers."""

    def open_it(_device: str | None) -> Opened:
        xp = pytest.importorskip(name)
        return Opened(xp.asarray, np.asarray)

    return open_it


def _numpy(_device: str | None) -> Opened:
    return Opened(_same, _same, device="cpu")


def _torch_arrays(place: Any) -> tuple[Function, Function]:
    import torch

    def into(x: Host) -> Array:
        if x.dtype.name == "bfloat16":
            return torch.from_numpy(x.view(np.uint16).copy()).view(torch.bfloat16).to(place)
        return torch.from_numpy(x.copy()).to(place)

    def back(x: Array) -> Host:
        if x.dtype is torch.bfloat16:
            return np.asarray(x.view(torch.uint16).cpu().numpy())
        return np.asarray(x.cpu().numpy())

    return into, back


def _torch(_device: str | None) -> Opened:
    torch = pytest.importorskip("torch")
    place = torch.device("cpu")
    return Opened(*_torch_arrays(place), device=place)


def _torch_device(device: str | None) -> Opened:
    torch = pytest.importorskip("torch")
    if device is None:
        pytest.skip("no --device is given; torch's meta device and strict's second stand in")
    try:
        place = torch.zeros(1, device=device).device
    except (RuntimeError, AssertionError) as error:
        pytest.skip(f"torch has no device {device}: {str(error).splitlines()[0]}")
    if place.type == "cpu":
        pytest.skip("--device names the CPU, whose memory the kernels work on")
    return Opened(*_torch_arrays(place), device=place)


def torch_compiled(backend: str) -> Opener:
    """Return how to open torch with a backend of its compiler."""

    def open_it(_device: str | None) -> Opened:
        torch = pytest.importorskip("torch")

        def compiled(function: Function) -> Function:
            torch.compiler.reset()
            fast = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)

            def run(*arrays: Array) -> Any:
                with warnings.catch_warnings():
                    # inductor uses what torch deprecates
                    warnings.simplefilter("ignore", DeprecationWarning)
                    return fast(*arrays)

            return run

        place = torch.device("cpu")
        return Opened(*_torch_arrays(place), compiled, device=place)

    return open_it


def _jax(_device: str | None) -> Opened:
    jax = pytest.importorskip("jax")
    return Opened(jax.numpy.asarray, np.asarray, device=jax.numpy.zeros(1).device)


def _jax_jit(_device: str | None) -> Opened:
    jax = pytest.importorskip("jax")
    return Opened(jax.numpy.asarray, np.asarray, jax.jit, device=jax.numpy.zeros(1).device)


def _dask(_device: str | None) -> Opened:
    da = pytest.importorskip("dask.array")

    def into(x: Host) -> Array:
        return da.from_array(x, chunks=tuple(max(1, n // 2 + 1) for n in x.shape))

    def computed(results: Any) -> Any:
        import dask

        return dask.compute(results, scheduler="synchronous")[0]

    return Opened(into, np.asarray, computed=computed)


def _cupy(_device: str | None) -> Opened:
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("CuPy sees no CUDA device")
    return Opened(cupy.asarray, cupy.asnumpy, device=cupy.cuda.Device())


def _mlx_arrays() -> tuple[Function, Function]:
    mx = pytest.importorskip("mlx.core")

    def into(x: Host) -> Array:
        if x.dtype.name == "bfloat16":
            return mx.array(x.view(np.uint16)).view(mx.bfloat16)
        return mx.array(x)

    def back(x: Array) -> Host:
        return np.asarray(x.view(mx.uint16) if x.dtype == mx.bfloat16 else x)

    return into, back


def _mlx(_device: str | None) -> Opened:
    return Opened(*_mlx_arrays())


def _mlx_compiled(_device: str | None) -> Opened:
    into, back = _mlx_arrays()
    return Opened(into, back, sys.modules["mlx.core"].compile)


def _strict(_device: str | None) -> Opened:
    xp = pytest.importorskip("array_api_strict")
    return Opened(xp.asarray, np.asarray, device=xp.Device("CPU_DEVICE"))


def _strict_second(_device: str | None) -> Opened:
    xp = pytest.importorskip("array_api_strict")
    place, cpu = xp.Device("device1"), xp.Device("CPU_DEVICE")
    return Opened(
        lambda x: xp.asarray(x, device=place),
        lambda x: np.asarray(x.to_device(cpu)),
        device=place,
    )


def _ndonnx(_device: str | None) -> Opened:
    xp = pytest.importorskip("ndonnx")
    return Opened(xp.asarray, lambda x: np.asarray(x.unwrap_numpy()))


def _ndonnx_model(_device: str | None) -> Opened:
    xp = pytest.importorskip("ndonnx")
    return Opened(xp.asarray, _same, onnx_function)


def onnx_function(function: Function) -> Function:
    """Return a function of NumPy's arrays that builds an ONNX model of `function` and runs it."""
    runtime = pytest.importorskip("onnxruntime")
    xp = pytest.importorskip("ndonnx")

    def run(*arrays: Any) -> list[tuple[Any, ...]]:
        arguments = [xp.argument(shape=x.shape, dtype=x.dtype) for x in arrays]
        results = function(*arguments)
        inputs = {f"x{i}": argument for i, argument in enumerate(arguments)}
        outputs = {
            f"y{i}_{j}": part for i, parts in enumerate(results) for j, part in enumerate(parts)
        }
        model = xp.build(inputs, outputs)
        session = runtime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        feed = {f"x{i}": x.unwrap_numpy() for i, x in enumerate(arrays)}
        got = iter(session.run([*outputs], feed))
        return [tuple(next(got) for _ in parts) for parts in results]

    return run


def _other(_device: str | None) -> Opened:
    # the boxes of tests/namespaces/third_party, without the entry point that describes them
    known = sys.modules.get("boxed")
    if known is None:
        place = Path(__file__).parent / "third_party" / "boxed.py"
        spec = importlib.util.spec_from_file_location("boxed", place)
        assert spec is not None
        assert spec.loader is not None
        known = sys.modules["boxed"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(known)
    return Opened(known.Box, lambda box: box.inside, device="cpu")


OPENERS: dict[str, Opener] = {
    "numpy": _numpy,
    "torch": _torch,
    "jax": _jax,
    "dask": _dask,
    "cupy": _cupy,
    "mlx": _mlx,
    "array_api_strict": _strict,
    "ndonnx": _ndonnx,
    "other": _other,
}
"""How arrays get in and out, where the module is not the name and ``asarray`` is not all."""

DESIGN: dict[str, tuple[str, str]] = {
    "numpy host": ("pairs", "whole"),
    "numpy generic": ("lattice", "whole"),
    "torch host": ("lattice", "whole"),
    "torch generic": ("lattice", "whole"),
    "mlx host": ("pairs", "whole"),
    "mlx generic": ("pairs", "whole"),
    "jax host": ("pairs", "whole"),
    "jax generic": ("parts", "pairs"),
    "array_api_strict host": ("pairs", "whole"),
    "array_api_strict generic": ("pairs", "lattice"),
    "dask chunked": ("parts", "lattice"),
    "other generic": ("pairs", "lattice"),
    "ndonnx generic": ("few", "parts"),
}
"""The problems of a way and those under ``-m slow``, by what a scheme takes there."""


def _own() -> Iterator[Way]:
    for row in PROFILES.values():
        for path in row.paths:
            name = f"{row.name} {path}"
            yield Way(
                name,
                row,
                path,
                OPENERS.get(row.name) or _by_name(row.name),
                *DESIGN.get(name, ("parts", "pairs")),
                is_forced=path != row.paths[0],
                is_traced=path == "chunked",
            )


def _more(name: str, library: str, opener: Opener, *design: str, traced: bool = True) -> Way:
    return Way(name, PROFILES[library], "generic", opener, *design, is_traced=traced)


WAYS: dict[str, Way] = {
    way.name: way
    for way in (
        *_own(),
        _more("jax.jit", "jax", _jax_jit, "parts", "pairs"),
        _more("torch.compile aot_eager", "torch", torch_compiled("aot_eager"), "parts", "pairs"),
        _more("torch.compile inductor", "torch", torch_compiled("inductor"), "few", "parts"),
        _more("torch on --device", "torch", _torch_device, "pairs", "lattice", traced=False),
        _more("mlx.compile", "mlx", _mlx_compiled, "few", "parts"),
        _more(
            "array_api_strict, second device", "array_api_strict", _strict_second,
            "pairs", "lattice", traced=False,
        ),
        _more("ndonnx model", "ndonnx", _ndonnx_model, "few", "parts"),
    )
}  # fmt: skip
"""Every way, by its name."""


def parts_of(q: aq.QuantizedArray) -> tuple[Array, ...]:
    """Return the stored parts that an array has."""
    parts = (q.data, q.scale_data, q.zero_point, q.tensor_scale)
    return tuple(part for part in parts if part is not None)


def quantizing(asked: Sequence[tuple[Any, str | None]]) -> Function:
    """Return the function of one array for each scheme to what is stored and what it means.

    Parameters
    ----------
    asked : sequence of pairs
        Schemes, and what is to be done about NaN and infinities.
    """

    def function(*arrays: Any) -> list[Any]:
        results = []
        for i in range(len(asked)):
            q = aq.quantize(arrays[i], asked[i][0], nonfinite=asked[i][1])
            parts = [q.data, q.scale_data]
            if q.zero_point is not None:
                parts.append(q.zero_point)
            if q.tensor_scale is not None:
                parts.append(q.tensor_scale)
            results.append((*parts, aq.dequantize(q)))
        return results

    return function


def results_of(
    way: Way, opened: Opened, asked: Sequence[tuple[Any, str | None]], arrays: Sequence[Host]
) -> list[tuple[Host, ...]]:
    """Return what schemes make of arrays on a way, as NumPy sees it."""
    with way.taken():
        function = opened.compiled(quantizing(asked))
        results = opened.computed(function(*map(opened.into, arrays)))
    return [tuple(opened.back(part) for part in parts) for parts in results]
