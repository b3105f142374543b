"""Simulates one vendor's cards and their faults, second by second."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random

from telemetry_daemon.simulate.cards import CardState
from telemetry_daemon.simulate.workload import Workload
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.vendor import Vendor

# At the first poll, the cards are already warm and busy.
WARM_UP_SECONDS = 300
# After a longer pause between polls, only this many seconds are simulated.
_MAX_SECONDS_AT_ONCE = 3600
# An event announces a loss this long before polls stop reporting the card.
_WARNING_SECONDS = 5.0
_MAX_EVENTS_KEPT = 100
# Staged faults begin after the daemon has found all cards.
_STAGED_FAULT_DELAY_SECONDS = 15.0
_HANG_DELAY_SECONDS = 45.0
_FLAP_SECONDS = 60.0
# In a simulated history, a card of the training run is hot.
INCIDENT = "incident"
_HOT_CARD, _INCIDENT_AGE_SECONDS, _INCIDENT_SECONDS = 2, 480.0, 2400.0


def new_random(*seed: object) -> Random:
    """Return a generator whose random numbers depend only on the seed."""
    return Random("/".join(map(str, seed)))  # noqa: S311  # not for secrets


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Faults per hour and card. `failed_polls`, `slow_nodes` and `big_jobs` are faults per hour and source."""

    events: float = 0.0
    fatal_events: float = 0.0
    hot_spells: float = 0.0
    lost_cards: float = 0.0
    links_down: float = 0.0
    corrected_errors: float = 0.0
    uncorrected_errors: float = 0.0
    failed_polls: float = 0.0
    hung_cards: float = 0.0
    hung_jobs: float = 0.0
    # Each occurrence of the next three starts a big job, which is a training run on all cards of the source.
    slow_cards: float = 0.0
    slow_nodes: float = 0.0
    big_jobs: float = 0.0


NO_FAULTS = FaultRates()
# With these rates, a node with eight cards has a fault every few minutes.
SOME_FAULTS = FaultRates(
    events=0.2,
    fatal_events=0.02,
    hot_spells=0.5,
    lost_cards=0.08,
    links_down=0.1,
    corrected_errors=0.5,
    uncorrected_errors=0.02,
    failed_polls=2.0,
    hung_cards=0.01,
    hung_jobs=0.02,
    slow_cards=0.02,
    slow_nodes=0.01,
)


class Simulation:
    """One vendor's simulated cards and their faults."""

    def __init__(
        self,
        vendor: Vendor,
        count: int,
        seed: int,
        faults: FaultRates,
        staged_faults: Sequence[str] = (),
        past_seconds: float = 0.0,
    ) -> None:
        self._demo = vendor.demo
        self._staged_faults = [self._staged_fault_functions()[fault] for fault in staged_faults]
        # The simulated second that is the present after a simulated history.
        self._history_end = WARM_UP_SECONDS + past_seconds
        self._random = new_random(seed, vendor.word, count)
        self.workload = Workload(count, self._random)
        self._rated_faults = self._fault_rates(faults, count)
        self._faults_per_second = sum(rate for rate, _ in self._rated_faults) / 3600.0
        self._fails_until = 0.0
        self.now = 0.0
        self.cards = [CardState(vendor.demo, position, watts=vendor.demo.card.idle_watts) for position in range(count)]
        self.events: deque[tuple[float, int, str]] = deque(maxlen=_MAX_EVENTS_KEPT)

    def advance(self, end_time: float) -> None:
        """Simulate every second until `end_time`, in seconds since the first poll."""
        target = float(int(end_time)) + WARM_UP_SECONDS
        self.now = max(self.now, target - _MAX_SECONDS_AT_ONCE)
        while self.now < target:
            self.now += 1.0
            self._advance_one_second()

    def present_cards(self) -> list[CardState]:
        """Return the cards that are on the bus."""
        return [card for card in self.cards if not card.is_lost(self.now)]

    def is_failing(self) -> bool:
        """Return whether all polls of the source fail now."""
        return self.now < self._fails_until

    def _advance_one_second(self) -> None:
        now, random = self.now, self._random
        if now > WARM_UP_SECONDS and random.random() < self._faults_per_second:
            rates, fault_functions = zip(*self._rated_faults, strict=True)
            (add_fault,) = random.choices(fault_functions, weights=rates)
            add_fault(random.choice(self.cards))
        for simulate_fault in self._staged_faults:
            simulate_fault(now - self._history_end - _STAGED_FAULT_DELAY_SECONDS)
        presence = [not card.is_lost(now) for card in self.cards]
        self.workload.advance(now, presence)
        for card, job, is_present in zip(self.cards, self.workload.jobs, presence, strict=True):
            if is_present:
                card.advance(now, job, random)
            elif now + 1.0 >= card.lost_until:
                card.reset()
            if 0.0 < card.reset_at <= now:
                card.reset()

    def _staged_fault_functions(self) -> Mapping[str, Callable[[float], None]]:
        """Map each staged fault to a function. It is called every second with the seconds since the fault is due."""
        return {
            "lost": self._stage_loss,
            "hot": self._stage_heat,
            "xid": self._stage_fatal_event,
            "hung": self._stage_hang,
            "flapping": self._stage_flapping,
            INCIDENT: self._stage_incident,
        }

    def _stage_loss(self, seconds_since_due: float) -> None:
        if seconds_since_due == 0.0:
            self.cards[-1].lost_from, self.cards[-1].lost_until = self.now, math.inf
            self._add_event(self.cards[-1], self._demo.lost_event)

    def _stage_heat(self, seconds_since_due: float) -> None:
        if seconds_since_due == 0.0:
            self.cards[0].hot_until = math.inf
            self.workload.train_everywhere(self.now, math.inf)

    def _stage_incident(self, seconds_since_due: float) -> None:
        if seconds_since_due == -_INCIDENT_AGE_SECONDS:
            self.cards[_HOT_CARD % len(self.cards)].hot_until = self.now + _INCIDENT_SECONDS

    def _stage_fatal_event(self, seconds_since_due: float) -> None:
        if seconds_since_due == 0.0:
            card = self.cards[1 % len(self.cards)]
            card.reset_at = math.inf
            self._add_event(card, self._demo.fatal_event)

    def _stage_hang(self, seconds_since_due: float) -> None:
        if seconds_since_due >= _HANG_DELAY_SECONDS:
            self._fails_until = math.inf

    def _stage_flapping(self, seconds_since_due: float) -> None:
        if seconds_since_due >= 0.0 and seconds_since_due % _FLAP_SECONDS == 0.0:
            card = self.cards[2 % len(self.cards)]
            card.lost_from, card.lost_until = self.now, self.now + _FLAP_SECONDS / 3

    def _add_event(self, card: CardState, code: str) -> None:
        if code:
            self.events.append((self.now, card.position, code))

    def _fault_rates(self, faults: FaultRates, count: int) -> list[tuple[float, Callable[[CardState], object]]]:
        """Return a rate and a function for each fault. The rates are faults per hour, summed over all cards."""
        return [
            (faults.failed_polls, self._fail_polls),
            (faults.events * count if self._demo.events else 0.0, self._add_random_event),
            (faults.fatal_events * count if self._demo.fatal_event else 0.0, self._add_fatal_event),
            (faults.lost_cards * count if count > 1 else 0.0, self._lose_card),
            (faults.hot_spells * count, self._overheat),
            (faults.links_down * count if self._demo.card.links else 0.0, self._cut_link),
            (faults.corrected_errors * count, self._add_corrected_errors),
            (faults.uncorrected_errors * count, self._add_uncorrected_error),
            (faults.hung_cards * count, self._hang_card),
            (faults.hung_jobs * count, self._hang_job),
            (faults.slow_cards * count, self._slow_card),
            (faults.slow_nodes, self._slow_node),
            (faults.big_jobs, self._start_big_job),
        ]

    def _fail_polls(self, _card: CardState) -> None:
        self._fails_until = self.now + self._random.uniform(2.0, 8.0)

    def _add_random_event(self, card: CardState) -> None:
        self.events.append((self.now, card.position, self._random.choice(self._demo.events)))

    def _add_fatal_event(self, card: CardState) -> None:
        card.reset_at = self.now + self._random.uniform(300.0, 1200.0)
        self.events.append((self.now, card.position, self._demo.fatal_event))

    def _lose_card(self, card: CardState) -> None:
        """Remove the card from the bus for some minutes, unless a card is already missing."""
        if any(self.now < other.lost_until for other in self.cards):
            return
        card.lost_from = self.now + _WARNING_SECONDS
        card.lost_until = card.lost_from + self._random.uniform(45.0, 240.0)
        self._add_event(card, self._demo.lost_event)

    def _overheat(self, card: CardState) -> None:
        card.hot_until = self.now + self._random.uniform(180.0, 480.0)

    def _cut_link(self, card: CardState) -> None:
        card.link_errors += self._random.randint(1, 20)
        card.links_down[self._random.randrange(card.model.links)] = self.now + self._random.uniform(60.0, 600.0)

    def _add_corrected_errors(self, card: CardState) -> None:
        card.corrected_errors += self._random.randint(1, 3)
        card.pcie_replays += self._random.randint(0, 1)

    def _add_uncorrected_error(self, card: CardState) -> None:
        card.uncorrected_errors += 1

    def _hang_card(self, card: CardState) -> None:
        self.workload.hang((card.position,), self.now + self._random_job_seconds())

    def _hang_job(self, card: CardState) -> None:
        cards = card.job.cards if card.job is not None else ()
        self.workload.hang(cards, self.now + self._random_job_seconds())

    def _slow_card(self, card: CardState) -> None:
        card.slow_until = self._start_big_job(card)

    def _slow_node(self, card: CardState) -> None:
        end_time = self._start_big_job(card)
        for slow_card in self.cards:
            slow_card.slow_until = end_time

    def _start_big_job(self, _card: CardState) -> float:
        """Start a training run on all cards, and return the simulated second at which it ends."""
        end_time = self.now + self._random_job_seconds()
        self.workload.train_everywhere(self.now, end_time)
        return end_time

    def _random_job_seconds(self) -> float:
        return self._random.uniform(2700.0, 5400.0)
