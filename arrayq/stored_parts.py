"""The stored parts of a quantized array, of whatever library: checked, and read as numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from arrayq._paths.generic import elements, scales, words, zeros
from arrayq._paths.parts import Stored
from arrayq.codes import check_codes, pack_fields, sign_extend, unpack_fields
from arrayq.errors import LayoutError, QParamsError
from arrayq.layout import Plan
from arrayq.namespaces import Located, located
from arrayq.qparams import QParams, check_levels, validate
from arrayq.qparams_elsewhere import stored_elsewhere
from arrayq.scheme import QuantStore, QuantValue, ScaleDtype, ZeroDtype
from arrayq.stored_numbers import bits_to_scale, bits_to_zero

__all__ = ["check_parts", "codes_of", "packed", "scale_numbers", "unpacked", "zero_numbers"]


def scale_numbers(bits: Any, dtype: ScaleDtype) -> Any:
    """Return stored scales as float32 numbers, in their own library."""
    if type(bits) is np.ndarray:
        return bits_to_scale(bits, dtype)
    here = located(bits)
    if here.view is not None:
        return here.access.wrap(bits_to_scale(here.view, dtype), bits)
    return scales.decode(here.access.space(bits), bits, dtype)


def zero_numbers(bits: Any, dtype: ZeroDtype) -> Any:
    """Return stored zero points as numbers, int32 or float32, in their own library."""
    if type(bits) is np.ndarray:
        return bits_to_zero(bits, dtype)
    here = located(bits)
    if here.view is not None:
        return here.access.wrap(bits_to_zero(here.view, dtype), bits)
    numbers = zeros.decode(here.access.space(bits), bits, dtype)
    return here.access.space(bits).cast(numbers, dtype.number_dtype)


def unpacked(data: Any, value: QuantValue, store: QuantStore, extent: int | None) -> Any:
    """Return the codes in packed data as unsigned fields, in the library of the data."""
    here = located(data)
    if here.view is not None:
        return here.access.wrap(unpack_fields(here.view, value, store, extent), data)
    return words.unpack(
        here.access.space(data), data, value, store, _packed_axis(data, store), extent
    )


def packed(codes: Any, value: QuantValue, store: QuantStore) -> Any:
    """Return codes as a packed store keeps them, in their own library."""
    here = located(codes)
    if here.view is not None:
        fields = here.view.astype(np.uint8) & np.uint8((1 << value.bits) - 1)
        return here.access.wrap(pack_fields(fields, value, store), codes)
    return words.pack(here.access.space(codes), codes, value, store, _packed_axis(codes, store))


def _packed_axis(array: Any, store: QuantStore) -> int | None:
    ndim = len(array.shape)
    return ndim - 1 - store.dim if ndim else None


def codes_of(stored: Stored, layout: Plan) -> Any:
    """Return the code of every element, in the library of the data."""
    scheme, data = layout.scheme, stored.data
    value, store = scheme.value, scheme.store
    if not store.is_packed:
        return located(data).access.duplicate(data)
    fields = unpacked(data, value, store, layout.meaning[1])
    if not scheme.codes_signed:
        return fields
    here = located(fields)
    if here.view is not None:
        return here.access.wrap(sign_extend(here.view, value.bits), fields)
    space = here.access.space(fields)
    return space.cast(elements.sign_extend(space, fields, value.bits), "int8")


def check_parts(stored: Stored, layout: Plan, *, allow_nan: bool) -> Stored:
    """Return parts in their normal form, after checking that they are those of a plan.

    Structure is checked for every library, numbers where they can be seen.

    Raises
    ------
    QParamsError
        A scale level is missing or superfluous, of the wrong shape or dtype, or holds what is
        not a scale of the scheme's dtype.
    LayoutError
        The data does not have the dtype or the shape of the plan.
    CodeError
        A native code lies outside its field.
    """
    scheme = layout.scheme
    data, scale_data = located(stored.data), located(stored.scale_data)
    shape = data.access.shape(stored.data)
    if data.dtype != layout.data_dtype or shape != layout.data_shape:
        raise LayoutError(
            f"data requires {layout.data_dtype} of shape {layout.data_shape} for an array of "
            f"shape {layout.shape} under {scheme}, got {data.dtype} of shape {shape}"
        )
    if scale_data.dtype != scheme.scale_dtype.stored_dtype:
        raise QParamsError(
            f"scale_data requires {scheme.scale_dtype.stored_dtype} for {scheme.scale_dtype} "
            f"scales, got {scale_data.dtype}; give numbers to QParams instead"
        )
    given = QParams(None, stored.tensor_scale, stored.zero_point)
    check_levels(given, scheme)
    if scheme.zero is not None:
        zero_point = located(stored.zero_point)
        if zero_point.dtype != scheme.zero.dtype.stored_dtype:
            raise QParamsError(
                f"zero_point requires {scheme.zero.dtype.stored_dtype} for {scheme.zero.dtype} "
                f"zero points, got {zero_point.dtype}; give numbers to QParams instead"
            )
    if data.view is None or scale_data.view is None:
        return _checked_elsewhere(stored, layout, data, allow_nan=allow_nan)
    return _checked_on_host(stored, layout, data, scale_data, allow_nan=allow_nan)


def _checked_on_host(
    stored: Stored, layout: Plan, data: Located, scale_data: Located, *, allow_nan: bool
) -> Stored:
    scheme = layout.scheme
    assert data.view is not None
    assert scale_data.view is not None
    largest = scheme.scale_dtype.format.code_mask
    if scale_data.dtype != "float32" and (scale_data.view > largest).any():
        raise QParamsError(
            f"scale_data requires codes of at most {largest:#x} for {scheme.scale_dtype} "
            f"scales, got {int(scale_data.view.max()):#x}; a scale has no sign"
        )
    zero_point = None
    if scheme.zero is not None:
        view = located(stored.zero_point).view
        assert view is not None
        zero_point = bits_to_zero(view, scheme.zero.dtype)
    tensor_scale = stored.tensor_scale
    if tensor_scale is not None:
        tensor_scale = located(tensor_scale).view
    qparams = validate(
        QParams(bits_to_scale(scale_data.view, scheme.scale_dtype), tensor_scale, zero_point),
        scheme,
        layout.grid,
        allow_nan=allow_nan,
    )
    check_codes(data.view, scheme)
    if qparams.tensor_scale is None:
        return stored
    return replace(stored, tensor_scale=data.access.wrap(qparams.tensor_scale, stored.data))


def _checked_elsewhere(stored: Stored, layout: Plan, data: Located, *, allow_nan: bool) -> Stored:
    space = data.access.space(stored.data)
    zero = layout.scheme.zero
    numbers = QParams(
        scales.decode(space, stored.scale_data, layout.scheme.scale_dtype),
        stored.tensor_scale,
        None if zero is None else zeros.decode(space, stored.zero_point, zero.dtype),
    )
    visible = data.access.sees_values(stored.data)
    checked = stored_elsewhere(space, numbers, layout, visible=visible, allow_nan=allow_nan)
    return replace(stored, tensor_scale=checked.tensor_scale)
