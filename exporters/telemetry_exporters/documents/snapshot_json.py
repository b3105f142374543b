"""The document `telemetry.snapshot/1`: the whole snapshot for programs, as docs/snapshot.schema.json describes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timezone
from json import JSONEncoder
from typing import Any

from telemetry_exporters.human import is_moment
from telemetry_exporters.judgement.verdict import Finding, judge
from telemetry_exporters.snapshot_filter import NO_METRICS, screen, usable_metrics
from telemetry_exporters.text import clean, cleaned
from telemetry_parsers.model import Absent, Health, MergedDevice, MergedReading, Metric, Process, Snapshot, SourceStatus
from telemetry_parsers.ownership import Allocation, Owner

SCHEMA = "telemetry.snapshot/1"

_LONGEST_LINE = 118
_OWNER = tuple(field.name for field in fields(Owner))
_encoded = JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_compact = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_Document = dict[str, Any]


def document(
    snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS, ids: Collection[str] | None = None
) -> _Document:
    """The document as plain data, of all devices or of these: all keys are always present, and what is unknown is None."""
    shown = screen(snapshot, extra).snapshot
    metrics = usable_metrics(extra)
    verdict = judge(shown)
    return {
        "schema": SCHEMA,
        "time": utc_time(shown.wall_time),
        "hostname": shown.hostname or None,
        "maintenance": _maintenance(shown),
        "replay": _replay(shown),
        "host": {"readings": _numbers(shown.host, metrics)},
        "sources": [_source(source, shown.monotonic_time) for source in shown.sources],
        # A device is judged beside all others of its model.
        "devices": [
            _device(device, verdict[device.id][0], metrics)
            for device in shown.devices
            if ids is None or device.id in ids
        ],
    }


def with_processes(plain: _Document, snapshot: Snapshot, command_lines: Mapping[int, str]) -> _Document:
    """A document with the processes of this snapshot, and the command lines of those of which they are known, by pid."""
    of_device = {
        clean(device.id): [
            {**_process(cleaned(one)), "command_line": clean(command_lines.get(one.pid, "")) or None}
            for one in device.processes
        ]
        for device in snapshot.devices
    }
    devices = [{**device, "processes": of_device.get(clean(device["id"]), [])} for device in plain["devices"]]
    return {**plain, "devices": devices}


def render(snapshot: Snapshot, extra: Mapping[str, Metric] = NO_METRICS, ids: Collection[str] | None = None) -> str:
    """The document as text, small parts on one line each; numbers without exponents."""
    return text(document(snapshot, extra, ids))


def text(plain: Mapping[str, Any]) -> str:
    """A document as text, small parts on one line each; numbers without exponents."""
    return _text(plain, "") + "\n"


def line(plain: Mapping[str, Any]) -> str:
    """A document on one line."""
    return _compact(plain) + "\n"


def utc_time(unix_seconds: float) -> str:
    """The moment as RFC 3339 prints it, in UTC with milliseconds."""
    moment = datetime.fromtimestamp(unix_seconds, tz=timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_text(unix_seconds: float | None) -> str | None:
    """The moment as `utc_time` writes it; None where there is none, or a calendar has it not."""
    return utc_time(unix_seconds) if unix_seconds is not None and is_moment(unix_seconds) else None


def _maintenance(snapshot: Snapshot) -> _Document | None:
    maintenance = snapshot.maintenance
    if maintenance is None or maintenance.seconds_left is None:
        return None
    return {"until": utc_time(snapshot.wall_time + maintenance.seconds_left), "reason": maintenance.reason or None}


def _replay(snapshot: Snapshot) -> _Document | None:
    recorded = snapshot.recorded
    if recorded is None:
        return None
    return {
        "recorded": utc_time(recorded.wall_time),
        "hostname": recorded.hostname or None,
        "shown": moment_text(recorded.shown),
        "how": recorded.how or None,
    }


def _source(source: SourceStatus, now: float) -> _Document:
    return {
        "source": source.source,
        "state": source.state,
        "reason": source.reason,
        "detail": source.detail or None,
        "version": source.version or None,
        "problems": [{"where": problem.where, "text": problem.text} for problem in source.problems],
        "unknown_fields": list(source.unknown_fields),
        "polls": [_poll(poll, now) for poll in source.polls],
    }


def _poll(poll: Health, now: float) -> _Document:
    tried = bool(poll.attempted)
    return {
        "poll": poll.poll,
        "state": poll.state,
        "reason": poll.reason,
        "seconds": round(poll.seconds, 6) if tried else None,
        "age_seconds": round(max(0.0, now - poll.attempted_monotonic), 3) if tried else None,
    }


def _device(device: MergedDevice, condition: Finding, metrics: Mapping[str, Metric]) -> _Document:
    return {
        "vendor": device.vendor,
        "index": device.index,
        "id": device.id,
        "device": device.device,
        "model": device.current_model or device.model or None,
        "uuid": device.uuid or None,
        "bus_id": device.bus_id or None,
        "serial": device.serial or None,
        "driver": device.driver or None,
        "up": device.up,
        "condition": {"word": condition.word, "severity": condition.severity.value},
        "parent": device.parent or None,
        "partition": device.partition or None,
        "simulated": device.simulated,
        "replayed": device.replayed,
        "readings": _numbers(device.readings, metrics),
        "absent": _by_metric(
            (reading.metric, reading.label, reading.value.value)
            for reading in device.readings
            if isinstance(reading.value, Absent)
        ),
        "origin": _origins(device.readings),
        "allocations": [_allocation(allocation) for allocation in device.allocations],
        "processes": [_process(process) for process in device.processes],
    }


def _allocation(allocation: Allocation) -> _Document:
    return {
        "owner": {name: getattr(allocation.owner, name) or None for name in _OWNER},
        "share": round(allocation.share, 6),
        "basis": allocation.basis,
        "allocated": allocation.is_allocated,
        "used": allocation.is_used,
        "sources": list(allocation.sources),
        "memory_used_bytes": _whole(allocation.memory_used_bytes),
        "started": moment_text(allocation.started),
    }


def _process(process: Process) -> _Document:
    owner = process.owner
    return {
        "pid": process.pid,
        "name": process.name,
        "memory_used_bytes": _whole(process.memory_used_bytes),
        "kind": process.kind or None,
        "instance": process.instance or None,
        "utilization_ratio": process.utilization_ratio,
        "started": moment_text(process.started),
        "user": process.user or None,
        "command": process.command or None,
        "container": process.container or None,
        "owner": None if owner is None else {"kind": owner.kind, "name": owner.name or None},
    }


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _numbers(readings: Iterable[MergedReading], metrics: Mapping[str, Metric]) -> _Document:
    return _by_metric(
        (reading.metric, reading.label, _number(reading.value, metrics[reading.metric]))
        for reading in readings
        if not isinstance(reading.value, Absent)
    )


def _number(value: float, metric: Metric) -> float | int:
    return int(value) if metric.unit == "bytes" and value == int(value) else value + 0.0


def _by_metric(entries: Iterable[tuple[str, str, Any]]) -> _Document:
    """Each metric's value, or an object of its values by label."""
    values: _Document = {}
    for metric, label, value in entries:
        if not label:
            values.setdefault(metric, value)
        elif isinstance(values.setdefault(metric, {}), dict):
            values[metric][label] = value
    return values


def _origins(readings: Iterable[MergedReading]) -> _Document:
    """The source of each number; a single word if all labels of a metric have the same source."""
    numbers = [reading for reading in readings if not isinstance(reading.value, Absent)]
    by_metric = _by_metric((reading.metric, reading.label, reading.source) for reading in numbers)
    return {metric: _one_word(sources) for metric, sources in by_metric.items()}


def _one_word(sources: str | dict[str, str]) -> str | dict[str, str]:
    words = {sources} if isinstance(sources, str) else set(sources.values())
    return words.pop() if len(words) == 1 else sources


def _text(value: Any, indent: str) -> str:
    """The value as JSON: on one line if it fits, else with each entry on its own line."""
    if isinstance(value, float):
        return plain_number(value)
    if not isinstance(value, dict | list) or not value:
        return _encoded(value)
    deeper = indent + "  "
    if isinstance(value, dict):
        opening, closing = "{", "}"
        entries = [f"{_encoded(key)}: {_text(entry, deeper)}" for key, entry in value.items()]
    else:
        opening, closing = "[", "]"
        entries = [_text(entry, deeper) for entry in value]
    line = f"{opening}{', '.join(entries)}{closing}"
    if len(line) + len(indent) <= _LONGEST_LINE and "\n" not in line:
        return line
    inner = f",\n{deeper}".join(entries)
    return f"{opening}\n{deeper}{inner}\n{indent}{closing}"


def plain_number(value: float) -> str:
    """The shortest digits that give exactly this number, without an exponent; a whole number has all its digits."""
    digits = repr(value)
    if "e" not in digits:
        return digits
    if value.is_integer():
        return f"{value:.0f}"
    # By hand, since `decimal` takes half a MiB of the daemon's memory: `-1.5e-07` is less than 1, with one digit before the point.
    mantissa, _, exponent = digits.partition("e")
    sign = "-" if value < 0 else ""
    return f"{sign}0.{'0' * (-int(exponent) - 1)}{mantissa.removeprefix('-').replace('.', '')}"
