"""NaN and infinities: what a caller wants done about them, and the error for those not allowed."""

from __future__ import annotations

from typing import Final, NoReturn

import array_api_compat.numpy
import numpy as np

from arrayq._paths.parts import Met, Policy
from arrayq._paths.space import Array, Space
from arrayq.errors import ArgumentError, NonFiniteError
from arrayq.hosting import floats_on_host
from arrayq.namespaces import Located

__all__ = ["POLICIES", "check_met", "check_values", "policy_of"]

POLICIES: Final = {
    None: Policy.RAISE,
    "raise": Policy.RAISE,
    "propagate": Policy.PROPAGATE,
    "saturate": Policy.SATURATE,
}
"""What each choice of `nonfinite` means for values that can be seen."""


def policy_of(nonfinite: str | None, here: Located) -> Policy:
    """Return what to do about NaN and infinities in an array.

    Raises
    ------
    ArgumentError
        `nonfinite` is none of its choices, or asks for what a traced array cannot do.
    """
    if nonfinite not in tuple(POLICIES):
        raise ArgumentError(
            f"nonfinite requires one of raise, propagate, saturate, got {nonfinite!r}"
        )
    if here.view is not None or nonfinite in ("propagate", "saturate"):
        return POLICIES[nonfinite]
    if here.access.sees_values(here.array):
        return Policy.RAISE
    if nonfinite is None:
        return Policy.PROPAGATE
    if here.path == "chunked":
        return Policy.RAISE
    raise ArgumentError(
        f"nonfinite='raise' requires values that can be seen, got a traced or lazy array of "
        f"{here.profile.name}; leave it out, and NaN and infinities give scales of NaN"
    )


_ALLOWED: Final = {
    Policy.RAISE: "nonfinite='propagate' or 'saturate' allows them",
    Policy.SATURATE: "nonfinite='propagate' allows NaN, 'saturate' only infinities",
}


def check_met(met: Met, policy: Policy, here: Located) -> None:
    """Raise NonFiniteError where the kernels met what the policy refuses."""
    if (policy is Policy.RAISE and met) or (policy is Policy.SATURATE and met.refused):
        assert here.view is not None, "only the kernels say what they met"
        x = floats_on_host(here)
        with np.errstate(over="ignore"):
            numbers = x.astype(np.float32)
        rounded = int(np.isinf(numbers).sum()) - int(np.isinf(x).sum())
        _raise_nonfinite(Space(array_api_compat.numpy), numbers, policy, here, rounded)


def check_values(space: Space, x: Array, policy: Policy, here: Located) -> None:
    """Raise NonFiniteError where an array that can be seen holds what the policy refuses."""
    xp = space.xp
    numbers = space.cast(x, "float32")
    refused = ~xp.isfinite(numbers) if policy is Policy.RAISE else xp.isnan(numbers)
    if bool(xp.any(refused)):
        _raise_nonfinite(space, numbers, policy, here)


def _raise_nonfinite(
    space: Space, numbers: Array, policy: Policy, here: Located, rounded: int = 0
) -> NoReturn:
    """Raise NonFiniteError with counts; what float32 cannot hold counts as infinite."""
    shape = here.access.shape(here.array)
    xp = space.xp
    masks = xp.isnan(numbers), xp.isinf(numbers), ~xp.isfinite(numbers)
    nans, infinities, refused = (space.cast(mask, "int32") for mask in masks)
    nan, infinite = int(xp.sum(nans)), int(xp.sum(infinities))
    place = int(xp.argmax(xp.reshape(refused, (-1,))))
    first = tuple(int(i) for i in np.unravel_index(place, shape))
    beyond = f" ({rounded} of them finite in {here.dtype} but not in float32)" if rounded else ""
    raise NonFiniteError(
        f"x requires finite numbers, got {nan} NaN and {infinite} infinities{beyond}, the first "
        f"at index {first}; {_ALLOWED[policy]}",
        nan=nan,
        inf=infinite,
        first_index=first,
    )
