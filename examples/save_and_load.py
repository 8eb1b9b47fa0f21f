"""Write a quantized array as bytes and a scheme as JSON, and read both back."""

import json
import tempfile
from pathlib import Path

import numpy as np

import arrayq as aq

weights = np.random.default_rng(0).normal(0, 0.02, (64, 300)).astype(np.float32)
quantized = aq.quantize(weights, "nf4/64")

with tempfile.TemporaryDirectory() as directory:
    data_path = Path(directory) / "weights.bin"
    description_path = Path(directory) / "weights.json"

    data_path.write_bytes(aq.to_bytes(quantized))
    description = {"scheme": quantized.scheme.to_dict(), "shape": quantized.shape}
    description_path.write_text(json.dumps(description))

    loaded = json.loads(description_path.read_text())
    scheme = aq.QuantScheme.from_dict(loaded["scheme"])
    same = aq.from_bytes(data_path.read_bytes(), scheme, tuple(loaded["shape"]))

identical = np.array_equal(aq.dequantize(same), aq.dequantize(quantized))
print(f"{quantized.nbytes} bytes, {scheme}, read back identical: {identical}")
