"""The data of server-sent events: the node's state, changed devices, the newest numbers. docs/stream.schema.json is generated from its classes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from telemetry_exporters import human
from telemetry_exporters.documents.history_json import EventJson, Seconds, SeriesByMetric
from telemetry_exporters.documents.json_values import moment_text, utc_time
from telemetry_exporters.documents.snapshot_parts import ConditionJson, PollJson, ProblemJson, SeverityWord, poll_json
from telemetry_exporters.judgement import overview
from telemetry_exporters.judgement.verdict import Finding, Verdict
from telemetry_exporters.text import cleaned
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import AtMost, Count, NotNegative, Schema, TextOrNull, Time, Word
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, MergedDevice, Reason, Snapshot, SourceStatus, State
from telemetry_parsers.past import KEPT, kept_values
from telemetry_parsers.readings import Readings

# The factors of the numbers in `readings`: mebibytes and megahertz take fewer digits.
SCALES: Mapping[str, float] = {"memory_used_bytes": 1024.0 * 1024.0, "clock_hertz": 1e6}
_HOST = (
    "telemetry_host_cpu_utilization_ratio",
    "telemetry_host_memory_used_bytes",
    "telemetry_host_memory_total_bytes",
)
_ALL_DIGITS_FROM = 1000.0
_MOST_ROWS = 4096

Entry = dict[str, Any]
_Row = Annotated[tuple[float | None, ...], AtMost(len(KEPT))]


@dataclass(frozen=True, slots=True)
class FindingJson:
    """A condition of a device."""

    word: Word
    severity: SeverityWord
    remedy: str
    """What to do; empty if nothing is needed."""
    words: str
    """The word, with an explanation if it is a code."""
    meaning: str
    """What it means; empty if that is clear."""


@dataclass(frozen=True, slots=True)
class DeviceJson:
    """One device without its numbers: in `state`, and as an event of its own if only this device changed. Its position stays the same."""

    id: str
    name: Word
    """Vendor and `device` label."""
    vendor: str
    device: str
    model: TextOrNull
    parent: TextOrNull
    """The id of the device of which it is a part."""
    partition: TextOrNull
    up: bool | None
    """False for a lost device, null if unknown."""
    last_read: TextOrNull
    """When a source last listed a device whose presence is unknown, in UTC; null for other devices."""
    simulated: bool
    replayed: bool
    memory_total_bytes: Count | None
    shares_host_memory: bool
    """True for a device without memory of its own; its use is part of the host's."""
    limit_celsius: float | None
    """The temperature at which it slows down."""
    throttled_by: tuple[str, ...]
    """The active reasons of throttling."""
    open_events: tuple[str, ...]
    """Codes of events that last until the device is repaired."""
    owners: str
    """The owners in words, the largest share first: `job 1234 (alice): not used`; empty without an owner, or if owners are not reported."""
    condition: ConditionJson
    """The first of its findings."""
    findings: Annotated[tuple[FindingJson, ...], Schema({"minItems": 1})]
    """All its conditions, worst first."""


@dataclass(frozen=True, slots=True)
class SourceJson:
    """One tool, library or set of driver files. A later time of polls alone does not send the state again."""

    source: Word
    """Named as its tool."""
    state: State
    reason: Reason | None
    word: Word
    severity: SeverityWord
    version: TextOrNull
    problems: tuple[ProblemJson, ...]
    polls: tuple[PollJson, ...]


@dataclass(frozen=True, slots=True)
class TroubleJson:
    """A problem of devices or of a source."""

    what: Word
    """The devices together, or the source: `nvidia 3, 7`."""
    why: Word
    remedy: str
    severity: SeverityWord


@dataclass(frozen=True, slots=True)
class StateJson:
    """Everything except the numbers: at the beginning, and when something other than one device changes."""

    schema: Literal["telemetry.stream/1"]
    version: Word
    """The version of device telemetry."""
    instance: Annotated[str, Schema({"pattern": "^[0-9a-f]+$"})]
    """A different value after each start of the daemon."""
    time: Time
    """In UTC, by the node's clock."""
    hostname: TextOrNull
    inventory: str
    """The devices in words, such as `8 × H100`."""
    columns: tuple[str, ...]
    """The columns of a row of `readings`: metric names without `accelerator_`."""
    scales: tuple[Seconds, ...]
    """The factor of each column, for numbers in base units."""
    notes: tuple[str, ...]
    """Warnings about everything shown: simulated devices, maintenance."""
    devices: tuple[DeviceJson, ...]
    sources: tuple[SourceJson, ...]
    troubles: tuple[TroubleJson, ...]
    """All that is wrong, worst first; devices with the same condition are one entry."""


@dataclass(frozen=True, slots=True)
class TroublesJson:
    """The new list of what is wrong, if nothing else in the state changed except devices."""

    troubles: tuple[TroubleJson, ...]


@dataclass(frozen=True, slots=True)
class ReadingsJson:
    """The newest numbers of all devices, at most once a second."""

    time: float
    """When they were read: Unix seconds by the node's clock."""
    valid_seconds: NotNegative | None
    """How long they are valid from now on; null without a limit."""
    host: Annotated[tuple[float | None, ...], Schema({"minItems": 3})]
    """The share of the node's CPU time in use, its used memory and its memory, in bytes."""
    values: Annotated[tuple[_Row | None, ...], AtMost(_MOST_ROWS)]
    """A row for each device, in the order of the last `state`; null for a device without any number."""


@dataclass(frozen=True, slots=True)
class _MissedJson:
    start: Time
    """The beginning of the first slot."""
    slot_seconds: Seconds
    slots: Count


@dataclass(frozen=True, slots=True)
class MissedSeriesJson(_MissedJson):
    """The slots of one device since the last event that the client saw, by its id."""

    id: str
    """The device."""
    series: SeriesByMetric
    """Its series by metric, as in `telemetry.history/1`."""


@dataclass(frozen=True, slots=True)
class MissedEventsJson(_MissedJson):
    """The events that a client missed, after the series of all devices."""

    events: tuple[EventJson, ...]


def state(snapshot: Snapshot, verdict: Verdict, version: str, instance: str) -> Entry:
    """Return everything except the numbers."""
    whole = StateJson(
        schema="telemetry.stream/1",
        version=version,
        instance=instance,
        time=utc_time(snapshot.wall_time),
        hostname=cleaned(snapshot.hostname) or None,
        inventory=cleaned(overview.inventory(snapshot)),
        columns=KEPT,
        scales=tuple([SCALES.get(metric, 1) for metric in KEPT]),
        notes=tuple([cleaned(note) for note in overview.notes(snapshot)]),
        devices=(),
        sources=tuple([_source(source, snapshot.monotonic_time) for source in snapshot.sources]),
        troubles=tuple(map(_trouble, overview.troubles(snapshot, verdict))),
    )
    entries = [device(merged, verdict[merged.id]) for merged in snapshot.devices]
    return {**to_plain(StateJson, whole), "devices": entries}


def _trouble(trouble: overview.Trouble) -> TroubleJson:
    # Without `age`, which changes at each poll.
    return TroubleJson(cleaned(trouble.what), cleaned(trouble.why), cleaned(trouble.remedy), trouble.severity.value)


def without_ages(whole: Entry) -> Entry:
    """Return the state without values that change at each poll, so that two states can be compared."""
    sources = [
        {**source, "polls": [(poll["poll"], poll["state"], poll["reason"]) for poll in source["polls"]]}
        for source in whole["sources"]
    ]
    return {**whole, "time": None, "sources": sources}


def device(device: MergedDevice, findings: Iterable[Finding]) -> Entry:
    """Return a device without its numbers."""
    total = overview.number_of(overview.value_of(device, "memory_total_bytes"))
    shown = [
        FindingJson(finding.word, finding.severity.value, finding.remedy, finding.words, finding.meaning)
        for finding in findings
    ]
    entry = DeviceJson(
        id=cleaned(device.id),
        name=cleaned(f"{device.vendor} {device.device}"),
        vendor=cleaned(device.vendor),
        device=cleaned(device.device),
        model=cleaned(device.current_model or device.model) or None,
        parent=cleaned(device.parent or "") or None,
        partition=cleaned(device.partition or "") or None,
        up=device.up,
        last_read=moment_text(device.last_read),
        simulated=device.simulated,
        replayed=device.replayed,
        memory_total_bytes=None if total is None else int(total),
        shares_host_memory=overview.shares_host_memory(device),
        limit_celsius=overview.slowdown_celsius(device),
        throttled_by=_active(device, "throttled"),
        open_events=_active(device, "event_open"),
        # Without shares, which change at each poll.
        owners=cleaned(human.briefly(device.allocations)) if device.allocations else "",
        condition=ConditionJson(shown[0].word, shown[0].severity),
        findings=tuple(shown),
    )
    return to_plain(DeviceJson, entry)


def readings(snapshot: Snapshot, its_numbers: str, now: float) -> str:
    """Return the newest numbers, their time, and how long they are valid; null without a limit."""
    left = max(0.0, snapshot.valid_until - now)
    valid = f"{left:.1f}" if math.isfinite(left) else "null"
    return f'{{"time":{snapshot.wall_time:.3f},"valid_seconds":{valid},{its_numbers}}}'


def numbers(snapshot: Snapshot) -> str:
    """Return the part of `readings` that all clients share: a row for each device in the order of the last state, null without numbers."""
    host = {reading.metric: reading.value for reading in snapshot.host if not reading.label}
    of_host = ",".join(_number(host.get(metric), 1.0) for metric in _HOST)
    return f'"host":[{of_host}],"values":[{",".join(map(_row, snapshot.devices))}]'


def _row(device: MergedDevice) -> str:
    texts = [_number(value, SCALES.get(metric, 1.0)) for metric, value in zip(KEPT, kept_values(device), strict=True)]
    return "null" if set(texts) == {"null"} else f"[{','.join(texts)}]"


def _number(value: float | Absent | None, scale: float) -> str:
    """Return four digits, but all digits before the point."""
    if value is None or isinstance(value, Absent):
        return "null"
    number = value / scale
    return str(round(number)) if abs(number) >= _ALL_DIGITS_FROM else f"{number:.4g}"


def _active(device: MergedDevice, state: str) -> tuple[str, ...]:
    """Return the words of this metric that are 1."""
    shown = Readings.of(device.readings)
    return tuple(
        cleaned(label)
        for (metric, label), value in zip(shown.shape.keys, shown.values, strict=True)
        if metric == state and value == 1.0
    )


def _source(source: SourceStatus, now: float) -> SourceJson:
    found = overview.source_condition(source)
    return SourceJson(
        source=source.source,
        state=source.state,
        reason=source.reason,
        word=cleaned(found.word),
        severity=found.severity.value,
        version=cleaned(source.version or "") or None,
        problems=tuple([ProblemJson(cleaned(problem.where), cleaned(problem.text)) for problem in source.problems]),
        polls=tuple([poll_json(poll, now, 3, 1) for poll in source.polls]),
    )
