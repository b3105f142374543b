"""Huawei's hccn_tool: answers of its sub-commands, alone or one after another with their command lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from telemetry_parsers import units
from telemetry_parsers.combining.outputs import combine_reports
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Output, Poll, Problem, Report
from telemetry_parsers.text.echoes import Run, arguments_of, runs, without_commands
from telemetry_parsers.text.lines import Line, foreign_tool, lines, quote
from telemetry_parsers.text.outputs import (
    failure_of,
    report_on_error,
    report_on_runs,
    report_on_silence,
    report_on_unknown,
    too_long,
    with_complaints,
)
from telemetry_parsers.text.prefixes import without_prefix
from telemetry_parsers.vendors.ascend.hccn_tool.answer import Answer, read
from telemetry_parsers.vendors.ascend.hccn_tool.keys import ERRORS, FLAGS, GIVES, TOOL, VENDOR, Port

_SILENT = "no output: a chip whose port has no such setting answers with nothing"


def parse(capture: Capture) -> Report:
    """What hccn_tool said of the ports, or the reason why it said nothing."""
    return report_on_runs(capture, _one, _SILENT)


def _one(output: Output) -> Report:
    refusal = too_long(output, TOOL)
    if refusal is not None:
        return refusal
    stdout, stderr = lines(output.text), lines(output.stderr, "stderr")
    tool = foreign_tool(output.text + output.stderr, TOOL)
    reports = [] if tool else _reports(stdout, output) or _reports(without_prefix(stdout), output)
    if not reports:
        return _nothing(output, [*without_commands(stdout, TOOL), *stderr])
    return with_complaints(combine_reports(reports), output)


def _reports(found: Sequence[Line], output: Output) -> list[Report]:
    """A report on each answer, and on each command that failed beside one that did not."""
    found_runs = [(run, [answer.report() for answer in _answers(run, output)]) for run in runs(found, TOOL)]
    if not any(reports for _, reports in found_runs):
        return []
    are_named = any(run.arguments for run, _ in found_runs)
    for run, reports in found_runs if are_named else ():
        if any(all(device.index is None for device in report.devices) for report in reports):
            text = "an answer whose command is lost, or names no device, is not read: it may be any device's"
            reports[:] = [Report(problems=(Problem(run.lines[0].where, text),))]
    return [report for run, reports in found_runs for report in reports or _failures(run)]


def _failures(run: Run) -> Iterator[Report]:
    problems = tuple(failure_of(run.lines, ERRORS)) if run.arguments else ()
    lines = [line for line in run.lines if line.text.strip()]
    if not problems and FLAGS.keys() & set(run.arguments) and (not lines or ":" in lines[0].text):
        text = f"no answer that is understood to {TOOL} {quote(' '.join(run.arguments))}"
        problems = (Problem(lines[0].where if lines else "text", text),)
    if problems:
        yield Report("ok", problems=problems)


def _answers(run: Run, output: Output) -> Iterator[Answer]:
    named = run if run.arguments else Run(arguments_of(output.name, TOOL) or (), ())
    device = units.whole(named.value_of("-i") or output.target)
    port = Port(_digits(named.value_of("-u")), _digits(named.value_of("-p")))
    yield from read(run.lines, device, port, named.arguments)


def _digits(text: str) -> str:
    return text if units.whole(text) is not None else ""


def _nothing(output: Output, found: Sequence[Line]) -> Report:
    """The report on a text without any answer of the tool's."""
    silence = report_on_silence(output, found, _SILENT)
    return silence or report_on_error(output, found, TOOL, ERRORS) or report_on_unknown(output, found, TOOL)


_FOLDERS = ("/usr/local/Ascend/driver/tools", "/usr/local/bin", "/usr/bin")


def _poll(name: str, seconds: float, *lines: tuple[str, ...]) -> Poll:
    """A question to every chip; none of the tool's own measuring modes, which take seconds."""
    request = Command(alternatives=tuple((TOOL, *line) for line in lines), folders=_FOLDERS, per="device")
    return Poll(name, request, "slow" if seconds < 300 else "inventory", seconds, 30.0, lists_devices=False)


PARSER = SourceParser(
    name="hccn-tool",
    vendor=VENDOR,
    gives=GIVES,
    polls=(
        _poll("link", 60.0, ("-i", "{device}", "-link", "-g"), ("-g", "-dev_info", "-i", "{device}")),
        _poll("flaps", 60.0, ("-i", "{device}", "-link_stat", "-g")),
        _poll("statistics", 60.0, ("-i", "{device}", "-stat", "-g")),
        _poll("speed", 300.0, ("-i", "{device}", "-speed", "-g")),
        _poll("net-health", 300.0, ("-i", "{device}", "-net_health", "-g")),
    ),
    parse=parse,
)
