"""What each command does and prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import arrayq as aq
from arrayq.checkpoint import load_file

Run = Callable[..., Result]
RunJson = Callable[..., Any]

QUANTIZED = ["embed.weight", "layer.weight", "conv.weight"]


def table_rows(text: str) -> dict[str, str]:
    """Return a two-column table as a dictionary."""
    rows = [line.split("  ", 1) for line in text.splitlines() if "  " in line]
    return {row[0]: row[1].strip() for row in rows}


def test_quantize_writes_the_file_and_ends_with_a_table(
    run: Run, model: Path, tmp_path: Path, arrays: dict[str, np.ndarray]
) -> None:
    out = tmp_path / "out.safetensors"
    result = run("quantize", model, "--scheme", "nvfp4", "-o", out)
    assert result.exit_code == 0
    assert result.stderr == ""
    rows = table_rows(result.stdout)
    assert rows["scheme"] == "nvfp4"
    assert rows["tensors quantized"] == "3"
    assert rows["tensors kept"] == "2 (one axis: 1, type I64: 1)"
    assert rows["bytes before"] == f"{model.stat().st_size:,}"
    assert rows["bytes after"] == f"{out.stat().st_size:,}"
    total = sum(arrays[name].size for name in QUANTIZED)
    assert rows["elements"] == f"{total:,}"
    for title in ("bits/element", "SQNR dB", "largest error", "saturated", "zero blocks"):
        assert title in rows
    assert rows["worst tensor"].endswith(" dB)")
    loaded = load_file(out)
    for name in QUANTIZED:
        expected = aq.quantize(arrays[name].reshape(len(arrays[name]), -1), "nvfp4")
        np.testing.assert_array_equal(loaded[name].data, expected.data)


def test_quantize_prints_json(run_json: RunJson, model: Path, tmp_path: Path) -> None:
    report = run_json("quantize", model, "--scheme", "int8/row", "-o", tmp_path / "out")
    assert report["scheme"] == "int8/row"
    assert report["tensors_converted"] == 3
    assert report["tensors_kept"] == 2
    by_name = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert by_name["layer.bias"]["kept"] == "one axis"
    assert by_name["conv.weight"]["shape"] == [4, 3, 5, 5]
    assert by_name["conv.weight"]["scheme"] == "int8/row"
    assert report["total"]["elements"] == sum(by_name[name]["elements"] for name in QUANTIZED)
    assert report["total"]["sqnr_db"] > 35


def test_quantize_chooses_tensors(run_json: RunJson, model: Path, tmp_path: Path) -> None:
    def converted(*options: str) -> set[str]:
        report = run_json("quantize", model, "--scheme", "int8/32", "-o", tmp_path / "o", *options)
        return {tensor["name"] for tensor in report["tensors"] if "kept" not in tensor}

    assert converted("--include", "layer.*") == {"layer.weight"}
    assert converted("--include", "layer.*", "--one-dimensional") == {"layer.weight", "layer.bias"}
    assert converted("--include", "*.weight", "--exclude", "conv.*", "--exclude", "embed*") == {
        "layer.weight"
    }


def test_a_pattern_that_matches_nothing_is_reported(run: Run, model: Path, tmp_path: Path) -> None:
    arguments = ("quantize", model, "--scheme", "nvfp4", "-o", tmp_path / "out")
    result = run(*arguments, "--exclude", "absent.*")
    assert result.exit_code == 0
    assert result.stderr == "arrayq: warning: the pattern 'absent.*' matches no tensor\n"
    result = run(*arguments, "--include", "absent.*")
    assert result.exit_code == 1
    assert "none of the 5 in" in result.stderr


def test_quantize_of_nothing_shows_no_error_figures(run: Run, model: Path, tmp_path: Path) -> None:
    result = run("quantize", model, "--scheme", "nvfp4", "-o", tmp_path / "out", "--exclude", "*")
    assert result.exit_code == 0
    assert "SQNR" not in result.stdout
    assert table_rows(result.stdout)["tensors kept"] == "5 (excluded: 4, type I64: 1)"


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_dequantize_restores_every_tensor(
    run: Run, model: Path, tmp_path: Path, arrays: dict[str, np.ndarray], dtype: str
) -> None:
    run("quantize", model, "--scheme", "int4/32", "-o", tmp_path / "q")
    result = run("dequantize", tmp_path / "q", "-o", tmp_path / "back", "--dtype", dtype)
    assert result.exit_code == 0, result.output
    assert table_rows(result.stdout)["tensors dequantized"] == "3"
    loaded = load_file(tmp_path / "back")
    for name, array in arrays.items():
        assert loaded[name].shape == array.shape
        if name in QUANTIZED:
            q = aq.quantize(array.reshape(len(array), -1), "int4/32")
            expected = q.dequantize().reshape(array.shape)
            tolerance = {"f32": 0, "f16": 2e-3, "bf16": 1e-2}[dtype]
            np.testing.assert_allclose(
                loaded[name].astype(np.float32), expected, rtol=tolerance, atol=tolerance * 1e-4
            )
        else:
            assert loaded[name].tobytes() == array.tobytes()


def test_dequantize_prints_json_and_warns_of_overflow(
    run: Run, run_json: RunJson, tmp_path: Path
) -> None:
    import safetensors.numpy

    safetensors.numpy.save_file({"x": np.full((2, 4), 1e6, np.float32)}, tmp_path / "m")
    run("quantize", tmp_path / "m", "--scheme", "int8/row", "-o", tmp_path / "q")
    report = run_json("dequantize", tmp_path / "q", "-o", tmp_path / "back")
    assert report["dtype"] == "f32"
    assert report["tensors_converted"] == 1
    result = run("dequantize", tmp_path / "q", "-o", tmp_path / "back", "--dtype", "f16")
    assert result.stderr == (
        "arrayq: warning: 8 values are too large for f16 and became infinite\n"
    )


def test_compare_shows_every_tensor_and_the_total_for_each_scheme(run: Run, model: Path) -> None:
    schemes = "int8/row,int4/32,nf4/64,mxfp4,nvfp4"
    result = run("compare", model, "--schemes", schemes)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for name in (*QUANTIZED, "total"):
        rows = [line.split() for line in lines if line.startswith(f"{name} ")]
        assert [row[1] for row in rows] == schemes.split(",")
    assert "layer.bias" not in result.stdout
    assert lines[-1] == "tensors quantized: 3; kept: 2 (one axis: 1, type I64: 1)"
    ranked = [line.split() for line in lines if line.startswith("nvfp4 ")]
    assert [row[1] for row in ranked] == ["best", "worst"]
    assert {row[2] for row in ranked} <= set(QUANTIZED)
    assert float(ranked[0][3]) > float(ranked[1][3])


def test_compare_prints_json_with_the_best_and_the_worst_tensor(
    run_json: RunJson, model: Path, arrays: dict[str, np.ndarray]
) -> None:
    report = run_json("compare", model, "--schemes", "int8/row, nvfp4")
    assert report["schemes"] == ["int8/row", "nvfp4"]
    assert [row["scheme"] for row in report["total"]] == ["int8/row", "nvfp4"]
    for which, scheme in enumerate(report["schemes"]):
        figures = {
            tensor["name"]: tensor["schemes"][which]["sqnr_db"]
            for tensor in report["tensors"]
            if "kept" not in tensor
        }
        extremes = report["extremes"][which]
        assert extremes["scheme"] == scheme
        assert extremes["best"] == {
            "name": max(figures, key=figures.__getitem__), "sqnr_db": max(figures.values())
        }  # fmt: skip
        assert extremes["worst"]["sqnr_db"] == min(figures.values())
        array = arrays["layer.weight"]
        assert figures["layer.weight"] == aq.compare(array, scheme).rows[0].sqnr_db


def test_compare_tells_each_scheme_once_and_as_arrayq_spells_it(
    run_json: RunJson, model: Path
) -> None:
    report = run_json("compare", model, "--schemes", "NVFP4, nvfp4,q8s/row,int8/row")
    assert report["schemes"] == ["nvfp4", "int8/row"]
    assert [row["scheme"] for row in report["total"]] == report["schemes"]


def test_an_exact_tensor_has_no_unit(run: Run, tmp_path: Path) -> None:
    import safetensors.numpy

    tensors = {name: np.ones((2, 4), np.float32) for name in "ab"}
    safetensors.numpy.save_file(tensors, tmp_path / "m")
    result = run("quantize", tmp_path / "m", "--scheme", "int8/row", "-o", tmp_path / "q")
    assert table_rows(result.stdout)["worst tensor"].endswith(" (exact)")
    compared = run("compare", tmp_path / "m", "--schemes", "int8/row").stdout
    assert [line.split()[-1] for line in compared.splitlines() if "best" in line] == ["exact"]


def test_compare_writes_nothing_and_honours_the_choice_of_tensors(
    run: Run, run_json: RunJson, model: Path
) -> None:
    report = run_json("compare", model, "--schemes", "nvfp4", "--exclude", "conv*")
    assert report["tensors_quantized"] == 2
    assert list(model.parent.iterdir()) == [model]
    result = run("compare", model, "--schemes", "nvfp4", "--exclude", "*")
    assert result.stdout == "tensors quantized: 0; kept: 5 (excluded: 4, type I64: 1)\n"


def test_info_lists_a_plain_file(run: Run, run_json: RunJson, model: Path) -> None:
    result = run("info", model)
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines()}
    assert rows["embed.weight"][1:] == ["40x96", "F16", "3,840", "7,680", "16.000"]
    report = run_json("info", model)
    assert report["metadata"] == {"format": "pt"}
    assert report["bytes"] == model.stat().st_size


def test_info_lists_a_quantized_file(run: Run, run_json: RunJson, model: Path) -> None:
    out = model.parent / "q"
    run("quantize", model, "--scheme", "int8/row", "-o", out)
    rows = {line.split()[0]: line.split() for line in run("info", out).stdout.splitlines()}
    assert rows["conv.weight"][1:6] == ["4x3x5x5", "F64", "int8/row", "300", "316"]
    assert rows["layer.bias"][1:3] == ["24", "F32"]
    report = run_json("info", out)
    assert report["metadata"] == {"format": "pt"}
    by_name = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert by_name["conv.weight"]["bits_per_element"] == 8 * 316 / 300
    assert by_name["ids"]["scheme"] is None


def test_a_file_of_a_package_is_named_by_pkg(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site" / "weights_for_arrayq" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError")
    (folder / "w.safetensors").write_bytes(model.read_bytes())
    monkeypatch.syspath_prepend(tmp_path / "site")
    name = "pkg:weights_for_arrayq/data/w.safetensors"
    for arguments in (
        ("info", name),
        ("compare", name, "--schemes", "nvfp4"),
        ("quantize", name, "--scheme", "nvfp4", "-o", tmp_path / "q"),
    ):
        assert run(*arguments).exit_code == 0


def test_version_and_help(run: Run) -> None:
    assert run("--version").stdout == f"arrayq {aq.__version__}\n"
    for command in ("quantize", "compare", "dequantize", "info"):
        assert "FILE" in run(command, "-h").stdout
        assert command in run("--help").stdout
