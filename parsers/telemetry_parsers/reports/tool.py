"""A tool in data: whose it is, which shapes its output has, what its errors and its silence mean; frame.py works by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from telemetry_parsers.model import Form, Output, Problem, Report, Value
from telemetry_parsers.reports.draft import Draft, Wording, by_metric
from telemetry_parsers.text.answers import ErrorText, error_report, failed
from telemetry_parsers.text.echoes import Run, arguments_of
from telemetry_parsers.text.lines import Line, lines, quote

# What a vendor's words are for one shape: a Box, a List, a Monitor.
_Words = TypeVar("_Words")


@dataclass(frozen=True, slots=True)
class Text:
    """One answer of a tool; `arguments` are those of the command line that the text repeats before it."""

    lines: Sequence[Line]
    arguments: tuple[str, ...] = ()
    output: Output = field(default_factory=Output)

    @property
    def joined(self) -> str:
        """The lines as one text, for shapes that are no lines, such as JSON."""
        return "".join(line.text + "\n" * line.ended for line in self.lines)

    def command_of(self, tool: str) -> Run:
        """The command that the text answers, as it repeats it itself or as the reader names it."""
        return Run(self.arguments or arguments_of(self.output.name, tool) or (), ())

    @property
    def all_lines(self) -> list[Line]:
        """The lines of both streams of the whole output, in which errors are looked for."""
        return [*lines(self.output.text), *lines(self.output.stderr, "stderr")]


# Reads a text into a draft where it has the reader's shape; True if it has.
Reader = Callable[[Text, Draft], bool]
# The report on a text of a shape that lists no device, from what was read of it.
Empty = Callable[[Report, Text, "Tool"], Report]
# The report on an output without any shape of the tool's, from the lines of both streams; None where it is another thing.
Refusal = Callable[[Output, Sequence[Line]], Report | None]


def _needs_devices(report: Report, text: Text, tool: Tool) -> Report:
    """Of a list of devices without any: the error in it, what was not understood, or that there is none."""
    error = error_report(text.all_lines, text.output.status, tool.errors)
    if error is not None:
        return replace(error, facts=report.facts)
    if report.problems:
        first = "; ".join(problem.text for problem in report.problems[:3])
        return replace(failed("not_understood", report.problems[0].where, quote(first)), facts=report.facts)
    return Report("no_devices", problems=(Problem("text", f"{tool.name} lists no device"),), facts=report.facts)


def must_be_whole(report: Report, text: Text, _tool: Tool) -> Report:
    """Of a list that shows its end: a whole one without devices means that there is none, one that is cut off does not."""
    if report.is_cut and not text.output.status:
        return Report("failed", "not_understood", problems=report.problems, facts=report.facts)
    return replace(report, outcome="no_devices")


def may_be_empty(report: Report, text: Text, tool: Tool) -> Report:
    """Of a shape that does not list the devices, such as their processes: as a list, but none is fine."""
    listed = _needs_devices(report, text, tool)
    return Report(facts=report.facts) if listed.outcome == "no_devices" else listed


def is_fine(report: Report, _text: Text, _tool: Tool) -> Report:
    """Of one of several answers about a device: fine as it is, with its problems; others may list devices."""
    return replace(report, outcome="ok")


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of a tool's output; `empty` makes the report where it lists no device. `tables` hold the targets that it reads."""

    read: Reader
    form: Form = "text"
    empty: Empty = _needs_devices
    tables: tuple[object, ...] = ()


def of_lines(
    is_it: Callable[[Sequence[Line]], bool],
    read: Callable[[Sequence[Line], Draft], None],
    empty: Empty = _needs_devices,
    tables: tuple[object, ...] = (),
) -> Shape:
    """A shape of one tool: `is_it` knows it by its lines, `read` reads them."""

    def read_if(text: Text, draft: Draft) -> bool:
        has_shape = is_it(text.lines)
        if has_shape:
            read(text.lines, draft)
        return has_shape

    return Shape(read_if, "text", empty, tables)


def shape(
    is_it: Callable[[Sequence[Line], _Words], bool],
    read: Callable[[Sequence[Line], _Words, Draft], None],
    words: _Words,
) -> Shape:
    """A shape that many vendors' tools have, in one vendor's words."""
    return of_lines(lambda lines: is_it(lines, words), lambda lines, draft: read(lines, words, draft), tables=(words,))


@dataclass(frozen=True, slots=True)
class Several:
    """How one text holds several answers of a tool that is asked for one device at a time: each behind its command line.

    `parts` are the answers behind one command line. `missing` is the problem of a command without any answer. `nobodys` is
    the problem of an answer beside others that has a device without an index: it may be any device's, and is not read.
    """

    command: str
    nobodys: str
    parts: Callable[[Run], Sequence[Run]]
    missing: Callable[[Run], Problem | None]


def _as_it_is(report: Report, _output: Output) -> Report:
    return report


def _any_line(_text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: the shapes of its output in the order in which they are tried, its errors, what its silence means.

    What few tools need:
    - `index_space`: where the numbers of devices are not the tool's own.
    - `words`: what the tool prints in place of any number. `wording`: how it words a bad number (see draft.py).
    - `quiet_statuses`: exit statuses with which a version ends although all is well.
    - `several`: for a tool that answers for one device at a time.
    - `marks_first`: the marks of other tools make a text foreign before any shape is tried, since the shapes are those of
      kindred tools. False where the shapes are the tool's own, and a device's name may bear another's mark.
    - `refusals`: what the tool says in place of devices, asked before its `errors`; `remnants`: asked behind them.
    - `is_complaint`: which lines of the error stream a person should see.
    - `finish`: the last word on the report of an output.
    """

    name: str
    vendor: str
    shapes: tuple[Shape, ...]
    silent: str
    errors: tuple[ErrorText, ...] = ()
    index_space: str | None = None
    words: Mapping[str, Value] = field(default_factory=dict)
    wording: Wording = by_metric
    quiet_statuses: frozenset[int] = frozenset()
    several: Several | None = None
    marks_first: bool = True
    refusals: tuple[Refusal, ...] = ()
    remnants: tuple[Refusal, ...] = ()
    is_complaint: Callable[[str], bool] = _any_line
    finish: Callable[[Report, Output], Report] = _as_it_is

    def draft(self) -> Draft:
        """An empty draft for one of its texts."""
        space = self.name if self.index_space is None else self.index_space
        return Draft(self.vendor, self.wording, self.words, space)
