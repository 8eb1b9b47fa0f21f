"""A damaged file is refused by name, with what is wrong, before a tensor is touched."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrayq.checkpoint import SafetensorsReader
from arrayq.checkpoint.header import MAX_HEADER_BYTES
from arrayq.errors import CorruptFileError

ONE = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


def build(document: object, data: bytes = b"1234") -> bytes:
    header = document if isinstance(document, bytes) else json.dumps(document).encode()
    return len(header).to_bytes(8, "little") + header + data


def one_with(**changes: object) -> bytes:
    return build({"a": ONE | changes})


FAULTS = {
    "empty file": (b"", "truncated: 0 bytes"),
    "part of the length": (b"\x01\x00\x00", "truncated: 3 bytes"),
    "length beyond the file": (b"\xff" * 8 + b"{}", "claims 18446744073709551615 bytes"),
    "header cut": (build({"a": ONE})[:30], "it is truncated"),
    "data cut": (build({"a": ONE}, b"123"), "truncated: tensor 'a' ends at byte 4 .* holds 3"),
    "not UTF-8": (build(b'{"\xff": 1}'), "not UTF-8"),
    "not JSON": (build(b"{'a': 1}"), "not JSON"),
    "empty header": (build(b"", b""), "not JSON"),
    "a list": (build([], b""), "must be a JSON object, got list"),
    "nested without end": (build(b"[" * 200_000), "not JSON"),
    "a number of a million digits": (build(b'{"a": ' + b"9" * 1_000_000 + b"}"), "not JSON"),
    "NaN": (build(b'{"a": NaN}'), "not JSON"),
    "a name twice": (
        build(b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
              b'"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
        "names 'a' twice",
    ),
    "a field twice": (
        build(b'{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
        "names 'dtype' twice",
    ),
    "a name that is no text": (build(b'{"\\ud800": 1}'), "is not Unicode"),
    "metadata of numbers": (build({"__metadata__": {"a": 1}}, b""), "must map text to text"),
    "metadata that is no text": (
        build(b'{"__metadata__":{"a":"\\ud800"}}', b""), "must map text to text"
    ),
    "metadata a list": (build({"__metadata__": []}, b""), "must map text to text"),
    "entry a number": (build({"a": 1}), "tensor 'a' must have dtype, shape and data_offsets"),
    "no shape": (build({"a": {"dtype": "U8", "data_offsets": [0, 4]}}), "must have dtype, shape"),
    "dtype unknown": (one_with(dtype="F99"), "unknown dtype 'F99'; known: BOOL, F4"),
    "dtype a list": (one_with(dtype=["U8"]), "unknown dtype"),
    "shape a number": (one_with(shape=4), "shape of non-negative integers, got 4"),
    "shape of floats": (one_with(shape=[4.0]), "shape of non-negative integers"),
    "shape of booleans": (one_with(shape=[True]), "shape of non-negative integers"),
    "negative extent": (one_with(shape=[-4]), "shape of non-negative integers"),
    "too many axes": (one_with(shape=[1] * 65), "has 65 axes; at most 64"),
    "too many elements": (one_with(shape=[2**40, 2**40]), "too large for any machine"),
    "too many elements times zero": (
        build({"a": {"dtype": "U8", "shape": [0, 2**63], "data_offsets": [0, 0]}}, b""),
        "too large for any machine",
    ),
    "too many bytes times zero": (
        build({"a": {"dtype": "F64", "shape": [2**61, 0], "data_offsets": [0, 0]}}, b""),
        "too large for any machine",
    ),
    "one offset": (one_with(data_offsets=[0]), "must have data_offsets"),
    "offsets swapped": (one_with(data_offsets=[4, 0]), "0 <= begin <= end, got \\[4, 0\\]"),
    "negative offset": (one_with(data_offsets=[-4, 0]), "0 <= begin <= end"),
    "offsets of text": (one_with(data_offsets=["0", "4"]), "0 <= begin <= end"),
    "shape times dtype": (one_with(dtype="F32"), "takes 16 bytes, but its data_offsets .* span 4"),
    "bits left over": (one_with(dtype="F4", shape=[3]), "does not fill whole bytes"),
    "overlap": (
        build({"a": ONE, "b": ONE | {"data_offsets": [2, 6]}}, b"123456"),
        "tensor 'b' at 2:6 overlaps tensor 'a'",
    ),
    "same bytes": (build({"a": ONE, "b": ONE}), "tensor 'b' at 0:4 overlaps tensor 'a'"),
    "gap": (
        build({"a": ONE, "b": ONE | {"data_offsets": [6, 10]}}, b"1234567890"),
        "bytes 4:6 in front of tensor 'b' belong to no tensor",
    ),
    "gap at the start": (one_with(data_offsets=[1, 5]), "truncated"),
    "bytes left over": (build({"a": ONE}, b"12345"), "1 bytes after the last tensor"),
    "bytes and no tensor": (build({}, b"1"), "1 bytes after the last tensor"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_damaged_file_is_refused_with_its_name_and_fault(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=f"damaged.safetensors .*{fault}"):
        SafetensorsReader(path)


def test_a_huge_header_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.safetensors"
    with path.open("wb") as file:
        file.write((MAX_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(2 * MAX_HEADER_BYTES)  # a hole: takes no disk
    with pytest.raises(CorruptFileError, match="header is too large: 100000001 bytes"):
        SafetensorsReader(path)


@pytest.mark.parametrize("document", [b"{}", b'{"__metadata__":null}', b"  {}  "])
def test_a_file_without_tensors_is_valid(tmp_path: Path, document: bytes) -> None:
    path = tmp_path / "empty.safetensors"
    path.write_bytes(build(document, b""))
    with SafetensorsReader(path) as reader:
        assert reader.entries == {}
        assert reader.metadata == {}


VALID = build({"__metadata__": {"k": "v"}, "a": ONE, "b": ONE | {"data_offsets": [4, 8]}},
              b"12345678")  # fmt: skip


@pytest.mark.parametrize("length", range(len(VALID)))
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes(VALID[:length])
    with pytest.raises(CorruptFileError, match=r"cut\.safetensors"):
        SafetensorsReader(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_changed_bytes_are_read_or_refused_and_never_crash(
    tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(VALID)
    for position, byte in changes:
        content[position] = byte
    path = tmp_path / "changed.safetensors"
    path.write_bytes(content)
    try:
        with SafetensorsReader(path) as reader:
            for name in reader.entries:
                reader.raw(name).sum()
    except CorruptFileError:
        pass
