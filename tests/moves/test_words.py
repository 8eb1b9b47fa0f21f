"""Words that move: kernels against NumPy, on every instruction set."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import arrayq as aq
from arrayq._kernels import available_levels, load
from arrayq.moves import host, transposing

RNG = np.random.default_rng(21)


@pytest.fixture(params=available_levels())
def _level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (transposing, host):
        monkeypatch.setattr(module, "kernels", load(request.param))


@pytest.mark.usefixtures("_level")
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "uint32", "float32"])
@pytest.mark.parametrize(
    "shape",
    [(64, 64), (63, 130), (200, 17), (16, 16), (3, 70, 65), (70, 3, 65), (20, 1, 33),
     (5, 2, 40, 18), (2, 16, 2, 16, 16), (0, 20, 20), (1, 1), ()],
)  # fmt: skip
def test_transposed_words_are_those_of_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    data = RNG.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
    data = np.ascontiguousarray(data).view(dtype).reshape(shape)
    for order in itertools.permutations(range(len(shape))):
        got = transposing.transposed(data, order)
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(
            got.view(f"u{got.itemsize}"),
            np.ascontiguousarray(data.transpose(order)).view(f"u{got.itemsize}"),
        )


@pytest.mark.usefixtures("_level")
@pytest.mark.parametrize("store", ["packed_native", "packed_u32"])
@pytest.mark.parametrize("value", ["q4s", "q2s", "u1", "u3", "u6", "u7"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_shifted_words_hold_the_codes_from_there_on(value: str, store: str, dim: int) -> None:
    scheme = aq.QuantScheme().with_value(value).with_store(f"{store}({dim})")
    if value[0] == "u":
        scheme = scheme.with_codebook(range(2**scheme.value.bits))
    q = aq.quantize(
        RNG.standard_normal((3, 150, 150)).astype(np.float32).swapaxes(0, 2 - dim), scheme
    )
    for start in (1, 7, 30, 77, q.shape[2 - dim] - 1):
        index = (slice(None),) * (2 - dim) + (slice(start, None),)
        np.testing.assert_array_equal(q[index].codes(), q.codes()[index])


@pytest.mark.usefixtures("_level")
@pytest.mark.parametrize("store", ["packed_native", "packed_u32"])
@pytest.mark.parametrize("value", ["q4s", "q2s", "u1", "u3", "u6", "u7", "q8s"])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("length", [1, 5, 32, 150])
def test_reversed_words_hold_the_codes_backwards(
    value: str, store: str, dim: int, length: int
) -> None:
    scheme = aq.QuantScheme().with_value(value).with_store(f"{store}({dim})")
    if value[0] == "u":
        scheme = scheme.with_codebook(range(2**scheme.value.bits))
    x = RNG.standard_normal((length, 3, 33)).astype(np.float32)
    q = aq.quantize(x.swapaxes(0, 2 - dim), scheme)
    flipped = aq.flip(q, 2 - dim)
    np.testing.assert_array_equal(flipped.codes(), np.flip(q.codes(), 2 - dim))
    np.testing.assert_array_equal(aq.flip(flipped, 2 - dim).data, q.data)


def test_whole_words_move_without_a_copy_where_memory_allows() -> None:
    q = aq.quantize(RNG.standard_normal((8, 64)).astype(np.float32), "int4/32")
    for moved in (q[2:5], q[3], q.reshape(8, 2, 32), aq.expand_dims(q, 1), q[None]):
        assert np.shares_memory(moved.data, q.data)
