"""The declaration of a tool: vendor, shapes of its output, meaning of its errors and of no output; used by frame.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Form, Output, Problem, Report, Value
from telemetry_parsers.reports.draft import Draft, Wording, by_metric
from telemetry_parsers.text.answers import ErrorText, error_report, failed
from telemetry_parsers.text.echoes import Run, arguments_of
from telemetry_parsers.text.lines import Line, lines, quote

# A vendor's words for one shape: a Box, a List, a Monitor.
_Words = TypeVar("_Words")


@dataclass(frozen=True, slots=True)
class Text:
    """One answer of a tool; `arguments` are those of the command line repeated before the answer."""

    lines: Sequence[Line]
    arguments: tuple[str, ...] = ()
    output: Output = field(default_factory=Output)

    @property
    def joined(self) -> str:
        """Return the lines as one text, for shapes that do not consist of lines, such as JSON."""
        return "".join(line.text + "\n" * line.ended for line in self.lines)

    def command_of(self, tool: str) -> Run:
        """Return the command line of the answer: the one repeated in the text, else the one in the output's name."""
        return Run(self.arguments or arguments_of(self.output.name, tool) or (), ())

    @property
    def all_lines(self) -> list[Line]:
        """Return the lines of both streams of the whole output, which are searched for errors."""
        return [*lines(self.output.text), *lines(self.output.stderr, "stderr")]


# Reads a text into a draft and returns True, if the text has this shape.
Reader = Callable[[Text, Draft], bool]
# Makes the report on a text that lists no device, from its draft report.
Empty = Callable[[Report, Text, "Tool"], Report]
# Makes the report on an output without any known shape from the lines of both streams; None if it is another output.
Refusal = Callable[[Output, Sequence[Line]], Report | None]


def _needs_devices(report: Report, text: Text, tool: Tool) -> Report:
    """Return the report on an empty list of devices: its error, what was not understood, or `no_devices`."""
    error = error_report(text.all_lines, text.output.status, tool.errors)
    if error is not None:
        return replace(error, facts=report.facts)
    if report.problems:
        first = "; ".join(problem.text for problem in report.problems[:3])
        return replace(failed("not_understood", report.problems[0].where, quote(first)), facts=report.facts)
    return Report("no_devices", problems=(Problem("text", f"{tool.name} lists no device"),), facts=report.facts)


def must_be_whole(report: Report, text: Text, _tool: Tool) -> Report:
    """Return the report on a list with an end mark: an empty complete list means no devices, a truncated one does not."""
    if report.is_cut and not text.output.status:
        return Report("failed", "not_understood", problems=report.problems, facts=report.facts)
    return replace(report, outcome="no_devices")


def may_be_empty(report: Report, text: Text, tool: Tool) -> Report:
    """Return the report on a shape without a device list, such as processes; an empty one is fine."""
    listed = _needs_devices(report, text, tool)
    return Report(facts=report.facts) if listed.outcome == "no_devices" else listed


def is_fine(report: Report, _text: Text, _tool: Tool) -> Report:
    """Return the report unchanged: other answers may list the devices."""
    return replace(report, outcome="ok")


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of a tool's output; `empty` makes the report if no device is listed. `tables` has the shape's targets."""

    read: Reader
    form: Form = "text"
    empty: Empty = _needs_devices
    tables: tuple[object, ...] = ()


def of_lines(
    is_mark: Callable[[Line], object],
    read: Callable[[Sequence[Line], Draft], None],
    empty: Empty = _needs_devices,
    tables: tuple[object, ...] = (),
) -> Shape:
    """Return a shape of one tool: some line is true for `is_mark`, and `read` reads all lines."""

    def read_if(text: Text, draft: Draft) -> bool:
        has_shape = any(map(is_mark, text.lines))
        if has_shape:
            read(text.lines, draft)
        return has_shape

    return Shape(read_if, "text", empty, tables)


def shape(
    is_mark: Callable[[Line, _Words], object], read: Callable[[Sequence[Line], _Words, Draft], None], words: _Words
) -> Shape:
    """Return a shape shared by several vendors' tools, in one vendor's words."""
    return of_lines(lambda line: is_mark(line, words), lambda lines, draft: read(lines, words, draft), tables=(words,))


@dataclass(frozen=True, slots=True)
class Several:
    """A text with several answers of a tool that is called for one device at a time, each after its command line."""

    command: str
    unclear: str  # the problem of an answer among others without an index: it could be of any device and is not read
    parts: Callable[[Run], Sequence[Run]]  # the answers after one command line
    missing: Callable[[Run], Problem | None]  # the problem of a command without an answer


def _as_it_is(report: Report, _output: Output) -> Report:
    return report


def _any_line(_text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: the shapes of its output in the order in which they are tried, its errors, the meaning of no output."""

    name: str
    vendor: str
    shapes: tuple[Shape, ...]
    silent: str
    errors: tuple[ErrorText, ...] = ()
    index_space: str | None = None  # whose numbering the device indices follow; None: the tool's own
    words: Mapping[str, Value] = field(default_factory=dict)  # printed instead of any number
    wording: Wording = by_metric  # how problems word a bad number
    quiet_statuses: frozenset[int] = frozenset()  # exit statuses that are no problem if there is output
    several: Several | None = None  # for a tool that answers for one device at a time
    # Marks of other tools make a text foreign before any shape is tried, because kindred tools have the same shapes.
    # False if the shapes are unique, since a device's name may contain another tool's mark.
    marks_first: bool = True
    refusals: tuple[Refusal, ...] = ()  # texts printed instead of devices, checked before `errors`
    remnants: tuple[Refusal, ...] = ()  # … and checked after `errors`
    is_complaint: Callable[[str], bool] = _any_line  # lines of the error stream that are shown to the operator
    finish: Callable[[Report, Output], Report] = _as_it_is

    def draft(self) -> Draft:
        """Return an empty draft for one of the tool's texts."""
        space = self.name if self.index_space is None else self.index_space
        return Draft(self.vendor, self.wording, self.words, space)
