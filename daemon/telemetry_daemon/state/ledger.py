"""The ledger records each owner's use of each card, and the unallocated use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from telemetry_daemon.state.accumulate import CurveSegment
from telemetry_daemon.state.ledger_card import ENERGY_COUNTED, ENERGY_ESTIMATED, MAX_REPORT_DELAY_SECONDS, LedgerCard
from telemetry_daemon.state.ledger_entry import (
    BUSY,
    START_TOLERANCE_SECONDS,
    Entry,
    OwnerKey,
    Totals,
    entry_key,
    is_later_run,
    reported_start,
    restore_entry,
    with_totals,
)
from telemetry_daemon.state.ledger_file import SCHEMA, SavedLedger
from telemetry_daemon.state.tally import Tallies, Tally
from telemetry_parsers.job_record import NOBODY, JobOwner, JobRecord, RecordedTime, TimeOrigin
from telemetry_parsers.merge.device_names import DeviceNames
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Allocation, Claim
from telemetry_parsers.past import PastEvent
from telemetry_parsers.readings import Readings

# At most this many owners without current cards wait for late reports.
MAX_WAITING = 256
# Sources report the claim of an ended job for a minute, so its end must be remembered for longer.
_REMEMBERED_END_SECONDS = 300.0
_NO_END = (-math.inf, -math.inf)
# Unallocated use has no end, so its record is completed once a day.
_DAY_SECONDS = 86_400.0
# An owner that is reported this soon after the daemon's start is assumed to be older than the daemon.
_STARTUP_SECONDS = 15.0


class Ledger:
    """Records each owner's use of each card. Not thread-safe."""

    def __init__(self, hostname: str, boot: str = "", saved: SavedLedger | None = None) -> None:
        self._hostname = hostname
        self._boot = boot
        self._saved = saved
        self._now = self._wall_time = self._start_time = self._day_start = self._start_wall_time = -math.inf
        self._cards: dict[str, LedgerCard[Entry]] = {}
        self._devices: dict[str, MergedDevice] = {}
        self._allocations: dict[str, Sequence[Allocation]] = {}
        self._unallocated = Entry(JobOwner(NOBODY), RecordedTime(0.0, "daemon_start"))
        self._entries: dict[OwnerKey, Entry] = {}
        # Maps owners to the end of their newest run (Unix time), and to the time when that end was recorded (monotonic).
        self._newest_ends: dict[OwnerKey, tuple[float, float]] = {}
        # The entries of owners without current cards, which wait for late reports. Used as an ordered set.
        self._waiting_entries: dict[Entry, None] = {}
        self._completed_records: list[JobRecord] = []
        # Whether an owner appeared since the state was last saved.
        self.has_new_owner = False

    def add_segment(self, device_id: str, metric: str, segment: CurveSegment) -> None:
        """Attribute a segment of a reading's curve to the card's owners."""
        card = self._cards.get(device_id)
        if card is not None:
            card.add_segment(metric, segment)

    def add_event(self, event: PastEvent) -> None:
        """Count an event for the owners of its card."""
        card = self._cards.get(event.id)
        if card is not None:
            card.add_event(self._to_monotonic(event.wall_time), event.code)

    def update(
        self, devices: Sequence[MergedDevice], now: float, wall_time: float, ended: Iterable[Claim] = ()
    ) -> None:
        """Update the owners of the cards. `ended` contains the claims of owners that have finished."""
        self._now, self._wall_time = now, wall_time
        if self._start_time == -math.inf:
            self._restore()
        present_ids = set()
        for device in _present_whole_cards(devices):
            present_ids.add(device.id)
            self._update_card(device)
        if len(present_ids) < len(self._devices):
            for device_id in self._devices.keys() - present_ids:
                self._remove_card(device_id)
        for claim in ended:
            self._end_run(claim, devices)
        self._complete_waiting_entries()
        if now - self._day_start >= _DAY_SECONDS:
            self._complete_unallocated_day()

    def update_totals_by_owner(self, device_id: str) -> dict[OwnerKey, Totals]:
        """Update the totals of a card's current owners, and return them by owner."""
        card = self._cards.get(device_id)
        if card is None:
            return {}
        tallies = card.unsettled_tallies((BUSY, ENERGY_COUNTED, ENERGY_ESTIMATED))
        card_uses = [(entry, entry.card_uses[device_id]) for entry in card.shares]
        return {entry.key: card_use.update_totals(tallies.get(entry, Tally())) for entry, card_use in card_uses}

    def with_totals(self, device: MergedDevice) -> MergedDevice:
        """Return the device with each owner's totals in its allocations."""
        if not device.allocations or device.id not in self._cards:
            return device
        totals = self.update_totals_by_owner(device.id)
        return replace(device, allocations=tuple(with_totals(allocation, totals) for allocation in device.allocations))

    def state_to_save(self) -> SavedLedger | None:
        """Return the state to save for the next daemon, or None before the first update."""
        if self._start_time == -math.inf:
            return None
        self.has_new_owner = False
        unsettled = {device_id: card.unsettled_tallies() for device_id, card in self._cards.items()}
        entries = dict.fromkeys((self._unallocated, *self._entries.values(), *self._waiting_entries))
        records = (
            entry.to_record(
                self._hostname, {card: tallies[entry] for card, tallies in unsettled.items() if entry in tallies}
            )
            for entry in entries
        )
        return SavedLedger(SCHEMA, self._boot, self._wall_time, self._now, tuple(records))

    def take_completed(self) -> tuple[JobRecord, ...]:
        """Return the records that were completed since the last call."""
        completed, self._completed_records = self._completed_records, []
        return tuple(completed)

    def close(self) -> None:
        """Complete the records of all owners that no longer use a card."""
        for entry in list(self._waiting_entries):
            self._complete_entry(entry)

    def forget(self, device_id: str) -> None:
        """Attribute the card's use to its owners, then remove the card."""
        if device_id in self._devices:
            self._remove_card(device_id)
        card = self._cards.pop(device_id, None)
        if card is not None:
            self._add_tallies(device_id, card.settle())

    def _restore(self) -> None:
        self._start_time = self._day_start = self._now
        self._start_wall_time = self._wall_time
        self._unallocated.start = RecordedTime(self._wall_time, "daemon_start")
        saved = self._saved
        self._saved = None
        if saved is None:
            return
        is_same_boot = saved.boot == self._boot and saved.monotonic <= self._now
        elapsed = self._now - saved.monotonic if is_same_boot else max(0.0, self._wall_time - saved.time)
        for record in saved.jobs:
            entry = restore_entry(record)
            if entry.end is None:
                entry.add_gap(saved.time, self._wall_time, elapsed)
            if entry.owner.kind == NOBODY:
                self._unallocated = entry
                self._day_start -= min(max(0.0, self._wall_time - entry.start.time), _DAY_SECONDS)
                continue
            entry.last_seen, entry.missing_since = RecordedTime(self._wall_time, "daemon_start"), self._now
            self._waiting_entries[entry] = None
            if not is_same_boot:  # no process survives a reboot
                entry.end = entry.end or entry.last_seen
            if entry.end is None:
                self._entries[entry.key] = entry

    def _update_card(self, device: MergedDevice) -> None:
        card = self._cards.get(device.id)
        if card is None:
            card = self._cards[device.id] = LedgerCard(self._unallocated, self._now)
            self._unallocated.get_or_create_card_use(device)
        elif device.id not in self._devices:
            self._add_tallies(device.id, card.skip_absence(self._now))
        self._devices[device.id] = device
        card.seen_until = self._now
        card.add_readings(Readings.of(device.readings))
        allocations = device.allocations
        previous = self._allocations.get(device.id)
        if allocations is not previous and allocations != previous:
            self._allocations[device.id] = allocations
            self._update_owners(card, device)
        self._add_tallies(device.id, card.settle_old())

    def _remove_card(self, device_id: str) -> None:
        card = self._cards[device_id]
        self._allocations.pop(device_id, None)
        self._set_shares(card, self._devices.pop(device_id), {})

    def _update_owners(self, card: LedgerCard[Entry], device: MergedDevice) -> None:
        shares: dict[Entry, float] = {}
        earlier_starts: list[tuple[Entry, float]] = []
        for allocation in device.allocations:
            entry = self._entry_for(allocation)
            since = self._new_reported_start(entry, allocation, device.id)
            if since is not None:
                earlier_starts.append((entry, since))
            entry.get_or_create_card_use(device).update(allocation)
            shares[entry] = shares.get(entry, 0.0) + allocation.share
        total_share = max(1.0, sum(shares.values()))
        self._set_shares(card, device, {entry: share / total_share for entry, share in shares.items()})
        for entry, since in earlier_starts:
            counted_from = card.extend_back(entry, since)
            self._add_start_gap(entry, counted_from)

    def _set_shares(self, card: LedgerCard[Entry], device: MergedDevice, shares: Mapping[Entry, float]) -> None:
        for entry in [holder for holder in shares if holder not in card.shares]:
            if entry.missing_since is not None:
                self._add_absence_gap(entry)
                entry.missing_since = None
                self._waiting_entries.pop(entry, None)
            entry.current_card_ids.add(device.id)
        for entry in [holder for holder in card.shares if holder not in shares]:
            entry.current_card_ids.discard(device.id)
            if not entry.current_card_ids:
                entry.missing_since = self._now
                entry.last_seen = RecordedTime(self._wall_time, "seen")
                self._waiting_entries[entry] = None
        card.set_shares(shares)

    def _entry_for(self, allocation: Allocation) -> Entry:
        key = entry_key(allocation.owner)
        entry = self._entries.get(key)
        start = reported_start(allocation, self._wall_time)
        if entry is not None and start is not None and is_later_run(entry, start):
            self._end_previous_run(entry, start)
            entry = None
        if entry is None:
            was_present_before = self._now - self._start_time < _STARTUP_SECONDS
            origin: TimeOrigin = "daemon_start" if was_present_before else "seen"
            entry = self._entries[key] = Entry(JobOwner(*key), start or RecordedTime(self._wall_time, origin))
            self.has_new_owner = True
        entry.add_details(allocation.owner)
        return entry

    def _new_reported_start(self, entry: Entry, allocation: Allocation, device_id: str) -> float | None:
        """Return the reported start in monotonic time, or None if it is missing or was applied to this card before."""
        start = reported_start(allocation, self._wall_time)
        if start is None:
            return None
        is_first_hook_start = start.told_by == "hook" != entry.start.told_by
        if is_first_hook_start:
            entry.start = start
        return self._to_monotonic(start.time) if is_first_hook_start or device_id not in entry.card_uses else None

    def _end_previous_run(self, entry: Entry, next_start: RecordedTime) -> None:
        del self._entries[entry.key]
        last_seen = entry.last_seen if entry.missing_since is not None else None
        last_seen = last_seen or RecordedTime(self._wall_time, "seen")
        entry.end = replace(last_seen, time=min(last_seen.time, next_start.time))
        entry.shorten_last_gap(entry.end.time)
        self._remove_from_cards(entry, self._to_monotonic(next_start.time))

    def _end_run(self, claim: Claim, devices: Sequence[MergedDevice]) -> None:
        entry = self._entries.get(entry_key(claim.owner))
        end_time = claim.ended
        if end_time is None or not math.isfinite(end_time) or end_time > self._wall_time:
            return
        if entry is None:
            self._add_unseen_run(claim, end_time, devices)
            return
        if entry.current_card_ids:
            return
        if entry.start.told_by == "hook" and end_time < entry.start.time:
            return
        del self._entries[entry.key]
        entry.end = RecordedTime(end_time, "hook")
        entry.shorten_last_gap(end_time)
        self._remember_end(entry.key, end_time)
        self._remove_from_cards(entry, self._to_monotonic(end_time))

    def _add_unseen_run(self, claim: Claim, end_time: float, devices: Sequence[MergedDevice]) -> None:
        """Add the run of an owner that used a card only between two polls."""
        key, started = entry_key(claim.owner), claim.started
        is_new = started is not None and started >= self._newest_ends.get(key, _NO_END)[0] - START_TOLERANCE_SECONDS
        if started is None or not is_new or not started <= end_time or end_time <= self._start_wall_time:
            return
        named_device = DeviceNames(devices).find(claim) if claim.names else None
        device = self._devices.get(named_device.parent or named_device.id) if named_device is not None else None
        if device is None:
            return
        entry = next(
            (waiting for waiting in self._waiting_entries if waiting.key == key and waiting.start.time == started), None
        )
        if entry is None:
            start, end = RecordedTime(started, "hook"), RecordedTime(end_time, "hook")
            entry = Entry(JobOwner(*key), start, end=end, missing_since=self._now)
            entry.add_details(claim.owner)
            self._waiting_entries[entry] = None
            self.has_new_owner = True
        if device.id in entry.card_uses:
            return
        card_use = entry.get_or_create_card_use(device)
        card_use.is_allocated, card_use.basis = True, ("whole",)
        since, until = self._to_monotonic(started), self._to_monotonic(end_time)
        counted_seconds = self._cards[device.id].add_past(entry, since, until, self._is_displaceable)
        missed_seconds = end_time - started - counted_seconds
        if missed_seconds > START_TOLERANCE_SECONDS and not entry.gaps:
            entry.add_gap(started, end_time, missed_seconds)

    def _is_displaceable(self, entry: Entry) -> bool:
        return not any(use.is_allocated for use in entry.card_uses.values())

    def _remember_end(self, key: OwnerKey, end_time: float) -> None:
        self._newest_ends.pop(key, None)
        self._newest_ends[key] = (end_time, self._now)
        while self._now - next(iter(self._newest_ends.values()))[1] > _REMEMBERED_END_SECONDS:
            del self._newest_ends[next(iter(self._newest_ends))]

    def _remove_from_cards(self, entry: Entry, time: float) -> None:
        for device_id in entry.card_uses:
            if device_id in self._cards:
                self._cards[device_id].remove_holder(entry, time)

    def _add_absence_gap(self, entry: Entry) -> None:
        if entry.last_seen is None or entry.missing_since is None:
            return
        if self._now > entry.missing_since:
            entry.add_gap(entry.last_seen.time, self._wall_time, self._now - entry.missing_since)

    def _add_start_gap(self, entry: Entry, counted_from: float) -> None:
        start, counted_start = entry.start.time, self._wall_time - (self._now - counted_from)
        if counted_start - start > START_TOLERANCE_SECONDS and not entry.gaps and len(entry.card_uses) == 1:
            entry.add_gap(start, counted_start, counted_start - start)

    def _complete_waiting_entries(self) -> None:
        excess = len(self._waiting_entries) - MAX_WAITING
        for index, entry in enumerate(list(self._waiting_entries)):
            missing_since = self._now if entry.missing_since is None else entry.missing_since
            if index < excess or self._now - missing_since >= self._max_report_delay(entry):
                self._complete_entry(entry)

    def _max_report_delay(self, entry: Entry) -> float:
        cards = [self._cards[device_id] for device_id in entry.card_uses if device_id in self._cards]
        return max((card.max_report_delay for card in cards), default=MAX_REPORT_DELAY_SECONDS)

    def _complete_entry(self, entry: Entry) -> None:
        last_present = self._now if entry.missing_since is None else entry.missing_since
        for device_id in entry.card_uses:
            card = self._cards.get(device_id)
            if card is not None:
                self._add_tallies(device_id, card.settle(last_present + card.longest_segment))
        entry.end = entry.end or entry.last_seen or RecordedTime(self._wall_time, "seen")
        self._waiting_entries.pop(entry, None)
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
        self._remember_end(entry.key, entry.end.time)
        entry.is_completed = True
        self._completed_records.append(entry.to_record(self._hostname, {}))

    def _complete_unallocated_day(self) -> None:
        max_report_delay = self._max_report_delay(self._unallocated)
        for device_id, card in self._cards.items():
            self._add_tallies(device_id, card.settle(self._now - max_report_delay))
        self._unallocated.end = RecordedTime(self._wall_time - max_report_delay, "day")
        self._completed_records.append(self._unallocated.to_record(self._hostname, {}))
        card_uses = {
            device_id: card_use.without_tally()
            for device_id, card_use in self._unallocated.card_uses.items()
            if device_id in self._cards
        }
        self._unallocated = Entry(JobOwner(NOBODY), self._unallocated.end, card_uses=card_uses)
        self._day_start = self._now
        for card in self._cards.values():
            card.replace_unallocated(self._unallocated)

    def _add_tallies(self, device_id: str, tallies_by_entry: Tallies[Entry]) -> None:
        for entry, tally in tallies_by_entry.items():
            (self._unallocated if entry.is_completed else entry).card_uses[device_id].tally.add(tally)

    def _to_monotonic(self, wall_time: float) -> float:
        return min(self._now, self._now - (self._wall_time - wall_time))


def _present_whole_cards(devices: Sequence[MergedDevice]) -> Iterator[MergedDevice]:
    ids = {device.id for device in devices}
    for device in devices:
        is_whole = device.parent is None or device.parent not in ids
        if is_whole and (device.up is not False or device.allocations):
            yield device
