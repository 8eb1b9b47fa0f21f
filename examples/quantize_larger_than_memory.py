"""Quantize an array on two worker processes of 1 GB each into files, and read a part of it back.

The array is made chunk by chunk where it is needed; the argument is its size in gigabytes. A real
job would start with ``da.from_zarr`` or another reader that dask has.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
import zarr
from dask.distributed import Client, LocalCluster

import arrayq as aq


def made(block_info=None):
    (top, bottom), (left, right) = block_info[None]["array-location"]
    rows, columns = np.arange(top, bottom), np.arange(left, right)
    return np.sin(0.37 * rows[:, None] * np.cos(0.11 * columns)).astype(np.float32)


def weights(gigabytes):
    shape = (max(1000, int(gigabytes * 1e9) // (4 * 32_000)), 32_000)
    chunks = da.core.normalize_chunks((1000, 4000), shape)
    return da.map_blocks(made, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), "f4"))


def write(q, path):
    """Write the parts of a lazy array, each chunk of it computed once."""
    names = ("data", "scale_data", "zero_point", "tensor_scale")
    parts = {name: getattr(q, name) for name in names if getattr(q, name) is not None}
    group = zarr.open_group(path, mode="w")
    group.attrs["scheme"] = json.dumps(q.scheme.to_dict())
    group.attrs["extent"] = q.extent
    files = [
        group.create_array(name, shape=part.shape, chunks=part.chunksize, dtype=part.dtype)
        for name, part in parts.items()
    ]
    # one call for all parts: each call on its own would quantize the array again
    da.store(list(parts.values()), files, lock=False)


def read(path):
    """Return the array that `write` wrote; nothing is read before its values are asked for."""
    group = zarr.open_group(path, mode="r")
    scheme = aq.QuantScheme.from_dict(json.loads(group.attrs["scheme"]))
    parts = {name: da.from_zarr(file) for name, file in group.arrays()}
    return aq.QuantizedArray(**parts, scheme=scheme, extent=group.attrs["extent"])


def main():
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="1GB", dashboard_address=None
    )
    with cluster, Client(cluster), tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "weights.zarr")
        x = weights(gigabytes)

        start = time.perf_counter()
        q = aq.quantize(x, "nvfp4")
        write(q, path)
        seconds = time.perf_counter() - start
        print(f"{x.nbytes / 1e9:.2f} GB became {q.nbytes / 1e9:.3f} GB in {seconds:.1f} s")

        corner = aq.dequantize(read(path))[:4, :64].compute()
        error = np.abs(corner - x[:4, :64].compute()).max()
        print(f"read back a corner of shape {corner.shape}, largest error {error:.3f}")


if __name__ == "__main__":
    main()
