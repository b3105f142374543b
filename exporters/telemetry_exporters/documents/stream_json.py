"""The data of server-sent events. docs/stream.schema.json is generated from these classes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from telemetry_exporters import human
from telemetry_exporters.documents.history_json import EventJson, Seconds, SeriesByMetric
from telemetry_exporters.documents.json_values import utc_time, utc_time_or_none
from telemetry_exporters.documents.snapshot_parts import ConditionJson, PollJson, ProblemJson, SeverityWord, poll_json
from telemetry_exporters.judgement import overview
from telemetry_exporters.judgement.verdict import Finding, Verdict
from telemetry_exporters.text import clean
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import Count, MaxSize, NotNegative, Schema, TextOrNull, Time, Word
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, MergedDevice, Reason, Snapshot, SourceStatus, State
from telemetry_parsers.past import KEPT, kept_values
from telemetry_parsers.readings import Readings

# Numbers in MiB and MHz need fewer digits than in bytes and Hz.
SCALES: Mapping[str, float] = {"memory_used_bytes": 1024.0 * 1024.0, "clock_hertz": 1e6}
_HOST_METRICS = (
    "telemetry_host_cpu_utilization_ratio",
    "telemetry_host_memory_used_bytes",
    "telemetry_host_memory_total_bytes",
)
_MIN_ROUNDED_NUMBER = 1000.0
_MAX_ROWS = 4096

Entry = dict[str, Any]
_Row = Annotated[tuple[float | None, ...], MaxSize(len(KEPT))]


@dataclass(frozen=True, slots=True)
class FindingJson:
    """A condition of a device."""

    word: Word
    severity: SeverityWord
    remedy: str
    """What the operator should do; empty if nothing is necessary."""
    words: str
    """The condition as text: `word`, followed by an explanation if it is a code."""
    meaning: str
    """What the condition means; empty if `word` is self-explanatory."""


@dataclass(frozen=True, slots=True)
class DeviceJson:
    """A device without its numbers. Sent as part of `state`, or as a separate event if only this device changed. A separate event does not change the order of devices in `state`."""

    id: str
    name: Word
    """Vendor and `device` label."""
    vendor: str
    device: str
    model: TextOrNull
    parent: TextOrNull
    """The id of the card that this partition belongs to."""
    partition: TextOrNull
    up: bool | None
    """False if the device is lost; null if its presence is unknown."""
    last_read: TextOrNull
    """When a source last listed the device, in UTC. Null unless the device's presence is unknown."""
    simulated: bool
    replayed: bool
    memory_total_bytes: Count | None
    shares_host_memory: bool
    """True if the device has no memory of its own and uses the host's memory."""
    limit_celsius: float | None
    """The temperature at which the device slows down."""
    throttled_by: tuple[str, ...]
    """The active throttling reasons."""
    open_events: tuple[str, ...]
    """Codes of events that last until the device is repaired."""
    owners: str
    """The owners as text, such as `job 1234 (alice): not used`, the largest share first. Empty if the device has no owner, or if owners are not reported."""
    condition: ConditionJson
    """The worst condition of the device."""
    findings: Annotated[tuple[FindingJson, ...], Schema({"minItems": 1})]
    """All conditions of the device, worst first."""


@dataclass(frozen=True, slots=True)
class SourceJson:
    """A tool, a library or a set of driver files. If only the ages of its polls change, `state` is not sent again."""

    source: Word
    """The name of the source, usually of its tool."""
    state: State
    reason: Reason | None
    word: Word
    severity: SeverityWord
    version: TextOrNull
    problems: tuple[ProblemJson, ...]
    polls: tuple[PollJson, ...]


@dataclass(frozen=True, slots=True)
class TroubleJson:
    """A problem with devices or with a source."""

    what: Word
    """The devices (such as `nvidia 3, 7`) or the source that has the problem."""
    why: Word
    remedy: str
    severity: SeverityWord


@dataclass(frozen=True, slots=True)
class StateJson:
    """The node's state without the numbers. Sent first, and again when anything except `devices` and `troubles` changes."""

    schema: Literal["telemetry.stream/1"]
    version: Word
    """The version of device telemetry."""
    instance: Annotated[str, Schema({"pattern": "^[0-9a-f]+$"})]
    """An id that changes each time the daemon starts."""
    time: Time
    """In UTC, by the node's clock."""
    hostname: TextOrNull
    inventory: str
    """The number of devices of each model, such as `8 × H100`."""
    columns: tuple[str, ...]
    """The metrics in the columns of `readings`, without `accelerator_`."""
    scales: tuple[Seconds, ...]
    """For each column, the factor that converts the column's numbers to base units."""
    notes: tuple[str, ...]
    """Warnings that concern all data: simulated devices, maintenance."""
    devices: tuple[DeviceJson, ...]
    sources: tuple[SourceJson, ...]
    troubles: tuple[TroubleJson, ...]
    """All problems, worst first. Devices with the same condition share one entry."""


@dataclass(frozen=True, slots=True)
class TroublesJson:
    """The new list of problems. Sent when the list changes, unless `state` is sent instead."""

    troubles: tuple[TroubleJson, ...]


@dataclass(frozen=True, slots=True)
class ReadingsJson:
    """The newest numbers of all devices, at most once a second."""

    time: float
    """The time of the readings, in Unix seconds by the node's clock."""
    valid_seconds: NotNegative | None
    """How long the readings stay valid; null without a limit."""
    host: Annotated[tuple[float | None, ...], Schema({"minItems": 3})]
    """The node's CPU utilization (0 to 1), used memory and total memory in bytes."""
    values: Annotated[tuple[_Row | None, ...], MaxSize(_MAX_ROWS)]
    """One row per device, in the order of the latest `state`. The row of a device without numbers is null."""


@dataclass(frozen=True, slots=True)
class _MissedJson:
    start: Time
    """The beginning of the first slot."""
    slot_seconds: Seconds
    slots: Count


@dataclass(frozen=True, slots=True)
class MissedSeriesJson(_MissedJson):
    """The slots of one device that a reconnecting client missed (`Last-Event-ID`)."""

    id: str
    """The id of the device."""
    series: SeriesByMetric
    """The series of each metric, as in `telemetry.history/1`."""


@dataclass(frozen=True, slots=True)
class MissedEventsJson(_MissedJson):
    """The events that a reconnecting client missed. Sent after the series of all devices."""

    events: tuple[EventJson, ...]


def state(snapshot: Snapshot, verdict: Verdict, version: str, instance: str) -> Entry:
    """Return the state of the node as plain data."""
    without_devices = StateJson(
        schema="telemetry.stream/1",
        version=version,
        instance=instance,
        time=utc_time(snapshot.wall_time),
        hostname=clean(snapshot.hostname) or None,
        inventory=clean(overview.inventory(snapshot)),
        columns=KEPT,
        scales=tuple([SCALES.get(metric, 1) for metric in KEPT]),
        notes=tuple([clean(note) for note in overview.notes(snapshot)]),
        devices=(),
        sources=tuple([_source_to_json(source, snapshot.monotonic_time) for source in snapshot.sources]),
        troubles=tuple(map(_trouble_to_json, overview.troubles(snapshot, verdict))),
    )
    entries = [device(merged, verdict[merged.id]) for merged in snapshot.devices]
    return {**to_plain(StateJson, without_devices), "devices": entries}


def _trouble_to_json(trouble: overview.Trouble) -> TroubleJson:
    # `age` is not sent, because it changes at each poll.
    return TroubleJson(clean(trouble.what), clean(trouble.why), clean(trouble.remedy), trouble.severity.value)


def without_ages(state: Entry) -> Entry:
    """Return the state without the values that change at each poll: its time, and the polls' durations and ages."""
    sources = [
        {**source, "polls": [(poll["poll"], poll["state"], poll["reason"]) for poll in source["polls"]]}
        for source in state["sources"]
    ]
    return {**state, "time": None, "sources": sources}


def device(merged: MergedDevice, findings: Iterable[Finding]) -> Entry:
    """Return a device without its numbers as plain data."""
    total = overview.as_number(overview.reading_value(merged, "memory_total_bytes"))
    findings_json = [
        FindingJson(finding.word, finding.severity.value, finding.remedy, finding.headline, finding.meaning)
        for finding in findings
    ]
    device_json = DeviceJson(
        id=clean(merged.id),
        name=clean(f"{merged.vendor} {merged.device}"),
        vendor=clean(merged.vendor),
        device=clean(merged.device),
        model=clean(merged.current_model or merged.model) or None,
        parent=clean(merged.parent or "") or None,
        partition=clean(merged.partition or "") or None,
        up=merged.up,
        last_read=utc_time_or_none(merged.last_read),
        simulated=merged.simulated,
        replayed=merged.replayed,
        memory_total_bytes=None if total is None else int(total),
        shares_host_memory=overview.shares_host_memory(merged),
        limit_celsius=overview.slowdown_celsius(merged),
        throttled_by=_active_labels(merged, "throttled"),
        open_events=_active_labels(merged, "event_open"),
        # Shares are not sent, because they change at each poll.
        owners=clean(human.owners_text(merged.allocations)) if merged.allocations else "",
        condition=ConditionJson(findings_json[0].word, findings_json[0].severity),
        findings=tuple(findings_json),
    )
    return to_plain(DeviceJson, device_json)


def readings(snapshot: Snapshot, numbers_json: str, now: float) -> str:
    """Return the event `readings` as JSON. `numbers_json` comes from `numbers()`."""
    remaining = max(0.0, snapshot.valid_until - now)
    valid_seconds = f"{remaining:.1f}" if math.isfinite(remaining) else "null"
    return f'{{"time":{snapshot.wall_time:.3f},"valid_seconds":{valid_seconds},{numbers_json}}}'


def numbers(snapshot: Snapshot) -> str:
    """Return the members `host` and `values` of the event `readings` as JSON text."""
    host = {reading.metric: reading.value for reading in snapshot.host if not reading.label}
    host_numbers = ",".join(_to_json(host.get(metric), 1.0) for metric in _HOST_METRICS)
    return f'"host":[{host_numbers}],"values":[{",".join(map(_row_to_json, snapshot.devices))}]'


def _row_to_json(device: MergedDevice) -> str:
    texts = [_to_json(value, SCALES.get(metric, 1.0)) for metric, value in zip(KEPT, kept_values(device), strict=True)]
    return "null" if set(texts) == {"null"} else f"[{','.join(texts)}]"


def _to_json(value: float | Absent | None, scale: float) -> str:
    """Return the number divided by `scale` as JSON, with four significant digits or as an integer from 1,000."""
    if value is None or isinstance(value, Absent):
        return "null"
    scaled = value / scale
    return str(round(scaled)) if abs(scaled) >= _MIN_ROUNDED_NUMBER else f"{scaled:.4g}"


def _active_labels(device: MergedDevice, state_metric: str) -> tuple[str, ...]:
    readings = Readings.of(device.readings)
    return tuple(
        clean(label)
        for (metric, label), value in zip(readings.shape.keys, readings.values, strict=True)
        if metric == state_metric and value == 1.0
    )


def _source_to_json(status: SourceStatus, now: float) -> SourceJson:
    condition = overview.source_condition(status)
    return SourceJson(
        source=status.source,
        state=status.state,
        reason=status.reason,
        word=clean(condition.word),
        severity=condition.severity.value,
        version=clean(status.version or "") or None,
        problems=tuple([ProblemJson(clean(problem.where), clean(problem.text)) for problem in status.problems]),
        polls=tuple([poll_json(poll, now, 3, 1) for poll in status.polls]),
    )
