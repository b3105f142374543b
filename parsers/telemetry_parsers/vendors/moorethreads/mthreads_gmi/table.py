"""The default table of mthreads-gmi: both layouts, on hosts and in guests, with and without its process table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Outcome, Problem, Process, Reading, Report, Value
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.framed import Record, Shape, headings_in, read_table
from telemetry_parsers.text.lines import Line, bus_address, quote
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.processes import ProcessTable, is_title, read_processes
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.words import (
    INDEX_SPACE,
    MOST_DEVICES,
    TOOL,
    VENDOR,
    Answer,
    ecc_enabled,
    known,
    performance_state,
)

_NOTHING = r"N/A|-"
SHAPE = Shape(
    headings=frozenset(
        {
            "id", "name", "pcie", "%gpu", "mem",
            "device type", "perf", "pcie lane width", "temp", "mpc capable",
            "ecc mode",
        }
    ),
    words=MappingProxyType(
        {
            "id": re.compile(r"[0-9]{1,4}\Z"),
            "pcie": re.compile(r"\S{1,40}\Z"),
            "%gpu": re.compile(rf"(?:[0-9.]{{1,12}}%|{_NOTHING})\Z"),
            "mem": re.compile(rf"(?:\S{{1,40}}\((?:\S{{1,40}}\))?|{_NOTHING})\Z"),
            "perf": re.compile(rf"(?:P[0-9]{{1,2}}|{_NOTHING})\Z"),
            "pcie lane width": re.compile(r"\S{1,40}\Z"),
            "temp": re.compile(rf"(?:-?[0-9.]{{1,12}}C|{_NOTHING})\Z"),
            "mpc capable": re.compile(rf"(?:YES|NO|Yes|No|{_NOTHING})\Z"),
        }
    ),
    opening="id",
)  # fmt: skip
# With its number: the tool puts its name before its error texts too.
_BANNER = re.compile(r"[ \t]{0,40}mthreads-gmi:[ \t]{0,8}[0-9]")
# A version at the very end of the text may be a fragment, so white space must follow it.
_VERSIONS = (
    ("tool_version", re.compile(r"mthreads-gmi:[ \t]{0,8}(\S{1,64})(?=\s)")),
    ("driver", re.compile(r"Driver Version:[ \t]{0,8}(\S{1,64})(?=\s)")),
)
# The bracket may lack what follows it where the text ends there.
_PAIR = re.compile(r"([^()]{1,40})\((?:([^()]{1,40})\))?\Z")
_DAYS = ("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun ")


def _percent(text: str) -> Value:
    return units.quantity(text, units.RATIO)


def _celsius(text: str) -> Value:
    return units.quantity(text, units.CELSIUS)


def _bytes(text: str) -> Value:
    return units.quantity(text, units.BYTES)


def _lanes(text: str) -> Value:
    return units.quantity(text, units.LANES)


@dataclass(frozen=True, slots=True)
class _Field:
    """A metric and its heading; `part` is 0 or 1 for the outer or the bracketed half of `1339MiB(16384MiB)`."""

    key: str
    heading: str
    read: Callable[[str], Value]
    label: str = ""
    part: int | None = None


_FIELDS = (
    _Field("utilization_ratio", "%gpu", _percent),
    _Field("memory_used_bytes", "mem", _bytes, part=0),
    _Field("memory_total_bytes", "mem", _bytes, part=1),
    _Field("temperature_celsius", "temp", _celsius, "core"),
    _Field("pcie_link_width", "pcie lane width", _lanes, part=0),
    _Field("pcie_link_width_max", "pcie lane width", _lanes, part=1),
    _Field("performance_state", "perf", performance_state),
    _Field("ecc_enabled", "ecc mode", ecc_enabled),
)
_FACTS = (("device_type", "device type"), ("mpc_capable", "mpc capable"), ("ecc_mode", "ecc mode"))
GIVES = (*(field.key for field in _FIELDS), "processes")


def is_table(lines: Sequence[Line]) -> bool:
    """Whether these lines hold the device table, the process table, or the banner above them."""
    return any(is_title(line) or _opens(line) or _BANNER.match(line.text) for line in lines)


def read(lines: Sequence[Line]) -> Answer:
    """The report on a text that holds a table; of several runs in one text the last is read."""
    runs = [position for position, line in enumerate(lines) if _BANNER.match(line.text)]
    lines = lines[runs[-1] :] if len(runs) > 1 else lines
    title = next((position for position, line in enumerate(lines) if is_title(line)), len(lines))
    table = read_table(lines[:title], SHAPE)
    if len(table.records) > MOST_DEVICES:
        text = f"{len(table.records)} devices in one table, as {TOOL} never prints"
        return Answer(failed("not_understood", "text", text))
    page = _Page(_versions(lines[:title]))
    if len(runs) > 1:
        page.problems.append(Problem("text", f"{len(runs)} runs of {TOOL} in one text; the last one is read"))
    for record in table.records:
        page.add(record)
    ended = table.headed and (table.closed or title < len(lines))
    page.problems.extend(_unread(line) for line in table.unread if not _expected(line))
    if not ended and title == len(lines):
        cut = Problem(lines[-1].where, "the device table is cut off here; further cards may be missing")
        page.problems.insert(0, cut)
    processes = read_processes(lines[title:]) if title < len(lines) else ProcessTable(gap=Absent.NOT_REPORTED)
    if not table.headed:
        page.add_bare(processes)
    page.count(processes)
    without_devices: Outcome = "no_devices" if ended else "ok" if processes.gap is None else "failed"
    return Answer(page.report(without_devices, (*table.unknown, *processes.unknown)), ended)


class _Page:
    """The report in the making."""

    def __init__(self, versions: dict[str, str]) -> None:
        self.problems: list[Problem] = []
        self._versions = versions
        self._devices: list[Device] = []
        self._readings: list[Reading] = []
        self._processes: list[Process] = []
        self._seen: set[tuple[int | None, str | None]] = set()

    def add(self, record: Record) -> None:
        """A card of the device table."""
        device = _device(record, self._versions.get("driver"))
        if (device.index, device.bus_id) in self._seen:
            text = f"card {device.index} is listed a second time; the first is kept"
            self.problems.append(Problem(record.line.where, text))
            return
        if device.index is None:
            self.problems.append(Problem(record.line.where, f"no number of a card: {quote(record.line.text)}"))
        self._seen.add((device.index, device.bus_id))
        self._readings.extend(_readings(len(self._devices), record, self.problems))
        self._devices.append(device)

    def add_bare(self, processes: ProcessTable) -> None:
        """The cards that a process table names when it stands alone."""
        indices = sorted({row.index for row in processes.rows})
        self._devices.extend(Device(VENDOR, index) for index in indices[:MOST_DEVICES])

    def count(self, processes: ProcessTable) -> None:
        """The processes and their number on each card; no number unless the table is whole."""
        positions = {device.index: position for position, device in reversed(list(enumerate(self._devices)))}
        counts = [0] * len(self._devices)
        for row in processes.rows:
            if row.index in positions:
                position = positions[row.index]
                counts[position] += 1
                self._processes.append(Process(position, row.pid, row.name, row.memory_used_bytes))
        strangers = sorted({row.index for row in processes.rows} - positions.keys())
        self.problems.extend(
            Problem("Processes", f"processes of card {index}, which is not listed") for index in strangers
        )
        self.problems.extend(processes.problems)
        self.problems.extend(_unread(line) for line in processes.rest if line.text.strip() and not _expected(line))
        for position, device in enumerate(self._devices):
            ambiguous = positions[device.index] != position
            value = processes.gap or (Absent.NOT_UNDERSTOOD if ambiguous else float(counts[position]))
            self._readings.append(reading(position, "processes", value))

    def report(self, without_devices: Outcome, unknown: Sequence[str]) -> Report:
        """What was read, or why nothing was."""
        outcome = "ok" if self._devices else without_devices
        facts = tuple((name, text) for name, text in self._versions.items() if name == "tool_version")
        if outcome == "failed":
            return Report("failed", "not_understood", problems=capped(self.problems), facts=facts)
        return Report(
            outcome=outcome,
            devices=tuple(self._devices),
            readings=tuple(self._readings),
            processes=tuple(self._processes),
            problems=capped(self.problems),
            unknown_fields=tuple(unknown)[:MOST_DEVICES],
            facts=facts,
            index_space=INDEX_SPACE,
        )


def _device(record: Record, driver: str | None) -> Device:
    def text(heading: str) -> str | None:
        return known(record.values[heading].text) if heading in record.values else None

    return Device(
        vendor=VENDOR,
        index=units.whole(text("id") or ""),
        model=text("name"),
        bus_id=bus_address(text("pcie") or ""),
        driver=driver,
        facts=tuple((name, found) for name, heading in _FACTS if (found := text(heading)) is not None),
    )


def _readings(device: int, record: Record, problems: list[Problem]) -> list[Reading]:
    """A reading for each field, absent where its cell is; what is not understood becomes a problem too."""
    found = []
    for field in _FIELDS:
        cell = record.values.get(field.heading)
        value = Absent.NOT_REPORTED if cell is None else _value(cell.text, field)
        item = reading(device, field.key, value, field.label)
        if cell is not None and item.value in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE):
            problems.append(Problem(cell.line.where, f'{field.key}: "{quote(cell.text)}" is {item.value.value}'))
        found.append(item)
    address = record.values.get("pcie")
    if address is not None and known(address.text) and bus_address(address.text) is None:
        problems.append(Problem(address.line.where, f'PCIe: "{quote(address.text)}" is no bus address'))
    misfits = (Problem(line.where, f"cells that fit no heading: {quote(line.text)}") for line in record.misfits)
    problems.extend(misfits)
    return found


def _value(text: str, field: _Field) -> Value:
    if field.part is None:
        return field.read(text)
    match = _PAIR.match(text)
    if match is None:
        return units.placeholder(text) or Absent.NOT_UNDERSTOOD
    return field.read(match[field.part + 1] or "")


def _unread(line: Line) -> Problem:
    return Problem(line.where, f"not understood: {quote(line.text)}")


def _versions(lines: Sequence[Line]) -> dict[str, str]:
    """The versions in the banner."""
    found: dict[str, str] = {}
    for line in lines:
        if _BANNER.match(line.text) is None:
            continue
        text = line.text + "\n" if line.ended else line.text
        for name, pattern in _VERSIONS:
            match = pattern.search(text)
            version = known(match[1]) if match else None
            if version is not None:
                found[name] = version
    return found


def _expected(line: Line) -> bool:
    """Whether a line outside the tables is the banner or the time."""
    text = line.text.strip()
    return _BANNER.match(text) is not None or text.startswith(_DAYS)


def _opens(line: Line) -> bool:
    first, bar, _ = line.text.partition("|")
    return bool(bar) and headings_in(first, SHAPE.headings) == ("id", "name")
