"""quantize and dequantize: from an array to codes and scales, and back.

One direction of flow::

    quantize(x, scheme)
      -> located(x)             which library, what it can do, where the memory lies
      -> capability.require     refuse before any work
      -> layout.plan            integers only: grid, words, boxes
      -> path.quantize          measure -> scale -> encode -> pack
      -> QuantizedArray         in the library and on the device of x

and :func:`dequantize` is its mirror. The path is one of `arrayq._paths`: ``host`` for what lies in
CPU memory, ``chunked`` for dask, ``generic`` for all else.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, Literal, NoReturn

import numpy as np

from arrayq import recording
from arrayq._paths import host
from arrayq._paths.parts import Met, Policy, Stored
from arrayq._paths.threads import is_unset, resolve_threads
from arrayq.array import QuantizedArray, made_of
from arrayq.capability import require
from arrayq.errors import ArgumentError, ArrayTypeError
from arrayq.hosting import access_of, on_host, returned
from arrayq.interop.access import Access
from arrayq.layout import Plan, plan
from arrayq.namespaces import Located, _forced, introduce, library_of, located
from arrayq.nonfinite import POLICIES, check_met, check_values, policy_of
from arrayq.numerics import Calibration
from arrayq.outputs import dtype_name, float_memory, numpy_dtype, reused, writable
from arrayq.presets import scheme as parse_scheme
from arrayq.qparams import QParams, hosted, validate
from arrayq.qparams_elsewhere import stored_elsewhere
from arrayq.scheme import QuantScheme
from arrayq.stored_numbers import store_scales, zero_to_bits
from arrayq.straight_through import not_clipped

__all__ = ["calibrate", "dequantize", "fake_quantize", "quantize"]

Array = Any
Nonfinite = Literal["raise", "propagate", "saturate"]

_NUMPY: Final = library_of(np.empty(0)).reach()


def _elsewhere(path: str) -> ModuleType:
    """Return the module of a path other than that of the host; imported when it is needed."""
    return importlib.import_module(f"arrayq._paths.{path}")


def quantize(
    x: Array,
    scheme: QuantScheme | str,
    *,
    qparams: QParams | None = None,
    method: Calibration | str | None = None,
    nonfinite: Nonfinite | None = None,
    threads: int | None = None,
    out: QuantizedArray | None = None,
) -> QuantizedArray:
    """Turn an array of floats into codes and scales.

    Parameters
    ----------
    x : array
        float16, float32, float64 or bfloat16, of any library, shape, strides and byte order; read
        without a copy where it lies in CPU memory. float64 is rounded once to float32; all
        arithmetic is float32.
    scheme : QuantScheme or str
        What to make, or its spelling: ``"nvfp4"``, ``"int4/32"``.
    qparams : QParams, optional
        Scales to encode against; by default they are calibrated on `x`.
    method : {"minmax", "absmean"}, optional
        How the range of a block is found; by default what the scheme says (minmax, except for
        ternary).
    nonfinite : {"raise", "propagate", "saturate"}, optional
        What to do about NaN and infinities. ``"raise"``, the default where values can be seen:
        NonFiniteError. ``"propagate"``, the default for traced and lazy arrays: the scale of
        their block becomes NaN. ``"saturate"``: an infinity gets the largest code of its sign and
        counts for no scale; a NaN raises, under dask when it is computed, and propagates in
        traced arrays.
    threads : int, optional
        Threads to use; by default ``ARRAYQ_NUM_THREADS``, else 1. The result is the same.
    out : QuantizedArray, optional
        An array of the same scheme and shape whose memory receives the result. When the call
        raises, its content is undefined.

    Returns
    -------
    QuantizedArray
        The result; `out` where given.

    Raises
    ------
    ArrayTypeError
        `x` is not an array of floats.
    UnsupportedSchemeError
        The library of `x` cannot do this scheme.
    SchemeError
        The spelling means nothing, or a lookup scheme has no codebook.
    ArgumentError
        `nonfinite` or `threads` is none of its choices.
    LayoutError
        The block or the packed axis does not fit the rank of `x`, or `out` is of another plan.
    QParamsError
        `qparams` does not fit the scheme and the shape.
    NonFiniteError
        `x` holds NaN or infinities that `nonfinite` does not allow.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> q = aq.quantize(np.linspace(-1, 1, 8, dtype=np.float32), "int8/tensor")
    >>> q.codes()
    array([-127,  -91,  -54,  -18,   18,   54,   91,  127], dtype=int8)
    """
    introduce()
    if type(x) is not np.ndarray and recording.is_recording():
        options = {"qparams": qparams, "method": method, "nonfinite": nonfinite, "out": out}
        quantized: QuantizedArray = recording.recorder.run("quantize", (x, scheme), options)
        return quantized
    if qparams is None and out is None:
        # The short way of the most frequent call; whatever else there is to say, `_Task` says.
        if type(x) is np.ndarray and not _forced:
            # asking NumPy for the name of a dtype takes as long as a small kernel
            access, view, name = _NUMPY, x, None
        else:
            access, view, name = _memory(x)
        if view is not None:
            try:
                prepared = _quantization(
                    access, scheme, method, view.shape, view.dtype, view.strides, name
                )
                policy = POLICIES[nonfinite]
            except (TypeError, KeyError):
                pass
            else:
                count = 1 if threads is None and is_unset() else resolve_threads(threads)
                made = prepared.at_once(view, policy) if count == 1 else None
                flags, data, scale_data, zero_point, tensor_scale = (
                    prepared.into_new(view, policy, count) if made is None else made
                )
                if flags:
                    check_met(Met(flags), policy, located(x))
                q = made_of(data, scale_data, zero_point, tensor_scale, prepared.plan)
                return q if view is x else returned(q, x)
    task = _Task(x, scheme, "quantize", qparams, method, nonfinite, threads)
    if task.here.view is None:
        if out is not None:
            _refuse_out(task.here)
        return QuantizedArray._of(task.elsewhere(), task.plan)
    stored = task.allocate() if out is None else reused(out, task.plan, task.here)
    if qparams is not None:
        _store_given(task, stored)
    task.on_host(stored, scaled=qparams is not None)
    if out is None:
        return task.wrapped(stored)
    for part in out._parts():
        if part is not None:
            task.here.access.wrote(part)
    return out


def dequantize(
    q: QuantizedArray,
    *,
    dtype: Any = None,
    threads: int | None = None,
    out: Array | None = None,
) -> Array:
    """Turn codes and scales back into an array of floats.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    dtype : dtype, optional
        float32 (the default), float16, float64 or bfloat16; a float32 product is rounded once,
        to nearest even, into the narrower ones.
    threads : int, optional
        Threads to use; by default ``ARRAYQ_NUM_THREADS``, else 1. The result is the same.
    out : array, optional
        A writable array in CPU memory, of the shape and library of `q`, any strides, that receives
        the result; its dtype is the dtype of the result.

    Returns
    -------
    array of the shape and library of `q`
        ``f32(value(code) * s)`` with s the scale of the block, for two levels
        ``f32(block scale * tensor scale)``.

    Raises
    ------
    ArrayTypeError
        `q` is not a QuantizedArray, or the dtype is not one of the four.
    LayoutError
        `out` has another shape or dtype, or cannot be written.
    """
    if not isinstance(q, QuantizedArray):
        raise ArrayTypeError(
            f"q requires a QuantizedArray, got {type(q).__name__}; quantize it first"
        )
    if type(q.data) is not np.ndarray:
        introduce()
        if recording.is_recording():
            return recording.recorder.run("dequantize", (q,), {"dtype": dtype, "out": out})
    elif out is None and not _forced:
        return _decoder(q.plan, dtype_name(dtype)).into_new(q, resolve_threads(threads))
    threads = resolve_threads(threads)
    access, hosted_q = access_of(q), on_host(q)
    if out is None:
        access.check_dtype(dtype_name(dtype))
    if hosted_q is None:
        if out is not None:
            _refuse_out(located(q.data))
        path = _elsewhere(access.profile.paths[-1])
        with _quiet():
            return path.dequantize(
                access.space(q.data), Stored(*q._parts()), q.plan, dtype_name(dtype)
            )
    stored = Stored(*hosted_q._parts())
    if out is not None:
        target, bits = writable(out, q, dtype)
        host.dequantize(stored, q.plan, target, threads, dtype=bits)
        access.wrote(out)
        return out
    name = dtype_name(dtype)
    memory, bits = float_memory(q.shape, name, access)
    host.dequantize(stored, q.plan, memory, threads, dtype=bits)
    return access.wrap(memory, q.data, bits)


def calibrate(
    x: Array,
    scheme: QuantScheme | str,
    method: Calibration | str | None = None,
    *,
    nonfinite: Nonfinite | None = None,
    threads: int | None = None,
) -> QParams:
    """Find the scales that :func:`quantize` would use.

    Parameters
    ----------
    x, scheme, method, nonfinite, threads
        As for :func:`quantize`.

    Returns
    -------
    QParams
        Scales as float32 numbers that the scheme's scale dtype stores exactly, the tensor scale
        of two-level schemes, and the codebook of lookup schemes;
        ``quantize(x, scheme, qparams=calibrate(x, scheme))`` equals ``quantize(x, scheme)``.

    Raises
    ------
    ArrayTypeError, UnsupportedSchemeError, SchemeError, LayoutError, NonFiniteError
        As :func:`quantize` does.
    """
    introduce()
    if recording.is_recording():
        found: QParams = recording.recorder.run(
            "calibrate", (x, scheme, method), {"nonfinite": nonfinite}
        )
        return found
    task = _Task(x, scheme, "calibrate", None, method, nonfinite, threads)
    if task.here.view is None:
        return QuantizedArray._of(task.elsewhere(encode=False), task.plan).qparams
    stored = task.allocate()
    task.on_host(stored, encode=False)
    return task.wrapped(stored).qparams


def fake_quantize(
    x: Array,
    scheme: QuantScheme | str,
    *,
    qparams: QParams | None = None,
    method: Calibration | str | None = None,
    nonfinite: Nonfinite | None = None,
    threads: int | None = None,
) -> Array:
    """Round an array to what its quantized form can say.

    Parameters
    ----------
    x, scheme, qparams, method, nonfinite, threads
        As for :func:`quantize`.

    Returns
    -------
    array of the shape, dtype and library of `x`
        ``dequantize(quantize(x, scheme), dtype=x.dtype)``.

    Raises
    ------
    ArrayTypeError, UnsupportedSchemeError, SchemeError, LayoutError, QParamsError, NonFiniteError
        As :func:`quantize` does.
    """
    introduce()
    if recording.is_recording():
        options = {"qparams": qparams, "method": method, "nonfinite": nonfinite}
        return recording.recorder.run("fake_quantize", (x, scheme), options)
    _refuse_quantized(x)
    here = located(x)
    access, dtype = here.access, here.dtype
    described = _with_codebook_of(qparams, parse_scheme(scheme))
    calibration = _calibration(method, described)
    require(here.profile, described, "fake_quantize", dtype, here.path, calibration)

    def rounded(x: Array) -> tuple[Array, Callable[[], Array]]:
        q = quantize(
            x, scheme, qparams=qparams, method=method, nonfinite=nonfinite, threads=threads
        )
        return dequantize(q, dtype=dtype, threads=threads), lambda: not_clipped(x, q)

    return access.straight_through(x, rounded)


@functools.lru_cache(maxsize=4096)
def _quantization(
    access: Access,
    scheme: QuantScheme | str,
    method: Calibration | str | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: tuple[int, ...],
    name: str | None,
) -> host.Quantization:
    """What quantizing arrays in CPU memory takes that are alike in all of these."""
    scheme = parse_scheme(scheme)
    calibration = _calibration(method, scheme)
    require(access.profile, scheme, "quantize", name or dtype, "host", calibration)
    bits = None if name == dtype.name else name
    return host.quantization(plan(scheme, shape), calibration, dtype, strides, bits)


for _function in (quantize, dequantize, calibrate, fake_quantize):
    recording.FUNCTIONS[_function.__name__] = _function


@functools.lru_cache(maxsize=4096)
def _decoder(layout: Plan, name: str) -> host.Dequantization:
    return host.dequantization(layout, numpy_dtype(name))


def _memory(x: Array) -> tuple[Access, Any, str | None]:
    """An array's access, its memory where kernels may work on it as it is, its dtype."""
    _refuse_quantized(x)
    here = located(x)
    return here.access, None if here.access.aligned else here.view, here.dtype


def _calibration(method: Calibration | str | None, scheme: QuantScheme) -> Calibration:
    return scheme.numerics.calibration if method is None else Calibration.of(method, "method")


def _with_codebook_of(qparams: QParams | None, scheme: QuantScheme) -> QuantScheme:
    """Return a scheme with the codebook that parameters bring, where they do."""
    codebook = getattr(qparams, "codebook", None)
    return scheme if codebook is None else scheme.with_codebook(codebook)


def _refuse_quantized(x: object) -> None:
    if isinstance(x, QuantizedArray):
        raise ArrayTypeError(
            "x requires an array of floats, got a QuantizedArray: its codes are not values; "
            "use requantize(scheme) for another scheme, .dequantize() for the values"
        )


def _refuse_out(here: Located) -> NoReturn:
    raise ArgumentError(
        f"out requires arrays in CPU memory that can be written, got arrays of "
        f"{here.profile.name} that are out of reach; omit out"
    )


class _Task:
    """An operation on floats, checked and laid out: what there is to do, and where."""

    __slots__ = ("calibration", "here", "plan", "policy", "qparams", "threads")

    def __init__(
        self,
        x: Array,
        scheme: QuantScheme | str,
        operation: str,
        qparams: QParams | None,
        method: Calibration | str | None,
        nonfinite: str | None,
        threads: int | None,
    ) -> None:
        _refuse_quantized(x)
        self.threads = resolve_threads(threads)
        here = located(x)
        scheme = parse_scheme(scheme)
        if qparams is not None:
            qparams, unseen = hosted(qparams)
            if unseen is not None and here.view is not None:
                x = unseen.access.asarray(here.view, unseen.array)
                here = unseen._replace(array=x, dtype=here.dtype)
        scheme = _with_codebook_of(qparams, scheme)
        self.here = here
        self.qparams = qparams
        self.calibration = _calibration(method, scheme)
        require(here.profile, scheme, operation, here.dtype, here.path, self.calibration)
        self.plan = plan(scheme, here.access.shape(here.array))
        self.policy = policy_of(nonfinite, here)

    def allocate(self) -> Stored:
        """Memory for the result on the host."""
        return host.allocate(self.plan, aligned=self.here.access.aligned)

    def on_host(self, stored: Stored, *, scaled: bool = False, encode: bool = True) -> None:
        """Fill `stored` by the compiled kernels."""
        here = self.here
        assert here.view is not None, "the path of arrays in CPU memory"
        met = host.quantize(
            here.view, self.plan, self.calibration, self.policy, self.threads, stored,
            encode=encode, scaled=scaled, dtype=here.bits,
        )  # fmt: skip
        check_met(met, self.policy, here)

    def wrapped(self, stored: Stored) -> QuantizedArray:
        """Return the result in the library that the array came from."""
        return returned(QuantizedArray._of(stored, self.plan), self.here.array)

    def elsewhere(self, *, encode: bool = True) -> Stored:
        """Return the result of the generic or the chunked path."""
        here = self.here
        access, x = here.access, here.access.detached(here.array)
        space = access.space(x)
        visible = access.sees_values(x)
        with _quiet() if visible else contextlib.nullcontext():
            if visible and self.policy is not Policy.PROPAGATE:
                check_values(space, x, self.policy, here)
            given = None
            if self.qparams is not None:
                given = stored_elsewhere(
                    space, self.qparams, self.plan,
                    visible=visible, allow_nan=self.policy is Policy.PROPAGATE,
                )  # fmt: skip
            result: Stored = _elsewhere(here.path).quantize(
                space, x, self.plan, self.calibration, self.policy, given=given, encode=encode
            )
            return result


def _quiet() -> contextlib.AbstractContextManager[None]:
    """Silence NumPy, which some libraries stand on, where arithmetic overflows as it is to."""
    return np.errstate(all="ignore")


def _store_given(task: _Task, stored: Stored) -> None:
    """Write given parameters into `stored`, after checking them."""
    scheme = task.plan.scheme
    assert task.qparams is not None, "there are parameters to store"
    given = validate(
        task.qparams, scheme, task.plan.grid, allow_nan=task.policy is Policy.PROPAGATE, copy=False
    )
    store_scales(given.scale, scheme.scale_dtype, stored.scale_data)
    if scheme.zero is not None and stored.zero_point is not None:
        stored.zero_point[...] = zero_to_bits(given.zero_point, scheme.zero.dtype)
    if stored.tensor_scale is not None:
        stored.tensor_scale[...] = given.tensor_scale
