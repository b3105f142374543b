"""A snapshot and a history from the documents that a daemon serves; an older daemon's are enough, a newer one's as well."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, get_args

from telemetry_daemon.nodes import owners
from telemetry_daemon.nodes.plain import DocumentError, flag, moment, number, rows, table, text, whole
from telemetry_exporters.past import KEPT, MOST_EVENTS, SLOTS, Gap, Past, PastEvent, Series
from telemetry_parsers import bounds
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import (
    Absent,
    Health,
    MergedDevice,
    MergedReading,
    Problem,
    Snapshot,
    SourceStatus,
    State,
    Value,
)
from telemetry_parsers.readings import Readings
from telemetry_parsers.recorded import Recorded

MOST_DEVICES = 4 * bounds.MOST_DEVICES
_MOST_SOURCES = 256
_MOST_POLLS = 64
_SNAPSHOT, _HISTORY = "telemetry.snapshot/1", "telemetry.history/1"
_STATES = frozenset(get_args(State))
_ABSENT = {absent.value: absent for absent in Absent}
# float32 holds no larger number.
_LARGEST = 3.4e38


def snapshot_of(document: object) -> Snapshot:
    """The snapshot; its monotonic clock is at 0 when it was made, and it is never out of date by itself. Raises DocumentError."""
    whole_document = table(document, "the document")
    _check_schema(whole_document, _SNAPSHOT)
    wall_time = moment(whole_document.get("time"), "time")
    host = table(whole_document.get("host") or {}, "host")
    return Snapshot(
        hostname=text(whole_document.get("hostname"), "hostname"),
        wall_time=wall_time,
        monotonic_time=0.0,
        valid_until=math.inf,
        devices=_unique(map(_device, rows(whole_document.get("devices"), "devices", MOST_DEVICES))),
        host=tuple(_numbers(table(host.get("readings") or {}, "host"), {}, "host")),
        sources=tuple(map(_source, rows(whole_document.get("sources"), "sources", _MOST_SOURCES))),
        maintenance=_maintenance(whole_document.get("maintenance"), wall_time),
        recorded=_recorded(whole_document.get("replay")),
    )


def past_of(document: object) -> Past:
    """The history. Raises DocumentError."""
    told = table(document, "the document")
    _check_schema(told, _HISTORY)
    slots = _count(told.get("slots"), "slots", SLOTS)
    return Past(
        start=moment(told.get("start"), "start"),
        slots=slots,
        slot_seconds=max(0.001, number(told.get("slot_seconds"), "slot_seconds")),
        devices=dict(_past_of_device(one, slots) for one in rows(told.get("devices"), "devices", MOST_DEVICES)),
        events=tuple(map(_event, rows(told.get("events"), "events", MOST_EVENTS))),
    )


def _check_schema(document: Mapping[str, Any], wanted: str) -> None:
    if document.get("schema") != wanted:
        raise DocumentError("the document", f"`{wanted}`")


def _unique(devices: Iterable[MergedDevice]) -> tuple[MergedDevice, ...]:
    return tuple({device.id: device for device in devices}.values())


def _device(given: object) -> MergedDevice:
    plain = table(given, "a device")
    device_id = text(plain.get("id"), "a device's id")
    if not device_id:
        raise DocumentError("a device's id", "text")

    def known(key: str) -> str:
        return text(plain.get(key), f"{key} of {device_id}")

    origins = table(plain.get("origin") or {}, f"origin of {device_id}")
    readings = table(plain.get("readings") or {}, f"readings of {device_id}")
    absent = table(plain.get("absent") or {}, f"absent of {device_id}")
    allocations = owners.allocations(plain, device_id)
    return MergedDevice(
        vendor=known("vendor"),
        index=whole(plain.get("index"), f"index of {device_id}"),
        id=device_id,
        device=known("device"),
        model=known("model"),
        uuid=known("uuid") or None,
        bus_id=known("bus_id") or None,
        serial=known("serial") or None,
        driver=known("driver") or None,
        up=flag(plain.get("up"), f"up of {device_id}"),
        parent=known("parent") or None,
        partition=known("partition") or None,
        simulated=flag(plain.get("simulated"), f"simulated of {device_id}") is True,
        replayed=flag(plain.get("replayed"), f"replayed of {device_id}") is True,
        readings=Readings.of((*_numbers(readings, origins, device_id), *_absences(absent))),
        processes=tuple(owners.processes(plain, device_id, allocations)),
        allocations=allocations,
    )


def _labelled(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Metric, label and value of each entry whose metric we know."""
    entries = 0
    for metric, value in values.items():
        for label, one in value.items() if isinstance(value, dict) else (("", value),):
            entries += 1
            if entries > bounds.MOST_READINGS:
                return
            if metric in BY_KEY:
                yield metric, text(label, f"a label of {metric}"), one


def _numbers(values: Mapping[str, Any], origins: Mapping[str, Any], of: str) -> Iterator[MergedReading]:
    for metric, label, value in _labelled(values):
        origin = origins.get(metric)
        source = origin.get(label) if isinstance(origin, dict) else origin
        yield MergedReading(metric, label, number(value, f"{metric} of {of}"), text(source, f"origin of {metric}"))


def _absences(values: Mapping[str, Any]) -> Iterator[MergedReading]:
    for metric, label, word in _labelled(values):
        # A newer daemon may know a reason that we do not.
        value: Value = _ABSENT.get(word if isinstance(word, str) else "", Absent.NOT_REPORTED)
        yield MergedReading(metric, label, value, "")


def _source(given: object) -> SourceStatus:
    plain = table(given, "a source")
    name = text(plain.get("source"), "a source's name")
    problems = (
        table(one, f"a problem of {name}") for one in rows(plain.get("problems") or [], name, bounds.MOST_PROBLEMS)
    )
    return SourceStatus(
        source=name,
        vendor="",
        state=_state(plain, name),
        reason=cast("Any", text(plain.get("reason"), f"reason of {name}") or None),
        detail=text(plain.get("detail"), f"detail of {name}", bounds.LONGEST_TEXT),
        version=text(plain.get("version"), f"version of {name}") or None,
        problems=tuple(
            Problem(text(one.get("where"), "a problem"), text(one.get("text"), "a problem", bounds.LONGEST_TEXT))
            for one in problems
        ),
        polls=tuple(_poll(one, name) for one in rows(plain.get("polls") or [], f"polls of {name}", _MOST_POLLS)),
    )


def _state(plain: Mapping[str, Any], name: str) -> State:
    found = text(plain.get("state"), f"state of {name}")
    if found not in _STATES:
        raise DocumentError(f"state of {name}", "state of a source")
    return cast("State", found)


def _poll(given: object, source: str) -> Health:
    plain = table(given, f"a poll of {source}")
    age, seconds = plain.get("age_seconds"), plain.get("seconds")
    tried = age is not None
    return Health(
        source=source,
        poll=text(plain.get("poll"), f"a poll of {source}"),
        tier="fast",
        lists_devices=False,
        state=_state(plain, source),
        reason=cast("Any", text(plain.get("reason"), f"reason of {source}") or None),
        attempted=1.0 if tried else 0.0,
        attempted_monotonic=-number(age, f"age of a poll of {source}") if tried else 0.0,
        seconds=0.0 if seconds is None else number(seconds, f"seconds of a poll of {source}"),
    )


def _maintenance(given: object, wall_time: float) -> Maintenance | None:
    if given is None:
        return None
    plain = table(given, "maintenance")
    until = moment(plain.get("until"), "the end of the maintenance")
    return Maintenance(until - wall_time, text(plain.get("reason"), "the reason of the maintenance"))


def _recorded(given: object) -> Recorded | None:
    if given is None:
        return None
    plain = table(given, "the replay")
    shown = plain.get("shown")  # older daemons do not tell it
    return Recorded(
        moment(plain.get("recorded"), "the replay's time"),
        text(plain.get("hostname"), "the replay's host"),
        None if shown is None else moment(shown, "the replay's moment"),
        text(plain.get("how"), "how the replay goes"),
    )


def _past_of_device(given: object, slots: int) -> tuple[str, Mapping[str, Series]]:
    plain = table(given, "a device")
    device_id = text(plain.get("id"), "a device's id")
    series = table(plain.get("series"), f"series of {device_id}")
    kept = {metric: _series(one, slots, f"{metric} of {device_id}") for metric, one in series.items() if metric in KEPT}
    return device_id, kept


def _series(given: object, slots: int, place: str) -> Series:
    plain = table(given, place)
    last = _slots(plain.get("last"), slots, place)
    highest = plain.get("highest")
    gaps = (table(one, f"a gap of {place}") for one in rows(plain.get("gaps") or [], place, SLOTS))
    return Series(
        last,
        last if highest is None else _slots(highest, slots, place),
        tuple(
            Gap(
                _count(one.get("first"), place, slots),
                _count(one.get("slots"), place, slots),
                text(one.get("reason"), place),
            )
            for one in gaps
        ),
    )


def _slots(given: object, slots: int, place: str) -> array[float]:
    values = rows(given, place, slots)
    if len(values) != slots:
        raise DocumentError(place, f"list of {slots} numbers")
    return array("f", [math.nan if one is None else _within(number(one, place), place) for one in values])


def _within(value: float, place: str) -> float:
    if abs(value) > _LARGEST:
        raise DocumentError(place, "number that we can hold")
    return value


def _count(given: object, place: str, most: int) -> int:
    found = whole(given, place)
    if found is None or not 0 <= found <= most:
        raise DocumentError(place, f"number from 0 to {most}")
    return found


def _event(given: object) -> PastEvent:
    plain = table(given, "an event")
    return PastEvent(
        moment(plain.get("time"), "an event's time"),
        text(plain.get("id"), "an event's device"),
        text(plain.get("code"), "an event's code"),
        text(plain.get("text"), "an event's text", bounds.LONGEST_TEXT),
    )
