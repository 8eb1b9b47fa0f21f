"""The data model: a `QuantScheme` says everything about how an array is encoded.

The model is that of the Rust framework burn. A scheme is a frozen, hashable value that names
an element format, a physical layout, up to two levels of scales and the rules that decide the
bits. It imports no array library and refuses, when it is built, whatever makes no sense.

Wherever a member of an enumeration is expected, its string is accepted:

>>> scheme = QuantScheme().with_value("q8s").with_store("native").per_block([2, 16], "f16")
>>> scheme.value
QuantValue.Q8S
>>> scheme.block_extents(3)
(1, 2, 16)
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, SupportsFloat, SupportsIndex

from arrayq.errors import CodebookError, LayoutError, SchemeError
from arrayq.formats import NF4_CODEBOOK, Kind
from arrayq.numerics import (
    ROUNDING_OF_KIND,
    Numerics,
    Rounding,
    RuleValue,
    ScaleFrom,
    known_rules,
)
from arrayq.scheme_parts import (
    SPAN,
    BlockScale,
    ChannelScale,
    QuantMode,
    QuantStore,
    QuantValue,
    ScaleDtype,
    StoreKind,
    normal_codebook,
)
from arrayq.scheme_rules import RULES
from arrayq.zero_points import ZeroDtype, ZeroKind, ZeroPoint, default_zero

__all__ = [
    "SPAN",
    "BlockScale",
    "ChannelScale",
    "QuantMode",
    "QuantScheme",
    "QuantStore",
    "QuantValue",
    "ScaleDtype",
    "StoreKind",
    "ZeroDtype",
    "ZeroKind",
    "ZeroPoint",
]


@dataclass(frozen=True, init=False, eq=False)
class QuantScheme:
    """How an array is encoded.

    ``QuantScheme()`` is burn's default; the ``with_...`` and ``per_...`` methods return a
    changed copy and are the usual way to build one. Neither `block` nor `tensor` given means
    one scale for the whole array, in float32; both given means two levels, where the scale of
    an element is ``f32(block scale * tensor scale)``.

    Parameters
    ----------
    value : QuantValue or str
        The format of an element.
    store : QuantStore or str
        Where codes lie in memory.
    mode : QuantMode or str
        Whether a code is a number, an index into the codebook, or a number counted from a
        zero point.
    block : BlockScale, ChannelScale or None
        The level of scales for blocks or channels.
    tensor : ScaleDtype, str or None
        The dtype of the scale for the whole array.
    numerics : Numerics, optional
        The rules that decide the bits; burn's if left out.
    codebook : iterable of float, optional
        ``2**bits`` finite numbers, rounded to float32, for LOOKUP. A lookup scheme of 4 bits
        without one takes NF4's.
    zero : ZeroPoint, optional
        What the zero points of an AFFINE scheme are; codes, in one byte each, if left out.

    Raises
    ------
    SchemeError
        The scheme breaks one of the rules of the model; the message names it.
    CodebookError
        The codebook has the wrong length, or entries that are not finite, or no nonzero one.
    """

    value: QuantValue
    store: QuantStore
    mode: QuantMode
    block: BlockScale | ChannelScale | None
    tensor: ScaleDtype | None
    numerics: Numerics
    codebook: tuple[float, ...] | None
    zero: ZeroPoint | None

    def __init__(
        self,
        value: QuantValue | str = QuantValue.Q8F,
        store: QuantStore | str = "packed_u32",
        mode: QuantMode | str = QuantMode.SYMMETRIC,
        block: BlockScale | ChannelScale | None = None,
        tensor: ScaleDtype | str | None = None,
        numerics: Numerics | None = None,
        codebook: Iterable[SupportsFloat] | None = None,
        zero: ZeroPoint | None = None,
    ) -> None:
        if not isinstance(block, BlockScale | ChannelScale | None):
            raise SchemeError(
                f"block requires a BlockScale, a ChannelScale or None, got {block!r}; "
                "build it with per_block(size) or per_channel(axis)"
            )
        numerics = Numerics() if numerics is None else numerics
        if not isinstance(numerics, Numerics):
            raise SchemeError(
                f"numerics requires a Numerics, got {numerics!r}; build it with with_numerics(...)"
            )
        if not isinstance(zero, ZeroPoint | None):
            raise SchemeError(
                f"zero requires a ZeroPoint or None, got {zero!r}; build it with with_zero(kind)"
            )
        value = QuantValue.of(value, "value")
        mode = QuantMode.of(mode, "mode")
        if zero is None and mode is QuantMode.AFFINE:
            zero = default_zero(value, numerics)
        if codebook is not None:
            codebook = normal_codebook(codebook, value.bits)
        elif mode is QuantMode.LOOKUP and value.bits == 4:
            codebook = NF4_CODEBOOK
        parts = {
            "value": value,
            "store": QuantStore.of(store),
            "mode": mode,
            "block": block,
            "tensor": None if tensor is None else ScaleDtype.of(tensor, "tensor scale dtype"),
            "numerics": numerics,
            "codebook": codebook,
            "zero": zero,
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)
        for rule in RULES:
            broken = rule(self)
            if broken is not None:
                raise SchemeError(broken)

    @functools.cached_property
    def _identity(self) -> tuple[object, ...]:
        """All fields, the codebook by its bits: -0.0 equals 0.0 but decodes to other bits."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.codebook:
            parts["codebook"] = struct.pack(f"<{len(self.codebook)}f", *self.codebook)
        return tuple(parts.values())

    @functools.cached_property
    def _hash(self) -> int:
        # Schemes key the caches of every call, and a call on a small array takes microseconds.
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        """Return whether `other` is a scheme that encodes everything to the same bits."""
        if not isinstance(other, QuantScheme):
            return NotImplemented
        return self is other or self._identity == other._identity

    def __hash__(self) -> int:
        """Return the hash of all fields."""
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the fields alone, because hashes of strings differ between processes."""
        return QuantScheme, tuple(getattr(self, field.name) for field in fields(self))

    # Builders. Each returns a changed copy.

    def with_value(self, value: QuantValue | str) -> QuantScheme:
        """Return the scheme with elements in another format.

        A field (U1 to U8) means nothing without a codebook or a zero point, and moves a
        SYMMETRIC scheme to LOOKUP; ``with_mode("affine")`` then moves it on to AFFINE. NF4's
        codebook, which 4-bit lookup schemes take by themselves, is dropped when the width
        changes; a codebook of the caller's never is. So is the zero point that affine schemes
        take by themselves, for that of the new value.
        """
        value = QuantValue.of(value, "value")
        meaningless = value.kind is Kind.FIELD and self.mode is QuantMode.SYMMETRIC
        mode = QuantMode.LOOKUP if meaningless else self.mode
        outgrown = self.codebook == NF4_CODEBOOK and value.bits != 4
        return self._with(value=value, mode=mode, codebook=None if outgrown else self.codebook)

    def with_store(self, store: QuantStore | str) -> QuantScheme:
        """Return the scheme with another layout of its codes."""
        return self._with(store=store)

    def with_mode(
        self, mode: QuantMode | str, codebook: Iterable[SupportsFloat] | None = None
    ) -> QuantScheme:
        """Return the scheme in another mode, with a codebook of ``2**bits`` floats if given.

        What only the mode that is left uses, a codebook or a zero point, stays behind.
        """
        mode = QuantMode.of(mode, "mode")
        if codebook is None and mode is QuantMode.LOOKUP:
            codebook = self.codebook
        zero = self.zero if mode is QuantMode.AFFINE else None
        return self._with(mode=mode, codebook=codebook, zero=zero)

    def with_zero(
        self, kind: ZeroKind | str = ZeroKind.CODE, dtype: ZeroDtype | str | None = None
    ) -> QuantScheme:
        """Return the affine scheme with zero points of another kind or dtype.

        Parameters
        ----------
        kind : ZeroKind or str
            ``"code"`` for ``(c - z) * s``, ``"bias"`` for ``c * s + z``.
        dtype : ZeroDtype or str, optional
            How they are stored; if left out, codes as one byte, signed as the codes are (f32
            under ``scale_from="inverse_range"``), and biases as f32.
        """
        if dtype is None:
            return self._with(zero=default_zero(self.value, self.numerics, kind))
        return self._with(zero=ZeroPoint(kind, dtype))

    def with_codebook(self, codebook: Iterable[SupportsFloat] | None) -> QuantScheme:
        """Return the lookup scheme with another codebook; None is NF4's for 4 bits, else none."""
        return self._with(codebook=codebook)

    def with_numerics(self, numerics: Numerics | None = None, **rules: RuleValue) -> QuantScheme:
        """Return the scheme with other rules.

        Parameters
        ----------
        numerics : Numerics, optional
            What to start from; the scheme's own rules if left out.
        **rules : str, member or number
            The rules to change, by name: ``scale_from="qmax"``, ``smallest_scale=1e-5``.
        """
        base = self.numerics if numerics is None else numerics
        if rules:
            base = Numerics(**{**base.to_dict(), **known_rules(rules)})
        return self._with(numerics=base)

    def per_block(
        self,
        size: SupportsIndex | Iterable[SupportsIndex],
        dtype: ScaleDtype | str = ScaleDtype.F32,
    ) -> QuantScheme:
        """Return the scheme with one scale for each block; see `BlockScale`."""
        return self._with(block=BlockScale(size, dtype))

    def per_channel(
        self, axis: SupportsIndex, dtype: ScaleDtype | str = ScaleDtype.F32
    ) -> QuantScheme:
        """Return the scheme with one scale for each index of `axis`; see `ChannelScale`."""
        return self._with(block=ChannelScale(axis, dtype))

    def per_tensor(self, dtype: ScaleDtype | str = ScaleDtype.F32) -> QuantScheme:
        """Return the scheme with a scale for the whole array, below its blocks if it has any."""
        return self._with(tensor=dtype)

    def _with(self, **changes: Any) -> QuantScheme:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.zero is not None and self.zero == default_zero(self.value, self.numerics):
            parts["zero"] = None  # which is filled in anew
        return QuantScheme(**{**parts, **changes})

    # What follows from the fields.

    @property
    def two_level(self) -> bool:
        """Whether block scales are relative to a tensor scale."""
        return self.block is not None and self.tensor is not None

    @property
    def scale_dtype(self) -> ScaleDtype:
        """The dtype of the stored grid of scales: that of the innermost level."""
        if self.block is not None:
            return self.block.dtype
        return ScaleDtype.F32 if self.tensor is None else self.tensor

    @property
    def codes_signed(self) -> bool:
        """Whether codes are two's complement integers rather than unsigned fields."""
        return self.value.kind is Kind.INT and self.mode is not QuantMode.LOOKUP

    @property
    def rounding(self) -> Rounding | None:
        """How elements are rounded; None under LOOKUP, which takes the nearest entry."""
        if self.mode is QuantMode.LOOKUP:
            return None
        return self.numerics.rounding or ROUNDING_OF_KIND[self.value.kind]

    @property
    def scales_signed(self) -> bool:
        """Whether the rules make negative scales."""
        return self.numerics.scale_from is ScaleFrom.SIGNED_MAX

    @property
    def data_dtype(self) -> str:
        """The dtype of the stored data: int8 for native integers, else the store's word."""
        native_integers = self.codes_signed and not self.store.is_packed
        return "int8" if native_integers else self.store.word_dtype

    def code_table(self) -> tuple[float, ...]:
        """Return what each of the ``2**bits`` codes means before it is scaled.

        Raises
        ------
        CodebookError
            The scheme looks codes up and has no codebook.
        """
        if self.mode is QuantMode.LOOKUP:
            return self.require_codebook()
        return self.value.format.values

    def require_codebook(self) -> tuple[float, ...]:
        """Return the codebook of a LOOKUP scheme; an empty one for a scheme that uses none.

        Raises
        ------
        CodebookError
            The scheme looks codes up and has no codebook.
        """
        if self.mode is not QuantMode.LOOKUP:
            return ()
        if self.codebook is None:
            raise CodebookError(
                f"{self} requires a codebook of {1 << self.value.bits} floats, got none; give it "
                "with with_codebook(...) or in QParams(codebook=...)"
            )
        return self.codebook

    def resolve(self, ndim: int) -> QuantScheme:
        """Return the scheme for arrays of `ndim` axes, with per_channel turned into a block.

        Raises
        ------
        LayoutError
            The axis of per_channel is not one of such an array.
        """
        if isinstance(self.block, ChannelScale):
            return self._with(block=self.block.block_of_rank(ndim))
        return self

    def block_extents(self, ndim: int) -> tuple[int, ...]:
        """Return the extent of a block along each of `ndim` axes, first axis first.

        -1 spans its axis; without a block level every axis is spanned.

        Raises
        ------
        LayoutError
            The block has more axes than such an array, or its channel axis is not one of them.
        """
        block = self.resolve(ndim).block
        if block is None:
            return (SPAN,) * ndim
        assert isinstance(block, BlockScale)
        missing = ndim - len(block.size)
        if missing < 0:
            raise LayoutError(
                f"block {list(block.size)} requires an array of at least {len(block.size)} axes, "
                f"got one of {ndim}; give the block at most {ndim} extents, or use per_tensor()"
            )
        return (1,) * missing + block.size

    # Text and JSON.

    def to_dict(self) -> dict[str, Any]:
        """Return the scheme as JSON types, without loss; `from_dict` is its inverse."""
        return {
            "value": str(self.value),
            "store": str(self.store),
            "mode": str(self.mode),
            "block": _block_to_dict(self.block),
            "tensor": None if self.tensor is None else str(self.tensor),
            "numerics": self.numerics.to_dict(),
            "codebook": None if self.codebook is None else list(self.codebook),
            "zero": None if self.zero is None else _zero_to_dict(self.zero),
        }

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> QuantScheme:
        """Return the scheme that `to_dict` wrote; parts that are left out take their default.

        Raises
        ------
        SchemeError
            The parts do not describe a scheme.
        """
        known = [field.name for field in fields(cls)]
        given = dict(_mapping(parts, "a scheme"))
        unknown = sorted(str(name) for name in set(given) - set(known))
        if unknown:
            raise SchemeError(
                f"a scheme requires parts among {', '.join(known)}, got {unknown[0]!r}; it may "
                "come from a newer version of arrayq"
            )
        if given.get("block") is not None:
            given["block"] = _block_from_dict(given["block"])
        if given.get("zero") is not None:
            given["zero"] = _zero_from_dict(given["zero"])
        if "numerics" in given:
            given["numerics"] = Numerics.from_dict(_mapping(given["numerics"], "numerics"))
        return cls(**given)

    def __str__(self) -> str:
        """Return the short spelling where one exists, else a readable long form."""
        from arrayq.presets import spelling_of  # presets are built from this module

        return spelling_of(self) or self._long_form()

    def _long_form(self) -> str:
        words = [f"{self.value} {self.mode}"]
        if self.codebook is not None:
            named = "NF4" if self.codebook == NF4_CODEBOOK else "own"
            words.append(f"{named} codebook of {len(self.codebook)}")
        if self.zero is not None:
            words.append(f"zero {self.zero}")
        words.append(str(self.store))
        if isinstance(self.block, BlockScale):
            words.append(f"block {list(self.block.size)} {self.block.dtype}")
        elif isinstance(self.block, ChannelScale):
            words.append(f"channel {self.block.axis} {self.block.dtype}")
        if self.tensor is not None:
            words.append(f"tensor {self.tensor}")
        words += [f"{rule}={choice}" for rule, choice in self.numerics.non_default().items()]
        return ", ".join(words)


def _mapping(given: object, what: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise SchemeError(f"{what} requires a dictionary, got {given!r}; write it with to_dict()")
    return given


def _block_to_dict(block: BlockScale | ChannelScale | None) -> dict[str, Any] | None:
    if block is None:
        return None
    where = {"size": list(block.size)} if isinstance(block, BlockScale) else {"axis": block.axis}
    return {**where, "dtype": str(block.dtype)}


def _block_from_dict(given: object) -> BlockScale | ChannelScale:
    parts = _mapping(given, "a block")
    if set(parts) == {"size", "dtype"}:
        return BlockScale(parts["size"], parts["dtype"])
    if set(parts) == {"axis", "dtype"}:
        return ChannelScale(parts["axis"], parts["dtype"])
    raise SchemeError(
        f"a block requires size and dtype, or axis and dtype, got {', '.join(map(str, parts))}"
    )


def _zero_to_dict(zero: ZeroPoint) -> dict[str, str]:
    return {"kind": str(zero.kind), "dtype": str(zero.dtype)}


def _zero_from_dict(given: object) -> ZeroPoint:
    parts = _mapping(given, "a zero point")
    if set(parts) != {"kind", "dtype"}:
        raise SchemeError(
            f"a zero point requires kind and dtype, got {', '.join(map(str, parts)) or 'nothing'}"
        )
    return ZeroPoint(parts["kind"], parts["dtype"])
