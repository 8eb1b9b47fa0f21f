"""A quantized array of dask's arrays is a collection of dask."""

import copy
import pickle

import dask
import numpy as np
import pytest
from lazily import assert_same_bits, lazy, parts_of

import arrayq as aq

SCHEMES = ["int4/16", "int8/row", "int8/tensor", "nvfp4", "ternary"]
AFFINE = aq.QuantScheme().with_value("u4").with_mode("affine").per_block(32)


def numbers(seed=0):
    return np.random.default_rng(seed).standard_normal((10, 100)).astype(np.float32)


def assert_same(q, expected):
    assert (q.shape, q.scheme, q.block_offset) == (
        expected.shape, expected.scheme, expected.block_offset,
    )  # fmt: skip
    for part, expectation in zip(parts_of(q), parts_of(expected), strict=True):
        assert part is None or isinstance(part, np.ndarray | np.generic)
        assert_same_bits(part, expectation)


@pytest.mark.parametrize("scheme", [*SCHEMES, AFFINE], ids=str)
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_computing_gives_an_array_of_numpys(scheme, scheduler):
    q = aq.quantize(lazy(numbers(), (4, 30)), scheme)
    assert dask.is_dask_collection(q)
    (result,) = dask.compute(q, scheduler=scheduler)
    assert not dask.is_dask_collection(result)
    assert_same(result, aq.quantize(numbers(), scheme))


@pytest.mark.parametrize("scheme", [*SCHEMES, AFFINE], ids=str)
def test_persisting_keeps_chunks_and_computes_nothing_again(scheme):
    q = aq.quantize(lazy(numbers(), (4, 30)), scheme)
    (kept,) = dask.persist(q, scheduler="sync")
    assert dask.is_dask_collection(kept)
    assert len(kept.data.__dask_graph__()) == kept.data.npartitions
    assert kept.data.chunks == q.data.chunks
    assert_same(kept.compute(scheduler="sync"), aq.quantize(numbers(), scheme))
    assert_same_bits(
        kept.dequantize().compute(scheduler="sync"), aq.quantize(numbers(), scheme).dequantize()
    )


def test_collections_nest_and_mix_with_others():
    x = lazy(numbers(), (4, 30))
    q = aq.quantize(x, "nvfp4")
    result, total = dask.compute({"w": [q]}, x.sum(), scheduler="sync")
    assert_same(result["w"][0], aq.quantize(numbers(), "nvfp4"))
    assert total == pytest.approx(numbers().sum(), rel=1e-4)


def test_optimizing_returns_the_same_array():
    q = aq.quantize(lazy(numbers(), (4, 30)), "int8/row")
    (optimized,) = dask.optimize(q)
    assert_same(optimized.compute(scheduler="sync"), aq.quantize(numbers(), "int8/row"))


def test_delayed_functions_get_the_computed_array():
    q = aq.quantize(lazy(numbers(), (4, 30)), "nvfp4")
    data = dask.delayed(lambda q: q.data)(q).compute(scheduler="sync")
    assert_same_bits(data, aq.quantize(numbers(), "nvfp4").data)


def test_an_array_of_numpys_is_no_collection():
    q = aq.quantize(numbers(), "nvfp4")
    assert not dask.is_dask_collection(q)
    assert dask.compute(q)[0] is q
    assert not hasattr(q, "__dask_optimize__")


def test_parts_of_both_kinds_mix():
    q = aq.quantize(numbers(), "nvfp4")
    mixed = q._with_parts(lazy(q.data, (4, 10)), q.scale_data, None, q.tensor_scale)
    assert dask.is_dask_collection(mixed)
    assert_same(mixed.compute(scheduler="sync"), q)
    assert_same(dask.persist(mixed, scheduler="sync")[0].compute(scheduler="sync"), q)
    assert_same_bits(aq.dequantize(mixed).compute(scheduler="sync"), q.dequantize())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tokens_tell_arrays_apart(scheme):
    def token(seed, scheme=scheme, chunks=(4, 30)):
        return dask.base.tokenize(aq.quantize(lazy(numbers(seed), chunks), scheme))

    def eager(seed):
        return dask.base.tokenize(aq.quantize(numbers(seed), scheme))

    assert token(0) == token(0)
    assert token(0) != token(0, "mxfp8")
    assert eager(0) == eager(0)
    assert eager(0) != eager(1)
    assert dask.base.tokenize(aq.quantize(numbers(0), "int8/32")) != dask.base.tokenize(
        aq.quantize(numbers(0), "int8/33")
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lazy_arrays_are_pickled_and_copied(scheme):
    q = aq.quantize(lazy(numbers(), (4, 30)), scheme)
    for other in (pickle.loads(pickle.dumps(q)), copy.copy(q), copy.deepcopy(q)):
        assert_same(other.compute(scheduler="sync"), aq.quantize(numbers(), scheme))
