"""A quantized array taken apart for a move, and put together again.

A move is done part by part. :func:`parts_of` opens an array; the move computes the new data, the
new blocks of each axis and, through :meth:`Parts.moved`, the new grids; :meth:`Parts.close` makes
the array. Everything that has the shape of the scale grid moves in one place, `Parts.moved`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from arrayq.errors import ArrayTypeError, LayoutError
from arrayq.hosting import access_of, on_host
from arrayq.layout import Plan, plan
from arrayq.moves.blocks import AxisBlocks
from arrayq.moves.host import HOST, HostOperations
from arrayq.moves.operations import Array, Operations
from arrayq.numerics import TensorFrom
from arrayq.scheme import SPAN, BlockScale, QuantScheme, QuantStore, ScaleDtype

if TYPE_CHECKING:
    from arrayq.array import QuantizedArray

__all__ = [
    "Array", "GridMove", "Parts", "axes_of", "cannot_move", "parts_of", "parts_of_all", "probe",
    "require_quantized",
]  # fmt: skip

GridMove = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an array on their way through a move.

    Parameters
    ----------
    on : Operations
        What can be done to the arrays, according to where they are.
    scheme : QuantScheme
        How the parts are to be read; its block and its packed axis may lag behind `axes` and
        `packed` until the parts are put together.
    data : array
        Codes or words.
    axes : tuple of AxisBlocks
        The blocks of each axis; the lengths are the shape.
    packed : int or None
        Axis whose codes share words; None for the native store and for arrays without axes.
    grids : mapping of str to array
        Whatever has one entry per block, by its name in the array.
    tensor_scale : array or None
        The scale that block scales are relative to.
    """

    on: Operations
    scheme: QuantScheme
    data: Array
    axes: tuple[AxisBlocks, ...]
    packed: int | None
    grids: Mapping[str, Array]
    tensor_scale: Array | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(axis.length for axis in self.axes)

    @property
    def codes_per_word(self) -> int:
        """Codes that one word holds."""
        return self.scheme.store.codes_per_word(self.scheme.value)

    @property
    def has_grid(self) -> bool:
        """Whether there are scales per block rather than one for the whole array."""
        return self.scheme.block is not None

    def moved(
        self,
        data: Array,
        axes: Iterable[AxisBlocks],
        packed: int | None,
        grid: GridMove,
    ) -> Parts:
        """Return the parts with new data and axes, every grid moved by the same function.

        One scale for the whole array has no place, and is not moved.
        """
        axes = tuple(axes)
        ones = (1,) * len(axes)
        move = grid if self.has_grid else lambda one: self.on.reshaped(one, ones)
        grids = {name: move(given) for name, given in self.grids.items()}
        return replace(self, data=data, axes=axes, packed=packed, grids=grids)

    def close(self) -> QuantizedArray:
        """Return the array that these parts are."""
        return self.on.returned(self._put_together())

    def fetched(self) -> QuantizedArray:
        """Return the array that these parts are as one of NumPy's; its values can be seen."""
        q, fetched = self._put_together(), self.on.fetched
        return q._with_parts(*(None if part is None else fetched(part) for part in q._parts()))

    def _put_together(self) -> QuantizedArray:
        from arrayq.array import QuantizedArray

        settled = self if self.axes else _without_axes(self)
        scheme = _scheme_of(settled)
        offset = tuple(axis.offset for axis in settled.axes)
        layout = plan(scheme, settled.shape, offset)
        grids = {name: _of_grid(self.on, grid, layout) for name, grid in settled.grids.items()}
        data = self.on.settled(settled.data, layout.data_shape)
        return QuantizedArray._from_parts(data, grids, settled.tensor_scale, layout)


def require_quantized(q: object, operation: str) -> None:
    """Raise ArrayTypeError for what is not a QuantizedArray."""
    from arrayq.array import QuantizedArray

    if not isinstance(q, QuantizedArray):
        raise ArrayTypeError(
            f"{operation} requires a QuantizedArray, got {type(q).__name__}; quantize it first, or "
            "use the function of its own library"
        )


def parts_of(q: QuantizedArray, operation: str, *, in_library: bool = False) -> Parts:
    """Take an array apart: as NumPy's views where its parts lie in CPU memory.

    Parameters
    ----------
    q : QuantizedArray
        The array.
    operation : str
        What for, for messages.
    in_library : bool
        Whether its parts stay arrays of its library even so.

    Raises
    ------
    ArrayTypeError
        `q` is not a QuantizedArray.
    UnsupportedSchemeError
        A length is not known.
    """
    require_quantized(q, operation)
    seen = None if in_library else on_host(q)
    on: Operations
    if seen is not None:
        on = HOST if seen is q else HostOperations(q.data)
        layout, q = q.plan, seen
    else:
        from arrayq.moves.generic import generic_operations_of

        access_of(q).shape(q.data)
        on, layout = generic_operations_of(q), q.plan
    grids = {name: grid for name in _GRIDS if (grid := getattr(q, name)) is not None}
    return Parts(on, q.scheme, q.data, axes_of(layout), layout.packed_axis, grids, q.tensor_scale)


def parts_of_all(arrays: Sequence[QuantizedArray], operation: str) -> list[Parts]:
    """Take arrays of one library apart, all in the same way.

    Raises
    ------
    ArrayTypeError
        One of them is not a QuantizedArray, or they are of different libraries.
    """
    opened = [parts_of(q, operation) for q in arrays]
    if all(parts.on is HOST for parts in opened):
        return opened
    libraries = [parts.on.library for parts in opened]
    for place, library in enumerate(libraries):
        if library != libraries[0]:
            raise ArrayTypeError(
                f"{operation} requires arrays of one library, got one of {libraries[0]} at 0 and "
                f"one of {library} at {place}; convert one of them"
            )
    if all(isinstance(parts.on, HostOperations) for parts in opened):
        return opened
    # A constant beside traced arrays joins them where they are.
    return [
        parts_of(q, operation, in_library=True) if isinstance(parts.on, HostOperations) else parts
        for q, parts in zip(arrays, opened, strict=True)
    ]


# The parts that have one entry per block.
_GRIDS = ("scale_data", "zero_point")


def axes_of(layout: Plan) -> tuple[AxisBlocks, ...]:
    """Return the blocks along each axis of a layout."""
    extents = layout.scheme.block_extents(len(layout.shape))
    return tuple(map(AxisBlocks, layout.shape, extents, layout.block_offset))


def probe(shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return an array of a shape that takes no memory, to ask NumPy what a move does to it.

    Whatever NumPy refuses for this array, it refuses in its own words.
    """
    return np.broadcast_to(np.False_, shape)


def cannot_move(operation: str, requirement: str, given: object) -> NoReturn:
    """Raise LayoutError for a move that would tear blocks apart."""
    raise LayoutError(
        f"{operation} requires {requirement}, got {given}; move the floats of q.dequantize(), or "
        "q.requantize(scheme) first to a scheme whose blocks allow it"
    )


def _scheme_of(parts: Parts) -> QuantScheme:
    """The scheme with the block and the packed axis that the parts have by now."""
    scheme = parts.scheme
    extents = tuple(axis.extent for axis in parts.axes)
    block = scheme.block
    if extents and (block is not None or any(extent != SPAN for extent in extents)):
        block = BlockScale(extents, scheme.scale_dtype)
    store = scheme.store
    if store.is_packed:
        dim = 0 if parts.packed is None else len(parts.axes) - 1 - parts.packed
        store = QuantStore(store.kind, dim)
    if (block, store) == (scheme.block, scheme.store):
        return scheme
    # one level for all becomes one level for blocks; of two levels, both stay
    tensor = scheme.tensor if scheme.block is not None or block is None else None
    return scheme._with(block=block, store=store, tensor=tensor)


def _without_axes(parts: Parts) -> Parts:
    """Parts of an array of a single element, which no block can describe.

    Its one scale becomes the scale of the whole array. Two levels become one, their product in
    float32, which is what the element is multiplied with anyway.
    """
    scheme = parts.scheme
    if scheme.block is None:
        return parts
    if parts.tensor_scale is None:
        return replace(parts, scheme=scheme._with(block=None, tensor=scheme.scale_dtype))
    numerics = replace(scheme.numerics, tensor_from=TensorFrom.BLOCK_SCALES)
    one_level = scheme._with(block=None, tensor=ScaleDtype.F32, numerics=numerics)
    product = parts.on.product(parts.grids["scale_data"], scheme.scale_dtype, parts.tensor_scale)
    return replace(
        parts,
        scheme=one_level,
        grids={**parts.grids, "scale_data": product},
        tensor_scale=None,
    )


def _of_grid(on: Operations, grid: Array, layout: Plan) -> Array:
    """A grid as the array keeps it; without elements there are no blocks."""
    if tuple(grid.shape) != layout.grid and 0 in layout.shape:
        grid = on.indexed(grid, tuple(slice(cells) for cells in layout.grid))
    if tuple(grid.shape) != layout.grid:
        raise AssertionError(f"a move made a grid of {grid.shape} for one of {layout.grid}")
    return on.settled(grid, layout.grid)
