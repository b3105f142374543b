"""The document `telemetry.snapshot/1`: the whole snapshot for programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from telemetry_exporters.documents import json_values
from telemetry_exporters.documents.json_values import moment_text, utc_time
from telemetry_exporters.documents.snapshot_parts import (
    AllocationJson,
    ConditionJson,
    DeviceJson,
    HostJson,
    MaintenanceJson,
    OwnerJson,
    ProblemJson,
    ProcessJson,
    ProcessOwnerJson,
    ReplayJson,
    SnapshotJson,
    SourceJson,
    poll_json,
)
from telemetry_exporters.judgement.verdict import Finding, judge
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, screen, usable_metrics
from telemetry_exporters.text import clean, cleaned
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Metric, Process, Snapshot, SourceStatus
from telemetry_parsers.ownership import Allocation, Owner


def document(
    snapshot: Snapshot, plugin_metrics: Metrics = NO_METRICS, ids: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the document as plain data, of all devices or those with these ids. All keys are always present; unknown values are None."""
    shown = screen(snapshot, plugin_metrics)
    metrics = usable_metrics(plugin_metrics)
    verdict = judge(shown)
    # Devices are judged in comparison with all devices of their model.
    devices = [device for device in shown.devices if ids is None or device.id in ids]
    whole = SnapshotJson(
        schema="telemetry.snapshot/1",
        time=utc_time(shown.wall_time),
        hostname=shown.hostname or None,
        maintenance=_maintenance(shown),
        replay=_replay(shown),
        host=HostJson(_numbers(shown.host, metrics)),
        sources=tuple([_source(source, shown.monotonic_time) for source in shown.sources]),
        devices=tuple([_device(device, verdict[device.id][0], metrics) for device in devices]),
    )
    return to_plain(SnapshotJson, whole)


def with_processes(plain: dict[str, Any], snapshot: Snapshot, command_lines: Mapping[int, str]) -> dict[str, Any]:
    """Return a document with the processes of this snapshot, and their known command lines by pid."""
    of_device = {
        clean(device.id): [
            {
                **to_plain(ProcessJson, _process(cleaned(process))),
                "command_line": clean(command_lines.get(process.pid, "")) or None,
            }
            for process in device.processes
        ]
        for device in snapshot.devices
    }
    devices = [{**device, "processes": of_device.get(clean(device["id"]), [])} for device in plain["devices"]]
    return {**plain, "devices": devices}


def render(snapshot: Snapshot, plugin_metrics: Metrics = NO_METRICS, ids: Collection[str] | None = None) -> str:
    """Return the document as text, small parts on one line each; numbers without exponents."""
    return json_values.text(document(snapshot, plugin_metrics, ids))


def _maintenance(snapshot: Snapshot) -> MaintenanceJson | None:
    maintenance = snapshot.maintenance
    if maintenance is None or maintenance.seconds_left is None:
        return None
    return MaintenanceJson(utc_time(snapshot.wall_time + maintenance.seconds_left), maintenance.reason or None)


def _replay(snapshot: Snapshot) -> ReplayJson | None:
    recorded = snapshot.recorded
    if recorded is None:
        return None
    return ReplayJson(
        recorded=utc_time(recorded.wall_time),
        hostname=recorded.hostname or None,
        shown=moment_text(recorded.shown),
        how=recorded.how or None,
    )


def _source(source: SourceStatus, now: float) -> SourceJson:
    return SourceJson(
        source=source.source,
        state=source.state,
        reason=source.reason,
        detail=source.detail or None,
        version=source.version or None,
        problems=tuple([ProblemJson(problem.where, problem.text) for problem in source.problems]),
        unknown_fields=tuple(source.unknown_fields),
        polls=tuple([poll_json(poll, now, 6, 3) for poll in source.polls]),
    )


def _device(device: MergedDevice, condition: Finding, metrics: Metrics) -> DeviceJson:
    return DeviceJson(
        vendor=device.vendor,
        index=device.index,
        id=device.id,
        device=device.device,
        model=device.current_model or device.model or None,
        uuid=device.uuid or None,
        bus_id=device.bus_id or None,
        serial=device.serial or None,
        driver=device.driver or None,
        up=device.up,
        last_read=moment_text(device.last_read),
        condition=ConditionJson(condition.word, condition.severity.value),
        parent=device.parent or None,
        partition=device.partition or None,
        simulated=device.simulated,
        replayed=device.replayed,
        readings=_numbers(device.readings, metrics),
        absent=_by_metric(
            (reading.metric, reading.label, reading.value.value)
            for reading in device.readings
            if isinstance(reading.value, Absent)
        ),
        origin=_origins(device.readings),
        allocations=tuple([_allocation(allocation) for allocation in device.allocations]),
        processes=tuple([_process(process) for process in device.processes]),
    )


def _allocation(allocation: Allocation) -> AllocationJson:
    return AllocationJson(
        owner=_owner(allocation.owner),
        share=round(allocation.share, 6),
        basis=allocation.basis,
        allocated=allocation.is_allocated,
        used=allocation.is_used,
        sources=tuple(allocation.sources),
        memory_used_bytes=_whole(allocation.memory_used_bytes),
        started=moment_text(allocation.started),
    )


def _owner(owner: Owner) -> OwnerJson:
    return OwnerJson(
        kind=owner.kind,
        name=owner.name or None,
        pod_namespace=owner.pod_namespace or None,
        pod_name=owner.pod_name or None,
        container_name=owner.container_name or None,
        job_id=owner.job_id or None,
        job_name=owner.job_name or None,
        user=owner.user or None,
        account=owner.account or None,
        partition=owner.partition or None,
    )


def _process(process: Process) -> ProcessJson:
    owner = process.owner
    return ProcessJson(
        pid=process.pid,
        name=process.name,
        memory_used_bytes=_whole(process.memory_used_bytes),
        kind=process.kind or None,
        instance=process.instance or None,
        utilization_ratio=process.utilization_ratio,
        started=moment_text(process.started),
        user=process.user or None,
        command=process.command or None,
        container=process.container or None,
        owner=None if owner is None else ProcessOwnerJson(owner.kind, owner.name or None),
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _numbers(readings: Iterable[MergedReading], metrics: Metrics) -> dict[str, Any]:
    return _by_metric(
        (reading.metric, reading.label, _number(reading.value, metrics[reading.metric]))
        for reading in readings
        if not isinstance(reading.value, Absent)
    )


def _number(value: float, metric: Metric) -> float | int:
    return int(value) if metric.unit == "bytes" and value == int(value) else value + 0.0


def _by_metric(entries: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    """Return each metric's value, or an object of its values by label."""
    values: dict[str, Any] = {}
    for metric, label, value in entries:
        if not label:
            values.setdefault(metric, value)
        elif isinstance(values.setdefault(metric, {}), dict):
            values[metric][label] = value
    return values


def _origins(readings: Iterable[MergedReading]) -> dict[str, Any]:
    """Return the source of each number; one word if all labels of a metric have the same source."""
    numbers = [reading for reading in readings if not isinstance(reading.value, Absent)]
    by_metric = _by_metric((reading.metric, reading.label, reading.source) for reading in numbers)
    return {metric: _one_word(sources) for metric, sources in by_metric.items()}


def _one_word(sources: str | dict[str, str]) -> str | dict[str, str]:
    words = {sources} if isinstance(sources, str) else set(sources.values())
    return words.pop() if len(words) == 1 else sources
