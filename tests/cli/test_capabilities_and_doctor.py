"""What ``arrayq capabilities`` and ``arrayq doctor`` tell."""

import importlib.metadata
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import arrayq as aq
from arrayq import capability_table
from arrayq._kernels import kernels
from arrayq.capability import PROFILES

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_capabilities_prints_the_rows_of_the_library(run_json: RunJson) -> None:
    printed = run_json("capabilities", "numpy")
    assert printed["rows"] == [row._asdict() for row in aq.capabilities("numpy")]


@pytest.mark.parametrize("name", PROFILES)
def test_capabilities_begins_with_the_facts_of_every_row(
    run: Run, run_json: RunJson, name: str
) -> None:
    row = PROFILES[name]
    printed = run_json("capabilities", name, "--operation", "encode")
    assert printed["facts"]["paths"] == (", ".join(row.paths) or "none, all is refused")
    refusals = capability_table.refusals(name)
    assert [each["requires"] for each in printed["refusals"]] == [
        refusal.requires for refusal in refusals
    ]
    assert all(each["ok"] or each["reason"] for each in printed["rows"])
    text = run("capabilities", name, "--operation", "encode").stdout
    for refusal in refusals:
        assert refusal.requires in text


def test_capabilities_can_be_asked_of_another_path(run: Run, run_json: RunJson) -> None:
    usual = run_json("capabilities", "jax", "--operation", "encode")["rows"]
    other = run_json("capabilities", "jax", "--operation", "encode", "--path", "generic")["rows"]
    assert all(row["ok"] for row in usual)
    assert not any(row["ok"] for row in other)
    assert (
        "path on jax requires one of host, generic"
        in run("capabilities", "jax", "--path", "up").stderr
    )


def test_capabilities_can_be_narrowed(run_json: RunJson) -> None:
    refused = run_json("capabilities", "numpy", "--operation", "quantize", "--refused")["rows"]
    assert refused
    assert all(row["operation"] == "quantize" and row["reason"] for row in refused)


def test_capabilities_prints_a_table(run: Run) -> None:
    result = run("capabilities", "--operation", "encode")
    assert result.exit_code == 0
    assert "e4m3" in result.stdout
    headings = [line.split()[:2] for line in result.stdout.splitlines()]
    assert headings.index(["fact", "value"]) < headings.index(["operation", "value"])


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
    assert facts["numpy"] == f"{np.__version__}; path host, else generic"
    assert facts["instruction set"] == kernels.level
    assert facts["threads by default"] == "2"
    monkeypatch.setenv("ARRAYQ_NUM_THREADS", "many")
    assert "requires an integer" in run_json("doctor")["threads by default"]
    assert run("doctor").exit_code == 0


def test_doctor_looks_array_libraries_up_without_importing_them(
    run_json: RunJson, monkeypatch: Any
) -> None:
    versions = {"torch": "9.0", "array-api-strict": "8.0", "cupy-cuda12x": "7.0", "sparse": "6.0"}

    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    before = set(sys.modules)
    facts = run_json("doctor")
    assert set(PROFILES) - {"other"} <= set(facts)
    assert not {"torch", "cupy", "sparse"} & (set(sys.modules) - before)
    assert facts["torch"] == "9.0; path host, else generic"
    assert facts["array_api_strict"] == "8.0; path host, else generic"
    assert facts["cupy"] == "7.0; path generic"
    assert facts["sparse"] == "6.0; refused"
    assert facts["jax"] == "not installed"
