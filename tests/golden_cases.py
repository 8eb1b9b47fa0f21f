"""Loader of the golden vectors, shared by the test_golden modules.

The vectors were made by running published implementations (tests/golden/README.md). The
folder is tests/golden, or the one that the environment variable ARRAYQ_GOLDEN names: any folder
with the same structure works, whatever its cases are called.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

# Resolved here, because conftest.py changes the directory before the first test.
FOLDER = Path(os.environ.get("ARRAYQ_GOLDEN") or Path(__file__).parent / "golden").resolve()


@cache
def manifest() -> dict[str, Any]:
    """Return the manifest: what every case is and where its arrays stand."""
    with (FOLDER / "manifest.json").open(encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded


@cache
def archive(name: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of one .npz file."""
    with np.load(FOLDER / name) as loaded:
        return {key: loaded[key] for key in loaded.files}


@dataclass(frozen=True)
class Case:
    """One case: a function of a peer, its parameters, its input and what came out."""

    row: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def peer(self) -> str:
        return str(manifest()["peer_table"][self.row["peer"]])

    @property
    def function(self) -> str:
        return str(manifest()["function_table"][self.row["fn"]])

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.row["params"])

    @property
    def exact(self) -> str:
        """What the producer says of exactness; empty when every array is expected bit for bit."""
        return "" if self.row["exact"] is True else str(self.row["exact"])

    @property
    def roles(self) -> set[str]:
        return set(self.row["arrays"])

    def array(self, role: str) -> npt.NDArray[Any]:
        return archive(self.row["file"])[f"{self.id}::{role}"]

    def input(self) -> npt.NDArray[Any]:
        """Return the input, its 16-bit floats as the floats they are."""
        name = self.row["input"]
        array = archive("inputs.npz")[name]
        logical = manifest()["inputs"][name]["dtype"]
        if logical == "float16":
            return array.view(np.float16)
        if logical == "bfloat16":
            ml_dtypes = pytest.importorskip("ml_dtypes")
            return array.view(ml_dtypes.bfloat16)
        return array


def cases_of(file: str, which: Callable[[Case], bool] = lambda case: True) -> list[Any]:
    """Return a pytest parameter for every case of a file, in the manifest's order."""
    cases = (Case(row) for row in manifest()["cases"] if row["file"] == file)
    return [pytest.param(case, id=case.id) for case in cases if which(case)]


def assert_same_floats(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    """Compare as the golden README asks: NaN equals NaN, -0 equals +0, all else exactly."""
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
