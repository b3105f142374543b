"""The ledger: the use of each card by each owner and the unallocated use, which add up to the card's use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from telemetry_daemon.state.accumulate import Increment
from telemetry_daemon.state.billed_card import ENERGY_COUNTED, ENERGY_ESTIMATED, PATIENCE_SECONDS, BilledCard
from telemetry_daemon.state.ledger_entry import (
    BUSY,
    SAME_SECONDS,
    Entry,
    Key,
    Totals,
    begun_of,
    entry_of,
    is_another,
    key_of,
    with_totals,
)
from telemetry_daemon.state.ledger_file import SCHEMA, Saved
from telemetry_daemon.state.tally import Tallies, Tally
from telemetry_parsers.job_record import NOBODY, JobRecord, Moment, TimeOrigin, Who
from telemetry_parsers.merge.device_names import DeviceNames
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Allocation, Claim
from telemetry_parsers.past import PastEvent
from telemetry_parsers.readings import Readings

# At most this many owners that have gone wait for late reports.
MOST_WAITING = 256
# The claim of an ended job is repeated for a minute.
_REPEATED_SECONDS = 300.0
_NEVER = (-math.inf, -math.inf)
# Unallocated use never ends, so its record is written once a day.
_DAY_SECONDS = 86_400.0
# Owners that the first polls report were present when the daemon started.
_START_SECONDS = 15.0


class Ledger:
    """Adds up each owner's use of each card. Not thread-safe: the caller must hold a lock. `boot` is the boot id."""

    def __init__(self, hostname: str, boot: str = "", saved: Saved | None = None) -> None:
        self._hostname = hostname
        self._boot = boot
        self._saved = saved
        self._now = self._wall = self._began = self._day_began = self._start_wall = -math.inf
        self._cards: dict[str, BilledCard[Entry]] = {}
        self._devices: dict[str, MergedDevice] = {}
        self._allocations: dict[str, Sequence[Allocation]] = {}
        self._unallocated = Entry(Who(NOBODY), Moment(0.0, "daemon_start"))
        self._entries: dict[Key, Entry] = {}
        # When the newest run of each owner ended (Unix seconds), and when this was noted (monotonic), oldest first.
        self._finished: dict[Key, tuple[float, float]] = {}
        # Owners that have gone; those with an end are no longer in `_entries`.
        self._waiting: dict[Entry, None] = {}
        self._ended: list[JobRecord] = []
        # Whether an owner has appeared since the last save.
        self.has_news = False

    def count(self, device_id: str, metric: str, increment: Increment) -> None:
        """Add an increment of the integral of a reading of a card."""
        card = self._cards.get(device_id)
        if card is not None:
            card.count(metric, increment)

    def event(self, event: PastEvent) -> None:
        """Add an event of a card."""
        card = self._cards.get(event.id)
        if card is not None:
            card.event(self._passed(event.wall_time), event.code)

    def see(self, devices: Sequence[MergedDevice], now: float, wall: float, ended: Iterable[Claim] = ()) -> None:
        """Read the current owners of the cards, and claims of owners that have ended, at this monotonic and Unix time."""
        self._now, self._wall = now, wall
        if self._began == -math.inf:
            self._begin()
        present = set()
        for device in _billed(devices):
            present.add(device.id)
            self._look(device)
        if len(present) < len(self._devices):
            for device_id in self._devices.keys() - present:
                self._lose(device_id)
        for claim in ended:
            self._end(claim, devices)
        self._finish_waiting()
        if now - self._day_began >= _DAY_SECONDS:
            self._end_day()

    def counters(self, device_id: str) -> dict[Key, Totals]:
        """Return the totals of each present owner's share of a card since the daemon started, by the owner's kind and name."""
        card = self._cards.get(device_id)
        if card is None:
            return {}
        recent = card.recent((BUSY, ENERGY_COUNTED, ENERGY_ESTIMATED))
        parts = [(entry, entry.parts[device_id]) for entry in card.shares]
        return {entry.key: part.count(recent.get(entry, Tally())) for entry, part in parts}

    def with_totals(self, device: MergedDevice) -> MergedDevice:
        """Return the device with the totals of its allocations."""
        if not device.allocations or device.id not in self._cards:
            return device
        counters = self.counters(device.id)
        return replace(
            device, allocations=tuple(with_totals(allocation, counters) for allocation in device.allocations)
        )

    def saved(self) -> Saved | None:
        """Return what to remember over a restart, or None before the first sighting."""
        if self._began == -math.inf:
            return None
        self.has_news = False
        recent = {device_id: card.recent() for device_id, card in self._cards.items()}
        entries = dict.fromkeys((self._unallocated, *self._entries.values(), *self._waiting))
        records = (
            entry.record(self._hostname, {card: tallies[entry] for card, tallies in recent.items() if entry in tallies})
            for entry in entries
        )
        return Saved(SCHEMA, self._boot, self._wall, self._now, tuple(records))

    def take_ended(self) -> tuple[JobRecord, ...]:
        """Return the records of the owners that have ended since the last call."""
        ended, self._ended = self._ended, []
        return tuple(ended)

    def close(self) -> None:
        """Finish all waiting owners at once, because the daemon exits."""
        for entry in list(self._waiting):
            self._finish(entry)

    def forget(self, device_id: str) -> None:
        """Remove a card that is gone for good, after dividing its last counts among its owners."""
        if device_id in self._devices:
            self._lose(device_id)
        card = self._cards.pop(device_id, None)
        if card is not None:
            self._add(device_id, card.divide())

    def _begin(self) -> None:
        """Continue from the saved state of the previous daemon."""
        self._began = self._day_began = self._now
        self._start_wall = self._wall
        self._unallocated.start = Moment(self._wall, "daemon_start")
        saved = self._saved
        self._saved = None
        if saved is None:
            return
        is_same_boot = saved.boot == self._boot and saved.monotonic <= self._now
        passed = self._now - saved.monotonic if is_same_boot else max(0.0, self._wall - saved.time)
        for record in saved.jobs:
            entry = entry_of(record)
            if entry.end is None:
                entry.gap(saved.time, self._wall, passed)
            if entry.who.kind == NOBODY:
                self._unallocated = entry
                self._day_began -= min(max(0.0, self._wall - entry.start.time), _DAY_SECONDS)
                continue
            entry.last, entry.missing_since = Moment(self._wall, "daemon_start"), self._now
            self._waiting[entry] = None
            if not is_same_boot:  # no process survives a reboot
                entry.end = entry.end or entry.last
            if entry.end is None:
                self._entries[entry.key] = entry

    def _look(self, device: MergedDevice) -> None:
        card = self._cards.get(device.id)
        if card is None:
            card = self._cards[device.id] = BilledCard(self._unallocated, self._now)
            self._unallocated.part(device)
        elif device.id not in self._devices:
            self._add(device.id, card.away(self._now))
        self._devices[device.id] = device
        card.seen_until = self._now
        card.look(Readings.of(device.readings))
        allocations = device.allocations
        before = self._allocations.get(device.id)
        if allocations is not before and allocations != before:
            self._allocations[device.id] = allocations
            self._arrange(card, device)
        self._add(device.id, card.divide_old())

    def _lose(self, device_id: str) -> None:
        card = self._cards[device_id]
        self._allocations.pop(device_id, None)
        self._share(card, self._devices.pop(device_id), {})

    def _arrange(self, card: BilledCard[Entry], device: MergedDevice) -> None:
        shares: dict[Entry, float] = {}
        came: list[tuple[Entry, float]] = []
        for allocation in device.allocations:
            entry = self._entry(allocation)
            since = self._since(entry, allocation, device.id)
            if since is not None:
                came.append((entry, since))
            entry.part(device).see(allocation)
            shares[entry] = shares.get(entry, 0.0) + allocation.share
        whole = max(1.0, sum(shares.values()))
        self._share(card, device, {entry: share / whole for entry, share in shares.items()})
        for entry, since in came:
            counted_from = card.came(entry, since)
            self._add_unknown_begin(entry, counted_from)

    def _share(self, card: BilledCard[Entry], device: MergedDevice, shares: Mapping[Entry, float]) -> None:
        for entry in [holder for holder in shares if holder not in card.shares]:
            if entry.missing_since is not None:
                self._close_gap(entry)
                entry.missing_since = None
                self._waiting.pop(entry, None)
            entry.cards.add(device.id)
        for entry in [holder for holder in card.shares if holder not in shares]:
            entry.cards.discard(device.id)
            if not entry.cards:
                entry.missing_since = self._now
                entry.last = Moment(self._wall, "seen")
                self._waiting[entry] = None
        card.change(shares)

    def _entry(self, allocation: Allocation) -> Entry:
        key = key_of(allocation.owner)
        entry = self._entries.get(key)
        begun = begun_of(allocation, self._wall)
        if entry is not None and begun is not None and is_another(entry, begun):
            self._replace(entry, begun)
            entry = None
        if entry is None:
            is_first = self._now - self._began < _START_SECONDS
            origin: TimeOrigin = "daemon_start" if is_first else "seen"
            entry = self._entries[key] = Entry(Who(*key), begun or Moment(self._wall, origin))
            self.has_news = True
        entry.learn(allocation.owner)
        return entry

    def _since(self, entry: Entry, allocation: Allocation, device_id: str) -> float | None:
        """Return since when an owner has a new card by its hook, or None if the change was seen."""
        begun = begun_of(allocation, self._wall)
        if begun is None:
            return None
        is_news = begun.told_by == "hook" != entry.start.told_by
        if is_news:
            entry.start = begun
        return self._passed(begun.time) if is_news or device_id not in entry.parts else None

    def _replace(self, entry: Entry, begun: Moment) -> None:
        del self._entries[entry.key]
        last = entry.last if entry.missing_since is not None and entry.last is not None else Moment(self._wall, "seen")
        entry.end = Moment(min(last.time, begun.time), last.told_by)
        entry.cut_gap(entry.end.time)
        self._left(entry, self._passed(begun.time))

    def _end(self, claim: Claim, devices: Sequence[MergedDevice]) -> None:
        entry = self._entries.get(key_of(claim.owner))
        ended = claim.ended
        if ended is None or not math.isfinite(ended) or ended > self._wall:
            return
        if entry is None:
            self._add_unseen(claim, ended, devices)
            return
        if entry.cards:
            return
        if entry.start.told_by == "hook" and ended < entry.start.time:
            return
        del self._entries[entry.key]
        entry.end = Moment(ended, "hook")
        entry.cut_gap(ended)
        self._remember_end(entry.key, ended)
        self._left(entry, self._passed(ended))

    def _add_unseen(self, claim: Claim, ended: float, devices: Sequence[MergedDevice]) -> None:
        """Add an owner that began and ended between two polls, with the readings of that time."""
        key, started = key_of(claim.owner), claim.started
        is_news = started is not None and started >= self._finished.get(key, _NEVER)[0] - SAME_SECONDS
        if started is None or not is_news or not started <= ended or ended <= self._start_wall:
            return
        found = DeviceNames(devices).find(claim) if claim.names else None
        device = self._devices.get(found.parent or found.id) if found is not None else None
        if device is None:
            return
        entry = next(
            (waiting for waiting in self._waiting if waiting.key == key and waiting.start.time == started), None
        )
        if entry is None:
            entry = Entry(Who(*key), Moment(started, "hook"), end=Moment(ended, "hook"), missing_since=self._now)
            entry.learn(claim.owner)
            self._waiting[entry] = None
            self.has_news = True
        if device.id in entry.parts:
            return
        part = entry.part(device)
        part.is_allocated, part.basis = True, ("whole",)
        counted = self._cards[device.id].visited(entry, self._passed(started), self._passed(ended), self._gives_way)
        if ended - started - counted > SAME_SECONDS and not entry.gaps:
            entry.gap(started, ended, ended - started - counted)

    def _gives_way(self, entry: Entry) -> bool:
        return not any(part.is_allocated for part in entry.parts.values())

    def _remember_end(self, key: Key, ended: float) -> None:
        self._finished.pop(key, None)
        self._finished[key] = (ended, self._now)
        while self._now - next(iter(self._finished.values()))[1] > _REPEATED_SECONDS:
            del self._finished[next(iter(self._finished))]

    def _left(self, entry: Entry, moment: float) -> None:
        for device_id in entry.parts:
            if device_id in self._cards:
                self._cards[device_id].left(entry, moment)

    def _close_gap(self, entry: Entry) -> None:
        """Record the time since the owner was last seen as a gap."""
        if entry.last is None or entry.missing_since is None:
            return
        if self._now > entry.missing_since:
            entry.gap(entry.last.time, self._wall, self._now - entry.missing_since)

    def _add_unknown_begin(self, entry: Entry, counted_from: float) -> None:
        """Record the time before the card was seen as a gap, for the first card of an owner only."""
        start, begin = entry.start.time, self._wall - (self._now - counted_from)
        if begin - start > SAME_SECONDS and not entry.gaps and len(entry.parts) == 1:
            entry.gap(start, begin, begin - start)

    def _finish_waiting(self) -> None:
        """End owners that no late report can change any more, and those above the limit."""
        too_many = len(self._waiting) - MOST_WAITING
        for number, entry in enumerate(list(self._waiting)):
            since = self._now if entry.missing_since is None else entry.missing_since
            if number < too_many or self._now - since >= self._patience(entry):
                self._finish(entry)

    def _patience(self, entry: Entry) -> float:
        cards = [self._cards[device_id] for device_id in entry.parts if device_id in self._cards]
        return max((card.patience for card in cards), default=PATIENCE_SECONDS)

    def _finish(self, entry: Entry) -> None:
        gone = self._now if entry.missing_since is None else entry.missing_since
        for device_id in entry.parts:
            card = self._cards.get(device_id)
            if card is not None:
                self._add(device_id, card.divide(gone + card.longest))
        entry.end = entry.end or entry.last or Moment(self._wall, "seen")
        self._waiting.pop(entry, None)
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
        self._remember_end(entry.key, entry.end.time)
        entry.is_over = True
        self._ended.append(entry.record(self._hostname, {}))

    def _end_day(self) -> None:
        """Write the record of unallocated use since the last record, up to the time for which all readings have arrived."""
        patience = self._patience(self._unallocated)
        for device_id, card in self._cards.items():
            self._add(device_id, card.divide(self._now - patience))
        self._unallocated.end = Moment(self._wall - patience, "day")
        self._ended.append(self._unallocated.record(self._hostname, {}))
        parts = {
            device_id: part.emptied() for device_id, part in self._unallocated.parts.items() if device_id in self._cards
        }
        self._unallocated = Entry(Who(NOBODY), self._unallocated.end, parts=parts)
        self._day_began = self._now
        for card in self._cards.values():
            card.replace_unallocated(self._unallocated)

    def _add(self, device_id: str, divided: Tallies[Entry]) -> None:
        for entry, tally in divided.items():
            (self._unallocated if entry.is_over else entry).parts[device_id].tally.add(tally)

    def _passed(self, wall_time: float) -> float:
        """Convert a Unix time to the monotonic clock; at most the current time."""
        return min(self._now, self._now - (self._wall - wall_time))


def _billed(devices: Sequence[MergedDevice]) -> Iterator[MergedDevice]:
    ids = {device.id for device in devices}
    for device in devices:
        is_whole = device.parent is None or device.parent not in ids
        if is_whole and (device.up is not False or device.allocations):
            yield device
