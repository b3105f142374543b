"""All thresholds of alerts and conditions, with their meaning and origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from types import MappingProxyType

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import POWER_LIMIT_REASONS, VAGUE_REASONS


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number, duration or regular expression that rules refer to as `$name`."""

    value: float | str | timedelta
    meaning: str
    origin: str = "our choice"

    @property
    def promql(self) -> str:
        """Return the value as a PromQL expression."""
        return f"{self.value // _MINUTE}m" if isinstance(self.value, timedelta) else str(self.value)


_MINUTE = timedelta(minutes=1)

THRESHOLDS: Mapping[str, Threshold] = {
    "skew_seconds": Threshold(60, "clock difference between a node and Prometheus, in seconds"),
    "slow_seconds": Threshold(5, "longest normal duration of a poll, in seconds", "nvidia_gpu_exporter: driver hangs"),
    "up_share": Threshold(0.5, "share of ten minutes in which a node or source must answer"),
    "restarts": Threshold(3, "daemon starts per hour"),
    "event_window": Threshold(timedelta(hours=1), "how long the alert for an Xid fires, unless a repair is needed"),
    "xid_critical": Threshold(
        "xid_(48|62|64|74|79|95|119|120)", "Xid codes that end jobs", "nvidia_gpu_exporter, Azure NHC, Crusoe"
    ),
    "xid_application": Threshold("xid_(13|31|43|45)", "Xid codes caused by applications, or by killing them", "NVIDIA"),
    "application_window": Threshold(timedelta(minutes=30), "how long the Xid of an application is shown"),
    "own_alert": Threshold(
        "gpu_lost|link_down", "event codes that have their own alert", "AcceleratorLost, AcceleratorLinkDown"
    ),
    "ecc_corrected": Threshold(20_000_000, "corrected errors since the driver was loaded", "Azure NHC, for DRAM"),
    "ecc_corrected_sram": Threshold(10_000, "corrected errors in SRAM since the driver was loaded", "Azure NHC"),
    "retired_pages": Threshold(10, "memory pages out of use", "Meta GCM"),
    "remapped_rows": Threshold(512, "memory rows replaced by spare ones", "DCGM hardware limits"),
    "limit_margin_celsius": Threshold(
        5, "degrees below the device's own limit at which a device counts as hot", "nvidia_gpu_exporter"
    ),
    "inner_sensors": Threshold("junction|hotspot", "sensors that are hotter than the others by design", "AMD, NVIDIA"),
    "hot_celsius": Threshold(85, "temperature at which a device without its own limit counts as hot", "VESSL, gpud"),
    "hot_junction_celsius": Threshold(
        95, "`hot_celsius` for the sensors junction and hotspot", "`hot_celsius` + 10, as in AMD's limits"
    ),
    "critical_celsius": Threshold(95, "critical temperature of a device that does not report one", "VESSL"),
    "critical_junction_celsius": Threshold(
        105, "`critical_celsius` for the sensors junction and hotspot", "`critical_celsius` + 10, as in AMD's limits"
    ),
    "outlier_celsius": Threshold(15, "degrees above the mean temperature of the node's cards of the same model"),
    "busier_ratio": Threshold(0.1, "utilization above the mean that explains a higher temperature"),
    "busier_power": Threshold(
        1.2, "if a card's power exceeds the mean by this factor, the power explains a higher temperature"
    ),
    "fan_stopped_celsius": Threshold(70, "temperature above which a fan should turn"),
    "heat_reasons": Threshold(
        ".*thermal.*|.*over_temperature|prochot",
        "throttling reasons that indicate heat",
        "NVIDIA: `sw_thermal`; AMD: `socket_thermal` and `prochot` (processor hot); MetaX: `chip_over_temperature`",
    ),
    "brake_reasons": Threshold(".*power_brake.*", "throttling reasons that indicate the power brake", "NVIDIA"),
    "cap_reasons": Threshold(
        POWER_LIMIT_REASONS, "throttling reasons that indicate the power limit", "NVIDIA, AMD, MetaX"
    ),
    "vague_reasons": Threshold(
        VAGUE_REASONS, "throttling reasons that do not tell heat from power limits", "NVIDIA; AMD; MetaX"
    ),
    "at_cap_ratio": Threshold(0.98, "share of the power limit at which a card counts as power-limited"),
    "throttled_share": Threshold(0.6, "share of ten minutes with throttling by heat or the power brake", "gpud"),
    "often_throttled_share": Threshold(0.05, "share of an hour with throttling by heat, in three successive hours"),
    "flaps": Threshold(6, "state changes of a card or link per hour (6 are three losses)", "gpud, for links"),
    "long_flaps": Threshold(3, "`flaps` for cards below `flapping_up_share` (3 are two losses)"),
    "flapping_up_share": Threshold(0.9, "share of the hour with the card present; below it, `long_flaps` applies"),
    "link_crc_per_second": Threshold(100, "checksum errors per second", "DCGM hardware limits"),
    "pcie_replays_per_minute": Threshold(8, "PCIe packets resent per minute", "widely used; its origin is unknown"),
    "busy_ratio": Threshold(0.5, "utilization at which a link must run at full speed"),
    "idle_ratio": Threshold(0.02, "utilization below which a device counts as idle", "Meta, jobstats"),
    "held_ratio": Threshold(0.5, "share of the memory in use while the device is idle"),
    "foreign_bytes": Threshold(
        268_435_456, "bytes that other owners' processes use on a card", "our choice: a CUDA context uses more"
    ),
    "unowned_ratio": Threshold(0.05, "share of an unallocated card's memory in use", "our choice: drivers use less"),
    "straggler_ratio": Threshold(0.2, "gap between a card's utilization and the median of its node's cards"),
    "alike_ratio": Threshold(0.05, "median deviation of the utilization of cards that do the same work"),
    "same_work_memory": Threshold(
        0.03,
        "deviation of memory use from the median of cards that do the same work",
        "our choice, for the ranks of a job",
    ),
    "node_less_share": Threshold(
        0.25, "gap between a node's utilization and the median of the job's nodes, as a share of the median"
    ),
    "job_nodes": Threshold(3, "nodes that a job needs for a meaningful median", "of two nodes, neither is an outlier"),
    "hot_share": Threshold(0.75, "share of a node's cards that are hot if the node's cooling fails"),
    "hung_seconds": Threshold(3000, "seconds for which a job's card is idle while its memory is in use"),
    "slower_ratio": Threshold(0.5, "a job's step rate as a share of its highest rate within an hour"),
    "straggler_peers": Threshold(4, "devices of a model that are needed for a meaningful median"),
    "hung_busy_ratio": Threshold(0.99, "minimum utilization while a kernel hangs", "hung jobs on V100, H100 and GB200"),
    "rest_share": Threshold(
        0.2,
        "power of a hung card, from 0 (the model's idle power) to 1 (the model's highest power)",
        "hung jobs: V100 47 of 250 W, H100 100 to 152 of 700 W, GB200 280 of 1,200 W, MI250X 130 of 560 W",
    ),
    "rest_share_alone": Threshold(
        0.05, "`rest_share` for cards that report no memory activity", "an H200 that decodes draws 137 to 300 of 700 W"
    ),
    "quiet_ratio": Threshold(0.05, "highest activity or bandwidth of idle memory", "our choice; a hung V100 job has 0"),
    "empty_ratio": Threshold(0.02, "share of memory in use below which the memory counts as empty"),
    "power_follows": Threshold(
        2, "a model's highest power as a multiple of its idle power", "our choice: some tools report constant power"
    ),
    "same_load_ratio": Threshold(0.9, "utilization that cards need for a comparison of their speeds"),
    "busy_minutes": Threshold(15, "minutes of the last thirty in which cards must be busy for a comparison"),
    "slower_share": Threshold(
        0.85, "clock and power of a slow card, as a share of the median", "our choice: cards differ by up to 8 %"
    ),
    "lower_cap_share": Threshold(0.95, "power limit that explains a slow card, as a share of the peers' median"),
    "same_power_share": Threshold(0.1, "median deviation of the peers' power, as a share of their median"),
    "same_memory_ratio": Threshold(0.1, "deviation of memory use from the peers' median"),
    "slow_node_peers": Threshold(4, "minimum number of nodes with busy cards of a model, for a meaningful median"),
}


def values_in_promql() -> dict[str, str]:
    """Map the name of each threshold to its value as a PromQL expression."""
    return {name: entry.promql for name, entry in THRESHOLDS.items()}


# The numbers that `overridden` uses in place of values of THRESHOLDS.
_OVERRIDES: ContextVar[Mapping[str, float]] = ContextVar("changed thresholds", default=MappingProxyType({}))


@contextmanager
def overridden(numbers: Mapping[str, float]) -> Iterator[None]:
    """Replace thresholds with these numbers within the `with` block."""
    token = _OVERRIDES.set(numbers)
    try:
        yield
    finally:
        _OVERRIDES.reset(token)


def threshold(name: str) -> float:
    """Return the numeric threshold with this name. Raise TypeError if the threshold is not a number."""
    value = _OVERRIDES.get().get(name, THRESHOLDS[name].value)
    if isinstance(value, str | timedelta):
        raise TypeError(f"{name} is not a number")
    return value


def seconds(name: str) -> float:
    """Return the duration with this name in seconds. Raise TypeError if the threshold is not a duration."""
    value = THRESHOLDS[name].value
    if not isinstance(value, timedelta):
        raise TypeError(f"{name} is not a duration")
    return value.total_seconds()


def pattern(name: str) -> str:
    """Return the regular expression with this name. Raise TypeError if it is not a regular expression."""
    value = THRESHOLDS[name].value
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a regular expression")
    return value
