"""Every capture gives exactly the report of its golden file, and none of the two is without the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kits.captures import CAPTURES, GOLDEN, golden_text, own_cases, registered_parsers

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
