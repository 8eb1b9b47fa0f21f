"""Clusters: several processes give the bits of one, and no array needs to fit into any of them."""

import time

import dask.array as da
import numpy as np
import pytest
from lazily import assert_same_bits, parts_of

import arrayq as aq
from arrayq._paths import host
from arrayq._paths.parts import Policy
from arrayq.layout import plan

distributed = pytest.importorskip("distributed")

# What a cluster says when it ends is not about what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def cluster(tmp_path):
    """A function that starts a client of a cluster of two processes."""
    clients = []

    def start(**options):
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
            local_directory=str(tmp_path), **options,
        )  # fmt: skip
        clients.append((distributed.Client(cluster), cluster))
        return clients[-1][0]

    yield start
    for client, running in clients:
        client.close()
        running.close()


def test_two_processes_give_the_bits_of_numpy(cluster):
    client = cluster()
    x = np.random.default_rng(0).standard_normal((40, 400)).astype(np.float32)
    for spelling in ("nvfp4", "int8/row", "int8/tensor", "int4/32", "ternary"):
        q = aq.quantize(client.persist(da.from_array(x, chunks=(11, 130))), spelling)
        expected = aq.quantize(x, spelling)
        computed = q.compute()
        for lazily, eagerly in zip(parts_of(computed), parts_of(expected), strict=True):
            assert_same_bits(lazily, eagerly)
        kept = q.persist()
        assert_same_bits(aq.dequantize(kept).compute(), expected.dequantize())
    assert len(client.has_what()) == 2


ROWS, COLUMNS = 12_288, 131_072


def factors(start, shape):
    """A column and a row whose product is a part of an array of 6 GB that is nowhere."""
    rows = np.arange(start[0], start[0] + shape[0], dtype=np.float32)
    columns = np.arange(start[1], start[1] + shape[1], dtype=np.float32)
    column = np.cos(0.73 * rows) * np.exp(np.sin(0.01 * rows))
    return column[:, None], np.sin(0.37 * columns) * (1 + np.abs(np.cos(0.011 * columns)))


def made(start, shape):
    column, row = factors(start, shape)
    return column * row


def chunk_made(block_info=None):
    (top, bottom), (left, right) = block_info[None]["array-location"]
    return made((top, left), (bottom - top, right - left))


def peak_memory():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def expected_part(scheme, region, tensor_scale):
    """What NumPy makes of a region of whole blocks of the array."""
    if tensor_scale is None:
        return aq.quantize(region, scheme)
    layout = plan(scheme, region.shape)
    stored = host.allocate(layout)
    stored.tensor_scale[...] = tensor_scale
    calibration = scheme.numerics.calibration
    host.quantize(region, layout, calibration, Policy.RAISE, 1, stored, tensor_scaled=True)
    return aq.QuantizedArray(
        stored.data, stored.scale_data, scheme, extent=region.shape[1], tensor_scale=tensor_scale
    )


def largest_magnitude():
    """The largest magnitude of the whole array: products round in the order of their factors."""
    column, row = factors((0, 0), (ROWS, COLUMNS))
    return np.abs(column).max() * np.abs(row).max()


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["int4/32", "nvfp4", "int8/row"])
def test_an_array_of_6_gb_passes_through_workers_of_1_gb(cluster, tmp_path, spelling):
    zarr = pytest.importorskip("zarr")
    client = cluster(memory_limit="1GB")
    chunks = da.core.normalize_chunks((1000, 4100), (ROWS, COLUMNS))
    x = da.map_blocks(chunk_made, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), "f4"))
    assert x.nbytes > 6e9

    started = time.perf_counter()
    q = aq.quantize(x, spelling)
    parts = {"data": q.data, "scale_data": q.scale_data}
    if q.tensor_scale is not None:
        parts["tensor_scale"] = q.tensor_scale
    group = zarr.open_group(str(tmp_path / "weights.zarr"), mode="w")
    files = {
        name: group.create_array(name, shape=part.shape, chunks=part.chunksize, dtype=part.dtype)
        for name, part in parts.items()
    }
    da.store(list(parts.values()), list(files.values()), lock=False)
    seconds = time.perf_counter() - started
    peaks = client.run(peak_memory)
    print(f"{spelling}: {seconds:.0f} s, peak {max(peaks.values()) / 1e6:.0f} MB")
    assert len(peaks) == 2
    assert max(peaks.values()) < 1e9

    read = {name: da.from_zarr(file) for name, file in files.items()}
    again = aq.QuantizedArray(**read, scheme=q.scheme, extent=COLUMNS)
    floats = aq.dequantize(again)
    tensor_scale = None
    if "tensor_scale" in read:
        tensor_scale = read["tensor_scale"].compute()
        alone = aq.calibrate(np.full((1, 16), largest_magnitude()), q.scheme)
        assert_same_bits(tensor_scale, alone.tensor_scale)
    width = COLUMNS if spelling == "int8/row" else 320
    for top, left in [(0, 0), (5000, 65_536), (ROWS - 64, COLUMNS - 320)]:
        left = min(left, COLUMNS - width)
        region = made((top, left), (64, width))
        expected = expected_part(q.scheme, region, tensor_scale)
        window = (slice(top, top + 64), slice(left, left + width))
        assert_same_bits(floats[window].compute(), expected.dequantize())
        words = region.shape[1] // expected.data.shape[1]
        columns = slice(left // words, (left + width) // words)
        assert_same_bits(files["data"][window[0], columns], expected.data)
