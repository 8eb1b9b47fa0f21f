"""The parts of a scheme: element formats, stores, levels of scales, and codebooks.

Each part checks itself when it is built; how parts may be combined is for
`arrayq.scheme_rules`.
"""

from __future__ import annotations

import enum
import math
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, SupportsFloat, SupportsIndex

from arrayq.choice import Choice
from arrayq.errors import CodebookError, LayoutError, SchemeError
from arrayq.formats import FORMATS, Format, Kind, round_to_float32

__all__ = [
    "SPAN",
    "BlockScale",
    "ChannelScale",
    "QuantMode",
    "QuantStore",
    "QuantValue",
    "ScaleDtype",
    "StoreKind",
    "normal_codebook",
]

SPAN: Final = -1
"""The block extent that spans its whole axis."""

_MAX_EXTENT: Final = 2**63 - 1


def _integer(given: object, what: str) -> int:
    """Return a Python integer; booleans, and floats even when whole, are refused."""
    try:
        if isinstance(given, bool):
            raise TypeError
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        raise SchemeError(f"{what} requires an integer, got {given!r}") from None


def _canonical_size(size: object) -> tuple[int, ...]:
    """Return the extents of a block without leading ones, each checked."""
    listed = list(size) if isinstance(size, Iterable) else [size]
    if not listed:
        raise SchemeError(
            "a block requires at least one extent, got []; use per_tensor() for one scale"
        )
    extents = tuple(_integer(extent, "a block extent") for extent in listed)
    for extent in extents:
        if extent != SPAN and not 1 <= extent <= _MAX_EXTENT:
            raise SchemeError(
                f"a block extent requires an integer from 1 to 2**63 - 1, or -1 to span the axis, "
                f"got {extent}"
            )
    leading = 0
    while leading < len(extents) - 1 and extents[leading] == 1:
        leading += 1
    return extents[leading:]


class QuantValue(Choice):
    """The format of an element; each member is a row of `arrayq.formats`."""

    Q8F = "q8f"
    Q8S = "q8s"
    Q4F = "q4f"
    Q4S = "q4s"
    Q2F = "q2f"
    Q2S = "q2s"
    E4M3 = "e4m3"
    E5M2 = "e5m2"
    E3M2 = "e3m2"
    E2M3 = "e2m3"
    E2M1 = "e2m1"
    U1 = "u1"
    U2 = "u2"
    U3 = "u3"
    U4 = "u4"
    U5 = "u5"
    U6 = "u6"
    U7 = "u7"
    U8 = "u8"

    @property
    def format(self) -> Format:
        """The row of the registry."""
        return FORMATS[self.value]

    @property
    def bits(self) -> int:
        """Bits of one code."""
        return self.format.bits

    @property
    def kind(self) -> Kind:
        """Integer, minifloat or field."""
        return self.format.kind

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest number an encoder writes, ``(qmin, qmax)``."""
        return self.format.qmin, self.format.qmax

    @property
    def is_symmetric(self) -> bool:
        """Whether the range reaches equally far on both sides of zero."""
        return self.format.qmin == -self.format.qmax


class ScaleDtype(Choice):
    """The format of a scale; each member is a row of `arrayq.formats`."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    UE8M0 = "ue8m0"
    UE4M3 = "ue4m3"

    @property
    def format(self) -> Format:
        """The row of the registry."""
        return FORMATS[self.value]

    @property
    def stored_dtype(self) -> str:
        """The dtype of stored scales: float32, or the bits as uint16 or uint8."""
        return "float32" if self is ScaleDtype.F32 else self.format.code_dtype


class QuantMode(Choice):
    """What a code means before it is scaled."""

    SYMMETRIC = "symmetric"
    """The number that the value's format gives the code."""
    LOOKUP = "lookup"
    """The entry of the codebook at that index."""
    AFFINE = "affine"
    """The number that the value's format gives the code, counted from a zero point."""


class StoreKind(enum.Enum):
    """The kinds of physical layout."""

    NATIVE = "native"
    PACKED_NATIVE = "packed_native"
    PACKED_U32 = "packed_u32"


_WORD_BITS: Final = {StoreKind.PACKED_NATIVE: 8, StoreKind.PACKED_U32: 32}
_STORE_SPELLING: Final = re.compile(r"(native|packed_native|packed_u32)(?:\(([0-9]{1,9})\))?")


@dataclass(frozen=True, slots=True, repr=False)
class QuantStore:
    """Where codes lie in memory.

    Build one as ``QuantStore.NATIVE``, ``QuantStore.packed_native(dim)``,
    ``QuantStore.packed_u32(dim)`` or from a string: ``"packed_u32(1)"``. In a packed store,
    code k of a line occupies bits ``[k * bits, (k + 1) * bits)`` of its word, counted from the
    low end; only the packed axis is divided, and every line is rounded up to whole words.

    Parameters
    ----------
    kind : StoreKind
        One code per element, or words of 8 or of 32 bits filled with as many codes as fit.
    dim : int
        The packed axis, counted from the innermost, which is 0.

    Raises
    ------
    SchemeError
        The axis is not an integer of at least 0, or is given for the NATIVE store.
    """

    kind: StoreKind
    dim: int = 0

    NATIVE: ClassVar[QuantStore]

    def __post_init__(self) -> None:
        """Check the axis."""
        if not isinstance(self.kind, StoreKind):
            raise SchemeError(
                f"the kind of a store requires a StoreKind, got {self.kind!r}; build a store from "
                "a string with QuantStore.of(...)"
            )
        dim = _integer(self.dim, "the packed axis of a store")
        if dim < 0:
            raise SchemeError(
                f"the packed axis of a store requires an integer of at least 0, got {dim}; count "
                "axes from the innermost, which is 0"
            )
        if self.kind is StoreKind.NATIVE and dim != 0:
            raise SchemeError(
                f"the native store requires no packed axis, got {dim}; use packed_native or "
                "packed_u32 to pack along an axis"
            )
        object.__setattr__(self, "dim", dim)

    @classmethod
    def packed_native(cls, dim: int = 0) -> QuantStore:
        """Return the store of bytes filled with as many codes as fit along axis `dim`."""
        return cls(StoreKind.PACKED_NATIVE, dim)

    @classmethod
    def packed_u32(cls, dim: int = 0) -> QuantStore:
        """Return the store of 32-bit words filled with as many codes as fit along axis `dim`."""
        return cls(StoreKind.PACKED_U32, dim)

    @classmethod
    def of(cls, given: QuantStore | str) -> QuantStore:
        """Return the store that `given` is or spells: ``"native"``, ``"packed_u32(1)"``.

        Raises
        ------
        SchemeError
            It spells none.
        """
        if isinstance(given, QuantStore):
            return given
        spelled = _STORE_SPELLING.fullmatch(given.lower()) if isinstance(given, str) else None
        if spelled is None:
            raise SchemeError(
                "store requires one of native, packed_native, packed_u32, the packed ones with an "
                f"axis in parentheses if it is not the innermost, got {given!r}"
            )
        return cls(StoreKind(spelled[1]), int(spelled[2] or 0))

    @property
    def is_packed(self) -> bool:
        """Whether several codes may share a word."""
        return self.kind in _WORD_BITS

    @property
    def word_bits(self) -> int:
        """Bits of one word of data; a native code takes a byte."""
        return _WORD_BITS.get(self.kind, 8)

    @property
    def word_dtype(self) -> str:
        """The unsigned dtype of one word of data."""
        return f"uint{self.word_bits}"

    def codes_per_word(self, value: QuantValue | str) -> int:
        """Return how many codes of `value` one word holds."""
        return self.word_bits // QuantValue.of(value, "value").bits if self.is_packed else 1

    def __str__(self) -> str:
        """Return the shortest string that `of` turns back into this store."""
        return f"{self.kind.value}({self.dim})" if self.dim else self.kind.value

    def __repr__(self) -> str:
        """Return the expression that builds this store."""
        if self.is_packed:
            return f"QuantStore.{self.kind.value}({self.dim})"
        return f"QuantStore.{self.kind.name}"


QuantStore.NATIVE = QuantStore(StoreKind.NATIVE)


@dataclass(frozen=True, slots=True, init=False)
class BlockScale:
    """One scale for each block of elements.

    A block is a rectangle, aligned to the trailing axes of whatever array it is applied to.
    Axes that it does not name have extent 1; leading ones are therefore dropped, so that
    ``[1, 32]`` and ``[32]`` are the same block. ``[1]`` stays, a scale for every element.

    Parameters
    ----------
    size : int or iterable of int
        The extent of a block along each trailing axis, from 1 to 2**63 - 1; -1 spans the axis.
    dtype : ScaleDtype or str
        The dtype that the scales are stored in.

    Raises
    ------
    SchemeError
        The size is empty, or an extent is not such an integer.
    """

    size: tuple[int, ...]
    dtype: ScaleDtype

    def __init__(
        self,
        size: SupportsIndex | Iterable[SupportsIndex],
        dtype: ScaleDtype | str = ScaleDtype.F32,
    ) -> None:
        object.__setattr__(self, "size", _canonical_size(size))
        object.__setattr__(self, "dtype", ScaleDtype.of(dtype, "scale dtype"))


@dataclass(frozen=True, slots=True, init=False)
class ChannelScale:
    """One scale for each index of an axis, whatever the rank of the array.

    Parameters
    ----------
    axis : int
        The axis; negative ones count from the end.
    dtype : ScaleDtype or str
        The dtype that the scales are stored in.

    Raises
    ------
    SchemeError
        The axis is not an integer.
    """

    axis: int
    dtype: ScaleDtype

    def __init__(self, axis: SupportsIndex, dtype: ScaleDtype | str = ScaleDtype.F32) -> None:
        object.__setattr__(self, "axis", _integer(axis, "the axis of per_channel"))
        object.__setattr__(self, "dtype", ScaleDtype.of(dtype, "scale dtype"))

    def block_of_rank(self, ndim: int) -> BlockScale:
        """Return the block that means the same for arrays of `ndim` axes.

        Raises
        ------
        LayoutError
            Such an array has no such axis.
        """
        if not -ndim <= self.axis < ndim:
            raise LayoutError(
                f"per_channel({self.axis}) requires an array with that axis, got one of {ndim} "
                f"{'axis' if ndim == 1 else 'axes'}; choose an axis it has, or per_tensor()"
            )
        size = [SPAN] * ndim
        size[self.axis] = 1
        return BlockScale(size, self.dtype)


def normal_codebook(codebook: Iterable[SupportsFloat], bits: int) -> tuple[float, ...]:
    """Return `codebook` as a tuple of ``2**bits`` floats rounded to float32.

    Raises
    ------
    CodebookError
        It has another length, an entry that is not a finite number, or no nonzero entry.
    """
    try:
        if isinstance(codebook, str | bytes):
            raise TypeError
        entries = tuple(round_to_float32(float(entry)) for entry in codebook)
    except (TypeError, ValueError):
        raise CodebookError(
            f"a codebook requires {1 << bits} floats, got {codebook!r}; give it as a flat list"
        ) from None
    if len(entries) != 1 << bits:
        raise CodebookError(
            f"a codebook for {bits}-bit codes requires {1 << bits} entries, got {len(entries)}; "
            "give one entry for each code"
        )
    for code, entry in enumerate(entries):
        if not math.isfinite(entry):
            raise CodebookError(
                f"a codebook requires entries that are finite in float32, got {entry} at code "
                f"{code}; replace it"
            )
    if not any(entries):
        raise CodebookError(
            "a codebook requires at least one nonzero entry, got zeros only; scales are relative "
            "to its largest magnitude"
        )
    return entries
