"""The documentation keeps up with the code, and README.md with the documentation."""

import dataclasses
import re
import runpy
import shlex
from pathlib import Path

import pytest

import arrayq
from arrayq.capability import PROFILES
from arrayq.formats import FORMATS

RULES = {
    "rounding": arrayq.Rounding,
    "scaling": arrayq.Scaling,
    "scale_from": arrayq.ScaleFrom,
    "scale_rounding": arrayq.ScaleRounding,
    "zero_block": arrayq.ZeroBlock,
    "tensor_from": arrayq.TensorFrom,
    "calibration": arrayq.Calibration,
    "zero_rounding": arrayq.ZeroRounding,
}

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def documented_names():
    return set(re.findall(r"^\.\. auto\w+:: (\w+)$", page("api.md"), re.MULTILINE))


def test_every_public_name_is_in_the_api_reference():
    assert documented_names() >= {name for name in arrayq.__all__ if not name.startswith("__")}


def test_the_api_reference_has_no_name_that_is_not_public():
    assert documented_names() <= set(arrayq.__all__)


@pytest.mark.parametrize("row", FORMATS.values(), ids=lambda row: row.name)
def test_every_format_has_its_documentation_line_and_its_source(row):
    assert row.summary
    assert row.source


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_section_with_an_example(name):
    sections = [
        section
        for path in (DOCS / "numerics").glob("*.md")
        for section in re.split(r"^(?=##+ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    headed = [s for s in sections if name.upper() in re.findall(r"\w+", s.splitlines()[0])]
    assert headed, f"docs/numerics requires a section titled {name.upper()}"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_in_a_generated_table(name):
    tables = [
        line.split()[1:]
        for path in (DOCS / "numerics").glob("*.md")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("```{format-table}")
    ]
    assert any(name in row_names for row_names in tables)


def sections(text, level):
    """Return the text below each heading of a level, by the heading."""
    parts = re.split(rf"^{'#' * level} (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("rule", [field.name for field in dataclasses.fields(arrayq.Numerics)])
def test_every_rule_of_numerics_has_a_section_with_an_example(rule):
    section = sections(page("numerics/rules.md"), 2)[rule]
    assert "{doctest}" in section
    choices = RULES.get(rule, ())
    assert set(map(str, choices)) <= set(sections(section, 3))
    for name, text in sections(section, 3).items():
        assert "{doctest}" in text or "affine.md#" in text, name


def test_every_rule_with_choices_is_known_to_the_test_above():
    defaults = arrayq.Numerics("half_even").to_dict()
    assert set(RULES) == {rule for rule, choice in defaults.items() if isinstance(choice, str)}


@pytest.mark.parametrize("name", PROFILES)
def test_every_array_library_has_a_page_that_its_row_writes(name):
    text = page(f"namespaces/{name}.md")
    for directive in ("profile-table", "refusal-table", "capability-table"):
        assert f"```{{{directive}}} {name}\n" in text
    assert re.search(rf"^{name}$", page("namespaces/index.md"), re.MULTILINE)


def test_no_page_is_about_an_array_library_without_a_row():
    pages = {path.stem for path in (DOCS / "namespaces").glob("*.md")}
    assert pages - {"index", "adding"} == set(PROFILES)


@pytest.mark.parametrize("name", PROFILES)
def test_every_array_library_is_in_the_table_of_the_readme(name):
    table = README.read_text(encoding="utf-8").partition("## Works on your arrays")[2]
    assert f"docs/namespaces/{name}.md" in table.partition("\n## ")[0]


def readme_commands():
    return runpy.run_path(str(ROOT / ".ci" / "readme_command.py"))["readme_commands"]()


@pytest.mark.parametrize("name", ["setup", "test"])
def test_a_readme_command_is_one_line_that_parses(name):
    command = readme_commands()[name]
    assert "\n" not in command
    assert shlex.split(command)


def test_the_readme_commands_install_what_they_promise():
    commands = readme_commands()
    assert ".[demo]" in shlex.split(commands["setup"])
    assert ".[test]" in shlex.split(commands["test"])


@pytest.mark.parametrize("name", ["library", "torch", "jax", "dask"])
def test_the_readme_example_runs(name, capsys):
    if name != "library":
        pytest.importorskip(name)
    text = README.read_text(encoding="utf-8")
    example = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)\n```", text, re.DOTALL)
    exec(compile(example[1], "README.md", "exec"), {})
    assert "True" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_relative_links_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing
