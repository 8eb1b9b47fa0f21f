"""Errors are one line and an exit code; a signal leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from click.testing import Result

from arrayq.checkpoint.dtypes import DTYPES
from arrayq.checkpoint.header import encode_header

Run = Callable[..., Result]
RunProcess = Callable[..., subprocess.CompletedProcess[str]]

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has neither these signals nor ptys")


def quantize(source: Path, out: Path) -> tuple[object, ...]:
    return ("quantize", source, "--scheme", "nvfp4", "-o", out)


def assert_one_line(result: Result, fault: str) -> None:
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("arrayq: error: ")
    assert result.stderr.count("\n") == 1
    assert fault in result.stderr


def test_a_file_that_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("info", tmp_path / "absent")
    assert_one_line(result, f"{tmp_path / 'absent'}: No such file or directory")


def test_a_directory_as_a_file(run: Run, tmp_path: Path) -> None:
    assert_one_line(run("info", tmp_path), "requires a regular file")


def test_a_directory_that_is_not_there(run: Run, model: Path, tmp_path: Path) -> None:
    result = run(*quantize(model, tmp_path / "absent" / "out"))
    assert_one_line(result, f"{tmp_path / 'absent'}: the output's directory does not exist")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_is_not_ours(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    result = run(*quantize(model, tmp_path / "locked" / "out"))
    assert_one_line(result, f"{tmp_path / 'locked' / 'out'}: Permission denied")


def test_a_damaged_file(run: Run, model: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(model.read_bytes()[:-1])
    for arguments in (
        ("info", damaged),
        quantize(damaged, tmp_path / "out"),
        ("compare", damaged, "--schemes", "nvfp4"),
        ("dequantize", damaged, "-o", tmp_path / "out"),
    ):
        assert_one_line(run(*arguments), "is truncated")
    assert not (tmp_path / "out").exists()


def test_a_tensor_that_is_not_finite(run: Run, tmp_path: Path) -> None:
    x = np.ones((2, 2, 2), np.float32)
    x[1, 0, 1] = np.nan
    safetensors.numpy.save_file({"w": x}, tmp_path / "m")
    result = run(*quantize(tmp_path / "m", tmp_path / "out"))
    assert_one_line(result, "tensor 'w' of shape [2, 2, 2] requires finite values, got 1 NaN")
    assert_one_line(run("compare", tmp_path / "m", "--schemes", "nvfp4"), "tensor 'w'")
    assert list(tmp_path.iterdir()) == [tmp_path / "m"]


def test_the_output_that_is_the_input(run: Run, model: Path) -> None:
    before = model.read_bytes()
    assert_one_line(run(*quantize(model, model)), "is the input itself")
    assert model.read_bytes() == before


@pytest.mark.parametrize("name", ["", "new/"])
def test_an_output_without_a_name(run: Run, model: Path, tmp_path: Path, name: str) -> None:
    out = f"{tmp_path}/{name}" if name else name
    result = run("quantize", model, "--scheme", "nvfp4", "-o", out)
    assert_one_line(result, f"the output requires the name of a file, got '{out}'")
    assert list(tmp_path.iterdir()) == [model]


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("ARRAYQ_NUM_THREADS", "abc", "quantize"),
        ("ARRAYQ_NUM_THREADS", "abc", "compare"),
        ("ARRAYQ_ISA", "v9", "quantize"),
        ("ARRAYQ_ISA", "v9", "info"),
    ],
)
def test_an_environment_that_cannot_be_obeyed(
    run_process: RunProcess, model: Path, tmp_path: Path, variable: str, value: str, name: str
) -> None:
    arguments = {
        "quantize": quantize(model, tmp_path / "out"),
        "compare": ("compare", model, "--schemes", "nvfp4"),
        "info": ("info", model),
    }[name]
    done = run_process(*arguments, env=os.environ | {variable: value})
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"arrayq: error: {variable} requires")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [model]


def test_a_package_that_is_not_installed(run: Run) -> None:
    assert_one_line(run("info", "pkg:absent_package/file"), "no package 'absent_package'")


def test_a_name_with_a_line_break_stays_on_one_line(run: Run, tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a\nb\x1b[2J": np.full((2, 2), np.inf)}, tmp_path / "m")
    result = run(*quantize(tmp_path / "m", tmp_path / "out"))
    assert_one_line(result, "a\\nb\\x1b[2J")
    assert "\x1b" not in run("info", tmp_path / "m").stdout


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["quantize", "FILE", "-o", "OUT"], "--scheme"),
        (["quantize", "FILE", "--scheme", "nvfp4"], "-o"),
        (["quantize", "FILE", "-o", "OUT", "--scheme", "int3/32"], "int3/32"),
        (["quantize", "FILE", "-o", "OUT", "--scheme", "nvfp4", "--threads", "0"], "--threads"),
        (["compare", "FILE", "--schemes", "nvfp4,,"], "--schemes"),
        (["compare", "FILE"], "--schemes"),
        (["dequantize", "FILE", "-o", "OUT", "--dtype", "f8"], "--dtype"),
        (["capabilities", "numpy", "--operation", "bogus"], "dequantize"),
        (["info"], "FILE"),
        (["unknown"], "unknown"),
    ],
)
def test_a_misspelled_command_is_a_usage_error(run: Run, arguments: list[str], fault: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert fault in result.stderr
    assert "Traceback" not in result.output


def test_the_program_runs_as_a_module_and_as_a_script(run_process: RunProcess) -> None:
    assert run_process("--version").stdout.startswith("arrayq ")
    script = Path(sys.executable).with_name("arrayq")
    if script.exists():
        assert subprocess.run([script, "--version"], capture_output=True).returncode == 0


def test_nothing_but_the_table_is_printed_on_a_pipe(
    run_process: RunProcess, model: Path, tmp_path: Path
) -> None:
    done = run_process(*quantize(model, tmp_path / "out"))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert done.stdout.startswith("quantized")


@posix
def test_a_progress_bar_is_drawn_on_a_terminal(
    command: list[str], model: Path, tmp_path: Path
) -> None:
    import pty

    master, slave = pty.openpty()
    with subprocess.Popen(
        [*command, *map(str, quantize(model, tmp_path / "out"))],
        stdout=slave, stderr=slave, env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    ) as process:  # fmt: skip
        os.close(slave)
        shown = b""
        while True:
            try:
                shown += (piece := os.read(master, 4096))
            except OSError:  # how Linux says that the other end is closed
                break
            if not piece:
                break
    os.close(master)
    assert process.returncode == 0
    assert b"quantizing" in shown
    assert b"100%" in shown
    assert b"tensors quantized" in shown


def test_a_reader_that_leaves_ends_the_program_quietly(command: list[str], model: Path) -> None:
    schemes = ",".join(f"int8/{size}" for size in range(1, 400))
    with subprocess.Popen(
        [*command, "compare", model, "--schemes", schemes, "--include", "layer.weight"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_missing_libraries_of_the_command_line_are_named() -> None:
    code = "import sys; sys.modules[sys.argv[1]] = None; from arrayq.cli import main; main()"
    for library in ("click", "rich"):
        done = subprocess.run([sys.executable, "-c", code, library], capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr.startswith("arrayq: error: the command line requires click and rich")
        assert "pip install 'arrayq[cli]'" in done.stderr
        assert "Traceback" not in done.stderr


def test_an_interrupt_while_the_program_is_still_loading_is_one_line() -> None:
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == sys.argv[1]: raise KeyboardInterrupt\n"
        "from arrayq.cli import main\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "main()"
    )
    for module in ("click", "rich.progress", "arrayq.checkpoint.convert"):
        done = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (130, "arrayq: interrupted\n")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file of zeros that takes the program seconds and the disk nothing."""
    header, entries = encode_header(
        [(f"layer.{i}", DTYPES["F32"], (1024, 1024)) for i in range(64)], {}
    )
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(entry.nbytes for entry in entries.values()))
    return path


@posix
@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize(
    ("number", "returncode"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)],
)
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_signal_while_writing_leaves_what_was_there(
    command: list[str],
    large: Path,
    tmp_path: Path,
    number: signal.Signals,
    returncode: int,
    before: bytes | None,
) -> None:
    out = tmp_path / "out"
    if before is not None:
        out.write_bytes(before)
    with subprocess.Popen(
        [*command, *map(str, quantize(large, out))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 30
        while not any(path.stat().st_size > 1 << 20 for path in tmp_path.glob(".arrayq-*")):
            assert process.poll() is None, "it ended before it could be interrupted"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == returncode
    assert b"Traceback" not in stderr
    assert stderr == (b"arrayq: interrupted\n" if number == signal.SIGINT else b"")
    left = {path.name for path in tmp_path.iterdir()} - {"large"}
    assert left == (set() if before is None else {"out"})
    assert before is None or out.read_bytes() == before
