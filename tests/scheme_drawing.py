"""Hypothesis strategies: schemes as the oracle describes them, and arrays of every layout."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import oracle
from hypothesis import strategies as st
from oracle.elements import ELEMENTS

import arrayq as aq

INTEGERS = ("q8f", "q8s", "q4f", "q4s", "q2f", "q2s")
MINIFLOATS = ("e4m3", "e5m2", "e2m1", "e3m2", "e2m3")
FIELDS = tuple(f"u{bits}" for bits in range(1, 9))
VALUES = INTEGERS + MINIFLOATS + FIELDS
SCALES = ("f32", "f16", "bf16", "ue8m0", "ue4m3")
INPUTS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)

ROUNDINGS = ("half_away", "half_even", "half_up", "half_to_zero", "stochastic")
ZERO_DTYPES = {"q": ("i8", "i32"), "u": ("u8", "i32"), "bias": ("f32", "f16", "bf16")}


@dataclass(frozen=True)
class Source:
    """What a way to make scales goes with."""

    modes: tuple[str, ...] = ("symmetric",)
    values: tuple[str, ...] = VALUES
    scales: tuple[str, ...] = SCALES
    calibrations: tuple[str, ...] = ("minmax",)
    takes_smallest: bool = True


POWER = Source(("symmetric", "lookup"), VALUES, ("ue8m0",), ("minmax", "minmax", "absmean"), False)
POWER_OF_RATIO = replace(POWER, scales=("ue8m0", "f32"))
SOURCES = {
    "range": Source(("symmetric", "lookup", "affine", "affine"), calibrations=POWER.calibrations),
    "qmax": Source(("symmetric", "lookup"), calibrations=POWER.calibrations),
    "endpoints": Source(),
    "signed_max": Source(values=("q8f", "q4f", "q2f"), scales=("f32", "f16", "bf16")),
    "inverse_range": Source(("affine",), takes_smallest=False),
    "floor": POWER,
    "ceil": POWER,
    "rceil": POWER,
    "nearest_log2": POWER_OF_RATIO,
    "even": Source(POWER.modes[:1], MINIFLOATS, POWER.scales, POWER.calibrations, False),
}
OF_MODE = {
    "symmetric": INTEGERS + MINIFLOATS,
    "lookup": INTEGERS + FIELDS,
    "affine": INTEGERS + FIELDS,
}

BACKWARDS = slice(None, None, -1)

seeds = st.integers(0, 2**32 - 1)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """Draw a shape of rank 0 to 5 with at most a few hundred elements, zero sizes included."""
    rank = draw(st.integers(0, 5))
    longest = {0: 1, 1: 300, 2: 40, 3: 12, 4: 7, 5: 4}[rank]
    lengths = st.integers(1, longest)
    shape = draw(st.lists(lengths, min_size=rank, max_size=rank))
    if rank and draw(st.integers(0, 9)) == 0:
        shape[draw(st.integers(0, rank - 1))] = 0
    while math.prod(shape) > 400:
        shape[int(np.argmax(shape))] //= 2
    return tuple(shape)


@st.composite
def tables(draw: st.DrawFn, bits: int) -> tuple[float, ...]:
    """Draw a codebook: unsorted, with duplicates and both zeros now and then."""
    if bits == 4 and draw(st.booleans()):
        return oracle.NF4
    rng = np.random.default_rng(draw(seeds))
    table = rng.standard_normal(2**bits) * draw(st.sampled_from([1.0, 127.0, 1e-3, 1e6]))
    if draw(st.booleans()):
        table[rng.integers(0, 2**bits)] = draw(st.sampled_from([0.0, -0.0]))
    if draw(st.booleans()):
        table = table[rng.integers(0, 2**bits, 2**bits)]
    if draw(st.booleans()):
        table = np.sort(table)
    if not table.any():
        table[0] = 1.0
    return tuple(table.astype(np.float32).tolist())


@st.composite
def large_shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """Draw a shape of more elements than the kernels take at once, no length round."""
    around = draw(st.integers(50_000, 150_000))
    rank = draw(st.integers(1, 3))
    leading = draw(
        st.lists(st.sampled_from([3, 7, 19, 50, 129]), min_size=rank - 1, max_size=rank - 1)
    )
    shape = [*leading, max(1, around // math.prod(leading))]
    return tuple(draw(st.permutations(shape)))


@st.composite
def levels(draw: st.DrawFn, ndim: int, dtypes: tuple[str, ...], one_only: bool) -> dict[str, Any]:
    """Draw where scales sit and what they are stored in."""
    relative = [dtype for dtype in dtypes if dtype in ("f16", "ue4m3")]
    kinds = ["tensor"] + ["none"] * ("f32" in dtypes) + ["channel", "block", "block"] * bool(ndim)
    kinds += ["two", "two"] * bool(ndim and relative and not one_only)
    kind = draw(st.sampled_from(kinds))
    dtype = draw(st.sampled_from(relative if kind == "two" else dtypes))
    block, channel = None, None
    if kind == "channel" or (kind == "two" and draw(st.integers(0, 3)) == 0):
        channel = draw(st.integers(-ndim, ndim - 1))
    elif kind in ("block", "two"):
        rank = draw(st.integers(1, ndim))
        extents = st.one_of(st.integers(1, 9), st.sampled_from([-1, 16, 32, 64, 2**62]))
        block = tuple(draw(st.lists(extents, min_size=rank, max_size=rank)))
    return {
        "block": block,
        "channel": channel,
        "scale_dtype": "f32" if kind == "none" else dtype,
        "two_level": kind == "two",
    }


@st.composite
def zero_points(draw: st.DrawFn, value: str, source: str) -> oracle.Zero:
    """Draw what the zero points of an affine scheme are."""
    fractional = source == "inverse_range"
    kind = "code" if fractional else draw(st.sampled_from(["code", "bias"]))
    dtypes = ZERO_DTYPES["bias" if fractional or kind == "bias" else value[0]]
    dtype = draw(st.sampled_from(dtypes))
    # Outside the range of the codes, a zero point takes more than a byte.
    return oracle.Zero(
        kind,
        dtype,
        in_range=dtype in ("i8", "u8") or draw(st.booleans()),
        rounding=draw(st.sampled_from(["none", "whole"])) if fractional else "none",
    )


@st.composite
def zero_scales(draw: st.DrawFn, dtype: str, *, takes_smallest: bool) -> dict[str, Any]:
    """Draw a smallest scale and what blocks of zeros store, the usual choice half of the time."""
    smallest, blocks = 0.0, ["zero", "one"]
    if takes_smallest and draw(st.booleans()):
        smallest = draw(st.sampled_from([2.0**-149, 2.0**-126, 1e-5, 0.01, 1.0, 448.0]))
        blocks += ["smallest"]
    block = draw(st.sampled_from(blocks)) if draw(st.booleans()) else "zero"
    return {"smallest_scale": smallest, "zero_block": block}


@st.composite
def specs(
    draw: st.DrawFn,
    ndim: int,
    *,
    source: str | None = None,
    mode: str | None = None,
    rounding: str | None = None,
    zero: oracle.Zero | None = None,
) -> oracle.Spec:
    """Draw a scheme that fits arrays of a rank, of a given rule where one is given."""
    if source is None:
        of_mode = [name for name, needs in SOURCES.items() if mode is None or mode in needs.modes]
        source = draw(st.sampled_from(of_mode))
    needs = SOURCES[source]
    modes = [m for m in needs.modes if mode in (None, m) and (rounding is None or m != "lookup")]
    mode = draw(st.sampled_from(modes))
    affine = mode == "affine"
    unreached = {"i8": "u", "u8": "q"}.get(zero.dtype if zero else "")
    fitting = [v for v in needs.values if v in OF_MODE[mode] and v[0] != unreached]
    value = draw(st.sampled_from(fitting))
    if affine and zero is None:
        zero = draw(zero_points(value, source))
    store = draw(st.sampled_from(["native", "packed_native", "packed_u32"]))
    dtypes = tuple(dtype for dtype in needs.scales if not (affine and dtype == "ue8m0"))
    level = draw(levels(ndim, dtypes, affine))
    takes_smallest = needs.takes_smallest and not level["two_level"]
    if rounding is None and mode != "lookup":
        rounding = draw(st.sampled_from([None, None, *ROUNDINGS]))
    from_amax = level["two_level"] and source == "qmax" and draw(st.booleans())
    divides = source == "inverse_range" or draw(st.booleans())
    return oracle.Spec(
        value=value,
        table=draw(tables(ELEMENTS[value].width)) if mode == "lookup" else None,
        store=store,
        dim=draw(st.integers(0, ndim - 1)) if ndim and store != "native" else 0,
        zero=zero,
        rounding=rounding,
        seed=draw(st.integers(0, 2**64 - 1)) if rounding == "stochastic" else 0,
        scaling="divide" if divides else "reciprocal",
        scale_from=source,
        scale_rounding=draw(st.sampled_from(["up", "nearest"])),
        tensor_from="amax" if from_amax else "block_scales",
        calibration=draw(st.sampled_from(needs.calibrations)) if not affine else "minmax",
        **level,
        **draw(zero_scales(level["scale_dtype"], takes_smallest=takes_smallest)),
    )


def scheme_of(spec: oracle.Spec) -> aq.QuantScheme:
    """Build the scheme that a description means."""
    store = spec.store if spec.store == "native" else f"{spec.store}({spec.dim})"
    scheme = aq.QuantScheme().with_value(spec.value).with_store(store)
    if spec.table is not None:
        scheme = scheme.with_mode("lookup", spec.table)
    if spec.channel is not None:
        scheme = scheme.per_channel(spec.channel, spec.scale_dtype)
    elif spec.block is not None:
        scheme = scheme.per_block(spec.block, spec.scale_dtype)
    else:
        scheme = scheme.per_tensor(spec.scale_dtype)
    if spec.two_level:
        scheme = scheme.per_tensor("f32")
    rules: dict[str, Any] = {
        rule: getattr(spec, rule)
        for rule in (
            "rounding",
            "seed",
            "scaling",
            "scale_from",
            "scale_rounding",
            "smallest_scale",
            "zero_block",
            "tensor_from",
            "calibration",
        )
    }
    if spec.zero is None:
        return scheme.with_numerics(**rules)
    rules |= {"zero_in_range": spec.zero.in_range, "zero_rounding": spec.zero.rounding}
    return aq.QuantScheme(
        value=spec.value,
        store=scheme.store,
        mode="affine",
        block=scheme.block,
        tensor=scheme.tensor,
        numerics=aq.Numerics(**rules),
        zero=aq.ZeroPoint(spec.zero.kind, spec.zero.dtype),
    )


def wide_range(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Return numbers of every float32 magnitude, subnormals included."""
    return rng.standard_normal(n) * 2.0 ** rng.integers(-150, 127, n)


def ties(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Return small multiples of a quarter: ties of integers and of most minifloats."""
    return rng.integers(-64, 65, n) / 4.0 * 2.0 ** int(rng.integers(-8, 9))


FILLS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "small": lambda rng, n: rng.standard_normal(n) * 0.02,
    "wide": wide_range,
    "ties": ties,
    "subnormal": lambda rng, n: rng.standard_normal(n) * 2.0**-140,
    "smallest": lambda rng, n: rng.integers(-3, 4, n) * 2.0**-149,
    "huge": lambda rng, n: rng.uniform(-1, 1, n) * 3.4e38,
    "integers": lambda rng, n: rng.integers(-127, 128, n).astype(float),
    "signed_zeros": lambda rng, n: np.copysign(0.0, rng.standard_normal(n)),
    "constant": lambda rng, n: np.full(n, rng.standard_normal()),
    "positive": lambda rng, n: np.abs(rng.standard_normal(n)) + 1,
    "negative": lambda rng, n: -np.abs(rng.standard_normal(n)) - 1,
    "far_from_zero": lambda rng, n: rng.standard_normal(n) + rng.choice([-1e3, 1e3]),
    "two_values": lambda rng, n: rng.choice(rng.standard_normal(2), n),
}


def finite_in(dtype: Any, x: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Convert to a dtype, what would overflow it or float32 clipped to a large number."""
    largest = 65504.0 if dtype == np.float16 else 3.3895313892515355e38
    return np.clip(x, -largest, largest).astype(dtype)


@st.composite
def dense_arrays(draw: st.DrawFn, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Draw a contiguous array of finite numbers, now and then with a run of zeros."""
    rng = np.random.default_rng(draw(seeds))
    n = math.prod(shape)
    x = FILLS[draw(st.sampled_from(sorted(FILLS)))](rng, n)
    if n and draw(st.booleans()):
        start = int(rng.integers(0, n))
        x[start : start + int(rng.integers(1, 80))] = draw(st.sampled_from([0.0, -0.0]))
    if n and draw(st.integers(0, 3)) == 0:
        x[rng.integers(0, n)] *= 1000.0
    return finite_in(draw(st.sampled_from(INPUTS)), x).reshape(shape)


@st.composite
def relaid(draw: st.DrawFn, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Draw an array of the same values in another layout of memory."""
    layout = draw(
        st.sampled_from(
            ["as it is", "fortran", "reversed", "every other", "permuted", "swapped", "unaligned",
             "read-only", "broadcast"]
        )
    )  # fmt: skip
    if layout == "fortran":
        return np.asfortranarray(x)
    if layout == "reversed":
        return np.ascontiguousarray(np.flip(x)).reshape(x.shape)[(BACKWARDS,) * x.ndim + (...,)]
    if layout == "every other" and x.ndim:
        wide = np.zeros([2 * n for n in x.shape], x.dtype)
        wide[(slice(None, None, 2),) * x.ndim] = x
        return wide[(slice(None, None, 2),) * x.ndim]
    if layout == "permuted" and x.ndim > 1:
        order = draw(st.permutations(range(x.ndim)))
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if layout == "swapped" and x.dtype.kind == "f":
        return x.astype(x.dtype.newbyteorder())
    if layout == "unaligned" and x.size:
        raw = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:]
        return raw.view(x.dtype).reshape(x.shape)
    if layout == "read-only":
        frozen = x.copy()
        frozen.flags.writeable = False
        return frozen
    if layout == "broadcast" and x.ndim and x.shape[0]:
        return np.broadcast_to(x[:1], x.shape)
    return x


@st.composite
def problems(
    draw: st.DrawFn, of: st.SearchStrategy[tuple[int, ...]] | None = None
) -> tuple[npt.NDArray[Any], oracle.Spec]:
    """Draw an array and a scheme for it."""
    shape = draw(shapes() if of is None else of)
    spec = draw(specs(len(shape)))
    return draw(relaid(draw(dense_arrays(shape)))), spec
