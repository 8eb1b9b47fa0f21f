"""Files made by hand, so that a reader is never tested against its own writer alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILE_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def safetensors_bytes(
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]],
    metadata: dict[str, str] | None = None,
    padding: int = 0,
) -> bytes:
    document: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    begin = 0
    for name, (dtype, shape, content) in tensors.items():
        end = begin + len(content)
        document[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    header = json.dumps(document).encode() + b" " * padding
    data = b"".join(content for _, _, content in tensors.values())
    return len(header).to_bytes(8, "little") + header + data


@pytest.fixture
def write_arrays(tmp_path: Path) -> Callable[..., Path]:
    def write(
        arrays: dict[str, np.ndarray], name: str = "model.safetensors", **options: Any
    ) -> Path:
        tensors = {
            key: (FILE_DTYPES[array.dtype.name], array.shape, array.tobytes())
            for key, array in arrays.items()
        }
        path = tmp_path / name
        path.write_bytes(safetensors_bytes(tensors, **options))
        return path

    return write


@pytest.fixture
def write_raw(tmp_path: Path) -> Callable[..., Path]:
    def write(
        tensors: dict[str, tuple[str, tuple[int, ...], bytes]],
        name: str = "raw.safetensors",
        **options: Any,
    ) -> Path:
        path = tmp_path / name
        path.write_bytes(safetensors_bytes(tensors, **options))
        return path

    return write


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260)
