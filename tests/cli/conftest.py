"""A small model on disk, and ways to run the program."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from click.testing import CliRunner, Result

from arrayq.cli.app import program


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        "embed.weight": rng.normal(0, 0.02, (40, 96)).astype(np.float16),
        "layer.weight": rng.normal(0, 0.3, (24, 50)).astype(np.float32),
        "conv.weight": rng.normal(0, 1, (4, 3, 5, 5)),
        "layer.bias": rng.normal(0, 1, 24).astype(np.float32),
        "ids": np.arange(6),
    }


@pytest.fixture
def model(tmp_path: Path, arrays: dict[str, np.ndarray]) -> Path:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(arrays, path, metadata={"format": "pt"})
    return path


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run the program inside this process, as it is on a pipe."""

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(program, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def run_json(run: Callable[..., Result]) -> Callable[..., Any]:
    def invoke(*arguments: object) -> Any:
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return invoke


@pytest.fixture
def command() -> list[str]:
    """The program as a process of its own."""
    return [sys.executable, "-m", "arrayq"]


@pytest.fixture
def run_process(command: list[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def invoke(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True, text=True, timeout=60, **options,
        )  # fmt: skip

    return invoke
