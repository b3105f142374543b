"""Selects among the readings of several sources: libraries and files before tools, a number before an absence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence

from telemetry_parsers import bounds
from telemetry_parsers.merge.identity import Named
from telemetry_parsers.merge.joining import FORM_RANK
from telemetry_parsers.merge.report_columns import DECIDED_ELSEWHERE, INFORMATION_RANK, NUMBER, RATIO, RATIO_OF, Fresh
from telemetry_parsers.model import Absent, SourceReport
from telemetry_parsers.readings import ReadingKey

_POWER = "power_watts"
_ALL = "all"

# How informative a reading is, the rank of its report's form, the report's turn, its number, and the reading's position
# there. The lowest wins.
Choice = tuple[int, int, int, int, int]
# The position of an absence that no report has: every source that could report the metric is silent.
NOWHERE = -1
# (id, metric, label) of each counter, and the source to which it is pinned.
Counters = Mapping[tuple[str, str, str], str]


def _is_other_power(report: SourceReport, position: int, named: Named) -> bool:
    """Return whether the report has the other kind of power. Average and instantaneous power never replace one another."""
    fixed = named.identity.power_kind
    kind = dict(report.report.devices[position].facts).get("power_kind")
    return fixed is not None and kind is not None and kind != fixed


def choose(
    named: Named, fresh: Fresh, counters: MutableMapping[tuple[str, str, str], str], pending_vendors: Collection[str]
) -> dict[ReadingKey, Choice]:
    """Return the best reading's position by metric and label. Counters are pinned to a source once all sources were polled."""
    may_pin = named.identity.vendor not in pending_vendors
    best: dict[ReadingKey, Choice] = {}
    for report, position in named.group.parts:
        number = fresh.number_of[report.source, report.poll]
        shape, turn = fresh.offered[number].shape, fresh.turns[number]
        form = FORM_RANK[report.report.form]
        is_other_power = _is_other_power(report, position, named)
        for offset in shape.by_device.get(position, ()):
            key, choice = shape.columns.keys[offset], (shape.ranks[offset], form, turn, number, offset)
            if key in best and best[key] <= choice:
                continue
            is_counted = offset in shape.columns.counters and choice[0] == NUMBER
            if is_counted and not _is_its_source(counters, (named.identity.id, *key), report.source, may_pin=may_pin):
                continue
            if key[0] == _POWER and is_other_power:
                continue
            best[key] = choice
    _drop_totals(best)
    _use_ratio(best, fresh)
    return best


def is_number(choice: Choice) -> bool:
    """Return whether a number was chosen, not an absence."""
    return choice[0] == NUMBER


def _drop_totals(chosen: dict[ReadingKey, Choice]) -> None:
    """Drop a total (`all`) if another source reports its parts: a sum over both would count it twice."""
    for metric in [metric for metric, label in chosen if label == _ALL]:
        if any(is_number(choice) for key, choice in chosen.items() if key[0] == metric and key[1] != _ALL):
            del chosen[(metric, _ALL)]


def _use_ratio(chosen: dict[ReadingKey, Choice], fresh: Fresh) -> None:
    """Use the memory ratio derived from used and total if both chosen readings are from one capture."""
    used, total = (chosen.get(key) for key in RATIO_OF)
    if used is None or total is None or used[-2] != total[-2]:
        return
    *_, number, used_position = used
    shape = fresh.offered[number].shape
    ratio_position = shape.columns.ratios.get((used_position, total[-1]))
    if ratio_position is not None and shape.no_numbers.get(ratio_position, Absent.IMPLAUSIBLE) is not None:
        chosen[RATIO] = (shape.ranks[ratio_position], *used[1:-1], ratio_position)


def _is_its_source(
    counters: MutableMapping[tuple[str, str, str], str], counter: tuple[str, str, str], source: str, *, may_pin: bool
) -> bool:
    """Return whether the counter is pinned to this source. If `may_pin`, pin a counter that has no source."""
    if may_pin:
        return counters.setdefault(counter, source) == source
    return counters.get(counter) == source


def remember(counters: Counters, ids: Collection[str], current: Iterable[tuple[str, Iterable[ReadingKey]]]) -> Counters:
    """Return the pins of these devices' counters. If there are too many, keep only those of the `current` readings."""
    kept = {pin: source for pin, source in counters.items() if pin[0] in ids}
    if len(kept) <= bounds.MOST_PINNED_COUNTERS:
        return kept
    reported = {(device, *key) for device, keys in current for key in keys}
    return {pin: source for pin, source in kept.items() if pin in reported}


class Absences:
    """Absences for metrics that sources could report and did not. Devices with equal sources and metrics share a result."""

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh
        self._cached: dict[tuple[frozenset[str], tuple[int, ...]], dict[ReadingKey, Choice]] = {}

    def of(self, named: Named, chosen: Mapping[ReadingKey, Choice]) -> Mapping[ReadingKey, Choice]:
        """Return an absence for each metric that a source of the device could report and no source did."""
        listings = tuple(
            self._fresh.number_of[sighting.listing.source, sighting.listing.poll] for sighting in named.group.sightings
        )
        reported = frozenset(metric for metric, _ in chosen)
        key = (reported, listings)
        if key not in self._cached:
            self._cached[key] = self._absences(listings, reported | DECIDED_ELSEWHERE)
        return self._cached[key]

    def _absences(self, listings: Sequence[int], reported: frozenset[str]) -> dict[ReadingKey, Choice]:
        missing: dict[ReadingKey, Choice] = {}
        for number in listings:
            for metric in self._fresh.offered[number].report.gives:
                if metric not in reported:
                    missing.setdefault((metric, ""), (INFORMATION_RANK[Absent.NOT_REPORTED], 0, 0, number, NOWHERE))
        return missing
