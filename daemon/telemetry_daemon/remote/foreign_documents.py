"""Reads snapshots and histories from documents of daemons of any version."""

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
    """An invalid document. The message names the invalid part."""

    def __init__(self, subject: str, expected: str) -> None:
        super().__init__(f"{subject} is not a valid {expected}")


def parse_document(body: bytes | str) -> Mapping[str, Any]:
    """Return the JSON object in a response. Raises DocumentError."""
    try:
        plain = decode_untrusted(body.encode() if isinstance(body, str) else body, _MAX_VALUES)
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None
    if not isinstance(plain, dict):
        raise DocumentError("the answer", "object")
    return plain


def read_as(document_type: type[T], document: object) -> T:
    """Return the document as an instance of the dataclass. Raises DocumentError."""
    try:
        return lenient.read(document_type, document)
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None


def to_snapshot(document: object) -> Snapshot:
    """Return the snapshot in a document. It never expires, and its monotonic time is 0. Raises DocumentError."""
    item = read_as(SnapshotJson, document)
    _check_schema("telemetry.snapshot/1", item.schema)
    wall_time = _unix_time(item.time, "time")
    return Snapshot(
        hostname=item.hostname or "",
        wall_time=wall_time,
        monotonic_time=0.0,
        valid_until=math.inf,
        devices=tuple({device.id: device for device in map(_device, item.devices)}.values()),
        host=tuple(_numbers(item.host.readings, {}, "host")),
        sources=tuple(map(_source, item.sources)),
        maintenance=None if item.maintenance is None else _maintenance(item.maintenance, wall_time),
        recorded=None if item.replay is None else _replay_info(item.replay),
    )


def to_history(document: object) -> Past:
    """Return the history in a document. Raises DocumentError."""
    item = read_as(HistoryJson, document)
    _check_schema("telemetry.history/1", item.schema)
    slots = _count(item.slots, "slots", SLOTS)
    return Past(
        start=_unix_time(item.start, "start"),
        slots=slots,
        slot_seconds=max(0.001, item.slot_seconds),
        devices={
            device.id: {
                metric: _series(series, slots, f"{metric} of {device.id}")
                for metric, series in device.series.items()
                if metric in KEPT
            }
            for device in item.devices
        },
        events=tuple(map(_event, item.events)),
    )


def _check_schema(schema: str, value: str) -> None:
    if value != schema:
        raise DocumentError("the document", f"`{schema}`")


def _device(item: DeviceJson) -> MergedDevice:
    if not item.id:
        raise DocumentError("a device's id", "text")
    allocations = tuple(_allocation(allocation, f"an allocation of {item.id}") for allocation in item.allocations)
    owners = {(allocation.owner.kind, allocation.owner.name): allocation.owner for allocation in allocations}
    return MergedDevice(
        vendor=item.vendor,
        index=item.index,
        id=item.id,
        device=item.device,
        model=item.model or "",
        uuid=item.uuid,
        bus_id=item.bus_id,
        serial=item.serial,
        driver=item.driver,
        up=item.up,
        last_read=_unix_time_or_none(item.last_read, f"last list of {item.id}"),
        parent=item.parent,
        partition=item.partition,
        simulated=item.simulated,
        replayed=item.replayed,
        readings=Readings.of((*_numbers(item.readings, item.origin, item.id), *_absences(item.absent))),
        processes=tuple(_process(process, item.id, owners) for process in item.processes),
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


def _numbers(values: Mapping[str, Any], origins: Mapping[str, Any], subject: str) -> Iterator[MergedReading]:
    for metric, label, value in _labelled_values(values):
        origin = origins.get(metric)
        source = origin.get(label) if isinstance(origin, dict) else origin
        try:
            number = read_float(value)
            yield MergedReading(metric, label, number, clean(read_str(source or "")[: bounds.MAX_NAME_LENGTH]))
        except CodecError as error:
            raise DocumentError(f"{metric} of {subject}", f"reading: {error}") from None


def _absences(values: Mapping[str, Any]) -> Iterator[MergedReading]:
    for metric, label, word in _labelled_values(values):
        # A newer daemon may send an unknown reason.
        value: Value = _ABSENT.get(word if isinstance(word, str) else "", Absent.NOT_REPORTED)
        yield MergedReading(metric, label, value, "")


def _source(item: SourceJson) -> SourceStatus:
    return SourceStatus(
        source=item.source,
        vendor="",
        state=_checked_state(item.state, item.source),
        reason=item.reason,
        detail=item.detail or "",
        version=item.version,
        problems=tuple(Problem(problem.where, problem.text) for problem in item.problems),
        polls=tuple(_health_from_json(poll, item.source) for poll in item.polls),
    )


def _checked_state(state: State, source: str) -> State:
    if state not in STATES:
        raise DocumentError(f"state of {source}", "state of a source")
    return state


def _health_from_json(item: PollJson, source: str) -> Health:
    return Health(
        source=source,
        poll=item.poll,
        tier="fast",
        lists_devices=False,
        state=_checked_state(item.state, source),
        reason=item.reason,
        attempted=0.0 if item.age_seconds is None else 1.0,
        attempted_monotonic=-(item.age_seconds or 0.0),
        seconds=item.seconds or 0.0,
    )


def _maintenance(item: MaintenanceJson, wall_time: float) -> Maintenance:
    return Maintenance(_unix_time(item.until, "the end of the maintenance") - wall_time, item.reason or "")


def _replay_info(item: ReplayJson) -> ReplayInfo:
    shown = None if item.shown is None else _unix_time(item.shown, "the replay's moment")
    return ReplayInfo(_unix_time(item.recorded, "the replay's time"), item.hostname or "", shown, item.how or "")


def _series(item: SeriesJson, slots: int, subject: str) -> Series:
    last = _slot_values(item.last, slots, subject)
    highest = _slot_values(item.highest, slots, subject) if item.highest else last
    gaps = (Gap(_count(gap.first, subject, slots), _count(gap.slots, subject, slots), gap.reason) for gap in item.gaps)
    return Series(last, highest, tuple(gaps))


def _slot_values(values: tuple[float | None, ...], slots: int, subject: str) -> array[float]:
    if len(values) < slots:
        raise DocumentError(subject, f"list of {slots} numbers")
    numbers = [math.nan if number is None else number for number in values[:slots]]
    if any(abs(value) > _MAX_FLOAT32 for value in numbers):
        raise DocumentError(subject, "32-bit number")
    return array("f", numbers)


def _count(value: int, subject: str, largest: int) -> int:
    if not 0 <= value <= largest:
        raise DocumentError(subject, f"number from 0 to {largest}")
    return value


def _event(item: EventJson) -> PastEvent:
    return PastEvent(_unix_time(item.time, "an event's time"), item.id, item.code, item.text or "")


def _allocation(item: AllocationJson, subject: str) -> Allocation:
    if not 0.0 <= item.share <= 1.0:
        raise DocumentError(f"share of {subject}", "number from 0 to 1")
    return Allocation(
        owner=_owner(item.owner),
        share=item.share,
        # A newer daemon may send an unknown kind, which is only displayed.
        basis=item.basis if item.basis in _BASES else "equal",
        is_allocated=item.allocated,
        is_used=item.used,
        sources=item.sources,
        memory_used_bytes=_float_or_none(item.memory_used_bytes),
        started=_unix_time_or_none(item.started, subject),
    )


def _owner(item: OwnerJson) -> Owner:
    return Owner(
        kind=_known_kind(item.kind),
        name=item.name or "",
        pod_namespace=item.pod_namespace or "",
        pod_name=item.pod_name or "",
        container_name=item.container_name or "",
        job_id=item.job_id or "",
        job_name=item.job_name or "",
        user=item.user or "",
        account=item.account or "",
        partition=item.partition or "",
    )


def _known_kind(kind: OwnerKind) -> OwnerKind:
    return kind if kind in _OWNER_KINDS else "others"


def _process(item: ProcessJson, device_id: str, owners: Mapping[tuple[OwnerKind, str], Owner]) -> Process:
    owner = None if item.owner is None else Owner(_known_kind(item.owner.kind), item.owner.name or "")
    return Process(
        device=0,
        pid=item.pid,
        name=item.name,
        memory_used_bytes=_float_or_none(item.memory_used_bytes),
        kind=item.kind if item.kind in ("compute", "graphics", "mps") else "",
        instance=item.instance or "",
        utilization_ratio=item.utilization_ratio,
        started=_unix_time_or_none(item.started, f"start of a process on {device_id}"),
        user=item.user or "",
        command=item.command or "",
        container=item.container or "",
        owner=None if owner is None else owners.get((owner.kind, owner.name), owner),
    )


def _float_or_none(value: int | None) -> float | None:
    return None if value is None else float(value)


def _unix_time_or_none(value: str | None, subject: str) -> float | None:
    return None if value is None else _unix_time(value, subject)


def _unix_time(value: str, subject: str) -> float:
    try:
        time = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if time.tzinfo is not None:
            return time.timestamp()
    except (ValueError, OverflowError) as error:
        raise DocumentError(subject, "time") from error
    raise DocumentError(subject, "time with an offset")
