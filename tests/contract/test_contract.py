"""Every registered parser keeps the contract on every capture of every tool, whole and damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.captures import (
    CAPTURES,
    Case,
    by_layout,
    own_cases,
    registered_parsers,
    shared_files,
    shared_folder,
    shared_text,
    text_capture,
)
from telemetry_parsers.checks.laws import numbers
from telemetry_parsers.checks.suite import (
    check,
    cut_violations,
    declared_violations,
    parse_violations,
    sample_violations,
)
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture
from telemetry_parsers.vendors import VENDORS

PARSERS = registered_parsers()
# Which folder of the shared captures holds a parser's own; the host has none.
SHARED_FOLDERS = {
    tool.name.replace("_", "-"): tool.captures for vendor in VENDORS for tool in vendor.tools if tool.captures
}
# Outputs of a source that lie in another's folder.
ALSO_OWN = {"amdgpu-sysfs": {"sysfs-dcu-values"}}


def samples(case: Case) -> list[Capture]:
    return case.captures(PARSERS[case.tool])


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_parser_says_of_itself_what_it_must(name: str) -> None:
    assert PARSERS[name].name == name
    assert declared_violations(PARSERS[name]) == []


@by_layout(own_cases())
def test_parser_keeps_the_contract_on_its_own_captures(case: Case) -> None:
    parser = PARSERS[case.tool]
    assert [text for capture in samples(case) for text in sample_violations(parser, capture)] == []


def all_cuts(text: str) -> Iterator[int]:
    """Where to cut a text: everywhere but inside a rule or the blanks between columns, which tell nothing wherever they end."""
    return (cut for cut in range(len(text)) if cut == 0 or text[cut - 1 : cut + 1] not in ("  ", "--", "=="))


@pytest.mark.long  # the test above cuts at 128 places
@pytest.mark.parametrize("case", own_cases(), ids=lambda case: case.id)
def test_no_cut_of_many_gives_a_number_that_the_whole_does_not(case: Case) -> None:
    parser = PARSERS[case.tool]
    assert [text for capture in samples(case) for text in cut_violations(parser, capture, all_cuts)] == []


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_every_metric_that_a_parser_gives_is_given_by_some_capture(name: str) -> None:
    parser = PARSERS[name]
    captures = [capture for case in own_cases(name) for capture in samples(case)]
    given = {metric for capture in captures for _, metric, _, _ in numbers(parser.parse(capture))}
    assert set(parser.gives) == given


@by_layout(own_cases())
def test_no_parser_reads_anothers_capture(case: Case) -> None:
    for name in PARSERS.keys() - {case.tool}:
        for capture in samples(case):
            assert_reads_nothing(PARSERS[name], capture, name)


@pytest.mark.needs("captures")
@pytest.mark.parametrize("name", sorted(PARSERS))
def test_no_parser_reads_another_tools_real_output(name: str) -> None:
    files = foreign_files(name)
    assert len(files) > 150
    for path in files:
        assert_reads_nothing(PARSERS[name], text_capture(PARSERS[name], shared_text(path)), str(path))


def foreign_files(name: str) -> list[Path]:
    folder = shared_folder()
    own = None if folder is None else folder / SHARED_FOLDERS.get(name, "none of them")
    return [path for path in shared_files() if path.parent != own and path.stem not in ALSO_OWN.get(name, ())]


def assert_reads_nothing(parser: Parser, capture: Capture, name: str = "") -> None:
    report = parser.parse(capture)
    assert parse_violations(parser, capture) == [], name
    assert report.outcome != "ok", name
    assert (report.devices, report.readings) == ((), ()), name


def test_the_whole_suite_finds_nothing_in_a_good_parser() -> None:
    parser = PARSERS["mthreads-gmi"]
    texts = [(CAPTURES / "mthreads-gmi" / f"{name}.txt").read_text() for name in ("table-new-busy", "query-json")]
    assert check(parser, [text.split("# ---\n", 1)[1] for text in texts]) == []
