"""What ``arrayq capabilities`` and ``arrayq doctor`` tell."""

from collections.abc import Callable
from typing import Any

import numpy as np
from click.testing import Result

import arrayq as aq
from arrayq._kernels import kernels

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_capabilities_prints_the_rows_of_the_library(run_json: RunJson) -> None:
    printed = run_json("capabilities", "numpy")
    assert printed["rows"] == [row._asdict() for row in aq.capabilities("numpy")]


def test_capabilities_can_be_narrowed(run_json: RunJson) -> None:
    refused = run_json("capabilities", "numpy", "--operation", "quantize", "--refused")["rows"]
    assert refused
    assert all(row["operation"] == "quantize" and row["reason"] for row in refused)


def test_capabilities_prints_a_table(run: Run) -> None:
    result = run("capabilities", "--operation", "encode")
    assert result.exit_code == 0
    assert "e4m3" in result.stdout
    assert result.stdout.splitlines()[0].split()[:3] == ["operation", "value", "scale"]


def test_capabilities_of_an_unknown_library_is_one_line(run: Run) -> None:
    result = run("capabilities", "fortran")
    assert result.exit_code == 1
    assert result.stderr.startswith("arrayq: error: namespace requires one of numpy, ")


def test_doctor_tells_versions_instruction_set_and_threads(
    run: Run, run_json: RunJson, monkeypatch: Any
) -> None:
    monkeypatch.setenv("ARRAYQ_NUM_THREADS", "2")
    facts = run_json("doctor")
    assert facts["arrayq"] == aq.__version__
    assert facts["numpy"] == np.__version__
    assert facts["instruction set"] == kernels.level
    assert facts["threads by default"] == "2"
    monkeypatch.setenv("ARRAYQ_NUM_THREADS", "many")
    assert "requires an integer" in run_json("doctor")["threads by default"]
    assert run("doctor").exit_code == 0
