"""JSON is read between other programs' lines, after another document, and up to a cut, for all sources of JSON."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest

from kits.captures import own_cases, registered_parsers
from telemetry_parsers.checks.report_rules import numbers
from telemetry_parsers.model import Capture, Report

PARSERS = registered_parsers()
# The tools that print JSON. Each output is tested with some kinds of damage; the long tests try all combinations.
TOOLS = ("amd-smi", "hy-smi", "mthreads-gmi", "mx-smi", "rocm-smi", "xpu-smi")
by_tool = pytest.mark.parametrize("tool", TOOLS)
by_share = pytest.mark.parametrize("one_of", [5, pytest.param(1, marks=pytest.mark.long)])
_OPENING = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
FOREIGN = (
    "WARNING: old library",
    "warn: config {x} ignored",
    'warn: config {"x": 1} ignored',
    "[ 1234.567890] amdgpu 0000:03:00.0: ring gfx timeout",
    "2025-11-22 16:30:01 n7 kernel: ring gfx timeout",
    "16:30:01 ring gfx timeout",
    "(tool:123): GLib-WARNING **: no [bus]",
    "*** note: {",
    "---- note ----",
    "<4>ring gfx timeout",
)  # fmt: skip


def span(text: str) -> tuple[int, int] | None:
    """Return where the first document in a text begins and ends; one that is cut off ends with the text."""
    for opening in _OPENING.finditer(text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, opening.end())
        except ValueError:  # a bracket in a sentence, or a document that is cut off
            if re.match(r"[\[{]\s*[\"{]", text[opening.end() :]):
                return opening.end(), len(text)
            continue
        if value:
            return opening.end(), end
    return None


@cache
def outputs(tool: str) -> list[tuple[Capture, str]]:
    """Return each output with JSON of captures that give devices, alone in its capture."""
    parser = PARSERS[tool]
    cases = [case.captures(parser) for case in own_cases(tool)]
    return [
        (replace(capture, outputs=(output,)), output.text)
        for captures in cases
        if all(parser.parse(capture).devices for capture in captures)
        for capture in captures
        for output in capture.outputs
        if span(output.text)
    ]


def parsed(capture: Capture, text: str) -> Report:
    return PARSERS[capture.source].parse(replace(capture, outputs=(replace(capture.outputs[0], text=text),)))


def readings_of(report: Report) -> tuple[object, ...]:
    return report.outcome, report.devices, report.readings, report.processes, report.events, report.facts


def noisy(text: str, line: str) -> Iterator[str]:
    """Return the text with this line before, after and within the JSON."""
    start, end = span(text) or (0, 0)
    yield f"{line}\n{text}"
    yield f"{text.rstrip()}\n{line}\n" if end < len(text) else text
    breaks = [position + 1 for position in range(start, end) if text[position] == "\n"]
    for position in {*breaks[:3], *breaks[3 : -3 : max(1, len(breaks) // 8)], *breaks[-3:]}:
        yield f"{text[:position]}{line}\n{text[position:]}"


def test_all_sources_of_json_are_tried() -> None:
    asked = {
        name
        for name, parser in PARSERS.items()
        for poll in parser.polls
        for line in getattr(poll.request, "alternatives", ())
        if {"--json", "-j"} & set(line)
    }
    assert asked <= set(TOOLS)
    assert all(outputs(tool) for tool in TOOLS)


@by_share
@by_tool
def test_foreign_line_costs_no_reading(tool: str, one_of: int) -> None:
    for number, (capture, text) in enumerate(outputs(tool)):
        whole = parsed(capture, text)
        for line in FOREIGN[number % one_of :: one_of]:
            for changed in noisy(text, line):
                report = parsed(capture, changed)
                assert readings_of(report) == readings_of(whole), changed
                assert len(report.problems) >= len(whole.problems)


@by_tool
def test_repeated_document_is_read_once(tool: str) -> None:
    for capture, text in outputs(tool):
        if (span(text) or (0, 0))[1] == len(text):
            continue  # cut off
        whole = readings_of(parsed(capture, text))
        for between in ("", "\n", "\nWARNING: old library\n"):
            assert readings_of(parsed(capture, text.rstrip() + between + text.lstrip())) == whole


@by_share
@by_tool
def test_cut_after_foreign_line_is_reported(tool: str, one_of: int) -> None:
    for number, (capture, text) in enumerate(outputs(tool)):
        whole = numbers(parsed(capture, text))
        for changed in islice(noisy(text, FOREIGN[0]), number % one_of, None, one_of):
            for cut in range(0, len(changed), max(1, len(changed) // 16)):
                report = parsed(capture, changed[:cut])
                assert numbers(report) <= whole
                assert numbers(report) == whole or report.problems
