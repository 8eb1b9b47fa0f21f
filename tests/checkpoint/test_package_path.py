"""pkg:package/path names a file of an installed package, which is not imported."""

import importlib.metadata
import sys
from pathlib import Path

import pytest

from arrayq.checkpoint import PackagePathError, resolve
from arrayq.errors import ArrayqError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site" / "shipping_pkg"
    (folder / "weights").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "weights" / "tiny.safetensors").write_bytes(b"tiny")
    (folder / "weights" / "large.safetensors").write_bytes(b"large")
    (tmp_path / "site" / "secret.txt").write_text("outside")
    (tmp_path / "site" / "single_module.py").write_text("")
    dist = tmp_path / "site" / "shipping_dist-1.0.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: shipping-dist\nVersion: 1.0\n")
    (dist / "RECORD").write_text(
        "shipping_pkg/__init__.py,,\nshipping_dist-1.0.dist-info/RECORD,,\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    return folder


def test_a_file_of_a_package_is_found_without_importing_it(package: Path) -> None:
    assert (
        resolve("pkg:shipping_pkg/weights/tiny.safetensors")
        == package / "weights" / "tiny.safetensors"
    )
    assert "shipping_pkg" not in sys.modules


def test_a_plain_path_is_returned_as_it_is(tmp_path: Path) -> None:
    assert resolve(tmp_path / "absent") == tmp_path / "absent"
    assert resolve("relative/pkg:odd") == Path("relative/pkg:odd")


def test_a_namespace_package_is_searched_in_all_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for site in ("one", "two"):
        (tmp_path / site / "spread_pkg").mkdir(parents=True)
        (tmp_path / site / "spread_pkg" / site).write_text(site)
        monkeypatch.syspath_prepend(tmp_path / site)
    assert resolve("pkg:spread_pkg/one").read_text() == "one"
    assert resolve("pkg:spread_pkg/two").read_text() == "two"


@pytest.mark.parametrize(
    "name",
    [
        "pkg:shipping_pkg/../secret.txt",
        "pkg:shipping_pkg/weights/../../secret.txt",
        "pkg:shipping_pkg//etc/passwd",
        "pkg:shipping_pkg/./weights/tiny.safetensors",
        "pkg:shipping_pkg/weights\\tiny.safetensors",
        "pkg:shipping_pkg/weights/",
        "pkg:shipping_pkg/wei\0ghts",
    ],
)
@pytest.mark.usefixtures("package")
def test_a_path_out_of_the_package_is_refused(name: str) -> None:
    with pytest.raises(PackagePathError, match="requires a plain path inside the package"):
        resolve(name)


@pytest.mark.parametrize("name", ["pkg:", "pkg:shipping_pkg", "pkg:shipping_pkg/", "pkg:/weights"])
@pytest.mark.usefixtures("package")
def test_the_form_is_explained(name: str) -> None:
    with pytest.raises(PackagePathError, match="requires the form pkg:package/path/inside"):
        resolve(name)


@pytest.mark.usefixtures("package")
def test_an_unknown_package_is_named() -> None:
    with pytest.raises(PackagePathError, match="no package 'absent_pkg' is installed"):
        resolve("pkg:absent_pkg/file")


@pytest.mark.usefixtures("package")
def test_the_name_of_a_distribution_leads_to_its_packages() -> None:
    importlib.metadata.distribution("shipping-dist")
    with pytest.raises(PackagePathError, match=r"provides pkg:shipping_pkg/\.\.\."):
        resolve("pkg:shipping-dist/weights/tiny.safetensors")


@pytest.mark.usefixtures("package")
def test_the_nearest_names_are_listed() -> None:
    with pytest.raises(PackagePathError, match=r"nearest: weights/tiny\.safetensors"):
        resolve("pkg:shipping_pkg/weigths/tyni.safetensors")
    with pytest.raises(PackagePathError, match=r"nearest: .*weights/large\.safetensors"):
        resolve("pkg:shipping_pkg/xyz.safetensors")


@pytest.mark.parametrize("name", ["single_module", "sys", "__main__", "os.path", "a-b"])
@pytest.mark.usefixtures("package")
def test_what_is_no_package_with_files_is_refused(name: str) -> None:
    with pytest.raises(PackagePathError, match=r"is a single module|no package .* is installed"):
        resolve(f"pkg:{name}/file")


@pytest.mark.usefixtures("package")
def test_a_folder_is_no_file() -> None:
    with pytest.raises(PackagePathError, match="ships no file 'weights'"):
        resolve("pkg:shipping_pkg/weights")


def test_links_that_an_installer_made_are_followed(package: Path, tmp_path: Path) -> None:
    cached = tmp_path / "cache.safetensors"
    cached.write_bytes(b"cached")
    (package / "weights" / "linked.safetensors").symlink_to(cached)
    assert resolve("pkg:shipping_pkg/weights/linked.safetensors").read_bytes() == b"cached"


def test_the_error_is_both_ours_and_that_of_a_missing_file() -> None:
    with pytest.raises(ArrayqError):
        resolve("pkg:absent_pkg/file")
    with pytest.raises(FileNotFoundError):
        resolve("pkg:absent_pkg/file")
