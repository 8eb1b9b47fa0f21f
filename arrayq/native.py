"""Codes and scales in the narrow dtypes that array libraries have of their own.

``float8_e4m3fn``, ``float4_e2m1fn_x2``, ``int4`` and the like are the same bits as ours under
another name. Where a library lays them out as we do, nothing is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arrayq.capability import Profile
from arrayq.errors import ArrayTypeError, LayoutError, UnsupportedSchemeError
from arrayq.layout import plan
from arrayq.namespaces import library_of, located
from arrayq.presets import scheme as parse_scheme
from arrayq.scheme import QuantScheme, QuantStore, QuantValue, ScaleDtype, StoreKind
from arrayq.stored_parts import packed, unpacked

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = ["NativeArrays", "code_dtype", "from_native", "native", "scale_dtype"]

_EVERYWHERE: Final = ("int8", "uint8", "float32")
_PAIRS: Final = QuantStore(StoreKind.PACKED_NATIVE, 0)


class NativeArrays(NamedTuple):
    """Codes and scales in native dtypes.

    Attributes
    ----------
    data : array
        Codes in the dtype of the value: one per element, or pairs in the last axis where the name
        of the dtype ends in ``_x2``.
    scale : array
        The grid of scales, in the dtype of the scales.
    zero_point : array or None
        The grid of zero points as numbers.
    tensor_scale : array or None
        The float32 scale that the scales are relative to.
    """

    data: Any
    scale: Any
    zero_point: Any
    tensor_scale: Any


def native(q: QuantizedArray) -> NativeArrays:
    """Return codes and scales in the narrow dtypes of the array's own library.

    Parameters
    ----------
    q : QuantizedArray
        An array that starts on a block boundary.

    Returns
    -------
    NativeArrays
        The memory of `q` where the library lays codes out as `q` does: one per element for the
        native store, pairs in the last axis for torch's ``float4_e2m1fn_x2`` and the packed native
        store. Otherwise the codes are unpacked or packed again.

    Raises
    ------
    UnsupportedSchemeError
        The library has no dtype for the codes or the scales.
    LayoutError
        The array starts inside a block, or pairs do not fill its last axis.
    """
    if any(q.block_offset):
        raise LayoutError(
            f"native requires an array that starts on a block boundary, got block_offset "
            f"{q.block_offset}; q.requantize(q.scheme) starts on one"
        )
    access = library_of(q.data).reach()
    name = code_dtype(q.scheme.value, access.profile)
    data = _paired(q) if name.endswith("_x2") else _one_each(q)
    scale_name = scale_dtype(q.scheme.scale_dtype, access.profile)
    return NativeArrays(
        access.reinterpreted(data, name),
        access.reinterpreted(q.scale_data, scale_name),
        q.zero,
        q.tensor_scale,
    )


def from_native(
    data: Any,
    scale: Any,
    scheme: QuantScheme | str,
    *,
    tensor_scale: Any = None,
    zero_point: Any = None,
    extent: int | None = None,
    nonfinite: str | None = None,
) -> QuantizedArray:
    """Return the array that codes and scales in native dtypes stand for.

    Parameters
    ----------
    data : array
        Codes in the dtype of the scheme's value, as :func:`native` gives them.
    scale : array
        Scales in the dtype of the scheme's scales; a grid of the array's rank.
    scheme : QuantScheme or str
        How they are to be read.
    tensor_scale : array, optional
        For two-level schemes.
    zero_point : array, optional
        For affine schemes: zero points as stored.
    extent : int, optional
        Length of the last axis where the dtype holds pairs; by default an even one.
    nonfinite : {"raise", "propagate"}, optional
        Whether NaN scales are refused, which is the default, or allowed.

    Returns
    -------
    QuantizedArray
        In the library of `data`; over its memory where the layout is the scheme's.

    Raises
    ------
    ArrayTypeError
        `data` or `scale` has another dtype than the scheme's.
    LayoutError, QParamsError, CodeError
        As :class:`QuantizedArray` does.
    """
    from arrayq.array import QuantizedArray

    scheme = parse_scheme(scheme)
    here = located(data)
    access = here.access
    name = code_dtype(scheme.value, access.profile)
    if here.dtype != name:
        raise ArrayTypeError(
            f"data requires {name} for {scheme.value} codes of {access.profile.name}, got "
            f"{here.dtype}"
        )
    wanted = scale_dtype(scheme.scale_dtype, access.profile)
    got = access.dtype_name(scale)
    if got != wanted:
        raise ArrayTypeError(
            f"scale requires {wanted} for {scheme.scale_dtype} scales of {access.profile.name}, "
            f"got {got}"
        )
    codes = access.bits_of(data, signed=scheme.codes_signed and not scheme.store.is_packed)
    if name.endswith("_x2"):
        pairs = tuple(codes.shape)
        length = 2 * pairs[-1] if extent is None else extent
        extent = length
        if scheme.store != _PAIRS:
            fields = unpacked(codes, scheme.value, _PAIRS, length)
            codes, extent = _stored(fields, scheme), _extent(fields, scheme)
    elif scheme.store.is_packed:
        codes, extent = _stored(codes, scheme), _extent(codes, scheme)
    return QuantizedArray(
        codes,
        access.bits_of(scale, signed=False) if wanted != "float32" else scale,
        scheme,
        extent=extent,
        tensor_scale=tensor_scale,
        zero_point=zero_point,
        nonfinite=nonfinite,
    )


def code_dtype(value: QuantValue, row: Profile) -> str:
    """Return the name of the dtype that a library has for the codes of a value.

    Raises
    ------
    UnsupportedSchemeError
        It has none.
    """
    name = value.format.native_dtype
    for candidate in (name, f"{name}_x2"):
        if candidate in (*row.native_dtypes, *_EVERYWHERE):
            return candidate
    raise UnsupportedSchemeError(
        f"native on {row.name} requires a dtype for {value} codes, which {row.name} lacks; use "
        "q.codes()"
    )


def scale_dtype(dtype: ScaleDtype, row: Profile) -> str:
    """Return the name of the dtype that a library has for scales.

    Raises
    ------
    UnsupportedSchemeError
        It has none.
    """
    name = dtype.format.native_dtype
    has_half = name == "float16" and name in row.dtypes
    if has_half or name in (*row.native_dtypes, *_EVERYWHERE):
        return name
    raise UnsupportedSchemeError(
        f"native on {row.name} requires a dtype for {dtype} scales, which {row.name} lacks; use "
        "q.scale"
    )


def _one_each(q: QuantizedArray) -> Any:
    """Codes of the array, one per element; its own memory in the native store."""
    return q.codes() if q.scheme.store.is_packed else q.data


def _paired(q: QuantizedArray) -> Any:
    """Codes of the array as bytes of two along the last axis."""
    if not q.shape or q.shape[-1] % 2:
        raise LayoutError(
            f"native requires an even length of the last axis, got shape {q.shape}; its dtype "
            "holds pairs"
        )
    if q.scheme.store == _PAIRS:
        return q.data
    return packed(q.codes(), q.scheme.value, _PAIRS)


def _stored(fields: Any, scheme: QuantScheme) -> Any:
    """Fields as the scheme stores them."""
    return packed(fields, scheme.value, scheme.store) if scheme.store.is_packed else fields


def _extent(fields: Any, scheme: QuantScheme) -> int | None:
    return plan(scheme, tuple(fields.shape)).meaning[1]
