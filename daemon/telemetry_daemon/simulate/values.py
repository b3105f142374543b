"""The value of each metric as a card's state has it, in catalogue units and with the precision of real tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from telemetry_daemon.simulate.cards import CardState
from telemetry_parsers.demo import Demo
from telemetry_parsers.metrics import HEALTH_STATES, RECOVERY_ACTIONS

# A number, or numbers by label word.
Played = float | dict[str, float]

_MIB = 1 << 20
_MHZ = 1e6
_CLOCK_STEP_MHZ = 15
_DRIVER_MIB = 3
_SENSOR_ABOVE_DIE = MappingProxyType({"edge": -4.0, "core": 0.0, "junction": 3.0})
_ENGINE_SHARES = MappingProxyType({"aicore": 1.0, "vector": 0.55, "copy": 0.3, "aicpu": 0.05, "ctrlcpu": 0.02})
_LEVELS = ("auto", "low", "high", "manual")
_ERRORS_PER_REMAPPED_ROW = 8


def _used(card: CardState) -> float:
    usable = card.model.memory_mib - card.model.memory_reserved_mib
    return float(_MIB * min(_DRIVER_MIB + int(card.memory_share * usable), usable))


def _free(card: CardState) -> float:
    return float(_MIB * (card.model.memory_mib - card.model.memory_reserved_mib)) - _used(card)


def _temperatures(card: CardState) -> Played:
    above = _SENSOR_ABOVE_DIE
    return {
        word: float(round(card.memory if word == "memory" else card.die + above[word])) for word in card.demo.sensors
    }


def _mhz(card: CardState, domain: str) -> tuple[int, int]:
    return card.model.memory_mhz if domain == "memory" else card.model.graphics_mhz


def _clock(card: CardState, domain: str) -> float:
    low, high = _mhz(card, domain)
    if domain == "memory":
        return _MHZ * (high if card.clock_share else low)
    steps = round((high - low) * card.clock_share / _CLOCK_STEP_MHZ)
    return _MHZ * min(low + _CLOCK_STEP_MHZ * steps, high)


def _by_reason(demo: Demo, of_power: float, of_heat: float) -> Played:
    return dict(zip(demo.throttle, (float(of_power), float(of_heat)), strict=True))


def _errors(demo: Demo, count: int) -> Played:
    """All of them at the first location."""
    return {location: float(count if place == 0 else 0) for place, location in enumerate(demo.ecc_locations)}


def _one_of(words: tuple[str, ...], active: str) -> Played:
    return {word: float(word == active) for word in words}


def _links(card: CardState) -> Played:
    return {str(link): float(card.links_down.get(link, 0.0) <= card.now) for link in range(card.model.links)}


def _is_doomed(card: CardState) -> bool:
    return card.now < card.lost_until


VALUES: Mapping[str, Callable[[CardState], Played]] = {
    "temperature_celsius": _temperatures,
    "temperature_margin_celsius": lambda card: float(round(card.model.slowdown_celsius - card.die)),
    "temperature_slowdown_celsius": lambda card: {card.demo.sensors[0]: card.model.slowdown_celsius},
    "power_watts": lambda card: round(card.power, 1),
    "power_instant_watts": lambda card: round(card.power, 1),
    "power_cap_watts": lambda card: card.model.cap_watts,
    "power_cap_default_watts": lambda card: card.model.cap_watts,
    "power_cap_min_watts": lambda card: float(round(0.3 * card.model.cap_watts)),
    "power_cap_max_watts": lambda card: card.model.cap_watts,
    "energy_joules_total": lambda card: round(card.energy_joules, 3),
    "utilization_ratio": lambda card: round(card.load, 2),
    "memory_used_bytes": _used,
    "memory_total_bytes": lambda card: float(_MIB * card.model.memory_mib),
    "memory_free_bytes": _free,
    "memory_reserved_bytes": lambda card: float(_MIB * card.model.memory_reserved_mib),
    "memory_activity_ratio": lambda card: round(0.6 * card.load, 2),
    "memory_bandwidth_ratio": lambda card: round(0.45 * card.load, 2),
    "sm_active_ratio": lambda card: round(0.92 * card.load, 2),
    "sm_occupancy_ratio": lambda card: round(0.41 * card.load, 2),
    "tensor_active_ratio": lambda card: round(0.55 * card.load, 2),
    "engine_utilization_ratio": lambda card: {
        engine: round(_ENGINE_SHARES.get(engine, 0.0) * card.load, 2) for engine in card.demo.engines
    },
    "clock_hertz": lambda card: {domain: _clock(card, domain) for domain in card.demo.domains},
    "clock_max_hertz": lambda card: {domain: _MHZ * _mhz(card, domain)[1] for domain in card.demo.domains},
    "throttled": lambda card: _by_reason(card.demo, card.capped, card.hot),
    "throttled_seconds_total": lambda card: _by_reason(card.demo, card.capped_seconds, card.hot_seconds),
    "performance_state": lambda card: 0.0 if card.clock_share else 8.0,
    "performance_level": lambda _: _one_of(_LEVELS, "auto"),
    "fan_ratio": lambda card: round(min(max((card.die - 20.0) / 70.0, 0.2), 1.0), 2),
    "pcie_link_generation": lambda card: float(card.model.pcie_generation),
    "pcie_link_generation_max": lambda card: float(card.model.pcie_generation),
    "pcie_link_width": lambda _: 16.0,
    "pcie_link_width_max": lambda _: 16.0,
    "pcie_replays_total": lambda card: float(card.replays),
    "pcie_receive_bytes_total": lambda card: float(int(card.pcie_bytes)),
    "pcie_transmit_bytes_total": lambda card: float(int(0.8 * card.pcie_bytes)),
    "link_up": _links,
    "link_receive_bytes_total": lambda card: {"all": float(int(card.link_bytes))},
    "link_transmit_bytes_total": lambda card: {"all": float(int(card.link_bytes))},
    "ecc_enabled": lambda _: 1.0,
    "ecc_corrected_total": lambda card: _errors(card.demo, card.corrected),
    "ecc_uncorrected_total": lambda card: _errors(card.demo, card.uncorrected),
    "retired_pages": lambda card: {"single_bit_ecc": 0.0, "double_bit_ecc": float(card.uncorrected)},
    "retired_pages_pending": lambda card: float(card.uncorrected > 0),
    "remapped_rows": lambda card: {
        "correctable": float(card.corrected // _ERRORS_PER_REMAPPED_ROW),
        "uncorrectable": float(card.uncorrected),
    },
    "row_remap_pending": lambda card: float(card.uncorrected > 0),
    "row_remap_failed": lambda _: 0.0,
    "recovery_action": lambda card: _one_of(RECOVERY_ACTIONS, "reset" if _is_doomed(card) else "none"),
    "health": lambda card: _one_of(HEALTH_STATES, "alarm" if _is_doomed(card) else "warning" if card.hot else "ok"),
    "compute_units": lambda card: float(card.model.compute_units),
    "processes": lambda card: float(card.job is not None),
}
