"""Tables fit the room there is, and no layout loses or cuts a figure."""

import pytest

from arrayq.report.fitting import fitted
from arrayq.report.table import Table

NAMES = ["model.layers.0.attention.q_proj.weight", "model.layers.10.attention.q_proj.weight", "b"]
SCHEMES = ["int8/row", "mxfp6-e3m2", "nvfp4"]
HEADINGS = ("tensor", "scheme", "elements", "bytes/element", "largest error", "zero blocks")
TABLE = Table(
    HEADINGS,
    tuple(
        (name, scheme, f"{10**9 + len(name):,}", "4.500", f"{0.00012345:.4g}", f"{number:,}")
        for name in NAMES
        for number, scheme in enumerate(SCHEMES, 123_456)
    ),
    text_columns=2,
    names=0,
    per_name=(2,),
)


@pytest.mark.parametrize("width", [*range(40, 130, 7), 200])
def test_lines_fit_and_every_figure_is_whole(width: int) -> None:
    text = fitted(TABLE, width)
    assert max(map(len, text.split("\n"))) <= width
    words = text.replace(",\n", "\n").split()
    for name, scheme, *figures in TABLE.rows:
        assert name[:14] in text
        assert name[-14:] in text
        assert scheme in words
        for figure in figures:
            assert figure in words
    for heading in HEADINGS[1:]:
        for word in heading.replace("/", "/ ").split():
            assert word in text


def test_each_layout_is_used_where_the_one_before_does_not_fit() -> None:
    widths = (200, 103, 91, 80, 40)
    firsts = [fitted(TABLE, width).split("\n")[0].split() for width in widths]
    assert firsts[0][:3] == ["tensor", "scheme", "elements"]
    assert len({fitted(TABLE, width) for width in widths}) == len(widths)


def test_rows_stand_below_their_name() -> None:
    lines = fitted(TABLE, 70).split("\n")
    for name in NAMES:
        start = next(place for place, line in enumerate(lines) if line.startswith(f"{name}:"))
        assert lines[start].endswith(f"elements {10**9 + len(name):,}")
        below = lines[start + 1 : start + 1 + len(SCHEMES)]
        assert [line.split()[0] for line in below] == SCHEMES


def test_long_names_lose_their_middle_only_while_they_stay_apart() -> None:
    def table(*names: str) -> Table:
        rows = tuple((scheme, name, "1") for name in names for scheme in SCHEMES)
        return Table(("scheme", "tensor", "count"), rows, text_columns=2, names=1)

    apart = fitted(table("a" * 60, "b" * 60), 60)
    assert "a" * 16 + "..." + "a" * 16 in apart
    assert max(map(len, apart.split("\n"))) <= 60
    alike = fitted(table("x" * 30 + "1" + "x" * 30, "x" * 30 + "2" + "x" * 30), 61)
    assert "x" * 30 + "1" + "x" * 30 in alike


def test_other_tables_stay_as_they_are() -> None:
    table = Table(("fact", "value"), (("path", "x" * 100),), text_columns=2)
    assert fitted(table, 20) == str(table)
