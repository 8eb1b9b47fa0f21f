"""What all tests share: the path of the oracle, and how many examples hypothesis draws.

The default profile is quick and draws the same examples every time; ``--hypothesis-profile
thorough`` draws many and new ones.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

# Tests are imported by their path, which leaves this folder off the module search path.
sys.path.insert(0, str(Path(__file__).parent))

UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "quick", max_examples=60, deadline=None, derandomize=True, suppress_health_check=UNHURRIED
)
settings.register_profile(
    "thorough", max_examples=3000, deadline=None, suppress_health_check=UNHURRIED
)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the device on which libraries that have devices are tested as well."""
    parser.addoption("--device", help="test torch and CuPy on this device too, such as cuda")


@pytest.fixture(autouse=True, scope="session")
def _away_from_the_source_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run from an empty folder: a Python started in the source tree would import that tree,
    which is not compiled, instead of the installed package."""
    with contextlib.chdir(tmp_path_factory.mktemp("elsewhere")):
        yield


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


@pytest.fixture
def heeded_signals() -> Iterator[None]:
    """Let child processes heed every signal, though pytest itself may have to ignore some.

    A shell starts background jobs, and nohup its command, with signals ignored, which child
    processes inherit. One that is handled is theirs by default, even if its handler does nothing.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, _nothing)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
