"""Ways through libraries as parameters of tests; `libraries.py` has the table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

# Tests are imported by their path, which leaves this folder off the module search path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def opened(way: Any, request: pytest.FixtureRequest) -> Any:
    """The library of the way of a test, imported; the test is skipped where it is missing."""
    return way.open(request.config.getoption("--device"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how much was compared."""
    from tallies import TALLIES

    if not TALLIES or terminalreporter.verbosity < 1:
        return
    terminalreporter.section("elements compared with NumPy's")
    for name, tally in TALLIES.items():
        line = f"{name}: {tally.schemes} schemes, {tally.compared} elements"
        if tally.apart:
            line += f", {tally.apart} of them apart for subnormals ({tally.different} different)"
        terminalreporter.line(line)
