"""The converter equals the library call on each tensor, and copies the rest byte for byte."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import arrayq as aq
from arrayq.checkpoint import (
    CheckpointError,
    SafetensorsReader,
    Selection,
    compare_file,
    dequantize_file,
    load_file,
    quantize_file,
)
from arrayq.checkpoint.dtypes import DTYPES
from arrayq.checkpoint.header import encode_header

Write = Callable[..., Path]

SCHEMES = ["int8/row", "int4/32", "int2/32", "nf4/64", "mxfp4", "mxfp6-e2m3", "nvfp4", "ternary",
           "e4m3/tensor", "q4s/32:bf16"]  # fmt: skip


def model(rng: np.random.Generator) -> dict[str, np.ndarray]:
    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.02, shape)

    return {
        "embedding": normal(30, 70).astype(np.float16),
        "head": normal(5, 33).astype(ml_dtypes.bfloat16),
        "wide": normal(3, 100),
        "conv": normal(8, 3, 5, 5).astype(np.float32),
        "cube": normal(4, 6, 9).astype(np.float32),
        "narrow": normal(9, 1).astype(np.float32),
        "bias": normal(5).astype(np.float32),
        "scalar": np.asarray(3.5, np.float32),
        "no rows": np.empty((0, 8), np.float32),
        "no columns": np.empty((8, 0), np.float16),
        "ids": rng.integers(0, 9, (3, 3)),
        "mask": rng.integers(0, 2, (4, 3)).astype(bool),
    }


QUANTIZED = ["embedding", "head", "wide", "conv", "cube", "narrow"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_file_is_quantized_as_the_library_does_it(
    tmp_path: Path, write_arrays: Write, rng: np.random.Generator, scheme: str
) -> None:
    arrays = model(rng)
    source = write_arrays(arrays, metadata={"format": "pt"})
    outcome = quantize_file(source, tmp_path / "out", scheme)
    assert [tensor.name for tensor in outcome.converted] == QUANTIZED
    assert outcome.bytes_after == (tmp_path / "out").stat().st_size
    loaded = load_file(tmp_path / "out")
    assert loaded.keys() == arrays.keys()
    for tensor in outcome.tensors:
        array, result = arrays[tensor.name], loaded[tensor.name]
        if tensor.kept is not None:
            assert isinstance(result, np.ndarray)
            assert result.dtype == array.dtype
            assert result.tobytes() == array.tobytes()
            continue
        assert isinstance(result, aq.QuantizedArray)
        expected = aq.quantize(array.reshape(array.shape[0], -1), scheme)
        np.testing.assert_array_equal(result.data, expected.data)
        np.testing.assert_array_equal(result.scale_data, expected.scale_data)
        assert result.scheme == expected.scheme
        assert tensor.metrics is not None
        assert tensor.metrics.stored_bytes == expected.nbytes
        assert tensor.metrics.source_bytes == array.nbytes
    with SafetensorsReader(tmp_path / "out") as reader:
        assert reader.metadata["format"] == "pt"
    safetensors.numpy.load_file(tmp_path / "out") if "BF16" not in outcome.to_dict() else None


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_a_file_is_dequantized_in_its_own_shapes(
    tmp_path: Path, write_arrays: Write, rng: np.random.Generator, dtype: str
) -> None:
    arrays = model(rng)
    quantize_file(write_arrays(arrays, metadata={"format": "pt"}), tmp_path / "q", "nvfp4")
    outcome = dequantize_file(tmp_path / "q", tmp_path / "back", dtype)
    assert outcome.bytes_after == (tmp_path / "back").stat().st_size
    numpy_dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    loaded = load_file(tmp_path / "back")
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        result = loaded[name]
        assert isinstance(result, np.ndarray)
        if name not in QUANTIZED:
            assert result.tobytes() == array.tobytes()
            continue
        q = aq.quantize(array.reshape(array.shape[0], -1), "nvfp4")
        assert result.dtype == numpy_dtype
        np.testing.assert_array_equal(
            result, aq.dequantize(q).reshape(array.shape).astype(numpy_dtype)
        )
    with SafetensorsReader(tmp_path / "back") as reader:
        assert reader.metadata == {"format": "pt"}


def test_a_large_tensor_is_decoded_in_parts_that_fit_together(
    tmp_path: Path, write_arrays: Write, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(1300, 1031)).astype(np.float32)
    for scheme in ("nvfp4", "int4/row", "e4m3/tensor"):
        quantize_file(write_arrays({"x": x}), tmp_path / "q", scheme)
        dequantize_file(tmp_path / "q", tmp_path / "back")
        expected = aq.dequantize(aq.quantize(x, scheme))
        np.testing.assert_array_equal(load_file(tmp_path / "back")["x"], expected)


def test_every_type_is_copied_through_byte_for_byte(tmp_path: Path, write_raw: Write) -> None:
    tensors = {
        f"{name} tensor": (name, (8, 1), bytes(range(row.bits))) for name, row in DTYPES.items()
    }
    source = write_raw(tensors)
    quantize_file(source, tmp_path / "out", "int8/row", selection=Selection(exclude=("*",)))
    for path in (source, tmp_path / "out"):
        with SafetensorsReader(path) as reader:
            found = {
                name: (entry.dtype.name, entry.shape, b"".join(reader.chunks(name)))
                for name, entry in reader.entries.items()
            }
        assert found == tensors
    with SafetensorsReader(tmp_path / "out") as reader:
        assert reader.metadata == {}


def test_the_outcome_says_why_tensors_are_kept(
    tmp_path: Path, write_arrays: Write, rng: np.random.Generator
) -> None:
    selection = Selection(exclude=("wide", "unmatched.*"))
    outcome = quantize_file(
        write_arrays(model(rng)), tmp_path / "out", "nvfp4", selection=selection
    )
    assert outcome.kept_by_reason == {
        "no elements": 2, "excluded": 1, "one axis": 1, "a single number": 1, "type I64": 1,
        "type BOOL": 1,
    }  # fmt: skip
    assert outcome.unmatched_patterns == ("unmatched.*",)
    json.dumps(outcome.to_dict(), allow_nan=False)


def test_tensors_of_one_axis_are_quantized_on_request(tmp_path: Path, write_arrays: Write) -> None:
    bias = np.linspace(-1, 1, 50, dtype=np.float32)
    quantize_file(
        write_arrays({"bias": bias}), tmp_path / "q", "int8/32",
        selection=Selection(one_dimensional=True),
    )  # fmt: skip
    dequantize_file(tmp_path / "q", tmp_path / "back")
    np.testing.assert_array_equal(
        load_file(tmp_path / "back")["bias"], aq.dequantize(aq.quantize(bias, "int8/32"))
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_tensor_that_is_not_finite_stops_the_run_and_is_named(
    tmp_path: Path, write_arrays: Write, value: float
) -> None:
    good, bad = np.ones((4, 4), np.float32), np.ones((2, 3, 4), np.float32)
    bad[1, 2, 3] = value
    source = write_arrays({"good": good, "bad.weight": bad})
    (tmp_path / "out").write_bytes(b"old")
    named = r"tensor 'bad.weight' .* first at \[1, 2, 3\]"
    with pytest.raises(aq.NonFiniteError, match=named) as caught:
        quantize_file(source, tmp_path / "out", "nvfp4")
    error = caught.value
    assert error.first_index == (1, 2, 3)
    assert (error.nan, error.inf) == (int(np.isnan(value)), int(np.isinf(value)))
    assert (tmp_path / "out").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "out"]


def test_the_input_is_never_the_output(tmp_path: Path, write_arrays: Write) -> None:
    source = write_arrays({"x": np.ones((4, 4), np.float32)})
    before = source.read_bytes()
    with pytest.raises(CheckpointError, match="is the input itself"):
        quantize_file(source, source, "nvfp4")
    assert source.read_bytes() == before


def test_a_quantized_file_is_not_quantized_again(tmp_path: Path, write_arrays: Write) -> None:
    quantize_file(write_arrays({"x": np.eye(4)}), tmp_path / "q", "nvfp4")
    with pytest.raises(CheckpointError, match="is quantized already"):
        quantize_file(tmp_path / "q", tmp_path / "again", "nvfp4")
    with pytest.raises(CheckpointError, match="is quantized already"):
        list(compare_file(tmp_path / "q", ["nvfp4"]))


def test_a_plain_file_is_not_dequantized(tmp_path: Path, write_arrays: Write) -> None:
    source = write_arrays({"x": np.eye(4)})
    with pytest.raises(CheckpointError, match="holds no quantized tensor"):
        dequantize_file(source, tmp_path / "out")
    with pytest.raises(CheckpointError, match="dtype requires one of f32, f16, bf16, got 'f8'"):
        dequantize_file(source, tmp_path / "out", "f8")


def test_names_that_would_collide_are_refused(tmp_path: Path, write_arrays: Write) -> None:
    source = write_arrays({"x": np.eye(4), "x.arrayq.data": np.zeros(3)})
    with pytest.raises(CheckpointError, match=r"two tensors .* 'x\.arrayq\.data'"):
        quantize_file(source, tmp_path / "out", "nvfp4")


def test_values_too_large_for_the_output_type_are_counted(
    tmp_path: Path, write_arrays: Write
) -> None:
    x = np.array([[1e5, -1e6, 3.0, 0.0]], np.float32)
    quantize_file(write_arrays({"x": x}), tmp_path / "q", "int8/1:f32")
    outcome = dequantize_file(tmp_path / "q", tmp_path / "back", "f16")
    assert outcome.overflowed == 2
    assert load_file(tmp_path / "back")["x"].tolist() == [[np.inf, -np.inf, 3.0, 0.0]]


def test_two_runs_give_the_same_bytes(
    tmp_path: Path, write_arrays: Write, rng: np.random.Generator
) -> None:
    source = write_arrays(model(rng))
    for name in ("one", "two"):
        quantize_file(source, tmp_path / name, "nvfp4", threads=1 if name == "one" else 2)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_progress_goes_up_to_its_total(
    tmp_path: Path, write_arrays: Write, rng: np.random.Generator
) -> None:
    source = write_arrays(model(rng) | {"large": rng.normal(size=(600, 1000)).astype(np.float32)})
    steps: list[tuple[str, int, int]] = []

    def note(name: str, done: int, total: int) -> None:
        steps.append((name, done, total))

    quantize_file(source, tmp_path / "q", "nvfp4", on_progress=note)
    for run in (
        lambda: dequantize_file(tmp_path / "q", tmp_path / "back", on_progress=note),
        lambda: list(compare_file(source, ["nvfp4", "int8/row"], on_progress=note)),
        lambda: None,
    ):
        done = [step[1] for step in steps]
        assert done == sorted(done)
        assert done[-1] == steps[-1][2] > 0
        assert len(set(done)) > 10
        steps.clear()
        run()
        if not steps:
            break


def test_a_file_is_compared_as_it_would_be_quantized(
    tmp_path: Path, write_arrays: Write, rng: np.random.Generator
) -> None:
    source = write_arrays(model(rng))
    compared = list(compare_file(source, ["int8/row", "nvfp4"]))
    for which, scheme in enumerate(["int8/row", "nvfp4"]):
        outcome = quantize_file(source, tmp_path / "q", scheme)
        for tensor, made in zip(compared, outcome.tensors, strict=True):
            assert (tensor.entry.name, tensor.kept) == (made.name, made.kept)
            assert made.kept is not None or tensor.metrics[which] == made.metrics


MEASURED = """
import resource, sys
from arrayq.checkpoint import quantize_file, dequantize_file
quantize_file(sys.argv[1], sys.argv[2] + ".warm", "nvfp4")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
quantize_file(sys.argv[3], sys.argv[2], "nvfp4")
middle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dequantize_file(sys.argv[2], sys.argv[2] + ".back", "f16")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(middle - before, after - before)
"""


def zeros_file(path: Path, tensors: int, shape: tuple[int, int]) -> Path:
    header, entries = encode_header(
        [(f"layer.{i}", DTYPES["F32"], shape) for i in range(tensors)], {}
    )
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(entry.nbytes for entry in entries.values()))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux only")
def test_case_24_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    small = zeros_file(tmp_path / "small", 1, (4, 64))
    large = zeros_file(tmp_path / "large", 12, (2048, 2048))  # 16 MB each
    output = subprocess.run(
        [sys.executable, "-c", MEASURED, small, tmp_path / "out", large],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    largest_kb = 2048 * 2048 * 4 / 1024
    for grown_kb in map(int, output.split()):
        assert grown_kb < 2 * largest_kb + 16 * 1024


def test_a_file_with_an_index_of_nothing_counts_as_plain(
    tmp_path: Path, write_arrays: Write, rng: np.random.Generator
) -> None:
    metadata = {"arrayq": '{"format_version":1,"tensors":{}}', "format": "pt"}
    path = write_arrays({"x": rng.normal(size=(4, 32))}, metadata=metadata)
    with pytest.raises(CheckpointError, match="holds no quantized tensor"):
        dequantize_file(path, tmp_path / "back")
    assert [tensor.kept for tensor in compare_file(path, ["nvfp4"])] == [None]
    quantize_file(path, tmp_path / "q", "nvfp4")
    assert isinstance(load_file(tmp_path / "q")["x"], aq.QuantizedArray)
    quantize_file(path, tmp_path / "kept", "nvfp4", selection=Selection(exclude=("*",)))
    with SafetensorsReader(tmp_path / "kept") as reader:
        assert reader.metadata == {"format": "pt"}


@pytest.mark.parametrize("work", [quantize_file, compare_file, dequantize_file])
def test_a_number_of_threads_that_is_none_is_refused_before_any_work(
    tmp_path: Path, write_arrays: Write, monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any]
) -> None:
    path = write_arrays({"x": np.eye(4, dtype=np.float32)})
    quantize_file(path, tmp_path / "q", "nvfp4")
    arguments = {
        quantize_file: (path, tmp_path / "out", "nvfp4"),
        compare_file: (path, ["nvfp4"]),
        dequantize_file: (tmp_path / "q", tmp_path / "out"),
    }[work]
    monkeypatch.setenv("ARRAYQ_NUM_THREADS", "abc")
    with pytest.raises(aq.ArgumentError, match=r"^ARRAYQ_NUM_THREADS requires an integer"):
        list(work(*arguments))
    assert not (tmp_path / "out").exists()
