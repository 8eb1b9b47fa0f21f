"""compare: one row per scheme, readable as a table and as JSON."""

import importlib.util
import json

import ml_dtypes
import numpy as np
import pytest

import arrayq as aq
from arrayq.checkpoint import SafetensorsReader, resolve
from arrayq.report.table import Table, printable

SCHEMES = ["int8/row", "int4/32", "nf4/64", "mxfp4", "nvfp4"]


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(1).normal(0, 0.02, (64, 130)).astype(np.float32)


def test_rows_come_in_the_order_given(weights: np.ndarray) -> None:
    comparison = aq.compare(weights, SCHEMES)
    assert [row.scheme for row in comparison.rows] == SCHEMES
    for row in comparison.rows:
        q = aq.quantize(weights, row.scheme)
        assert row.bits_per_element == q.bits_per_element
        assert row.elements == weights.size
    assert comparison["int8/row"].sqnr_db > comparison["nvfp4"].sqnr_db > 15


def test_schemes_may_be_spellings_objects_or_one_alone(weights: np.ndarray) -> None:
    built = aq.QuantScheme().with_value("q4s").per_block([2, 16], "f16")
    comparison = aq.compare(weights, [built, aq.nvfp4()])
    assert comparison[built].elements == weights.size
    assert comparison[aq.nvfp4()] == comparison["nvfp4"]
    assert comparison["nvfp4"].sqnr_db == aq.compare(weights, "nvfp4").rows[0].sqnr_db
    with pytest.raises(KeyError, match="int8/row was not compared"):
        comparison["int8/row"]


def test_a_row_is_found_by_every_spelling_of_its_scheme(weights: np.ndarray) -> None:
    comparison = aq.compare(weights, ["NVFP4", "q8s/row", "mxfp8-e4m3"])
    assert [row.scheme for row in comparison.rows] == ["nvfp4", "int8/row", "mxfp8"]
    assert comparison["nvfp4"] is comparison["NVFP4"] is comparison.rows[0]
    assert comparison["q8s/row"] is comparison["int8/row"] is comparison.rows[1]
    for absent in ("int4/32", "nonsense", 3):
        with pytest.raises(KeyError, match="compared: nvfp4, int8/row, mxfp8"):
            comparison[absent]  # type: ignore[index]


def test_a_scheme_given_twice_is_compared_once(weights: np.ndarray) -> None:
    comparison = aq.compare(weights, ["nvfp4", "NVFP4", aq.nvfp4(), "int8/row"])
    assert [row.scheme for row in comparison.rows] == ["nvfp4", "int8/row"]


def test_schemes_that_are_written_alike_are_told_apart(weights: np.ndarray) -> None:
    narrow, wide = (
        aq.QuantScheme("u1", "packed_native", "lookup", codebook=[-1, top]) for top in (1, 2)
    )
    comparison = aq.compare(weights, [narrow, wide])
    assert str(narrow) == str(wide)
    assert comparison[narrow].noise != comparison[wide].noise


def test_the_table_lines_up(weights: np.ndarray) -> None:
    lines = str(aq.compare(weights, SCHEMES)).splitlines()
    assert len(lines) == 2 + len(SCHEMES)
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split()[0] == "scheme"
    assert "overflowed" not in lines[0]


def test_the_record_is_strict_json(weights: np.ndarray) -> None:
    record = aq.compare(np.zeros((2, 16)), SCHEMES).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["shape"] == [2, 16]
    assert record["rows"][0]["sqnr_db"] == "inf"
    assert "exact" in str(aq.compare(np.zeros((2, 16)), "int8/row"))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_every_float_dtype_is_judged_by_its_own_values(dtype: type) -> None:
    x = np.linspace(-1, 1, 256).astype(dtype).reshape(4, 64)
    row = aq.compare(x, "int8/row").rows[0]
    wide = aq.compare(x.astype(np.float64), "int8/row").rows[0]
    assert (row.sqnr_db, row.max_abs_error) == (wide.sqnr_db, wide.max_abs_error)


@pytest.mark.parametrize("shape", [(), (0,), (5, 0), (1,), (2, 3, 4, 5)])
def test_any_shape_is_judged(shape: tuple[int, ...]) -> None:
    aq.compare(np.ones(shape), "int8/tensor").to_dict()


def test_what_quantize_refuses_is_refused(weights: np.ndarray) -> None:
    with pytest.raises(aq.SchemeError):
        aq.compare(weights, ["int3/32"])
    with pytest.raises(aq.ArrayTypeError):
        aq.compare(np.arange(4), "int8/tensor")
    with pytest.raises(aq.SchemeError, match=r"schemes requires .*, got 3"):
        aq.compare(weights, 3)  # type: ignore[arg-type]


def test_what_is_not_finite_is_refused_with_advice_that_can_be_followed() -> None:
    with pytest.raises(aq.NonFiniteError, match="compare requires finite numbers") as caught:
        aq.compare(np.array([1, np.inf, np.nan]), "int8/tensor")
    assert (caught.value.nan, caught.value.inf, caught.value.first_index) == (1, 1, (1,))
    assert "nonfinite=" not in str(caught.value)


def test_threads_do_not_change_the_figures(weights: np.ndarray) -> None:
    assert aq.compare(weights, SCHEMES, threads=1) == aq.compare(weights, SCHEMES, threads=2)


def test_sqnr_on_real_weights_is_what_other_implementations_reach() -> None:
    if importlib.util.find_spec("wordllama") is None:
        pytest.skip("the demo's package is not installed")
    with SafetensorsReader(resolve("pkg:wordllama/weights/l2_supercat_256.safetensors")) as reader:
        embedding = reader.floats("embedding.weight")
    assert (embedding.shape, embedding.dtype) == ((32000, 256), np.float16)
    expected = {"int8/row": 43.04, "nf4/64": 20.72, "nvfp4": 20.43, "mxfp4": 18.75}
    comparison = aq.compare(embedding, expected)
    for scheme, sqnr_db in expected.items():
        assert comparison[scheme].sqnr_db == pytest.approx(sqnr_db, abs=0.1)


def test_tables_keep_text_left_and_figures_right() -> None:
    table = Table(("name", "count"), (("a", "1"), ("long name", "1,000")))
    assert str(table).splitlines() == [
        "name       count", "---------  -----", "a              1", "long name  1,000"
    ]  # fmt: skip


def test_names_cannot_command_the_terminal() -> None:
    assert printable("a\x1b[31m\nb\u202e") == "a\\x1b[31m\\nb\\u202e"
    assert printable("näme 🙂 [bold]") == "näme 🙂 [bold]"
