"""Names of the host, whatever they are, change no number that a parser reads in a masked capture."""

import re
from collections.abc import Iterable

import pytest

from kits.captures import Case, of_each_layout, own_cases, registered_parsers, shared_files, shared_text, text_capture
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.masking.words import may_be_name
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Report

QUICK = of_each_layout(own_cases())


def read(report: Report) -> object:
    return (
        report.outcome,
        len(report.devices),
        [(reading.device, reading.metric, reading.label, reading.value) for reading in report.readings],
    )


def assert_names_change_nothing(parser: Parser, captures: Iterable[Capture]) -> None:
    """Treat every word of a capture as a name of this host."""
    for capture in captures:
        report = parser.parse(capture)
        text = " ".join(f"{output.text} {output.stderr} {output.data}" for output in capture.outputs)
        masked = Mask(b"key", re.findall(r"[\w.+%-]{3,40}", text)).masked_capture(capture, report)
        assert read(parser.parse(masked)) == read(report), capture.source


@pytest.mark.parametrize("tool", sorted({case.tool for case in QUICK} & registered_parsers().keys()))
def test_no_name_changes_a_reading(tool: str) -> None:
    parser = registered_parsers()[tool]
    for case in QUICK:
        if case.tool == tool:
            assert_names_change_nothing(parser, case.captures(parser))


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in own_cases() if case not in QUICK], ids=lambda case: case.id)
def test_no_name_changes_a_reading_of_any_capture(case: Case) -> None:
    if parser := registered_parsers().get(case.tool):
        assert_names_change_nothing(parser, case.captures(parser))


@pytest.mark.long
@pytest.mark.needs("captures")
@pytest.mark.parametrize("tool", sorted(registered_parsers()))
def test_no_name_changes_a_reading_of_a_real_output(tool: str) -> None:
    parser = registered_parsers()[tool]
    for path in shared_files(tool.replace("-", "[-_]")):
        assert_names_change_nothing(parser, [text_capture(parser, shared_text(path))])


@pytest.mark.parametrize(
    "word",
    ["950", "310W", "57.0", "power", "GpuClock", "card0", "ppt0_max_power_limit", "v2.0.1", "0x15", "gfx90a", "ab"],
)
def test_numbers_and_words_of_tools_are_no_names(word: str) -> None:
    assert not may_be_name(word)


@pytest.mark.parametrize("word", ["u1042", "node17", "anna", "li-wei", "dgx-a100-03", "h100", "anna.power"])
def test_names_of_hosts_and_people_are_names(word: str) -> None:
    assert may_be_name(word)
