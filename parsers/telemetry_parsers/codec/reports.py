"""The plain JSON form of a report, and back."""

from __future__ import annotations

from typing import Any, get_args

from telemetry_parsers.codec.fields import Fields
from telemetry_parsers.model import (
    REASONS,
    Absent,
    Device,
    Event,
    Form,
    Outcome,
    Plain,
    Problem,
    Process,
    Reading,
    Report,
    Value,
)

_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_FORMS: tuple[Form, ...] = get_args(Form)
_ABSENT = {absent.value: absent for absent in Absent}
_ABSENT_WORDS = tuple(_ABSENT)
_ABSENT_KEYS = frozenset({"absent"})

_REPORT = frozenset(
    [
        "outcome",
        "reason",
        "devices",
        "readings",
        "events",
        "processes",
        "problems",
        "unknown_fields",
        "facts",
        "index_space",
        "form",
    ]
)
_DEVICE = frozenset(
    [
        "vendor",
        "index",
        "model",
        "uuid",
        "bus_id",
        "partition",
        "parent",
        "serial",
        "driver",
        "up",
        "simulated",
        "facts",
    ]
)
_READING = frozenset(["device", "metric", "value", "label"])
_EVENT = frozenset(["device", "code", "text", "wall_time", "is_ongoing"])
_PROCESS = frozenset(["device", "pid", "name", "memory_used_bytes"])
_PROBLEM = frozenset(["where", "text"])


def report_to_plain(report: Report) -> dict[str, Any]:
    """A report; a value is a number or {"absent": reason}."""
    return {
        "outcome": report.outcome,
        "reason": report.reason,
        "devices": [_device_to_plain(device) for device in report.devices],
        "readings": [_reading_to_plain(reading) for reading in report.readings],
        "events": [_event_to_plain(event) for event in report.events],
        "processes": [_process_to_plain(process) for process in report.processes],
        "problems": [{"where": problem.where, "text": problem.text} for problem in report.problems],
        "unknown_fields": list(report.unknown_fields),
        "facts": [list(pair) for pair in report.facts],
        "index_space": report.index_space,
        "form": report.form,
        **({"is_cut": True} if report.is_cut else {}),
    }


def report_from_plain(plain: Plain) -> Report:
    """A report, its types and closed sets checked; whether its positions and metrics exist is not looked at."""
    is_cut = isinstance(plain, dict) and "is_cut" in plain
    fields = Fields(plain, "", _REPORT | {"is_cut"} if is_cut else _REPORT)
    return Report(
        outcome=fields.word("outcome", _OUTCOMES),
        reason=fields.word_or_none("reason", REASONS),
        devices=fields.items("devices", _device_from_plain),
        readings=fields.items("readings", _reading_from_plain),
        events=fields.items("events", _event_from_plain),
        processes=fields.items("processes", _process_from_plain),
        problems=fields.items("problems", _problem_from_plain),
        unknown_fields=fields.texts("unknown_fields"),
        facts=fields.pairs("facts"),
        index_space=fields.text("index_space"),
        form=fields.word("form", _FORMS),
        is_cut=is_cut and fields.flag("is_cut"),
    )


def _device_to_plain(device: Device) -> dict[str, Any]:
    return {
        "vendor": device.vendor,
        "index": device.index,
        "model": device.model,
        "uuid": device.uuid,
        "bus_id": device.bus_id,
        "partition": device.partition,
        "parent": device.parent,
        "serial": device.serial,
        "driver": device.driver,
        "up": device.up,
        "simulated": device.simulated,
        "facts": [list(pair) for pair in device.facts],
    }


def _device_from_plain(plain: Plain, path: str) -> Device:
    fields = Fields(plain, path, _DEVICE)
    return Device(
        vendor=fields.text("vendor"),
        index=fields.whole_or_none("index"),
        model=fields.text_or_none("model"),
        uuid=fields.text_or_none("uuid"),
        bus_id=fields.text_or_none("bus_id"),
        partition=fields.text_or_none("partition"),
        parent=fields.whole_or_none("parent"),
        serial=fields.text_or_none("serial"),
        driver=fields.text_or_none("driver"),
        up=fields.flag("up"),
        simulated=fields.flag("simulated"),
        facts=fields.pairs("facts"),
    )


def _reading_to_plain(reading: Reading) -> dict[str, Any]:
    value = reading.value
    return {
        "device": reading.device,
        "metric": reading.metric,
        "value": {"absent": value.value} if isinstance(value, Absent) else value,
        "label": reading.label,
    }


def _reading_from_plain(plain: Plain, path: str) -> Reading:
    fields = Fields(plain, path, _READING)
    return Reading(fields.whole_or_none("device"), fields.text("metric"), _value(fields), fields.text("label"))


def _value(fields: Fields) -> Value:
    value = fields.any("value")
    if not isinstance(value, dict):
        return fields.number("value")
    return _ABSENT[Fields(value, fields.path("value"), _ABSENT_KEYS).word("absent", _ABSENT_WORDS)]


def _event_to_plain(event: Event) -> dict[str, Any]:
    return {
        "device": event.device,
        "code": event.code,
        "text": event.text,
        "wall_time": event.wall_time,
        "is_ongoing": event.is_ongoing,
    }


def _event_from_plain(plain: Plain, path: str) -> Event:
    fields = Fields(plain, path, _EVENT)
    return Event(
        device=fields.whole_or_none("device"),
        code=fields.text("code"),
        text=fields.text("text"),
        wall_time=fields.number_or("wall_time", None),
        is_ongoing=fields.flag("is_ongoing"),
    )


def _process_to_plain(process: Process) -> dict[str, Any]:
    return {
        "device": process.device,
        "pid": process.pid,
        "name": process.name,
        "memory_used_bytes": process.memory_used_bytes,
    }


def _process_from_plain(plain: Plain, path: str) -> Process:
    fields = Fields(plain, path, _PROCESS)
    return Process(
        device=fields.whole("device"),
        pid=fields.whole("pid"),
        name=fields.text("name"),
        memory_used_bytes=fields.number_or("memory_used_bytes", None),
    )


def _problem_from_plain(plain: Plain, path: str) -> Problem:
    fields = Fields(plain, path, _PROBLEM)
    return Problem(fields.text("where"), fields.text("text"))
