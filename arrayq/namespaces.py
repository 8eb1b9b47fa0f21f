"""Which array library an object belongs to.

The only module that tells one library from another. It imports none of them: an object can
only belong to a library that the caller has imported already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import array_api_compat
import numpy as np

from arrayq.capability import PROFILES, Profile
from arrayq.errors import ArrayTypeError, UnsupportedSchemeError

__all__ = ["profile_named", "profile_of"]


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A library without a row in the capability table, and the way from it to NumPy."""

    name: str
    owns: Callable[[object], bool]
    way_out: str


def _from_package(*packages: str) -> Callable[[object], bool]:
    """Return a predicate for objects whose class comes from one of the packages."""
    return lambda x: any(cls.__module__.partition(".")[0] in packages for cls in type(x).__mro__)


_FOREIGN: Final = (
    _Foreign("torch", array_api_compat.is_torch_array, "x.numpy(force=True)"),
    _Foreign("jax", array_api_compat.is_jax_array, "numpy.asarray(x)"),
    _Foreign("dask", array_api_compat.is_dask_array, "x.compute()"),
    _Foreign("cupy", array_api_compat.is_cupy_array, "x.get()"),
    _Foreign("sparse", array_api_compat.is_pydata_sparse_array, "x.todense()"),
    _Foreign("ndonnx", array_api_compat.is_ndonnx_array, "x.unwrap_numpy()"),
    _Foreign("mlx", _from_package("mlx"), "numpy.array(x)"),
    _Foreign("array_api_strict", _from_package("array_api_strict"), "numpy.asarray(x)"),
)

_NUMPY: Final = PROFILES["numpy"]


def profile_of(x: object) -> Profile:
    """Return the capability row of the library that `x` is an array of.

    Parameters
    ----------
    x : array
        An array. NumPy's subclasses and scalars count, masked arrays do not.

    Raises
    ------
    ArrayTypeError
        `x` is no array of any library, or its mask would be lost.
    UnsupportedSchemeError
        `x` is an array of a library without a row.
    """
    # By far the most frequent answer, and asking a library takes longer than a small kernel.
    if type(x) is np.ndarray:
        return _NUMPY
    if isinstance(x, np.ma.MaskedArray):
        raise ArrayTypeError(
            "x requires an array without a mask, got numpy.ma.MaskedArray; fill it with x.filled(0)"
        )
    if isinstance(x, np.ndarray | np.generic):
        return _NUMPY
    for foreign in _FOREIGN:
        if foreign.owns(x):
            raise UnsupportedSchemeError(_unsupported(foreign.name, foreign.way_out))
    kind = type(x)
    if array_api_compat.is_array_api_obj(x):
        raise UnsupportedSchemeError(_unsupported(kind.__module__, "numpy.asarray(x)"))
    raise ArrayTypeError(
        f"x requires an array of a supported library ({_supported()}), got {kind.__name__}; "
        "convert it with numpy.asarray(x)"
    )


def profile_named(name: str) -> Profile:
    """Return the capability row of the library called `name`.

    Raises
    ------
    ArrayTypeError
        It is no name.
    UnsupportedSchemeError
        No row has that name.
    """
    if not isinstance(name, str):
        raise ArrayTypeError(f"namespace requires the name of an array library, got {name!r}")
    if name in PROFILES:
        return PROFILES[name]
    way_out = {foreign.name: foreign.way_out for foreign in _FOREIGN}.get(name, "numpy.asarray(x)")
    raise UnsupportedSchemeError(_unsupported(name, way_out))


def _supported() -> str:
    return ", ".join(PROFILES)


def _unsupported(name: str, way_out: str) -> str:
    return (
        f"arrayq requires an array of {_supported()}, got one of {name}; convert it with {way_out}"
    )
