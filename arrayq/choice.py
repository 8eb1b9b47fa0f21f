"""Enumerations whose members may also be named by a string."""

from __future__ import annotations

import difflib
import enum
from typing import Self

from arrayq.errors import SchemeError

__all__ = ["Choice"]


class Choice(enum.Enum):
    """An enumeration with string values; wherever a member is expected, its string is accepted.

    ``ScaleDtype.F16`` and ``"f16"`` (in either case) mean the same to every function of arrayq.
    """

    @classmethod
    def of(cls, given: Self | str, what: str) -> Self:
        """Return the member that `given` is or names.

        Parameters
        ----------
        given : member or str
            A member of this enumeration, or its value in lower or upper case.
        what : str
            What is being chosen, for the message: ``"store"``, ``"scale dtype"``.

        Raises
        ------
        SchemeError
            Nothing here has that name.
        """
        if isinstance(given, cls):
            return given
        names = [member.value for member in cls]
        if isinstance(given, str):
            if given.lower() in names:
                return cls(given.lower())
            nearest = difflib.get_close_matches(given.lower(), names, n=1)
        else:
            nearest = []
        advice = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise SchemeError(f"{what} requires one of {', '.join(names)}, got {given!r}{advice}")

    def __repr__(self) -> str:
        """Return the expression that names this member."""
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        """Return the string that names this member."""
        return str(self.value)
