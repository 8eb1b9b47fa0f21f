"""Which tensors are quantized, and why the others are kept."""

import pytest

from arrayq.checkpoint import CheckpointError, Selection
from arrayq.checkpoint.dtypes import DTYPES
from arrayq.checkpoint.header import TensorEntry


def entry(
    name: str = "model.weight", dtype: str = "F32", shape: tuple[int, ...] = (4, 4)
) -> TensorEntry:
    return TensorEntry(name, DTYPES[dtype], shape, 0, 0)


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 3, 4), (2, 1, 3, 3)])
def test_floats_of_two_axes_and_more_are_quantized(dtype: str, shape: tuple[int, ...]) -> None:
    assert Selection().reason_to_keep(entry(dtype=dtype, shape=shape)) is None


@pytest.mark.parametrize("dtype", sorted(set(DTYPES) - {"F64", "F32", "F16", "BF16"}))
def test_other_types_are_kept_whatever_is_asked(dtype: str) -> None:
    selection = Selection(include=("*",), one_dimensional=True)
    assert selection.reason_to_keep(entry(dtype=dtype)) == f"type {dtype}"


def test_shapes_that_are_kept_say_why() -> None:
    assert Selection().reason_to_keep(entry(shape=(4,))) == "one axis"
    assert Selection().reason_to_keep(entry(shape=())) == "a single number"
    assert Selection().reason_to_keep(entry(shape=(4, 0))) == "no elements"
    assert Selection(one_dimensional=True).reason_to_keep(entry(shape=(4,))) is None
    assert Selection(one_dimensional=True).reason_to_keep(entry(shape=())) == "a single number"


def test_exclude_wins_over_include() -> None:
    selection = Selection(include=("model.*",), exclude=("*.weight",))
    assert selection.reason_to_keep(entry("model.weight")) == "excluded"
    assert selection.reason_to_keep(entry("model.bias")) is None
    assert selection.reason_to_keep(entry("head.bias")) == "not included"


def test_patterns_mind_case_and_may_be_several() -> None:
    selection = Selection(include=("a.*", "B?"))
    assert selection.reason_to_keep(entry("A.x")) == "not included"
    assert selection.reason_to_keep(entry("B1")) is None


def test_patterns_that_match_nothing_are_reported() -> None:
    selection = Selection(include=("a*", "x*"), exclude=("y*",))
    assert selection.check(["abc"], "file") == ("x*", "y*")


def test_an_include_that_matches_nothing_at_all_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"'x\*' requires a tensor to match, .* 1 in file"):
        Selection(include=("x*",)).check(["abc"], "file")
