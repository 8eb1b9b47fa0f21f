"""Another package adds a namespace by an entry point; here boxed, beside this file."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "third_party"

PREPARE = f"""
import sys
sys.path.insert(0, {str(PACKAGE)!r})
import numpy as np
import arrayq as aq
x = np.random.default_rng(5).standard_normal((6, 100)).astype(np.float32)
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PREPARE + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("spelling", ["nvfp4", "int4/32", "int4a/32", "mxfp8", "nf4/64"])
@pytest.mark.parametrize("way", ["nullcontext", "arrayq.testing.generic_path"])
def test_arrays_of_an_added_library_come_out_as_they_went_in(spelling: str, way: str) -> None:
    run(f"""
        import contextlib, importlib, boxed
        module, _, name = "{way if "." in way else "contextlib." + way}".rpartition(".")
        with getattr(importlib.import_module(module), name)():
            q = aq.quantize(boxed.Box(x), {spelling!r})
            y = aq.dequantize(q)
        own = aq.quantize(x, {spelling!r})
        assert type(q.data) is type(q.scale_data) is type(y) is boxed.Box
        assert np.array_equal(q.data.inside, own.data)
        assert np.array_equal(q.scale_data.inside, own.scale_data)
        assert np.array_equal(y.inside.view(np.uint32), own.dequantize().view(np.uint32))
    """)


def test_the_added_row_answers_questions_and_refuses() -> None:
    run("""
        import boxed
        assert aq.supports("boxed", "int4/32")
        verdict = aq.supports(boxed.Box(x), "int2/32")
        assert not verdict and "boxes that hold more than two bits; use int4/32" in verdict.reason
        assert any(row.ok for row in aq.capabilities("boxed"))
        try:
            aq.quantize(boxed.Box(x), "int2/32")
        except aq.UnsupportedSchemeError as error:
            assert str(error) == verdict.reason
        else:
            raise AssertionError("int2 was not refused")
    """)


def test_the_command_line_prints_the_added_row() -> None:
    out = run("""
        from arrayq.cli import main
        sys.argv = ["arrayq", "capabilities", "boxed"]
        try:
            main()
        except SystemExit as done:
            assert not done.code
    """)
    assert "boxes that hold more than two bits" in " ".join(out.split())


def test_a_library_that_is_not_imported_stays_so() -> None:
    run("""
        aq.quantize(x, "nvfp4")
        assert "boxed" not in sys.modules
    """)
