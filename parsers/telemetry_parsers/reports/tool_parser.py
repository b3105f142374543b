"""Creates the parsers of tools. A parser reads a tool's output with the first shape that fits."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial

from telemetry_parsers.combining import combine_reports
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.dataclass import dataclass, fields, is_dataclass, replace
from telemetry_parsers.model import Capture, Command, Output, Poll, Problem, Reading, Reason, Report, Request
from telemetry_parsers.reports.targets import Target
from telemetry_parsers.reports.tool import DeviceTool, Tool, ToolText
from telemetry_parsers.text.answers import ErrorText, capped, error_report, failed, failed_midway, reader_failure
from telemetry_parsers.text.echoes import (
    Run,
    has_prefixed_document,
    split_runs,
    without_commands,
    without_echoes,
    without_notes,
    without_prefix,
)
from telemetry_parsers.text.lines import MAX_LINES, Line, lines, quote
from telemetry_parsers.text.tool_marks import foreign_tool


def report_on(
    capture: Capture, read: Callable[[Output], Report], no_output: str, quiet_statuses: Container[int] = ()
) -> Report:
    """Return one report on all outputs, after removing prompts, typed commands and messages of other programs."""
    commands = _command_names(capture.request)
    outputs = tuple(_change_texts(output, lambda text: without_echoes(text, commands)) for output in capture.outputs)
    return _report_on_runs(replace(capture, outputs=outputs), read, no_output, quiet_statuses)


def _report_on_runs(
    capture: Capture, read: Callable[[Output], Report], no_output: str, quiet_statuses: Container[int] = ()
) -> Report:
    """Return one report on all outputs, without removing typed commands, which name the devices."""
    failure = reader_failure(capture)
    if failure is not None:
        return failure
    outputs = [_change_texts(output, without_notes) for output in capture.outputs]
    reports = [_with_exit_status_problem(read(output), output, quiet_statuses) for output in outputs]
    return combine_reports(reports or [failed("not_understood", "text", no_output)])


def _command_names(request: Request) -> frozenset[str]:
    return frozenset(line[0] for line in request.alternatives) if isinstance(request, Command) else frozenset()


def _change_texts(output: Output, change: Callable[[str], str]) -> Output:
    text, stderr = change(output.text), change(output.stderr)
    is_same = (text, stderr) == (output.text, output.stderr)
    return output if is_same else replace(output, text=text, stderr=stderr)


def _with_exit_status_problem(report: Report, output: Output, quiet_statuses: Container[int]) -> Report:
    if report.outcome != "ok" or not output.status or output.status in quiet_statuses:
        return report
    problem = Problem("exit status", f"exit status {output.status} despite output")
    return replace(report, problems=(*report.problems, problem))


def _report_on_long_output(output: Output, tool: str) -> Report | None:
    count = output.text.count("\n") + output.stderr.count("\n")
    if count <= MAX_LINES:
        return None
    return failed("not_understood", "text", f"the text has {count} lines, more than {tool} prints")


def _report_on_silence(output: Output, printed_lines: Sequence[Line], no_output: str) -> Report | None:
    if any(line.text.strip() for line in printed_lines):
        return None
    if output.status:
        return failed("exit_status", "exit status", f"exit status {output.status} and no output")
    return failed("not_understood", "text", no_output)


def _report_on_error(output: Output, printed_lines: Sequence[Line], tool: Tool) -> Report | None:
    """Return a report if another tool printed the output, or if it contains an error. Return None otherwise."""
    foreign = foreign_tool(output.text + output.stderr, tool.name)
    if foreign is not None:
        return Report("not_mine", problems=(Problem("text", f"this is output of {foreign}, not of {tool.name}"),))
    return error_report(printed_lines, output.status, tool.errors)


def known_error_problems(printed_lines: Sequence[Line], errors: Sequence[ErrorText]) -> Sequence[Problem]:
    """Return a problem for the first known error in these lines, or () if there is none."""
    report = error_report(printed_lines, None, errors)
    # Unknown errors are ignored, because some keys, such as `Error Count`, begin like an error message.
    is_known = report is not None and report.outcome == "failed" and report.reason != "not_understood"
    return report.problems if report is not None and is_known else ()


def _report_on_unknown(output: Output, printed_lines: Sequence[Line], tool: str) -> Report:
    first_line = next(line for line in printed_lines if line.text.strip())
    reason: Reason = "exit_status" if output.status else "not_understood"
    return failed(reason, first_line.where, f"not a known output of {tool}: {quote(first_line.text)}")


@dataclass(frozen=True, slots=True)
class _AnswerReport:
    report: Report
    is_open: bool = False  # the list has no end mark


def parse(capture: Capture, tool: Tool) -> Report:
    """Parse a tool's outputs into one report."""
    parse_capture = report_on if tool.per_device is None else _report_on_runs
    return parse_capture(
        capture, lambda output: tool.finish(_parse_output(output, tool), output), tool.no_output, tool.quiet_statuses
    )


def _parse_output(output: Output, tool: Tool) -> Report:
    failure = _report_on_long_output(output, tool.name)
    if failure is not None:
        return failure
    is_foreign = tool.checks_marks_first and foreign_tool(output.text + output.stderr, tool.name) is not None
    stdout = lines(output.text)
    answers = [] if is_foreign else _best_answers(stdout, output, tool)
    if not answers:
        printed_lines = stdout if tool.per_device is None else without_commands(stdout, tool.per_device.command)
        return _report_without_shape(output, [*printed_lines, *lines(output.stderr, "stderr")], tool)
    report = combine_reports([answer.report for answer in answers])
    if report.outcome not in ("ok", "no_devices"):
        return report
    if output.status and any(answer.is_open for answer in answers):
        return failed_midway(report, output.status)
    return _with_stderr_problems(report, output, tool)


def _best_answers(stdout: Sequence[Line], output: Output, tool: Tool) -> list[_AnswerReport]:
    """Return the answers in the first candidate text that lists a device, or else the first answers found."""
    fallback: list[_AnswerReport] = []
    for printed_lines in _candidate_texts(stdout, tool):
        answers = _parse_lines(printed_lines, output, tool)
        if answers and (tool.per_device is not None or any(answer.report.devices for answer in answers)):
            return answers
        fallback = fallback or answers
    return fallback


def _candidate_texts(stdout: Sequence[Line], tool: Tool) -> Iterator[Sequence[Line]]:
    """Yield the text with and without line prefixes and typed commands. The likeliest variant is first."""
    bare = without_prefix(stdout)
    candidates = (
        [stdout] if bare == stdout else [bare, stdout] if has_prefixed_document(stdout, bare) else [stdout, bare]
    )
    yield from candidates
    if tool.per_device is not None and (without_typed := without_commands(stdout, tool.per_device.command)) != stdout:
        yield without_typed


def _parse_lines(printed_lines: Sequence[Line], output: Output, tool: Tool) -> list[_AnswerReport]:
    if tool.per_device is None:
        answer = _parse_text(ToolText(printed_lines, (), output), tool)
        return [] if answer is None else [answer]
    run_parts = [(run, tool.per_device.split_run(run)) for run in split_runs(printed_lines, tool.per_device.command)]
    is_only_answer = len(run_parts) == 1 and len(run_parts[0][1]) == 1 and not run_parts[0][0].arguments
    ambiguity = None if is_only_answer else tool.per_device.unnamed_problem
    answers_by_run = [(run, list(_parse_parts(parts, output, tool, ambiguity))) for run, parts in run_parts]
    if not any(answers for _, answers in answers_by_run):
        return []
    return [answer for run, answers in answers_by_run for answer in answers or _failures(run, tool, tool.per_device)]


def _parse_parts(parts: Sequence[Run], output: Output, tool: Tool, ambiguity: str | None) -> Iterator[_AnswerReport]:
    """Yield the answers to one command. Answers without a device index become the problem `ambiguity`, if given."""
    for part in parts:
        answer = _parse_text(ToolText(part.lines, part.arguments, output), tool)
        if answer is not None and ambiguity and any(device.index is None for device in answer.report.devices):
            answer = _AnswerReport(Report(problems=(Problem(part.lines[0].where, ambiguity),)))
        if answer is not None:
            yield answer


def _failures(run: Run, tool: Tool, per_device: DeviceTool) -> Iterator[_AnswerReport]:
    if not run.arguments:
        return
    problem = per_device.missing_answer(run)
    problems = (problem,) if problem is not None else tuple(known_error_problems(run.lines, tool.errors))
    if problems:
        yield _AnswerReport(Report(problems=problems))


def _parse_text(text: ToolText, tool: Tool) -> _AnswerReport | None:
    for shape in tool.shapes if text.lines else ():
        draft = tool.create_draft()
        if shape.read(text, draft):
            report = draft.report(shape.form)
            if report.outcome != "failed" and not report.devices:
                report = shape.if_empty(report, text, tool)
            return _AnswerReport(report, draft.is_cut or draft.is_open)
    return None


def _with_stderr_problems(report: Report, output: Output, tool: Tool) -> Report:
    stderr = [line for line in lines(output.stderr, "stderr") if line.text.strip() and tool.is_complaint(line.text)]
    problems = capped([*report.problems, *(Problem(line.where, quote(line.text)) for line in stderr)])
    return replace(report, problems=problems)


def _report_without_shape(output: Output, printed_lines: Sequence[Line], tool: Tool) -> Report:
    report = _report_on_silence(output, printed_lines, tool.no_output)
    for fallback in tool.fallbacks:
        report = report or fallback(output, printed_lines)
    report = report or _report_on_error(output, printed_lines, tool)
    for fallback in tool.late_fallbacks:
        report = report or fallback(output, printed_lines)
    return report or _report_on_unknown(output, printed_lines, tool.name)


def parser_of(
    tool: Tool,
    *polls: Poll,
    more_metrics: Iterable[str] = (),  # metrics that are not in the tool's tables, such as a row count
    is_kept: Callable[[str, Reading], bool] | None = None,  # takes a poll's name and a reading
) -> SourceParser:
    """Create a tool's parser, which can report the metrics in the tool's tables."""
    metric_keys = dict.fromkeys((*_metric_keys([shape.tables for shape in tool.shapes]), *more_metrics))
    read = partial(parse, tool=tool) if is_kept is None else partial(_parse_and_filter, tool=tool, is_kept=is_kept)
    return SourceParser(tool.name.replace("_", "-"), tool.vendor, tuple(metric_keys), polls, read)


def _parse_and_filter(capture: Capture, tool: Tool, is_kept: Callable[[str, Reading], bool]) -> Report:
    report = parse(capture, tool)
    return replace(report, readings=tuple(item for item in report.readings if is_kept(capture.poll, item)))


def _metric_keys(table: object) -> Iterator[str]:
    if isinstance(table, Target):
        yield from (table.key,) if table.kind in ("metric", "health") else ()
    elif isinstance(table, Mapping):
        yield from _metric_keys([*table.values()])
    elif isinstance(table, tuple | list):
        for entry in table:
            yield from _metric_keys(entry)
    elif is_dataclass(table):
        yield from _metric_keys([getattr(table, field.name) for field in fields(table)])
