"""Huawei's npu-smi: which of its shapes a text has, and the one parser for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.combining.outputs import combine_reports
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Output, Poll, Problem, Report
from telemetry_parsers.text.answers import failed_midway
from telemetry_parsers.text.echoes import Run, arguments_of, runs, without_commands
from telemetry_parsers.text.lines import Line, lines, quote
from telemetry_parsers.text.outputs import (
    failure_of,
    report_on,
    report_on_error,
    report_on_silence,
    report_on_unknown,
    too_long,
    with_complaints,
)
from telemetry_parsers.text.prefixes import without_prefix
from telemetry_parsers.vendors.ascend.npu_smi import blocks, keys, rows, table
from telemetry_parsers.vendors.ascend.npu_smi.page import Page, Place
from telemetry_parsers.vendors.ascend.npu_smi.segments import segments
from telemetry_parsers.vendors.ascend.npu_smi.words import ERRORS, SILENT, TOOL, VENDOR

_VERSION = re.compile(
    r"[ \t]{0,8}npu-smi[ \t]{1,8}(?:version[ \t]{0,8}:?[ \t]{0,8})?(v?[0-9][^\s|]{0,40})[ \t]{0,8}\Z", re.IGNORECASE
)
_UNSUPPORTED = ("does not support", "dose not support")
# What a poll of every card adds to the table. What the table tells is left to it: the same figure of another moment
# would come and go beside it, and some answers count it in another way (usable memory, AI cores for the whole chip).
_ADDED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "usages": frozenset({"engine_utilization_ratio", "memory_bandwidth_ratio"}),
        "common": frozenset({"clock_hertz", "clock_max_hertz", "compute_units", "power_card_watts"}),
        "memory": frozenset({"temperature_celsius", "clock_hertz"}),
        "temperatures": frozenset({"temperature_celsius"}),
        "voltage": frozenset({"voltage_volts"}),
        "ecc": frozenset({"ecc_corrected_total", "ecc_uncorrected_total", "retired_pages", "retired_pages_pending"}),
        "pcie-errors": frozenset({"pcie_replays_total", "pcie_errors_total"}),
        "health": frozenset(),
        "board": frozenset(),
        "card": frozenset(),
        "mapping": frozenset(),
    }
)


_TABLES = ("temperature_celsius", "core")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one run says; `complete` is False when it may not list all cards, should the tool have failed."""

    report: Report
    complete: bool = True


def parse(capture: Capture) -> Report:
    """What npu-smi said: devices and readings, or the reason why there are none."""
    report = report_on(capture, _one, SILENT)
    added = _ADDED.get(capture.poll)
    if added is None:
        return report
    readings = (item for item in report.readings if item.metric in added)
    return replace(report, readings=tuple(item for item in readings if (item.metric, item.label) != _TABLES))


def _one(output: Output) -> Report:
    refusal = too_long(output, TOOL)
    if refusal is not None:
        return refusal
    stdout, stderr = lines(output.text), lines(output.stderr, "stderr")
    asked = arguments_of(output.name, TOOL) or ()
    readings_of_it = (stdout, without_prefix(stdout), without_commands(stdout, TOOL))
    answers = next(filter(None, (_answers(found, asked, output.target) for found in readings_of_it)), [])
    if not answers:
        return _nothing(output, [*stdout, *stderr])
    report = combine_reports([answer.report for answer in answers])
    if output.status and not all(answer.complete for answer in answers):
        return failed_midway(report, output.status)
    if report.outcome != "ok":
        return report
    return with_complaints(report, output)


def _answers(found: Sequence[Line], asked: Sequence[str], target: str) -> list[_Answer]:
    read = [(run, list(_answers_of(run, asked, target))) for run in runs(found, TOOL)]
    if not any(answers for _, answers in read):
        return []
    return [answer for run, answers in read for answer in answers or _failures(run)]


def _failures(run: Run) -> Iterator[_Answer]:
    """What a command failed with, where others beside it gave answers."""
    problems = tuple(failure_of(run.lines, ERRORS)) if run.arguments else ()
    if run.arguments and not any(line.text.strip() for line in run.lines):
        problems = (Problem("text", f"no answer to {TOOL} {quote(' '.join(run.arguments))}"),)
    if problems:
        yield _Answer(Report("ok", problems=problems))


def _answers_of(run: Run, asked: Sequence[str], target: str) -> Iterator[_Answer]:
    """The answers in a run; of several, one that does not say of which chip it is may be of any."""
    parts = segments(run)
    for part in parts:
        answer = _shape(part, asked, target)
        is_nobodys = answer is not None and any(device.index is None for device in answer.report.devices)
        if answer is not None and is_nobodys and (len(parts) > 1 or run.arguments):
            problem = Problem(part.lines[0].where, "an answer that doesn't say of which chip it is is not read")
            answer = _Answer(Report("ok", problems=(problem,)))
        if answer is not None:
            yield answer


def _shape(run: Run, asked: Sequence[str], target: str) -> _Answer | None:
    """The answer by the shape that the run has, None when it has none of the tool's."""
    if table.is_table(run.lines):
        page, space = table.read(run.lines)
        empty = not page.places()
        outcome = "failed" if empty and page.cut else "no_devices" if empty else "ok"
        return _answer(page, space, outcome)
    if rows.is_mapping(run.lines):
        return _answer(*rows.read_mapping(run.lines))
    if rows.is_watch(run.lines):
        return _answer(rows.read_watch(run.lines))
    if rows.is_topology(run.lines):
        return _answer(rows.read_topology(run.lines))
    common = frozenset[str]() if "-t" in run.arguments else keys.COMMON_WORDS
    if blocks.is_blocks(run.lines, common):
        return _answer(blocks.read(run.lines, _place(run, asked, target)))
    return _facts_only(run.lines)


def _place(run: Run, asked: Sequence[str], target: str) -> Place:
    """The card and the chip that the command named, by the text itself or by the reader."""
    named = run if run.arguments else Run(tuple(asked), ())
    return Place(units.whole(named.value_of("-i") or target), units.whole(named.value_of("-c")))


def _answer(page: Page, space: str = "", outcome: str = "ok") -> _Answer:
    report = page.report(space)
    if outcome == "failed":
        return _Answer(Report("failed", "not_understood", problems=report.problems, facts=report.facts), complete=False)
    return _Answer(replace(report, outcome="no_devices") if outcome == "no_devices" else report, page.complete)


def _facts_only(found: Sequence[Line]) -> _Answer | None:
    """The version line of `npu-smi -v`."""
    versions = [match[1] for line in found if line.ended and (match := _VERSION.match(line.text))]
    return _Answer(Report("ok", facts=(("tool_version", versions[0]),))) if versions else None


def _nothing(output: Output, found: Sequence[Line]) -> Report:
    """The report on a text without any shape of the tool's."""
    silence = report_on_silence(output, found, SILENT)
    if silence is not None:
        return silence
    if output.target and _is_unsupported(found):
        return Report("ok")  # what a product cannot tell is quiet when every card is asked for it
    return report_on_error(output, found, TOOL, ERRORS) or report_on_unknown(output, found, TOOL)


def _is_unsupported(found: Sequence[Line]) -> bool:
    first = next((line.text.lower() for line in found if line.text.strip()), "")
    return any(words in first for words in _UNSUPPORTED)


def _per_card(name: str, kind: str, interval: float, *, first_chip: bool = False) -> Poll:
    """A poll that asks every card, since one call costs a third of a second and answers for one card only.

    Some answers want a chip: they are asked of the card's first one, and of the whole card where there are no chips.
    """
    line = (TOOL, "info", "-t", kind, "-i", "{card}")
    lines = ((*line, "-c", "0"), line) if first_chip else (line,)
    request = Command(alternatives=lines, folders=_FOLDERS, per="card")
    return Poll(name, request, "slow" if interval < 300 else "inventory", interval, 30.0, lists_devices=False)


_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/bin")
_MAPPING = Command(alternatives=((TOOL, "info", "-m"),), folders=_FOLDERS)
PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=tuple(dict.fromkeys((*table.GIVES, "memory_used_ratio", *keys.GIVES))),
    polls=(
        Poll("readings", Command(alternatives=((TOOL, "info"),), folders=_FOLDERS)),
        Poll("mapping", _MAPPING, "inventory", 300.0, lists_devices=False),
        _per_card("usages", "usages", 60.0),
        _per_card("common", "common", 60.0),
        _per_card("memory", "memory", 60.0),
        _per_card("temperatures", "temp", 120.0),
        _per_card("voltage", "volt", 120.0),
        _per_card("board", "board", 300.0, first_chip=True),
        _per_card("card", "board", 300.0),
        _per_card("ecc", "ecc", 300.0),
        _per_card("health", "health", 300.0, first_chip=True),
        _per_card("pcie-errors", "pcie-err", 300.0, first_chip=True),
    ),
    parse=parse,
)
