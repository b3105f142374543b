"""Helpers for parsers that convert a vendor library's answers to devices and readings."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import BY_KEY, in_range, reading
from telemetry_parsers.model import Absent, Device, Output, Plain, Problem, Reading, Report, Value
from telemetry_parsers.reports.draft import Draft, absence_reason
from telemetry_parsers.sentinels import ALL_BITS
from telemetry_parsers.text.answers import failed
from telemetry_parsers.text.lines import bus_address, quote
from telemetry_parsers.text.tool_marks import identify_tool

_MAX_NUMBER = 2**64


def error_in(answer: Plain) -> int | None:
    """Return the error number in an answer, -1 if the number is invalid, or None if the answer is no error."""
    if not isinstance(answer, dict) or "error" not in answer:
        return None
    code = answer["error"]
    return code if type(code) is int and abs(code) < _MAX_NUMBER else -1


def part_of(answer: Plain, key: str | int | None) -> Plain:
    """Return the item `key` of an object or a list or, if `key` is None, the whole answer."""
    if key is None:
        return answer
    if isinstance(answer, dict) and isinstance(key, str):
        return answer.get(key)
    if isinstance(answer, list) and isinstance(key, int):
        return answer[key] if key < len(answer) else None
    return None if answer is None else "not understood"  # a text, so that `number` returns NOT_UNDERSTOOD


def number(answer: Plain) -> Value:
    """Return the number in an answer, or an `Absent` value."""
    if answer is None:
        return Absent.NOT_REPORTED
    if type(answer) not in (int, float) or not abs(answer) < _MAX_NUMBER:  # also true for NaN
        return Absent.NOT_UNDERSTOOD
    return Absent.IMPLAUSIBLE if answer in ALL_BITS else float(answer)


def text(answer: Plain) -> str | None:
    """Return the answer without surrounding blanks if it is a non-blank string, else None."""
    return answer.strip() or None if isinstance(answer, str) and len(answer) < 1000 else None


def integer(answer: Plain, limit: int = 2**31) -> int | None:
    """Return the answer if it is an integer from 0 to `limit` - 1, else None."""
    return answer if type(answer) is int and 0 <= answer < limit and answer not in ALL_BITS else None


def items(answer: Plain) -> list[Plain]:
    """Return the answer if it is a list, else an empty list."""
    return answer if isinstance(answer, list) else []


def objects(answer: Plain) -> list[dict[str, Plain]]:
    """Return the JSON objects in the answer if it is a list, else an empty list."""
    return [item for item in items(answer) if isinstance(item, dict)]


def mapping(answer: Plain) -> dict[str, Plain]:
    """Return the answer if it is an object, else an empty object."""
    return answer if isinstance(answer, dict) else {}


@dataclass(frozen=True, slots=True)
class LibrarySpec:
    """A vendor's library: its key for the device list, and the meaning of its error numbers."""

    name: str
    source: str
    vendor: str
    devices: str  # the key of the device list in an answer, in lower case
    max_devices: int  # the maximum number of devices of a node
    absence_by_code: Mapping[int, Absent]  # maps known error numbers to reasons for a missing value

    def create_draft(self) -> Draft:
        """Return an empty draft of a report."""
        return Draft(self.vendor, _source_problem, index_space=self.source)


def _source_problem(item: Reading, source: str) -> str:
    """Return a problem text such as `GpuTemperature: temperature_celsius is implausible`."""
    return f"{source}: {item.metric} is {absence_reason(item).replace('_', ' ')}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a library to one poll."""

    node: dict[str, Plain]
    devices: list[Plain]
    data: dict[str, Plain]


def answer_in(output: Output, library: LibrarySpec) -> Answer | Report:
    """Return the answer in an output, or a report on the failure."""
    where = output.name or "output"
    if output.status:
        return failed("not_understood", where, f"{library.name} error {output.status}: {quote(output.stderr)}")
    if output.data is None and (output.text or output.stderr):
        return _report_on_text(output, library)
    data = mapping(output.data)
    node, devices = data.get("node"), data.get(library.devices.lower())
    if not isinstance(devices, list) or not isinstance(node, dict):
        message = f"this is not an answer of the reader {library.source}: it has no list of {library.devices}"
        return failed("not_understood", where, message)
    if len(devices) > library.max_devices:
        return failed("not_understood", where, f"{len(devices)} {library.devices} are listed, more than any node has")
    return Answer(node, devices, data)


def _report_on_text(output: Output, library: LibrarySpec) -> Report:
    tool = identify_tool(output.text + output.stderr) or "another tool"
    hint = f"the source {library.source} reads recordings made by 'telemetry record'"
    return Report("not_mine", problems=(Problem("text", f"this is output of {tool}, but {hint}"),))


_Facts = tuple[tuple[str, str], ...]


def device_in(fields: dict[str, Plain], vendor: str, driver: Plain, facts: _Facts) -> Device:
    """Create a card from the fields in a library's answer."""
    return Device(
        vendor=vendor,
        index=integer(fields.get("index")),
        model=text(fields.get("name")),
        uuid=text(fields.get("uuid")),
        bus_id=_bus_id(fields),
        serial=text(fields.get("serial")),
        driver=text(driver),
        up="lost" not in fields,
        facts=facts,
    )


def instance_in(fields: dict[str, Plain], parent: Device, position: int, facts: _Facts) -> Device | None:
    """Create an instance of the card `parent`, or return None if the instance has no index."""
    index = integer(fields.get("index"))
    if index is None:
        return None
    return Device(
        vendor=parent.vendor,
        index=parent.index,
        model=text(fields.get("name")),
        uuid=text(fields.get("uuid")),
        bus_id=_bus_id(fields) or parent.bus_id,
        partition=str(index),
        parent=position,
        driver=parent.driver,
        up=parent.up,
        facts=facts,
    )


def _bus_id(fields: dict[str, Plain]) -> str | None:
    return bus_address(text(fields.get("bus_id")) or "")


@dataclass(frozen=True, slots=True)
class Row:
    """The metric, label and scale of a number in an answer. The number is multiplied by `times / over`."""

    metric: str
    label: str = ""
    times: int = 1
    over: int = 1
    part: str | int | None = None


@dataclass(frozen=True, slots=True)
class DeviceDraft:
    """A device in the draft of a report."""

    library: LibrarySpec
    draft: Draft
    device: int
    where: str

    def add(self, metric: str, value: Value, label: str = "", source: str = "") -> None:
        """Add a reading, and report an implausible value as a problem."""
        item = reading(self.device, metric, value, label)
        if isinstance(item.value, Absent):
            self.draft.report_bad_value(item, source or metric, self.where)
        self.draft.add_reading(item)

    def add_problem(self, text: str) -> None:
        """Add a problem with the device to the report."""
        self.draft.add_problem(self.where, text)

    def add_row(self, row: Row, answer: Plain, source: str) -> None:
        """Add the reading that `row` describes. Its number is in `answer`."""
        self.add(row.metric, self._scale_value(row, answer, source), row.label, source)

    def add_highest(self, row: Row, answers: Mapping[str, Plain]) -> None:
        """Add the highest number in these answers as a reading. If any number is absent, the reading is absent."""
        values = [
            in_range(BY_KEY[row.metric], self._scale_value(row, answer, name)) for name, answer in answers.items()
        ]
        numbers = [value for value in values if not isinstance(value, Absent)]
        absent_values = [value for value in values if isinstance(value, Absent)]
        if values:
            self.add(row.metric, absent_values[0] if absent_values else max(numbers), row.label)

    def absence_of(self, answer: Plain, source: str) -> Absent:
        """Return the `Absent` value for an answer's error. An unknown error is reported as a problem."""
        code = error_in(answer)
        if code is not None and code in self.library.absence_by_code:
            return self.library.absence_by_code[code]
        self.add_problem(f"{source}: {self.library.name} error {quote(str(code))}")
        return Absent.NOT_REPORTED

    def value(self, answer: Plain, source: str) -> Value:
        """Return the number in an answer, or the `Absent` value for its error."""
        return self.absence_of(answer, source) if error_in(answer) is not None else number(answer)

    def _scale_value(self, row: Row, answer: Plain, source: str) -> Value:
        if error_in(answer) is not None:
            return self.absence_of(answer, source)
        value = number(part_of(answer, row.part))
        return value if isinstance(value, Absent) else value * row.times / row.over
