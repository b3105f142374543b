"""The document `telemetry.snapshot/1`: a snapshot for programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from telemetry_exporters.documents import json_values
from telemetry_exporters.documents.json_values import utc_time, utc_time_or_none
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
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, clean_snapshot, usable_metrics
from telemetry_exporters.text import clean, deep_clean
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Metric, Process, Snapshot, SourceStatus
from telemetry_parsers.ownership import Allocation, Owner


def document(
    snapshot: Snapshot, plugin_metrics: Metrics = NO_METRICS, ids: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the snapshot document with all devices, or only with the devices in `ids`."""
    snapshot = clean_snapshot(snapshot, plugin_metrics)
    metrics = usable_metrics(plugin_metrics)
    verdict = judge(snapshot)
    # Devices are selected after the verdict, because the verdict compares all devices of a model.
    devices = [device for device in snapshot.devices if ids is None or device.id in ids]
    json_snapshot = SnapshotJson(
        schema="telemetry.snapshot/1",
        time=utc_time(snapshot.wall_time),
        hostname=snapshot.hostname or None,
        maintenance=_maintenance_to_json(snapshot),
        replay=_replay_to_json(snapshot),
        host=HostJson(_numbers_by_metric(snapshot.host, metrics)),
        sources=tuple([_source_to_json(source, snapshot.monotonic_time) for source in snapshot.sources]),
        devices=tuple([_device_to_json(device, verdict[device.id][0], metrics) for device in devices]),
    )
    return to_plain(SnapshotJson, json_snapshot)


def with_processes(data: dict[str, Any], snapshot: Snapshot, command_lines: Mapping[int, str]) -> dict[str, Any]:
    """Return the document with the snapshot's processes. `command_lines` maps process IDs to command lines."""
    processes_by_device = {
        clean(device.id): [
            {
                **to_plain(ProcessJson, _process_to_json(deep_clean(process))),
                "command_line": clean(command_lines.get(process.pid, "")) or None,
            }
            for process in device.processes
        ]
        for device in snapshot.devices
    }
    devices = [{**device, "processes": processes_by_device.get(clean(device["id"]), [])} for device in data["devices"]]
    return {**data, "devices": devices}


def render(snapshot: Snapshot, plugin_metrics: Metrics = NO_METRICS, ids: Collection[str] | None = None) -> str:
    """Return the document as indented JSON."""
    return json_values.indented_json(document(snapshot, plugin_metrics, ids))


def _maintenance_to_json(snapshot: Snapshot) -> MaintenanceJson | None:
    maintenance = snapshot.maintenance
    if maintenance is None or maintenance.seconds_left is None:
        return None
    return MaintenanceJson(utc_time(snapshot.wall_time + maintenance.seconds_left), maintenance.reason or None)


def _replay_to_json(snapshot: Snapshot) -> ReplayJson | None:
    recorded = snapshot.recorded
    if recorded is None:
        return None
    return ReplayJson(
        recorded=utc_time(recorded.wall_time),
        hostname=recorded.hostname or None,
        shown=utc_time_or_none(recorded.shown_time),
        how=recorded.player_state or None,
    )


def _source_to_json(status: SourceStatus, now: float) -> SourceJson:
    return SourceJson(
        source=status.source,
        state=status.state,
        reason=status.reason,
        detail=status.detail or None,
        version=status.version or None,
        problems=tuple([ProblemJson(problem.where, problem.text) for problem in status.problems]),
        unknown_fields=tuple(status.unknown_fields),
        polls=tuple([poll_json(poll, now, 6, 3) for poll in status.polls]),
    )


def _device_to_json(device: MergedDevice, condition: Finding, metrics: Metrics) -> DeviceJson:
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
        last_read=utc_time_or_none(device.last_read),
        condition=ConditionJson(condition.word, condition.severity.value),
        parent=device.parent or None,
        partition=device.partition or None,
        simulated=device.simulated,
        replayed=device.replayed,
        readings=_numbers_by_metric(device.readings, metrics),
        absent=_group_by_metric(
            (reading.metric, reading.label, reading.value.value)
            for reading in device.readings
            if isinstance(reading.value, Absent)
        ),
        origin=_origins(device.readings),
        allocations=tuple([_allocation_to_json(allocation) for allocation in device.allocations]),
        processes=tuple([_process_to_json(process) for process in device.processes]),
    )


def _allocation_to_json(allocation: Allocation) -> AllocationJson:
    return AllocationJson(
        owner=_owner_to_json(allocation.owner),
        share=round(allocation.share, 6),
        basis=allocation.basis,
        allocated=allocation.is_allocated,
        used=allocation.is_used,
        sources=tuple(allocation.sources),
        memory_used_bytes=_int_or_none(allocation.memory_used_bytes),
        started=utc_time_or_none(allocation.started),
    )


def _owner_to_json(owner: Owner) -> OwnerJson:
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


def _process_to_json(process: Process) -> ProcessJson:
    owner = process.owner
    return ProcessJson(
        pid=process.pid,
        name=process.name,
        memory_used_bytes=_int_or_none(process.memory_used_bytes),
        kind=process.kind or None,
        instance=process.instance or None,
        utilization_ratio=process.utilization_ratio,
        started=utc_time_or_none(process.started),
        user=process.user or None,
        command=process.command or None,
        container=process.container or None,
        owner=None if owner is None else ProcessOwnerJson(owner.kind, owner.name or None),
    )


def _int_or_none(number: float | None) -> int | None:
    return None if number is None else int(number)


def _numbers_by_metric(readings: Iterable[MergedReading], metrics: Metrics) -> dict[str, Any]:
    return _group_by_metric(
        (reading.metric, reading.label, _number_to_json(reading.value, metrics[reading.metric]))
        for reading in readings
        if not isinstance(reading.value, Absent)
    )


def _number_to_json(value: float, metric: Metric) -> float | int:
    return int(value) if metric.unit == "bytes" and value == int(value) else value + 0.0


def _group_by_metric(entries: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    """Map each metric to its value, or to its values by label."""
    values: dict[str, Any] = {}
    for metric, label, value in entries:
        if not label:
            values.setdefault(metric, value)
        elif isinstance(values.setdefault(metric, {}), dict):
            values[metric][label] = value
    return values


def _origins(readings: Iterable[MergedReading]) -> dict[str, Any]:
    """Map each metric to its source, or to the sources by label if they differ."""
    numbers = [reading for reading in readings if not isinstance(reading.value, Absent)]
    sources_by_metric = _group_by_metric((reading.metric, reading.label, reading.source) for reading in numbers)
    return {metric: _merge_if_equal(sources) for metric, sources in sources_by_metric.items()}


def _merge_if_equal(sources: str | dict[str, str]) -> str | dict[str, str]:
    names = {sources} if isinstance(sources, str) else set(sources.values())
    return names.pop() if len(names) == 1 else sources
