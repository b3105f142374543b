"""Lives of nodes whose history is compared with observations four times a second."""

import random
from array import array
from collections.abc import Iterator

from kits.changing_node import FACTS, Step, steps
from kits.fed_node import FedNode
from telemetry_daemon.state.history import ASLEEP, HELD_UP, LOST, NOT_REPORTED, NOT_SEEN, SLEPT, History
from telemetry_parsers.model import Absent
from telemetry_parsers.past import KEPT, SLOT_SECONDS, SLOTS, Past, Series, kept_values

_TICK = 0.25
_STARTED = 103.0
_SOURCES = tuple(facts.source for facts in FACTS)
_WORDS = {NOT_SEEN, LOST, ASLEEP, NOT_REPORTED, SLEPT, HELD_UP, *(absent.value for absent in Absent)}
# Slots by device and metric: the numbers that were seen in each.
_Seen = dict[tuple[str, str], dict[int, list[float]]]


class PastLife(FedNode):
    """Two stores with the same reports: one keeps a history, the other is observed all the time."""

    def __init__(self, seed: int, *, is_scraped: bool) -> None:
        self._chance = random.Random(seed)
        # Without scrapes, the expiry and replacement of a reading within a slot stays unnoticed.
        self._is_scraped = is_scraped
        super().__init__(FACTS, now=_STARTED, wall_at_start=1e9)
        self.history = History(self.clock)
        self._kept, self._watched = self.new_store(history=self.history), self.store
        self.seen: _Seen = {}
        # Complete unobserved slots, and the reasons.
        self.silent: dict[int, str] = {}
        self._watch()

    @property
    def slot(self) -> int:
        return int((self.now + self.slept) // SLOT_SECONDS)

    def play(self, step: Step) -> None:
        """Let time pass until the next attempt, and ingest it."""
        if self._chance.random() < 0.03:
            self._pause(SLEPT, "slept")
        elif self._chance.random() < 0.03:
            self._pause(HELD_UP, "now")
        self.wall_at_start += step.days
        for _ in range(int(step.seconds / _TICK)):
            self.now += _TICK
            self._watch()
        for store in (self._kept, self._watched):
            self.store = store
            if step.forgets:
                gone = self.store.forget(lambda _: True)
                self.seen = {key: slots for key, slots in self.seen.items() if key[0] not in gone}
            self.ingest(step.source.name, step.report, step.poll, step.result)
        self._watch()

    def _pause(self, why: str, clock: str) -> None:
        """Let time pass unobserved: the machine sleeps, or the daemon does not run."""
        before = self.slot
        setattr(self, clock, getattr(self, clock) + self._chance.choice((8.0, 13.25, 61.5, 2000.0)))
        self.silent.update(dict.fromkeys(range(before + 1, self.slot), why))
        self._watch()

    def _watch(self) -> None:
        if (self.now + self.slept) % SLOT_SECONDS == 0.0 or self.slot > self._open:
            self.history.end_slots(self._kept.snapshot)
        self._open = self.slot
        if self._is_scraped:
            self._kept.snapshot()
        for device in self._watched.snapshot().devices:
            for metric, value in zip(KEPT, kept_values(device), strict=True):
                if value is not None and not isinstance(value, Absent):
                    self.seen.setdefault((device.id, metric), {}).setdefault(self.slot, []).append(value)
        ids = {identity.id for identity in self._watched.identities()}
        self.seen = {key: slots for key, slots in self.seen.items() if key[0] in ids}

    _open = 0

    def check(self, seed: int) -> None:
        """Compare the whole history with the observations."""
        past = self.history.past()
        assert past.start == self.wall_at_start + SLOT_SECONDS * (self.slot - past.slots)
        assert past.slots == min(SLOTS, self.slot - int(_STARTED // SLOT_SECONDS))
        oldest = self.slot - past.slots
        values = dict(_slots(past, oldest))
        seen = {
            (device_id, metric, slot): [_short(number) for number in numbers]
            for (device_id, metric), slots in self.seen.items()
            for slot, numbers in slots.items()
            if oldest <= slot < self.slot
        }
        for position, (last, highest) in values.items():
            assert {last, highest} <= set(seen.get(position, ())), (seed, position)
        always = {position for position, numbers in seen.items() if len(numbers) >= SLOT_SECONDS / _TICK}
        assert always <= values.keys(), seed
        if self._is_scraped:
            assert values == {position: (numbers[-1], max(numbers)) for position, numbers in seen.items()}, seed
        for series in (line for device in past.devices.values() for line in device.values()):
            self._check_gaps(series, oldest)

    def _check_gaps(self, series: Series, oldest: int) -> None:
        missing = {position for position, value in enumerate(series.last) if value != value}
        reasons = {gap.first + more: gap.reason for gap in series.gaps for more in range(gap.slots)}
        assert missing == set(reasons)
        for slot, reason in reasons.items():
            silent = self.silent.get(oldest + slot)
            if silent is not None:
                assert reason == silent
            else:
                assert reason in _WORDS - {SLEPT, HELD_UP} or reason.partition(": ")[0] in _SOURCES


def _slots(past: Past, oldest: int) -> Iterator[tuple[tuple[str, str, int], tuple[float, float]]]:
    for device_id, lines in past.devices.items():
        for metric, series in lines.items():
            assert len(series.last) == len(series.highest) == past.slots
            for slot, (last, highest) in enumerate(zip(series.last, series.highest, strict=True), oldest):
                if last == last:
                    yield (device_id, metric, slot), (last, highest)


def _short(number: float) -> float:
    return array("f", [number])[0]


def live(seed: int, count: int, *, is_scraped: bool) -> None:
    """Run a life of this many attempts, with occasional checks."""
    life = PastLife(seed, is_scraped=is_scraped)
    for number, step in enumerate(steps(seed, count)):
        life.play(step)
        if number % 20 == 19:
            life.check(seed)
