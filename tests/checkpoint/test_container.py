"""The container: what other writers write is read, and other readers read what is written."""

import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from arrayq.checkpoint import CheckpointError, SafetensorsReader, writing
from arrayq.checkpoint.dtypes import DTYPES
from arrayq.checkpoint.narrow import narrow_to_bfloat16, widen_bfloat16
from arrayq.errors import CorruptFileError

Write = Callable[..., Path]

NUMPY_DTYPES = ["F64", "F32", "F16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL",
                "C64"]  # fmt: skip


def test_every_numpy_dtype_is_read_as_the_safetensors_library_reads_it(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    arrays = {name: rng.integers(0, 100, (3, 5)).astype(DTYPES[name].raw) for name in NUMPY_DTYPES}
    path = tmp_path / "all.safetensors"
    safetensors.numpy.save_file(arrays, path, metadata={"format": "np"})
    with SafetensorsReader(path) as reader:
        assert reader.metadata == {"format": "np"}
        for name, expected in safetensors.numpy.load_file(path).items():
            array = reader.raw(name)
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)


def test_arrays_are_read_only_and_outlive_the_reader(write_arrays: Write) -> None:
    path = write_arrays({"a": np.arange(6, dtype=np.float32)})
    with SafetensorsReader(path) as reader:
        array = reader.raw("a")
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, np.arange(6))


@pytest.mark.parametrize("padding", range(8))
def test_tensors_at_any_offset_are_aligned_when_read(write_arrays: Write, padding: int) -> None:
    arrays = {"flag": np.ones(3, bool), "weights": np.arange(5, dtype=np.float64)}
    with SafetensorsReader(write_arrays(arrays, padding=padding)) as reader:
        weights = reader.raw("weights")
        assert weights.flags.aligned
        assert not weights.flags.writeable
        np.testing.assert_array_equal(weights, arrays["weights"])


def test_empty_tensors_and_single_numbers_are_read(write_arrays: Write) -> None:
    arrays = {"none": np.empty((0, 7), np.float32), "one": np.asarray(2.5, np.float16)}
    with SafetensorsReader(write_arrays(arrays)) as reader:
        assert reader.raw("none").shape == (0, 7)
        assert reader.raw("one").shape == ()
        assert reader.raw("one") == 2.5


def test_case_23_narrow_types_come_as_ml_dtypes_where_it_is_installed(write_raw: Write) -> None:
    path = write_raw({"b": ("BF16", (2,), b"\x80\x3f\x00\x40"), "e": ("F8_E4M3", (1,), b"\x38")})
    with SafetensorsReader(path) as reader:
        assert reader.read("b").dtype == ml_dtypes.bfloat16
        assert reader.read("b").astype(np.float32).tolist() == [1.0, 2.0]
        assert reader.read("e").dtype == ml_dtypes.float8_e4m3fn


def test_case_23_narrow_types_come_as_bits_without_ml_dtypes(
    write_raw: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    path = write_raw({"b": ("BF16", (2,), b"\x80\x3f\x00\x40"), "e": ("F8_E4M3", (1,), b"\x38")})
    with SafetensorsReader(path) as reader:
        assert reader.read("b").dtype == np.uint16
        assert reader.read("e").dtype == np.uint8
        assert reader.floats("b").tolist() == [1.0, 2.0]
        assert reader.floats("e").tolist() == [1.0]


@pytest.mark.parametrize(
    ("dtype", "extension"),
    [
        ("BF16", ml_dtypes.bfloat16),
        ("F8_E4M3", ml_dtypes.float8_e4m3fn),
        ("F8_E5M2", ml_dtypes.float8_e5m2),
        ("F8_E8M0", ml_dtypes.float8_e8m0fnu),
    ],
)
def test_floats_of_narrow_types_are_exact(write_raw: Write, dtype: str, extension: type) -> None:
    bits = np.arange(2 ** DTYPES[dtype].bits, dtype=DTYPES[dtype].raw)
    path = write_raw({"a": (dtype, bits.shape, bits.tobytes())})
    with SafetensorsReader(path) as reader:
        values = reader.floats("a")
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, bits.view(extension).astype(np.float32))


def test_floats_of_f4_take_element_0_from_the_low_bits(write_raw: Write) -> None:
    path = write_raw({"a": ("F4", (2, 2), b"\x21\xf7")})
    with SafetensorsReader(path) as reader:
        assert reader.floats("a").tolist() == [[0.5, 1.0], [6.0, -6.0]]


def test_floats_of_types_without_a_known_format_are_refused(write_raw: Write) -> None:
    path = write_raw({"a": ("F6_E2M3", (4,), b"123")})
    with (
        SafetensorsReader(path) as reader,
        pytest.raises(CheckpointError, match=r"'a' of .* holds F6_E2M3"),
    ):
        reader.floats("a")


def test_bfloat16_rounds_to_nearest_even_like_ml_dtypes(rng: np.random.Generator) -> None:
    bits = np.concatenate([
        rng.integers(0, 2**32, 20_000, dtype=np.uint32),
        np.uint32(0x3F80_0000) + np.arange(0, 0x4_0000, 0x4000, dtype=np.uint32),
        np.array([0x7F80_0000, 0xFF80_0000, 0x7F7F_FFFF, 0x7F80_0001, 1, 0], np.uint32),
    ])  # fmt: skip
    values = bits.view(np.float32)
    narrow = narrow_to_bfloat16(values)
    with np.errstate(invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(narrow[number], expected.view(np.uint16)[number])
    assert np.isnan(widen_bfloat16(narrow)[~number]).all()


def test_what_is_written_is_what_the_safetensors_library_reads(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    arrays = {
        "flags": rng.integers(0, 2, 5).astype(bool),
        "bytes": rng.integers(0, 256, (3, 3)).astype(np.uint8),
        "wide": rng.normal(size=(2, 5)),
        "big endian": np.arange(4, dtype=">f4"),
        "strided": rng.normal(size=(6, 6)).astype(np.float32)[::2, ::-1],
        "none": np.empty((0, 3), np.float32),
        "number": np.asarray(1.5, np.float16),
        "näme 🙂": np.arange(3, dtype=np.int32),
    }
    rows = {str(np.dtype(row.raw)): row for row in DTYPES.values() if row.raw and not row.extension}
    planned = [
        (name, rows[str(array.dtype.newbyteorder("="))], array.shape)
        for name, array in arrays.items()
    ]
    path = tmp_path / "written.safetensors"
    with writing(path, planned, {"note": "héllo"}) as writer:
        for name in reversed(arrays):
            writer.write(name, arrays[name])
    assert writer.nbytes == path.stat().st_size
    read = safetensors.numpy.load_file(path)
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
    with safetensors.safe_open(path, "np") as opened:
        assert opened.metadata() == {"note": "héllo"}
    with SafetensorsReader(path) as reader:
        starts = [reader._data_start + entry.begin for entry in reader.entries.values()]
        widths = [entry.dtype.bits // 8 for entry in reader.entries.values()]
    assert not any(start % width for start, width in zip(starts, widths, strict=True))


def test_the_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        with writing(tmp_path / "a", [("x", DTYPES["F32"], (3,))], {"k": "v"}) as writer:
            writer.write("x", np.arange(3, dtype=np.float32))
        contents.append((tmp_path / "a").read_bytes())
    assert contents[0] == contents[1]


def test_a_tensor_that_is_missing_too_short_or_written_twice_is_a_mistake(tmp_path: Path) -> None:
    planned = [("x", DTYPES["F32"], (3,))]
    with pytest.raises(ValueError, match="never written: x"), writing(tmp_path / "a", planned, {}):
        pass
    with (
        pytest.raises(ValueError, match="requires 12 bytes, got 8"),
        writing(tmp_path / "a", planned, {}) as writer,
    ):
        writer.write("x", np.zeros(2, np.float32))
    with writing(tmp_path / "a", planned, {}) as writer:
        writer.write("x", np.zeros(3, np.float32))
        with pytest.raises(ValueError, match="written already"):
            writer.write("x", np.zeros(3, np.float32))
    (tmp_path / "a").unlink()
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_readers_would_refuse_is_not_written(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match="readers refuse more than 100000000"),
        writing(tmp_path / "a", [("x", DTYPES["F32"], ())], {"k": "v" * 100_000_000}),
    ):
        pass


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="requires a regular file"):
        SafetensorsReader(tmp_path)
    with pytest.raises(FileNotFoundError):
        SafetensorsReader(tmp_path / "absent")


def test_a_file_that_shrinks_while_it_is_copied_is_corrupt(write_arrays: Write) -> None:
    path = write_arrays({"a": np.zeros(100, np.float32)})
    with SafetensorsReader(path) as reader:
        path.write_bytes(path.read_bytes()[:-50])
        with pytest.raises(CorruptFileError, match="became shorter"):
            b"".join(reader.chunks("a"))


def test_copied_chunks_are_the_bytes_of_the_tensor(
    write_arrays: Write, rng: np.random.Generator
) -> None:
    arrays = {"a": rng.normal(size=7).astype(np.float32), "b": rng.normal(size=1_200_000)}
    with SafetensorsReader(write_arrays(arrays)) as reader:
        for name, array in arrays.items():
            assert b"".join(reader.chunks(name)) == array.tobytes()
