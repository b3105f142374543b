"""One simulated card and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from telemetry_daemon.simulate.workload import IDLE, Job, WorkPattern
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.metrics import HEALTH_STATES, PIPES, RECOVERY_ACTIONS
from telemetry_parsers.vendor import Card, Demo

_AMBIENT_CELSIUS = 27.0
_HOT_SPELL_CELSIUS = 38.0
_POWER_RESPONSE = 0.5
_DIE_HEAT_RESPONSE = 1.0 / 40.0
_MEMORY_HEAT_RESPONSE = 1.0 / 60.0
_HYSTERESIS_CELSIUS = 4.0
_THROTTLED_POWER_SHARE = 0.55
_THROTTLED_CLOCK_SHARE = 0.7
_SLOW_CLOCK_SHARE = 0.6
_BUSY_LOAD = 0.02
_LINK_BYTES_PER_SECOND = 300e9
_PCIE_BYTES_PER_SECOND = 6e9
_MIB = 1 << 20
_MHZ = 1e6
_CLOCK_STEP_MHZ = 15
_DRIVER_MIB = 3
_SENSOR_OFFSETS = MappingProxyType({"edge": -4.0, "core": 0.0, "junction": 3.0})
_ENGINE_SHARES = MappingProxyType({"aicore": 1.0, "vector": 0.55, "copy": 0.3, "aicpu": 0.05, "ctrlcpu": 0.02})
_PERFORMANCE_LEVELS = ("auto", "low", "high", "manual")
_ERRORS_PER_REMAPPED_ROW = 8
_PIPE_SHARES = MappingProxyType({"int": 0.22, "fp32": 0.1, "fp16": 0.04, "tensor_imma": 0.01})
# The share of time in which the memory is active exceeds the share of its bandwidth in use.
_ACTIVITY_PER_TRAFFIC = 1.25
# The power differs between chips of a model, and varies from second to second.
_CHIP_VARIATION, _POWER_NOISE = 0.02, 0.015
_CRITICAL_ABOVE_SLOWDOWN, _SHUTDOWN_ABOVE_SLOWDOWN = 5.0, 10.0
_MARGIN_LIMITS = MappingProxyType({"slowdown": -2.0, "shutdown": -8.0, "memory": 0.0, "operation": 0.0})
_MEMORY_SHARE_OF_POWER = 0.14
_PROCESSOR_WATTS = 210.0
_VOLTS = (0.68, 0.92)
_GTT_MIB, _GTT_USED_MIB = 128_500, 310

# A number, or numbers by label value.
SimulatedValue = float | dict[str, float]


@dataclass(slots=True)
class CardState:
    """The state of one simulated card. Times are seconds of the simulation."""

    demo: Demo
    position: int
    now: float = 0.0
    job: Job | None = None
    load: float = 0.0
    memory_share: float = 0.0
    productive_load: float = 0.0  # the part of `load` that advances the job; 0 while the job hangs
    busy_seconds: float = 0.0
    work_done: float = 0.0
    watts: float = 0.0
    die_celsius: float = _AMBIENT_CELSIUS
    memory_celsius: float = _AMBIENT_CELSIUS
    clock_share: float = 0.0
    is_capped: bool = False
    is_hot: bool = False
    energy_joules: float = 0.0
    capped_seconds: int = 0
    hot_seconds: int = 0
    link_bytes: float = 0.0
    pcie_bytes: float = 0.0
    pcie_bytes_per_second: float = 0.0
    pcie_replays: int = 0
    corrected_errors: int = 0
    uncorrected_errors: int = 0
    link_errors: int = 0
    errors_before_reset: tuple[int, int] = (0, 0)
    links_down: dict[int, float] = field(default_factory=dict)
    hot_until: float = 0.0
    slow_until: float = 0.0
    lost_from: float = float("inf")
    lost_until: float = 0.0
    reset_at: float = 0.0

    @property
    def model(self) -> Card:
        """Return the properties of the card's model."""
        return self.demo.card

    @property
    def pattern(self) -> WorkPattern:
        """Return the work pattern of the card's job."""
        return self.job.pattern if self.job is not None else IDLE

    def reset(self) -> None:
        """Return the card to the bus, and clear its counters."""
        corrected, uncorrected = self.errors_before_reset
        self.errors_before_reset = (corrected + self.corrected_errors, uncorrected + self.uncorrected_errors)
        self.energy_joules = self.link_bytes = self.pcie_bytes = 0.0
        self.capped_seconds = self.hot_seconds = 0
        self.pcie_replays = self.corrected_errors = self.uncorrected_errors = self.link_errors = 0
        self.links_down.clear()
        self.lost_from, self.lost_until, self.reset_at = float("inf"), 0.0, 0.0

    def is_lost(self, now: float) -> bool:
        """Return whether the card is off the bus."""
        return self.lost_from <= now < self.lost_until

    def is_slow(self) -> bool:
        """Return whether the card is slow without reporting a reason."""
        return self.now < self.slow_until

    def advance(self, now: float, job: Job | None, random: Random) -> None:
        """Advance by one second, with the card's current job."""
        self.now = now
        if job is None or self.job is None or job.pid != self.job.pid:
            self.busy_seconds = self.work_done = 0.0
        self.job = job
        pattern = self.pattern
        self.load = job.load(now, random) if job is not None else 0.0
        self.memory_share = job.memory(now) if job is not None else 0.0
        self.productive_load = self.load * pattern.progress
        self._update_power(pattern.intensity, random)
        self._update_temperatures()
        self._update_clock()
        self.busy_seconds += self.productive_load
        self.work_done += self.productive_load * self.clock_share
        self.energy_joules += self.watts
        self.capped_seconds += self.is_capped
        self.hot_seconds += self.is_hot
        self.link_bytes += self.productive_load * pattern.links * _LINK_BYTES_PER_SECOND
        self.pcie_bytes_per_second = self.productive_load * _PCIE_BYTES_PER_SECOND * (1.0 + pattern.links)
        self.pcie_bytes += self.pcie_bytes_per_second

    def _update_power(self, intensity: float, random: Random) -> None:
        model = self.model
        power_range = model.cap_watts - model.idle_watts
        chip_factor = 1.0 + _CHIP_VARIATION * (self.position * 5 % 8 - 3.5) / 3.5
        demand = model.idle_watts + power_range * intensity * self.load * chip_factor
        is_throttled = self.is_hot or self.is_slow()
        limit = model.idle_watts + power_range * _THROTTLED_POWER_SHARE if is_throttled else model.cap_watts
        self.is_capped = not is_throttled and demand > model.cap_watts
        self.watts += (min(demand, limit) - self.watts) * _POWER_RESPONSE
        self.watts = min(
            max(self.watts * random.uniform(1.0 - _POWER_NOISE, 1.0 + _POWER_NOISE), 0.9 * model.idle_watts),
            model.cap_watts,
        )

    def _update_temperatures(self) -> None:
        model = self.model
        ambient = (
            _AMBIENT_CELSIUS + 0.8 * (self.position % 8) + (_HOT_SPELL_CELSIUS if self.now < self.hot_until else 0.0)
        )
        target = ambient + (model.full_load_celsius - _AMBIENT_CELSIUS) * self.watts / model.cap_watts
        self.die_celsius += (target - self.die_celsius) * _DIE_HEAT_RESPONSE
        self.memory_celsius += (self.die_celsius + 6.0 * self.load - self.memory_celsius) * _MEMORY_HEAT_RESPONSE
        if self.die_celsius >= model.slowdown_celsius:
            self.is_hot = True
        elif self.die_celsius < model.slowdown_celsius - _HYSTERESIS_CELSIUS:
            self.is_hot = False

    def _update_clock(self) -> None:
        if self.load < _BUSY_LOAD:
            self.clock_share = 0.0
        elif self.is_hot:
            self.clock_share = _THROTTLED_CLOCK_SHARE
        elif self.is_slow():
            self.clock_share = _SLOW_CLOCK_SHARE
        else:
            self.clock_share = 0.94 if self.is_capped else 1.0


def memory_used_bytes(card: CardState) -> float:
    """Return the memory used by the driver and the job."""
    model = card.model
    partition_sizes = [int(part.memory_share * model.memory_mib) for part in card.demo.partitions]
    usable_sizes = partition_sizes or [model.memory_mib - model.memory_reserved_mib]
    return float(_MIB * sum(min(_DRIVER_MIB + int(card.memory_share * size), size) for size in usable_sizes))


def process_count(card: CardState) -> int:
    """Return the number of processes on the card, one per owner."""
    return 0 if card.job is None else max(len(card.job.owners), 1)


def _free_bytes(card: CardState) -> float:
    return float(_MIB * (card.model.memory_mib - card.model.memory_reserved_mib)) - memory_used_bytes(card)


def _temperatures(card: CardState) -> SimulatedValue:
    return {
        sensor: float(round(card.memory_celsius if sensor == "memory" else card.die_celsius + _SENSOR_OFFSETS[sensor]))
        for sensor in card.demo.sensors
    }


def _mhz_range(card: CardState, domain: str) -> tuple[int, int]:
    return card.model.memory_mhz if domain == "memory" else card.model.graphics_mhz


def _clock_hertz(card: CardState, domain: str) -> float:
    low, high = _mhz_range(card, domain)
    if domain == "memory":
        return _MHZ * (high if card.clock_share else low)
    steps = round((high - low) * card.clock_share / _CLOCK_STEP_MHZ)
    return _MHZ * min(low + _CLOCK_STEP_MHZ * steps, high)


def _by_throttle_reason(demo: Demo, power: float, heat: float) -> SimulatedValue:
    return dict(zip(demo.throttle, (float(power), float(heat)), strict=True))


def _counts_by_label(labels: tuple[str, ...], count: int) -> SimulatedValue:
    """Return the count for the first label, and 0 for the other labels."""
    return {label: float(count if index == 0 else 0) for index, label in enumerate(labels)}


def _temperature_limit(card: CardState, above_slowdown: float = 0.0) -> SimulatedValue:
    return {card.demo.sensors[0]: card.model.slowdown_celsius + above_slowdown}


def _volts(card: CardState) -> SimulatedValue:
    low, high = _VOLTS
    return {"core": round(low + (high - low) * card.clock_share, 3)}


def _one_hot(states: tuple[str, ...], current_state: str) -> SimulatedValue:
    return {state: float(state == current_state) for state in states}


def _link_states(card: CardState) -> SimulatedValue:
    return {str(link): float(card.links_down.get(link, 0.0) <= card.now) for link in range(card.model.links)}


def _pipe_share(card: CardState, pipe: str) -> float:
    return card.pattern.tensor if pipe == "tensor_hmma" else _PIPE_SHARES.get(pipe, 0.0)


def _needs_reset(card: CardState) -> bool:
    return card.now < max(card.lost_until, card.reset_at)


VALUE_FUNCTIONS: Mapping[str, Callable[[CardState], SimulatedValue]] = {
    "temperature_celsius": _temperatures,
    "temperature_margin_celsius": lambda card: float(round(card.model.slowdown_celsius - card.die_celsius)),
    "temperature_slowdown_celsius": _temperature_limit,
    "temperature_critical_celsius": lambda card: _temperature_limit(card, _CRITICAL_ABOVE_SLOWDOWN),
    "temperature_shutdown_celsius": lambda card: _temperature_limit(card, _SHUTDOWN_ABOVE_SLOWDOWN),
    "temperature_margin_limit_celsius": lambda _: dict(_MARGIN_LIMITS),
    "power_watts": lambda card: round(card.watts, 1),
    "power_average_watts": lambda card: round(card.watts, 1),
    "power_instant_watts": lambda card: round(card.watts * (1.0 + 0.02 * card.load), 1),
    "power_memory_watts": lambda card: round(_MEMORY_SHARE_OF_POWER * card.watts, 1),
    "power_module_watts": lambda card: round(card.watts + _PROCESSOR_WATTS, 1),
    "power_cap_watts": lambda card: card.model.cap_watts,
    "power_cap_default_watts": lambda card: card.model.cap_watts,
    "power_cap_min_watts": lambda card: float(round(0.3 * card.model.cap_watts)),
    "power_cap_max_watts": lambda card: card.model.cap_watts,
    "energy_joules_total": lambda card: round(card.energy_joules, 3),
    "utilization_ratio": lambda card: round(card.load, 2),
    "memory_used_bytes": memory_used_bytes,
    "memory_total_bytes": lambda card: float(_MIB * card.model.memory_mib),
    "memory_free_bytes": _free_bytes,
    "memory_reserved_bytes": lambda card: float(_MIB * card.model.memory_reserved_mib),
    "memory_activity_ratio": lambda card: round(
        min(_ACTIVITY_PER_TRAFFIC * card.pattern.traffic, 1.0) * card.productive_load, 2
    ),
    "memory_bandwidth_ratio": lambda card: round(card.pattern.traffic * card.productive_load, 2),
    "memory_gtt_used_bytes": lambda _: float(_MIB * _GTT_USED_MIB),
    "memory_gtt_total_bytes": lambda _: float(_MIB * _GTT_MIB),
    "graphics_active_ratio": lambda card: round(card.load, 3),
    "sm_active_ratio": lambda card: round(0.92 * card.load, 2),
    "sm_occupancy_ratio": lambda card: round(0.41 * card.load, 2),
    "tensor_active_ratio": lambda card: round(card.pattern.tensor * card.productive_load, 2),
    "pipe_active_ratio": lambda card: {pipe: round(_pipe_share(card, pipe) * card.load, 3) for pipe in PIPES},
    "engine_utilization_ratio": lambda card: {
        engine: round(_ENGINE_SHARES.get(engine, 0.0) * card.load, 2) for engine in card.demo.engines
    },
    "clock_hertz": lambda card: {domain: _clock_hertz(card, domain) for domain in card.demo.domains},
    "clock_max_hertz": lambda card: {domain: _MHZ * _mhz_range(card, domain)[1] for domain in card.demo.domains},
    "throttled": lambda card: _by_throttle_reason(card.demo, card.is_capped, card.is_hot),
    "throttled_seconds_total": lambda card: _by_throttle_reason(card.demo, card.capped_seconds, card.hot_seconds),
    "voltage_volts": _volts,
    "performance_state": lambda card: 0.0 if card.clock_share else 8.0,
    "event_watch": lambda card: 1.0,  # noqa: ARG005  # called like the other functions
    "performance_level": lambda _: _one_hot(_PERFORMANCE_LEVELS, "auto"),
    "fan_ratio": lambda card: round(min(max((card.die_celsius - 20.0) / 70.0, 0.2), 1.0), 2),
    "pcie_link_generation": lambda card: float(card.model.pcie_generation),
    "pcie_link_generation_max": lambda card: float(card.model.pcie_generation),
    "pcie_link_width": lambda _: 16.0,
    "pcie_link_width_max": lambda _: 16.0,
    "pcie_replays_total": lambda card: float(card.pcie_replays),
    "pcie_receive_bytes_total": lambda card: float(int(card.pcie_bytes)),
    "pcie_transmit_bytes_total": lambda card: float(int(0.8 * card.pcie_bytes)),
    "pcie_errors_total": lambda card: _counts_by_label(card.demo.pcie_errors, card.pcie_replays),
    "pcie_receive_bytes_per_second": lambda card: float(int(card.pcie_bytes_per_second)),
    "pcie_transmit_bytes_per_second": lambda card: float(int(0.8 * card.pcie_bytes_per_second)),
    "pcie_bandwidth_bytes_per_second": lambda card: float(int(1.8 * card.pcie_bytes_per_second)),
    "link_up": _link_states,
    "link_receive_bytes_total": lambda card: {"all": float(int(card.link_bytes))},
    "link_transmit_bytes_total": lambda card: {"all": float(int(card.link_bytes))},
    "link_crc_errors_total": lambda card: {"all": float(card.link_errors)},
    "link_replay_errors_total": lambda card: {"all": float(card.link_errors)},
    "link_recovery_errors_total": lambda card: {"all": float(card.link_errors > 0)},
    "link_receive_errors_total": lambda card: {"all": float(card.link_errors)},
    "link_transmit_errors_total": lambda card: {"all": float(card.link_errors)},
    "ecc_enabled": lambda _: 1.0,
    "ecc_corrected_total": lambda card: _counts_by_label(card.demo.ecc_locations, card.corrected_errors),
    "ecc_uncorrected_total": lambda card: _counts_by_label(card.demo.ecc_locations, card.uncorrected_errors),
    "ecc_deferred_total": lambda card: _counts_by_label(card.demo.ecc_locations, 0),
    "ecc_corrected_lifetime_total": lambda card: _counts_by_label(
        card.demo.ecc_locations, card.errors_before_reset[0] + card.corrected_errors
    ),
    "ecc_uncorrected_lifetime_total": lambda card: _counts_by_label(
        card.demo.ecc_locations, card.errors_before_reset[1] + card.uncorrected_errors
    ),
    "retired_pages": lambda card: {"single_bit_ecc": 0.0, "double_bit_ecc": float(card.uncorrected_errors)},
    "retired_pages_pending": lambda card: float(card.uncorrected_errors > 0),
    "remapped_rows": lambda card: {
        "correctable": float(card.corrected_errors // _ERRORS_PER_REMAPPED_ROW),
        "uncorrectable": float(card.uncorrected_errors),
    },
    "row_remap_pending": lambda card: float(card.uncorrected_errors > 0),
    "row_remap_failed": lambda _: 0.0,
    "recovery_action": lambda card: _one_hot(RECOVERY_ACTIONS, "reset" if _needs_reset(card) else "none"),
    "health": lambda card: _one_hot(
        HEALTH_STATES, "alarm" if _needs_reset(card) else "warning" if card.is_hot else "ok"
    ),
    "compute_units": lambda card: float(card.model.compute_units),
    "processes": lambda card: float(process_count(card)),
}
