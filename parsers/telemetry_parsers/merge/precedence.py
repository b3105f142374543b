"""Which of several sources' readings counts: libraries and files before tools, a number before an absence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from telemetry_parsers import bounds
from telemetry_parsers.merge.identity import Named
from telemetry_parsers.merge.sightings import FORM_RANK
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Metric, SourceReport

# Between absences the most telling one is shown.
_TELLING = {
    Absent.NOT_UNDERSTOOD: 0,
    Absent.IMPLAUSIBLE: 1,
    Absent.NOT_PERMITTED: 2,
    Absent.NOT_SUPPORTED: 3,
    Absent.NOT_REPORTED: 4,
}
_NUMBER = -1
# Presence and identity are decided by merge itself, never by a reading.
_DECIDED_ELSEWHERE = frozenset({"info", "up"})
_POWER = "power_watts"
_ALL = "all"
_NO_METRICS: Mapping[str, Metric] = {}

ReadingKey = tuple[str, str]


_Rank = tuple[int, int, str, float]
# A reading that a report offers: its key, its rank (the lowest wins), the reading, and whether it is a counter's number.
# It is a plain tuple, since every poll makes hundreds of them.
Offer = tuple[ReadingKey, _Rank, MergedReading, bool]


@dataclass(frozen=True, slots=True)
class Offered:
    """A report with its readings checked against the catalogue, by the position of their device.

    It is made once for each report, since a report takes part in many merges.
    """

    report: SourceReport
    offers: Mapping[int | None, tuple[Offer, ...]]


def offered(report: SourceReport, extra: Mapping[str, Metric] = _NO_METRICS) -> Offered:
    """What a report offers; `extra` are metrics that plugins declare."""
    lists: dict[int | None, list[Offer]] = {}
    form, source, taken, interval = FORM_RANK[report.report.form], report.source, report.taken, report.interval
    for reading in report.report.readings:
        key = reading.metric
        metric = BY_KEY.get(key) or extra.get(key)
        if metric is None or key in _DECIDED_ELSEWHERE:
            continue
        value = in_range(metric, reading.value)
        telling = _TELLING[value] if isinstance(value, Absent) else _NUMBER
        merged = MergedReading(key, reading.label, value, source, taken, interval)
        pinned = metric.kind == "counter" and telling == _NUMBER
        offer = ((key, reading.label), (telling, form, source, -taken), merged, pinned)
        lists.setdefault(reading.device, []).append(offer)
    return Offered(report, {position: tuple(offers) for position, offers in lists.items()})


def _is_other_power(report: SourceReport, position: int, named: Named) -> bool:
    """Average and instantaneous power never replace one another."""
    fixed = named.identity.power_kind
    kind = dict(report.report.devices[position].facts).get("power_kind")
    return fixed is not None and kind is not None and kind != fixed


def choose(
    named: Named,
    by_report: Mapping[tuple[str, str], Offered],
    counters: MutableMapping[tuple[str, str, str], str],
    pending_vendors: Collection[str] = (),
) -> dict[ReadingKey, MergedReading]:
    """The one reading of each metric and label of a device; `counters` pins each counter to its source.

    A counter is pinned when all sources of the vendor have been asked: the first to answer need not be the best.
    """
    may_pin = named.identity.vendor not in pending_vendors
    best: dict[ReadingKey, Offer] = {}
    for report, position in named.group.parts:
        for offer in by_report[(report.source, report.poll)].offers.get(position, ()):
            key, rank, _, pinned = offer
            best_so_far = best.get(key)
            if best_so_far is not None and best_so_far[1] <= rank:
                continue
            if pinned and not _is_its_source(counters, (named.identity.id, *key), report.source, may_pin=may_pin):
                continue
            if key[0] == _POWER and _is_other_power(report, position, named):
                continue
            best[key] = offer
    chosen = {key: reading for key, (_, _, reading, _) in best.items()}
    _drop_totals(chosen)
    return chosen


def _drop_totals(chosen: dict[ReadingKey, MergedReading]) -> None:
    """Drops a total (`all`) if another source gives its parts: a sum over both would count it twice."""
    for metric in [metric for metric, label in chosen if label == _ALL]:
        parts = (item.value for key, item in chosen.items() if key[0] == metric and key[1] != _ALL)
        if any(not isinstance(part, Absent) for part in parts):
            del chosen[(metric, _ALL)]


def _is_its_source(
    counters: MutableMapping[tuple[str, str, str], str], counter: tuple[str, str, str], source: str, *, may_pin: bool
) -> bool:
    """Whether the counter is pinned to this source. A counter without a source is pinned to it, if it may be."""
    if may_pin:
        return counters.setdefault(counter, source) == source
    return counters.get(counter) == source


def remember(
    counters: Mapping[tuple[str, str, str], str], ids: Collection[str], devices: Iterable[MergedDevice]
) -> Mapping[tuple[str, str, str], str]:
    """The pins of these devices' counters; of too many, only those of counters that have a reading now."""
    kept = {pin: source for pin, source in counters.items() if pin[0] in ids}
    if len(kept) <= bounds.MOST_PINNED_COUNTERS:
        return kept
    current = {(device.id, reading.metric, reading.label) for device in devices for reading in device.readings}
    return {pin: source for pin, source in kept.items() if pin in current}


class Absences:
    """The metrics that sources could give and did not. Devices with the same sources and metrics share one answer."""

    def __init__(self) -> None:
        self._known: dict[tuple[frozenset[str], tuple[int, ...]], tuple[MergedReading, ...]] = {}

    def of(self, named: Named, chosen: Mapping[ReadingKey, MergedReading]) -> tuple[MergedReading, ...]:
        """An absence for each metric that a source of the device could give and no source gave."""
        listings = [sighting.listing for sighting in named.group.sightings]
        spoken = frozenset(metric for metric, _ in chosen)
        key = (spoken, tuple(map(id, listings)))
        if key not in self._known:
            self._known[key] = _absences(listings, spoken | _DECIDED_ELSEWHERE)
        return self._known[key]


def _absences(listings: Sequence[SourceReport], spoken: frozenset[str]) -> tuple[MergedReading, ...]:
    missing: dict[str, MergedReading] = {}
    for listing in listings:
        for metric in listing.gives:
            if metric not in spoken and metric not in missing:
                missing[metric] = MergedReading(
                    metric, "", Absent.NOT_REPORTED, listing.source, listing.taken, listing.interval
                )
    return tuple(missing.values())
