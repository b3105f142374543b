"""The parser of every simulated source: makes a report of the simulator's plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from telemetry_parsers.codec.fields import CodecError, Fields, finite
from telemetry_parsers.metrics import BY_KEY, reading
from telemetry_parsers.model import (
    Absent,
    Capture,
    Device,
    Event,
    Form,
    Plain,
    Problem,
    Process,
    Reading,
    Report,
)
from telemetry_parsers.vendors import VENDOR_WORDS

_FORMS: tuple[Form, ...] = ("data", "json", "text")
_CAPTURE = frozenset({"vendor", "form", "tool_version", "devices", "events", "processes"})
_DEVICE = frozenset({"index", "model", "uuid", "bus_id", "serial", "driver", "facts", "readings"})
_EVENT = frozenset({"device", "code", "wall_time"})
_PROCESS = frozenset({"device", "pid", "name", "memory_used_bytes"})
_ABSENT = {reason.value: reason for reason in Absent}


def parse(capture: Capture) -> Report:
    """The report in a capture of a simulated source; `failed` when there is none in it."""
    try:
        return _report(Fields(capture.outputs[0].data if capture.outputs else None, "", _CAPTURE), capture.source)
    except CodecError as error:
        return Report(outcome="failed", reason="not_understood", problems=(Problem(error.path, error.text),))


def _report(fields: Fields, source: str) -> Report:
    vendor = fields.word("vendor", VENDOR_WORDS)
    devices = fields.items("devices", lambda plain, path: _device(plain, path, vendor))
    count = len(devices)
    return Report(
        outcome="ok" if devices else "no_devices",
        devices=tuple(device for device, _ in devices),
        readings=tuple(_all_readings([values for _, values in devices])),
        events=fields.items("events", lambda plain, path: _event(Fields(plain, path, _EVENT), count)),
        processes=fields.items("processes", lambda plain, path: _process(Fields(plain, path, _PROCESS), count)),
        facts=(("tool_version", fields.text("tool_version")),),
        index_space=source,
        form=fields.word("form", _FORMS),
    )


def _device(plain: Plain, path: str, vendor: str) -> tuple[Device, dict[str, Any]]:
    fields = Fields(plain, path, _DEVICE)
    device = Device(
        vendor=vendor,
        index=fields.whole("index"),
        model=fields.text_or_none("model"),
        uuid=fields.text_or_none("uuid"),
        bus_id=fields.text_or_none("bus_id"),
        serial=fields.text_or_none("serial"),
        driver=fields.text_or_none("driver"),
        simulated=True,
        facts=fields.pairs("facts"),
    )
    return device, _object(fields.any("readings"), fields.path("readings"))


def _all_readings(devices: list[dict[str, Any]]) -> Iterator[Reading]:
    for position, values in enumerate(devices):
        for key, value in values.items():
            yield from _readings(position, key, value)


def _readings(position: int, key: str, value: Plain) -> tuple[Reading, ...]:
    try:
        return tuple(_of_metric(position, key, value))
    except CodecError as error:  # the path is made only now: there are a hundred readings in a poll
        raise CodecError(f"devices[{position}].readings.{key}", error.text) from None


def _of_metric(position: int, key: str, value: Plain) -> Iterator[Reading]:
    """The readings of one metric: a number, numbers by label word, or the reason of an absence."""
    if key not in BY_KEY:
        raise CodecError("", "no such metric")
    if isinstance(value, str):
        if value not in _ABSENT:
            raise CodecError("", f"expected a number or one of {' '.join(_ABSENT)}")
        yield Reading(position, key, _ABSENT[value])
    elif BY_KEY[key].label:
        for word, number in _object(value, "").items():
            yield reading(position, key, finite(number, ""), word)
    else:
        yield reading(position, key, finite(value, ""))


def _event(fields: Fields, devices: int) -> Event:
    return Event(_position(fields, devices), fields.text("code"), wall_time=fields.number("wall_time"))


def _process(fields: Fields, devices: int) -> Process:
    return Process(
        _position(fields, devices), fields.whole("pid"), fields.text("name"), fields.number("memory_used_bytes")
    )


def _position(fields: Fields, devices: int) -> int:
    position = fields.whole("device")
    if not 0 <= position < devices:
        raise CodecError(fields.path("device"), f"expected the position of one of {devices} devices")
    return position


def _object(plain: Plain, path: str) -> dict[str, Any]:
    if not isinstance(plain, dict) or not all(isinstance(key, str) for key in plain):
        raise CodecError(path, "expected an object")
    return plain
