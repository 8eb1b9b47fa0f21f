"""Our own layout: what was saved loads as an equal object, and damage is found."""

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
from arrayq.checkpoint import CheckpointError, SafetensorsReader, load_file, save_file
from arrayq.checkpoint.arrayq_layout import METADATA_KEY, matrix_shape, read_index

SCHEMES = [
    *map(aq.scheme, ["int8/row", "int4/row", "int2/32", "q8f/32", "q2f/tensor", "nf4/64", "nvfp4",
                     "mxfp4", "mxfp8", "mxfp8-e5m2", "mxfp6-e3m2", "mxfp6-e2m3", "ternary",
                     "q4s/32:bf16", "e4m3/tensor"]),
    aq.QuantScheme(),
    aq.QuantScheme().with_value("q4f").with_store("packed_u32(1)").per_block([2, -1], "ue4m3"),
    aq.QuantScheme("u3", "packed_u32", "lookup", codebook=np.linspace(-1, 1.5, 8)).per_tensor(),
    aq.QuantScheme("u8", "native", "lookup", codebook=np.linspace(-1, 1, 256)).per_block([3, 5]),
]  # fmt: skip


def assert_same(left: aq.QuantizedArray, right: aq.QuantizedArray) -> None:
    assert left.scheme == right.scheme
    assert left.shape == right.shape
    for part in ("data", "scale_data", "tensor_scale"):
        a, b = getattr(left, part), getattr(right, part)
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("shape", [(7, 70), (3, 1), (5, 0), (2, 3, 50), (4, 1, 3, 17)])
def test_case_22_what_is_saved_loads_as_an_equal_object(
    tmp_path: Path, rng: np.random.Generator, scheme: aq.QuantScheme, shape: tuple[int, ...]
) -> None:
    q = aq.quantize(rng.normal(size=shape).astype(np.float32), scheme)
    save_file(tmp_path / "q", {"layer.weight": q})
    loaded = load_file(tmp_path / "q")["layer.weight"]
    assert isinstance(loaded, aq.QuantizedArray)
    assert_same(loaded, q)
    np.testing.assert_array_equal(loaded.dequantize(), q.dequantize())


@pytest.mark.parametrize("shape", [(), (1,), (100,)])
def test_arrays_of_fewer_axes_are_saved_too(
    tmp_path: Path, rng: np.random.Generator, shape: tuple[int, ...]
) -> None:
    q = aq.quantize(rng.normal(size=shape), "q4s/tensor")
    save_file(tmp_path / "q", {"x": q})
    loaded = load_file(tmp_path / "q")["x"]
    assert isinstance(loaded, aq.QuantizedArray)
    assert_same(loaded, q)


def test_nan_scales_are_saved(tmp_path: Path) -> None:
    q = aq.quantize(np.array([[1, np.nan], [1, 2]], np.float32), "int8/row", nonfinite="propagate")
    save_file(tmp_path / "q", {"x": q})
    loaded = load_file(tmp_path / "q")["x"]
    np.testing.assert_array_equal(aq.dequantize(loaded), aq.dequantize(q))


def test_plain_arrays_stand_beside_quantized_ones(tmp_path: Path) -> None:
    kept = {
        "bias": np.arange(3, dtype=np.float16),
        "half": np.arange(3).astype(ml_dtypes.bfloat16),
        "eight": np.arange(3).astype(ml_dtypes.float8_e4m3fn),
        "swapped": np.arange(3, dtype=">i4"),
        "flags": np.array([[True], [False]]),
    }
    save_file(tmp_path / "q", {"x": aq.quantize(np.eye(4), "int8/row"), **kept}, {"format": "pt"})
    loaded = load_file(tmp_path / "q")
    assert loaded.keys() == {"x", *kept}
    for name, array in kept.items():
        assert loaded[name].dtype == array.dtype.newbyteorder("=") if name == "swapped" else True
        np.testing.assert_array_equal(loaded[name].astype(float), array.astype(float))
    assert loaded["half"].dtype == ml_dtypes.bfloat16
    with SafetensorsReader(tmp_path / "q") as reader:
        assert reader.metadata["format"] == "pt"


def test_case_22_a_file_loads_where_ml_dtypes_is_not_installed(tmp_path: Path) -> None:
    q = aq.quantize(np.linspace(-2, 2, 64, dtype=np.float32).reshape(2, 32), "nvfp4")
    save_file(tmp_path / "q", {"x": q, "half": np.ones(2, ml_dtypes.bfloat16)})
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "from arrayq.checkpoint import load_file\n"
        "loaded = load_file(sys.argv[1])\n"
        "assert loaded['half'].tolist() == [0x3F80, 0x3F80], loaded['half']\n"
        "print(loaded['x'].dequantize().tobytes().hex())"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "q"], check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == q.dequantize().tobytes().hex()


def test_every_part_is_readable_by_the_safetensors_library(tmp_path: Path) -> None:
    q = aq.quantize(np.linspace(-2, 2, 64, dtype=np.float32).reshape(2, 32), "nvfp4")
    save_file(tmp_path / "q", {"x": q})
    parts = safetensors.numpy.load_file(tmp_path / "q")
    assert parts.keys() == {"x.arrayq.data", "x.arrayq.scale", "x.arrayq.tensor_scale"}
    rebuilt = aq.QuantizedArray(
        parts["x.arrayq.data"],
        parts["x.arrayq.scale"],
        q.scheme,
        extent=32,
        tensor_scale=parts["x.arrayq.tensor_scale"],
    )
    assert_same(rebuilt, q)


def test_dtypes_that_no_file_holds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(aq.ArrayTypeError, match="'x' requires a dtype that safetensors holds"):
        save_file(tmp_path / "q", {"x": np.array(["text"])})
    assert list(tmp_path.iterdir()) == []


def test_names_that_collide_are_refused(tmp_path: Path) -> None:
    q = aq.quantize(np.eye(4), "int8/row")
    with pytest.raises(CheckpointError, match=r"two tensors .* 'x\.arrayq\.data'"):
        save_file(tmp_path / "q", {"x": q, "x.arrayq.data": np.zeros(3)})
    with pytest.raises(CheckpointError, match="requires other keys than 'arrayq'"):
        save_file(tmp_path / "q", {"x": q}, {"arrayq": ""})


X_OF_TWO = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "fault"),
    [
        ({"a": [1, 2]}, None, aq.ArrayTypeError, "'a' requires a QuantizedArray .* got list"),
        ({"a": None}, None, aq.ArrayTypeError, "'a' requires a QuantizedArray .* got NoneType"),
        ([1], None, aq.ArrayTypeError, "tensors requires a mapping .* got list"),
        ({3: X_OF_TWO}, None, CheckpointError, "requires Unicode text, got 3"),
        ({"\ud800": X_OF_TWO}, None, CheckpointError, r"requires Unicode text, got '\\ud800'"),
        ({"__metadata__": X_OF_TWO}, None, CheckpointError, "another text than '__metadata__'"),
        ({}, {"k": 3}, CheckpointError, "mapping of text to text, got 3 for 'k'"),
        ({}, {3: "k"}, CheckpointError, "mapping of text to text, got 'k' for 3"),
        ({}, {"k": "\ud800"}, CheckpointError, "mapping of text to text"),
        ({}, ["k"], CheckpointError, "mapping of text to text, got list"),
        ({}, {"arrayq": ""}, CheckpointError, "other keys than 'arrayq'"),
    ],
)  # fmt: skip
def test_what_no_file_can_hold_is_refused_before_anything_is_written(
    tmp_path: Path, tensors: Any, metadata: Any, error: type[Exception], fault: str
) -> None:
    with pytest.raises(error, match=fault):
        save_file(tmp_path / "q", tensors, metadata)
    assert list(tmp_path.iterdir()) == []


def test_a_quantized_array_cannot_have_the_name_of_the_metadata_either(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="another text than '__metadata__'"):
        save_file(tmp_path / "q", {"__metadata__": aq.quantize(np.eye(4), "int8/row")})


@pytest.mark.parametrize(
    ("shape", "matrix"),
    [((), ()), ((3,), (3,)), ((3, 4), (3, 4)), ((2, 3, 4), (2, 12)), ((2, 0, 3), (2, 0))],
)
def test_more_than_two_axes_become_first_axis_and_everything_else(
    shape: tuple[int, ...], matrix: tuple[int, ...]
) -> None:
    assert matrix_shape(shape) == matrix


@pytest.fixture
def tampered(tmp_path: Path, write_raw: Callable[..., Path]) -> Callable[..., Path]:
    """Write a valid file again after its index and its parts went through `change`."""

    def tamper(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
        q = aq.quantize(np.linspace(-2, 2, 66, dtype=np.float32).reshape(2, 33), "nvfp4")
        save_file(tmp_path / "valid", {"x": q})
        with SafetensorsReader(tmp_path / "valid") as reader:
            index = json.loads(reader.metadata[METADATA_KEY])
            parts = {
                name: (entry.dtype.name, entry.shape, b"".join(reader.chunks(name)))
                for name, entry in reader.entries.items()
            }
        change(index, parts)
        text = index["raw"] if "raw" in index else json.dumps(index)
        return write_raw(parts, name="tampered", metadata={METADATA_KEY: text})

    return tamper


def set_in(*path: str, to: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(index: dict[str, Any], parts: dict[str, Any]) -> None:
        place = index
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


def set_part(name: str, to: tuple[str, tuple[int, ...], bytes] | None) -> Callable[..., None]:
    def change(index: dict[str, Any], parts: dict[str, Any]) -> None:
        del parts[name]
        if to is not None:
            parts[name] = to

    return change


X = ("tensors", "x")
DAMAGE = {
    "nothing": (lambda index, parts: None, None),
    "not JSON": (set_in("raw", to="{"), "index is damaged"),
    "a list": (set_in("raw", to="[]"), "index is damaged"),
    "nested without end": (set_in("raw", to="[" * 100_000), "index is damaged"),
    "another version": (set_in("format_version", to=2), "has version 2, this arrayq reads 1"),
    "a version that is no number": (
        set_in("format_version", to=True), "has version True, this arrayq reads 1"
    ),
    "no tensors": (set_in("raw", to='{"format_version": 1}'), "index is damaged"),
    "tensors a list": (set_in("tensors", to=[]), "index is damaged"),
    "an unknown value": (set_in(*X, "scheme", "value", to="q3s"), "index is damaged"),
    "an unknown part of a scheme": (set_in(*X, "scheme", "color", to=1), "index is damaged"),
    "an impossible scheme": (set_in(*X, "scheme", "tensor", to="f16"), "index is damaged"),
    "a block of more axes": (
        set_in(*X, "scheme", "block", to={"size": [2, 1, 16], "dtype": "ue4m3"}),
        "index is damaged",
    ),
    "a block per channel": (
        set_in(*X, "scheme", "block", to={"axis": 0, "dtype": "ue4m3"}), "index is damaged"
    ),
    "a packed axis too far": (
        set_in(*X, "scheme", "store", to="packed_u32(2)"), "index is damaged"
    ),
    "a scheme missing": (set_in(*X, to={"shape": [2, 33]}), "index is damaged"),
    "a shape of floats": (set_in(*X, "shape", to=[2.0, 33]), "index is damaged"),
    "shapes that differ": (set_in(*X, "shape", to=[2, 34]), "differ in size"),
    "another shape": (
        lambda index, parts: index["tensors"]["x"].update(shape=[3, 33], quantized_shape=[3, 33]),
        "'x.arrayq.data' should be U8 of shape \\(3, 17\\), got U8 of shape \\(2, 17\\)",
    ),
    "another dtype": (set_in(*X, "dtype", to="F17"), "dtype 'F17' of tensor 'x' is unknown"),
    "a tensor not there": (
        lambda index, parts: index["tensors"].update(y=index["tensors"]["x"]), "is missing"
    ),
    "both forms": (
        lambda index, parts: parts.update(x=("U8", (1,), b"1")), "both quantized and as it was"
    ),
    "data missing": (set_part("x.arrayq.data", None), "'x.arrayq.data', a part .* is missing"),
    "tensor scale missing": (set_part("x.arrayq.tensor_scale", None), "is missing"),
    "scales of another type": (
        set_part("x.arrayq.scale", ("I8", (2, 3), bytes(6))), "should be U8 .* got I8"
    ),
    "a negative scale": (
        set_part("x.arrayq.scale", ("U8", (2, 3), b"\x38\x38\x38\x38\xb8\x38")),
        "tensor 'x' is damaged",
    ),
    "an infinite tensor scale": (
        set_part("x.arrayq.tensor_scale", ("F32", (), b"\x00\x00\x80\x7f")),
        "tensor 'x' is damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "fault"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_found_and_named(
    tampered: Callable[..., Path], change: Callable[..., None], fault: str | None
) -> None:
    path = tampered(change)
    if fault is None:
        load_file(path)
        return
    with pytest.raises(aq.CorruptFileError, match=f"(?s)tampered is not .*{fault}"):
        load_file(path)


def test_a_code_outside_its_field_is_damage(tmp_path: Path, write_raw: Callable[..., Path]) -> None:
    scheme = aq.scheme("mxfp6-e3m2").with_store("native")
    save_file(tmp_path / "valid", {"x": aq.quantize(np.ones((1, 4)), scheme)})
    with SafetensorsReader(tmp_path / "valid") as reader:
        parts = {
            name: (entry.dtype.name, entry.shape, b"".join(reader.chunks(name)))
            for name, entry in reader.entries.items()
        }
        metadata = reader.metadata
    parts["x.arrayq.data"] = ("U8", (1, 4), b"\x00\x40\x00\x00")
    with pytest.raises(aq.CorruptFileError, match="tensor 'x' is damaged"):
        load_file(write_raw(parts, metadata=metadata))


def test_the_index_is_read_without_touching_the_tensors(tampered: Callable[..., Path]) -> None:
    path = tampered(set_part("x.arrayq.scale", ("U8", (2, 3), b"\xb8" * 6)))
    with SafetensorsReader(path) as reader:
        assert list(read_index(reader)) == ["x"]


def test_schemes_are_spelled_for_any_rank(tmp_path: Path) -> None:
    arrays = {
        "two": aq.quantize(np.eye(4), "int8/row"),
        "three": aq.quantize(np.zeros((2, 2, 2)), "int4/row"),
        "nv": aq.quantize(np.eye(4), "nvfp4"),
        "whole": aq.quantize(np.eye(4), "e4m3/tensor"),
    }
    save_file(tmp_path / "q", arrays)
    with SafetensorsReader(tmp_path / "q") as reader:
        spelled = {name: tensor.spelling for name, tensor in read_index(reader).items()}
    assert spelled == {
        "two": "int8/row", "three": "int4/row", "nv": "nvfp4", "whole": "e4m3/tensor"
    }  # fmt: skip
