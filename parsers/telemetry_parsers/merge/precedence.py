"""Which of several sources' readings counts: libraries and files before tools, a number before an absence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence

from telemetry_parsers import bounds
from telemetry_parsers.merge.identity import Named
from telemetry_parsers.merge.joining import FORM_RANK
from telemetry_parsers.merge.report_columns import DECIDED_ELSEWHERE, NUMBER, RATIO, RATIO_OF, TELLING, Fresh
from telemetry_parsers.model import Absent, SourceReport
from telemetry_parsers.readings import ReadingKey

_POWER = "power_watts"
_ALL = "all"

# How telling a reading is, the rank of its report's form, the report's turn, its number, and the reading's place there.
# The lowest counts.
Choice = tuple[int, int, int, int, int]
# The place of an absence that no report has: every source that could give the metric is silent.
NOWHERE = -1
# (id, metric, label) of each counter, and the source that it stays with.
Counters = Mapping[tuple[str, str, str], str]


def _is_other_power(report: SourceReport, position: int, named: Named) -> bool:
    """Average and instantaneous power never replace one another."""
    fixed = named.identity.power_kind
    kind = dict(report.report.devices[position].facts).get("power_kind")
    return fixed is not None and kind is not None and kind != fixed


def choose(
    named: Named, fresh: Fresh, counters: MutableMapping[tuple[str, str, str], str], pending_vendors: Collection[str]
) -> dict[ReadingKey, Choice]:
    """Where the one reading of each metric and label of a device is; `counters` pins each counter to its source.

    A counter is pinned when all sources of the vendor have been asked: the first to answer need not be the best.
    """
    may_pin = named.identity.vendor not in pending_vendors
    best: dict[ReadingKey, Choice] = {}
    for report, position in named.group.parts:
        number = fresh.number_of[report.source, report.poll]
        shape, turn = fresh.offered[number].shape, fresh.turns[number]
        form = FORM_RANK[report.report.form]
        is_other_power = _is_other_power(report, position, named)
        for place in shape.by_device.get(position, ()):
            key, choice = shape.columns.keys[place], (shape.tellings[place], form, turn, number, place)
            if key in best and best[key] <= choice:
                continue
            is_counted = place in shape.columns.counters and choice[0] == NUMBER
            if is_counted and not _is_its_source(counters, (named.identity.id, *key), report.source, may_pin=may_pin):
                continue
            if key[0] == _POWER and is_other_power:
                continue
            best[key] = choice
    _drop_totals(best)
    _take_ratio(best, fresh)
    return best


def is_number(choice: Choice) -> bool:
    """Whether a number was chosen, and no absence."""
    return choice[0] == NUMBER


def _drop_totals(chosen: dict[ReadingKey, Choice]) -> None:
    """Drops a total (`all`) if another source gives its parts: a sum over both would count it twice."""
    for metric in [metric for metric, label in chosen if label == _ALL]:
        if any(is_number(choice) for key, choice in chosen.items() if key[0] == metric and key[1] != _ALL):
            del chosen[(metric, _ALL)]


def _take_ratio(chosen: dict[ReadingKey, Choice], fresh: Fresh) -> None:
    """Takes the memory ratio that was derived from used and total, if both of one capture were chosen."""
    used, total = (chosen.get(key) for key in RATIO_OF)
    if used is None or total is None or used[-2] != total[-2]:
        return
    *_, number, used_place = used
    shape = fresh.offered[number].shape
    place = shape.columns.ratios.get((used_place, total[-1]))
    if place is not None and shape.no_numbers.get(place, Absent.IMPLAUSIBLE) is not None:
        chosen[RATIO] = (shape.tellings[place], *used[1:-1], place)


def _is_its_source(
    counters: MutableMapping[tuple[str, str, str], str], counter: tuple[str, str, str], source: str, *, may_pin: bool
) -> bool:
    """Whether the counter is pinned to this source. A counter without a source is pinned to it, if it may be."""
    if may_pin:
        return counters.setdefault(counter, source) == source
    return counters.get(counter) == source


def remember(counters: Counters, ids: Collection[str], current: Iterable[tuple[str, Iterable[ReadingKey]]]) -> Counters:
    """The pins of these devices' counters; of too many, only those of the `current` readings, which are given by device."""
    kept = {pin: source for pin, source in counters.items() if pin[0] in ids}
    if len(kept) <= bounds.MOST_PINNED_COUNTERS:
        return kept
    told = {(device, *key) for device, keys in current for key in keys}
    return {pin: source for pin, source in kept.items() if pin in told}


class Absences:
    """The metrics that sources could give and did not. Devices with the same sources and metrics share one answer."""

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh
        self._known: dict[tuple[frozenset[str], tuple[int, ...]], dict[ReadingKey, Choice]] = {}

    def of(self, named: Named, chosen: Mapping[ReadingKey, Choice]) -> Mapping[ReadingKey, Choice]:
        """An absence for each metric that a source of the device could give and no source gave."""
        listings = tuple(self._fresh.number_of[one.listing.source, one.listing.poll] for one in named.group.sightings)
        spoken = frozenset(metric for metric, _ in chosen)
        key = (spoken, listings)
        if key not in self._known:
            self._known[key] = self._absences(listings, spoken | DECIDED_ELSEWHERE)
        return self._known[key]

    def _absences(self, listings: Sequence[int], spoken: frozenset[str]) -> dict[ReadingKey, Choice]:
        missing: dict[ReadingKey, Choice] = {}
        for number in listings:
            for metric in self._fresh.offered[number].report.gives:
                if metric not in spoken:
                    missing.setdefault((metric, ""), (TELLING[Absent.NOT_REPORTED], 0, 0, number, NOWHERE))
        return missing
