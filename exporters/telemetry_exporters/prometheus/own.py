"""The daemon's own metrics in a snapshot: the state of each source and poll, the number of devices, maintenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from telemetry_exporters.prometheus.labels import Labels
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import REASONS, STATES, Health, Sample, Snapshot, SourceStatus
from telemetry_parsers.states import NEITHER_UP_NOR_DOWN, is_up

# States that are shown before any attempt.
_STATES_WITHOUT_TRY = frozenset({"missing", "released", "disabled"})


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Samples by columns: metric and labels of each, and its value."""

    names: tuple[tuple[str, Labels], ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> SampleColumns:
        """Return the samples by columns."""
        rows = tuple(samples)
        return cls(tuple((row.metric, row.labels) for row in rows), tuple(row.value for row in rows))


@dataclass(frozen=True, slots=True)
class _OfSource:
    """The samples of a source, with the state from which they were made."""

    status: SourceStatus
    polls_up: tuple[bool, ...]
    columns: SampleColumns


class OwnSamples:
    """The own metrics of successive snapshots. The samples of a source are made again when its status changes."""

    def __init__(self) -> None:
        self._of_sources: dict[str, _OfSource] = {}

    def of(self, snapshot: Snapshot) -> tuple[SampleColumns, ...]:
        """Return the daemon's own samples: by source and poll, then the others."""
        now = snapshot.monotonic_time
        sources = [self._of_source(source, now) for source in snapshot.sources if _was_tried(source)]
        self._of_sources = {source.status.source: source for source in sources}
        return (*(source.columns for source in sources), SampleColumns.of(_other_samples(snapshot)))

    def _of_source(self, source: SourceStatus, now: float) -> _OfSource:
        polls_up = tuple([is_up(poll, now) for poll in source.polls])
        previous = self._of_sources.get(source.source)
        if previous is not None and previous.status is source and previous.polls_up == polls_up:
            return previous
        return _OfSource(source, polls_up, SampleColumns.of(_source_samples(source, polls_up)))


def _other_samples(snapshot: Snapshot) -> Iterator[Sample]:
    whole = [(device.vendor, device.model) for device in snapshot.devices if device.up and device.parent is None]
    for (vendor, model), count in Counter(whole).items():
        yield Sample("telemetry_devices", float(count), (("vendor", vendor), ("model", model)))
    if snapshot.maintenance is not None:
        yield Sample("telemetry_maintenance", float(snapshot.maintenance.is_on))
        if snapshot.maintenance.ends_in is not None:
            yield Sample("telemetry_maintenance_ends_in_seconds", snapshot.maintenance.ends_in)
    yield from snapshot.own


def _was_tried(source: SourceStatus) -> bool:
    """Return whether a source has a state to show: it was polled, or is in a state without polls."""
    return source.state in _STATES_WITHOUT_TRY or any(poll.attempted for poll in source.polls)


def _source_samples(source: SourceStatus, polls_up: Sequence[bool]) -> Iterator[Sample]:
    name: Labels = (("source", source.source),)
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
    for poll, up in zip(source.polls, polls_up, strict=True):
        if poll.attempted and poll.state not in NEITHER_UP_NOR_DOWN:
            yield Sample("telemetry_source_poll_up", float(up), (*name, ("poll", poll.poll)))
            yield from _poll_samples(poll, (*name, ("poll", poll.poll)))


def _poll_samples(poll: Health, name: Labels) -> Iterator[Sample]:
    yield Sample("telemetry_source_duration_seconds", poll.seconds, name)
    if poll.last_success is not None:
        yield Sample("telemetry_source_last_success_timestamp_seconds", poll.last_success, name)
    yield Sample("telemetry_source_overruns_total", float(poll.overruns), name)
    # Every reason starts at 0, so that `increase()` sees the first failure.
    for reason, count in (dict.fromkeys(REASONS, 0) | dict(poll.failures)).items():
        yield Sample("telemetry_source_failures_total", float(count), (*name, ("reason", reason)))
