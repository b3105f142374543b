"""What all parsers of texts share: each output in turn, and the reports on silence, an error, or an unknown text."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from telemetry_parsers.combining import combine_reports
from telemetry_parsers.model import Capture, Command, Output, Problem, Reason, Report, Request
from telemetry_parsers.text.answers import ErrorText, error_report, failed, not_read
from telemetry_parsers.text.echoes import without_echoes, without_notes
from telemetry_parsers.text.lines import MOST_LINES, Line, quote
from telemetry_parsers.text.tool_marks import foreign_tool


def report_on(
    capture: Capture, read: Callable[[Output], Report], silent: str, quiet_statuses: Container[int] = ()
) -> Report:
    """One report on all outputs of a capture, or on why there are none; `silent` is what no output at all means.

    A parser is given no prompt, no command and no note of ssh or kubectl. Exit statuses with which a version of the tool
    ends although all is well are no problem.
    """
    commands = _commands(capture.request)
    outputs = tuple(_on_texts(output, lambda text: without_echoes(text, commands)) for output in capture.outputs)
    return report_on_runs(replace(capture, outputs=outputs), read, silent, quiet_statuses)


def report_on_runs(
    capture: Capture, read: Callable[[Output], Report], silent: str, quiet_statuses: Container[int] = ()
) -> Report:
    """The report of a parser that reads the commands in a text itself, because they show what was asked."""
    refusal = not_read(capture)
    if refusal is not None:
        return refusal
    outputs = [_on_texts(output, without_notes) for output in capture.outputs]
    reports = [_with_status(read(output), output, quiet_statuses) for output in outputs]
    return combine_reports(reports or [failed("not_understood", "text", silent)])


def _commands(request: Request) -> frozenset[str]:
    """The names by which a poll runs its tool: `mx-smi` and `ht-smi`."""
    return frozenset(line[0] for line in request.alternatives) if isinstance(request, Command) else frozenset()


def _on_texts(output: Output, change: Callable[[str], str]) -> Output:
    text, stderr = change(output.text), change(output.stderr)
    is_same = (text, stderr) == (output.text, output.stderr)
    return output if is_same else replace(output, text=text, stderr=stderr)


def _with_status(report: Report, output: Output, quiet_statuses: Container[int]) -> Report:
    if report.outcome != "ok" or not output.status or output.status in quiet_statuses:
        return report
    problem = Problem("exit status", f"exit status {output.status} although there is output")
    return replace(report, problems=(*report.problems, problem))


def too_long(output: Output, tool: str) -> Report | None:
    """The report on an output with more lines than any tool prints, None where it can be read."""
    count = output.text.count("\n") + output.stderr.count("\n")
    return failed("not_understood", "text", f"{count} lines, as {tool} never prints") if count > MOST_LINES else None


def report_on_silence(output: Output, printed: Sequence[Line], silent: str) -> Report | None:
    """The report on an output without a word, None where there is one."""
    if any(line.text.strip() for line in printed):
        return None
    if output.status:
        return failed("exit_status", "exit status", f"exit status {output.status} and no output")
    return failed("not_understood", "text", silent)


def report_on_error(output: Output, printed: Sequence[Line], tool: str, errors: Sequence[ErrorText]) -> Report | None:
    """The report on an error that the tool prints, or on another tool's output; None where it is neither."""
    foreign = foreign_tool(output.text + output.stderr, tool)
    if foreign is not None:
        return Report("not_mine", problems=(Problem("text", f"this is output of {foreign}, not of {tool}"),))
    return error_report(printed, output.status, errors)


def failure_of(printed: Sequence[Line], errors: Sequence[ErrorText]) -> Sequence[Problem]:
    """The error in one of several answers, by the words that tools use for it; nothing where a product only lacks a feature."""
    report = error_report(printed, None, errors)
    # Not understood is what only begins like an error, such as the key `Error Count`.
    is_known = report is not None and report.outcome == "failed" and report.reason != "not_understood"
    return report.problems if report is not None and is_known else ()


def report_on_unknown(output: Output, printed: Sequence[Line], tool: str) -> Report:
    """The report on a text with nothing known in it, which it quotes."""
    first = next(line for line in printed if line.text.strip())
    reason: Reason = "exit_status" if output.status else "not_understood"
    return failed(reason, first.where, f"nothing that {tool} is known to print: {quote(first.text)}")
