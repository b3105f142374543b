"""What a library reader recorded of one poll: whether it is an answer, and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from telemetry_parsers.library_answers.plain import mapping
from telemetry_parsers.model import Absent, Output, Plain, Problem, Reading, Report
from telemetry_parsers.reports.draft import Draft, why
from telemetry_parsers.text.answers import failed
from telemetry_parsers.text.lines import TOOL_MARKS, quote


@dataclass(frozen=True, slots=True)
class RecordedLibrary:
    """A library and its reader: what it calls devices (an answer's key for them, too), and the most that a node has.

    `reasons` are its error numbers for one call: what the card or its driver does not have, what we may not see, what was
    not to be had this time.
    """

    name: str
    source: str
    vendor: str
    devices: str
    most: int
    reasons: Mapping[int, Absent]

    def draft(self) -> Draft:
        """An empty draft for one of its answers."""
        return Draft(self.vendor, _by_source, index_space=self.source)


def _by_source(item: Reading, source: str) -> str:
    """`GpuTemperature: temperature_celsius is implausible`."""
    return f"{source}: {item.metric} is {why(item).replace('_', ' ')}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader recorded of one poll: the node's part, the devices', and whatever else there is."""

    node: dict[str, Plain]
    devices: list[Plain]
    data: dict[str, Plain]


def answer_in(output: Output, library: RecordedLibrary) -> Answer | Report:
    """The answer that an output holds, or the report on why it holds none."""
    where = output.name or "output"
    if output.status:
        return failed("not_understood", where, f"{library.name} error {output.status}: {quote(output.stderr)}")
    if output.data is None and (output.text or output.stderr):
        return _printed(output, library)
    data = mapping(output.data)
    node, devices = data.get("node"), data.get(library.devices.lower())
    if not isinstance(devices, list) or not isinstance(node, dict):
        text_of = f"no answer of the reader {library.source}: it lists no {library.devices}"
        return failed("not_understood", where, text_of)
    if len(devices) > library.most:
        return failed("not_understood", where, f"{len(devices)} {library.devices}, as no node has")
    return Answer(node, devices, data)


def _printed(output: Output, library: RecordedLibrary) -> Report:
    """The report on a text: a library prints none, so it is some tool's."""
    printed = output.text + output.stderr
    tool = next((tool for tool, marks in TOOL_MARKS.items() if any(mark in printed for mark in marks)), "another tool")
    how = f"the source {library.source} reads recordings of the library, made by 'telemetry record'"
    return Report("not_mine", problems=(Problem("text", f"this is output of {tool}; {how}"),))
