"""Failed reports, error texts and problem texts that the parsers of several tools share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Outcome, Problem, Reason, Report
from telemetry_parsers.text.lines import Line, quote

CUT_LINE = "the text ends inside this line, which is not read"
CUT_TABLE = "the table is cut off here; further cards may be missing"
CUT_PROCESSES = "the process table is cut off here, so the processes are not counted"
SHORTENED = "the text was shortened here"
PROCESS_TABLE = "the process table"


def not_understood(text: str) -> str:
    """Return the problem text for a line that cannot be parsed."""
    return f"not understood: {quote(text)}"


def value_without_key(text: str) -> str:
    """Return the problem text for a value without a key in front of it."""
    return f"the key of this value is missing: {quote(text)}"


def wrong_cells(text: str) -> str:
    """Return the problem text for a row that does not fit the headings."""
    return f"the row does not fit the headings: {quote(text)}"


def not_a_row(text: str, table: str = "the table") -> str:
    """Return the problem text for a line in a table that is not a row."""
    return f"the line is not a row of {table}: {quote(text)}"


def listed_twice(item: str) -> str:
    """Return the problem text for an item, such as `card 3`, that is listed twice."""
    return f"{item} is listed a second time; the first is kept"


def wrong_count(printed_count: int | str, listed: int) -> str:
    """Return the problem text for a list whose length differs from the printed number of cards."""
    return f"the tool reports {printed_count} cards, but lists {listed}"


def broken_document(fault: str) -> str:
    """Return the problem text for truncated or invalid JSON."""
    return f"cut off or broken: {fault}"


def several_runs(runs: int) -> str:
    """Return the problem text for a text with the output of several runs of a tool."""
    return f"the text contains {runs} runs of the tool; only the last run is read"


MAX_PROBLEMS = 12


@dataclass(frozen=True, slots=True)
class ErrorText:
    """Lower-case words that a tool prints when it fails, with the reason and a remedy."""

    words: str
    outcome: Outcome
    reason: Reason | None = None
    remedy: str = ""


# Error texts that many tools print. The tool's own error texts are searched first.
_COMMON_ERRORS = (
    ErrorText("permission denied", "failed", "no_permission", "run as a user who may open the device nodes"),
    ErrorText("operation not permitted", "failed", "no_permission", "run as a user who may open the device nodes"),
    ErrorText("driver not loaded", "failed", "driver_gone", "load the kernel driver"),
    ErrorText("driver is not loaded", "failed", "driver_gone", "load the kernel driver"),
    ErrorText("driver not initialized", "failed", "driver_gone", "load the kernel driver"),
    ErrorText("failed to load driver", "failed", "driver_gone", "load or reinstall the kernel driver"),
    ErrorText("communicate with the driver", "failed", "driver_gone", "load the kernel driver"),
    ErrorText("unrecognized option", "wrong_request"),
    ErrorText("unrecognized argument", "wrong_request"),
    ErrorText("unknown option", "wrong_request"),
    ErrorText("invalid option", "wrong_request"),
    ErrorText("command not found", "failed", "exit_status", "install the tool or give its path"),
    ErrorText("executable file not found", "failed", "exit_status", "install the tool or give its path"),
    ErrorText(": not found", "failed", "exit_status", "install the tool or give its path"),
    ErrorText("error while loading shared libraries", "failed", "library_mismatch", "reinstall the driver package"),
    ErrorText("segmentation fault", "failed", "killed"),
)
# A line that begins with one of these words, but contains no known error text, reports an unknown error.
_ERROR_BEGINNINGS = ("error", "fatal", "failed", "traceback", "[error]", "terminate called")


def failed(reason: Reason, where: str, text: str) -> Report:
    """Return a failed report with one problem."""
    return Report(outcome="failed", reason=reason, problems=(Problem(where, text),))


def failed_midway(report: Report, status: int) -> Report:
    """Return a failure for a tool that exited while it listed the devices. Keep the report's problems and facts."""
    reason: Reason = "killed" if status < 0 else "exit_status"
    problem = Problem("exit status", f"exit status {status}: the tool ended inside its list of devices")
    return Report("failed", reason, problems=(problem, *report.problems), facts=report.facts)


def reader_failure(capture: Capture) -> Report | None:
    """Return a failed report if the capture's reader failed, else None."""
    if capture.failure is None:
        return None
    return failed(capture.failure.reason or "internal", "reader", capture.failure.text)


def error_report(lines: Iterable[Line], status: int | None, tool_errors: Sequence[ErrorText] = ()) -> Report | None:
    """Return a report on the first known error in these lines, else on the first unknown error, else None."""
    unknown_error: Line | None = None
    for line in lines:
        text = line.text.lower()
        for error in (*tool_errors, *_COMMON_ERRORS):
            if error.words in text:
                remedy = f" ({error.remedy})" if error.remedy else ""
                problem = Problem(line.where, quote(line.text) + remedy)
                return Report(outcome=error.outcome, reason=error.reason, problems=(problem,))
        if unknown_error is None and text.lstrip().startswith(_ERROR_BEGINNINGS):
            unknown_error = line
    if unknown_error is None:
        return None
    return failed("exit_status" if status else "not_understood", unknown_error.where, quote(unknown_error.text))


def capped(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return at most 12 problems. The last may be a count such as `and 31 more problems`."""
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    omitted_count = len(problems) - MAX_PROBLEMS + 1
    return (*problems[: MAX_PROBLEMS - 1], Problem("text", f"and {omitted_count} more problems"))
