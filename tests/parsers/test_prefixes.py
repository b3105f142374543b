"""Lines that a launcher passed on with a word before each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.captures import Case, of_each_layout, own_cases, registered_parsers, report_on, text_of
from parsers.short_texts import summary
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Command, Output, Report
from telemetry_parsers.text.echoes import without_prefix
from telemetry_parsers.text.lines import lines


def test_what_all_lines_begin_with_is_taken_off() -> None:
    for text, bare in [
        ("node7 out: a: 1\nnode7 out:   b: 2\nnode7 out:\nnode7 out: c\n", ["a: 1", "  b: 2", "", "c"]),
        ("3: [\n3:  {\n3: }\n", ["[", " {", "}"]),
        ("gpu04 | GPU: 0\ngpu04 |     POWER:\ngpu04 |     CLOCK:\n", ["GPU: 0", "    POWER:", "    CLOCK:"]),
        ("[1,0]<stdout>:a: 1\n[1,0]<stdout>:\n[1,0]<stdout>: b\n", ["a: 1", "", " b"]),
        (
            "srun: job 17 queued\nsrun: job 17 has got it\n0: a\n0: b\n",
            ["srun: job 17 queued", "srun: job 17 has got it", "a", "b"],
        ),
        ("> a: 1\n>   b: 2\n>\n> c\n", ["a: 1", "  b: 2", "", "c"]),
        ("# a: 1\n# b: 2\n", ["a: 1", "b: 2"]),
        ("1: a\n2: b\n3: c\n", ["1: a", "2: b", "3: c"]),
        ("node7 out: a\n", ["node7 out: a"]),
        ("  x: 1\n  x: 2\n  x: 3\n", ["  x: 1", "  x: 2", "  x: 3"]),
        ("no\nprefix\nhere\n", ["no", "prefix", "here"]),
        ("", []),
    ]:
        assert [line.text for line in without_prefix(lines(text))] == bare


def test_numbers_and_the_missing_end_of_lines_are_kept() -> None:
    found = without_prefix(lines("0: a\n0: b\n0: c"))
    assert [(line.number, line.text, line.ended) for line in found] == [(1, "a", True), (2, "b", True), (3, "c", False)]


# A launcher puts one prefix before each line, not two.
LAYOUTS = [case for case in of_each_layout(own_cases()) if "prefix" not in case.id]


def read(report: Report) -> object:
    return [(reading.device, reading.metric, reading.label, reading.value) for reading in report.readings]


def assert_read_in_spite_of(prefix: str, parser: Parser, case: Case) -> None:
    for capture in case.captures(parser):
        report = parser.parse(capture)
        if isinstance(capture.request, Command) and report.readings and "\n" in capture.outputs[0].text.strip():
            texts = ["".join(prefix + line for line in output.text.splitlines(True)) for output in capture.outputs]
            outputs = tuple(replace(output, text=text) for output, text in zip(capture.outputs, texts, strict=True))
            assert read(parser.parse(replace(capture, outputs=outputs))) == read(report), case.id


PREFIXES = [
    "nid005113 out: ",
    "[1,0]<stdout>:",
    "node7: ",
    "| ",
    "2025-01-06 ",
    "[node7] ",
    "2025-01-06T08:30:00.12Z stdout F ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_layout_is_read_in_spite_of_a_prefix(prefix: str) -> None:
    parsers = registered_parsers()
    for case in LAYOUTS:
        if case.tool in parsers:
            assert_read_in_spite_of(prefix, parsers[case.tool], case)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| 1    Iluvatar BI-V150         | 00000000:16:00.0     | 7", "| 1    Iluvatar BI-V150         | x y z"),
        ("| N/A  39C   P8    104W / 350W  | 64MiB / 32768MiB     | 0%        Exclusive P.|", "| ?? garbled"),
        ("| N/A  39C   P8    104W / 350W  | 64MiB / 32768MiB     | 0%        Exclusive P.|\n", ""),
        ("| 64MiB / 32768MiB     | 0%        Exclusive P.|", ""),
    ],
)
def test_a_damaged_card_behind_a_prefix_is_read_as_without_it(prefix: str, old: str, new: str) -> None:
    text = text_of("ixsmi", "table-two-dies-busy")
    assert text.count(old) == 1
    damaged = text.replace(old, new)
    report = report_on("ixsmi", damaged)
    assert [device.index for device in report.devices] == [0, 1]
    assert summary(report_on("ixsmi", "".join(prefix + line for line in damaged.splitlines(True)))) == summary(report)


def test_the_name_of_a_card_behind_a_frame_is_no_prefix() -> None:
    """A section of rocm-smi that was cut behind two equal lines."""
    power = "Average Graphics Package Power (W)"
    rows = [f"GPU[{card}]\t\t: {power}: {watts}\n" for card, watts in ((2, 3.0), (1, 4.0), (0, 5.0), (0, 5.0))]
    text = f"{'=' * 30} Power Consumption {'=' * 30}\n{''.join(rows)}"
    parser = registered_parsers()["rocm-smi"]
    poll = parser.polls[0]
    report = parser.parse(Capture("rocm-smi", poll.name, poll.request, (Output(text=text),)))
    assert sorted(device.index for device in report.devices) == [0, 1, 2]
