"""Importing arrayq is quick, pulls in nothing that the caller has not asked for, and is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import arrayq

OTHER_LIBRARIES = ("torch", "jax", "cupy", "dask", "mlx", "ml_dtypes", "array_api_strict", "sparse")
COMMAND_LINE = ("click", "rich", "safetensors")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_imports_no_other_array_library_and_no_command_line() -> None:
    names = (*OTHER_LIBRARIES, *COMMAND_LINE)
    loaded = run(f"import sys, arrayq; print([n for n in {names!r} if n in sys.modules])")
    assert loaded == "[]"


def test_using_arrayq_imports_no_other_array_library() -> None:
    loaded = run(
        "import sys, numpy, arrayq as aq\n"
        "q = aq.quantize(numpy.ones((4, 32), 'f4'), 'nvfp4')\n"
        "aq.dequantize(q); aq.compare(numpy.ones((4, 32), 'f4'), ['int8/row'])\n"
        f"print([n for n in {OTHER_LIBRARIES!r} if n in sys.modules])"
    )
    assert loaded == "[]"


def test_the_installed_package_is_typed_and_complete() -> None:
    installed = Path(arrayq.__file__).parent
    assert (installed / "py.typed").exists()
    source = Path(__file__).parents[1] / "arrayq"
    modules = {path.relative_to(source) for path in source.rglob("*.py")}
    assert modules <= {path.relative_to(installed) for path in installed.rglob("*.py")}


def test_every_public_name_exists() -> None:
    assert [name for name in arrayq.__all__ if not hasattr(arrayq, name)] == []
    assert sorted(arrayq.__all__) == arrayq.__all__
