"""The declaration of a tool: its vendor, output shapes and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Form, Output, Problem, Report, Value
from telemetry_parsers.reports.draft import Draft, Wording, problem_by_metric
from telemetry_parsers.text.answers import ErrorText, error_report, failed
from telemetry_parsers.text.echoes import Run, arguments_of
from telemetry_parsers.text.lines import Line, lines, quote

# The type of an object with the keys, headings and targets of one tool.
_Words = TypeVar("_Words")


@dataclass(frozen=True, slots=True)
class ToolText:
    """The text that a tool printed for one command, and the command's arguments if known."""

    lines: Sequence[Line]
    arguments: tuple[str, ...] = ()
    output: Output = field(default_factory=Output)

    @property
    def joined(self) -> str:
        """Return the lines as one text, for formats such as JSON."""
        return "".join(line.text + "\n" * line.ended for line in self.lines)

    def command_of(self, tool: str) -> Run:
        """Return the arguments of the command that printed this text, as a `Run` without lines."""
        return Run(self.arguments or arguments_of(self.output.name, tool) or (), ())

    @property
    def all_lines(self) -> list[Line]:
        """Return the lines of standard output, followed by those of standard error."""
        return [*lines(self.output.text), *lines(self.output.stderr, "stderr")]


# A function that reads a text into the draft. It returns False if the text does not have the reader's shape.
Reader = Callable[[ToolText, Draft], bool]
# A function that returns the final report for a text in which no device is listed.
NoDevicesHandler = Callable[[Report, ToolText, "Tool"], Report]
# A function that reports on output in which no shape fits. It returns None if it does not recognise the output, either.
Fallback = Callable[[Output, Sequence[Line]], Report | None]


def _report_missing_devices(report: Report, text: ToolText, tool: Tool) -> Report:
    """Return the printed error, a failure if there are problems, or the outcome `no_devices`."""
    error = error_report(text.all_lines, text.output.status, tool.errors)
    if error is not None:
        return replace(error, facts=report.facts)
    if report.problems:
        first_problems = "; ".join(problem.text for problem in report.problems[:3])
        return replace(failed("not_understood", report.problems[0].where, quote(first_problems)), facts=report.facts)
    return Report("no_devices", problems=(Problem("text", f"{tool.name} lists no device"),), facts=report.facts)


def report_no_devices(report: Report, text: ToolText, _tool: Tool) -> Report:
    """Return the outcome `no_devices`, or a failure if the list is cut off although the exit status is 0."""
    if report.is_cut and not text.output.status:
        return Report("failed", "not_understood", problems=report.problems, facts=report.facts)
    return replace(report, outcome="no_devices")


def accept_no_devices(report: Report, text: ToolText, tool: Tool) -> Report:
    """Accept an empty list, such as a list of processes, unless an error was printed."""
    checked_report = _report_missing_devices(report, text, tool)
    return Report(facts=report.facts) if checked_report.outcome == "no_devices" else checked_report


def always_accept(report: Report, _text: ToolText, _tool: Tool) -> Report:
    """Accept an answer without devices, because other answers may list them."""
    return replace(report, outcome="ok")


@dataclass(frozen=True, slots=True)
class Shape:
    """One format of a tool's output. If the output lists no device, `if_empty` determines the report."""

    read: Reader
    form: Form = "text"
    if_empty: NoDevicesHandler = _report_missing_devices
    tables: tuple[object, ...] = ()


def of_lines(
    is_mark: Callable[[Line], object],
    read: Callable[[Sequence[Line], Draft], None],
    if_empty: NoDevicesHandler = _report_missing_devices,
    tables: tuple[object, ...] = (),
) -> Shape:
    """Return a shape for texts with a line for which `is_mark` is true."""

    def read_if_matching(text: ToolText, draft: Draft) -> bool:
        has_shape = any(map(is_mark, text.lines))
        if has_shape:
            read(text.lines, draft)
        return has_shape

    return Shape(read_if_matching, "text", if_empty, tables)


def shape(
    is_mark: Callable[[Line, _Words], object], read: Callable[[Sequence[Line], _Words, Draft], None], words: _Words
) -> Shape:
    """Return a shape that several tools share. `words` are the keys, headings and targets of one tool."""
    return of_lines(lambda line: is_mark(line, words), lambda lines, draft: read(lines, words, draft), tables=(words,))


@dataclass(frozen=True, slots=True)
class DeviceTool:
    """A tool that reports one device per call."""

    command: str
    unnamed_problem: str  # the problem to report if one of several answers does not name its device
    split_run: Callable[[Run], Sequence[Run]]  # splits the output of one command into answers
    missing_answer: Callable[[Run], Problem | None]  # returns the problem with a command that has no answer


def _unchanged(report: Report, _output: Output) -> Report:
    return report


def _accept_any_line(_text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Tool:
    """A vendor's tool, and the formats of its output (`shapes`) in the order in which they are tried."""

    name: str
    vendor: str
    shapes: tuple[Shape, ...]
    no_output: str
    errors: tuple[ErrorText, ...] = ()
    index_space: str | None = None  # the numbering of device indices; None if only this tool uses the numbering
    words: Mapping[str, Value] = field(default_factory=dict)  # words that the tool may print instead of any number
    wording: Wording = problem_by_metric  # returns the problem text for a bad number
    quiet_statuses: frozenset[int] = frozenset()  # exit statuses that are ignored if there is output
    per_device: DeviceTool | None = None  # for a tool that reports one device per call
    # If true, texts with the marks of another tool are rejected first, because this tool's shapes may fit them.
    checks_marks_first: bool = True
    fallbacks: tuple[Fallback, ...] = ()  # tried before `errors` if no shape fits
    late_fallbacks: tuple[Fallback, ...] = ()  # tried after `errors`
    is_complaint: Callable[[str], bool] = _accept_any_line  # selects lines of stderr that are shown to the operator
    finish: Callable[[Report, Output], Report] = _unchanged  # returns the final version of a report

    def create_draft(self) -> Draft:
        """Return an empty draft of a report on this tool's output."""
        space = self.name if self.index_space is None else self.index_space
        return Draft(self.vendor, self.wording, self.words, space)
