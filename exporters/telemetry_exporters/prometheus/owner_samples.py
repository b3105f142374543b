"""Samples of owners, and of the processes with the most memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from telemetry_exporters.prometheus.labels import Labels, identity_labels
from telemetry_parsers.merge.allocations import cards_with_allocations
from telemetry_parsers.metrics import OWNER_LABELS
from telemetry_parsers.model import MergedDevice, Process, Sample
from telemetry_parsers.ownership import Allocation

_SHARE_METRIC = "allocation_ratio"
# Maps a metric to the attribute of `Allocation` that contains its value.
_ALLOCATION_ATTRIBUTES: Mapping[str, str] = {
    "allocation_seconds_total": "seconds_total",
    "allocation_busy_seconds_total": "busy_seconds_total",
    "allocation_energy_joules_total": "energy_joules_total",
    "allocation_memory_used_bytes": "memory_used_bytes",
}
_LABELS = OWNER_LABELS["accelerator_allocation_seconds_total"]
_LABEL_ATTRIBUTES: Mapping[str, str] = {"owner_kind": "kind", "owner": "name"}
_MAX_PROCESSES = 16
_PROCESS_METRIC = "process_memory_bytes"


def owner_samples(devices: Sequence[MergedDevice]) -> Iterator[Sample]:
    """Yield the samples of all owners."""
    emitted: set[tuple[str, Labels]] = set()
    for device, allocation in cards_with_allocations(devices):
        labels = (*identity_labels(device), *owner_labels(allocation))
        if (device.id, labels) in emitted:
            continue
        emitted.add((device.id, labels))
        yield Sample(_SHARE_METRIC, allocation.share, (*labels, ("basis", allocation.basis)))
        for metric, attribute in _ALLOCATION_ATTRIBUTES.items():
            value = getattr(allocation, attribute)
            if value is not None:
                yield Sample(metric, value, labels)


def owner_labels(allocation: Allocation) -> Labels:
    """Return the labels that identify an owner. Empty labels are omitted."""
    texts = ((label, getattr(allocation.owner, _LABEL_ATTRIBUTES.get(label, label))) for label in _LABELS)
    return tuple((label, text) for label, text in texts if text)


def process_samples(devices: Sequence[MergedDevice]) -> Iterator[Sample]:
    """Yield the memory of each device's largest processes, and the sum of the others. Partitions count their own."""
    for device in devices:
        partition_pids = {process.pid for part in devices if part.parent == device.id for process in part.processes}
        measured = [process for process in device.processes if process.memory_used_bytes is not None]
        processes_by_pid = {process.pid: process for process in measured if process.pid not in partition_pids}
        sizes = [(process.memory_used_bytes or 0.0, process) for process in processes_by_pid.values()]
        largest_first = sorted(sizes, key=lambda pair: (-pair[0], pair[1].pid))
        identity = identity_labels(device)
        for size, process in largest_first[:_MAX_PROCESSES]:
            yield Sample(_PROCESS_METRIC, size, (*identity, *_process_labels(process)))
        others_bytes = sum(size for size, _ in largest_first[_MAX_PROCESSES:])
        if len(largest_first) > _MAX_PROCESSES:
            yield Sample(_PROCESS_METRIC, others_bytes, (*identity, ("name", "others")))


def _process_labels(process: Process) -> Labels:
    """Return the PID, the program and the user. Arguments are omitted, because they may contain secrets."""
    name = process.command or process.name.partition(" ")[0].rpartition("/")[2]
    labels = (("pid", str(process.pid)), ("name", name), ("user", process.user))
    return tuple((label, text) for label, text in labels if text)
