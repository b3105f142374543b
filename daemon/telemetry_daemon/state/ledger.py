"""The ledger: the use of each card by owner and unallocated, which add up to the card's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from telemetry_daemon.state.accumulate import Increment
from telemetry_daemon.state.billed_card import ENERGY_COUNTED, ENERGY_ESTIMATED, PATIENCE_SECONDS, BilledCard
from telemetry_daemon.state.ledger_file import SCHEMA, Saved
from telemetry_daemon.state.stay import (
    BUSY,
    SAME_SECONDS,
    Key,
    Stay,
    Totals,
    begun_of,
    is_another,
    key_of,
    stay_of,
    with_totals,
)
from telemetry_daemon.state.tally import Tallies, Tally
from telemetry_parsers.job_record import NOBODY, JobRecord, Moment, TimeOrigin, Who
from telemetry_parsers.merge.device_names import DeviceNames
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Allocation, Claim
from telemetry_parsers.past import PastEvent
from telemetry_parsers.readings import Readings

# That many owners that have just gone wait for late news of them.
MOST_WAITING = 256
# The claim of a job that has ended is repeated for a minute.
_REPEATED_SECONDS = 300.0
_NEVER = (-math.inf, -math.inf)
# Unallocated use never ends, so its record is written once a day.
_DAY_SECONDS = 86_400.0
# What is there when the first sources have answered was there at our start.
_START_SECONDS = 15.0


class Ledger:
    """Counts from its creation on; the caller lets only one thread in at a time. `boot` is the id of the machine's start."""

    def __init__(self, hostname: str, boot: str = "", saved: Saved | None = None) -> None:
        self._hostname = hostname
        self._boot = boot
        self._saved = saved
        self._now = self._wall = self._began = self._nobody_began = self._start_wall = -math.inf
        self._cards: dict[str, BilledCard[Stay]] = {}
        self._devices: dict[str, MergedDevice] = {}
        self._allocations: dict[str, Sequence[Allocation]] = {}
        self._nobody = Stay(Who(NOBODY), Moment(0.0, "daemon_start"))
        self._stays: dict[Key, Stay] = {}
        # When the newest run of each owner ended, in Unix seconds, and when that was noted (monotonic), the oldest first.
        self._finished: dict[Key, tuple[float, float]] = {}
        # Those that have gone; of these, the ones with an end are in `_stays` no longer.
        self._waiting: dict[Stay, None] = {}
        self._ended: list[JobRecord] = []
        # Whether an owner has appeared that was not saved yet.
        self.has_news = False

    def count(self, device_id: str, metric: str, increment: Increment) -> None:
        """Take the increment of the integral of one of a card's readings."""
        card = self._cards.get(device_id)
        if card is not None:
            card.count(metric, increment)

    def event(self, event: PastEvent) -> None:
        """Take an event of a card."""
        card = self._cards.get(event.id)
        if card is not None:
            card.event(self._passed(event.wall_time), event.code)

    def see(self, devices: Sequence[MergedDevice], now: float, wall: float, ended: Iterable[Claim] = ()) -> None:
        """Take in who has which card, by the monotonic clock and in Unix seconds; and the claims that tell when they ended."""
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
        if now - self._nobody_began >= _DAY_SECONDS:
            self._end_day()

    def counters(self, device_id: str) -> dict[Key, Totals]:
        """What each present owner's share of a card has come to since the daemon's start, by the kind and name of the owner."""
        card = self._cards.get(device_id)
        if card is None:
            return {}
        recent = card.recent((BUSY, ENERGY_COUNTED, ENERGY_ESTIMATED))
        parts = [(stay, stay.parts[device_id]) for stay in card.shares]
        return {stay.key: part.count(recent.get(stay, Tally())) for stay, part in parts}

    def with_totals(self, device: MergedDevice) -> MergedDevice:
        """The device whose allocations have their totals."""
        if not device.allocations or device.id not in self._cards:
            return device
        counters = self.counters(device.id)
        return replace(device, allocations=tuple(with_totals(one, counters) for one in device.allocations))

    def saved(self) -> Saved | None:
        """What to remember over a restart; None before anything was seen."""
        if self._began == -math.inf:
            return None
        self.has_news = False
        recent = {device_id: card.recent() for device_id, card in self._cards.items()}
        stays = dict.fromkeys((self._nobody, *self._stays.values(), *self._waiting))
        records = (
            stay.record(self._hostname, {card: tallies[stay] for card, tallies in recent.items() if stay in tallies})
            for stay in stays
        )
        return Saved(SCHEMA, self._boot, self._wall, self._now, tuple(records))

    def take_ended(self) -> tuple[JobRecord, ...]:
        """The records of the owners that have ended since the last call."""
        ended, self._ended = self._ended, []
        return tuple(ended)

    def close(self) -> None:
        """End at once what waits for late news: the daemon ends."""
        for stay in list(self._waiting):
            self._finish(stay)

    def forget(self, device_id: str) -> None:
        """Divide for good what was counted for a card that is gone for good."""
        if device_id in self._devices:
            self._lose(device_id)
        card = self._cards.pop(device_id, None)
        if card is not None:
            self._add(device_id, card.divide())

    def _begin(self) -> None:
        """Go on where the daemon before had come to."""
        self._began = self._nobody_began = self._now
        self._start_wall = self._wall
        self._nobody.start = Moment(self._wall, "daemon_start")
        saved = self._saved
        self._saved = None
        if saved is None:
            return
        is_same_boot = saved.boot == self._boot and saved.monotonic <= self._now
        passed = self._now - saved.monotonic if is_same_boot else max(0.0, self._wall - saved.time)
        for record in saved.jobs:
            stay = stay_of(record)
            if stay.end is None:
                stay.gap(saved.time, self._wall, passed)
            if stay.who.kind == NOBODY:
                self._nobody = stay
                self._nobody_began -= min(max(0.0, self._wall - stay.start.time), _DAY_SECONDS)
                continue
            stay.last, stay.missing_since = Moment(self._wall, "daemon_start"), self._now
            self._waiting[stay] = None
            if not is_same_boot:  # no process outlives its machine's start
                stay.end = stay.end or stay.last
            if stay.end is None:
                self._stays[stay.key] = stay

    def _look(self, device: MergedDevice) -> None:
        """Take in one card that is there."""
        card = self._cards.get(device.id)
        if card is None:
            card = self._cards[device.id] = BilledCard(self._nobody, self._now)
            self._nobody.part(device)
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
        """Note that a card is missing: its time is not counted."""
        card = self._cards[device_id]
        self._allocations.pop(device_id, None)
        self._share(card, self._devices.pop(device_id), {})

    def _arrange(self, card: BilledCard[Stay], device: MergedDevice) -> None:
        """Take in who has a card now."""
        shares: dict[Stay, float] = {}
        came: list[tuple[Stay, float]] = []
        for allocation in device.allocations:
            stay = self._stay(allocation)
            since = self._since(stay, allocation, device.id)
            if since is not None:
                came.append((stay, since))
            stay.part(device).see(allocation)
            shares[stay] = shares.get(stay, 0.0) + allocation.share
        whole = max(1.0, sum(shares.values()))
        self._share(card, device, {stay: share / whole for stay, share in shares.items()})
        for stay, since in came:
            counted_from = card.came(stay, since)
            self._tell_unknown_begin(stay, counted_from)

    def _share(self, card: BilledCard[Stay], device: MergedDevice, shares: Mapping[Stay, float]) -> None:
        for stay in [one for one in shares if one not in card.shares]:
            if stay.missing_since is not None:
                self._close_gap(stay)
                stay.missing_since = None
                self._waiting.pop(stay, None)
            stay.cards.add(device.id)
        for stay in [one for one in card.shares if one not in shares]:
            stay.cards.discard(device.id)
            if not stay.cards:
                stay.missing_since = self._now
                stay.last = Moment(self._wall, "seen")
                self._waiting[stay] = None
        card.change(shares)

    def _stay(self, allocation: Allocation) -> Stay:
        """Return the stay of an allocation's owner, a new one for an owner that started again."""
        key = key_of(allocation.owner)
        stay = self._stays.get(key)
        begun = begun_of(allocation, self._wall)
        if stay is not None and begun is not None and is_another(stay, begun):
            self._replace(stay, begun)
            stay = None
        if stay is None:
            is_first = self._now - self._began < _START_SECONDS
            origin: TimeOrigin = "daemon_start" if is_first else "seen"
            stay = self._stays[key] = Stay(Who(*key), begun or Moment(self._wall, origin))
            self.has_news = True
        stay.learn(allocation.owner)
        return stay

    def _since(self, stay: Stay, allocation: Allocation, device_id: str) -> float | None:
        """Return since when an owner has a new card by its hook, or None if the change was seen."""
        begun = begun_of(allocation, self._wall)
        if begun is None:
            return None
        is_news = begun.told_by == "hook" != stay.start.told_by
        if is_news:
            stay.start = begun
        return self._passed(begun.time) if is_news or device_id not in stay.parts else None

    def _replace(self, stay: Stay, begun: Moment) -> None:
        """End a stay, because an owner of the same name started again."""
        del self._stays[stay.key]
        last = stay.last if stay.missing_since is not None and stay.last is not None else Moment(self._wall, "seen")
        stay.end = Moment(min(last.time, begun.time), last.told_by)
        stay.cut_gap(stay.end.time)
        self._left(stay, self._passed(begun.time))

    def _end(self, claim: Claim, devices: Sequence[MergedDevice]) -> None:
        """Take in when an owner ended that is seen no longer."""
        stay = self._stays.get(key_of(claim.owner))
        ended = claim.ended
        if ended is None or not math.isfinite(ended) or ended > self._wall:
            return
        if stay is None:
            self._add_unseen(claim, ended, devices)
            return
        if stay.cards:
            return
        if stay.start.told_by == "hook" and ended < stay.start.time:
            return
        del self._stays[stay.key]
        stay.end = Moment(ended, "hook")
        stay.cut_gap(ended)
        self._remember_end(stay.key, ended)
        self._left(stay, self._passed(ended))

    def _add_unseen(self, claim: Claim, ended: float, devices: Sequence[MergedDevice]) -> None:
        """Add an owner that began and ended between two polls; readings of that time are its own."""
        key, started = key_of(claim.owner), claim.started
        is_news = started is not None and started >= self._finished.get(key, _NEVER)[0] - SAME_SECONDS
        if started is None or not is_news or not started <= ended or ended <= self._start_wall:
            return
        found = DeviceNames(devices).find(claim) if claim.names else None
        device = self._devices.get(found.parent or found.id) if found is not None else None
        if device is None:
            return
        stay = next((one for one in self._waiting if one.key == key and one.start.time == started), None)
        if stay is None:
            stay = Stay(Who(*key), Moment(started, "hook"), end=Moment(ended, "hook"), missing_since=self._now)
            stay.learn(claim.owner)
            self._waiting[stay] = None
            self.has_news = True
        if device.id in stay.parts:
            return
        part = stay.part(device)
        part.is_allocated, part.basis = True, ("whole",)
        counted = self._cards[device.id].visited(stay, self._passed(started), self._passed(ended), self._gives_way)
        if ended - started - counted > SAME_SECONDS and not stay.gaps:
            stay.gap(started, ended, ended - started - counted)

    def _gives_way(self, stay: Stay) -> bool:
        """Return whether an owner has cards only because its processes run there."""
        return not any(part.is_allocated for part in stay.parts.values())

    def _remember_end(self, key: Key, ended: float) -> None:
        self._finished.pop(key, None)
        self._finished[key] = (ended, self._now)
        while self._now - next(iter(self._finished.values()))[1] > _REPEATED_SECONDS:
            del self._finished[next(iter(self._finished))]

    def _left(self, stay: Stay, moment: float) -> None:
        for device_id in stay.parts:
            if device_id in self._cards:
                self._cards[device_id].left(stay, moment)

    def _close_gap(self, stay: Stay) -> None:
        """It is there again, or not: since it was seen last nothing was counted."""
        if stay.last is None or stay.missing_since is None:
            return
        if self._now > stay.missing_since:
            stay.gap(stay.last.time, self._wall, self._now - stay.missing_since)

    def _tell_unknown_begin(self, stay: Stay, counted_from: float) -> None:
        """Record the time before the card was seen as a gap, for the first card of an owner only."""
        start, begin = stay.start.time, self._wall - (self._now - counted_from)
        if begin - start > SAME_SECONDS and not stay.gaps and len(stay.parts) == 1:
            stay.gap(start, begin, begin - start)

    def _finish_waiting(self) -> None:
        """End those that have been gone for so long that nothing can come to light any more, and those that are too many."""
        too_many = len(self._waiting) - MOST_WAITING
        for place, stay in enumerate(list(self._waiting)):
            since = self._now if stay.missing_since is None else stay.missing_since
            if place < too_many or self._now - since >= self._patience(stay):
                self._finish(stay)

    def _patience(self, stay: Stay) -> float:
        cards = [self._cards[device_id] for device_id in stay.parts if device_id in self._cards]
        return max((card.patience for card in cards), default=PATIENCE_SECONDS)

    def _finish(self, stay: Stay) -> None:
        """Write the record of one that has ended."""
        gone = self._now if stay.missing_since is None else stay.missing_since
        for device_id in stay.parts:
            card = self._cards.get(device_id)
            if card is not None:
                self._add(device_id, card.divide(gone + card.longest))
        stay.end = stay.end or stay.last or Moment(self._wall, "seen")
        self._waiting.pop(stay, None)
        if self._stays.get(stay.key) is stay:
            del self._stays[stay.key]
        self._remember_end(stay.key, stay.end.time)
        stay.is_over = True
        self._ended.append(stay.record(self._hostname, {}))

    def _end_day(self) -> None:
        """Write the record of unallocated use since the last one, until the time of which all readings have arrived."""
        patience = self._patience(self._nobody)
        for device_id, card in self._cards.items():
            self._add(device_id, card.divide(self._now - patience))
        self._nobody.end = Moment(self._wall - patience, "day")
        self._ended.append(self._nobody.record(self._hostname, {}))
        parts = {
            device_id: part.emptied() for device_id, part in self._nobody.parts.items() if device_id in self._cards
        }
        self._nobody = Stay(Who(NOBODY), self._nobody.end, parts=parts)
        self._nobody_began = self._now
        for card in self._cards.values():
            card.replace_nobody(self._nobody)

    def _add(self, device_id: str, divided: Tallies[Stay]) -> None:
        """Add to each owner's part of a card what was divided for good."""
        for stay, tally in divided.items():
            (self._nobody if stay.is_over else stay).parts[device_id].tally.add(tally)

    def _passed(self, wall_time: float) -> float:
        """That moment by the monotonic clock, as the clocks stand now; never later than now."""
        return min(self._now, self._now - (self._wall - wall_time))


def _billed(devices: Sequence[MergedDevice]) -> Iterator[MergedDevice]:
    """Return the whole cards that are present or allocated."""
    known = {device.id for device in devices}
    for device in devices:
        is_whole = device.parent is None or device.parent not in known
        if is_whole and (device.up is not False or device.allocations):
            yield device
