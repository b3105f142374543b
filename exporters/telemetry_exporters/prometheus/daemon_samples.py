"""The samples of the `telemetry_…` metrics about the daemon itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from telemetry_exporters.prometheus.labels import Labels
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import REASONS, STATES, Health, Sample, Snapshot, SourceStatus
from telemetry_parsers.states import NEITHER_UP_NOR_DOWN, is_up

# A source in one of these states is exposed even without polls.
_STATES_WITHOUT_POLLS = frozenset({"missing", "released", "disabled"})


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Samples in two columns: (metric, labels) and values."""

    names: tuple[tuple[str, Labels], ...]
    values: tuple[float, ...]

    @classmethod
    def from_samples(cls, samples: Iterable[Sample]) -> SampleColumns:
        """Return the columns of these samples."""
        rows = tuple(samples)
        return cls(tuple((row.metric, row.labels) for row in rows), tuple(row.value for row in rows))


@dataclass(frozen=True, slots=True)
class _CachedSource:
    """The cached samples of a source, and the state for which they are valid."""

    status: SourceStatus
    polls_up: tuple[bool, ...]
    columns: SampleColumns


class DaemonSamples:
    """Computes the samples of successive snapshots, and reuses the samples of unchanged sources."""

    def __init__(self) -> None:
        self._cached_by_name: dict[str, _CachedSource] = {}

    def columns(self, snapshot: Snapshot) -> tuple[SampleColumns, ...]:
        """Return the samples of all sources, followed by all other samples of the daemon."""
        now = snapshot.monotonic_time
        sources = [self._reuse_or_compute(source, now) for source in snapshot.sources if _is_exposed(source)]
        self._cached_by_name = {source.status.source: source for source in sources}
        return (*(source.columns for source in sources), SampleColumns.from_samples(_other_samples(snapshot)))

    def _reuse_or_compute(self, status: SourceStatus, now: float) -> _CachedSource:
        polls_up = tuple([is_up(poll, now) for poll in status.polls])
        previous = self._cached_by_name.get(status.source)
        if previous is not None and previous.status is status and previous.polls_up == polls_up:
            return previous
        return _CachedSource(status, polls_up, SampleColumns.from_samples(_source_samples(status, polls_up)))


def _other_samples(snapshot: Snapshot) -> Iterator[Sample]:
    card_models = [(device.vendor, device.model) for device in snapshot.devices if device.up and device.parent is None]
    for (vendor, model), count in Counter(card_models).items():
        yield Sample("telemetry_devices", float(count), (("vendor", vendor), ("model", model)))
    if snapshot.maintenance is not None:
        yield Sample("telemetry_maintenance", float(snapshot.maintenance.is_on))
        if snapshot.maintenance.ends_in is not None:
            yield Sample("telemetry_maintenance_ends_in_seconds", snapshot.maintenance.ends_in)
    yield from snapshot.daemon_samples


def _is_exposed(source: SourceStatus) -> bool:
    return source.state in _STATES_WITHOUT_POLLS or any(poll.attempted for poll in source.polls)


def _source_samples(status: SourceStatus, polls_up: Sequence[bool]) -> Iterator[Sample]:
    labels: Labels = (("source", status.source),)
    for state in STATES:
        yield Sample("telemetry_source_state", float(status.state == state), (*labels, ("state", state)))
    if status.up is not None:
        yield Sample("telemetry_source_up", float(status.up), labels)
    if status.version:
        yield Sample("telemetry_source_info", 1.0, (*labels, ("version", status.version)))
    if status.state in NEITHER_UP_NOR_DOWN:
        return
    yield Sample("telemetry_source_cpu_seconds_total", status.cpu_seconds, labels)
    yield Sample("telemetry_source_problems", float(len(status.problems)), labels)
    yield Sample("telemetry_source_unknown_fields", float(len(status.unknown_fields)), labels)
    yield Sample("telemetry_devices_refused", float(status.refused), labels)
    for health, poll_up in zip(status.polls, polls_up, strict=True):
        if health.attempted and health.state not in NEITHER_UP_NOR_DOWN:
            yield Sample("telemetry_source_poll_up", float(poll_up), (*labels, ("poll", health.poll)))
            yield from _poll_samples(health, (*labels, ("poll", health.poll)))


def _poll_samples(poll: Health, labels: Labels) -> Iterator[Sample]:
    yield Sample("telemetry_source_duration_seconds", poll.seconds, labels)
    if poll.last_success is not None:
        yield Sample("telemetry_source_last_success_timestamp_seconds", poll.last_success, labels)
    yield Sample("telemetry_source_overruns_total", float(poll.overruns), labels)
    # Each reason has a series from the start, so that `increase()` includes the first failure.
    for reason, count in (dict.fromkeys(REASONS, 0) | dict(poll.failures)).items():
        yield Sample("telemetry_source_failures_total", float(count), (*labels, ("reason", reason)))
