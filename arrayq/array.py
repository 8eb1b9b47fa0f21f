"""The quantized array: codes and scales that stand for an array of floats."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, NoReturn

import numpy as np

from arrayq._kernels.frozen import assembler  # type: ignore[import-not-found]
from arrayq._paths.parts import Stored
from arrayq.errors import ArgumentError, ArrayTypeError, LayoutError
from arrayq.hosting import access_of, on_host
from arrayq.interop.collection import DaskCollection
from arrayq.layout import Plan, part_dtypes, plan
from arrayq.moves.methods import MoveMethods
from arrayq.namespaces import introduce, library_of
from arrayq.native import NativeArrays, from_native, native
from arrayq.presets import scheme as parse_scheme
from arrayq.qparams import QParams
from arrayq.recording import recorded
from arrayq.scheme import QuantScheme, ScaleDtype
from arrayq.stored_parts import check_parts, codes_of, scale_numbers, zero_numbers

__all__ = ["QuantizedArray"]


class QuantizedArray(MoveMethods, DaskCollection):
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
    data : array
        Codes: int8 for native integers, uint8 for other native codes and bytes of packed codes,
        uint32 for words of packed codes.
    scale_data : array
        Scales as stored, one per block, a grid of the array's rank (all ones when there is only
        a tensor level): float32, or bits as uint16 (F16, BF16) or uint8 (UE4M3, UE8M0).
    scheme : QuantScheme or str
        How `data` and `scale_data` are to be read.
    extent : int, optional
        Length of the packed axis; by default whole words.
    tensor_scale : float32 array of shape (), optional
        The scale that block scales are relative to; two-level schemes have one, others do not.
    zero_point : array, optional
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

    __slots__ = ("_layout", "data", "scale_data", "tensor_scale", "zero_point")

    data: Any
    scale_data: Any
    zero_point: Any
    tensor_scale: Any
    # The plan; where only a transformation has seen the parts so far, what they do not tell.
    _layout: Plan | tuple[QuantScheme, int | None, tuple[int, ...]]

    # lets x @ q and q + x reach this class rather than NumPy's element-wise loops
    __array_ufunc__ = None

    def __init__(
        self,
        data: Any,
        scale_data: Any,
        scheme: QuantScheme | str,
        *,
        extent: int | None = None,
        tensor_scale: Any = None,
        zero_point: Any = None,
        block_offset: tuple[int, ...] | None = None,
        nonfinite: str | None = None,
    ) -> None:
        if nonfinite not in (None, "raise", "propagate"):
            raise ArgumentError(f"nonfinite requires raise or propagate, got {nonfinite!r}")
        parts = _in_one_library(data, scale_data, zero_point, tensor_scale)
        data, scale_data, zero_point, tensor_scale = parts
        scheme = parse_scheme(scheme).resolve(data.ndim)
        extent = None if extent is None else _integer(extent, "extent")
        offsets = (block_offset,) if isinstance(block_offset, int) else block_offset or ()
        block_offset = tuple(_integer(offset, "block_offset") for offset in offsets)
        shape = _shape_of(_ints(data.shape), scheme, extent)
        layout = plan(scheme, shape, block_offset)
        allow_nan = nonfinite == "propagate"
        checked = check_parts(
            Stored(data, scale_data, zero_point, tensor_scale), layout, allow_nan=allow_nan
        )
        for name, part in zip(_NAMES, (*_fields(checked), layout), strict=True):
            object.__setattr__(self, name, part)
        introduce()

    @classmethod
    def _of(cls, stored: Stored, layout: Plan) -> QuantizedArray:
        """Wrap parts that the pipeline made and that need no check."""
        return made_of(*_fields(stored), layout)

    @property
    def scheme(self) -> QuantScheme:
        """How the parts are to be read."""
        return self._static()[0]

    @property
    def extent(self) -> int | None:
        """Length of the packed axis; None where no axis is packed."""
        return self._static()[1]

    @property
    def block_offset(self) -> tuple[int, ...]:
        """Place of element 0 inside its first block, without leading zeros."""
        return self._static()[2]

    def _parts(self) -> tuple[Any, Any, Any, Any]:
        """Data, scales, zero points, tensor scale; the latter two may be None."""
        return self.data, self.scale_data, self.zero_point, self.tensor_scale

    def _static(self) -> tuple[QuantScheme, int | None, tuple[int, ...]]:
        """What is no array: the scheme, the length of the packed axis, the block offset."""
        layout = self._layout
        return layout.meaning if isinstance(layout, Plan) else layout

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

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a QuantizedArray is frozen: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a QuantizedArray is frozen: {name!r} cannot be deleted")

    @property
    def plan(self) -> Plan:
        """The layout of the stored parts."""
        layout = self._layout
        if not isinstance(layout, Plan):
            layout = _plan_of(self)
            object.__setattr__(self, "_layout", layout)
        return layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array that this one stands for."""
        if isinstance(self._layout, Plan):
            return self._layout.shape
        scheme, extent, _ = self._static()
        return _shape_of(_ints(self.data.shape), scheme, extent)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.data.shape)

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
        return sum(
            int(np.prod(part.shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            for part, dtype in zip(self._parts(), part_dtypes(self.scheme), strict=True)
            if part is not None and dtype is not None
        )

    @property
    def bits_per_element(self) -> float:
        """Bits of all stored parts per element; NaN for an array without elements."""
        return 8 * self.nbytes / self.size if self.size else float("nan")

    @property
    def grid(self) -> tuple[int, ...]:
        """Shape of the scale grid: number of blocks along each axis."""
        return _ints(self.scale_data.shape)

    @property
    @recorded
    def scale(self) -> Any:
        """Block scales as float32 numbers (relative to the tensor scale where there is one).

        F32 scales are the stored ones themselves, not a copy.
        """
        return scale_numbers(self.scale_data, self.scheme.scale_dtype)

    @property
    @recorded
    def zero(self) -> Any:
        """Zero points as numbers, int32 or float32; None for schemes without."""
        zero = self.scheme.zero
        return None if zero is None else zero_numbers(self.zero_point, zero.dtype)

    @property
    @recorded
    def qparams(self) -> QParams:
        """The parameters of this array, to quantize another one with; copies of them."""
        copied, zero = library_of(self.scale_data).reach().duplicate, self.scheme.zero
        scale, zero_point, tensor_scale = self.scale, self.zero, self.tensor_scale
        # what is stored as the number it is would be the memory of this array
        if self.scheme.scale_dtype is ScaleDtype.F32:
            scale = copied(scale)
        if zero is not None and zero.dtype.stored_dtype == zero.dtype.number_dtype:
            zero_point = copied(zero_point)
        if tensor_scale is not None:
            tensor_scale = copied(tensor_scale)
        return QParams(scale, tensor_scale, zero_point, self.codebook)

    @property
    def codebook(self) -> tuple[float, ...] | None:
        """Table of a lookup scheme, else None."""
        return self.scheme.codebook

    @property
    def device(self) -> Any:
        """Device of the stored parts, as their library spells it; None for traced ones."""
        device = access_of(self).device(self.data)
        return "cpu" if device is None and on_host(self) is not None else device

    @property
    def namespace(self) -> Any:
        """Array namespace of the stored parts."""
        return np if isinstance(self.data, np.ndarray) else access_of(self).namespace(self.data)

    @recorded
    def codes(self) -> Any:
        """Return the code of every element, as an array of this shape.

        Returns
        -------
        array
            In the library of the parts: int8 for integers, the field as uint8 for everything else.
        """
        return codes_of(Stored(*self._parts()), self.plan)

    def dequantize(
        self,
        *,
        dtype: Any = None,
        threads: int | None = None,
        out: Any = None,
    ) -> Any:
        """Return the floats that this array stands for; see :func:`arrayq.dequantize`."""
        from arrayq.pipeline import dequantize

        return dequantize(self, dtype=dtype, threads=threads, out=out)

    def native(self) -> NativeArrays:
        """Return codes and scales in the library's own narrow dtypes; see `arrayq.native`."""
        return native(self)

    @classmethod
    def from_native(cls, data: Any, scale: Any, scheme: QuantScheme | str, **rest: Any) -> Any:
        """Return the array of codes and scales in narrow dtypes; see `arrayq.native`."""
        return from_native(data, scale, scheme, **rest)

    @recorded
    def copy(self) -> QuantizedArray:
        """Return an array with copies of the stored parts."""
        access = access_of(self)
        parts = [None if part is None else access.duplicate(part) for part in self._parts()]
        return self._with_parts(*parts)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, object]) -> QuantizedArray:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        pickled = access_of(self).pickled
        parts = (None if part is None else pickled(part) for part in self._parts())
        return _rebuild, (*parts, self.scheme, self.shape, self.block_offset)

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            "a QuantizedArray is not converted to floats unasked; call .dequantize() for the "
            "values or .codes() for the codes"
        )

    def __repr__(self) -> str:
        if not hasattr(self.data, "shape"):  # a placeholder of a transformation
            return f"QuantizedArray(data={self.data!r}, scheme={str(self.scheme)!r})"
        parts = [f"shape={self.shape}", f"scheme={str(self.scheme)!r}", f"grid={self.grid}"]
        library = access_of(self)
        if library.profile.name != "numpy":
            parts.append(f"library={library.profile.name!r}")
        if self.tensor_scale is not None and library.sees_values(self.tensor_scale):
            parts.append(f"tensor_scale={float(self.tensor_scale):.6g}")
        if self.block_offset:
            parts.append(f"block_offset={self.block_offset}")
        if self.size:
            parts.append(f"bits_per_element={self.bits_per_element:.4g}")
        return f"QuantizedArray({', '.join(parts)})"


_NAMES: Final = ("data", "scale_data", "zero_point", "tensor_scale", "_layout")


# Takes data, scales, zero points, tensor scale and layout; returns an array made of these very
# objects, whatever they are, and checks nothing.
made_of: Callable[..., QuantizedArray] = assembler(QuantizedArray, _NAMES)


def _plan_of(q: QuantizedArray) -> Plan:
    """Lay out an array whose parts came through a transformation.

    Raises
    ------
    LayoutError
        The parts are a batch of arrays that the scheme cannot say as one.
    """
    scheme, _, block_offset = q._static()
    layout = plan(scheme, q.shape, block_offset)
    two_level = q.tensor_scale is not None
    if q.grid != layout.grid or (two_level and tuple(q.tensor_scale.shape)):
        raise LayoutError(
            f"an array of shape {q.shape} under {scheme} requires scales of shape {layout.grid}, "
            f"got {q.grid}: it is a batch of arrays, each with scales of its own; use it inside "
            "vmap"
        )
    return layout


def _assembled(
    parts: tuple[Any, Any, Any, Any], static: tuple[QuantScheme, int | None, tuple[int, ...]]
) -> QuantizedArray:
    """Return an array made of these very objects, whatever they are.

    Transformations of JAX and torch pass placeholders through here.
    """
    return made_of(*parts, static)


def _rebuild(
    data: Any,
    scale_data: Any,
    zero_point: Any,
    tensor_scale: Any,
    scheme: QuantScheme,
    shape: tuple[int, ...],
    block_offset: tuple[int, ...],
) -> QuantizedArray:
    introduce()
    layout, access = plan(scheme, shape, block_offset), library_of(data).reach()
    parts = [
        part if part is None or dtype is None else access.unpickled(part, dtype)
        for part, dtype in zip(
            (data, scale_data, zero_point, tensor_scale), layout.part_dtypes, strict=True
        )
    ]
    return QuantizedArray._of(Stored(*parts), layout)


def _fields(stored: Stored) -> tuple[Any, Any, Any, Any]:
    return stored.data, stored.scale_data, stored.zero_point, stored.tensor_scale


def _ints(shape: Any) -> tuple[int, ...]:
    """A shape as a plain tuple, as NumPy's is and torch's is not."""
    return shape if type(shape) is tuple else tuple(map(int, shape))


def _in_one_library(data: Any, *others: Any) -> tuple[Any, ...]:
    """Parts as arrays of the library of `data`; what is no array becomes one."""
    if not hasattr(data, "dtype"):
        data = np.asarray(data)
    access = library_of(data).reach()
    parts = [data]
    for part in others:
        if part is None or (hasattr(part, "dtype") and library_of(part).reach() is access):
            parts.append(part)
        elif hasattr(part, "dtype") and not isinstance(part, np.ndarray | np.generic):
            raise ArrayTypeError(
                f"the parts of a QuantizedArray require one array library, got "
                f"{library_of(part).profile.name} beside {access.profile.name}"
            )
        else:
            parts.append(access.asarray(np.asarray(part), data))
    if access.profile.name == "numpy":
        return tuple(None if part is None else np.asarray(part) for part in parts)
    return tuple(parts)


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
