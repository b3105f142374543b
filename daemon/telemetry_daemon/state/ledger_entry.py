"""An owner's entry in the ledger: start, end, cards, and the use of each card."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from telemetry_daemon.state.ledger_card import ENERGY_COUNTED, ENERGY_ESTIMATED
from telemetry_daemon.state.tally import MetricSum, Tally
from telemetry_exporters.text import clean, deep_clean
from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.job_record import (
    SCHEMA,
    CardShare,
    EnergySource,
    Gap,
    JobOwner,
    JobRecord,
    ReadingSummary,
    RecordedTime,
)
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Allocation, Owner

BUSY, THROTTLED = "utilization_ratio", "throttled"
_ENERGY = (ENERGY_COUNTED, ENERGY_ESTIMATED)
# Records have separate fields for these metrics.
_FIELD_METRICS = frozenset({THROTTLED, *_ENERGY})
MAX_GAPS = 16
# Sources report the time of a hook with different precision.
START_TOLERANCE_SECONDS = 1.0
OwnerKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Totals:
    """An owner's totals on one card since the daemon started. Unmeasured totals are None."""

    seconds: float
    busy_seconds: float | None
    energy_joules: float | None


@dataclass(slots=True)
class CardUse:
    """An owner's use of one card."""

    id: str
    vendor: str
    device: str
    model: str
    is_allocated: bool = False
    is_used: bool = False
    basis: tuple[str, ...] = ()
    memory_peak: float | None = None
    tally: Tally = field(default_factory=Tally)
    # The use recorded by earlier daemons. The exposed counters exclude this use, because each daemon starts them at 0.
    tally_at_start: Tally = field(default_factory=Tally)
    # The totals that were last exposed. Even a tiny decrease would look like a counter reset.
    exposed: Totals = Totals(0.0, None, None)

    def update(self, allocation: Allocation) -> None:
        """Update the use with the data of the current allocation."""
        self.is_allocated = self.is_allocated or allocation.is_allocated
        self.is_used = self.is_used or bool(allocation.is_used)
        if allocation.basis not in self.basis:
            self.basis = (*self.basis, allocation.basis)
        memory = allocation.memory_used_bytes
        if memory is not None:
            self.memory_peak = max(memory, self.memory_peak or 0.0)

    def without_tally(self) -> CardUse:
        """Return an empty `CardUse` for the same card."""
        return CardUse(self.id, self.vendor, self.device, self.model)

    def update_totals(self, unsettled: Tally) -> Totals:
        """Update and return the exposed totals, which never decrease."""
        exposed, at_start, tallies = self.exposed, self.tally_at_start, (self.tally, unsettled)
        seconds = self.tally.seconds + unsettled.seconds - at_start.seconds
        busy = _growth(exposed.busy_seconds, tallies, at_start, (BUSY,))
        energy = _growth(exposed.energy_joules, tallies, at_start, _ENERGY)
        self.exposed = Totals(max(seconds, exposed.seconds), busy, energy)
        return self.exposed


@dataclass(slots=True, eq=False)
class Entry:
    """An owner's use of the node."""

    owner: JobOwner
    start: RecordedTime
    id: str = field(default_factory=lambda: os.urandom(8).hex())
    card_uses: dict[str, CardUse] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    end: RecordedTime | None = None
    current_card_ids: set[str] = field(default_factory=set)
    missing_since: float | None = None  # the monotonic time since which the owner has had no current card
    # When the owner was last seen. After a restart, this is the time when the daemon started.
    last_seen: RecordedTime | None = None
    is_completed: bool = False
    _last_details: Owner | None = None

    def get_or_create_card_use(self, device: MergedDevice) -> CardUse:
        """Return the owner's use of this card, creating it if necessary."""
        card_use = self.card_uses.get(device.id)
        if card_use is None:
            card_use = self.card_uses[device.id] = CardUse(device.id, device.vendor, device.device, device.model)
        return card_use

    @property
    def key(self) -> OwnerKey:
        """Return the owner's kind and name."""
        return self.owner.kind, self.owner.name

    def add_details(self, owner: Owner) -> None:
        """Add details of the owner that were unknown before."""
        if owner != self._last_details:
            self._last_details = owner
            fields = asdict(self.owner)
            self.owner = JobOwner(**{name: fields[name] or value for name, value in asdict(deep_clean(owner)).items()})

    def add_gap(self, start: float, end: float, missed_seconds: float) -> None:
        """Record a period that contains `missed_seconds` without measurements."""
        gap = self.gaps[-1] if self.gaps else None
        if gap is not None and (gap.end == start or len(self.gaps) >= MAX_GAPS):
            self.gaps[-1] = Gap(gap.start, end, gap.seconds + missed_seconds)
        else:
            self.gaps.append(Gap(start, end, missed_seconds))

    def shorten_last_gap(self, end: float) -> None:
        """Shorten the last gap so that it ends at this Unix time or earlier."""
        gap = self.gaps[-1] if self.gaps else None
        if gap is not None and gap.end > end:
            self.gaps[-1] = Gap(gap.start, max(gap.start, end), max(0.0, min(gap.seconds, end - gap.start)))

    def _start_of_absence(self) -> RecordedTime | None:
        is_absent = self.missing_since is not None and self.last_seen is not None and self.last_seen.told_by == "seen"
        return self.last_seen if is_absent else None

    def to_record(self, hostname: str, unsettled: Mapping[str, Tally]) -> JobRecord:
        """Return the job record. It includes `unsettled`: tallies, by device id, of use that is not settled yet."""
        card_shares = [_to_card_share(use, unsettled.get(use.id, Tally())) for use in self.card_uses.values()]
        cards = tuple(card for card in card_shares if card.seconds or card.readings or card.events)
        return JobRecord(
            SCHEMA,
            self.id,
            hostname,
            self.owner,
            self.start,
            self.end or self._start_of_absence(),
            sum(card.seconds for card in cards),
            sum(card.measured_seconds for card in cards),
            _sum_known([card.busy_seconds for card in cards]),
            _sum_known([card.energy_joules for card in cards]),
            _sum_known([card.throttled_seconds for card in cards]),
            tuple(self.gaps),
            cards,
        )


def restore_entry(record: JobRecord) -> Entry:
    """Restore an entry from a record that an earlier daemon stored."""
    card_uses = {card.id: _restore_card_use(card) for card in record.cards}
    return Entry(record.owner, record.start, record.id, card_uses, list(record.gaps), record.end)


def entry_key(owner: Owner) -> OwnerKey:
    """Return the kind and name that identify the owner's entry."""
    return owner.kind, clean(owner.name)


def reported_start(allocation: Allocation, wall_time: float) -> RecordedTime | None:
    """Return an allocation's start, or None if it is missing or in the future."""
    started = allocation.started
    if started is None or not 0.0 <= started <= wall_time + START_TOLERANCE_SECONDS:
        return None
    return RecordedTime(min(started, wall_time), "hook" if allocation.is_allocated else "process")


def is_later_run(entry: Entry, start: RecordedTime) -> bool:
    """Return whether the hook reports that the owner has started again."""
    return start.told_by == "hook" == entry.start.told_by and start.time > entry.start.time + START_TOLERANCE_SECONDS


def with_totals(allocation: Allocation, totals_by_owner: Mapping[OwnerKey, Totals]) -> Allocation:
    """Return the allocation with its owner's totals."""
    totals = totals_by_owner.get(entry_key(allocation.owner))
    if totals is None:
        return allocation
    return replace(
        allocation,
        seconds_total=totals.seconds,
        busy_seconds_total=totals.busy_seconds,
        energy_joules_total=totals.energy_joules,
    )


def _to_card_share(card_use: CardUse, unsettled: Tally) -> CardShare:
    tally = Tally()
    tally.add(card_use.tally)
    tally.add(unsettled)
    sums = {
        metric: metric_sum
        for metric, metric_sum in sorted(tally.sums.items())
        if metric_sum.seconds > 0.0 or metric_sum.peak > -math.inf
    }
    return CardShare(
        card_use.id,
        card_use.vendor,
        card_use.device,
        card_use.model,
        card_use.is_allocated,
        card_use.is_used,
        card_use.basis,
        tally.seconds,
        tally.sums[BUSY].seconds if BUSY in sums else 0.0,
        _integral(sums, BUSY),
        _sum_known([_integral(sums, metric) for metric in _ENERGY]),
        _integral(sums, THROTTLED),
        card_use.memory_peak,
        {
            metric: _to_reading_summary(metric_sum)
            for metric, metric_sum in sums.items()
            if metric not in _FIELD_METRICS
        },
        {clean(code)[: bounds.MAX_NAME_LENGTH]: count for code, count in sorted(tally.events.items())},
        _energy_source(sums),
    )


def _energy_source(sums: Mapping[str, MetricSum]) -> EnergySource:
    if _integral(sums, ENERGY_ESTIMATED) is not None:
        return "estimated"
    return "counter" if _integral(sums, ENERGY_COUNTED) is not None else ""


def _restore_card_use(card: CardShare) -> CardUse:
    tally = Tally(card.seconds)
    for metric, reading in card.readings.items():
        tally.sums[metric] = MetricSum(
            reading.seconds,
            (reading.mean or 0.0) * reading.seconds,
            -math.inf if reading.peak is None else reading.peak,
        )
    if card.throttled_seconds is not None:
        tally.sums[THROTTLED] = MetricSum(card.seconds, card.throttled_seconds, 0.0)
    if card.energy_joules is not None:
        metric = ENERGY_COUNTED if card.energy_source == "counter" else ENERGY_ESTIMATED
        tally.sums[metric] = MetricSum(card.seconds, card.energy_joules, 0.0)
    tally.events.update(card.events)
    at_start = Tally()
    at_start.add(tally)
    return CardUse(
        card.id, card.vendor, card.device, card.model, card.is_allocated, card.is_used, card.basis,
        card.memory_peak_bytes, tally, at_start,
    )  # fmt: skip


def _to_reading_summary(metric_sum: MetricSum) -> ReadingSummary:
    return ReadingSummary(
        metric_sum.seconds,
        metric_sum.integral / metric_sum.seconds if metric_sum.seconds > 0.0 else None,
        None if metric_sum.peak == -math.inf else metric_sum.peak,
    )


def _integral(sums: Mapping[str, MetricSum], metric: str) -> float | None:
    return sums[metric].integral if metric in sums and sums[metric].seconds > 0.0 else None


def _growth(last: float | None, tallies: Sequence[Tally], at_start: Tally, metrics: Sequence[str]) -> float | None:
    """Return the growth of the metrics' integrals since the daemon started. The result is at least `last`."""
    sums = [tally.sums[metric] for tally in tallies for metric in metrics if metric in tally.sums]
    if not any(metric_sum.seconds > 0.0 for metric_sum in sums):
        return last
    sum_at_start = sum(at_start.sums[metric].integral for metric in metrics if metric in at_start.sums)
    return max(sum(metric_sum.integral for metric_sum in sums) - sum_at_start, last or 0.0)


def _sum_known(values: list[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None
