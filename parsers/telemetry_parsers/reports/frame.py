"""How every tool's text becomes a report: which output, which shape, what is left over; and the parser that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial

from telemetry_parsers.combining import combine_reports
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Output, Poll, Problem, Reading, Report
from telemetry_parsers.reports.targets import Target
from telemetry_parsers.reports.tool import Several, Text, Tool
from telemetry_parsers.text.answers import capped, failed_midway
from telemetry_parsers.text.echoes import Run, begins_a_document, runs, without_commands, without_prefix
from telemetry_parsers.text.lines import Line, lines, quote
from telemetry_parsers.text.outputs import (
    failure_of,
    report_on,
    report_on_error,
    report_on_runs,
    report_on_silence,
    report_on_unknown,
    too_long,
)
from telemetry_parsers.text.tool_marks import foreign_tool


@dataclass(frozen=True, slots=True)
class _Answer:
    """The report on one text; where it `is_open`, nothing shows that its list ended."""

    report: Report
    is_open: bool = False


def parse(capture: Capture, tool: Tool) -> Report:
    """The report of a tool's outputs: devices and readings, or the reason why there are none."""
    report = report_on if tool.several is None else report_on_runs
    return report(
        capture, lambda output: tool.finish(_report_of(output, tool), output), tool.silent, tool.quiet_statuses
    )


def _report_of(output: Output, tool: Tool) -> Report:
    refusal = too_long(output, tool.name)
    if refusal is not None:
        return refusal
    is_foreign = tool.marks_first and foreign_tool(output.text + output.stderr, tool.name) is not None
    stdout = lines(output.text)
    answers = [] if is_foreign else _best(stdout, output, tool)
    if not answers:
        printed = stdout if tool.several is None else without_commands(stdout, tool.several.command)
        return _without_shape(output, [*printed, *lines(output.stderr, "stderr")], tool)
    report = combine_reports([answer.report for answer in answers])
    if report.outcome not in ("ok", "no_devices"):
        return report
    if output.status and any(answer.is_open for answer in answers):
        return failed_midway(report, output.status)
    return _with_complaints(report, output, tool)


def _best(stdout: Sequence[Line], output: Output, tool: Tool) -> list[_Answer]:
    """The answers in the first way to read the lines that lists a device, else in the first that has any answer.

    Of a tool that answers for one device at a time, in the first that has any: the next may lose whose answer it is.
    """
    best: list[_Answer] = []
    for way in _ways_to_read(stdout, tool):
        answers = _answers(way, output, tool)
        if answers and (tool.several is not None or any(answer.report.devices for answer in answers)):
            return answers
        best = best or answers
    return best


def _ways_to_read(stdout: Sequence[Line], tool: Tool) -> Iterator[Sequence[Line]]:
    """The lines as they are; without what a launcher put before each; without commands that are no heads of answers.

    What surely was put there goes first: a part of a table or document can be read in spite of it.
    """
    bare = without_prefix(stdout)
    ways = [stdout] if bare == stdout else [bare, stdout] if begins_a_document(bare) else [stdout, bare]
    yield from ways
    if tool.several is not None and (left := without_commands(stdout, tool.several.command)) != stdout:
        yield left


def _answers(printed: Sequence[Line], output: Output, tool: Tool) -> list[_Answer]:
    if tool.several is None:
        answer = _answer(Text(printed, (), output), tool)
        return [] if answer is None else [answer]
    each = [(run, tool.several.parts(run)) for run in runs(printed, tool.several.command)]
    is_alone = len(each) == 1 and len(each[0][1]) == 1 and not each[0][0].arguments
    nobodys = None if is_alone else tool.several.nobodys
    read = [(run, list(_answers_in(parts, output, tool, nobodys))) for run, parts in each]
    if not any(answers for _, answers in read):
        return []
    return [answer for run, answers in read for answer in answers or _failures(run, tool, tool.several)]


def _answers_in(parts: Sequence[Run], output: Output, tool: Tool, nobodys: str | None) -> Iterator[_Answer]:
    """The answers behind a command line; one beside others that does not name its device may be of any."""
    for part in parts:
        answer = _answer(Text(part.lines, part.arguments, output), tool)
        if answer is not None and nobodys and any(device.index is None for device in answer.report.devices):
            answer = _Answer(Report(problems=(Problem(part.lines[0].where, nobodys),)))
        if answer is not None:
            yield answer


def _failures(run: Run, tool: Tool, several: Several) -> Iterator[_Answer]:
    """What a command failed with, where others beside it gave answers."""
    if not run.arguments:
        return
    missing = several.missing(run)
    problems = (missing,) if missing is not None else tuple(failure_of(run.lines, tool.errors))
    if problems:
        yield _Answer(Report(problems=problems))


def _answer(text: Text, tool: Tool) -> _Answer | None:
    """What the first shape that a text has reads in it."""
    for shape in tool.shapes if text.lines else ():
        draft = tool.draft()
        if shape.read(text, draft):
            report = draft.report(shape.form)
            if report.outcome != "failed" and not report.devices:
                report = shape.empty(report, text, tool)
            return _Answer(report, draft.is_cut or draft.is_open)
    return None


def _with_complaints(report: Report, output: Output, tool: Tool) -> Report:
    """The report with what the tool printed beside its data: the lines of its error stream."""
    stderr = [line for line in lines(output.stderr, "stderr") if line.text.strip() and tool.is_complaint(line.text)]
    problems = capped([*report.problems, *(Problem(line.where, quote(line.text)) for line in stderr)])
    return replace(report, problems=problems)


def _without_shape(output: Output, printed: Sequence[Line], tool: Tool) -> Report:
    """The report on a text without any shape of the tool's."""
    why = report_on_silence(output, printed, tool.silent)
    for refusal in tool.refusals:
        why = why or refusal(output, printed)
    why = why or report_on_error(output, printed, tool.name, tool.errors)
    for remnant in tool.remnants:
        why = why or remnant(output, printed)
    return why or report_on_unknown(output, printed, tool.name)


def parser_of(
    tool: Tool, *polls: Poll, also: Iterable[str] = (), keeps: Callable[[str, Reading], bool] | None = None
) -> SourceParser:
    """The parser of a tool; its source is named after it, `hccn-tool` after hccn_tool.

    `also` are the metrics that no table names, such as a number of rows. `keeps` says whether a poll of this name gives
    this reading, for polls whose text has readings that another poll gives more often.
    """
    gives = dict.fromkeys((*_metrics([shape.tables for shape in tool.shapes]), *also))
    read = partial(parse, tool=tool) if keeps is None else partial(_parse_kept, tool=tool, keeps=keeps)
    return SourceParser(tool.name.replace("_", "-"), tool.vendor, tuple(gives), polls, read)


def _parse_kept(capture: Capture, tool: Tool, keeps: Callable[[str, Reading], bool]) -> Report:
    report = parse(capture, tool)
    return replace(report, readings=tuple(item for item in report.readings if keeps(capture.poll, item)))


def _metrics(table: object) -> Iterator[str]:
    """The metrics of all targets in a table, in tables within it and in the fields of its rows."""
    if isinstance(table, Target):
        yield from (table.key,) if table.kind in ("metric", "health") else ()
    elif isinstance(table, Mapping):
        yield from _metrics([*table.values()])
    elif isinstance(table, tuple | list):
        for item in table:
            yield from _metrics(item)
    elif is_dataclass(table):
        yield from _metrics([getattr(table, field.name) for field in fields(table)])
