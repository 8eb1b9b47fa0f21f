"""Affine tensors in files: zero points stand beside the scales."""

from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import arrayq as aq
from arrayq.checkpoint import load_file, save_file

X = np.random.default_rng(9).standard_normal((5, 100)).astype(np.float32) + np.float32(0.5)
SCHEMES = [
    aq.scheme("int4a/32"),
    aq.scheme("int8a/row"),
    aq.scheme("u3a/16:f32"),
    aq.scheme("int4a/32").with_zero("bias", "f16"),
    aq.scheme("int4a/32").with_zero("bias", "bf16"),
    aq.scheme("int4a/32").with_zero("code", "i32").with_numerics(zero_in_range=False),
]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_affine_tensors_come_back(scheme: aq.QuantScheme, tmp_path: Path) -> None:
    q = aq.quantize(X, scheme)
    save_file(tmp_path / "a.safetensors", {"w": q})
    again = load_file(tmp_path / "a.safetensors")["w"]
    assert aq.to_bytes(again) == aq.to_bytes(q)
    np.testing.assert_array_equal(again.dequantize(), q.dequantize())
    with safe_open(tmp_path / "a.safetensors", "numpy") as file:
        stored = file.get_tensor("w.arrayq.zero_point")
    np.testing.assert_array_equal(stored, q.zero_point)
