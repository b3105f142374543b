"""Reads snapshots and histories from documents that a daemon of any version has sent."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, get_args

from telemetry_daemon.remote import lenient
from telemetry_exporters.documents.history_json import EventJson, HistoryJson, SeriesJson
from telemetry_exporters.documents.snapshot_parts import (
    AllocationJson,
    DeviceJson,
    MaintenanceJson,
    OwnerJson,
    PollJson,
    ProcessJson,
    ReplayJson,
    SnapshotJson,
    SourceJson,
)
from telemetry_exporters.text import clean
from telemetry_parsers import bounds
from telemetry_parsers.codec.plain import CodecError, decode_untrusted, read_float, read_str
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import (
    STATES,
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
from telemetry_parsers.ownership import Allocation, Basis, Owner, OwnerKind, Process
from telemetry_parsers.past import KEPT, SLOTS, Gap, Past, PastEvent, Series
from telemetry_parsers.readings import Readings
from telemetry_parsers.replay_info import ReplayInfo

T = TypeVar("T")
_ABSENT = {absent.value: absent for absent in Absent}
_MAX_FLOAT32 = 3.4e38
_MAX_VALUES = 4_000_000
_OWNER_KINDS: frozenset[str] = frozenset(get_args(OwnerKind))
_BASES: frozenset[str] = frozenset(get_args(Basis))


class DocumentError(ValueError):
    """An invalid document."""

    def __init__(self, subject: str, expected: str) -> None:
        super().__init__(f"{subject} is not a valid {expected}")


def parse_document(body: bytes | str) -> Mapping[str, Any]:
    """Return the JSON object in a response. Raises DocumentError if the body is not a JSON object."""
    try:
        document = decode_untrusted(body.encode() if isinstance(body, str) else body, _MAX_VALUES)
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None
    if not isinstance(document, dict):
        raise DocumentError("the answer", "object")
    return document


def read_as(document_type: type[T], document: object) -> T:
    """Return the document as an instance of `document_type`. Raises DocumentError if a value has the wrong type."""
    try:
        return lenient.read(document_type, document)
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None


def to_snapshot(document: object) -> Snapshot:
    """Convert a document to a snapshot. Raise DocumentError if the document is invalid."""
    content = read_as(SnapshotJson, document)
    _check_schema("telemetry.snapshot/1", content.schema)
    wall_time = _parse_unix_time(content.time, "time")
    return Snapshot(
        hostname=content.hostname or "",
        wall_time=wall_time,
        monotonic_time=0.0,
        valid_until=math.inf,
        devices=tuple({device.id: device for device in map(_parse_device, content.devices)}.values()),
        host=tuple(_parse_numbers(content.host.readings, {}, "host")),
        sources=tuple(map(_parse_source, content.sources)),
        maintenance=None if content.maintenance is None else _parse_maintenance(content.maintenance, wall_time),
        recorded=None if content.replay is None else _parse_replay_info(content.replay),
    )


def to_history(document: object) -> Past:
    """Convert a document to a history. Raise DocumentError if the document is invalid."""
    content = read_as(HistoryJson, document)
    _check_schema("telemetry.history/1", content.schema)
    slots = _check_range(content.slots, "slots", SLOTS)
    return Past(
        start=_parse_unix_time(content.start, "start"),
        slots=slots,
        slot_seconds=max(0.001, content.slot_seconds),
        devices={
            device.id: {
                metric: _parse_series(series, slots, f"{metric} of {device.id}")
                for metric, series in device.series.items()
                if metric in KEPT
            }
            for device in content.devices
        },
        events=tuple(map(_parse_event, content.events)),
    )


def _check_schema(expected: str, actual: str) -> None:
    if actual != expected:
        raise DocumentError("the document", f"`{expected}`")


def _parse_device(device: DeviceJson) -> MergedDevice:
    if not device.id:
        raise DocumentError("a device's id", "text")
    subject = f"an allocation of {device.id}"
    allocations = tuple(_parse_allocation(allocation, subject) for allocation in device.allocations)
    owners = {(allocation.owner.kind, allocation.owner.name): allocation.owner for allocation in allocations}
    numbers = _parse_numbers(device.readings, device.origin, device.id)
    return MergedDevice(
        vendor=device.vendor,
        index=device.index,
        id=device.id,
        device=device.device,
        model=device.model or "",
        uuid=device.uuid,
        bus_id=device.bus_id,
        serial=device.serial,
        driver=device.driver,
        up=device.up,
        last_read=_parse_time_or_none(device.last_read, f"the time when {device.id} was last listed"),
        parent=device.parent,
        partition=device.partition,
        simulated=device.simulated,
        replayed=device.replayed,
        readings=Readings.of((*numbers, *_parse_absences(device.absent))),
        processes=tuple(_parse_process(process, device.id, owners) for process in device.processes),
        allocations=allocations,
    )


def _labelled_values(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    entry_count = 0
    for metric, value in values.items():
        for label, entry in value.items() if isinstance(value, dict) else (("", value),):
            entry_count += 1
            if entry_count > bounds.MAX_READINGS:
                return
            if metric in BY_KEY:
                yield metric, clean(label[: bounds.MAX_NAME_LENGTH]), entry


def _parse_numbers(values: Mapping[str, Any], origins: Mapping[str, Any], subject: str) -> Iterator[MergedReading]:
    for metric, label, value in _labelled_values(values):
        origin = origins.get(metric)
        source = origin.get(label) if isinstance(origin, dict) else origin
        try:
            number = read_float(value)
            yield MergedReading(metric, label, number, clean(read_str(source or "")[: bounds.MAX_NAME_LENGTH]))
        except CodecError as error:
            raise DocumentError(f"{metric} of {subject}", f"reading: {error}") from None


def _parse_absences(values: Mapping[str, Any]) -> Iterator[MergedReading]:
    for metric, label, word in _labelled_values(values):
        # A newer daemon may send an unknown reason.
        value: Value = _ABSENT.get(word if isinstance(word, str) else "", Absent.NOT_REPORTED)
        yield MergedReading(metric, label, value, "")


def _parse_source(source: SourceJson) -> SourceStatus:
    return SourceStatus(
        source=source.source,
        vendor="",
        state=_require_known_state(source.state, source.source),
        reason=source.reason,
        detail=source.detail or "",
        version=source.version,
        problems=tuple(Problem(problem.where, problem.text) for problem in source.problems),
        polls=tuple(_parse_health(poll, source.source) for poll in source.polls),
    )


def _require_known_state(state: State, source: str) -> State:
    if state not in STATES:
        raise DocumentError(f"state of {source}", "state of a source")
    return state


def _parse_health(poll: PollJson, source: str) -> Health:
    return Health(
        source=source,
        poll=poll.poll,
        tier="fast",
        lists_devices=False,
        state=_require_known_state(poll.state, source),
        reason=poll.reason,
        attempted=0.0 if poll.age_seconds is None else 1.0,  # 0 means never; 1 stands for an unknown time
        attempted_monotonic=-(poll.age_seconds or 0.0),
        seconds=poll.seconds or 0.0,
    )


def _parse_maintenance(maintenance: MaintenanceJson, wall_time: float) -> Maintenance:
    end_time = _parse_unix_time(maintenance.until, "the maintenance's end time")
    return Maintenance(end_time - wall_time, maintenance.reason or "")


def _parse_replay_info(replay: ReplayJson) -> ReplayInfo:
    shown = None if replay.shown is None else _parse_unix_time(replay.shown, "the replay's moment")
    recorded = _parse_unix_time(replay.recorded, "the replay's time")
    return ReplayInfo(recorded, replay.hostname or "", shown, replay.how or "")


def _parse_series(series: SeriesJson, slots: int, subject: str) -> Series:
    last = _slot_values(series.last, slots, subject)
    highest = _slot_values(series.highest, slots, subject) if series.highest else last
    gaps = (
        Gap(_check_range(gap.first, subject, slots), _check_range(gap.slots, subject, slots), gap.reason)
        for gap in series.gaps
    )
    return Series(last, highest, tuple(gaps))


def _slot_values(values: tuple[float | None, ...], slots: int, subject: str) -> array[float]:
    if len(values) < slots:
        raise DocumentError(subject, f"list of {slots} numbers")
    numbers = [math.nan if number is None else number for number in values[:slots]]
    if any(abs(value) > _MAX_FLOAT32 for value in numbers):
        raise DocumentError(subject, "32-bit number")
    return array("f", numbers)


def _check_range(value: int, subject: str, largest: int) -> int:
    if not 0 <= value <= largest:
        raise DocumentError(subject, f"number from 0 to {largest}")
    return value


def _parse_event(event: EventJson) -> PastEvent:
    return PastEvent(_parse_unix_time(event.time, "an event's time"), event.id, event.code, event.text or "")


def _parse_allocation(allocation: AllocationJson, subject: str) -> Allocation:
    if not 0.0 <= allocation.share <= 1.0:
        raise DocumentError(f"share of {subject}", "number from 0 to 1")
    return Allocation(
        owner=_parse_owner(allocation.owner),
        share=allocation.share,
        # A newer daemon may send a basis that this version cannot display.
        basis=allocation.basis if allocation.basis in _BASES else "equal",
        is_allocated=allocation.allocated,
        is_used=allocation.used,
        sources=allocation.sources,
        memory_used_bytes=_float_or_none(allocation.memory_used_bytes),
        started=_parse_time_or_none(allocation.started, subject),
    )


def _parse_owner(owner: OwnerJson) -> Owner:
    return Owner(
        kind=_kind_or_others(owner.kind),
        name=owner.name or "",
        pod_namespace=owner.pod_namespace or "",
        pod_name=owner.pod_name or "",
        container_name=owner.container_name or "",
        job_id=owner.job_id or "",
        job_name=owner.job_name or "",
        user=owner.user or "",
        account=owner.account or "",
        partition=owner.partition or "",
    )


def _kind_or_others(kind: OwnerKind) -> OwnerKind:
    return kind if kind in _OWNER_KINDS else "others"


def _parse_process(process: ProcessJson, device_id: str, owners: Mapping[tuple[OwnerKind, str], Owner]) -> Process:
    owner = None if process.owner is None else Owner(_kind_or_others(process.owner.kind), process.owner.name or "")
    return Process(
        device=0,
        pid=process.pid,
        name=process.name,
        memory_used_bytes=_float_or_none(process.memory_used_bytes),
        kind=process.kind if process.kind in ("compute", "graphics", "mps") else "",
        instance=process.instance or "",
        utilization_ratio=process.utilization_ratio,
        started=_parse_time_or_none(process.started, f"the start time of a process on {device_id}"),
        user=process.user or "",
        command=process.command or "",
        container=process.container or "",
        owner=None if owner is None else owners.get((owner.kind, owner.name), owner),
    )


def _float_or_none(value: int | None) -> float | None:
    return None if value is None else float(value)


def _parse_time_or_none(value: str | None, subject: str) -> float | None:
    return None if value is None else _parse_unix_time(value, subject)


def _parse_unix_time(value: str, subject: str) -> float:
    try:
        time = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if time.tzinfo is not None:
            return time.timestamp()
    except (ValueError, OverflowError) as error:
        raise DocumentError(subject, "time") from error
    raise DocumentError(subject, "time with an offset")
