"""Chooses among the readings of several sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence

from telemetry_parsers import bounds
from telemetry_parsers.merge.identity import NamedDevice
from telemetry_parsers.merge.joining import FORM_RANK
from telemetry_parsers.merge.report_columns import (
    ABSENCE_RANK,
    MEMORY_RATIO,
    MERGE_METRICS,
    NUMBER_RANK,
    RATIO_INPUTS,
    FreshReports,
)
from telemetry_parsers.model import Absent, SourceReport
from telemetry_parsers.readings import ReadingKey

_POWER = "power_watts"
_TOTAL_LABEL = "all"

# A candidate for a reading: (value rank, form rank, report rank, report index, position). The smallest tuple is chosen.
Choice = tuple[int, int, int, int, int]
REPORT_INDEX, POSITION = 3, 4  # indices in a Choice
# The position of a metric that no source reports. The last value of `FreshReports.row()` is `NOT_REPORTED`.
NO_POSITION = -1
# Maps the (device id, metric, label) of each counter to the counter's source.
Pins = MutableMapping[tuple[str, str, str], str]


def _is_other_power_kind(source_report: SourceReport, position: int, device: NamedDevice) -> bool:
    device_kind = device.identity.power_kind
    reported_kind = dict(source_report.report.devices[position].facts).get("power_kind")
    return device_kind is not None and reported_kind is not None and reported_kind != device_kind


def choose_readings(
    device: NamedDevice, fresh: FreshReports, pins: Pins, pending_vendors: Collection[str]
) -> dict[ReadingKey, Choice]:
    """Return the best reading for each metric and label."""
    may_pin = device.identity.vendor not in pending_vendors
    best: dict[ReadingKey, Choice] = {}
    for report, device_position in device.group.occurrences:
        report_index = fresh.index_by_poll[report.source, report.poll]
        shape, rank = fresh.reports[report_index].shape, fresh.preference_ranks[report_index]
        form = FORM_RANK[report.report.form]
        is_other_power_kind = _is_other_power_kind(report, device_position, device)
        for position in shape.by_device.get(device_position, ()):
            key, choice = shape.columns.keys[position], (shape.ranks[position], form, rank, report_index, position)
            if key in best and best[key] <= choice:
                continue
            is_counter_value = position in shape.columns.counters and choice[0] == NUMBER_RANK
            counter = (device.identity.id, *key)
            if is_counter_value and not _try_to_pin(pins, counter, report.source, may_pin=may_pin):
                continue
            if key[0] == _POWER and is_other_power_kind:
                continue
            best[key] = choice
    _drop_totals(best)
    _prefer_derived_ratio(best, fresh)
    return best


def is_number(choice: Choice) -> bool:
    """Return whether the chosen reading is a number."""
    return choice[0] == NUMBER_RANK


def _drop_totals(choices: dict[ReadingKey, Choice]) -> None:
    """Drop a metric's total (label `all`) if its parts are reported."""
    for metric in [metric for metric, label in choices if label == _TOTAL_LABEL]:
        if any(is_number(choice) for key, choice in choices.items() if key[0] == metric and key[1] != _TOTAL_LABEL):
            del choices[(metric, _TOTAL_LABEL)]


def _prefer_derived_ratio(choices: dict[ReadingKey, Choice], fresh: FreshReports) -> None:
    """Choose the derived memory ratio if the used and the total memory were chosen from the same report."""
    used, total = (choices.get(key) for key in RATIO_INPUTS)
    if used is None or total is None or used[REPORT_INDEX] != total[REPORT_INDEX]:
        return
    shape = fresh.reports[used[REPORT_INDEX]].shape
    ratio_position = shape.columns.ratios.get((used[POSITION], total[POSITION]))
    if ratio_position is not None and shape.absence_by_position.get(ratio_position, Absent.IMPLAUSIBLE) is not None:
        choices[MEMORY_RATIO] = (shape.ranks[ratio_position], *used[1:-1], ratio_position)


def _try_to_pin(pins: Pins, counter: tuple[str, str, str], source: str, *, may_pin: bool) -> bool:
    """Pin an unpinned counter to this source if `may_pin` is true. Return whether it is pinned to this source."""
    return (pins.setdefault(counter, source) if may_pin else pins.get(counter)) == source


def prune_pins(pins: Pins, ids: Collection[str], reported_keys: Iterable[tuple[str, Iterable[ReadingKey]]]) -> Pins:
    """Return the pins of the devices with these `ids`. Above the limit, omit counters that are not reported."""
    kept = {counter: source for counter, source in pins.items() if counter[0] in ids}
    if len(kept) <= bounds.MAX_PINNED_COUNTERS:
        return kept
    reported = {(device_id, *key) for device_id, keys in reported_keys for key in keys}
    return {counter: source for counter, source in kept.items() if counter in reported}


class MissingMetrics:
    """Finds the metrics that a device's sources can report, but did not report."""

    def __init__(self, fresh: FreshReports) -> None:
        self._fresh = fresh
        self._cache: dict[tuple[frozenset[str], tuple[int, ...]], dict[ReadingKey, Choice]] = {}

    def find_absences(self, device: NamedDevice, chosen: Mapping[ReadingKey, Choice]) -> Mapping[ReadingKey, Choice]:
        """Return `Absent` for each metric that the device's sources can report, but did not."""
        listings = tuple(
            self._fresh.index_by_poll[item.list_report.source, item.list_report.poll] for item in device.group.sightings
        )
        reported = frozenset(metric for metric, _ in chosen)
        key = (reported, listings)
        if key not in self._cache:
            self._cache[key] = self._find_missing(listings, reported | MERGE_METRICS)
        return self._cache[key]

    def _find_missing(self, listings: Sequence[int], reported: frozenset[str]) -> dict[ReadingKey, Choice]:
        missing: dict[ReadingKey, Choice] = {}
        for index in listings:
            for metric in self._fresh.reports[index].report.gives:
                if metric not in reported:
                    missing.setdefault((metric, ""), (ABSENCE_RANK[Absent.NOT_REPORTED], 0, 0, index, NO_POSITION))
        return missing
