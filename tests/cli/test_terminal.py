"""On a terminal every figure can be read, however narrow the terminal is."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from arrayq.report.table import FIGURES

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no ptys")

WIDTHS = (60, 80, 120, 200)
SCHEMES = ("int8/row", "int4/32", "mxfp6-e3m2", "q4s/128x128:bf16", "nvfp4")


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    rng = np.random.default_rng(9)
    shapes = {"embed_tokens": (3000, 64), "layers.10.self_attn.q_proj": (200, 160)}
    arrays = {
        f"model.{name}.weight": rng.normal(0, 0.02, shape).astype(np.float16)
        for name, shape in shapes.items()
    }
    path = tmp_path / "layers.safetensors"
    safetensors.numpy.save_file(arrays, path)
    return path


@pytest.fixture
def show(command: list[str]) -> Callable[..., str]:
    """Run the program on a terminal of some width and return what it shows, without colours."""

    def run(width: int, *arguments: object) -> str:
        import fcntl
        import pty
        import struct
        import termios

        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
        with subprocess.Popen(
            [*command, *map(str, arguments)],
            stdin=slave, stdout=slave, stderr=subprocess.DEVNULL,
            env=environment | {"TERM": "xterm"},
        ) as process:  # fmt: skip
            os.close(slave)
            shown = b""
            while piece := _read(master):
                shown += piece
        os.close(master)
        assert process.returncode == 0
        return re.sub(r"\x1b\[[0-9;]*m|\r", "", shown.decode())

    return run


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other end is closed
        return b""


def words(text: str) -> set[str]:
    """Return what stands between spaces, the lines of a drawn table and punctuation."""
    return {word.strip(",:") for word in re.split(r"[\s│┃]+", text)}


@pytest.mark.parametrize("width", WIDTHS)
def test_compare_shows_every_figure_whole(
    show: Callable[..., str], run_json: Callable[..., Any], layers: Path, width: int
) -> None:
    arguments = ("compare", layers, "--schemes", ",".join(SCHEMES))
    shown, report = show(width, *arguments), run_json(*arguments)
    assert max(map(len, shown.splitlines())) <= width
    assert set(SCHEMES) <= words(shown)
    groups = [*(tensor["schemes"] for tensor in report["tensors"]), report["total"]]
    for record in (record for group in groups for record in group):
        for figure in FIGURES:
            if record[figure.attribute] or not figure.only_if_any:
                assert figure.write(record[figure.attribute]) in words(shown)
    assert {"bits/element", "bits/"} & words(shown)
    for tensor in report["tensors"]:
        assert tensor["name"] in shown


@pytest.mark.parametrize("width", WIDTHS)
def test_info_shows_every_figure_whole(
    show: Callable[..., str],
    run: Callable[..., Any],
    run_json: Callable[..., Any],
    layers: Path,
    width: int,
) -> None:
    out = layers.parent / "quantized"
    run("quantize", layers, "--scheme", "mxfp6-e3m2", "-o", out, "--include", "*embed*")
    shown, report = show(width, "info", out), run_json("info", out)
    assert max(map(len, shown.splitlines())) <= width
    for tensor in report["tensors"]:
        assert tensor["name"] in shown
        assert {
            "x".join(map(str, tensor["shape"])),
            tensor["dtype"],
            f"{tensor['elements']:,}",
            f"{tensor['bytes']:,}",
            f"{tensor['bits_per_element']:.3f}",
        } <= words(shown)
    assert "mxfp6-e3m2" in words(shown)


def test_a_table_is_drawn_where_there_is_room(show: Callable[..., str], layers: Path) -> None:
    assert "┃" in show(200, "compare", layers, "--schemes", "nvfp4")
    assert "┃" not in show(80, "compare", layers, "--schemes", "nvfp4").split("\n\n")[0]
