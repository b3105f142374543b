"""Which of several sources' readings counts: cheap doors before tools, a number before an absence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from telemetry_parsers.merge.identity import Named
from telemetry_parsers.merge.joining import FORM_RANK
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, MergedReading, Metric, Reading, SourceReport, Value

# Between absences the most telling one is shown.
_TELLING = {
    Absent.NOT_UNDERSTOOD: 0,
    Absent.IMPLAUSIBLE: 1,
    Absent.NOT_PERMITTED: 2,
    Absent.NOT_SUPPORTED: 3,
    Absent.NOT_REPORTED: 4,
}
# Presence and identity are decided by merge itself, never by a reading.
_DECIDED_ELSEWHERE = frozenset({"info", "up"})

ReadingKey = tuple[str, str]
ByPosition = Mapping[tuple[str, str], Mapping[int | None, tuple[Reading, ...]]]


@dataclass(frozen=True, slots=True)
class _Offer:
    rank: tuple[int, int, float, str]
    reading: MergedReading


def by_position(reports: tuple[SourceReport, ...]) -> dict[tuple[str, str], dict[int | None, tuple[Reading, ...]]]:
    """Each report's readings by the position of their device."""
    found: dict[tuple[str, str], dict[int | None, tuple[Reading, ...]]] = {}
    for report in reports:
        lists: dict[int | None, list[Reading]] = {}
        for reading in report.report.readings:
            lists.setdefault(reading.device, []).append(reading)
        found[(report.source, report.poll)] = {position: tuple(group) for position, group in lists.items()}
    return found


def _rank(value: Value, report: SourceReport) -> tuple[int, int, float, str]:
    telling = _TELLING[value] if isinstance(value, Absent) else -1
    return telling, FORM_RANK[report.report.form], -report.taken, report.source


def _offers(named: Named, readings: ByPosition) -> Iterator[tuple[SourceReport, Reading]]:
    for sighting in named.group.sightings:
        for report, position in sighting.parts:
            for reading in readings[(report.source, report.poll)].get(position, ()):
                yield report, reading


def _power_kind(report: SourceReport, named: Named) -> str | None:
    """Which kind of power the report's `power_watts` of this device is, as its source tells it."""
    for sighting in named.group.sightings:
        for part, position in sighting.parts:
            if part is report:
                return dict(part.report.devices[position].facts).get("power_kind")
    return None


def _is_other_power(metric: str, report: SourceReport, named: Named) -> bool:
    """Average and instantaneous power never replace one another."""
    if metric != "power_watts" or named.identity.power_kind is None:
        return False
    return (_power_kind(report, named) or named.identity.power_kind) != named.identity.power_kind


def choose(
    named: Named,
    readings: ByPosition,
    counters: MutableMapping[tuple[str, str, str], str],
    extra: Mapping[str, Metric],
) -> dict[ReadingKey, MergedReading]:
    """The one reading of each metric and label of a device; `counters` pins each counter to its first source."""
    best: dict[ReadingKey, _Offer] = {}
    for report, reading in _offers(named, readings):
        metric = BY_KEY.get(reading.metric) or extra.get(reading.metric)
        if metric is None or reading.metric in _DECIDED_ELSEWHERE or _is_other_power(reading.metric, report, named):
            continue
        value = in_range(metric, reading.value)
        if metric.kind == "counter" and isinstance(value, float):
            pin = (named.identity.id, reading.metric, reading.label)
            if counters.setdefault(pin, report.source) != report.source:
                continue
        key = (reading.metric, reading.label)
        offer_rank = _rank(value, report)
        if key not in best or offer_rank < best[key].rank:
            merged = MergedReading(reading.metric, reading.label, value, report.source, report.taken, report.interval)
            best[key] = _Offer(offer_rank, merged)
    return {key: offer.reading for key, offer in best.items()}


def not_reported(named: Named, chosen: Mapping[ReadingKey, MergedReading]) -> list[MergedReading]:
    """An absence for each metric that some source of the device could give and did not speak of."""
    spoken = {metric for metric, _ in chosen}
    missing: dict[str, MergedReading] = {}
    for sighting in named.group.sightings:
        listing = sighting.listing
        for metric in listing.gives:
            if metric not in spoken and metric not in missing and metric not in _DECIDED_ELSEWHERE:
                missing[metric] = MergedReading(
                    metric, "", Absent.NOT_REPORTED, listing.source, listing.taken, listing.interval
                )
    return list(missing.values())
