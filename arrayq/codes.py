"""Codes by themselves: numbers to codes, codes to words, and back, without any scale."""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from arrayq._kernels import kernels
from arrayq._kernels.codecs import codec_of_format
from arrayq.capability import require
from arrayq.errors import (
    ArgumentError,
    ArrayTypeError,
    CodeError,
    LayoutError,
    NonFiniteError,
    SchemeError,
)
from arrayq.formats import Format, Kind, format_of
from arrayq.hosting import floats_on_host
from arrayq.namespaces import library_of, located
from arrayq.scheme import QuantScheme, QuantStore, QuantValue, ScaleDtype
from arrayq.stored_numbers import bits_to_scale

__all__ = [
    "check_codes", "decode", "encode", "pack", "pack_fields", "sign_extend", "unpack",
    "unpack_fields",
]  # fmt: skip

Array = npt.NDArray[Any]


def encode(
    x: Any,
    name: str,
    *,
    overflow: Literal["saturate", "nan", "inf"] = "saturate",
    nan: int | None = None,
    negative_zero: Literal["keep", "drop"] = "keep",
    nonpositive: Literal["magnitude", "nan"] = "magnitude",
) -> Any:
    """Return the code of the nearest number of a format for each element.

    Integers round half away from zero; everything else rounds half to even, UE8M0 half up. The
    keywords are where published casts differ; their source is the table of conventions in
    :doc:`/numerics/minifloats`.

    Parameters
    ----------
    x : ndarray
        float16, float32, float64 or bfloat16 numbers; float64 rounds once to float32 first.
    name : str
        A row of :mod:`arrayq.formats`: ``"e4m3"``, ``"q4s"``, ``"ue8m0"``, ``"bf16"`` ...
    overflow : {"saturate", "nan", "inf"}
        What a number beyond the largest finite one becomes, an infinity included: the code of
        the largest one, of NaN, or of infinity.
    nan : int, optional
        The code that a NaN gets; its sign bit is added where the format has NaN and a sign. By
        default the format's own NaN.
    negative_zero : {"keep", "drop"}
        Whether an exact -0.0 keeps its sign; what rounds to zero always does.
    nonpositive : {"magnitude", "nan"}
        UE8M0 only, which has neither zero nor sign: zeros and negative numbers count by their
        magnitude (0 becomes 2**-127), as torch does, or become NaN, as ml_dtypes does.

    Returns
    -------
    array of the shape and library of `x`
        int8 for integer formats, else uint8, uint16 or uint32 fields.

    Raises
    ------
    NonFiniteError
        `x` holds a NaN, the format has none and no code is given for it.
    SchemeError
        No format has that name, or it has no code for what `overflow` asks.
    ArrayTypeError
        `x` is not an array of floats.
    UnsupportedSchemeError
        The array is traced, lazy, or not in CPU memory.

    Examples
    --------
    >>> import numpy as np, arrayq as aq
    >>> aq.encode(np.array([0.0, 1.0, 448.0, 1e4], np.float32), "e4m3")
    array([  0,  56, 126, 126], dtype=uint8)
    """
    row = format_of(name)
    _check_choice("overflow", overflow, ("saturate", "nan", "inf"))
    _check_choice("negative_zero", negative_zero, ("keep", "drop"))
    _check_choice("nonpositive", nonpositive, ("magnitude", "nan"))
    over_code = _overflow_code(row, overflow, nan)
    here = located(x)
    require(here.profile, QuantScheme(), "encode", here.dtype, here.path)
    array = floats_on_host(here)
    with np.errstate(over="ignore"):
        numbers = np.asarray(array, np.float32, order="C")
    is_nan = np.isnan(numbers)
    nan_code = _nan_code(row, nan, is_nan)
    nonpositive_numbers = numbers <= 0
    if not row.has_zero:
        numbers = np.abs(numbers)
        codes = _nearest_power(numbers)
    elif row.bits <= 8:
        codes = np.empty(numbers.shape, np.uint8)
        unsigned = row.kind is Kind.MINIFLOAT and not row.signed
        source = np.maximum(numbers, np.float32(0)) if unsigned else numbers
        kernels.elements.encode(
            source.reshape(-1), *codec_of_format(row, native=True).arguments, codes.reshape(-1)
        )
    else:
        codes = _nearest_wide(numbers, row)
    negative = np.signbit(numbers)
    sign = np.where(negative, row.sign_mask, 0).astype(codes.dtype)
    if over_code is not None:
        with np.errstate(over="ignore"):  # float32's own bound is beyond float32
            above, below = np.float32(row.saturates_above), np.float32(row.saturates_below)
        beyond = (numbers >= above) | (numbers <= below)
        codes = np.where(beyond, codes.dtype.type(over_code) | sign, codes)
    if nonpositive == "nan" and not row.has_zero:
        codes = np.where(nonpositive_numbers, codes.dtype.type(row.nan_code), codes)
    if negative_zero == "drop" and row.sign_mask:
        codes = np.where((numbers == 0) & negative, codes.dtype.type(0), codes)
    if nan_code is not None:
        signed_nan = row.nan_code is not None
        nan_codes = codes.dtype.type(nan_code) | (sign if signed_nan else codes.dtype.type(0))
        codes = np.where(is_nan, nan_codes, codes)
    codes = np.asarray(codes)
    return _returned(codes.view(np.int8) if row.kind is Kind.INT else codes, x)


def _memory(given: Any, operation: str, scheme: QuantScheme) -> Array:
    """Return codes or words in CPU memory; sequences of numbers are taken as NumPy's arrays.

    Raises
    ------
    UnsupportedSchemeError
        The memory of an array is out of reach.
    """
    if not hasattr(given, "dtype"):
        return np.asarray(given)
    here = located(given)
    require(here.profile, scheme, operation, path=here.path)
    return here.access.copied(given) if here.view is None else here.view


def _returned(result: Array, like: Any) -> Any:
    """Return an array in the library of another."""
    if isinstance(like, np.ndarray) or not hasattr(like, "dtype"):
        return result
    return library_of(like).reach().wrap(result, like)


@functools.lru_cache(maxsize=256)
def _scheme_of(value: QuantValue, store: QuantStore) -> QuantScheme:
    """Return a scheme of a value and a store, to ask the capability table with."""
    return QuantScheme().with_value(value).with_store(store)


def _check_choice(argument: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise ArgumentError(f"{argument} requires one of {', '.join(choices)}, got {given!r}")


def _overflow_code(row: Format, overflow: str, nan: int | None) -> int | None:
    """Code without sign of a number beyond the largest; None for the largest itself."""
    if overflow == "saturate":
        return None
    code = row.inf_code if overflow == "inf" else row.nan_code if nan is None else nan
    if code is None:
        raise SchemeError(
            f"overflow={overflow!r} requires a format with a code for it, got {row.name}; use "
            "overflow='saturate'"
        )
    return code


def _nan_code(row: Format, nan: int | None, is_nan: npt.NDArray[np.bool_]) -> int | None:
    """Code of NaN, or None where there is no NaN to encode."""
    if nan is not None and not (isinstance(nan, int) and 0 <= nan <= row.code_mask):
        raise CodeError(
            f"nan requires a code from 0 to {row.code_mask:#x} of {row.name}, got {nan!r}"
        )
    if not is_nan.any():
        return None
    code = row.nan_code if nan is None else nan
    if code is None:
        first = tuple(int(i) for i in np.argwhere(is_nan)[0])
        raise NonFiniteError(
            f"{row.name} requires numbers because it has no code for NaN, got "
            f"{int(is_nan.sum())} NaN, the first at {first}; give a code with nan=",
            nan=int(is_nan.sum()),
            inf=0,
            first_index=first,
        )
    return code


def _nearest_power(magnitude: npt.NDArray[np.float32]) -> Array:
    """UE8M0 bytes: the nearest power of two, ties up, saturating at 2**127.

    Below 2**-126 whatever exceeds 2**-127 goes up, as torch and ml_dtypes before 0.7 do.
    """
    bits = magnitude.view(np.uint32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) >= 0x400000)
    exponent = np.where(bits < 0x800000, bits > 0x400000, exponent)
    return np.asarray(np.minimum(exponent, 254).astype(np.uint8))


def _nearest_wide(numbers: npt.NDArray[np.float32], row: Format) -> Array:
    """Codes of the 16- and 32-bit formats, saturating: the top bits of a float, or all of them."""
    limit = np.float32(row.qmax)
    clipped = np.clip(numbers, -limit, limit)
    if row.bits == 32:
        return clipped.view(np.uint32)
    if row.exponent_bits == 5:
        with np.errstate(invalid="ignore"):
            return clipped.astype(np.float16).view(np.uint16)
    bits = clipped.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, bits >> 16, rounded).astype(np.uint16)


def decode(codes: Any, name: str) -> Any:
    """Return the number that each code of a format means.

    Parameters
    ----------
    codes : array of integers
        Signed integers for integer formats, fields for all others.
    name : str
        A row of :mod:`arrayq.formats`.

    Returns
    -------
    float32 array of the shape and library of `codes`
        Exact values.

    Raises
    ------
    CodeError
        A code lies outside its field.
    ArrayTypeError
        `codes` is not an array of integers.
    SchemeError
        No format has that name.
    UnsupportedSchemeError
        The array is traced, lazy, or not in CPU memory.
    """
    row = format_of(name)
    array = _checked(_memory(codes, "decode", QuantScheme()), row, signed=row.kind is Kind.INT)
    return _returned(_numbers(array, row), codes)


def _numbers(array: Array, row: Format) -> npt.NDArray[np.float32]:
    """Return the numbers that checked codes mean."""
    if row.bits == 32:
        return np.array(array, np.uint32).view(np.float32)
    if row.kind is Kind.FIELD:
        return array.astype(np.float32)
    if row.name in {dtype.value for dtype in ScaleDtype}:
        return bits_to_scale(array.astype(row.code_dtype), ScaleDtype(row.name))
    fields = np.array(array, np.int8 if row.kind is Kind.INT else np.uint8, order="C")
    values = np.empty(fields.shape, np.float32)
    kernels.elements.decode(
        fields.reshape(-1).view(np.uint8),
        *codec_of_format(row, native=True).arguments,
        values.reshape(-1),
    )
    return values


def _checked(codes: Array, row: Format, *, signed: bool) -> Array:
    """Return codes as an integer array after checking that each lies inside its field."""
    array = np.asarray(codes)
    if array.dtype.kind not in "iu":
        raise ArrayTypeError(
            f"codes requires an array of integers, got {array.dtype}; encode() makes them"
        )
    low, high = (
        (-(1 << (row.bits - 1)), (1 << (row.bits - 1)) - 1) if signed else (0, row.code_mask)
    )
    if array.size:
        outside = (array < low) | (array > high)
        if outside.any():
            first = tuple(int(i) for i in np.argwhere(outside)[0])
            raise CodeError(
                f"codes requires integers from {low} to {high} for {row.name}, got "
                f"{int(array[first])} at index {first}"
            )
    return array


def check_codes(data: Array, scheme: QuantScheme) -> None:
    """Raise CodeError for native data with a code outside the field of its format."""
    if not scheme.store.is_packed and scheme.value.bits < 8:
        _checked(data, scheme.value.format, signed=scheme.codes_signed)


def pack(codes: Any, value: QuantValue | str, store: QuantStore | str = "packed_u32") -> Any:
    """Return words of codes.

    Along the packed axis, code k of a line occupies bits ``[k * bits, (k + 1) * bits)`` of its
    word, the first code in the lowest bits; the last word of a line is filled with zeros.

    Parameters
    ----------
    codes : array of integers
        Signed integers for the Q values, fields for all others; any rank.
    value : QuantValue or str
        The format, which gives the width.
    store : QuantStore or str
        ``"packed_u32"``, ``"packed_native"``, with ``(dim)`` for an axis other than the
        innermost; ``"native"`` keeps a code per element.

    Returns
    -------
    array of the library of `codes`
        uint32 or uint8 words, the packed axis divided by the codes per word, rounding up; int8
        or uint8 codes for the native store.

    Raises
    ------
    CodeError
        A code lies outside its field: 9 does not fit into four signed bits.
    LayoutError
        The packed axis does not exist.
    UnsupportedSchemeError
        The array is traced, lazy, or not in CPU memory.
    """
    value, store = QuantValue.of(value, "value"), QuantStore.of(store)
    signed = value.kind is Kind.INT
    array = _checked(_memory(codes, "pack", _scheme_of(value, store)), value.format, signed=signed)
    if not store.is_packed:
        return _returned(np.array(array, np.int8 if signed else np.uint8), codes)
    fields = array.astype(np.int8).view(np.uint8) if signed else array.astype(np.uint8)
    words = pack_fields(fields & np.uint8((1 << value.bits) - 1), value, store)
    return _returned(words, codes)


def pack_fields(fields: npt.NDArray[np.uint8], value: QuantValue, store: QuantStore) -> Array:
    """Return words of unsigned fields that lie within their bits; `unpack_fields` undoes it."""
    axis = _packed_axis(fields.ndim, store)
    lines = np.atleast_1d(fields).swapaxes(axis, -1)
    per_word, word_bytes = store.codes_per_word(value), store.word_bits // 8
    words = -(-lines.shape[-1] // per_word)
    if words * per_word == lines.shape[-1]:
        whole = np.ascontiguousarray(lines)
    else:
        whole = np.zeros((*lines.shape[:-1], words * per_word), np.uint8)
        whole[..., : lines.shape[-1]] = lines
    packed = np.empty((*lines.shape[:-1], words), store.word_dtype)
    if packed.size:
        kernels.elements.pack(
            whole.reshape(-1, words * per_word), per_word, value.bits, word_bytes,
            packed.reshape(-1, words).view(np.uint8),
        )  # fmt: skip
    moved = np.ascontiguousarray(packed.swapaxes(axis, -1))
    return moved.reshape(()) if fields.ndim == 0 else moved


def unpack(
    words: Any,
    value: QuantValue | str,
    store: QuantStore | str,
    extent: int | None = None,
) -> Any:
    """Return the codes in words; the inverse of :func:`pack`.

    Parameters
    ----------
    words : array
        uint32 or uint8 words, as the store asks.
    value : QuantValue or str
        The format, which gives the width.
    store : QuantStore or str
        How the codes were packed.
    extent : int, optional
        Codes along the packed axis; by default whole words.

    Returns
    -------
    array of the library of `words`
        int8 for the Q values, sign-extended; uint8 fields for all others.

    Raises
    ------
    LayoutError
        `words` has not the store's dtype, or no axis of that many codes.
    UnsupportedSchemeError
        The array is traced, lazy, or not in CPU memory.
    """
    value, store = QuantValue.of(value, "value"), QuantStore.of(store)
    memory = _memory(words, "unpack", _scheme_of(value, store))
    codes: Array = unpack_fields(memory, value, store, extent)
    if value.kind is Kind.INT:
        codes = sign_extend(codes, value.bits)
    return _returned(codes, words)


def sign_extend(fields: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.int8]:
    """Return two's complement fields as signed integers."""
    sign = np.uint8(1 << (bits - 1))
    return np.asarray(np.subtract(fields ^ sign, sign)).view(np.int8)


def unpack_fields(
    words: Array, value: QuantValue, store: QuantStore, extent: int | None
) -> npt.NDArray[np.uint8]:
    """Return the codes in words as unsigned fields, whatever the value."""
    array = np.asarray(words)
    expected = store.word_dtype
    native_integer = not store.is_packed and array.dtype == np.int8
    if array.dtype != expected and not native_integer:
        raise LayoutError(f"words requires {expected} for store {store}, got {array.dtype}")
    if not store.is_packed:
        return array.astype(np.uint8) & np.uint8((1 << value.bits) - 1)
    axis = _packed_axis(array.ndim, store)
    lines = np.atleast_1d(array).swapaxes(axis, -1)
    per_word, word_bytes = store.codes_per_word(value), store.word_bits // 8
    count = lines.shape[-1]
    try:
        length = count * per_word if extent is None else operator.index(extent)
    except TypeError as error:
        raise LayoutError(f"extent requires an integer, got {extent!r}") from error
    if array.ndim == 0:
        length = 1
    if -(-length // per_word) != count:
        raise LayoutError(
            f"extent requires as many codes as fill {count} words of {per_word}, got {extent}"
        )
    fields = np.empty((*lines.shape[:-1], count * per_word), np.uint8)
    if fields.size:
        dense = np.ascontiguousarray(lines)
        kernels.elements.unpack(
            dense.reshape(-1, count).view(np.uint8), per_word, value.bits, word_bytes,
            fields.reshape(-1, count * per_word),
        )  # fmt: skip
    moved = np.ascontiguousarray(fields[..., :length].swapaxes(axis, -1))
    return moved.reshape(()) if array.ndim == 0 else moved


def _packed_axis(ndim: int, store: QuantStore) -> int:
    if store.dim >= max(ndim, 1):
        raise LayoutError(
            f"store {store} requires an array with more than {store.dim} axes, got {ndim}"
        )
    return max(ndim, 1) - 1 - store.dim
