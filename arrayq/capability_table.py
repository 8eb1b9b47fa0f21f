"""What works where, asked and printed.

The questions `supports`, `capabilities` and `facts` are answered by the rows of
`arrayq.capability`, which also refuse at run time.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import ModuleType
from typing import Final, NamedTuple

from arrayq.capability import (
    OPERATIONS,
    Laziness,
    Profile,
    Refusal,
    operation_named,
    refusal_of,
)
from arrayq.errors import ArgumentError, SchemeError, UnsupportedSchemeError
from arrayq.formats import FORMATS
from arrayq.namespaces import located, profile_named
from arrayq.presets import scheme as parse_scheme
from arrayq.scheme import BlockScale, QuantMode, QuantScheme, QuantStore, QuantValue, ScaleDtype

__all__ = ["CapabilityRow", "Verdict", "capabilities", "facts", "refusals", "supports"]


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
    x_or_name : array, module or str
        An array, an array namespace, or the name of an array library.
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
    scheme = parse_scheme(scheme)
    operation_named(operation)
    try:
        if isinstance(x_or_name, str | ModuleType):
            refusal = refusal_of(profile_named(x_or_name), scheme, operation)
        else:
            x = located(x_or_name)
            refusal = refusal_of(x.profile, scheme, operation, x.dtype, x.path)
    except UnsupportedSchemeError as refused:
        return Verdict(False, str(refused))
    return Verdict(True) if refusal is None else Verdict(False, refusal[1])


def capabilities(
    namespace: str | ModuleType = "numpy", path: str | None = None
) -> tuple[CapabilityRow, ...]:
    """Return the capability table of an array library.

    Parameters
    ----------
    namespace : str or module
        The name of the library, or its array namespace.
    path : {"host", "generic", "chunked"}, optional
        Where its arrays are worked on; by default the usual path of the library.

    Returns
    -------
    tuple of CapabilityRow
        One row for each operation, value, scale dtype, store and mode; combinations that no
        scheme can have are among them, with the rule that they break as their reason.

    Raises
    ------
    UnsupportedSchemeError
        There is no row for that library.
    ArgumentError
        Its arrays do not take that path.
    """
    profile = profile_named(namespace)
    if path is not None and path not in profile.paths:
        raise ArgumentError(
            f"path on {profile.name} requires one of {', '.join(profile.paths) or 'none'}, got "
            f"{path!r}"
        )
    return tuple(row for name in OPERATIONS for row in _rows(profile, name, path))


def facts(namespace: str | ModuleType) -> dict[str, str]:
    """Return what a row says of an array library, beside what works.

    Parameters
    ----------
    namespace : str or module
        The name of the library, or its array namespace.

    Returns
    -------
    dict of str to str
        Answers by their subject; only two for a library on whose arrays nothing works.

    Raises
    ------
    UnsupportedSchemeError
        There is no row for that library.
    """
    row = profile_named(namespace)
    about = {
        "library": row.name,
        "paths": ", ".join(row.paths) or "none, all is refused",
    }
    if not row.paths:
        return about
    return about | {
        "computes": _COMPUTES[row.laziness],
        "dtypes that can be quantized": ", ".join(row.dtypes),
        "narrow dtypes of its own": ", ".join(row.native_dtypes) or "none",
        "float32 subnormals": "kept" if row.subnormals else "flushed to zero",
        "sign of zero": "kept" if row.signed_zeros else "lost",
        "integers that 32-bit words are made in": row.word_integer,
        "integers that index": row.index_integer,
        "bits of floats": "seen by view(dtype)" if row.views else "not seen",
        "arithmetic": "may be rewritten by its compiler" if row.rewrites else "as written",
        "out=": "accepted for arrays in CPU memory" if row.writes else "refused",
    }


def refusals(namespace: str | ModuleType) -> tuple[Refusal, ...]:
    """Return what a row refuses on the paths that its library takes.

    Parameters
    ----------
    namespace : str or module
        The name of the library, or its array namespace.

    Raises
    ------
    UnsupportedSchemeError
        There is no row for that library.
    """
    row = profile_named(namespace)
    return tuple(
        refusal
        for refusal in row.refusals
        if refusal.path is None or not refusal.path.isdisjoint(row.paths)
    )


_COMPUTES: Final = {
    Laziness.EAGER: "at once",
    Laziness.TRACED: "at once, or later where a compiler records the operations",
    Laziness.LAZY: "when the result is asked for",
}


def _rows(profile: Profile, operation: str, path: str | None) -> list[CapabilityRow]:
    reads = operation_named(operation).reads
    if reads == {"value"}:
        # Bare elements have neither scale nor layout, and every row of the registry is one.
        refusal = refusal_of(profile, QuantScheme(), operation, path=path)
        ok, reason = refusal is None, "" if refusal is None else refusal[1]
        return [CapabilityRow(operation, name, None, None, None, ok, reason) for name in FORMATS]
    rows = []
    for value, scale, store, mode in itertools.product(
        QuantValue,
        ScaleDtype if "scale" in reads else (None,),
        _STORES,
        QuantMode if "mode" in reads else (None,),
    ):
        verdict = _verdict(profile, operation, path, value, scale, store, mode)
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
    path: str | None,
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
    refusal = refusal_of(profile, scheme, operation, path=path)
    return Verdict(True) if refusal is None else Verdict(False, refusal[1])


def _any_mode(value: QuantValue) -> QuantMode:
    """Return a mode that `value` can have, for operations that do not depend on it."""
    return QuantScheme().with_value(value).mode
