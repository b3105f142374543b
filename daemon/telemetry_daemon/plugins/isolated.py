"""A parser that runs in a worker. Its report is checked against its declaration; `parse` never raises here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from telemetry_daemon.processes.worker import Worker, WorkerError
from telemetry_parsers.checks.declaration import TAKEN_LABELS, is_label, label_fits, rows
from telemetry_parsers.codec.captures import CodecError, DescribedParser
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.codec.worker_wire import Describe, Parse
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import in_range
from telemetry_parsers.model import Absent, Capture, Device, Event, Metric, Problem, Process, Reading, Reason, Report

# The number of complaints shown for a plugin with many errors.
_MOST_PROBLEMS = 20
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")

Placed = TypeVar("Placed", Event, Process)


def checked(report: Report, parser: DescribedParser) -> Report:
    """Return the report with only declared readings, in range, about listed devices; an invalid device list makes it `failed`."""
    wrong = _wrong_devices(report.devices, parser.vendor)
    if wrong:
        return Report(outcome="failed", reason="internal", problems=_problems(parser.name, wrong))
    count = len(report.devices)
    complaints: list[str] = []
    devices = tuple(_device(position, device, complaints) for position, device in enumerate(report.devices))
    readings = _readings(report.readings, rows(parser), count, complaints)
    events = _placed(report.events, count, complaints)
    processes = _placed(report.processes, count, complaints)
    return replace(
        report,
        reason=report.reason or ("not_understood" if report.outcome == "failed" else None),
        devices=devices,
        readings=readings,
        events=events,
        processes=processes,
        problems=(*report.problems, *_problems(parser.name, complaints)),
    )


def _wrong_devices(devices: tuple[Device, ...], vendor: str) -> list[str]:
    wrong = [
        f"device {position} is of vendor {device.vendor!r}, the parser of {vendor!r}"
        for position, device in enumerate(devices)
        if device.vendor != vendor
    ]
    for position, device in enumerate(devices):
        if device.parent is not None and not _is_whole_device(devices, device.parent):
            wrong.append(f"device {position} has {device.parent} as parent, which is no whole device of the report")
    return wrong


def _is_whole_device(devices: tuple[Device, ...], position: int) -> bool:
    return 0 <= position < len(devices) and devices[position].parent is None


def _device(position: int, device: Device, complaints: list[str]) -> Device:
    """Return the device without values that do not fit into a label or would mislead the joining of sources."""
    index, bus_id = device.index, device.bus_id
    if index is not None and index < 0:
        complaints.append(f"device {position} has the index {index}")
        index = None
    if bus_id is not None and _BUS_ID.match(bus_id) is None:
        complaints.append(f"device {position} has the bus_id {bus_id!r}, which is not dddd:bb:dd.f in lower case")
        bus_id = None
    facts = {name: text for name, text in device.facts if is_label(name) and name not in TAKEN_LABELS}
    for name, _ in device.facts:
        if name not in facts:
            complaints.append(f"device {position} has a fact {name!r}, which cannot be a label")
    return replace(device, index=index, bus_id=bus_id, facts=tuple(facts.items()))


def _readings(
    readings: Iterable[Reading], metrics: Mapping[str, Metric], devices: int, complaints: list[str]
) -> tuple[Reading, ...]:
    kept: dict[tuple[int | None, str, str], Reading] = {}
    for reading in readings:
        metric = metrics.get(reading.metric)
        where = (reading.device, reading.metric, reading.label)
        if metric is None:
            complaints.append(f"{_named(reading)} is not among the metrics that the parser gives")
        elif (complaint := _complaint(reading, metric, devices)) is not None:
            complaints.append(f"{_named(reading)} {complaint}")
        elif where in kept:
            complaints.append(f"{_named(reading)} is given twice")
        else:
            kept[where] = _in_range(reading, metric, complaints)
    return tuple(kept.values())


def _complaint(reading: Reading, metric: Metric, devices: int) -> str | None:
    if reading.device is None and metric.scope != "host":
        return "has no device"
    if reading.device is not None and metric.scope == "host":
        return "is about the host and has a device"
    if reading.device is not None and not 0 <= reading.device < devices:
        return f"is about device {reading.device} of {devices}"
    if reading.label and not metric.label:
        return "is a metric without label"
    if not label_fits(metric, reading.label):
        return f"has no {metric.label} of that name"
    return None


def _in_range(reading: Reading, metric: Metric, complaints: list[str]) -> Reading:
    if isinstance(reading.value, Absent) or not isinstance(in_range(metric, reading.value), Absent):
        return reading
    complaints.append(f"{_named(reading)} is {reading.value:g}, out of its range")
    return replace(reading, value=Absent.IMPLAUSIBLE)


def _placed(items: tuple[Placed, ...], devices: int, complaints: list[str]) -> tuple[Placed, ...]:
    kept = [item for item in items if item.device is None or 0 <= item.device < devices]
    if len(kept) < len(items):
        complaints.append(
            f"{len(items) - len(kept)} of its {type(items[0]).__name__} entries are about no device of it"
        )
    return tuple(kept)


def _named(reading: Reading) -> str:
    return f"{reading.metric}{{{reading.label}}}" if reading.label else reading.metric


def _problems(name: str, complaints: list[str]) -> tuple[Problem, ...]:
    problems = tuple(Problem(f"plugin {name}", text) for text in complaints[:_MOST_PROBLEMS])
    if len(complaints) > _MOST_PROBLEMS:
        problems += (Problem(f"plugin {name}", f"and {len(complaints) - _MOST_PROBLEMS} more"),)
    return problems


def describe(worker: Worker, target: str, seconds: float) -> DescribedParser:
    """Return the description of the parser at `target`. Raises WorkerError or CodecError."""
    return from_plain(DescribedParser, worker.call(Describe(target), seconds))


def isolated(parser: DescribedParser, worker: Worker, target: str, deadline_seconds: float) -> Parser:
    """Return the described parser, whose `parse` runs in the worker."""
    return parser.parsing_with(_IsolatedParse(parser, worker, target, deadline_seconds))


@dataclass(frozen=True, slots=True)
class _IsolatedParse:
    """Returns the checked report of a capture, or a failed report if the worker fails."""

    parser: DescribedParser
    worker: Worker
    target: str
    deadline_seconds: float

    def __call__(self, capture: Capture) -> Report:
        try:
            report = from_plain(Report, self.worker.call(Parse(self.target, capture), self.deadline_seconds))
        except WorkerError as error:
            return self._failed(error.reason or "timeout", str(error))
        except CodecError as error:
            return self._failed("internal", f"its report cannot be read: {error}")
        return checked(report, self.parser)

    def _failed(self, reason: Reason, text: str) -> Report:
        return Report(outcome="failed", reason=reason, problems=(Problem(f"plugin {self.parser.name}", text),))
