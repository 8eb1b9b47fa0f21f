"""Write a file so that its name only ever stands for something complete."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from arrayq.checkpoint.errors import CheckpointError
from arrayq.checkpoint.termination import unwinding

__all__ = ["OutputFile", "check_target", "replacing"]

_NO_FILES = ("", ".", "..")
"""How paths end that name no file."""


class OutputFile:
    """A file being written, at any offset and without a buffer of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write_at(self, offset: int, content: bytes | memoryview) -> int:
        """Write all of `content` at `offset` and return the offset behind it."""
        view = memoryview(content)
        remaining = view.cast("B") if view.nbytes else b""  # an empty view cannot be cast
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]
        return offset + view.nbytes


def check_target(target: str | os.PathLike[str], sources: tuple[Path, ...] = ()) -> Path:
    """Return where `target` leads, or say why no file can be written there.

    Symbolic links are followed, so that the file they name is replaced and not the link.

    Raises
    ------
    CheckpointError
        If `target` is one of `sources`, names no file, or is not a regular file.
    FileNotFoundError
        If its directory does not exist.
    """
    # What realpath makes of these is a file, or a directory, of another name.
    if os.path.split(target)[1] in _NO_FILES:
        raise CheckpointError(f"the output requires the name of a file, got {os.fspath(target)!r}")
    path = Path(os.path.realpath(target))
    if not path.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "the output's directory does not exist", str(path.parent)
        )
    if path.exists():
        if not stat.S_ISREG(path.stat().st_mode):
            raise CheckpointError(f"the output requires a regular file, got {path}; name another")
        if any(path.samefile(source) for source in sources):
            raise CheckpointError(f"the output {path} is the input itself; name another file")
    return path


@contextmanager
def replacing(
    target: str | os.PathLike[str], sources: tuple[Path, ...] = ()
) -> Iterator[OutputFile]:
    """Open a temporary file that takes the place of `target` when the block succeeds.

    An existing file stays as it is until then, and for good if the block raises: any
    exception, KeyboardInterrupt and (in the main thread) SIGTERM and SIGHUP included, removes
    the temporary file. It lies in the target's directory, because only there can it be moved
    into place in one step.

    Parameters
    ----------
    target : path
        The file to write.
    sources : tuple of Path
        Files that `target` must not be.
    """
    path = check_target(target, sources)
    temporary = path.parent / f".arrayq-{secrets.token_hex(8)}.part"
    with unwinding():
        try:
            descriptor = _create(temporary, path)
            try:
                yield OutputFile(descriptor)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(path)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
    _sync_directory(path.parent)


def _create(temporary: Path, path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(temporary, flags, 0o666)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    if path.exists():
        shutil.copymode(path, temporary)
    return descriptor


def _sync_directory(directory: Path) -> None:
    """Make the new name last through a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
