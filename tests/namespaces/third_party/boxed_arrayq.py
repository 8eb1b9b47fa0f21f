"""What arrayq has to know of boxed: one row, and how to reach the memory in a box."""

from __future__ import annotations

from typing import Any

from boxed import Box

from arrayq.capability import Profile, Refusal
from arrayq.interop.access import Access, Host
from arrayq.namespaces import Library


class BoxAccess(Access):
    """How boxes are reached."""

    def view(self, x: Any) -> Host | None:
        return x.inside

    def wrap(self, host: Host, like: Any, dtype: str | None = None) -> Box:
        return Box(host)


LIBRARY = Library(
    profile=Profile(
        name="boxed",
        dtypes=("float32", "float64"),
        paths=("host", "generic"),
        refusals=(
            Refusal(
                requires="boxes that hold more than two bits",
                instead="use int4/32",
                value=frozenset({"q2s", "q2f"}),
            ),
        ),
    ),
    owns=lambda x: isinstance(x, Box),
    access=BoxAccess,
)
