"""No library is imported that the caller has not imported."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from libraries import WAYS

from arrayq.capability import PROFILES

PROGRAM = """
import importlib, sys
import numpy as np
x = np.random.default_rng(5).standard_normal((6, 100)).astype(np.float32)
names = {names!r}
if {module!r} != "numpy":
    module = importlib.import_module({module!r})
    x = {make}
before = {{name for name in names if name in sys.modules}}
import arrayq as aq
q = aq.quantize(x, "nvfp4")
aq.dequantize(q), aq.calibrate(x, "int4a/32"), aq.fake_quantize(x, "int8/row"), repr(q), q[:2]
new = {{name for name in names if name in sys.modules}} - before - {{"numpy"}}
assert not new, new
"""

MODULES = {"dask": "dask.array", "mlx": "mlx.core"}
MAKE = {
    "torch": "module.from_numpy(x)",
    "jax": "module.numpy.asarray(x)",
    "dask": "module.from_array(x, chunks=(4, 32))",
    "mlx": "module.array(x)",
}
NAMES = [*PROFILES, "ml_dtypes", "pandas", "scipy", "onnx", "torchao"]
# moves are not for all libraries of which arrays are quantized
CALLED = sorted({way.row.name for way in WAYS.values()} - {"cupy", "other"})


@pytest.mark.parametrize("name", CALLED)
def test_quantizing_imports_no_other_library(name: str) -> None:
    module = MODULES.get(name, name)
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    program = PROGRAM.format(names=NAMES, module=module, make=MAKE.get(name, "module.asarray(x)"))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
