"""What the graphs are: nothing computed early, one pass, chunks no larger than they must be."""

import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
from lazily import (
    assert_equals_numpy,
    assert_same_bits,
    computed,
    lazy,
    nothing_computed,
    parts_of,
    quantize,
)

import arrayq as aq
from arrayq._paths import host
from arrayq._paths.chunked import chunk
from arrayq._paths.chunked.alignment import align
from arrayq._paths.parts import Policy
from arrayq.errors import NonFiniteError, UnsupportedSchemeError
from arrayq.layout import plan
from arrayq.testing import generic_path


@pytest.fixture
def kernel_calls(monkeypatch):
    """The shapes that passes of the kernels over elements had."""
    shapes = []
    original = host.quantize

    def counted(x, *args, **kwargs):
        shapes.append(x.shape)
        return original(x, *args, **kwargs)

    monkeypatch.setattr(host, "quantize", counted)
    return shapes


def counted_source(shape, chunks, reads):
    """An array of numbers made from their place, which notes each chunk that is made."""

    def make(block_info=None):
        start, end = zip(*block_info[None]["array-location"], strict=True)
        reads.append(tuple(start))
        places = np.indices([e - s for s, e in zip(start, end, strict=True)])
        linear = np.zeros(places.shape[1:])
        for axis, place in enumerate(places):
            linear = linear * shape[axis] + place + start[axis]
        return np.sin(linear).astype(np.float32)

    chunks = da.core.normalize_chunks(chunks, shape, dtype="float32")
    return da.map_blocks(make, chunks=chunks, dtype="float32", meta=np.empty((0, 0), "float32"))


@pytest.mark.parametrize("spelling", ["int4/32", "int8/row", "int8/tensor", "nvfp4", "ternary"])
def test_nothing_is_computed_while_public_functions_build_graphs(spelling):
    reads = []
    x = counted_source((64, 256), (16, 100), reads)
    with nothing_computed():
        q = aq.quantize(x, spelling)
        q.dequantize()
        aq.fake_quantize(x, spelling)
        aq.quantize(x, spelling, qparams=aq.calibrate(x, spelling))
        repr(q)
    assert not reads


@pytest.mark.parametrize("spelling", ["int4/32", "mxfp4", "int8/32"])
def test_data_and_scales_take_one_kernel_call_and_one_read_for_each_chunk(kernel_calls, spelling):
    reads = []
    x = counted_source((64, 256), (16, 64), reads)
    stored, _ = quantize(x, spelling)
    computed(stored)
    assert len(kernel_calls) == x.npartitions
    assert sorted(reads) == sorted(set(reads))


def test_a_quantized_array_takes_one_kernel_call_for_each_chunk(kernel_calls):
    x = lazy(np.ones((64, 256), np.float32), (16, 64))
    aq.quantize(x, "int4/32").compute(scheduler="sync")
    assert len(kernel_calls) == x.npartitions


@pytest.mark.parametrize("chunks", [(16, 64), (16, 100)])
@pytest.mark.parametrize("spelling", ["nvfp4", "int8/tensor", "int8/row"])
def test_a_second_pass_reads_chunks_again_so_that_none_waits_in_memory(spelling, chunks):
    reads = []
    x = counted_source((64, 512), chunks, reads)
    stored, _ = quantize(x, spelling)
    assert_equals_numpy(stored, aq.quantize(x.compute(scheduler="sync"), spelling))
    reads.clear()
    computed(stored)
    assert sorted(reads) == sorted(2 * list(set(reads)))
    first_pass = reads[: x.npartitions]
    assert len(set(first_pass)) == x.npartitions


@pytest.mark.parametrize("spelling", ["nvfp4", "int8/tensor", "int8/row"])
def test_chunks_in_memory_are_not_made_again(spelling):
    reads = []
    x = counted_source((64, 512), (16, 100), reads).persist(scheduler="sync")
    reads.clear()
    stored, _ = quantize(x, spelling)
    computed(stored)
    assert not reads


def test_the_second_pass_follows_any_graph():
    base = lazy(np.random.default_rng(8).standard_normal((60, 80)).astype(np.float32), (7, 11))
    x = ((base.T @ base).rechunk((16, 13)) / base.sum())[::-1, 3:70]
    for spelling in ("nvfp4", "int8/tensor", "int4/row"):
        stored, _ = quantize(x, spelling)
        x_computed, *parts = dask.compute(x, *parts_of(stored), scheduler="sync")
        for part, expected in zip(parts, parts_of(aq.quantize(x_computed, spelling)), strict=True):
            assert_same_bits(part, expected)


def test_zero_points_come_from_the_same_kernel_calls(kernel_calls):
    x = lazy(np.ones((64, 256), np.float32), (16, 64))
    stored, _ = quantize(x, aq.QuantScheme().with_value("u4").with_mode("affine").per_block(32))
    computed(stored)
    assert len(kernel_calls) == x.npartitions


def test_two_levels_add_one_kernel_call_for_the_tensor_scale(kernel_calls):
    x = lazy(np.ones((64, 256), np.float32), (16, 64))
    stored, _ = quantize(x, "nvfp4")
    computed(stored)
    assert sorted(kernel_calls) == sorted([(16, 64)] * x.npartitions + [(3,)])


def test_blocks_of_several_chunks_keep_chunks_as_they_are(kernel_calls):
    x = lazy(np.ones((64, 6400), np.float32), (16, 64))
    for spelling in ("int8/row", "int8/tensor"):
        stored, _ = quantize(x, spelling)
        assert stored.data.chunks == x.chunks
        kernel_calls.clear()
        computed(stored)
        assert kernel_calls.count((16, 64)) == x.npartitions
        assert max(map(np.prod, kernel_calls)) <= 16 * 64


@pytest.mark.parametrize(
    ("shape", "chunks", "spelling", "expected"),
    [
        ((1000,), (250,), "int8/16", ((240, 240, 240, 240, 40),)),
        ((1000,), ((300, 250, 450),), "int8/16", ((288, 256, 456),)),
        ((250,), (250,), "int8/16", ((250,),)),
        ((260,), (250,), "int8/16", ((240, 20),)),
        ((100,), (30,), "int8/16", ((16, 16, 16, 16, 16, 16, 4),)),
        ((10, 100), (4, 30), "mxfp4", ((4, 4, 2), (32, 32, 32, 4))),
        ((3_000_000,), (400_000,), "int8/1000000", ((400_000, 400_000, 200_000) * 3,)),
    ],
)
def test_chunks_end_where_blocks_and_words_do(shape, chunks, spelling, expected):
    layout = plan(aq.scheme(spelling), shape)
    chunks = da.core.normalize_chunks(chunks, shape)
    got = align(layout, chunks, 4).chunks
    if spelling == "int8/1000000":
        ends = set(np.cumsum(got[0]).tolist())
        assert {1_000_000, 2_000_000, 3_000_000} <= ends
        assert max(got[0]) <= 400_000
    else:
        assert got == expected


def test_where_blocks_must_be_whole_other_axes_are_cut_shorter():
    layout = plan(aq.scheme("int8/row"), (10_000, 10_000))
    chunks = da.core.normalize_chunks((1000, 1000), (10_000, 10_000))
    aligned = align(layout, chunks, 4, whole=True, limit=4_000_000)
    assert aligned.chunks[1] == (10_000,)
    assert max(aligned.chunks[0]) == 100
    assert not aligned.splits_blocks


def test_unknown_chunk_sizes_are_refused_with_the_way_out():
    x = lazy(np.ones((10, 100), np.float32), (4, 30))
    with pytest.raises(UnsupportedSchemeError, match=r"compute_chunk_sizes\(\)"):
        aq.quantize(x[x[:, 0] > 0], "int4/16")


def test_stochastic_rounding_is_refused_with_the_reason():
    x = lazy(np.ones((10, 100), np.float32), (4, 30))
    scheme = aq.scheme("int4/16").with_numerics(rounding="stochastic")
    with pytest.raises(UnsupportedSchemeError, match="place in the whole array"):
        aq.quantize(x, scheme)


@pytest.mark.parametrize("spelling", ["int4/16", "int8/row", "int8/tensor", "nvfp4"])
def test_equal_calls_give_equal_keys_and_others_give_others(spelling):
    x = lazy(np.ones((10, 100), np.float32), (4, 30))

    def names(spelling, **kwargs):
        parts = parts_of(aq.quantize(x, spelling, **kwargs))
        return [part.name for part in parts if part is not None]

    first = names(spelling)
    aq.quantize(x, spelling).compute(scheduler="sync")
    assert names(spelling) == first
    assert not set(names("mxfp8")) & set(first)
    assert not set(names(spelling, nonfinite="saturate")) & set(first)


def test_keys_are_those_that_another_process_makes():
    code = (
        "import numpy as np, dask.array as da, arrayq as aq\n"
        "x = da.from_array(np.ones((10, 100), np.float32), chunks=(4, 30))\n"
        "for spelling in ('nvfp4', 'int8/tensor'):\n"
        "    q = aq.quantize(x, spelling)\n"
        "    print(q.data.name, q.scale_data.name, aq.dequantize(q).name)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("spelling", ["int4/16", "int8/row", "int8/tensor", "nvfp4"])
def test_what_is_not_finite_raises_when_asked_to_and_computed(spelling):
    x = np.ones((10, 100), np.float32)
    x[7, 77] = np.inf
    with nothing_computed():
        q = aq.quantize(lazy(x, (4, 30)), spelling, nonfinite="raise")
    with pytest.raises(NonFiniteError, match=r"first at index \(7, 77\)") as raised:
        q.compute(scheduler="sync")
    assert (raised.value.nan, raised.value.inf, raised.value.first_index) == (0, 1, (7, 77))


@pytest.mark.parametrize("spelling", ["int4/16", "int8/row", "int8/tensor", "nvfp4"])
def test_nan_cannot_be_saturated(spelling):
    x = np.ones((10, 100), np.float32)
    x[7, 77] = np.nan
    q = aq.quantize(lazy(x, (4, 30)), spelling, nonfinite="saturate")
    with pytest.raises(NonFiniteError, match="1 NaN"):
        q.compute(scheduler="sync")


@pytest.mark.parametrize("spelling", ["int4/16", "nvfp4", "int8/tensor", "q8s/row"])
def test_chunks_that_are_not_numpys_take_the_path_of_their_library(spelling):
    strict = pytest.importorskip("array_api_strict")
    x = np.random.default_rng(5).standard_normal((8, 64)).astype(np.float32)
    q = aq.quantize(x, spelling)
    rules = chunk.Rules(q.scheme, q.scheme.numerics.calibration, Policy.PROPAGATE)
    given, parts = (), ()
    with generic_path():
        array = strict.asarray(x)
        if q.scheme.two_level:
            bounds = chunk.MeasureTensor(rules)(array)
            given, parts = ("tensor_scale",), (chunk.TensorScale(rules)(bounds),)
        data, scales, _ = chunk.Encode(rules, given)(array, *parts)
        _, settled, _ = chunk.Settle(rules, given)(chunk.MeasureBlocks(rules)(array), *parts)
    assert type(data).__module__.startswith("array_api_strict")
    assert_same_bits(np.asarray(data), q.data)
    assert_same_bits(np.asarray(scales), q.scale_data)
    assert_same_bits(np.asarray(settled), q.scale_data)


def test_chunks_that_are_not_numpys_are_checked_too():
    strict = pytest.importorskip("array_api_strict")
    scheme = aq.scheme("int4/16").resolve(2)
    rules = chunk.Rules(scheme, scheme.numerics.calibration, Policy.RAISE, ((0, 2), (0, 16)))
    x = np.ones((2, 16), np.float32)
    x[1, 3] = np.nan
    with generic_path(), pytest.raises(NonFiniteError, match=r"1 NaN.*at index \(3, 19\)"):
        chunk.Encode(rules)(strict.asarray(x), block_id=(1, 1))


def test_a_slice_of_the_floats_needs_few_chunks():
    reads = []
    x = counted_source((64, 256), (16, 64), reads)
    aq.dequantize(aq.quantize(x, "int4/32"))[:16, :64].compute(scheduler="sync")
    assert len(reads) == 1


def test_empty_arrays_and_single_numbers_work():
    for shape in [(), (0,), (0, 32), (32, 0), (2, 0, 3), (1,)]:
        x = np.ones(shape, np.float32)
        for spelling in ("q8f/tensor", "nvfp4") if shape else ("q8f/tensor",):
            stored, _ = quantize(lazy(x, "auto"), spelling)
            assert_equals_numpy(stored, aq.quantize(x, spelling))


def test_arrays_of_more_chunks_than_a_task_combines():
    x = np.random.default_rng(6).standard_normal((40, 900)).astype(np.float32)
    for spelling in ("int8/tensor", "int8/row", "nvfp4"):
        stored, _ = quantize(lazy(x, (3, 7)), spelling)
        assert_equals_numpy(stored, aq.quantize(x, spelling))


def test_dask_is_not_imported_before_an_array_of_it_is_seen():
    code = (
        "import sys, numpy as np, arrayq as aq\n"
        "q = aq.quantize(np.ones(64, np.float32), 'int8/32')\n"
        "assert q.compute() is q and q.persist() is q and q.__dask_graph__() is None\n"
        "sys.exit(any(name.split('.')[0] == 'dask' for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_optimized_and_unoptimized_graphs_agree():
    x = np.random.default_rng(7).standard_normal((20, 300)).astype(np.float32)
    for spelling in ("nvfp4", "int8/row"):
        q = aq.quantize(lazy(x, (6, 70)), spelling)
        one = q.compute(scheduler="sync", optimize_graph=False)
        with dask.config.set({"optimization.fuse.active": True}):
            other = q.compute(scheduler="threads")
        for a, b, c in zip(
            parts_of(one), parts_of(other), parts_of(aq.quantize(x, spelling)), strict=True
        ):
            assert_same_bits(a, c)
            assert_same_bits(b, c)
