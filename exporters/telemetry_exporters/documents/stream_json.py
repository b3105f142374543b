"""What a live page is told, as data for server-sent events: the node's state, a device that changed, the newest numbers.

docs/stream.schema.json describes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from json import JSONEncoder
from typing import Any

from telemetry_exporters import human
from telemetry_exporters.documents.snapshot_json import utc_time
from telemetry_exporters.judgement.overview import inventory, notes, source_condition, troubles, value_of
from telemetry_exporters.judgement.verdict import Finding
from telemetry_exporters.text import cleaned
from telemetry_parsers.metrics import is_main_temperature
from telemetry_parsers.model import Absent, MergedDevice, Snapshot, SourceStatus
from telemetry_parsers.past import KEPT, kept_values
from telemetry_parsers.readings import Readings

SCHEMA = "telemetry.stream/1"
# What the numbers of `readings` are to be multiplied by: mebibytes and megahertz take fewer digits.
SCALES: Mapping[str, float] = {"memory_used_bytes": 1024.0 * 1024.0, "clock_hertz": 1e6}
_HOST = (
    "telemetry_host_cpu_utilization_ratio",
    "telemetry_host_memory_used_bytes",
    "telemetry_host_memory_total_bytes",
)
_STATES = ("throttled", "event_open")
_ALL_DIGITS_FROM = 1000.0

_encoded = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
Entry = dict[str, Any]


def text(value: Any) -> str:
    """The data on one line."""
    return _encoded(value)


def state(snapshot: Snapshot, devices: Iterable[Entry], version: str, instance: str) -> Entry:
    """All but the numbers; `devices` are their entries, which tell their troubles themselves."""
    return {
        "schema": SCHEMA,
        "version": version,
        "instance": instance,
        "time": utc_time(snapshot.wall_time),
        "hostname": cleaned(snapshot.hostname) or None,
        "inventory": cleaned(inventory(snapshot)),
        "columns": list(KEPT),
        "scales": [SCALES.get(metric, 1) for metric in KEPT],
        "notes": [cleaned(note) for note in notes(snapshot)],
        "devices": list(devices),
        "sources": [_source(source, snapshot.monotonic_time) for source in snapshot.sources],
        "troubles": [
            {"what": cleaned(one.what), "why": cleaned(one.why), "remedy": cleaned(one.remedy)}
            for one in troubles(replace(snapshot, devices=()))
        ],
    }


def without_ages(whole: Entry) -> Entry:
    """The state without what changes at each poll: two of them are equal if there is nothing new."""
    sources = [
        {**one, "polls": [(poll["poll"], poll["state"], poll["reason"]) for poll in one["polls"]]}
        for one in whole["sources"]
    ]
    return {**whole, "time": None, "sources": sources}


def device(one: MergedDevice, findings: Iterable[Finding]) -> Entry:
    """A device without its numbers."""
    active = {
        metric: [cleaned(label) for of, label, is_on in _active(one) if of == metric and is_on] for metric in _STATES
    }
    total = value_of(one, "memory_total_bytes")
    told = [{"word": each.word, "severity": each.severity.value, "remedy": each.remedy} for each in findings]
    entry = {
        "id": one.id,
        "name": f"{one.vendor} {one.device}",
        "vendor": one.vendor,
        "device": one.device,
        "model": (one.current_model or one.model) or None,
        "parent": one.parent or None,
        "partition": one.partition or None,
        "up": one.up,
        "simulated": one.simulated,
        "replayed": one.replayed,
        "memory_total_bytes": None if total is None or isinstance(total, Absent) else int(total),
        "limit_celsius": _limit(one),
        "throttled_by": list(map(cleaned, active["throttled"])),
        "open_events": list(map(cleaned, active["event_open"])),
    }
    entry = {key: cleaned(value) if isinstance(value, str) else value for key, value in entry.items()}
    entry["owners"] = _owners(one) if one.allocations else ""
    return {**entry, "condition": {key: told[0][key] for key in ("word", "severity")}, "findings": told}


def _owners(one: MergedDevice) -> str:
    """Who has it, without what changes at each poll."""

    return cleaned(human.briefly(one.allocations))


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


def _active(one: MergedDevice) -> Iterable[tuple[str, str, bool]]:
    shown = Readings.of(one.readings)
    return (
        (metric, label, value == 1.0)
        for (metric, label), value in zip(shown.shape.keys, shown.values, strict=True)
        if metric in _STATES
    )


def _limit(one: MergedDevice) -> float | None:
    """The lowest temperature at which the device slows down, of its main sensors."""
    shown = Readings.of(one.readings)
    limits = [
        value
        for (metric, label), value in zip(shown.shape.keys, shown.values, strict=True)
        if metric == "temperature_slowdown_celsius" and is_main_temperature(label) and not isinstance(value, Absent)
    ]
    return min(limits, default=None)


def _source(source: SourceStatus, now: float) -> Entry:
    found = source_condition(source)
    return {
        "source": source.source,
        "state": source.state,
        "reason": source.reason,
        "word": cleaned(found.word),
        "severity": found.severity.value,
        "version": cleaned(source.version or "") or None,
        "problems": [{"where": cleaned(one.where), "text": cleaned(one.text)} for one in source.problems],
        "polls": [
            {
                "poll": poll.poll,
                "state": poll.state,
                "reason": poll.reason,
                "seconds": round(poll.seconds, 3) if poll.attempted else None,
                "age_seconds": round(max(0.0, now - poll.attempted_monotonic), 1) if poll.attempted else None,
            }
            for poll in source.polls
        ],
    }
