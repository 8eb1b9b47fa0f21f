"""The quantized array: codes and scales that stand for an array of floats."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from arrayq._paths.host import Stored
from arrayq.codes import check_codes, sign_extend, unpack_fields
from arrayq.errors import ArgumentError, LayoutError, QParamsError
from arrayq.layout import Plan, plan
from arrayq.moves.methods import MoveMethods
from arrayq.presets import scheme as parse_scheme
from arrayq.qparams import QParams, validate
from arrayq.scheme import QuantScheme
from arrayq.stored_numbers import bits_to_scale, bits_to_zero

__all__ = ["QuantizedArray"]


class QuantizedArray(MoveMethods):
    """Codes and scales that stand for an array of floats.

    Made by :func:`arrayq.quantize` and :func:`arrayq.from_bytes`; this constructor takes stored
    parts from elsewhere and checks them. The object is frozen. It encodes an array and is not
    one: nothing converts it to floats unasked, :meth:`dequantize` does.

    Invariants, with ``e = block extents`` and ``o = block_offset``::

        element[i]  = value(code[i]) * s,  s = f32(scale[(o + i) // e] * tensor_scale)
                    = (code[i] - z) * s,   z = zero[(o + i) // e]   (affine, kind code)
                    = f32(code[i] * s) + z                          (affine, kind bias)
        scale.shape = ceil((o + shape) / e)
        data.shape  = shape, the packed axis divided by the codes per word, rounding up

    Parameters
    ----------
    data : ndarray
        Codes: int8 for native integers, uint8 for other native codes and bytes of packed codes,
        uint32 for words of packed codes.
    scale_data : ndarray
        Scales as stored, one per block, a grid of the array's rank (all ones when there is only
        a tensor level): float32, or bits as uint16 (F16, BF16) or uint8 (UE4M3, UE8M0).
    scheme : QuantScheme or str
        How `data` and `scale_data` are to be read.
    extent : int, optional
        Length of the packed axis; by default whole words.
    tensor_scale : float32 ndarray of shape (), optional
        The scale that block scales are relative to; two-level schemes have one, others do not.
    zero_point : ndarray, optional
        Zero points as stored, one per block, of the grid's shape: int8, uint8, int32, float32,
        or bits as uint16 (F16, BF16); affine schemes have them, others do not.
    block_offset : tuple of int, optional
        Place of element 0 inside its first block, aligned to the trailing axes.
    nonfinite : {"raise", "propagate"}, optional
        Whether NaN scales are refused, which is the default, or allowed.

    Raises
    ------
    QParamsError
        A scale level is missing or superfluous, of the wrong shape or dtype, or holds what is
        not a scale of the scheme's dtype.
    LayoutError
        `data` does not have the dtype or the shape that the scheme asks for.
    CodeError
        A native code lies outside its field.
    """

    __slots__ = (
        "block_offset", "data", "extent", "scale_data", "scheme", "tensor_scale", "zero_point",
    )  # fmt: skip

    data: npt.NDArray[Any]
    scale_data: npt.NDArray[Any]
    scheme: QuantScheme
    extent: int | None
    tensor_scale: npt.NDArray[np.float32] | None
    zero_point: npt.NDArray[Any] | None
    block_offset: tuple[int, ...]

    # lets x @ q and q + x reach this class rather than NumPy's element-wise loops
    __array_ufunc__ = None

    def __init__(
        self,
        data: npt.NDArray[Any],
        scale_data: npt.NDArray[Any],
        scheme: QuantScheme | str,
        *,
        extent: int | None = None,
        tensor_scale: npt.NDArray[np.float32] | float | None = None,
        zero_point: npt.NDArray[Any] | None = None,
        block_offset: tuple[int, ...] | None = None,
        nonfinite: str | None = None,
    ) -> None:
        if nonfinite not in (None, "raise", "propagate"):
            raise ArgumentError(f"nonfinite requires raise or propagate, got {nonfinite!r}")
        data, scale_data = np.asarray(data), np.asarray(scale_data)
        scheme = parse_scheme(scheme).resolve(data.ndim)
        extent = None if extent is None else _integer(extent, "extent")
        offsets = (block_offset,) if isinstance(block_offset, int) else block_offset or ()
        block_offset = tuple(_integer(offset, "block_offset") for offset in offsets)
        shape = _shape_of(data.shape, scheme, extent)
        layout = plan(scheme, shape, block_offset)
        if data.dtype != layout.data_dtype or data.shape != layout.data_shape:
            raise LayoutError(
                f"data requires {layout.data_dtype} of shape {layout.data_shape} for an array of "
                f"shape {shape} under {scheme}, got {data.dtype} of shape {data.shape}"
            )
        if scale_data.dtype != scheme.scale_dtype.stored_dtype:
            raise QParamsError(
                f"scale_data requires {scheme.scale_dtype.stored_dtype} for {scheme.scale_dtype} "
                f"scales, got {scale_data.dtype}; give numbers to QParams instead"
            )
        largest = scheme.scale_dtype.format.code_mask
        if scale_data.dtype != np.float32 and (scale_data > largest).any():
            raise QParamsError(
                f"scale_data requires codes of at most {largest:#x} for {scheme.scale_dtype} "
                f"scales, got {int(scale_data.max()):#x}; a scale has no sign"
            )
        qparams = validate(
            QParams(
                bits_to_scale(scale_data, scheme.scale_dtype),
                tensor_scale,
                _zero_numbers(zero_point, scheme),
            ),
            scheme,
            layout.grid,
            allow_nan=nonfinite == "propagate",
        )
        check_codes(data, scheme)
        zeros = None if zero_point is None else np.asarray(zero_point)
        self._set(data, scale_data, zeros, qparams.tensor_scale, layout)

    @classmethod
    def _of(cls, stored: Stored, layout: Plan) -> QuantizedArray:
        """Wrap parts that the pipeline made and that need no check."""
        self = cls.__new__(cls)
        self._set(stored.data, stored.scale_data, stored.zero_point, stored.tensor_scale, layout)
        return self

    def _parts(self) -> tuple[Any, Any, Any, Any]:
        """Data, scales, zero points, tensor scale; the latter two may be None."""
        return self.data, self.scale_data, self.zero_point, self.tensor_scale

    def _static(self) -> tuple[QuantScheme, int | None, tuple[int, ...]]:
        """What is no array: the scheme, the length of the packed axis, the block offset."""
        return self.scheme, self.extent, self.block_offset

    def _with_parts(
        self, data: Any, scale_data: Any, zero_point: Any, tensor_scale: Any
    ) -> QuantizedArray:
        """Return an array of other parts that mean the same; nothing is checked."""
        return _assembled((data, scale_data, zero_point, tensor_scale), self._static())

    @classmethod
    def _from_parts(
        cls, data: Any, grids: Mapping[str, Any], tensor_scale: Any, layout: Plan
    ) -> QuantizedArray:
        """Wrap parts that a move made: `grids` are those with one entry per block, by name."""
        parts: dict[str, Any] = dict.fromkeys(part.name for part in fields(Stored))
        parts |= {**grids, "data": data, "tensor_scale": tensor_scale}
        return cls._of(Stored(**parts), layout)

    def _set(
        self, data: Any, scale_data: Any, zero_point: Any, tensor_scale: Any, layout: Plan
    ) -> None:
        offset = layout.block_offset
        while offset and offset[0] == 0:
            offset = offset[1:]
        packed = layout.packed_axis
        parts = {
            "data": data,
            "scale_data": scale_data,
            "scheme": layout.scheme,
            "extent": None if packed is None else layout.shape[packed],
            "tensor_scale": tensor_scale,
            "zero_point": zero_point,
            "block_offset": offset,
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a QuantizedArray is frozen: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a QuantizedArray is frozen: {name!r} cannot be deleted")

    @property
    def plan(self) -> Plan:
        """The layout of the stored parts."""
        return plan(self.scheme, self.shape, self.block_offset)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array that this one stands for."""
        return _shape_of(self.data.shape, self.scheme, self.extent)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def nbytes(self) -> int:
        """Bytes of data, scales, zero points and tensor scale together."""
        parts = (self.data, self.scale_data, self.zero_point, self.tensor_scale)
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def bits_per_element(self) -> float:
        """Bits of all stored parts per element; NaN for an array without elements."""
        return 8 * self.nbytes / self.size if self.size else float("nan")

    @property
    def grid(self) -> tuple[int, ...]:
        """Shape of the scale grid: number of blocks along each axis."""
        return self.scale_data.shape

    @property
    def scale(self) -> npt.NDArray[np.float32]:
        """Block scales as float32 numbers (relative to the tensor scale where there is one)."""
        return bits_to_scale(self.scale_data, self.scheme.scale_dtype)

    @property
    def zero(self) -> npt.NDArray[Any] | None:
        """Zero points as numbers, int32 or float32; None for schemes without."""
        return _zero_numbers(self.zero_point, self.scheme)

    @property
    def qparams(self) -> QParams:
        """The parameters of this array, to quantize another one with."""
        return QParams(self.scale, self.tensor_scale, self.zero, self.codebook)

    @property
    def codebook(self) -> tuple[float, ...] | None:
        """Table of a lookup scheme, else None."""
        return self.scheme.codebook

    @property
    def device(self) -> str:
        """Device of the stored parts."""
        return "cpu"

    @property
    def namespace(self) -> Any:
        """Array namespace of the stored parts."""
        return np

    def codes(self) -> npt.NDArray[Any]:
        """Return the code of every element, as an array of this shape.

        Returns
        -------
        ndarray
            int8 for integers, the field as uint8 for everything else.
        """
        if not self.scheme.store.is_packed:
            return self.data.copy()
        value = self.scheme.value
        fields = unpack_fields(self.data, value, self.scheme.store, self.extent)
        return sign_extend(fields, value.bits) if self.scheme.codes_signed else fields

    def dequantize(
        self,
        *,
        dtype: Any = None,
        threads: int | None = None,
        out: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]:
        """Return the floats that this array stands for; see :func:`arrayq.dequantize`."""
        from arrayq.pipeline import dequantize

        return dequantize(self, dtype=dtype, threads=threads, out=out)

    def copy(self) -> QuantizedArray:
        """Return an array with copies of the stored parts."""
        return _rebuild(
            self.data.copy(),
            self.scale_data.copy(),
            None if self.zero_point is None else self.zero_point.copy(),
            None if self.tensor_scale is None else self.tensor_scale.copy(),
            self.scheme,
            self.shape,
            self.block_offset,
        )

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, object]) -> QuantizedArray:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (
            self.data, self.scale_data, self.zero_point, self.tensor_scale, self.scheme,
            self.shape, self.block_offset,
        )  # fmt: skip

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            "a QuantizedArray is not converted to floats unasked; call .dequantize() for the "
            "values or .codes() for the codes"
        )

    def __repr__(self) -> str:
        parts = [f"shape={self.shape}", f"scheme={str(self.scheme)!r}", f"grid={self.grid}"]
        if self.tensor_scale is not None:
            parts.append(f"tensor_scale={float(self.tensor_scale):.6g}")
        if self.block_offset:
            parts.append(f"block_offset={self.block_offset}")
        if self.size:
            parts.append(f"bits_per_element={self.bits_per_element:.4g}")
        return f"QuantizedArray({', '.join(parts)})"


def _assembled(
    parts: tuple[Any, Any, Any, Any], static: tuple[QuantScheme, int | None, tuple[int, ...]]
) -> QuantizedArray:
    """Return an array made of these very objects, whatever they are.

    Transformations of JAX and torch pass placeholders through here.
    """
    array = QuantizedArray.__new__(QuantizedArray)
    names = ("data", "scale_data", "zero_point", "tensor_scale", "scheme", "extent", "block_offset")
    for name, part in zip(names, (*parts, *static), strict=True):
        object.__setattr__(array, name, part)
    return array


def _rebuild(
    data: npt.NDArray[Any],
    scale_data: npt.NDArray[Any],
    zero_point: npt.NDArray[Any] | None,
    tensor_scale: npt.NDArray[np.float32] | None,
    scheme: QuantScheme,
    shape: tuple[int, ...],
    block_offset: tuple[int, ...],
) -> QuantizedArray:
    array = QuantizedArray.__new__(QuantizedArray)
    array._set(data, scale_data, zero_point, tensor_scale, plan(scheme, shape, block_offset))
    return array


def _zero_numbers(
    zero_point: npt.NDArray[Any] | None, scheme: QuantScheme
) -> npt.NDArray[Any] | None:
    """Zero points as numbers, after checking the dtype that they are stored in."""
    if zero_point is None or scheme.zero is None:
        return zero_point
    stored = np.asarray(zero_point)
    if stored.dtype != scheme.zero.dtype.stored_dtype:
        raise QParamsError(
            f"zero_point requires {scheme.zero.dtype.stored_dtype} for {scheme.zero.dtype} zero "
            f"points, got {stored.dtype}; give numbers to QParams instead"
        )
    return bits_to_zero(stored, scheme.zero.dtype)


def _integer(given: object, what: str) -> int:
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError as error:
        raise LayoutError(f"{what} requires an integer, got {given!r}") from error


def _shape_of(
    data_shape: tuple[int, ...], scheme: QuantScheme, extent: int | None
) -> tuple[int, ...]:
    """Shape of the array whose data has a shape."""
    store = scheme.store
    if not store.is_packed or not data_shape:
        return data_shape
    if store.dim >= len(data_shape):
        raise LayoutError(
            f"store {store} requires an array with more than {store.dim} axes, got data of shape "
            f"{data_shape}"
        )
    axis = len(data_shape) - 1 - store.dim
    codes = data_shape[axis] * store.codes_per_word(scheme.value)
    length = codes if extent is None else extent
    return (*data_shape[:axis], length, *data_shape[axis + 1 :])
