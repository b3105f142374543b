"""A snapshot and a history from the documents that a daemon serves; an older daemon's are enough, a newer one's as well.

Each value is of the expected type, within bounds, and without control characters: another machine sent it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast, get_args

from telemetry_exporters.text import clean
from telemetry_parsers import bounds
from telemetry_parsers.codec.plain import CodecError, decode_foreign
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
from telemetry_parsers.ownership import Allocation, Basis, Owner, OwnerKind, Process, ProcessKind
from telemetry_parsers.past import KEPT, MOST_EVENTS, SLOTS, Gap, Past, PastEvent, Series
from telemetry_parsers.readings import Readings
from telemetry_parsers.recorded import Recorded

MOST_DEVICES = 4 * bounds.MOST_DEVICES
_MOST_SOURCES = 256
_MOST_POLLS = 64
_STATES = frozenset(get_args(State))
_ABSENT = {absent.value: absent for absent in Absent}
# float32 holds no larger number.
_LARGEST = 3.4e38
_MOST_VALUES = 4_000_000
_MOST_OWNER_SOURCES = 16
_KINDS: frozenset[str] = frozenset(get_args(OwnerKind))
_BASES: frozenset[str] = frozenset(get_args(Basis))
_PROCESS_KINDS: frozenset[str] = frozenset(get_args(ProcessKind))
_TEXTS = ("pod_namespace", "pod_name", "container_name", "job_id", "user", "account", "partition")


class DocumentError(ValueError):
    """A document that is not what it should be; names the place."""

    def __init__(self, place: str, wanted: str) -> None:
        super().__init__(f"{place} is no {wanted}")


def document_in(body: bytes | str) -> Mapping[str, Any]:
    """Return the JSON object that an answer has. Raises DocumentError."""
    try:
        return _table(decode_foreign(body.encode() if isinstance(body, str) else body, _MOST_VALUES), "the answer")
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None


def snapshot_of(document: object) -> Snapshot:
    """The snapshot; its monotonic clock is at 0 when it was made, and it is never out of date by itself. Raises DocumentError."""
    plain = _with_schema(document, "telemetry.snapshot/1")
    wall_time = _moment(plain.get("time"), "time")
    host = _table(plain.get("host") or {}, "host")
    devices = map(_device, rows(plain.get("devices"), "devices", MOST_DEVICES))
    return Snapshot(
        hostname=_text(plain.get("hostname"), "hostname"),
        wall_time=wall_time,
        monotonic_time=0.0,
        valid_until=math.inf,
        devices=tuple({device.id: device for device in devices}.values()),
        host=tuple(_numbers(_table(host.get("readings") or {}, "host"), {}, "host")),
        sources=tuple(map(_source, rows(plain.get("sources"), "sources", _MOST_SOURCES))),
        maintenance=_maintenance(plain.get("maintenance"), wall_time),
        recorded=_recorded(plain.get("replay")),
    )


def past_of(document: object) -> Past:
    """The history. Raises DocumentError."""
    told = _with_schema(document, "telemetry.history/1")
    slots = _count(told.get("slots"), "slots", SLOTS)
    return Past(
        start=_moment(told.get("start"), "start"),
        slots=slots,
        slot_seconds=max(0.001, number(told.get("slot_seconds"), "slot_seconds")),
        devices=dict(_past_of_device(one, slots) for one in rows(told.get("devices"), "devices", MOST_DEVICES)),
        events=tuple(map(_event, rows(told.get("events"), "events", MOST_EVENTS))),
    )


def _with_schema(document: object, wanted: str) -> Mapping[str, Any]:
    plain = _table(document, "the document")
    if plain.get("schema") != wanted:
        raise DocumentError("the document", f"`{wanted}`")
    return plain


def _device(given: object) -> MergedDevice:
    plain = _table(given, "a device")
    device_id = _text(plain.get("id"), "a device's id")
    if not device_id:
        raise DocumentError("a device's id", "text")

    def known(key: str) -> str:
        return _text(plain.get(key), f"{key} of {device_id}")

    origins = _table(plain.get("origin") or {}, f"origin of {device_id}")
    readings = _table(plain.get("readings") or {}, f"readings of {device_id}")
    absent = _table(plain.get("absent") or {}, f"absent of {device_id}")
    claims = rows(plain.get("allocations") or [], f"allocations of {device_id}", bounds.MOST_CLAIMS)
    allocations = tuple(_allocation(one, f"an allocation of {device_id}") for one in claims)
    return MergedDevice(
        vendor=known("vendor"),
        index=_whole(plain.get("index"), f"index of {device_id}"),
        id=device_id,
        device=known("device"),
        model=known("model"),
        uuid=known("uuid") or None,
        bus_id=known("bus_id") or None,
        serial=known("serial") or None,
        driver=known("driver") or None,
        up=_flag(plain.get("up"), f"up of {device_id}"),
        parent=known("parent") or None,
        partition=known("partition") or None,
        simulated=_flag(plain.get("simulated"), f"simulated of {device_id}") is True,
        replayed=_flag(plain.get("replayed"), f"replayed of {device_id}") is True,
        readings=Readings.of((*_numbers(readings, origins, device_id), *_absences(absent))),
        processes=tuple(_processes(plain, device_id, allocations)),
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
                yield metric, _text(label, f"a label of {metric}"), one


def _numbers(values: Mapping[str, Any], origins: Mapping[str, Any], of: str) -> Iterator[MergedReading]:
    for metric, label, value in _labelled(values):
        origin = origins.get(metric)
        source = origin.get(label) if isinstance(origin, dict) else origin
        yield MergedReading(metric, label, number(value, f"{metric} of {of}"), _text(source, f"origin of {metric}"))


def _absences(values: Mapping[str, Any]) -> Iterator[MergedReading]:
    for metric, label, word in _labelled(values):
        # A newer daemon may know a reason that we do not.
        value: Value = _ABSENT.get(word if isinstance(word, str) else "", Absent.NOT_REPORTED)
        yield MergedReading(metric, label, value, "")


def _source(given: object) -> SourceStatus:
    plain = _table(given, "a source")
    name = _text(plain.get("source"), "a source's name")
    return SourceStatus(
        source=name,
        vendor="",
        state=_state(plain, name),
        reason=cast("Any", _text(plain.get("reason"), f"reason of {name}") or None),
        detail=_text(plain.get("detail"), f"detail of {name}", bounds.LONGEST_TEXT),
        version=_text(plain.get("version"), f"version of {name}") or None,
        problems=tuple(map(_problem, rows(plain.get("problems") or [], name, bounds.MOST_PROBLEMS))),
        polls=tuple(_poll(one, name) for one in rows(plain.get("polls") or [], f"polls of {name}", _MOST_POLLS)),
    )


def _problem(given: object) -> Problem:
    plain = _table(given, "a problem")
    return Problem(_text(plain.get("where"), "a problem"), _text(plain.get("text"), "a problem", bounds.LONGEST_TEXT))


def _state(plain: Mapping[str, Any], name: str) -> State:
    found = _text(plain.get("state"), f"state of {name}")
    if found not in _STATES:
        raise DocumentError(f"state of {name}", "state of a source")
    return cast("State", found)


def _poll(given: object, source: str) -> Health:
    plain = _table(given, f"a poll of {source}")
    age = _number_or_none(plain.get("age_seconds"), f"age of a poll of {source}")
    return Health(
        source=source,
        poll=_text(plain.get("poll"), f"a poll of {source}"),
        tier="fast",
        lists_devices=False,
        state=_state(plain, source),
        reason=cast("Any", _text(plain.get("reason"), f"reason of {source}") or None),
        attempted=0.0 if age is None else 1.0,
        attempted_monotonic=-(age or 0.0),
        seconds=_number_or_none(plain.get("seconds"), f"seconds of a poll of {source}") or 0.0,
    )


def _maintenance(given: object, wall_time: float) -> Maintenance | None:
    if given is None:
        return None
    plain = _table(given, "maintenance")
    until = _moment(plain.get("until"), "the end of the maintenance")
    return Maintenance(until - wall_time, _text(plain.get("reason"), "the reason of the maintenance"))


def _recorded(given: object) -> Recorded | None:
    if given is None:
        return None
    plain = _table(given, "the replay")
    return Recorded(
        _moment(plain.get("recorded"), "the replay's time"),
        _text(plain.get("hostname"), "the replay's host"),
        _moment_or_none(plain.get("shown"), "the replay's moment"),  # older daemons do not tell it
        _text(plain.get("how"), "how the replay goes"),
    )


def _past_of_device(given: object, slots: int) -> tuple[str, Mapping[str, Series]]:
    plain = _table(given, "a device")
    device_id = _text(plain.get("id"), "a device's id")
    series = _table(plain.get("series"), f"series of {device_id}")
    kept = {metric: _series(one, slots, f"{metric} of {device_id}") for metric, one in series.items() if metric in KEPT}
    return device_id, kept


def _series(given: object, slots: int, place: str) -> Series:
    plain = _table(given, place)
    last = _slots(plain.get("last"), slots, place)
    highest = plain.get("highest")
    gaps = (_gap(one, slots, place) for one in rows(plain.get("gaps") or [], place, SLOTS))
    return Series(last, last if highest is None else _slots(highest, slots, place), tuple(gaps))


def _gap(given: object, slots: int, place: str) -> Gap:
    plain = _table(given, f"a gap of {place}")
    first, length = _count(plain.get("first"), place, slots), _count(plain.get("slots"), place, slots)
    return Gap(first, length, _text(plain.get("reason"), place))


def _slots(given: object, slots: int, place: str) -> array[float]:
    values = rows(given, place, slots)
    if len(values) != slots:
        raise DocumentError(place, f"list of {slots} numbers")
    numbers = [math.nan if one is None else number(one, place) for one in values]
    if any(abs(value) > _LARGEST for value in numbers):
        raise DocumentError(place, "number that we can hold")
    return array("f", numbers)


def _count(given: object, place: str, most: int) -> int:
    found = _whole(given, place)
    if found is None or not 0 <= found <= most:
        raise DocumentError(place, f"number from 0 to {most}")
    return found


def _event(given: object) -> PastEvent:
    plain = _table(given, "an event")
    return PastEvent(
        _moment(plain.get("time"), "an event's time"),
        _text(plain.get("id"), "an event's device"),
        _text(plain.get("code"), "an event's code"),
        _text(plain.get("text"), "an event's text", bounds.LONGEST_TEXT),
    )


def _allocation(given: object, place: str) -> Allocation:
    plain = _table(given, place)
    share = number(plain.get("share"), f"share of {place}")
    basis = _text(plain.get("basis"), f"basis of {place}")
    if not 0.0 <= share <= 1.0:
        raise DocumentError(f"share of {place}", "number from 0 to 1")
    return Allocation(
        owner=_owner(_table(plain.get("owner"), f"owner in {place}"), place),
        share=share,
        # A newer daemon may know another one; it is only shown.
        basis=cast("Basis", basis if basis in _BASES else "equal"),
        is_allocated=_flag(plain.get("allocated"), place) is True,
        is_used=_flag(plain.get("used"), place),
        sources=tuple(_text(one, place) for one in rows(plain.get("sources") or [], place, _MOST_OWNER_SOURCES)),
        memory_used_bytes=_number_or_none(plain.get("memory_used_bytes"), place),
        started=_moment_or_none(plain.get("started"), place),
    )


def _owner(plain: Mapping[str, Any], place: str) -> Owner:
    kind = _text(plain.get("kind"), f"kind of {place}")
    name = _text(plain.get("name"), f"name of {place}", bounds.LONGEST_TEXT)
    others = {key: _text(plain.get(key), f"{key} of {place}", bounds.LONGEST_TEXT) for key in _TEXTS}
    return Owner(cast("OwnerKind", kind if kind in _KINDS else "others"), name, **others)


def _processes(device: Mapping[str, Any], device_id: str, allocations: Sequence[Allocation]) -> Iterator[Process]:
    """The processes on the device, with those of its owners that they name. Raises DocumentError."""
    known = {(one.owner.kind, one.owner.name): one.owner for one in allocations}
    for one in rows(device.get("processes") or [], f"processes of {device_id}", bounds.MOST_PROCESSES):
        yield _process(_table(one, f"a process on {device_id}"), f"a process on {device_id}", known)


def _process(plain: Mapping[str, Any], place: str, owners: Mapping[tuple[OwnerKind, str], Owner]) -> Process:
    kind = _text(plain.get("kind"), f"kind of {place}")
    owner = None if plain.get("owner") is None else _owner(_table(plain["owner"], f"owner of {place}"), place)
    return Process(
        device=0,
        pid=_whole(plain.get("pid"), f"pid of {place}") or 0,
        name=_text(plain.get("name"), f"name of {place}"),
        memory_used_bytes=_number_or_none(plain.get("memory_used_bytes"), f"memory of {place}"),
        kind=cast("ProcessKind", kind if kind in _PROCESS_KINDS else ""),
        instance=_text(plain.get("instance"), f"instance of {place}"),
        utilization_ratio=_number_or_none(plain.get("utilization_ratio"), f"utilization of {place}"),
        started=_moment_or_none(plain.get("started"), f"start of {place}"),
        user=_text(plain.get("user"), f"user of {place}", bounds.LONGEST_TEXT),
        command=_text(plain.get("command"), f"command of {place}", bounds.LONGEST_TEXT),
        container=_text(plain.get("container"), f"container of {place}", bounds.LONGEST_TEXT),
        owner=None if owner is None else owners.get((owner.kind, owner.name), owner),
    )


def _number_or_none(value: object, place: str) -> float | None:
    return None if value is None else number(value, place)


def _moment_or_none(value: object, place: str) -> float | None:
    return None if value is None else _moment(value, place)


def _table(value: object, place: str) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise DocumentError(place, "object")
    return value


def rows(value: object, place: str, most: int) -> list[Any]:
    """A list, of which so many entries count."""
    if not isinstance(value, list):
        raise DocumentError(place, "list")
    return value[:most]


def _text(value: object, place: str, longest: int = bounds.LONGEST_NAME) -> str:
    """A text; empty for null."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DocumentError(place, "text")
    return clean(value[:longest])


def number(value: object, place: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DocumentError(place, "number")
    try:
        found = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        found = math.inf
    if not math.isfinite(found):
        raise DocumentError(place, "number that we can hold")
    return found


def _whole(value: object, place: str) -> int | None:
    """A whole number, or None for null."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1 << 53:
        raise DocumentError(place, "whole number")
    return value


def _flag(value: object, place: str) -> bool | None:
    """True, false or null."""
    if value is not None and not isinstance(value, bool):
        raise DocumentError(place, "truth value")
    return value


def _moment(value: object, place: str) -> float:
    """A time as RFC 3339 writes it, in Unix seconds."""
    try:
        found = datetime.fromisoformat(_text(value, place).replace("Z", "+00:00"))
        if found.tzinfo is not None:
            return found.timestamp()
    except (ValueError, OverflowError) as error:
        raise DocumentError(place, "time") from error
    raise DocumentError(place, "time with an offset")
