"""Which array library an object belongs to, and where its memory lies.

The only module that tells one library from another. It imports none of them: an object can only
belong to a library that the caller has imported already, and the module of `arrayq.interop` that
serves it is imported when the first of its arrays is seen.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Final, NamedTuple

import array_api_compat
import numpy as np

from arrayq.capability import PROFILES, Profile
from arrayq.errors import ArrayTypeError, UnsupportedSchemeError
from arrayq.interop.access import Access, Host
from arrayq.interop.numpy import NumpyAccess

__all__ = [
    "Library",
    "Located",
    "introduce",
    "library_of",
    "located",
    "profile_named",
    "profile_of",
]


@dataclass(frozen=True, slots=True)
class Library:
    """An array library: what it can do, which objects are its arrays, how they are reached.

    Third parties add one by an entry point of the group ``arrayq.namespaces`` that names such an
    object.

    Parameters
    ----------
    profile : Profile
        Its row of the capability table.
    owns : callable
        Says whether an object is an array of the library, without importing the library.
    access : str or type of Access
        The class that reaches its arrays, or where it is, as ``"module:class"``.
    ready : str, optional
        For libraries whose transformations have to know `QuantizedArray`: an attribute of the
        library's module that it has once it is imported.
    """

    profile: Profile
    owns: Callable[[object], bool]
    access: str | type[Access] = Access
    ready: str = ""
    _made: list[Access] = field(default_factory=list, compare=False, repr=False)

    def reach(self) -> Access:
        """Return the object that reaches its arrays, made once."""
        if not self._made:
            kind = self.access
            if isinstance(kind, str):
                module, _, name = kind.partition(":")
                kind = getattr(importlib.import_module(module), name)
            self._made.append(kind(self.profile))
        return self._made[0]


def _from_package(*packages: str) -> Callable[[object], bool]:
    """Return a predicate for objects whose class comes from one of the packages."""
    return lambda x: any(cls.__module__.partition(".")[0] in packages for cls in type(x).__mro__)


def _is_jax_array(x: object) -> bool:
    return array_api_compat.is_jax_array(x)


_NUMPY: Final = Library(PROFILES["numpy"], lambda x: isinstance(x, np.ndarray), NumpyAccess)
_OWN: Final = (
    _NUMPY,
    Library(
        PROFILES["torch"],
        array_api_compat.is_torch_array,
        "arrayq.interop.torch:TorchAccess",
        "compiler",
    ),
    Library(PROFILES["jax"], _is_jax_array, "arrayq.interop.jax:JaxAccess", "Array"),
    Library(PROFILES["dask"], array_api_compat.is_dask_array, "arrayq.interop.dask:DaskAccess"),
    Library(PROFILES["cupy"], array_api_compat.is_cupy_array, "arrayq.interop.cupy:CupyAccess"),
    Library(PROFILES["sparse"], array_api_compat.is_pydata_sparse_array),
    Library(
        PROFILES["ndonnx"], array_api_compat.is_ndonnx_array, "arrayq.interop.ndonnx:NdonnxAccess"
    ),
    Library(PROFILES["mlx"], _from_package("mlx"), "arrayq.interop.mlx:MlxAccess"),
    Library(
        PROFILES["array_api_strict"],
        _from_package("array_api_strict"),
        "arrayq.interop.strict:StrictAccess",
    ),
    Library(PROFILES["cubed"], _from_package("cubed")),
)


@functools.cache
def _third_party() -> tuple[Library, ...]:
    """Return the libraries that installed packages describe.

    Raises
    ------
    ArrayTypeError
        An entry point names something else.
    """
    found = []
    for point in entry_points(group="arrayq.namespaces"):
        library = point.load()
        if not isinstance(library, Library):
            raise ArrayTypeError(
                f"an entry point of arrayq.namespaces requires a Library, got {point.value}, "
                f"which is {type(library).__name__}"
            )
        found.append(library)
    return tuple(found)


@functools.cache
def _other(name: str) -> Library:
    """Return the library of arrays that only array_api_compat knows."""
    return Library(replace(PROFILES["other"], name=name), lambda _: False)


_LIBRARY_OF_TYPE: Final[dict[type, Library]] = {np.ndarray: _NUMPY}


def library_of(x: object) -> Library:
    """Return the library that `x` is an array of.

    Parameters
    ----------
    x : array
        An array. NumPy's subclasses and scalars count, masked arrays do not.

    Raises
    ------
    ArrayTypeError
        `x` is no array of any library, or its mask would be lost.
    """
    # Asking every library takes longer than a small kernel, so that types are remembered.
    known = _LIBRARY_OF_TYPE.get(type(x))
    if known is not None:
        return known
    library = _found(x)
    _LIBRARY_OF_TYPE[type(x)] = library
    return library


def _found(x: object) -> Library:
    if isinstance(x, np.ma.MaskedArray):
        raise ArrayTypeError(
            "x requires an array without a mask, got numpy.ma.MaskedArray; fill it with x.filled(0)"
        )
    if isinstance(x, np.generic):
        return _NUMPY
    for library in (*_third_party(), *_OWN):
        if library.owns(x):
            return library
    if array_api_compat.is_array_api_obj(x):
        return _other(type(x).__module__.partition(".")[0])
    raise ArrayTypeError(
        f"x requires an array of a supported library ({', '.join(_names())}), got "
        f"{type(x).__name__}; convert it with numpy.asarray(x)"
    )


def profile_of(x: object) -> Profile:
    """Return the capability row of the library that `x` is an array of.

    Raises
    ------
    ArrayTypeError
        As `library_of` does.
    """
    return library_of(x).profile


def _names() -> list[str]:
    third_party = [library.profile.name for library in _third_party()]
    return [*(name for name, row in PROFILES.items() if row.paths), *third_party]


def profile_named(name: str | ModuleType) -> Profile:
    """Return the capability row of the library called `name`.

    Parameters
    ----------
    name : str or module
        The name of a row, or an array namespace such as ``torch`` or ``jax.numpy``.

    Raises
    ------
    ArrayTypeError
        It is neither.
    UnsupportedSchemeError
        No row has that name.
    """
    third_party = {library.profile.name: library.profile for library in _third_party()}
    rows = {**PROFILES, **third_party}
    if isinstance(name, ModuleType):
        # array_api_compat.torch, jax.numpy and mlx.core all say whose they are
        parts = name.__name__.split(".")
        name = next((part for part in parts if part in rows), parts[0])
    if not isinstance(name, str):
        raise ArrayTypeError(f"namespace requires the name of an array library, got {name!r}")
    profile = rows.get(name)
    if profile is None:
        raise UnsupportedSchemeError(
            f"namespace requires one of {', '.join(_names())}, got {name!r}; arrays of any library "
            "that array_api_compat.array_namespace accepts work as those of 'other'"
        )
    return profile


_seen_modules = 0


def introduce() -> None:
    """Make `QuantizedArray` known to the libraries that have been imported and have to know it.

    Whoever makes one calls this, so that it can go through their transformations whatever it
    holds. As long as no module is imported in between, it is one comparison.
    """
    global _seen_modules
    if len(sys.modules) == _seen_modules:
        return
    _seen_modules = len(sys.modules)
    for library in _OWN:
        module = sys.modules.get(library.profile.name) if library.ready else None
        if module is not None and hasattr(module, library.ready):
            library.reach()


# torch.compile runs a function of this mark for real rather than following it, so that the first
# call of all may be one that it compiles.
setattr(introduce, "_dynamo_marked_constant", True)  # noqa: B010


class Located(NamedTuple):
    """An array, the access to it, and its memory where that can be reached."""

    array: Any
    access: Access
    view: Host | None
    dtype: str

    @property
    def profile(self) -> Profile:
        """The library's row of the capability table."""
        return self.access.profile

    @property
    def bits(self) -> str | None:
        """The dtype that the integers in `view` are the bits of; None where NumPy has the dtype."""
        view = self.view
        return None if view is None or view.dtype.name == self.dtype else self.dtype

    @property
    def path(self) -> str:
        """The path that the array takes."""
        paths = self.access.profile.paths
        if self.view is not None:
            return "host"
        return paths[-1] if paths else "none"


# Set by arrayq.testing, to take another path than the usual one.
_forced: list[str] = []


def located(x: object) -> Located:
    """Return what is known of an array: library, memory, dtype.

    Raises
    ------
    ArrayTypeError
        As `library_of` does.
    """
    access = library_of(x).reach()
    view = None if _forced else access.view(x)
    return Located(x, access, view, access.dtype_name(x))
