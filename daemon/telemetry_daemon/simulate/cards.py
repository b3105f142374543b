"""The physics of one simulated card: power follows load, heat follows power, and both can hold the clocks down."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from telemetry_daemon.simulate.workload import IDLE, Job
from telemetry_parsers.demo import Card, Demo

_AMBIENT_CELSIUS = 27.0
_HOT_SPELL_CELSIUS = 38.0
_POWER_FOLLOWS = 0.5
_HEAT_FOLLOWS = 1.0 / 40.0
_MEMORY_HEAT_FOLLOWS = 1.0 / 60.0
_COOL_ENOUGH_CELSIUS = 4.0
_HELD_DOWN_POWER = 0.55
_HELD_DOWN_CLOCK = 0.7
_SLOW_CLOCK = 0.6
_BUSY_LOAD = 0.02
_LINK_BYTES_PER_SECOND = 300e9
_PCIE_BYTES_PER_SECOND = 6e9


@dataclass(slots=True)
class CardState:
    """How a card is now, and what it counted since it was last started; for its job it was busy, and did work, since that began."""

    demo: Demo
    position: int
    now: float = 0.0
    job: Job | None = None
    load: float = 0.0
    memory_share: float = 0.0
    work: float = 0.0
    busy_seconds: float = 0.0
    work_done: float = 0.0
    power: float = 0.0
    die: float = _AMBIENT_CELSIUS
    memory: float = _AMBIENT_CELSIUS
    clock_share: float = 0.0
    capped: bool = False
    hot: bool = False
    energy_joules: float = 0.0
    capped_seconds: int = 0
    hot_seconds: int = 0
    link_bytes: float = 0.0
    pcie_bytes: float = 0.0
    pcie_bytes_per_second: float = 0.0
    replays: int = 0
    corrected: int = 0
    uncorrected: int = 0
    link_errors: int = 0
    errors_before: tuple[int, int] = (0, 0)
    links_down: dict[int, float] = field(default_factory=dict)
    hot_until: float = 0.0
    slow_until: float = 0.0
    lost_from: float = float("inf")
    lost_until: float = 0.0
    reset_at: float = 0.0

    @property
    def model(self) -> Card:
        """What its model is like."""
        return self.demo.card

    def come_back(self) -> None:
        """Be on the bus again after a loss, or be reset, with all counters at 0 as after a driver's start; `errors_before` goes on."""
        corrected, uncorrected = self.errors_before
        self.errors_before = (corrected + self.corrected, uncorrected + self.uncorrected)
        self.energy_joules = self.link_bytes = self.pcie_bytes = 0.0
        self.capped_seconds = self.hot_seconds = 0
        self.replays = self.corrected = self.uncorrected = self.link_errors = 0
        self.links_down.clear()
        self.lost_from, self.lost_until, self.reset_at = float("inf"), 0.0, 0.0

    def is_lost(self, now: float) -> bool:
        """Whether the card is off the bus."""
        return self.lost_from <= now < self.lost_until

    def is_slow(self) -> bool:
        """Whether something that the card does not tell holds it down."""
        return self.now < self.slow_until

    def advance(self, now: float, job: Job | None, random: Random) -> None:
        """One second more with this job."""
        self.now = now
        if job is None or self.job is None or job.pid != self.job.pid:
            self.busy_seconds = self.work_done = 0.0
        self.job = job
        kind = job.kind if job is not None else IDLE
        self.load = job.load(now, random) if job is not None else 0.0
        self.memory_share = job.memory(now) if job is not None else 0.0
        self.work = self.load * kind.progress
        self._draw(kind.intensity, random)
        self._warm()
        self._clock()
        self.busy_seconds += self.work
        self.work_done += self.work * self.clock_share
        self.energy_joules += self.power
        self.capped_seconds += self.capped
        self.hot_seconds += self.hot
        self.link_bytes += self.work * kind.links * _LINK_BYTES_PER_SECOND
        self.pcie_bytes_per_second = self.work * _PCIE_BYTES_PER_SECOND * (1.0 + kind.links)
        self.pcie_bytes += self.pcie_bytes_per_second

    def _draw(self, intensity: float, random: Random) -> None:
        """Power follows what the load demands, up to the limit of cap and temperature."""
        model = self.model
        span = model.cap_watts - model.idle_watts
        demand = model.idle_watts + span * intensity * self.load
        held_down = self.hot or self.is_slow()
        limit = model.idle_watts + span * _HELD_DOWN_POWER if held_down else model.cap_watts
        self.capped = not held_down and demand > model.cap_watts
        self.power += (min(demand, limit) - self.power) * _POWER_FOLLOWS
        self.power = min(max(self.power * random.uniform(0.992, 1.008), 0.9 * model.idle_watts), model.cap_watts)

    def _warm(self) -> None:
        model = self.model
        ambient = (
            _AMBIENT_CELSIUS + 0.8 * (self.position % 8) + (_HOT_SPELL_CELSIUS if self.now < self.hot_until else 0.0)
        )
        goal = ambient + (model.full_load_celsius - _AMBIENT_CELSIUS) * self.power / model.cap_watts
        self.die += (goal - self.die) * _HEAT_FOLLOWS
        self.memory += (self.die + 6.0 * self.load - self.memory) * _MEMORY_HEAT_FOLLOWS
        if self.die >= model.slowdown_celsius:
            self.hot = True
        elif self.die < model.slowdown_celsius - _COOL_ENOUGH_CELSIUS:
            self.hot = False

    def _clock(self) -> None:
        if self.load < _BUSY_LOAD:
            self.clock_share = 0.0
        elif self.hot:
            self.clock_share = _HELD_DOWN_CLOCK
        elif self.is_slow():
            self.clock_share = _SLOW_CLOCK
        else:
            self.clock_share = 0.94 if self.capped else 1.0
