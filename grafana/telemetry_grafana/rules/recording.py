"""Recording rules: the temperature, true averages, sums of nodes and models, and how far a card is from its peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from telemetry_grafana.promql import DEVICE_LABELS, TARGET_LABELS

# The rule of the terminal and the page: every sensor but memory, HBM and board.
_CORE_SENSORS = 'sensor!~"memory|board|hbm.*"'
_PEERS = "job, vendor, model"


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus keeps ready."""

    name: str
    expression: str
    labels: frozenset[str]
    meaning: str


@dataclass(frozen=True, slots=True)
class RecordingGroup:
    """Rules that are evaluated together, in order."""

    name: str
    rules: tuple[Recording, ...]


def _device(name: str, expression: str, meaning: str) -> Recording:
    return Recording(name, expression, DEVICE_LABELS, meaning)


def _limit(name: str) -> str:
    return f"min without (sensor) (accelerator_temperature_{name}_celsius{{{_CORE_SENSORS}}})"


_DEVICES = (
    _device(
        "accelerator:temperature_celsius",
        f"max without (sensor) (accelerator_temperature_celsius{{{_CORE_SENSORS}}})",
        "The temperature of a device: its hottest sensor other than memory and board.",
    ),
    _device(
        "accelerator:temperature_limit_celsius",
        f"{_limit('slowdown')} or {_limit('critical')} or {_limit('shutdown')}",
        "The lowest temperature at which the device itself will do something about it.",
    ),
    _device(
        "accelerator:utilization_ratio:rate5m",
        "clamp_max(rate(accelerator_busy_seconds_total[5m]), 1)",
        "True average utilization over five minutes, from the seconds that the daemon integrates.",
    ),
    _device(
        "accelerator:power_watts:rate5m",
        "rate(accelerator_energy_estimated_joules_total[5m])",
        "True average power over five minutes, from the energy that the daemon integrates.",
    ),
)


def _whole(metric: str, other: str) -> str:
    """The metric of whole cards that have the other one, too."""
    return f'{metric} and on (job, instance, id) {other} unless on (job, instance, id) accelerator_info{{parent!=""}}'


def _sum(over: str, labels: frozenset[str], scope: str) -> tuple[Recording, ...]:
    return (
        Recording(
            f"{scope}:accelerator_power_watts:sum",
            f"sum by ({over}) (accelerator_power_watts)",
            labels,
            "Power drawn; partitions have none of their own, so nothing counts twice.",
        ),
        Recording(
            f"{scope}:accelerator_power_cap_watts:sum",
            f"sum by ({over}) (accelerator_power_cap_watts and on (job, instance, id) accelerator_power_watts)",
            labels,
            "Power limits of the devices that tell their power.",
        ),
        Recording(
            f"{scope}:accelerator_memory_used_ratio:avg",
            f"sum by ({over}) ({_whole('accelerator_memory_used_bytes', 'accelerator_memory_total_bytes')})"
            f" / sum by ({over}) ({_whole('accelerator_memory_total_bytes', 'accelerator_memory_used_bytes')})",
            labels,
            "Device memory in use as a share of all; a card's partitions share its memory and are left out.",
        ),
        Recording(
            f"{scope}:accelerator_utilization_ratio:avg",
            f"avg by ({over}) (accelerator:utilization_ratio:rate5m)",
            labels,
            "Average utilization over five minutes.",
        ),
    )


# What is compared between peers: the short name, the series, and the least spread that peers count as having: closer
# together they are alike, and whatever little one is off must not look large.
_COMPARED: Mapping[str, tuple[str, str]] = {
    "utilization_ratio": ("accelerator:utilization_ratio:rate5m", "0.02"),
    "temperature_celsius": ("accelerator:temperature_celsius", "2"),
    "power_watts": ("accelerator:power_watts:rate5m", "10"),
    "clock_hertz": ('max without (domain) (accelerator_clock_hertz{domain=~"graphics|sm"})', "3e7"),
}
_FEWEST_PEERS = 3
# The median of the absolute deviations times this is the standard deviation of what is normally distributed. A standard
# deviation itself grows with the outlier that is looked for: among eight cards none could ever be three of them away.
_SPREAD_OF_MEDIAN = 1.4826


def _straggler(name: str, series: str, least_spread: str) -> tuple[Recording, ...]:
    deviation = f"accelerator:{name}:deviation"
    spread = f"{_SPREAD_OF_MEDIAN} * quantile by ({_PEERS}) (0.5, abs({deviation}))"
    return (
        _device(
            deviation,
            f"({series}) - on ({_PEERS}) group_left () quantile by ({_PEERS}) (0.5, {series})",
            "How far the device is from the median of the devices of its model.",
        ),
        _device(
            f"accelerator:{name}:zscore",
            f"{deviation} / on ({_PEERS}) group_left () clamp_min({spread}, {least_spread})"
            f" and on ({_PEERS}) count by ({_PEERS}) ({deviation}) >= {_FEWEST_PEERS}",
            "The same in robust standard deviations of the peers; none where there are fewer than three.",
        ),
    )


GROUPS = (
    RecordingGroup("telemetry-devices", _DEVICES),
    RecordingGroup(
        "telemetry-sums",
        (
            *_sum("job, instance, vendor", TARGET_LABELS | {"vendor"}, "instance"),
            *_sum("job, vendor, model", frozenset({"job", "vendor", "model"}), "model"),
            *_sum("job", frozenset({"job"}), "fleet"),
        ),
    ),
    RecordingGroup(
        "telemetry-stragglers",
        tuple(rule for name, (series, spread) in _COMPARED.items() for rule in _straggler(name, series, spread)),
    ),
)


def recorded() -> dict[str, frozenset[str]]:
    """The labels of each recorded series."""
    return {rule.name: rule.labels for group in GROUPS for rule in group.rules}
