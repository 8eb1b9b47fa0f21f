"""Pickling, copying, and other processes: the same bytes, and few more than the packed ones."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading

import numpy as np
import pytest
from library_arrays import fetched, put
from transformation_cases import SCHEMES, assert_same_array, floats, quantized_bytes

import arrayq as aq

LIBRARIES = ("numpy", "torch", "jax")


def of_library(library: str, name: str = "two levels") -> aq.QuantizedArray:
    q = aq.quantize(floats(), SCHEMES[name])
    return q if library == "numpy" else put(q, library)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("library", LIBRARIES)
def test_pickles_are_small_and_come_back(library: str, protocol: int) -> None:
    for name in SCHEMES:
        q = of_library(library, name)
        written = pickle.dumps(q, protocol)
        assert_same_array(pickle.loads(written), q)
        assert len(written) <= q.nbytes + 4096


@pytest.mark.parametrize("library", ["array_api_strict", "mlx"])
def test_libraries_whose_arrays_cannot_be_pickled_have_bytes(library: str) -> None:
    q = of_library(library)
    try:
        written = pickle.dumps(q)
    except TypeError:
        written = None
    if written is not None:
        assert_same_array(fetched(pickle.loads(written)), fetched(q))
    host = fetched(q)
    again = aq.from_bytes(aq.to_bytes(host), host.scheme, host.shape, xp=np)
    assert_same_array(again, host)


@pytest.mark.parametrize("library", LIBRARIES)
def test_copies_share_nothing(library: str) -> None:
    q = of_library(library)
    for made in (copy.copy(q), copy.deepcopy(q), copy.deepcopy({"q": [q]})["q"][0], q.copy()):
        assert_same_array(made, q)
        assert made.data is not q.data
    if library == "numpy":
        assert not np.shares_memory(copy.deepcopy(q).data, q.data)


def test_parameters_and_schemes_are_pickled_and_copied() -> None:
    for scheme in SCHEMES.values():
        p = aq.calibrate(floats(), scheme)
        for made in (pickle.loads(pickle.dumps(p)), copy.deepcopy(p)):
            np.testing.assert_array_equal(made.scale, p.scale)
        assert pickle.loads(pickle.dumps(scheme)) == scheme
        assert copy.deepcopy(scheme) == scheme


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_give_the_bytes_of_the_parent(method: str) -> None:
    x = floats(64, 256)
    tasks = [(x, spelling) for spelling in ("nvfp4", "int4/32", "nf4/64", "int8/row")]
    expected = [quantized_bytes(task) for task in tasks]  # the parent has used threads
    worker = threading.Thread(target=quantized_bytes, args=(tasks[0],))
    worker.start()
    worker.join()
    with multiprocessing.get_context(method).Pool(2) as pool:
        got = pool.map_async(quantized_bytes, tasks).get(timeout=100)
    for (written, q), (other, own) in zip(got, expected, strict=True):
        assert written == other
        assert_same_array(q, own)
