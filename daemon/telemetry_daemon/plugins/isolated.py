"""Runs a parser in a worker, and checks each report against the parser's description."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from telemetry_daemon.processes.worker import Worker, WorkerError
from telemetry_parsers.checks.declaration import RESERVED_LABELS, is_label_name, is_valid_label_for, metrics_by_key
from telemetry_parsers.codec.captures import CodecError, DescribedParser
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.codec.worker_wire import Describe, Parse
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import in_range
from telemetry_parsers.model import Absent, Capture, Device, Event, Metric, Problem, Process, Reading, Reason, Report

_MAX_PROBLEMS = 20
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")

DeviceItem = TypeVar("DeviceItem", Event, Process)


def checked_report(report: Report, parser: DescribedParser) -> Report:
    """Return the report without invalid parts. An invalid device list makes the report fail."""
    list_errors = _device_list_errors(report.devices, parser.vendor)
    if list_errors:
        return Report(outcome="failed", reason="internal", problems=_to_problems(parser.name, list_errors))
    device_count = len(report.devices)
    errors: list[str] = []
    devices = tuple(_checked_device(index, device, errors) for index, device in enumerate(report.devices))
    readings = _checked_readings(report.readings, metrics_by_key(parser), device_count, errors)
    events = _with_valid_device(report.events, device_count, errors)
    processes = _with_valid_device(report.processes, device_count, errors)
    return replace(
        report,
        reason=report.reason or ("not_understood" if report.outcome == "failed" else None),
        devices=devices,
        readings=readings,
        events=events,
        processes=processes,
        problems=(*report.problems, *_to_problems(parser.name, errors)),
    )


def _device_list_errors(devices: tuple[Device, ...], vendor: str) -> list[str]:
    errors = [
        f"device {index} has the vendor {device.vendor!r}, but the parser declares {vendor!r}"
        for index, device in enumerate(devices)
        if device.vendor != vendor
    ]
    for index, device in enumerate(devices):
        if device.parent is not None and not _is_whole_device(devices, device.parent):
            errors.append(f"device {index} has the parent {device.parent}, which is not a whole device")
    return errors


def _is_whole_device(devices: tuple[Device, ...], index: int) -> bool:
    return 0 <= index < len(devices) and devices[index].parent is None


def _checked_device(device_index: int, device: Device, errors: list[str]) -> Device:
    """Return the device without invalid values. Errors are appended to `errors`."""
    index, bus_id = device.index, device.bus_id
    if index is not None and index < 0:
        errors.append(f"device {device_index} has the negative index {index}")
        index = None
    if bus_id is not None and _BUS_ID.match(bus_id) is None:
        errors.append(f"device {device_index} has the bus_id {bus_id!r}, which is not dddd:bb:dd.f in lower case")
        bus_id = None
    facts = {name: text for name, text in device.facts if is_label_name(name) and name not in RESERVED_LABELS}
    for name, _ in device.facts:
        if name not in facts:
            errors.append(f"device {device_index} has a fact {name!r}, which is not a valid label name")
    return replace(device, index=index, bus_id=bus_id, facts=tuple(facts.items()))


def _checked_readings(
    readings: Iterable[Reading], metrics: Mapping[str, Metric], device_count: int, errors: list[str]
) -> tuple[Reading, ...]:
    valid_readings: dict[tuple[int | None, str, str], Reading] = {}
    for reading in readings:
        metric = metrics.get(reading.metric)
        key = (reading.device, reading.metric, reading.label)
        if metric is None:
            errors.append(f"{_series_name(reading)} is not a metric that the parser declares")
        elif (error := _reading_error(reading, metric, device_count)) is not None:
            errors.append(f"{_series_name(reading)} {error}")
        elif key in valid_readings:
            errors.append(f"{_series_name(reading)} is reported twice")
        else:
            valid_readings[key] = _checked_range(reading, metric, errors)
    return tuple(valid_readings.values())


def _reading_error(reading: Reading, metric: Metric, device_count: int) -> str | None:
    if reading.device is None and metric.scope != "host":
        return "has no device"
    if reading.device is not None and metric.scope == "host":
        return "has a device, but is a metric of the host"
    if reading.device is not None and not 0 <= reading.device < device_count:
        return f"refers to device {reading.device}, but the report lists only {device_count} devices"
    if reading.label and not metric.label:
        return "must not have a label"
    if not is_valid_label_for(metric, reading.label):
        return f"must have a valid {metric.label} label"
    return None


def _checked_range(reading: Reading, metric: Metric, errors: list[str]) -> Reading:
    if isinstance(reading.value, Absent) or not isinstance(in_range(metric, reading.value), Absent):
        return reading
    errors.append(f"{_series_name(reading)} is {reading.value:g}, which is out of range")
    return replace(reading, value=Absent.IMPLAUSIBLE)


def _with_valid_device(entries: tuple[DeviceItem, ...], device_count: int, errors: list[str]) -> tuple[DeviceItem, ...]:
    valid_entries = [entry for entry in entries if entry.device is None or 0 <= entry.device < device_count]
    if len(valid_entries) < len(entries):
        dropped_count = len(entries) - len(valid_entries)
        errors.append(
            f"{dropped_count} {type(entries[0]).__name__} entries dropped: the report does not list their devices"
        )
    return tuple(valid_entries)


def _series_name(reading: Reading) -> str:
    return f"{reading.metric}{{{reading.label}}}" if reading.label else reading.metric


def _to_problems(name: str, errors: list[str]) -> tuple[Problem, ...]:
    problems = tuple(Problem(f"plugin {name}", text) for text in errors[:_MAX_PROBLEMS])
    if len(errors) > _MAX_PROBLEMS:
        problems += (Problem(f"plugin {name}", f"and {len(errors) - _MAX_PROBLEMS} more"),)
    return problems


def describe_parser(worker: Worker, target: str, deadline_seconds: float) -> DescribedParser:
    """Ask the worker to describe a parser. Raise WorkerError if it does not answer, CodecError if the answer is invalid."""
    return from_plain(DescribedParser, worker.call(Describe(target), deadline_seconds))


def isolated_parser(parser: DescribedParser, worker: Worker, target: str, deadline_seconds: float) -> Parser:
    """Return the parser with a `parse` function that runs in the worker."""
    return parser.with_parse(_IsolatedParse(parser, worker, target, deadline_seconds))


@dataclass(frozen=True, slots=True)
class _IsolatedParse:
    parser: DescribedParser
    worker: Worker
    target: str
    deadline_seconds: float

    def __call__(self, capture: Capture) -> Report:
        try:
            report = from_plain(Report, self.worker.call(Parse(self.target, capture), self.deadline_seconds))
        except WorkerError as error:
            return self._failed_report(error.reason or "timeout", str(error))
        except CodecError as error:
            return self._failed_report("internal", f"its report cannot be read: {error}")
        return checked_report(report, self.parser)

    def _failed_report(self, reason: Reason, text: str) -> Report:
        return Report(outcome="failed", reason=reason, problems=(Problem(f"plugin {self.parser.name}", text),))
