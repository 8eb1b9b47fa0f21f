"""What works where: one row for each array library, and the questions that are asked of it.

A row (`Profile`) lists the input dtypes of a library and its refusals, each with its reason.
The same row answers `supports`, prints the table of `capabilities` and refuses at run time
(`require`), so the three cannot disagree.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from arrayq.errors import (
    ArrayqError,
    ArrayTypeError,
    CodebookError,
    SchemeError,
    UnsupportedSchemeError,
)
from arrayq.formats import FORMATS
from arrayq.presets import scheme as parse_scheme
from arrayq.scheme import BlockScale, QuantMode, QuantScheme, QuantStore, QuantValue, ScaleDtype

__all__ = [
    "OPERATIONS",
    "PROFILES",
    "CapabilityRow",
    "Profile",
    "Refusal",
    "Verdict",
    "capabilities",
    "require",
    "supports",
]


@dataclass(frozen=True, slots=True)
class _Operation:
    """One row of the table of operations."""

    reads: frozenset[str]
    """The parts of a scheme that the operation depends on."""
    takes_floats: bool = False
    needs_codebook: bool = False


_ELEMENT: Final = frozenset({"value"})
_WORD: Final = frozenset({"value", "store"})
_SCHEME: Final = frozenset({"value", "scale", "store", "mode"})

_OPERATIONS: Final[Mapping[str, _Operation]] = MappingProxyType(
    {
        "quantize": _Operation(_SCHEME, takes_floats=True, needs_codebook=True),
        "dequantize": _Operation(_SCHEME, needs_codebook=True),
        "calibrate": _Operation(_SCHEME, takes_floats=True, needs_codebook=True),
        "fake_quantize": _Operation(_SCHEME, takes_floats=True, needs_codebook=True),
        "encode": _Operation(_ELEMENT, takes_floats=True),
        "decode": _Operation(_ELEMENT),
        "pack": _Operation(_WORD),
        "unpack": _Operation(_WORD),
        "to_bytes": _Operation(_SCHEME),
        "from_bytes": _Operation(_SCHEME, needs_codebook=True),
        "compare": _Operation(_SCHEME, takes_floats=True, needs_codebook=True),
    }
)

OPERATIONS: Final[tuple[str, ...]] = tuple(_OPERATIONS)
"""The operations that a library may support."""


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
    operation, value, scale, store, mode : frozenset of str, optional
        The names that it applies to. Stores are named by their kind, without an axis.
    """

    requires: str
    instead: str
    operation: frozenset[str] | None = None
    value: frozenset[str] | None = None
    scale: frozenset[str] | None = None
    store: frozenset[str] | None = None
    mode: frozenset[str] | None = None

    def applies(self, operation: str, scheme: QuantScheme) -> bool:
        """Return whether `operation` is refused for `scheme`."""
        reads = _OPERATIONS[operation].reads
        parts = (
            ("operation", self.operation, operation),
            ("value", self.value, scheme.value.value),
            ("scale", self.scale, scheme.scale_dtype.value),
            ("store", self.store, scheme.store.kind.value),
            ("mode", self.mode, scheme.mode.value),
        )
        return all(
            names is None or (name in names and part in reads | {"operation"})
            for part, names, name in parts
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """One row of the capability table: what an array library can do.

    Parameters
    ----------
    name : str
        The name of the library.
    dtypes : tuple of str
        The dtypes of arrays that can be quantized.
    refusals : tuple of Refusal
        What does not work; everything else does.
    """

    name: str
    dtypes: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()


PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        row.name: row
        for row in (Profile(name="numpy", dtypes=("float16", "float32", "float64", "bfloat16")),)
    }
)
"""The capability table, by the name of the library."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer that is true or false and says why.

    Parameters
    ----------
    ok : bool
        Whether it works.
    reason : str
        What is required and what to do instead; empty when it works.
    """

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        """Return whether it works."""
        return self.ok


class CapabilityRow(NamedTuple):
    """One line of the table that `capabilities` returns.

    Parts of a scheme that an operation does not depend on are None.
    """

    operation: str
    value: str
    scale: str | None
    store: str | None
    mode: str | None
    ok: bool
    reason: str


def supports(x_or_name: object, scheme: QuantScheme | str, operation: str = "quantize") -> Verdict:
    """Say whether an operation works, before any work is done.

    Parameters
    ----------
    x_or_name : array or str
        An array, or the name of an array library.
    scheme : QuantScheme or str
        The scheme, or its short spelling.
    operation : str
        One of `OPERATIONS`.

    Returns
    -------
    Verdict
        True or false, with the reason that running the operation would give.

    Raises
    ------
    ArrayTypeError
        The first argument is neither a string nor an array of any library.
    SchemeError
        The scheme is misspelled.

    Examples
    --------
    >>> bool(supports("numpy", "nvfp4"))
    True
    """
    from arrayq.namespaces import profile_named, profile_of  # it imports the rows from here

    scheme = parse_scheme(scheme)
    try:
        if isinstance(x_or_name, str):
            profile, dtype = profile_named(x_or_name), None
        else:
            profile, dtype = profile_of(x_or_name), getattr(x_or_name, "dtype", None)
    except UnsupportedSchemeError as refused:
        return Verdict(False, str(refused))
    _operation(operation)
    refusal = _refusal(profile, scheme, operation, dtype)
    return Verdict(True) if refusal is None else Verdict(False, refusal[1])


def require(
    profile: Profile, scheme: QuantScheme, operation: str, dtype: Hashable | None = None
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
    dtype : dtype, optional
        The dtype of the array, for operations on floats.

    Raises
    ------
    ArrayTypeError
        The dtype is not one that can be quantized.
    CodebookError
        The scheme looks codes up and has no codebook.
    UnsupportedSchemeError
        The library cannot do it, or there is no such operation.
    """
    refusal = _refusal(profile, scheme, operation, dtype)
    if refusal is not None:
        error, message = refusal
        raise error(message)


@functools.lru_cache(maxsize=4096)
def _refusal(
    profile: Profile, scheme: QuantScheme, operation: str, dtype: Hashable | None
) -> tuple[type[ArrayqError], str] | None:
    """Return the error to raise, or None where it works."""
    row = _operation(operation)
    name = getattr(dtype, "name", dtype)
    if row.takes_floats and name is not None and name not in profile.dtypes:
        *others, last = profile.dtypes
        accepted = f"{', '.join(others)} or {last}" if others else last
        return ArrayTypeError, (
            f"{operation} on {profile.name} requires an array of {accepted}, got {name}; "
            "convert it with x.astype('float32')"
        )
    if row.needs_codebook:
        try:
            scheme.require_codebook()
        except CodebookError as missing:
            return CodebookError, f"{operation} on {profile.name}: {missing}"
    for refusal in profile.refusals:
        if refusal.applies(operation, scheme):
            return UnsupportedSchemeError, (
                f"{operation} on {profile.name} with scheme {scheme} requires "
                f"{refusal.requires}; {refusal.instead}"
            )
    return None


def _operation(name: str) -> _Operation:
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise UnsupportedSchemeError(
            f"an operation requires one of {', '.join(OPERATIONS)}, got {name!r}"
        )
    return _OPERATIONS[name]


def capabilities(namespace: str = "numpy") -> tuple[CapabilityRow, ...]:
    """Return the capability table of an array library.

    Parameters
    ----------
    namespace : str
        The name of the library.

    Returns
    -------
    tuple of CapabilityRow
        One row for each operation, value, scale dtype, store and mode; combinations that no
        scheme can have are among them, with the rule that they break as their reason.

    Raises
    ------
    UnsupportedSchemeError
        There is no row for that library.
    """
    from arrayq.namespaces import profile_named  # it imports the rows from here

    profile = profile_named(namespace)
    return tuple(row for name in OPERATIONS for row in _rows(profile, name))


def _rows(profile: Profile, operation: str) -> list[CapabilityRow]:
    reads = _OPERATIONS[operation].reads
    if reads == _ELEMENT:
        # Bare elements have neither scale nor layout, and every row of the registry is one.
        return [CapabilityRow(operation, name, None, None, None, True, "") for name in FORMATS]
    rows = []
    for value, scale, store, mode in itertools.product(
        QuantValue,
        ScaleDtype if "scale" in reads else (None,),
        _STORES,
        QuantMode if "mode" in reads else (None,),
    ):
        verdict = _verdict(profile, operation, value, scale, store, mode)
        rows.append(
            CapabilityRow(
                operation,
                str(value),
                scale and str(scale),
                store.kind.value,
                mode and str(mode),
                verdict.ok,
                verdict.reason,
            )
        )
    return rows


_STORES: Final = (QuantStore.NATIVE, QuantStore.packed_native(), QuantStore.packed_u32())


def _verdict(
    profile: Profile,
    operation: str,
    value: QuantValue,
    scale: ScaleDtype | None,
    store: QuantStore,
    mode: QuantMode | None,
) -> Verdict:
    """Return the verdict on the simplest scheme made of these parts."""
    lookup = mode is QuantMode.LOOKUP
    try:
        scheme = QuantScheme(
            value,
            store,
            mode or _any_mode(value),
            block=BlockScale(32, scale or ScaleDtype.F32),
            codebook=range(1 << value.bits) if lookup else None,
        )
    except SchemeError as broken:
        return Verdict(False, str(broken))
    refusal = _refusal(profile, scheme, operation, None)
    return Verdict(True) if refusal is None else Verdict(False, refusal[1])


def _any_mode(value: QuantValue) -> QuantMode:
    """Return a mode that `value` can have, for operations that do not depend on it."""
    return QuantScheme().with_value(value).mode
