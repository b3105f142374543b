"""How a tool of this kind is asked what it said: whose output it is, which shape it has, or which error it tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from telemetry_parsers.boxed.page import Page
from telemetry_parsers.model import Capture, Form, Output, Problem, Report
from telemetry_parsers.text.answers import ErrorText, error_report, failed, failed_midway
from telemetry_parsers.text.lines import Line, foreign_tool, lines, quote
from telemetry_parsers.text.outputs import (
    report_on,
    report_on_error,
    report_on_silence,
    report_on_unknown,
    too_long,
    with_complaints,
)
from telemetry_parsers.text.prefixes import without_prefix

# Reads these lines onto a page where they have its shape; True if they have.
Reader = Callable[[Sequence[Line], Page], bool]
# What a vendor's words are for one shape: a Box, a List, a Monitor.
_Words = TypeVar("_Words")


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of a tool's output; `may_be_empty` is one that does not list the devices, such as their processes."""

    read: Reader
    form: Form = "text"
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: the shapes of its output in the order in which they are tried, its errors, what its silence means."""

    name: str
    vendor: str
    shapes: tuple[Shape, ...]
    silent: str
    errors: tuple[ErrorText, ...] = ()


def shape(
    is_it: Callable[[Sequence[Line], _Words], bool],
    read: Callable[[Sequence[Line], _Words, Page], None],
    words: _Words,
) -> Shape:
    """A shape that many vendors' tools have, in one vendor's words."""

    def read_if(lines: Sequence[Line], page: Page) -> bool:
        found = is_it(lines, words)
        if found:
            read(lines, words, page)
        return found

    return Shape(read_if)


def parse(capture: Capture, tool: Tool) -> Report:
    """What the tool said: devices and readings, or the reason why there are none."""
    return report_on(capture, lambda output: _one(output, tool), tool.silent)


def _one(output: Output, tool: Tool) -> Report:
    refusal = too_long(output, tool.name)
    if refusal is not None:
        return refusal
    foreign = foreign_tool(output.text + output.stderr, tool.name)
    stdout, stderr = lines(output.text), lines(output.stderr, "stderr")
    found = None if foreign else _read(stdout, tool)
    if foreign is None and (found is None or not found[0].size()):
        found = _read(_bare(stdout), tool) or found
    if found is None:
        return _nothing(output, [*stdout, *stderr], tool)
    page, shape = found
    report = page.report(tool.name, shape.form)
    if report.outcome == "failed":
        return report
    if not report.devices:
        empty = _without_devices(report, [*stdout, *stderr], output, tool)
        return Report(facts=report.facts) if shape.may_be_empty and empty.outcome == "no_devices" else empty
    if output.status and page.cut:
        return failed_midway(report, output.status)
    return with_complaints(report, output)


def _bare(stdout: Sequence[Line]) -> Sequence[Line]:
    bare = without_prefix(stdout)
    return bare if bare != list(stdout) else ()


def _read(found: Sequence[Line], tool: Tool) -> tuple[Page, Shape] | None:
    """The page of the first shape that the lines have, and that shape."""
    for shape in tool.shapes if found else ():
        page = Page(tool.vendor)
        if shape.read(found, page):
            return page, shape
    return None


def _without_devices(report: Report, found: Sequence[Line], output: Output, tool: Tool) -> Report:
    """The report on an output of the tool that lists no card: its error, or that there is none."""
    error = error_report(found, output.status, tool.errors)
    if error is not None:
        return replace(error, facts=report.facts)
    if report.problems:
        text = "; ".join(problem.text for problem in report.problems[:3])
        return replace(failed("not_understood", report.problems[0].where, quote(text)), facts=report.facts)
    return Report("no_devices", problems=(Problem("text", f"{tool.name} lists no device"),), facts=report.facts)


def _nothing(output: Output, found: Sequence[Line], tool: Tool) -> Report:
    """The report on a text without any shape of the tool's."""
    silence = report_on_silence(output, found, tool.silent)
    return (
        silence or report_on_error(output, found, tool.name, tool.errors) or report_on_unknown(output, found, tool.name)
    )
