"""Reads a snapshot and a history from a daemon's documents, of older and newer versions, too."""

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
from telemetry_parsers.codec.plain import CodecError, decode_foreign, finite, text
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
from telemetry_parsers.recorded import Recorded

T = TypeVar("T")
_ABSENT = {absent.value: absent for absent in Absent}
# float32 holds no larger number.
_LARGEST = 3.4e38
_MOST_VALUES = 4_000_000
_KINDS: frozenset[str] = frozenset(get_args(OwnerKind))
_BASES: frozenset[str] = frozenset(get_args(Basis))


class DocumentError(ValueError):
    """An invalid document; the text names the position."""

    def __init__(self, position: str, wanted: str) -> None:
        super().__init__(f"{position} is no {wanted}")


def document_in(body: bytes | str) -> Mapping[str, Any]:
    """Return the JSON object in an answer. Raises DocumentError."""
    try:
        plain = decode_foreign(body.encode() if isinstance(body, str) else body, _MOST_VALUES)
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None
    if not isinstance(plain, dict):
        raise DocumentError("the answer", "object")
    return plain


def document_as(kind: type[T], document: object) -> T:
    """Return the document as its dataclass. Raises DocumentError."""
    try:
        return lenient.read(kind, document)
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None


def snapshot_of(document: object) -> Snapshot:
    """Return the snapshot; its monotonic clock is 0 at its creation, and it never expires by itself. Raises DocumentError."""
    read = document_as(SnapshotJson, document)
    _want("telemetry.snapshot/1", read.schema)
    wall_time = _moment(read.time, "time")
    return Snapshot(
        hostname=read.hostname or "",
        wall_time=wall_time,
        monotonic_time=0.0,
        valid_until=math.inf,
        devices=tuple({device.id: device for device in map(_device, read.devices)}.values()),
        host=tuple(_numbers(read.host.readings, {}, "host")),
        sources=tuple(map(_source, read.sources)),
        maintenance=None if read.maintenance is None else _maintenance(read.maintenance, wall_time),
        recorded=None if read.replay is None else _recorded(read.replay),
    )


def past_of(document: object) -> Past:
    """Return the history. Raises DocumentError."""
    read = document_as(HistoryJson, document)
    _want("telemetry.history/1", read.schema)
    slots = _count(read.slots, "slots", SLOTS)
    return Past(
        start=_moment(read.start, "start"),
        slots=slots,
        slot_seconds=max(0.001, read.slot_seconds),
        devices={
            device.id: {
                metric: _series(series, slots, f"{metric} of {device.id}")
                for metric, series in device.series.items()
                if metric in KEPT
            }
            for device in read.devices
        },
        events=tuple(map(_event, read.events)),
    )


def _want(schema: str, found: str) -> None:
    if found != schema:
        raise DocumentError("the document", f"`{schema}`")


def _device(read: DeviceJson) -> MergedDevice:
    if not read.id:
        raise DocumentError("a device's id", "text")
    allocations = tuple(_allocation(allocation, f"an allocation of {read.id}") for allocation in read.allocations)
    owners = {(allocation.owner.kind, allocation.owner.name): allocation.owner for allocation in allocations}
    return MergedDevice(
        vendor=read.vendor,
        index=read.index,
        id=read.id,
        device=read.device,
        model=read.model or "",
        uuid=read.uuid,
        bus_id=read.bus_id,
        serial=read.serial,
        driver=read.driver,
        up=read.up,
        last_read=_moment_or_none(read.last_read, f"last list of {read.id}"),
        parent=read.parent,
        partition=read.partition,
        simulated=read.simulated,
        replayed=read.replayed,
        readings=Readings.of((*_numbers(read.readings, read.origin, read.id), *_absences(read.absent))),
        processes=tuple(_process(process, read.id, owners) for process in read.processes),
        allocations=allocations,
    )


def _labelled(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    entries = 0
    for metric, value in values.items():
        for label, entry in value.items() if isinstance(value, dict) else (("", value),):
            entries += 1
            if entries > bounds.MOST_READINGS:
                return
            if metric in BY_KEY:
                yield metric, clean(label[: bounds.LONGEST_NAME]), entry


def _numbers(values: Mapping[str, Any], origins: Mapping[str, Any], of: str) -> Iterator[MergedReading]:
    for metric, label, value in _labelled(values):
        origin = origins.get(metric)
        source = origin.get(label) if isinstance(origin, dict) else origin
        try:
            yield MergedReading(metric, label, finite(value), clean(text(source or "")[: bounds.LONGEST_NAME]))
        except CodecError as error:
            raise DocumentError(f"{metric} of {of}", f"reading: {error}") from None


def _absences(values: Mapping[str, Any]) -> Iterator[MergedReading]:
    for metric, label, word in _labelled(values):
        # A newer daemon may have a reason that this version does not know.
        value: Value = _ABSENT.get(word if isinstance(word, str) else "", Absent.NOT_REPORTED)
        yield MergedReading(metric, label, value, "")


def _source(read: SourceJson) -> SourceStatus:
    return SourceStatus(
        source=read.source,
        vendor="",
        state=_state(read.state, read.source),
        reason=read.reason,
        detail=read.detail or "",
        version=read.version,
        problems=tuple(Problem(problem.where, problem.text) for problem in read.problems),
        polls=tuple(_poll(poll, read.source) for poll in read.polls),
    )


def _state(state: State, source: str) -> State:
    if state not in STATES:
        raise DocumentError(f"state of {source}", "state of a source")
    return state


def _poll(read: PollJson, source: str) -> Health:
    return Health(
        source=source,
        poll=read.poll,
        tier="fast",
        lists_devices=False,
        state=_state(read.state, source),
        reason=read.reason,
        attempted=0.0 if read.age_seconds is None else 1.0,
        attempted_monotonic=-(read.age_seconds or 0.0),
        seconds=read.seconds or 0.0,
    )


def _maintenance(read: MaintenanceJson, wall_time: float) -> Maintenance:
    return Maintenance(_moment(read.until, "the end of the maintenance") - wall_time, read.reason or "")


def _recorded(read: ReplayJson) -> Recorded:
    shown = None if read.shown is None else _moment(read.shown, "the replay's moment")
    return Recorded(_moment(read.recorded, "the replay's time"), read.hostname or "", shown, read.how or "")


def _series(read: SeriesJson, slots: int, position: str) -> Series:
    last = _slots(read.last, slots, position)
    highest = _slots(read.highest, slots, position) if read.highest else last
    gaps = (
        Gap(_count(gap.first, position, slots), _count(gap.slots, position, slots), gap.reason) for gap in read.gaps
    )
    return Series(last, highest, tuple(gaps))


def _slots(read: tuple[float | None, ...], slots: int, position: str) -> array[float]:
    if len(read) < slots:
        raise DocumentError(position, f"list of {slots} numbers")
    numbers = [math.nan if number is None else number for number in read[:slots]]
    if any(abs(value) > _LARGEST for value in numbers):
        raise DocumentError(position, "number that we can hold")
    return array("f", numbers)


def _count(found: int, position: str, most: int) -> int:
    if not 0 <= found <= most:
        raise DocumentError(position, f"number from 0 to {most}")
    return found


def _event(read: EventJson) -> PastEvent:
    return PastEvent(_moment(read.time, "an event's time"), read.id, read.code, read.text or "")


def _allocation(read: AllocationJson, position: str) -> Allocation:
    if not 0.0 <= read.share <= 1.0:
        raise DocumentError(f"share of {position}", "number from 0 to 1")
    return Allocation(
        owner=_owner(read.owner),
        share=read.share,
        # A newer daemon may have an unknown kind; it is only displayed.
        basis=read.basis if read.basis in _BASES else "equal",
        is_allocated=read.allocated,
        is_used=read.used,
        sources=read.sources,
        memory_used_bytes=_float(read.memory_used_bytes),
        started=_moment_or_none(read.started, position),
    )


def _owner(read: OwnerJson) -> Owner:
    return Owner(
        kind=_kind(read.kind),
        name=read.name or "",
        pod_namespace=read.pod_namespace or "",
        pod_name=read.pod_name or "",
        container_name=read.container_name or "",
        job_id=read.job_id or "",
        job_name=read.job_name or "",
        user=read.user or "",
        account=read.account or "",
        partition=read.partition or "",
    )


def _kind(kind: OwnerKind) -> OwnerKind:
    return kind if kind in _KINDS else "others"


def _process(read: ProcessJson, device_id: str, owners: Mapping[tuple[OwnerKind, str], Owner]) -> Process:
    named = None if read.owner is None else Owner(_kind(read.owner.kind), read.owner.name or "")
    return Process(
        device=0,
        pid=read.pid,
        name=read.name,
        memory_used_bytes=_float(read.memory_used_bytes),
        kind=read.kind if read.kind in ("compute", "graphics", "mps") else "",
        instance=read.instance or "",
        utilization_ratio=read.utilization_ratio,
        started=_moment_or_none(read.started, f"start of a process on {device_id}"),
        user=read.user or "",
        command=read.command or "",
        container=read.container or "",
        owner=None if named is None else owners.get((named.kind, named.name), named),
    )


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _moment_or_none(value: str | None, position: str) -> float | None:
    return None if value is None else _moment(value, position)


def _moment(value: str, position: str) -> float:
    try:
        found = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if found.tzinfo is not None:
            return found.timestamp()
    except (ValueError, OverflowError) as error:
        raise DocumentError(position, "time") from error
    raise DocumentError(position, "time with an offset")
