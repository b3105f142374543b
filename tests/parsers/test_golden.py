"""Captures and short texts give exactly the reports of their golden files, and each file belongs to one parser."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kits.captures import CAPTURES, GOLDEN, golden_text, own_cases, registered_parsers
from parsers.short_texts import FOLDER, escaped, table_now, unescaped

PARSERS = registered_parsers()


@pytest.mark.parametrize("tool", sorted(PARSERS))
def test_captures_give_their_golden_reports(tool: str, assert_golden: Callable[[Path, str], None]) -> None:
    parser = PARSERS[tool]
    for case in own_cases(tool):
        assert_golden(case.golden, golden_text([parser.parse(capture) for capture in case.captures(parser)]))


def test_no_golden_file_is_an_orphan() -> None:
    expected = {case.golden for case in own_cases()}
    assert set(GOLDEN.glob("*/*")) - expected == set()


def test_every_parser_has_captures_and_every_capture_a_parser() -> None:
    folders = {path.name for path in CAPTURES.iterdir() if path.is_dir()}
    assert folders == set(PARSERS)
    assert {case.tool for case in own_cases()} == set(PARSERS)


def test_every_file_beside_the_captures_is_a_capture() -> None:
    files = set(CAPTURES.glob("*/*"))
    assert files == {case.path for case in own_cases()}


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.iterdir()))
def test_short_texts_are_read_as_their_table_says(name: str, assert_golden: Callable[[Path, str], None]) -> None:
    assert_golden(FOLDER / f"{name}.txt", table_now(PARSERS[name]))


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\n\nb\\", "\x1b[1m \r\n\ta \n", "\\u00e9", "é\ufeff \\\\\n"])
def test_a_table_keeps_each_character(text: str) -> None:
    assert "".join(map(unescaped, escaped(text))) == text


@pytest.mark.parametrize(
    ("source", "other", "foreign_names"),
    [
        ("rocm-smi", "hy-smi", set()),
        ("xpu-smi", "xpu-smi-kunlun", {"table", "query", "places", "markup"}),
        ("xpu-smi-kunlun", "xpu-smi", {"table-2.0", "discovery", "dump", "stats", "ps"}),
    ],
)
def test_an_output_of_the_other_tool_of_that_name_is_not_read(source: str, other: str, foreign_names: set[str]) -> None:
    parser = PARSERS[source]
    outcomes = {
        case.name: {parser.parse(capture).outcome for capture in case.captures(parser)} for case in own_cases(other)
    }
    assert {name for name, found in outcomes.items() if "ok" in found} == set()
    assert {name: outcomes[name] for name in foreign_names} == {name: {"not_mine"} for name in foreign_names}
