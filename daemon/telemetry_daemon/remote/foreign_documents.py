"""Reads snapshots and histories from documents of daemons, also of older and newer versions."""

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
# The largest value of float32.
_LARGEST = 3.4e38
_MOST_VALUES = 4_000_000
_KINDS: frozenset[str] = frozenset(get_args(OwnerKind))
_BASES: frozenset[str] = frozenset(get_args(Basis))


class DocumentError(ValueError):
    """An invalid document. The text names the position."""

    def __init__(self, position: str, expected: str) -> None:
        super().__init__(f"{position} is not a valid {expected}")


def document_in(body: bytes | str) -> Mapping[str, Any]:
    """Return the JSON object in a response. Raises DocumentError."""
    try:
        plain = decode_foreign(body.encode() if isinstance(body, str) else body, _MOST_VALUES)
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None
    if not isinstance(plain, dict):
        raise DocumentError("the answer", "object")
    return plain


def document_as(kind: type[T], document: object) -> T:
    """Return the document as this dataclass. Raises DocumentError."""
    try:
        return lenient.read(kind, document)
    except CodecError as error:
        raise DocumentError("the answer", f"document: {error}") from None


def snapshot_of(document: object) -> Snapshot:
    """Return the snapshot in a document. It never expires, and its monotonic time is 0. Raises DocumentError."""
    parsed = document_as(SnapshotJson, document)
    _check_schema("telemetry.snapshot/1", parsed.schema)
    wall_time = _moment(parsed.time, "time")
    return Snapshot(
        hostname=parsed.hostname or "",
        wall_time=wall_time,
        monotonic_time=0.0,
        valid_until=math.inf,
        devices=tuple({device.id: device for device in map(_device, parsed.devices)}.values()),
        host=tuple(_numbers(parsed.host.readings, {}, "host")),
        sources=tuple(map(_source, parsed.sources)),
        maintenance=None if parsed.maintenance is None else _maintenance(parsed.maintenance, wall_time),
        recorded=None if parsed.replay is None else _recorded(parsed.replay),
    )


def past_of(document: object) -> Past:
    """Return the history in a document. Raises DocumentError."""
    parsed = document_as(HistoryJson, document)
    _check_schema("telemetry.history/1", parsed.schema)
    slots = _count(parsed.slots, "slots", SLOTS)
    return Past(
        start=_moment(parsed.start, "start"),
        slots=slots,
        slot_seconds=max(0.001, parsed.slot_seconds),
        devices={
            device.id: {
                metric: _series(series, slots, f"{metric} of {device.id}")
                for metric, series in device.series.items()
                if metric in KEPT
            }
            for device in parsed.devices
        },
        events=tuple(map(_event, parsed.events)),
    )


def _check_schema(schema: str, value: str) -> None:
    if value != schema:
        raise DocumentError("the document", f"`{schema}`")


def _device(parsed: DeviceJson) -> MergedDevice:
    if not parsed.id:
        raise DocumentError("a device's id", "text")
    allocations = tuple(_allocation(allocation, f"an allocation of {parsed.id}") for allocation in parsed.allocations)
    owners = {(allocation.owner.kind, allocation.owner.name): allocation.owner for allocation in allocations}
    return MergedDevice(
        vendor=parsed.vendor,
        index=parsed.index,
        id=parsed.id,
        device=parsed.device,
        model=parsed.model or "",
        uuid=parsed.uuid,
        bus_id=parsed.bus_id,
        serial=parsed.serial,
        driver=parsed.driver,
        up=parsed.up,
        last_read=_moment_or_none(parsed.last_read, f"last list of {parsed.id}"),
        parent=parsed.parent,
        partition=parsed.partition,
        simulated=parsed.simulated,
        replayed=parsed.replayed,
        readings=Readings.of(
            (
                *_numbers(parsed.readings, parsed.origin, parsed.id),
                *_absences(parsed.absent),
            )
        ),
        processes=tuple(_process(process, parsed.id, owners) for process in parsed.processes),
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
        # A newer daemon may send an unknown reason.
        value: Value = _ABSENT.get(word if isinstance(word, str) else "", Absent.NOT_REPORTED)
        yield MergedReading(metric, label, value, "")


def _source(parsed: SourceJson) -> SourceStatus:
    return SourceStatus(
        source=parsed.source,
        vendor="",
        state=_state(parsed.state, parsed.source),
        reason=parsed.reason,
        detail=parsed.detail or "",
        version=parsed.version,
        problems=tuple(Problem(problem.where, problem.text) for problem in parsed.problems),
        polls=tuple(_poll(poll, parsed.source) for poll in parsed.polls),
    )


def _state(state: State, source: str) -> State:
    if state not in STATES:
        raise DocumentError(f"state of {source}", "state of a source")
    return state


def _poll(parsed: PollJson, source: str) -> Health:
    return Health(
        source=source,
        poll=parsed.poll,
        tier="fast",
        lists_devices=False,
        state=_state(parsed.state, source),
        reason=parsed.reason,
        attempted=0.0 if parsed.age_seconds is None else 1.0,
        attempted_monotonic=-(parsed.age_seconds or 0.0),
        seconds=parsed.seconds or 0.0,
    )


def _maintenance(parsed: MaintenanceJson, wall_time: float) -> Maintenance:
    return Maintenance(_moment(parsed.until, "the end of the maintenance") - wall_time, parsed.reason or "")


def _recorded(parsed: ReplayJson) -> Recorded:
    shown = None if parsed.shown is None else _moment(parsed.shown, "the replay's moment")
    return Recorded(
        _moment(parsed.recorded, "the replay's time"),
        parsed.hostname or "",
        shown,
        parsed.how or "",
    )


def _series(parsed: SeriesJson, slots: int, position: str) -> Series:
    last = _slots(parsed.last, slots, position)
    highest = _slots(parsed.highest, slots, position) if parsed.highest else last
    gaps = (
        Gap(_count(gap.first, position, slots), _count(gap.slots, position, slots), gap.reason) for gap in parsed.gaps
    )
    return Series(last, highest, tuple(gaps))


def _slots(parsed: tuple[float | None, ...], slots: int, position: str) -> array[float]:
    if len(parsed) < slots:
        raise DocumentError(position, f"list of {slots} numbers")
    numbers = [math.nan if number is None else number for number in parsed[:slots]]
    if any(abs(value) > _LARGEST for value in numbers):
        raise DocumentError(position, "32-bit number")
    return array("f", numbers)


def _count(value: int, position: str, most: int) -> int:
    if not 0 <= value <= most:
        raise DocumentError(position, f"number from 0 to {most}")
    return value


def _event(parsed: EventJson) -> PastEvent:
    return PastEvent(_moment(parsed.time, "an event's time"), parsed.id, parsed.code, parsed.text or "")


def _allocation(parsed: AllocationJson, position: str) -> Allocation:
    if not 0.0 <= parsed.share <= 1.0:
        raise DocumentError(f"share of {position}", "number from 0 to 1")
    return Allocation(
        owner=_owner(parsed.owner),
        share=parsed.share,
        # A newer daemon may send an unknown kind, which is only displayed.
        basis=parsed.basis if parsed.basis in _BASES else "equal",
        is_allocated=parsed.allocated,
        is_used=parsed.used,
        sources=parsed.sources,
        memory_used_bytes=_float(parsed.memory_used_bytes),
        started=_moment_or_none(parsed.started, position),
    )


def _owner(parsed: OwnerJson) -> Owner:
    return Owner(
        kind=_kind(parsed.kind),
        name=parsed.name or "",
        pod_namespace=parsed.pod_namespace or "",
        pod_name=parsed.pod_name or "",
        container_name=parsed.container_name or "",
        job_id=parsed.job_id or "",
        job_name=parsed.job_name or "",
        user=parsed.user or "",
        account=parsed.account or "",
        partition=parsed.partition or "",
    )


def _kind(kind: OwnerKind) -> OwnerKind:
    return kind if kind in _KINDS else "others"


def _process(parsed: ProcessJson, device_id: str, owners: Mapping[tuple[OwnerKind, str], Owner]) -> Process:
    named = None if parsed.owner is None else Owner(_kind(parsed.owner.kind), parsed.owner.name or "")
    return Process(
        device=0,
        pid=parsed.pid,
        name=parsed.name,
        memory_used_bytes=_float(parsed.memory_used_bytes),
        kind=parsed.kind if parsed.kind in ("compute", "graphics", "mps") else "",
        instance=parsed.instance or "",
        utilization_ratio=parsed.utilization_ratio,
        started=_moment_or_none(parsed.started, f"start of a process on {device_id}"),
        user=parsed.user or "",
        command=parsed.command or "",
        container=parsed.container or "",
        owner=None if named is None else owners.get((named.kind, named.name), named),
    )


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _moment_or_none(value: str | None, position: str) -> float | None:
    return None if value is None else _moment(value, position)


def _moment(value: str, position: str) -> float:
    try:
        time = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if time.tzinfo is not None:
            return time.timestamp()
    except (ValueError, OverflowError) as error:
        raise DocumentError(position, "time") from error
    raise DocumentError(position, "time with an offset")
