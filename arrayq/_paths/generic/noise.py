"""Random numbers that depend on the seed and on an element's place alone: splitmix64.

The generator works in 64 bits, which not every library has. A number is therefore four limbs of
16 bits, the lowest first, in an integer dtype of 32 bits or more: a product of two limbs fits it.
"""

from __future__ import annotations

from math import prod

from arrayq._paths.space import Array, Space

__all__ = ["uniform"]

_LIMB = 0xFFFF
_LIMBS = 4
_GOLDEN = 0x9E3779B97F4A7C15
_MULTIPLIERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31

Limbs = list[Array]


def _limbs_of(number: int) -> list[int]:
    return [(number >> (16 * place)) & _LIMB for place in range(_LIMBS)]


def _carried(columns: Limbs) -> Limbs:
    """Return limbs from columns that may have outgrown 16 bits."""
    limbs: Limbs = []
    carry: Array = 0
    for column in columns:
        total = column + carry
        limbs.append(total & _LIMB)
        carry = total >> 16
    return limbs


def _times(limbs: Limbs, number: int) -> Limbs:
    """Return the product with a 64-bit constant, modulo 2**64."""
    columns: Limbs = [0] * _LIMBS
    for place, limb in enumerate(limbs):
        for other, digit in enumerate(_limbs_of(number)[: _LIMBS - place]):
            part = limb * digit
            columns[place + other] = columns[place + other] + (part & _LIMB)
            if place + other + 1 < _LIMBS:
                columns[place + other + 1] = columns[place + other + 1] + (part >> 16)
    return _carried(columns)


def _mixed(limbs: Limbs, shift: int) -> Limbs:
    """Return ``z ^ (z >> shift)``."""
    skipped, rest = divmod(shift, 16)
    padded = [*limbs[skipped:], *[None] * (skipped + 1)]
    mixed = []
    for place, limb in enumerate(limbs):
        low, high = padded[place], padded[place + 1] if place + 1 < len(padded) else None
        shifted = limb
        if low is not None:
            shifted = shifted ^ (low >> rest)
        if high is not None:
            shifted = shifted ^ ((high << (16 - rest)) & _LIMB)
        mixed.append(shifted)
    return mixed


def uniform(space: Space, shape: tuple[int, ...], seed: int) -> Array:
    """Return a number in [0, 1) for each element of an array.

    Parameters
    ----------
    space : Space
        Where to compute.
    shape : tuple of int
        Shape of the array; an element's place is its index in C order.
    seed : int
        From 0 to ``2**64 - 1``.

    Returns
    -------
    float32 array of that shape
        The 24 highest bits of splitmix64's finaliser (Steele, Lea and Flood 2014) of
        ``seed + (index + 1) * 0x9E3779B97F4A7C15``, times 2**-24.
    """
    index = space.arange(prod(shape), space.word_integer)
    state = _times([index & _LIMB, index >> 16], _GOLDEN)
    start = _limbs_of(seed + _GOLDEN)
    state = _carried([limb + digit for limb, digit in zip(state, start, strict=True)])
    for shift, multiplier in _MULTIPLIERS:
        state = _times(_mixed(state, shift), multiplier)
    state = _mixed(state, _LAST_SHIFT)
    highest = (state[3] << 8) | (state[2] >> 8)
    number = space.cast(space.cast(highest, "int32"), "float32") * 2.0**-24
    return space.xp.reshape(number, shape)
