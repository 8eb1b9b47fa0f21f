"""The folder of golden vectors is found from wherever the tests are started."""

import runpy
from pathlib import Path

import pytest

LOADER = Path(__file__).with_name("golden_cases.py")


def test_a_relative_folder_is_the_one_that_was_named_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARRAYQ_GOLDEN", "vectors")
    folder = runpy.run_path(str(LOADER))["FOLDER"]
    monkeypatch.chdir(tmp_path.parent)
    assert folder.resolve() == tmp_path / "vectors"


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_folder_the_vectors_are_our_own(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("ARRAYQ_GOLDEN", raising=False)
    if value is not None:
        monkeypatch.setenv("ARRAYQ_GOLDEN", value)
    assert runpy.run_path(str(LOADER))["FOLDER"] == LOADER.resolve().with_name("golden")
