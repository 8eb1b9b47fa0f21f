"""Find a file that an installed Python package ships, without importing the package.

``pkg:wordllama/weights/l2_supercat_256.safetensors`` is the file
``weights/l2_supercat_256.safetensors`` in the folder of the package ``wordllama``.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from arrayq.checkpoint.errors import PackagePathError

__all__ = ["PREFIX", "resolve"]

PREFIX = "pkg:"

_NEAREST = 3
_FILES_LOOKED_AT = 20_000


def resolve(name: str | os.PathLike[str]) -> Path:
    """Return the path that `name` stands for.

    Parameters
    ----------
    name : str or path
        A path, returned as it is, or ``pkg:package/path/inside``.

    Raises
    ------
    PackagePathError
        If the package is not installed, ships no such file, or the path leads out of it.
    """
    text = os.fspath(name)
    if not text.startswith(PREFIX):
        return Path(text)
    package, _, inside = text.removeprefix(PREFIX).partition("/")
    parts = inside.split("/")
    if not package or not inside:
        raise PackagePathError(f"{text} requires the form {PREFIX}package/path/inside")
    # The check is on the text alone: some installers make every file of a package a link
    # into a cache, so where a link leads says nothing.
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise PackagePathError(
            f"{text} requires a plain path inside the package, got {inside!r};"
            " '..', '.', '\\' and empty parts are refused"
        )
    folders = _folders(package)
    for folder in folders:
        if (candidate := folder.joinpath(*parts)).is_file():
            return candidate
    raise PackagePathError(
        f"the package {package!r} ships no file {inside!r}{_nearest(inside, folders)}"
    )


def _folders(package: str) -> list[Path]:
    """Return the folders of a top-level package: several for a namespace package."""
    if not package.isidentifier():
        raise PackagePathError(_not_installed(package))
    try:
        # Only for a top-level name does find_spec import nothing.
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise PackagePathError(_not_installed(package))
    if spec.submodule_search_locations is None:
        raise PackagePathError(f"{package!r} is a single module, not a package that ships files")
    return [Path(folder) for folder in spec.submodule_search_locations]


def _not_installed(package: str) -> str:
    message = f"no package {package!r} is installed"
    try:
        provided = _provided_by(importlib.metadata.distribution(package))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        provided = []
    if provided:
        named = ", ".join(f"{PREFIX}{name}/..." for name in provided)
        return f"{message}; the distribution of that name provides {named}"
    return f"{message}; install the distribution that provides it (its import name is meant)"


def _provided_by(distribution: importlib.metadata.Distribution) -> list[str]:
    tops = {file.parts[0] for file in distribution.files or () if len(file.parts) > 1}
    return sorted(top for top in tops if top.isidentifier() and top != "__pycache__")


def _nearest(inside: str, folders: list[Path]) -> str:
    """Describe the files a misspelled path may have meant: those of its own suffix."""
    suffix = Path(inside).suffix
    shipped = [name for name in _files(folders) if name.endswith(suffix)]
    nearest = difflib.get_close_matches(inside, shipped, n=_NEAREST, cutoff=0.4)
    nearest = nearest or sorted(shipped)[:_NEAREST] if suffix not in ("", ".py") else nearest
    return f"; nearest: {', '.join(nearest)}" if nearest else ""


def _files(folders: list[Path]) -> list[str]:
    walked: Iterator[str] = (
        (Path(root) / file).relative_to(folder).as_posix()
        for folder in folders
        for root, _, files in os.walk(folder)
        for file in files
    )
    return list(itertools.islice(walked, _FILES_LOOKED_AT))
