"""The daemon's own metrics from a snapshot: the state of each source and poll, the number of devices, maintenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from telemetry_parsers.model import REASONS, STATES, Health, Sample, Snapshot, SourceStatus
from telemetry_parsers.states import NEITHER_UP_NOR_DOWN, is_up

_Labels = tuple[tuple[str, str], ...]

# States in which nobody has to have tried anything yet.
_STATES_WITHOUT_TRY = frozenset({"missing", "released", "disabled"})


def own_samples(snapshot: Snapshot) -> Iterator[Sample]:
    """Every sample of the daemon's own metrics, by source and poll as the snapshot has them."""
    for source in snapshot.sources:
        if was_tried(source):
            yield from _source_samples(source, snapshot.monotonic_time)
    whole = (device for device in snapshot.devices if device.up and device.parent is None)
    for (vendor, model), count in Counter((device.vendor, device.model) for device in whole).items():
        yield Sample("telemetry_devices", float(count), (("vendor", vendor), ("model", model)))
    if snapshot.maintenance is not None:
        yield Sample("telemetry_maintenance", float(snapshot.maintenance.is_on))
        if snapshot.maintenance.ends_in is not None:
            yield Sample("telemetry_maintenance_ends_in_seconds", snapshot.maintenance.ends_in)
    yield from snapshot.own


def was_tried(source: SourceStatus) -> bool:
    """Whether a source has a state to show: it was asked, or is in a state in which it is never asked."""
    return source.state in _STATES_WITHOUT_TRY or any(poll.attempted for poll in source.polls)


def _source_samples(source: SourceStatus, now: float) -> Iterator[Sample]:
    name: _Labels = (("source", source.source),)
    for state in STATES:
        yield Sample("telemetry_source_state", float(source.state == state), (*name, ("state", state)))
    if source.up is not None:
        yield Sample("telemetry_source_up", float(source.up), name)
    if source.version:
        yield Sample("telemetry_source_info", 1.0, (*name, ("version", source.version)))
    if source.state in NEITHER_UP_NOR_DOWN:
        return
    yield Sample("telemetry_source_cpu_seconds_total", source.cpu_seconds, name)
    yield Sample("telemetry_source_problems", float(len(source.problems)), name)
    yield Sample("telemetry_source_unknown_fields", float(len(source.unknown_fields)), name)
    yield Sample("telemetry_devices_refused", float(source.refused), name)
    for poll in source.polls:
        if poll.attempted and poll.state not in NEITHER_UP_NOR_DOWN:
            yield from _poll_samples(poll, (*name, ("poll", poll.poll)), now)


def _poll_samples(poll: Health, name: _Labels, now: float) -> Iterator[Sample]:
    yield Sample("telemetry_source_poll_up", float(is_up(poll, now)), name)
    yield Sample("telemetry_source_duration_seconds", poll.seconds, name)
    if poll.last_success is not None:
        yield Sample("telemetry_source_last_success_timestamp_seconds", poll.last_success, name)
    yield Sample("telemetry_source_overruns_total", float(poll.overruns), name)
    # Every reason starts at 0, so that `increase()` sees the first failure.
    for reason, count in (dict.fromkeys(REASONS, 0) | dict(poll.failures)).items():
        yield Sample("telemetry_source_failures_total", float(count), (*name, ("reason", reason)))
