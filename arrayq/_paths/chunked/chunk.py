"""What is done with the memory of one chunk: the tasks of the graphs.

Tasks are small frozen objects, so that they can be pickled, and so that dask gives equal tasks on
equal chunks equal keys; keys start with the ``__name__`` of their task. A chunk takes the path that
an array of its library takes by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from arrayq._paths import generic, host
from arrayq._paths.chunked import bounds as bounds_of
from arrayq._paths.parts import Met, Policy, Stored
from arrayq._paths.threads import resolve_threads
from arrayq.errors import NonFiniteError
from arrayq.layout import plan
from arrayq.namespaces import Located, located
from arrayq.numerics import Calibration, ScaleFrom
from arrayq.scheme import BlockScale, QuantScheme, QuantStore, ScaleDtype

__all__ = ["Decode", "Encode", "MeasureBlocks", "MeasureTensor", "Rules", "Settle", "TensorScale"]

Array = Any


def text_of(scheme: QuantScheme) -> str:
    """Return a scheme as text, without loss: dask would pickle it, which may differ by identity."""
    return str(scheme.to_dict())


@dataclass(frozen=True, slots=True)
class Rules:
    """What every task of a graph needs to know.

    Attributes
    ----------
    scheme : QuantScheme
        The scheme of the whole array, ``per_channel`` resolved.
    calibration : Calibration
        How the elements of a block give its range.
    policy : Policy
        What to do about NaN and infinities.
    starts : tuple of tuple of int
        First index of each chunk, by axis, for messages; empty where no message is ever made.
    """

    scheme: QuantScheme
    calibration: Calibration
    policy: Policy
    starts: tuple[tuple[int, ...], ...] = ()

    def __dask_tokenize__(self) -> object:
        """Return what tells these rules from others, the same in every process."""
        return text_of(self.scheme), str(self.calibration), int(self.policy), self.starts

    def check(self, x: Array, beside: float, block_id: Sequence[int] | None) -> None:
        """Raise NonFiniteError if the policy does not allow what a chunk holds beside numbers."""
        least = {Policy.RAISE: bounds_of.INFINITE, Policy.SATURATE: bounds_of.NAN}
        if beside < least.get(self.policy, float("inf")):
            return
        start = (0,) * x.ndim
        if self.starts and block_id is not None:
            # the bounds that a task returns have an axis more than its chunk
            start = tuple(axis[i] for axis, i in zip(self.starts, block_id, strict=False))
        _raise_nonfinite(located(x), self.policy, start)


def _raise_nonfinite(here: Located, policy: Policy, start: tuple[int, ...]) -> None:
    space = here.access.space(here.array)
    xp = space.xp
    with np.errstate(over="ignore"):
        x = space.cast(here.array, "float32")
    nan, infinite = (
        int(xp.sum(xp.astype(where, xp.int64))) for where in (xp.isnan(x), xp.isinf(x))
    )
    finite = xp.reshape(xp.astype(xp.isfinite(x), xp.int8), (-1,))
    place = np.unravel_index(int(xp.argmin(finite)), tuple(x.shape))
    first = tuple(int(at) + origin for at, origin in zip(place, start, strict=True))
    allowing = "'propagate' or 'saturate' allows them"
    if policy is Policy.SATURATE:
        allowing = "'propagate' allows NaN, 'saturate' only infinities"
    raise NonFiniteError(
        f"x requires finite numbers, got {nan} NaN and {infinite} infinities in "
        f"a chunk of shape {tuple(x.shape)}, the first at index {first}; nonfinite="
        f"{allowing}",
        nan=nan,
        inf=infinite,
        first_index=first,
    )


def _stored(
    x: Array, rules: Rules, given: Stored | None = None, *, encode: bool = True
) -> tuple[Stored, Met]:
    """Scales and codes of an array that lies in memory, by the path of its library.

    `given` without `scale_data` gives the tensor scale alone.
    """
    here = located(x)
    layout = plan(rules.scheme, here.access.shape(x))
    scaled = given is not None and given.scale_data is not None
    if here.view is None:
        space = here.access.space(x)
        stored = generic.quantize(
            space, x, layout, rules.calibration, rules.policy, given=given, encode=encode
        )
        return stored, Met(0)
    stored = host.allocate(layout)
    if given is not None:
        for name in ("scale_data", "zero_point", "tensor_scale"):
            source = getattr(given, name)
            if source is not None:
                getattr(stored, name)[...] = located(source).view
    met = host.quantize(
        here.view, layout, rules.calibration, rules.policy, resolve_threads(None), stored,
        encode=encode, scaled=scaled, tensor_scaled=given is not None, dtype=here.dtype,
    )  # fmt: skip
    parts = (stored.data if encode else None, *_grids(stored), stored.tensor_scale)
    return Stored(*(None if part is None else here.access.wrap(part, x) for part in parts)), met


def _grids(stored: Stored) -> tuple[Array, Array]:
    return stored.scale_data, stored.zero_point


def _beside(met: Met) -> float:
    if Met.NAN in met:
        return bounds_of.NAN
    return bounds_of.INFINITE if met else 0


@dataclass(frozen=True, slots=True)
class Encode:
    """From a chunk of floats to its data, scales and zero points, in one pass.

    Attributes
    ----------
    rules : Rules
        The rules.
    given : tuple of str
        Names of the stored parts that follow the chunk: scales to encode against, or the tensor
        scale alone.
    encode : bool
        False: no data.
    """

    rules: Rules
    given: tuple[str, ...] = ()
    encode: bool = True

    __name__ = "encode"

    def __call__(
        self, x: Array, *parts: Array, block_id: Sequence[int] | None = None
    ) -> tuple[Array, Array, Array]:
        """Return data, scales and zero points."""
        stored, met = _stored(x, self.rules, _given(self.given, parts), encode=self.encode)
        self.rules.check(x, self._beside(x, met), block_id)
        return stored.data, *_grids(stored)

    def _beside(self, x: Array, met: Met) -> float:
        if met or self.rules.policy is Policy.PROPAGATE or located(x).view is not None:
            return _beside(met)
        return _found_beside(x)


def _found_beside(x: Array) -> float:
    """Return what an array holds beside finite numbers; the generic path does not say."""
    if 0 in x.shape:
        return 0
    return _most_beside(_measured(x, tuple(x.shape)))


def _most_beside(bounds: Array) -> float:
    return float(_namespace(bounds).max(bounds[..., 2]))


def _namespace(x: Array) -> Any:
    return located(x).access.namespace(x)


def _given(names: tuple[str, ...], parts: Sequence[Array]) -> Stored | None:
    if not names:
        return None
    known = dict(zip(names, parts, strict=True))
    return Stored(None, known.get("scale_data"), known.get("zero_point"), known.get("tensor_scale"))


def _measured(x: Array, block: tuple[int, ...]) -> Array:
    with np.errstate(all="ignore"):
        return bounds_of.measured(located(x).access.space(x), x, block)


@dataclass(frozen=True, slots=True)
class MeasureBlocks:
    """From a chunk of floats to the bounds of its blocks, or of its parts of blocks."""

    rules: Rules

    __name__ = "measure"

    def __call__(self, x: Array, block_id: Sequence[int] | None = None) -> Array:
        """Return bounds of shape (*grid, 3)."""
        layout = plan(self.rules.scheme, located(x).access.shape(x))
        bounds = _measured(x, layout.block)
        self.rules.check(x, _most_beside(bounds), block_id)
        return bounds


@dataclass(frozen=True, slots=True)
class MeasureTensor:
    """From a chunk of floats to what it says of the tensor scale: the bounds of a block of all."""

    rules: Rules

    __name__ = "measure"

    def __call__(self, x: Array, block_id: Sequence[int] | None = None) -> Array:
        """Return bounds of shape (1, ..., 1, 3)."""
        here = located(x)
        shape = here.access.shape(x)
        space = here.access.space(x)
        if 0 in shape:
            return bounds_of.of_number(space, np.float32(0), 0, len(shape))
        if here.view is None or self.rules.scheme.numerics.scale_from is ScaleFrom.ENDPOINTS:
            bounds = _measured(x, shape)
            self.rules.check(x, _most_beside(bounds), block_id)
            return bounds
        met, largest = host.largest_range(
            here.view, plan(self.rules.scheme, shape), self.rules.calibration,
            resolve_threads(None), here.dtype,
        )  # fmt: skip
        self.rules.check(x, _beside(met), block_id)
        largest = here.access.asarray(np.asarray(largest), x)
        return bounds_of.of_number(space, largest, _beside(met), len(shape))


def _of_bounds(rules: Rules) -> Rules:
    """Rules under which three elements are a block, those that `bounds.elements_of` makes."""
    scheme = rules.scheme
    return replace(
        rules,
        scheme=QuantScheme(
            value=scheme.value,
            store=QuantStore.of("native"),
            mode=scheme.mode,
            block=BlockScale((3,), scheme.scale_dtype),
            tensor=ScaleDtype.F32 if scheme.two_level else None,
            numerics=scheme.numerics,
            codebook=scheme.codebook,
            zero=scheme.zero,
        ),
        calibration=Calibration.MINMAX,
    )


@dataclass(frozen=True, slots=True)
class Settle:
    """From the bounds of blocks to their scales and zero points.

    Attributes
    ----------
    rules : Rules
        The rules.
    given : tuple of str
        Names of the stored parts that follow the bounds: the tensor scale, or scales that are
        kept but for blocks with what propagates.
    """

    rules: Rules
    given: tuple[str, ...] = ()

    __name__ = "settle"

    def __call__(self, bounds: Array, *parts: Array) -> tuple[Array, Array, Array]:
        """Return None for the data, scales and zero points."""
        xp = _namespace(bounds)
        x = bounds_of.elements_of(xp, bounds)
        columns = [xp.expand_dims(part, axis=-1) if part.ndim else part for part in parts]
        given = _given(self.given, columns)
        # what given scales become is seen where codes are made against them
        stored, _ = _stored(x, _of_bounds(self.rules), given, encode="scale_data" in self.given)
        scales, zeros = _grids(stored)
        return None, scales[..., 0], None if zeros is None else zeros[..., 0]


@dataclass(frozen=True, slots=True)
class TensorScale:
    """From the bounds of all elements to the tensor scale."""

    rules: Rules

    __name__ = "tensor-scale"

    def __call__(self, bounds: Array) -> Array:
        """Return a float32 array of shape ()."""
        xp = _namespace(bounds)
        x = xp.reshape(bounds_of.elements_of(xp, bounds), (3,))
        return _stored(x, _of_bounds(self.rules), encode=False)[0].tensor_scale


@dataclass(frozen=True, slots=True)
class Decode:
    """From stored parts of a chunk to its floats.

    Attributes
    ----------
    scheme : QuantScheme
        The scheme.
    dtype : str
        Name of the dtype of the floats.
    given : tuple of str
        Names of the stored parts beside the data.
    offsets : tuple of int or tuple of int
        Place of the first element of a chunk inside its block: by axis, one number for all chunks
        or one for each.
    last_words : tuple of (int, int) or None
        Number of the last chunk along the packed axis, and how many elements it holds.
    """

    scheme: QuantScheme
    dtype: str
    given: tuple[str, ...]
    offsets: tuple[int | tuple[int, ...], ...]
    last_words: tuple[int, int] | None

    __name__ = "dequantize"

    def __dask_tokenize__(self) -> object:
        """Return what tells this task from others, the same in every process."""
        return (
            "decode", text_of(self.scheme), self.dtype, self.given, self.offsets, self.last_words,
        )  # fmt: skip

    def __call__(self, data: Array, *parts: Array, block_id: Sequence[int] = ()) -> Array:
        """Return the floats."""
        from arrayq.array import _assembled  # which is built on this path
        from arrayq.pipeline import dequantize

        extent = None
        if self.last_words is not None:
            axis = data.ndim - 1 - self.scheme.store.dim
            last, rest = self.last_words
            words = data.shape[axis] * self.scheme.store.codes_per_word(self.scheme.value)
            extent = rest if block_id[axis] == last else words
        known = _given(self.given, parts)
        assert known is not None
        offset = tuple(
            places if isinstance(places, int) else places[i]
            for places, i in zip(self.offsets, block_id, strict=True)
        )
        stored = (data, *_grids(known), known.tensor_scale)
        return dequantize(_assembled(stored, (self.scheme, extent, offset)), dtype=self.dtype)
