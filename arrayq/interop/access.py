"""How the arrays of a library are reached: memory, device, dtype, whether values can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np
import numpy.typing as npt

from arrayq._paths.space import Array, Space
from arrayq.errors import ArrayTypeError, UnsupportedSchemeError

if TYPE_CHECKING:
    from arrayq.capability import Profile

__all__ = ["Access", "Host"]

Host = npt.NDArray[Any]
"""An array in CPU memory, as NumPy sees it."""


class Access:
    """How arrays of a library are reached.

    This class serves every library that `array_api_compat.array_namespace` accepts: its arrays
    stay where they are, and nothing is known of their memory. Subclasses know more.

    Parameters
    ----------
    profile : Profile
        The library's row of the capability table.
    """

    aligned = False
    """Whether memory is taken without a copy only if it starts on 64 bytes."""

    takes_bits = False
    """Whether `wrap` makes bfloat16 of its bits."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def namespace(self, x: Array) -> Any:
        """Return the array namespace of an array."""
        return array_api_compat.array_namespace(x)

    def device(self, x: Array) -> Any:
        """Return the device of an array; None where it has none."""
        try:
            return array_api_compat.device(x)
        except AttributeError:
            return None

    def space(self, x: Array) -> Space:
        """Return where an array is computed."""
        row = self.profile
        return Space(
            self.namespace(x), self.device(x), row.word_integer, row.index_integer,
            row.views, row.rewrites,
        )  # fmt: skip

    def shape(self, x: Array) -> tuple[int, ...]:
        """Return the shape of an array.

        Raises
        ------
        UnsupportedSchemeError
            A length is not known.
        """
        shape = tuple(x.shape)
        try:
            return tuple(map(int, shape))
        except (TypeError, ValueError):
            raise UnsupportedSchemeError(
                f"an array of {self.profile.name} requires a known length on each axis, got "
                f"{shape}; give every axis a length"
            ) from None

    def dtype_name(self, x: Array) -> str:
        """Return the name of the dtype of an array, without its library."""
        name = getattr(x.dtype, "name", None)
        return name if isinstance(name, str) else str(x.dtype).rpartition(".")[2]

    def view(self, x: Array) -> Host | None:
        """Return an array's memory without a copy; None where it is not in CPU memory or unknown.

        Where NumPy lacks the dtype, bfloat16 appears as its bits in uint16, and narrower floats
        as uint8.
        """
        return None

    def copied(self, x: Array) -> Host:
        """Return a copy of an array in CPU memory, for whoever asked for one.

        Raises
        ------
        UnsupportedSchemeError
            Its values cannot be seen yet, or not by NumPy.
        """
        view = self.view(x)
        if view is not None:
            return view
        if not self.sees_values(x):
            raise UnsupportedSchemeError(
                f"a copy in CPU memory requires values that can be seen, got a traced or lazy "
                f"array of {self.profile.name}; compute it first"
            )
        return self._fetched(x)

    def _fetched(self, x: Array) -> Host:
        host = np.asarray(x)
        if host.dtype == object:  # NumPy did not see an array in it
            raise UnsupportedSchemeError(
                f"a copy in CPU memory requires arrays that numpy.asarray reads, got "
                f"{type(x).__name__} of {self.profile.name}; convert it to NumPy's first"
            )
        return host

    def wrap(self, host: Host, like: Array, dtype: str | None = None) -> Array:
        """Return an array of the library on the device of `like`, without a copy where it can.

        Parameters
        ----------
        host : ndarray
            The memory, which nothing else writes to from now on.
        like : array
            An array of the library.
        dtype : str, optional
            The dtype that the bits in `host` are of, where NumPy lacks it.
        """
        if dtype is not None:
            raise ArrayTypeError(
                f"dtype requires one that {self.profile.name} and NumPy both have, got {dtype}"
            )
        return self.asarray(host, like)

    def asarray(self, host: Host, like: Array) -> Array:
        """Return a copy of an array in CPU memory beside `like`."""
        device = self.device(like)
        where = {} if device is None else {"device": device}
        return self.namespace(like).asarray(host, **where)

    def sees_values(self, x: Array) -> bool:
        """Whether values can be looked at without computing a graph or breaking a trace."""
        return not array_api_compat.is_lazy_array(x)

    def check_out(self, out: Array) -> None:
        """Refuse an array that its library would not let anybody write to.

        Raises
        ------
        LayoutError
            As the library does for its own `out`.
        """

    def wrote(self, out: Array) -> None:
        """Tell the library that the memory of an array has been written to."""

    def check_dtype(self, name: str) -> None:
        """Refuse a dtype that the library has, but not as it is set up.

        Raises
        ------
        ArrayTypeError
            Naming what has to be switched on.
        """

    def detached(self, x: Array) -> Array:
        """Return an array that no gradient flows through."""
        return x

    def duplicate(self, x: Array) -> Array:
        """Return a copy of an array."""
        return self.namespace(x).asarray(x, copy=True)

    def pickled(self, x: Array) -> Array:
        """Return what is pickled in place of an array, no more than its own elements."""
        return x

    def unpickled(self, x: Array, dtype: str) -> Array:
        """Return the array that `pickled` was given, whose dtype is known."""
        return x

    def reinterpreted(self, bits: Array, dtype: str) -> Array:
        """Return the same bits in another dtype of the library.

        Raises
        ------
        UnsupportedSchemeError
            The library has no such dtype.
        """
        if self.dtype_name(bits) == dtype:
            return bits
        raise UnsupportedSchemeError(
            f"native on {self.profile.name} requires the dtype {dtype}, which it lacks"
        )

    def bits_of(self, x: Array, *, signed: bool) -> Array:
        """Return the bits of an array of a narrow dtype as integers, one byte or two."""
        return x

    def straight_through(
        self, x: Array, forward: Callable[[Array], tuple[Array, Callable[[], Array]]]
    ) -> Array:
        """Return the first result of `forward` with a straight-through gradient.

        Libraries without gradients return it as it is.
        """
        return forward(x)[0]
