"""What works where: one row for each array library.

A row (`Profile`) says how a library works and what it refuses, each with its reason. The same row
answers `supports`, prints the table of `capabilities` (both in `arrayq.capability_table`) and
refuses at run time (`require`), so the three cannot disagree.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from arrayq.choice import Choice
from arrayq.errors import (
    ArrayqError,
    ArrayTypeError,
    CodebookError,
    UnsupportedSchemeError,
)
from arrayq.numerics import Calibration
from arrayq.scheme import QuantScheme

__all__ = [
    "OPERATIONS",
    "PROFILES",
    "Laziness",
    "Operation",
    "Profile",
    "Refusal",
    "operation_named",
    "refusal_of",
    "require",
]


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table of operations."""

    reads: frozenset[str]
    """The parts of a scheme that the operation depends on."""
    takes_floats: bool = False
    needs_codebook: bool = False


_ELEMENT: Final = frozenset({"value"})
_WORD: Final = frozenset({"value", "store"})
_SCHEME: Final = frozenset({"value", "scale", "store", "mode"})
_RULES: Final = _SCHEME | {"calibration", "rounding"}

_OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "quantize": Operation(_RULES, takes_floats=True, needs_codebook=True),
        "dequantize": Operation(_SCHEME, needs_codebook=True),
        "calibrate": Operation(_RULES, takes_floats=True, needs_codebook=True),
        "fake_quantize": Operation(_RULES, takes_floats=True, needs_codebook=True),
        "encode": Operation(_ELEMENT, takes_floats=True),
        "decode": Operation(_ELEMENT),
        "pack": Operation(_WORD),
        "unpack": Operation(_WORD),
        "to_bytes": Operation(_SCHEME),
        "from_bytes": Operation(_SCHEME, needs_codebook=True),
        "compare": Operation(_RULES, takes_floats=True, needs_codebook=True),
    }
)

OPERATIONS: Final[tuple[str, ...]] = tuple(_OPERATIONS)
"""The operations that a library may support."""


_REFUSABLE: Final = (
    "path", "operation", "value", "scale", "store", "mode", "calibration", "rounding",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that a library cannot do.

    It applies where every part that is given matches; a part left out matches everything.

    Parameters
    ----------
    requires : str
        What would have to be true, to complete "quantize on NAME with SCHEME requires ...".
    instead : str
        What to do instead.
    operation, value, scale, store, mode, calibration, rounding : frozenset of str, optional
        The names that it applies to. Stores are named by their kind, without an axis.
    path : frozenset of str, optional
        The paths that it applies to (`Profile.paths`).
    """

    requires: str
    instead: str
    operation: frozenset[str] | None = None
    value: frozenset[str] | None = None
    scale: frozenset[str] | None = None
    store: frozenset[str] | None = None
    mode: frozenset[str] | None = None
    calibration: frozenset[str] | None = None
    rounding: frozenset[str] | None = None
    path: frozenset[str] | None = None

    @property
    def concerns(self) -> str:
        """The parts that it is about, in words; empty for everything."""
        parts = ((part, getattr(self, part)) for part in _REFUSABLE)
        return "; ".join(f"{part} {', '.join(sorted(names))}" for part, names in parts if names)

    def applies(
        self, operation: str, scheme: QuantScheme, path: str, calibration: Calibration | None = None
    ) -> bool:
        """Return whether `operation` is refused for `scheme` on a path."""
        reads = _OPERATIONS[operation].reads | {"operation", "path"}
        parts = (
            ("operation", self.operation, operation),
            ("path", self.path, path),
            ("value", self.value, scheme.value.value),
            ("scale", self.scale, scheme.scale_dtype.value),
            ("store", self.store, scheme.store.kind.value),
            ("mode", self.mode, scheme.mode.value),
            ("calibration", self.calibration, str(calibration or scheme.numerics.calibration)),
            ("rounding", self.rounding, str(scheme.rounding)),
        )
        return all(
            names is None or (name in names and part in reads) for part, names, name in parts
        )


class Laziness(Choice):
    """When an array library computes."""

    EAGER = "eager"
    """At once."""
    TRACED = "traced"
    """At once, or later where a compiler records the operations."""
    LAZY = "lazy"
    """When the result is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """One row of the capability table: what an array library can do.

    Parameters
    ----------
    name : str
        The name of the library.
    dtypes : tuple of str
        The dtypes of arrays that can be quantized.
    paths : tuple of str
        Where its arrays are worked on, the usual one first: ``"host"``, the compiled kernels, for
        what lies in CPU memory; ``"generic"``, functions of its own namespace; ``"chunked"``,
        chunk by chunk.
    laziness : Laziness
        When it computes.
    word_integer : str
        The integer dtype in which it puts 32-bit words together.
    index_integer : str
        The integer dtype of the indices that its ``take`` accepts.
    views : bool
        Whether its arrays have a ``view(dtype)`` onto their bits.
    rewrites : bool
        Whether its compiler may replace arithmetic by other arithmetic, with other roundings.
    subnormals : bool
        Whether its own arithmetic keeps float32 subnormals rather than flushing them to zero.
    signed_zeros : bool
        Whether its own arithmetic keeps the sign of zero.
    writes : bool
        Whether its arrays can be written to, as `out` is.
    native_dtypes : tuple of str
        The narrow dtypes that it has, beside int8 and uint8.
    refusals : tuple of Refusal
        What does not work; everything else does.
    """

    name: str
    dtypes: tuple[str, ...]
    paths: tuple[str, ...] = ("host",)
    laziness: Laziness = Laziness.EAGER
    word_integer: str = "uint32"
    index_integer: str = "int32"
    views: bool = False
    rewrites: bool = True
    subnormals: bool = True
    signed_zeros: bool = True
    writes: bool = True
    native_dtypes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()


_ML_DTYPES: Final = (
    "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float6_e3m2fn", "float6_e2m3fn",
    "float4_e2m1fn", "int4", "uint4", "int2", "uint2", "bfloat16",
)  # fmt: skip
_JAX_DTYPES: Final = tuple(name for name in _ML_DTYPES if not name.startswith("float6"))
_TORCH_DTYPES: Final = (
    "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2", "bfloat16",
)  # fmt: skip
_FLOATS: Final = ("float16", "float32", "float64", "bfloat16")
_AWAY: Final = frozenset({"generic", "chunked"})

_BY_PLACE: Final = Refusal(
    requires="an element's place in the whole array, which a chunk does not know",
    instead="quantize x.compute(), or choose another rounding",
    rounding=frozenset({"stochastic"}),
    path=frozenset({"chunked"}),
)
_BY_MEAN: Final = Refusal(
    requires="float64 sums in the order of the elements, which only CPU memory gives",
    instead="calibrate a copy in CPU memory and pass its qparams, or use method='minmax'",
    calibration=frozenset({"absmean"}),
    path=frozenset({"generic"}),
)
_IN_CPU_MEMORY: Final = Refusal(
    requires="an array in CPU memory whose values can be seen",
    instead="convert a copy of it in CPU memory",
    operation=frozenset({"encode", "decode", "pack", "unpack"}),
    path=_AWAY,
)
_COMMON: Final = (_BY_PLACE, _BY_MEAN, _IN_CPU_MEMORY)


def _refused(name: str, requires: str, instead: str) -> Profile:
    """Return the row of a library on whose arrays nothing works."""
    return Profile(
        name=name, dtypes=_FLOATS, paths=(), refusals=(Refusal(requires=requires, instead=instead),)
    )


PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        row.name: row
        for row in (
            Profile(
                name="numpy",
                dtypes=_FLOATS,
                paths=("host", "generic"),
                native_dtypes=_ML_DTYPES,
                views=True,
                rewrites=False,
                refusals=_COMMON,
            ),
            Profile(
                name="torch",
                dtypes=_FLOATS,
                paths=("host", "generic"),
                laziness=Laziness.TRACED,
                word_integer="int64",
                native_dtypes=_TORCH_DTYPES,
                views=True,
                rewrites=False,
                refusals=_COMMON,
            ),
            Profile(
                name="jax",
                dtypes=_FLOATS,
                paths=("host", "generic"),
                laziness=Laziness.TRACED,
                subnormals=False,
                writes=False,
                native_dtypes=_JAX_DTYPES,
                views=True,
                refusals=_COMMON,
            ),
            Profile(
                name="dask",
                dtypes=_FLOATS,
                paths=("chunked",),
                laziness=Laziness.LAZY,
                writes=False,
                views=True,
                rewrites=False,
                refusals=_COMMON,
            ),
            Profile(
                name="cupy",
                dtypes=("float16", "float32", "float64"),
                paths=("generic",),
                subnormals=False,
                writes=False,
                views=True,
                rewrites=False,
                refusals=_COMMON,
            ),
            Profile(
                name="mlx",
                dtypes=_FLOATS,
                paths=("host", "generic"),
                laziness=Laziness.TRACED,
                writes=False,
                native_dtypes=("bfloat16",),
                views=True,
                rewrites=False,
                refusals=_COMMON,
            ),
            Profile(
                name="array_api_strict",
                dtypes=("float32", "float64"),
                paths=("host", "generic"),
                word_integer="int64",
                writes=False,
                rewrites=False,
                refusals=_COMMON,
            ),
            Profile(
                name="ndonnx",
                dtypes=("float16", "float32", "float64"),
                paths=("generic",),
                laziness=Laziness.LAZY,
                word_integer="int64",
                index_integer="int64",
                signed_zeros=False,
                writes=False,
                refusals=_COMMON,
            ),
            Profile(
                name="other",
                dtypes=_FLOATS,
                paths=("generic",),
                word_integer="int64",
                writes=False,
                refusals=_COMMON,
            ),
            _refused(
                "sparse",
                "an array with a value for every element, and functions that sparse lacks "
                "(take, in-place order of elements)",
                "convert it with x.todense()",
            ),
            _refused(
                "cubed",
                "an array library that runs operations one by one in acceptable time",
                "quantize chunks with cubed.map_blocks, or use dask",
            ),
        )
    }
)
"""The capability table, by the name of the library.

``other`` stands for every library that `array_api_compat.array_namespace` accepts and that has no
row of its own.
"""


def require(
    profile: Profile,
    scheme: QuantScheme,
    operation: str,
    dtype: Hashable | None = None,
    path: str | None = None,
    calibration: Calibration | None = None,
) -> None:
    """Refuse what a library cannot do; the gate that every operation passes first.

    Parameters
    ----------
    profile : Profile
        The row of the library.
    scheme : QuantScheme
        The scheme, with the codebook that is going to be used.
    operation : str
        One of `OPERATIONS`.
    dtype : dtype or str, optional
        The dtype of the array, for operations on floats.
    path : str, optional
        Where the array is worked on; by default the usual path of the library.
    calibration : Calibration, optional
        How ranges are found; by default what the scheme says.

    Raises
    ------
    ArrayTypeError
        The dtype is not one that can be quantized.
    CodebookError
        The scheme looks codes up and has no codebook.
    UnsupportedSchemeError
        The library cannot do it, or there is no such operation.
    """
    refusal = refusal_of(profile, scheme, operation, dtype, path, calibration)
    if refusal is not None:
        error, message = refusal
        raise error(message)


@functools.lru_cache(maxsize=4096)
def refusal_of(
    profile: Profile,
    scheme: QuantScheme,
    operation: str,
    dtype: Hashable | None = None,
    path: str | None = None,
    calibration: Calibration | None = None,
) -> tuple[type[ArrayqError], str] | None:
    """Return the error to raise, or None where it works."""
    row = operation_named(operation)
    name = getattr(dtype, "name", dtype)
    if row.takes_floats and name is not None and name not in profile.dtypes:
        *others, last = profile.dtypes
        accepted = f"{', '.join(others)} or {last}" if others else last
        return ArrayTypeError, (
            f"{operation} on {profile.name} requires an array of {accepted}, got {name}; "
            "convert it to float32 first"
        )
    if row.needs_codebook:
        try:
            scheme.require_codebook()
        except CodebookError as missing:
            return CodebookError, f"{operation} on {profile.name}: {missing}"
    path = path or (profile.paths[0] if profile.paths else "none")
    for refusal in profile.refusals:
        if refusal.applies(operation, scheme, path, calibration):
            # bare elements have no scheme to name
            subject = "" if row.reads == _ELEMENT else f" with scheme {scheme}"
            return UnsupportedSchemeError, (
                f"{operation} on {profile.name}{subject} requires {refusal.requires}; "
                f"{refusal.instead}"
            )
    return None


def operation_named(name: str) -> Operation:
    """Return the row of an operation.

    Raises
    ------
    UnsupportedSchemeError
        There is no such operation.
    """
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise UnsupportedSchemeError(
            f"an operation requires one of {', '.join(OPERATIONS)}, got {name!r}"
        )
    return _OPERATIONS[name]
