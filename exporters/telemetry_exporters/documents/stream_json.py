"""Data of the live page's server-sent events: the node's state, a device that changed, the newest numbers.

docs/stream.schema.json is made of its classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from telemetry_exporters import human
from telemetry_exporters.documents.history_json import EventJson, Seconds, SeriesByMetric
from telemetry_exporters.documents.json_values import moment_text, utc_time
from telemetry_exporters.documents.snapshot_parts import ConditionJson, PollJson, ProblemJson, SeverityWord
from telemetry_exporters.judgement.overview import (
    inventory,
    notes,
    shares_host_memory,
    slowdown_celsius,
    source_condition,
    troubles,
    value_of,
)
from telemetry_exporters.judgement.verdict import Finding, Verdict
from telemetry_exporters.text import cleaned
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import AtMost, Count, NotNegative, Schema, TextOrNull, Time, Word
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, MergedDevice, Reason, Snapshot, SourceStatus, State
from telemetry_parsers.past import KEPT, kept_values
from telemetry_parsers.readings import Readings

# What the numbers of `readings` are to be multiplied by: mebibytes and megahertz take fewer digits.
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
    """What is said of a device."""

    word: Word
    severity: SeverityWord
    remedy: str
    """What to do; empty if nothing is to be done."""
    words: str
    """The word, with an explanation if it is a code."""
    meaning: str
    """What it means; empty if that is clear."""


@dataclass(frozen=True, slots=True)
class DeviceJson:
    """One device without its numbers: within `state`, and as an event of its own when it alone has changed; it keeps its place."""

    id: str
    name: Word
    """Vendor and `device` label."""
    vendor: str
    device: str
    model: TextOrNull
    parent: TextOrNull
    """The id of the device that it is a part of."""
    partition: TextOrNull
    up: bool | None
    """False for a lost device, null if that is unknown."""
    last_read: TextOrNull
    """When a source last listed a device whose presence is unknown, in UTC; null for other devices."""
    simulated: bool
    replayed: bool
    memory_total_bytes: Count | None
    shares_host_memory: bool
    """True for one without memory of its own, whose use is part of the host's."""
    limit_celsius: float | None
    """The temperature at which it slows down."""
    throttled_by: tuple[str, ...]
    """What holds its clocks down now."""
    open_events: tuple[str, ...]
    """Codes of events that last until it is repaired."""
    owners: str
    """Who has it, in words, the largest share first: `job 1234 (alice): not used`; empty if it has no owner or owners are not reported."""
    condition: ConditionJson
    """The first of its findings."""
    findings: Annotated[tuple[FindingJson, ...], Schema({"minItems": 1})]
    """All that is said of it, worst first."""


@dataclass(frozen=True, slots=True)
class SourceJson:
    """One tool, library or set of driver files. Later polls alone are no reason to tell the state again."""

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
    """What is wrong with some devices or with a source."""

    what: Word
    """The devices, all of them, or the source: `nvidia 3, 7`."""
    why: Word
    remedy: str
    severity: SeverityWord


@dataclass(frozen=True, slots=True)
class StateJson:
    """Everything but the numbers: at the beginning, and whenever anything else in it changes than one device."""

    schema: Literal["telemetry.stream/1"]
    version: Word
    """Of device telemetry."""
    instance: Annotated[str, Schema({"pattern": "^[0-9a-f]+$"})]
    """Another one after each start of the daemon."""
    time: Time
    """In UTC, by the node's clock."""
    hostname: TextOrNull
    inventory: str
    """The devices in words, such as `8 × H100`."""
    columns: tuple[str, ...]
    """What the numbers in a row of `readings` are: metric names without `accelerator_`."""
    scales: tuple[Seconds, ...]
    """What the numbers of each column are to be multiplied by to have them in base units."""
    notes: tuple[str, ...]
    """To be shown with everything: that devices are simulated, that the node is in maintenance."""
    devices: tuple[DeviceJson, ...]
    sources: tuple[SourceJson, ...]
    troubles: tuple[TroubleJson, ...]
    """All that is wrong, worst first; devices with the same condition are one entry."""


@dataclass(frozen=True, slots=True)
class TroublesJson:
    """The list of what is wrong has changed, and of the rest of the state nothing except devices."""

    troubles: tuple[TroubleJson, ...]


@dataclass(frozen=True, slots=True)
class ReadingsJson:
    """The newest numbers of all devices, at most once in a second."""

    time: float
    """When they were read: Unix seconds by the node's clock."""
    valid_seconds: NotNegative | None
    """How long they hold from now on; null if there is nothing that ends."""
    host: Annotated[tuple[float | None, ...], Schema({"minItems": 3})]
    """Of the node: the share of its CPU time that is used, its used memory and its memory, in bytes."""
    values: Annotated[tuple[_Row | None, ...], AtMost(_MOST_ROWS)]
    """A row for each device, in the order of the last `state`; null for a device without any number."""


@dataclass(frozen=True, slots=True)
class MissedSeriesJson:
    """The slots of one device that a client missed, which gave the id of the last event that it saw."""

    start: Time
    """The beginning of the first slot."""
    slot_seconds: Seconds
    slots: Count
    id: str
    """The device."""
    series: SeriesByMetric
    """Its series by metric, as in `telemetry.history/1`."""


@dataclass(frozen=True, slots=True)
class MissedEventsJson:
    """The events of the time that a client missed, after the series of all devices."""

    start: Time
    """The beginning of the first slot."""
    slot_seconds: Seconds
    slots: Count
    events: tuple[EventJson, ...]


def state(snapshot: Snapshot, verdict: Verdict, version: str, instance: str) -> Entry:
    """Return everything except the numbers."""
    whole = StateJson(
        schema="telemetry.stream/1",
        version=version,
        instance=instance,
        time=utc_time(snapshot.wall_time),
        hostname=cleaned(snapshot.hostname) or None,
        inventory=cleaned(inventory(snapshot)),
        columns=KEPT,
        scales=tuple([SCALES.get(metric, 1) for metric in KEPT]),
        notes=tuple([cleaned(note) for note in notes(snapshot)]),
        devices=(),
        sources=tuple([_source(source, snapshot.monotonic_time) for source in snapshot.sources]),
        # Without ages, which change at each poll.
        troubles=tuple(
            [
                TroubleJson(
                    cleaned(trouble.what), cleaned(trouble.why), cleaned(trouble.remedy), trouble.severity.value
                )
                for trouble in troubles(snapshot, verdict)
            ]
        ),
    )
    entries = [device(one, verdict[one.id]) for one in snapshot.devices]
    return {**to_plain(StateJson, whole), "devices": entries}


def without_ages(whole: Entry) -> Entry:
    """The state without what changes at each poll: two of them are equal if there is nothing new."""
    sources = [
        {**one, "polls": [(poll["poll"], poll["state"], poll["reason"]) for poll in one["polls"]]}
        for one in whole["sources"]
    ]
    return {**whole, "time": None, "sources": sources}


def device(one: MergedDevice, findings: Iterable[Finding]) -> Entry:
    """A device without its numbers."""
    total = value_of(one, "memory_total_bytes")
    shown = [
        FindingJson(finding.word, finding.severity.value, finding.remedy, finding.words, finding.meaning)
        for finding in findings
    ]
    entry = DeviceJson(
        id=cleaned(one.id),
        name=cleaned(f"{one.vendor} {one.device}"),
        vendor=cleaned(one.vendor),
        device=cleaned(one.device),
        model=cleaned(one.current_model or one.model) or None,
        parent=cleaned(one.parent or "") or None,
        partition=cleaned(one.partition or "") or None,
        up=one.up,
        last_read=moment_text(one.last_read),
        simulated=one.simulated,
        replayed=one.replayed,
        memory_total_bytes=None if total is None or isinstance(total, Absent) else int(total),
        shares_host_memory=shares_host_memory(one),
        limit_celsius=slowdown_celsius(one),
        throttled_by=_active(one, "throttled"),
        open_events=_active(one, "event_open"),
        # Without what changes at each poll.
        owners=cleaned(human.briefly(one.allocations)) if one.allocations else "",
        condition=ConditionJson(shown[0].word, shown[0].severity),
        findings=tuple(shown),
    )
    return to_plain(DeviceJson, entry)


def readings(snapshot: Snapshot, its_numbers: str, now: float) -> str:
    """The newest numbers, when they were read, and how long they hold from now on: null where there is nothing that ends."""
    left = max(0.0, snapshot.valid_until - now)
    valid = f"{left:.1f}" if math.isfinite(left) else "null"
    return f'{{"time":{snapshot.wall_time:.3f},"valid_seconds":{valid},{its_numbers}}}'


def numbers(snapshot: Snapshot) -> str:
    """The part of `readings` that is made once: a row for each device, in the order of the last state; null where there is none."""
    host = {reading.metric: reading.value for reading in snapshot.host if not reading.label}
    of_host = ",".join(_number(host.get(metric), 1.0) for metric in _HOST)
    return f'"host":[{of_host}],"values":[{",".join(map(_row, snapshot.devices))}]'


def _row(one: MergedDevice) -> str:
    texts = [_number(value, SCALES.get(metric, 1.0)) for metric, value in zip(KEPT, kept_values(one), strict=True)]
    return "null" if all(each == "null" for each in texts) else f"[{','.join(texts)}]"


def _number(value: float | Absent | None, scale: float) -> str:
    """Four digits, but all of those before the point."""
    if value is None or isinstance(value, Absent):
        return "null"
    number = value / scale
    return str(round(number)) if abs(number) >= _ALL_DIGITS_FROM else f"{number:.4g}"


def _active(one: MergedDevice, state: str) -> tuple[str, ...]:
    """The words of this metric that are 1."""
    shown = Readings.of(one.readings)
    return tuple(
        cleaned(label)
        for (metric, label), value in zip(shown.shape.keys, shown.values, strict=True)
        if metric == state and value == 1.0
    )


def _source(source: SourceStatus, now: float) -> SourceJson:
    found = source_condition(source)
    return SourceJson(
        source=source.source,
        state=source.state,
        reason=source.reason,
        word=cleaned(found.word),
        severity=found.severity.value,
        version=cleaned(source.version or "") or None,
        problems=tuple([ProblemJson(cleaned(one.where), cleaned(one.text)) for one in source.problems]),
        polls=tuple(
            [
                PollJson(
                    poll=poll.poll,
                    state=poll.state,
                    reason=poll.reason,
                    seconds=round(poll.seconds, 3) if poll.attempted else None,
                    age_seconds=round(max(0.0, now - poll.attempted_monotonic), 1) if poll.attempted else None,
                )
                for poll in source.polls
            ]
        ),
    )
