"""A name stands for a complete file or for what stood there before; nothing is left behind."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from arrayq.checkpoint import CheckpointError
from arrayq.checkpoint.replacing import replacing


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with replacing(target) as file:
        end = file.write_at(0, b"abcd")
        assert file.write_at(end, memoryview(b"ef")) == 6
        assert not target.exists()
        assert len(list(tmp_path.iterdir())) == 1
    assert target.read_bytes() == b"abcdef"
    assert list(tmp_path.iterdir()) == [target]


def write_half(target: Path, error: type[BaseException]) -> None:
    with replacing(target) as file:
        file.write_at(0, b"half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("before", [None, b"old"])
def test_any_exception_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException], before: bytes | None
) -> None:
    target = tmp_path / "out"
    if before is not None:
        target.write_bytes(before)
    with pytest.raises(error):
        write_half(target, error)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([before] if before else [])


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, content: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with (
            pytest.raises(OSError, match="No space left"),
            replacing(tmp_path / "out") as file,
        ):
            file.write_at(0, b"x")
    assert list(tmp_path.iterdir()) == []


def test_the_system_may_take_fewer_bytes_than_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    with replacing(tmp_path / "out") as file:
        assert file.write_at(0, b"0123456789") == 10
    assert (tmp_path / "out").read_bytes() == b"0123456789"


def test_the_input_is_refused_as_output_under_any_name(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for name in ("in", "link", "hard"):
        with (
            pytest.raises(CheckpointError, match="is the input itself"),
            replacing(tmp_path / name, (source,)),
        ):
            pass
    assert source.read_bytes() == b"precious"


def test_a_link_stays_and_the_file_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as file:
        file.write_at(0, b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_permissions_are_those_of_the_file_that_is_replaced_or_of_the_umask(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "old").chmod(0o640)
    previous = os.umask(0o027)
    try:
        for name in ("old", "new"):
            with replacing(tmp_path / name) as file:
                file.write_at(0, b"x")
    finally:
        os.umask(previous)
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"directory does not exist: .*absent"):
        replacing(tmp_path / "absent" / "out").__enter__()


def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path) -> None:
    for target in (tmp_path, Path(os.devnull)):
        with pytest.raises(CheckpointError, match="requires a regular file"):
            replacing(target).__enter__()


@pytest.mark.parametrize("ending", ["new/", "new/.", "new/..", ""])
def test_a_path_that_names_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="requires the name of a file"):
        replacing(ending).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_of_a_file_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    with replacing(target) as file:
        file.write_at(0, b"x")
    assert target.read_bytes() == b"x"


posix = pytest.mark.skipif(os.name == "nt", reason="Windows ends processes without signals")

SLEEPER = """
import sys, time
from arrayq.checkpoint.replacing import replacing
with replacing(sys.argv[1]) as file:
    file.write_at(0, b"half")
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def _ignored_signals() -> Iterator[None]:
    """What a test finds when pytest runs in the background or under nohup."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@posix
@pytest.mark.usefixtures("_ignored_signals", "heeded_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_nothing_and_ends_the_process_as_it_should(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, tmp_path / "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        assert process.wait(30) == -number
    assert list(tmp_path.iterdir()) == []


HANDLER = """
import signal, sys, time
from arrayq.checkpoint.replacing import replacing
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
with replacing(sys.argv[1]) as file:
    print("writing", flush=True)
    time.sleep(60)
"""


@posix
@pytest.mark.usefixtures("heeded_signals")
def test_a_handler_of_the_program_is_respected(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HANDLER, tmp_path / "out"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 7
    assert list(tmp_path.iterdir()) == []


def test_the_handlers_are_put_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with replacing(tmp_path / "out"):
        time.sleep(0)
    assert signal.getsignal(signal.SIGTERM) is before
