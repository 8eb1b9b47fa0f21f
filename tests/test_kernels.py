"""The compiled kernels: the same bits on every instruction set, loaded and refused properly."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import arrayq as aq
from arrayq import codes as codes_module
from arrayq import pipeline
from arrayq._kernels import available_levels, chosen_level, kernels, load
from arrayq._paths import host, prepared
from arrayq.formats import FORMATS

SPELLINGS = [
    *(f"{value}/{block}" for value in aq.QuantValue if value.kind.value != "field"
      for block in ("16", "32", "7", "row", "tensor")),
    "nf4/64", "nf4/16", "nf4/5", "mxfp4", "mxfp8", "mxfp8-e5m2", "mxfp6-e3m2", "mxfp6-e2m3",
    "nvfp4", "ternary", "q4s/32:ue4m3", "q4s/32:bf16", "q8s/32:ue8m0", "q8s/1:f16",
]  # fmt: skip


def awkward_values(n: int) -> np.ndarray:
    """Random numbers of many magnitudes with ties, signed zeros, subnormals and zero blocks."""
    rng = np.random.default_rng(11)
    x = (rng.standard_normal(n) * 2.0 ** rng.integers(-30, 30, n)).astype(np.float32)
    x[::17] = np.round(x[::17]) + np.float32(0.5)
    x[5::29] = -0.0
    x[7::31] = np.float32(1e-42)
    x[256:320] = 0
    return x


PREPARED = host.quantization, host.dequantization, pipeline._quantization, pipeline._decoder


@pytest.fixture(autouse=True)
def _forget_the_kernels_that_tests_chose() -> Iterator[None]:
    yield
    for prepare in PREPARED:
        prepare.cache_clear()


def use(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for prepare in PREPARED:
        prepare.cache_clear()
    monkeypatch.setattr(prepared, "kernels", load(level))
    monkeypatch.setattr(codes_module, "kernels", load(level))


@pytest.mark.parametrize("level", available_levels())
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_level_gives_the_bits_of_the_lowest(
    spelling: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = awkward_values(3 * 1003).reshape(3, 1003)
    results = []
    for each in (available_levels()[0], level):
        use(each, monkeypatch)
        q = aq.quantize(x, spelling)
        results.append((aq.to_bytes(q), aq.dequantize(q).tobytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("level", available_levels())
@pytest.mark.parametrize("name", [name for name, row in FORMATS.items() if row.bits <= 8])
def test_every_level_encodes_and_decodes_elements_alike(
    name: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.abs(awkward_values(4099)) if not FORMATS[name].signed else awkward_values(4099)
    results = []
    for each in (available_levels()[0], level):
        use(each, monkeypatch)
        codes = aq.encode(x, name)
        results.append((codes.tobytes(), aq.decode(codes, name).tobytes()))
    assert results[0] == results[1]


def test_the_highest_level_is_chosen_unless_another_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ARRAYQ_ISA", raising=False)
    assert chosen_level() == available_levels()[-1]
    for level in available_levels():
        monkeypatch.setenv("ARRAYQ_ISA", level)
        assert chosen_level() == level
    monkeypatch.setenv("ARRAYQ_ISA", "v9")
    with pytest.raises(aq.ArgumentError, match="ARRAYQ_ISA requires one of"):
        chosen_level()


def test_the_environment_chooses_the_level_at_the_first_use() -> None:
    lowest = available_levels()[0]
    printed = subprocess.run(
        [sys.executable, "-c", "from arrayq._kernels import kernels; print(kernels.level)"],
        env={**os.environ, "ARRAYQ_ISA": lowest},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == lowest


def test_kernels_release_the_gil() -> None:
    x = np.ones((2048, 4096), np.float32)
    ticks, stop = [], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            time.sleep(0.0005)
            ticks.append(None)

    thread = threading.Thread(target=tick)
    thread.start()
    interval = sys.getswitchinterval()
    try:
        # A thread that waits for the GIL gets it now only where the call lets it go.
        sys.setswitchinterval(1000)
        before = len(ticks)
        aq.quantize(x, "nvfp4")
        during = len(ticks) - before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert during > 0


@pytest.mark.parametrize(
    ("part", "message"),
    [(0, "fields"), (1, "bounds"), (2, "edges"), (3, "places"), (4, "values")],
)
def test_kernels_refuse_tables_that_are_too_short(part: int, message: str) -> None:
    from arrayq._kernels.codecs import codec_of_format

    arguments = list(codec_of_format(FORMATS["e4m3"], native=True).arguments)
    arguments[part] = arguments[part][:-1]
    with pytest.raises(ValueError, match=message):
        kernels.elements.encode(np.ones(3, np.float32), *arguments, np.empty(3, np.uint8))


def test_an_uncompiled_source_tree_says_what_to_do(tmp_path: Path) -> None:
    package = tmp_path / "arrayq"
    installed = Path(aq.__file__).parent
    for source in installed.rglob("*.py"):
        target = package / source.relative_to(installed)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    failed = subprocess.run(
        [sys.executable, "-c", "import arrayq"], cwd=tmp_path, capture_output=True, text=True
    )
    assert failed.returncode != 0
    assert "requires its compiled kernels" in failed.stderr
    assert "pip install ." in failed.stderr
