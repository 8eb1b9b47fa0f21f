"""quantize and dequantize: from an array to codes and scales, and back.

One direction of flow::

    quantize(x, scheme)
      -> profile_of(x)          which library, what it can do
      -> capability.require     refuse before any work
      -> layout.plan            integers only: grid, words, boxes
      -> path.quantize          measure -> scale -> encode -> pack, box by box
      -> QuantizedArray

and :func:`dequantize` is its mirror.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from arrayq._paths import host
from arrayq._paths.threads import resolve_threads
from arrayq.array import QuantizedArray
from arrayq.capability import require
from arrayq.errors import ArgumentError, ArrayTypeError, LayoutError, NonFiniteError
from arrayq.layout import Plan, plan
from arrayq.namespaces import profile_of
from arrayq.numerics import Calibration
from arrayq.presets import scheme as parse_scheme
from arrayq.qparams import QParams, validate
from arrayq.scheme import QuantScheme
from arrayq.stored_numbers import store_scales, zero_to_bits

__all__ = ["calibrate", "dequantize", "fake_quantize", "quantize"]

Array = npt.NDArray[Any]
Nonfinite = Literal["raise", "propagate", "saturate"]

_POLICIES = {
    None: host.Policy.RAISE,
    "raise": host.Policy.RAISE,
    "propagate": host.Policy.PROPAGATE,
    "saturate": host.Policy.SATURATE,
}


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
    x : ndarray
        float16, float32, float64 or bfloat16, of any shape, strides and byte order; read without
        a copy. float64 is rounded once to float32; all arithmetic is float32.
    scheme : QuantScheme or str
        What to make, or its spelling: ``"nvfp4"``, ``"int4/32"``.
    qparams : QParams, optional
        Scales to encode against; by default they are calibrated on `x`.
    method : {"minmax", "absmean"}, optional
        How the range of a block is found; by default what the scheme says (minmax, except for
        ternary).
    nonfinite : {"raise", "propagate", "saturate"}, optional
        What to do about NaN and infinities. ``"raise"``, the default: NonFiniteError.
        ``"propagate"``: the scale of their block becomes NaN. ``"saturate"``: an infinity gets
        the largest code of its sign and counts for no scale, a NaN raises.
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
    _refuse_quantized(x)
    threads = resolve_threads(threads)
    policy = _policy(nonfinite)
    array, layout = _planned(x, scheme, "quantize", qparams)
    calibration = _calibration(method, layout.scheme)
    stored = host.allocate(layout) if out is None else _reused(out, layout, array)
    if qparams is not None:
        given = validate(
            qparams,
            layout.scheme,
            layout.grid,
            allow_nan=policy is host.Policy.PROPAGATE,
            copy=False,
        )
        store_scales(given.scale, layout.scheme.scale_dtype, stored.scale_data)
        if layout.scheme.zero is not None and stored.zero_point is not None:
            stored.zero_point[...] = zero_to_bits(given.zero_point, layout.scheme.zero.dtype)
        if stored.tensor_scale is not None:
            stored.tensor_scale[...] = given.tensor_scale
    met = host.quantize(
        array, layout, calibration, policy, threads, stored, scaled=qparams is not None
    )
    _check_finite(met, policy, array)
    return QuantizedArray._of(stored, layout) if out is None else out


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
    out : ndarray, optional
        A writable array of the shape of `q`, any strides, that receives the result; its dtype is
        the dtype of the result.

    Returns
    -------
    ndarray of the shape of `q`
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
    threads = resolve_threads(threads)
    if out is None:
        out = np.empty(q.shape, _float_dtype("float32" if dtype is None else dtype))
        target = out
    else:
        target = _writable(out, q.shape, dtype)
        parts = (q.data, q.scale_data, q.zero_point)
        if any(part is not None and _share_memory(out, part) for part in parts):
            raise LayoutError("out requires memory of its own, got memory that q lies in")
    host.dequantize(
        host.Stored(q.data, q.scale_data, q.zero_point, q.tensor_scale), q.plan, target, threads
    )
    return out


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
    _refuse_quantized(x)
    threads = resolve_threads(threads)
    policy = _policy(nonfinite)
    array, layout = _planned(x, scheme, "calibrate", None)
    stored = host.allocate(layout)
    met = host.quantize(
        array, layout, _calibration(method, layout.scheme), policy, threads, stored, encode=False
    )
    _check_finite(met, policy, array)
    return QuantizedArray._of(stored, layout).qparams


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
    ndarray of the shape and dtype of `x`
        ``dequantize(quantize(x, scheme), dtype=x.dtype)``.

    Raises
    ------
    ArrayTypeError, UnsupportedSchemeError, SchemeError, LayoutError, QParamsError, NonFiniteError
        As :func:`quantize` does.
    """
    q = quantize(x, scheme, qparams=qparams, method=method, nonfinite=nonfinite, threads=threads)
    return dequantize(q, dtype=np.asarray(x).dtype.newbyteorder("="), threads=threads)


def _refuse_quantized(x: object) -> None:
    if isinstance(x, QuantizedArray):
        raise ArrayTypeError(
            "x requires an array of floats, got a QuantizedArray: its codes are not values; "
            "use requantize(scheme) for another scheme, .dequantize() for the values"
        )


def _planned(
    x: Array, scheme: QuantScheme | str, operation: str, qparams: QParams | None
) -> tuple[Array, Plan]:
    """Check that an operation can be done, and lay it out."""
    profile = profile_of(x)
    array = np.asarray(x)
    scheme = parse_scheme(scheme)
    if qparams is not None and getattr(qparams, "codebook", None) is not None:
        scheme = scheme.with_codebook(qparams.codebook)
    require(profile, scheme, operation, array.dtype)
    return array, plan(scheme, array.shape)


def _policy(nonfinite: str | None) -> host.Policy:
    choices = tuple(_POLICIES)
    if nonfinite not in choices:
        raise ArgumentError(
            f"nonfinite requires one of raise, propagate, saturate, got {nonfinite!r}"
        )
    return _POLICIES[nonfinite]


def _calibration(method: Calibration | str | None, scheme: QuantScheme) -> Calibration:
    if method is None:
        return scheme.numerics.calibration
    return Calibration.of(method, "method")


def _reused(out: QuantizedArray, layout: Plan, x: Array) -> host.Stored:
    """Stored parts of an array that is to be overwritten with what `x` quantizes to."""
    if not isinstance(out, QuantizedArray) or out.plan != layout:
        got = type(out).__name__
        if isinstance(out, QuantizedArray):
            got = f"shape {out.shape} and scheme {out.scheme}"
        raise LayoutError(
            f"out requires a QuantizedArray of shape {layout.shape} and scheme {layout.scheme}, "
            f"got {got}"
        )
    for name in ("data", "scale_data", "zero_point", "tensor_scale"):
        part = getattr(out, name)
        if part is not None and not (part.flags.c_contiguous and part.flags.writeable):
            raise LayoutError(
                f"out requires writable C-contiguous memory, got {name} without; copy it"
            )
    stored = host.Stored(out.data, out.scale_data, out.zero_point, out.tensor_scale)
    memory = (stored.data, stored.scale_data, stored.zero_point, stored.tensor_scale, x)
    parts = [part for part in memory if part is not None]
    for one, other in itertools.combinations(parts, 2):
        if _share_memory(one, other):
            raise LayoutError(
                "out requires memory of its own, got parts that overlap each other or x; use "
                "q.copy()"
            )
    return stored


def _share_memory(a: Array, b: Array) -> bool:
    """Return whether two arrays share memory; in doubt they do."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(array: Array) -> bool:
    """Return whether two elements may share memory: whether some axis, taken by ascending
    strides, steps less than the extent of those before it.
    """
    extent = array.itemsize
    steps = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    for stride, length in steps:
        if stride < extent:
            return True
        extent += stride * (length - 1)
    return False


def _float_dtype(dtype: Any) -> np.dtype[Any]:
    """Dtype object of one of the four float types, by name where NumPy does not know it."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise ArrayTypeError(
                "dtype bfloat16 requires the package ml_dtypes, which is not installed; install "
                "it, or decode to float32"
            ) from error
        dtype = ml_dtypes.bfloat16
    try:
        resolved: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise ArrayTypeError(f"dtype requires {_FLOATS}, got {dtype!r}") from error
    if resolved.name not in host.ELEMENT_KINDS or not resolved.isnative:
        raise ArrayTypeError(f"dtype requires {_FLOATS} in native byte order, got {resolved}")
    return resolved


_FLOATS = "one of " + ", ".join(host.ELEMENT_KINDS)


def _writable(out: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    if not isinstance(out, np.ndarray):
        raise LayoutError(f"out requires an ndarray of shape {shape}, got {type(out).__name__}")
    resolved = _float_dtype(out.dtype)
    if dtype is not None and _float_dtype(dtype) != resolved:
        raise LayoutError(f"out requires dtype {np.dtype(dtype)}, got {out.dtype}; leave dtype out")
    if out.shape != shape or not out.flags.writeable:
        state = "" if out.flags.writeable else " read-only"
        raise LayoutError(f"out requires a writable array of shape {shape}, got{state} {out.shape}")
    if out.size and _overlaps_itself(out):
        raise LayoutError(
            "out requires an array whose elements do not overlap, got a broadcast one"
        )
    return out.view(np.ndarray)


def _check_finite(met: host.Met, policy: host.Policy, x: Array) -> None:
    if policy is host.Policy.RAISE and met:
        _raise_nonfinite(x, "nonfinite='propagate' or 'saturate' allows them")
    if policy is host.Policy.SATURATE and met.refused:
        _raise_nonfinite(x, "nonfinite='propagate' allows NaN, 'saturate' only infinities")


def _raise_nonfinite(x: Array, advice: str) -> NoReturn:
    """Raise NonFiniteError with counts; what float32 cannot hold counts as infinite."""
    with np.errstate(over="ignore"):
        numbers = x.astype(np.float32)
    nan, infinite = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
    first = tuple(int(i) for i in np.argwhere(~np.isfinite(numbers))[0])
    rounded = infinite - int(np.isinf(x).sum())
    beyond = f" ({rounded} of them finite in {x.dtype} but not in float32)" if rounded else ""
    raise NonFiniteError(
        f"x requires finite numbers, got {nan} NaN and {infinite} infinities{beyond}, the first "
        f"at index {first}; {advice}",
        nan=nan,
        inf=infinite,
        first_index=first,
    )
