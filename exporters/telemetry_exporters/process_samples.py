"""The memory of the largest processes on each device as samples, of the others as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from telemetry_exporters.labels import Labels, identity_labels
from telemetry_parsers.model import MergedDevice, Process, Sample

MOST = 16
_METRIC = "process_memory_bytes"


def samples(devices: Sequence[MergedDevice]) -> Iterator[Sample]:
    """The samples of all processes whose memory is told; one that a part of a card lists is left to that part."""
    for device in devices:
        of_parts = {one.pid for part in devices if part.parent == device.id for one in part.processes}
        known = {one.pid: one for one in device.processes if one.memory_used_bytes is not None}
        sizes = [(one.memory_used_bytes or 0.0, one) for pid, one in known.items() if pid not in of_parts]
        sizes.sort(key=lambda pair: (-pair[0], pair[1].pid))
        identity = identity_labels(device)
        for size, process in sizes[:MOST]:
            yield Sample(_METRIC, size, (*identity, *_labels(process)))
        if len(sizes) > MOST:
            yield Sample(_METRIC, sum(size for size, _ in sizes[MOST:]), (*identity, ("name", "others")))


def _labels(process: Process) -> Labels:
    """Its pid, program and user; what is not known has no label. What a tool calls it may be a command line, which holds secrets."""
    name = process.command or process.name.partition(" ")[0].rpartition("/")[2]
    labels = (("pid", str(process.pid)), ("name", name), ("user", process.user))
    return tuple((label, text) for label, text in labels if text)
