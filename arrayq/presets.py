"""Published schemes by name, and the short spellings of schemes.

>>> print(scheme("q4s/32:bf16"))
q4s/32:bf16
>>> scheme("nvfp4") == nvfp4()
True
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, SupportsIndex

from arrayq.errors import SchemeError
from arrayq.formats import Kind
from arrayq.numerics import Calibration, Numerics, ScaleFrom, ScaleRounding, TensorFrom
from arrayq.scheme import (
    BlockScale,
    ChannelScale,
    QuantMode,
    QuantScheme,
    QuantStore,
    QuantValue,
    ScaleDtype,
)

__all__ = [
    "SPELLINGS",
    "int2",
    "int4",
    "int8",
    "mxfp4",
    "mxfp6",
    "mxfp8",
    "nf4",
    "nvfp4",
    "scheme",
    "spelling_of",
    "ternary",
]

Block = str | SupportsIndex | Iterable[SupportsIndex]
"""Where scales sit: ``"row"``, ``"tensor"``, or the size of a block."""


@dataclass(frozen=True, slots=True)
class _Family:
    """What the name before the slash of a spelling stands for."""

    value: QuantValue
    mode: QuantMode = QuantMode.SYMMETRIC
    block_scale: ScaleDtype = ScaleDtype.F16
    """The scale dtype of blocks where none is spelled; rows and tensors take F32."""


# Where two names mean the same scheme, the first one is what str(scheme) prints.
_FAMILIES: Final[dict[str, _Family]] = {
    "int8": _Family(QuantValue.Q8S),
    "int4": _Family(QuantValue.Q4F),
    "int2": _Family(QuantValue.Q2S),
    "nf4": _Family(QuantValue.U4, QuantMode.LOOKUP, ScaleDtype.F32),
    "q8f": _Family(QuantValue.Q8F),
    "q8s": _Family(QuantValue.Q8S),
    "q4f": _Family(QuantValue.Q4F),
    "q4s": _Family(QuantValue.Q4S),
    "q2f": _Family(QuantValue.Q2F),
    "q2s": _Family(QuantValue.Q2S),
    "e4m3": _Family(QuantValue.E4M3),
    "e5m2": _Family(QuantValue.E5M2),
    "e3m2": _Family(QuantValue.E3M2),
    "e2m3": _Family(QuantValue.E2M3),
    "e2m1": _Family(QuantValue.E2M1),
    "int8a": _Family(QuantValue.U8, QuantMode.AFFINE),
    "int4a": _Family(QuantValue.U4, QuantMode.AFFINE),
    "int2a": _Family(QuantValue.U2, QuantMode.AFFINE),
    **{
        f"{value}a": _Family(value, QuantMode.AFFINE)
        for value in QuantValue
        if value.kind is Kind.FIELD
    },
}

_MX_BLOCK: Final = 32
_NVFP4_BLOCK: Final = 16


def _store_of(value: QuantValue) -> QuantStore:
    """Return the store of presets: bytes, shared by codes that are shorter than one."""
    return QuantStore.NATIVE if value.bits == 8 else QuantStore.packed_native()


def _placed(name: str, block: Block, scale: ScaleDtype | str | None) -> QuantScheme:
    """Return the scheme of a family with its scales where `block` says."""
    family = _FAMILIES[name]
    bare = QuantScheme(family.value, _store_of(family.value), family.mode)
    if not isinstance(block, str):
        return bare.per_block(block, scale or family.block_scale)
    if block == "row":
        return bare.per_channel(0, scale or ScaleDtype.F32)
    if block == "tensor":
        return bare.per_tensor(scale or ScaleDtype.F32)
    raise SchemeError(f"{name} requires 'row', 'tensor' or a block size, got {block!r}")


def int8(block: Block = "row", scale: ScaleDtype | str | None = None) -> QuantScheme:
    """Return 8-bit symmetric integers (Q8S).

    Parameters
    ----------
    block : "row", "tensor", int or iterable of int
        One scale for each index of the first axis, one in all, or one for each block of this
        size.
    scale : ScaleDtype or str, optional
        The scale dtype; float32 for row and tensor and float16 for blocks if left out.
    """
    return _placed("int8", block, scale)


def int4(block: Block = 32, scale: ScaleDtype | str | None = None) -> QuantScheme:
    """Return 4-bit integers of full range (Q4F); the parameters are those of `int8`."""
    return _placed("int4", block, scale)


def int2(block: Block = 32, scale: ScaleDtype | str | None = None) -> QuantScheme:
    """Return 2-bit integers of symmetric range (Q2S); the parameters are those of `int8`."""
    return _placed("int2", block, scale)


def nf4(block: Block = 64, scale: ScaleDtype | str | None = None) -> QuantScheme:
    """Return NF4: 4-bit lookup in the quantiles of a normal distribution.

    The parameters are those of `int8`, but for blocks too the scale is float32.
    Source: QLoRA, arXiv 2305.14314.
    """
    return _placed("nf4", block, scale)


def ternary() -> QuantScheme:
    """Return ternary values with one scale, the mean magnitude of the array.

    Source: BitNet b1.58, arXiv 2402.17764.
    """
    return _placed("q2s", "tensor", None).with_numerics(calibration=Calibration.ABSMEAN)


def _mx(value: QuantValue) -> QuantScheme:
    """Return an OCP Microscaling scheme: blocks of 32 with a power of two as scale."""
    blocks = BlockScale(_MX_BLOCK, ScaleDtype.UE8M0)
    numerics = Numerics(scale_from=ScaleFrom.FLOOR)
    return QuantScheme(value, _store_of(value), block=blocks, numerics=numerics)


def mxfp4() -> QuantScheme:
    """Return MXFP4: E2M1 in blocks of 32, UE8M0 scales by the floor rule.

    Source: OCP Microscaling Formats (MX) Specification v1.0.
    """
    return _mx(QuantValue.E2M1)


def mxfp6(element: QuantValue | str = QuantValue.E3M2) -> QuantScheme:
    """Return MXFP6: E3M2 or E2M3 in blocks of 32, UE8M0 scales by the floor rule.

    Source: OCP Microscaling Formats (MX) Specification v1.0.

    Raises
    ------
    SchemeError
        The element is another one.
    """
    return _mx(_element("mxfp6", element, (QuantValue.E3M2, QuantValue.E2M3)))


def mxfp8(element: QuantValue | str = QuantValue.E4M3) -> QuantScheme:
    """Return MXFP8: E4M3 or E5M2 in blocks of 32, UE8M0 scales by the floor rule.

    Source: OCP Microscaling Formats (MX) Specification v1.0.

    Raises
    ------
    SchemeError
        The element is another one.
    """
    return _mx(_element("mxfp8", element, (QuantValue.E4M3, QuantValue.E5M2)))


def _element(name: str, given: QuantValue | str, allowed: tuple[QuantValue, ...]) -> QuantValue:
    element = QuantValue.of(given, "element")
    if element not in allowed:
        raise SchemeError(f"{name} requires element {' or '.join(map(str, allowed))}, got {given}")
    return element


def nvfp4() -> QuantScheme:
    """Return NVFP4: E2M1 in blocks of 16, UE4M3 scales relative to one float32 scale.

    The tensor scale is ``f32(amax / 2688)``, with 2688 the product of the largest E2M1 (6) and
    the largest E4M3 (448); block scales are rounded to the nearest.
    """
    return QuantScheme(
        QuantValue.E2M1,
        _store_of(QuantValue.E2M1),
        block=BlockScale(_NVFP4_BLOCK, ScaleDtype.UE4M3),
        tensor=ScaleDtype.F32,
        numerics=Numerics(
            scale_from=ScaleFrom.QMAX,
            scale_rounding=ScaleRounding.NEAREST,
            tensor_from=TensorFrom.AMAX,
        ),
    )


# As above, the first of two names for one scheme is the one that is printed.
_NAMED: Final[dict[str, QuantScheme]] = {
    "mxfp4": mxfp4(),
    "mxfp8": mxfp8(),
    "mxfp8-e4m3": mxfp8("e4m3"),
    "mxfp8-e5m2": mxfp8("e5m2"),
    "mxfp6-e3m2": mxfp6("e3m2"),
    "mxfp6-e2m3": mxfp6("e2m3"),
    "nvfp4": nvfp4(),
    "ternary": ternary(),
}

_SPELLED: Final = re.compile(
    r"(?P<family>[a-z0-9]+)/(?P<block>row|tensor|[0-9]{1,19}(?:x[0-9]{1,19})*)(?::(?P<scale>[a-z0-9]+))?"
)


_MX_MEANING: Final = "block [32], UE8M0 scale, OCP floor rule"

SPELLINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "int8/B[:S]": "Q8S",
        "int4/B[:S]": "Q4F",
        "int2/B[:S]": "Q2S",
        "nf4/B[:S]": "U4 lookup in NF4's codebook; F32 scale for blocks too",
        **{
            f"{name}/B[:S]": name.upper()
            for name, family in _FAMILIES.items()
            if name == str(family.value)
        },
        "int8a/B[:S]": "U8 affine, zero points U8",
        "int4a/B[:S]": "U4 affine, zero points U8",
        "int2a/B[:S]": "U2 affine, zero points U8",
        **{
            f"{name}/B[:S]": f"{family.value.name} affine, zero points U8"
            for name, family in _FAMILIES.items()
            if name == f"{family.value}a"
        },
        "mxfp4": f"E2M1, {_MX_MEANING}",
        "mxfp8": f"E4M3, {_MX_MEANING}",
        "mxfp8-e5m2": f"E5M2, {_MX_MEANING}",
        "mxfp6-e3m2": f"E3M2, {_MX_MEANING}",
        "mxfp6-e2m3": f"E2M3, {_MX_MEANING}",
        "nvfp4": "E2M1, block [16], UE4M3 scale, tensor scale F32",
        "ternary": "Q2S, one F32 scale, absmean",
    }
)
"""Every short spelling, with the scheme that it stands for.

B is ``row`` (one scale for each index of the first axis), ``tensor`` (one in all) or the size
of a block: ``32``, ``128x128``. S is the scale dtype: F32 for row and tensor and F16 for
blocks if left out; affine schemes have no UE8M0. Values shorter than a byte are stored
PACKED_NATIVE, bytes NATIVE.
"""


def scheme(spelling: str | QuantScheme) -> QuantScheme:
    """Return the scheme that a short spelling stands for; a scheme is returned as it is.

    Parameters
    ----------
    spelling : str or QuantScheme
        One of `SPELLINGS`, in lower or upper case.

    Raises
    ------
    SchemeError
        Nothing is spelled like that; the message shows the grammar and the nearest spelling.
    """
    if isinstance(spelling, QuantScheme):
        return spelling
    if not isinstance(spelling, str):
        raise SchemeError(f"scheme requires a short spelling or a QuantScheme, got {spelling!r}")
    return _spelled(spelling)


@functools.lru_cache(maxsize=256)
def _spelled(spelling: str) -> QuantScheme:
    text = spelling.strip().lower()
    if text in _NAMED:
        return _NAMED[text]
    spelled = _SPELLED.fullmatch(text)
    if spelled is None or spelled["family"] not in _FAMILIES:
        raise SchemeError(_unknown(spelling, text))
    block = spelled["block"]
    placement = block if block.isalpha() else [int(extent) for extent in block.split("x")]
    return _placed(spelled["family"], placement, spelled["scale"])


def _unknown(spelling: str, text: str) -> str:
    examples = [*_NAMED, *(f"{name}/{block}" for name in _FAMILIES for block in ("row", "32"))]
    nearest = difflib.get_close_matches(text, examples, n=1)
    advice = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return (
        f"a scheme requires one of {', '.join(_NAMED)}, or NAME/B or NAME/B:SCALE with NAME one "
        f"of {', '.join(_FAMILIES)}, B a block size like 32 or 128x128, row or tensor, and SCALE "
        f"one of {', '.join(map(str, ScaleDtype))}, got {spelling!r}{advice}"
    )


@functools.lru_cache(maxsize=256)
def spelling_of(given: QuantScheme) -> str | None:
    """Return the spelling that `scheme` turns back into this scheme, or None."""
    for name, named in _NAMED.items():
        if given == named:
            return name
    block = _spelled_block(given)
    if block is None:
        return None
    for name, family in _FAMILIES.items():
        if (given.value, given.mode) != (family.value, family.mode):
            continue
        for text in (f"{name}/{block}", f"{name}/{block}:{given.scale_dtype}"):
            if scheme(text) == given:
                return text
    return None


def _spelled_block(given: QuantScheme) -> str | None:
    """Return the B of a spelling, or None for scales that no spelling can place."""
    if given.block is None:
        return "tensor" if given.tensor is not None else None
    if isinstance(given.block, ChannelScale):
        return "row" if given.block.axis == 0 else None
    if min(given.block.size) < 0:
        return None
    return "x".join(map(str, given.block.size))
