"""Recording rules for averages, sums and comparisons."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_grafana.promql import CARD, DEVICE, MODEL, MODEL_IN_NODE, NODE, PARTITIONS, prefix_pattern
from telemetry_grafana.rules.recording_past import HIGHEST_POWER, IDLE_POWER, MEMORIES, PAST
from telemetry_grafana.rules.recording_tokens import TOKEN_ENERGY
from telemetry_grafana.rules.rule import INTERVAL, Recording, RecordingGroup, with_thresholds
from telemetry_parsers.metrics import OTHER_SENSORS, OWNER_LABELS

# `telemetry top` and the daemon's web page use the same sensors.
_CORE_SENSORS = f'sensor!~"{prefix_pattern(OTHER_SENSORS)}"'
_UTILIZATION = "accelerator:utilization_ratio:rate5m"
OWNED_UTILIZATION = "accelerator:owned_utilization_ratio:rate5m"


def _sensor_limits(name: str) -> str:
    return f"accelerator_temperature_{name}_celsius{{{_CORE_SENSORS}}}"


# Each sensor has its own limits, such as 100 °C at the edge and 110 °C at the junction.
_SENSOR_LIMITS = f"({_sensor_limits('slowdown')} or {_sensor_limits('critical')} or {_sensor_limits('shutdown')})"

_DEVICE_RULES = (
    Recording(
        "accelerator:temperature_celsius",
        f"max without (sensor) (accelerator_temperature_celsius{{{_CORE_SENSORS}}})",
        "The temperature of a device's hottest sensor. Memory and board sensors are excluded.",
    ),
    Recording(
        "accelerator:temperature_limit_celsius",
        f"max without (sensor) {_SENSOR_LIMITS}",
        "The highest temperature limit of the device's sensors.",
    ),
    Recording(
        "accelerator:temperature_margin_celsius",
        "accelerator_temperature_margin_celsius or min without (sensor)"
        f" ({_SENSOR_LIMITS} - accelerator_temperature_celsius{{{_CORE_SENSORS}}})",
        "The smallest margin between a sensor's temperature and its limit.",
    ),
    Recording(
        _UTILIZATION,
        "clamp_max(rate(accelerator_busy_seconds_total[5m]), 1)",
        "Average utilization over five minutes, from the busy seconds that the daemon counts.",
    ),
    Recording(
        "accelerator:allocation_utilization_ratio:rate5m",
        '(max without (basis) (accelerator_allocation_ratio{job_id!="",basis="whole"}) > bool 0)'
        " * on (cluster, job, instance, id) group_left () accelerator:utilization_ratio:rate5m",
        "Average utilization over five minutes, with the job's labels. Only for cards that are entirely allocated to one job.",
        ", ".join((DEVICE, *OWNER_LABELS["accelerator_allocation_seconds_total"])),
    ),
    Recording(
        OWNED_UTILIZATION,
        f'group by ({DEVICE}, owner_kind, owner) (accelerator_allocation_ratio{{basis="whole"}})'
        f" * on ({CARD}) group_left () max by ({CARD}) ({_UTILIZATION}) or {_UTILIZATION} unless on ({CARD}) accelerator_allocation_ratio",
        "Average utilization over five minutes, by owner. Only for cards with a single owner or without an owner.",
        f"{DEVICE}, owner_kind, owner",
    ),
    Recording(
        "accelerator:power_watts:rate5m",
        "rate(accelerator_energy_estimated_joules_total[5m])",
        "Average power over five minutes, from the energy that the daemon estimates.",
    ),
    Recording(
        "accelerator:clock_hertz:avg5m",
        'max without (domain) (avg_over_time(accelerator_clock_hertz{domain=~"graphics|sm"}[5m]))',
        "Average compute clock over five minutes.",
    ),
)

_JOIN_ON_CARD = f"on ({CARD}) group_left ()"
# NVIDIA reports the compute clock as `sm` and as `graphics`. Other vendors use only one of these names.
_COMPUTE_CLOCK = 'max without (domain) (accelerator_clock_hertz{domain=~"graphics|sm"})'
# The 16-bit matrix pipe is used if a tool reports its activity, otherwise all matrix units.
_MATRIX = 'max without (pipe) (accelerator_pipe_active_ratio{pipe="tensor_hmma"}) or accelerator_tensor_active_ratio'
_PER_DTYPE = f"{DEVICE}, dtype"
CEILING = "accelerator:flops_ceiling:estimate"
FLOPS = "accelerator:flops:estimate"
PEAK_RATIO = "accelerator:peak_flops_ratio:estimate"
LOST_RATIO = "accelerator:lost_to_clocks_ratio:estimate"
TRAFFIC = "accelerator:memory_bytes_per_second:estimate"
INTENSITY = "accelerator:arithmetic_intensity:estimate"
STEP_RATE = "telemetry_steps:rate5m"

_ACHIEVED_WORK = RecordingGroup(
    "telemetry-work",
    (
        Recording(
            CEILING,
            f"accelerator_flops_per_cycle * {_JOIN_ON_CARD} ({_COMPUTE_CLOCK})",
            "FLOP/s that the card can reach at the current clock.",
            _PER_DTYPE,
        ),
        Recording(
            FLOPS,
            f"{CEILING} * {_JOIN_ON_CARD} ({_MATRIX})",
            "Upper limit of the matrix units' FLOP/s: active cycles times the current clock. Assumes that every lane works in the label's data type.",
            _PER_DTYPE,
        ),
        Recording(
            PEAK_RATIO,
            f"{FLOPS} / on ({CARD}, dtype) group_left () (accelerator_peak_flops > 0)",
            "Estimated FLOP/s as a share of the quoted peak.",
            _PER_DTYPE,
        ),
        Recording(
            LOST_RATIO,
            f"clamp_min(1 - {CEILING} / on ({CARD}, dtype) group_left () (accelerator_peak_flops > 0), 0)"
            f" and on ({CARD}) accelerator_utilization_ratio > 0.05",
            "Share of the quoted peak that a busy card cannot reach at its current clock. 0 at the quoted clock or above.",
            _PER_DTYPE,
        ),
        Recording(
            TRAFFIC,
            f"accelerator_memory_bandwidth_ratio * {_JOIN_ON_CARD} accelerator_peak_memory_bytes_per_second",
            "Memory traffic in bytes per second: the bandwidth ratio times the peak bandwidth.",
        ),
        Recording(
            INTENSITY,
            f"{FLOPS} / {_JOIN_ON_CARD} ({TRAFFIC} > 0)",
            "Operations per byte of memory traffic: the card's position on the roofline.",
            _PER_DTYPE,
        ),
        Recording(
            STEP_RATE,
            "rate(telemetry_steps_total[5m])",
            "Steps per second of each rank, as its job counts them.",
            f"{NODE}, id, job_id, rank",
        ),
    ),
)

# The rate of an energy counter would be too low while the counter is new.
_POWER_READ = "avg_over_time(accelerator_power_watts[5m])"
_MIN_POWER, _MAX_POWER = f"min_over_time({IDLE_POWER}[30d])", f"max_over_time({HIGHEST_POWER}[30d])"
_ABOVE_IDLE = Recording(
    "accelerator:power_above_idle:ratio",
    # A model whose highest power is close to its idle power is excluded: its tool probably reports a constant.
    f"abs({_POWER_READ} - on ({MODEL}) group_left () {_MIN_POWER})"
    f" / on ({MODEL}) group_left () (({_MAX_POWER} > {with_thresholds('$power_follows')} * {_MIN_POWER}) - {_MIN_POWER})",
    "The difference between a device's power and its model's idle power, as a share of the range of the model's power in the last month.",
)

_IS_BUSY = with_thresholds(">= $same_load_ratio")


def _busy_peer_rules(series: str, reading: str) -> tuple[Recording, ...]:
    """Return a rule that compares busy cards with their busy peers, and one for busy nodes."""
    quantity = series.partition("_")[0]
    busy_cards = f"({reading} and on ({CARD}) {_UTILIZATION} {_IS_BUSY})"
    all_busy = f"min by ({MODEL_IN_NODE}) ({_UTILIZATION}) {_IS_BUSY}"
    busy_nodes = f"(avg by ({MODEL_IN_NODE}) ({reading}) and on ({MODEL_IN_NODE}) {all_busy})"
    return (
        Recording(
            f"accelerator:{series}:of_busy_peers",
            f"{busy_cards} / on ({MODEL_IN_NODE}) group_left () quantile by ({MODEL_IN_NODE}) (0.5, {busy_cards})",
            f"A busy device's {quantity}, divided by the median of the node's busy devices of this model.",
        ),
        Recording(
            f"instance:accelerator_{series}:of_busy_peers",
            f"{busy_nodes} / on ({MODEL}) group_left () quantile by ({MODEL}) (0.5, {busy_nodes})",
            f"A busy node's mean {quantity}, divided by the median of all busy nodes with this model.",
            MODEL_IN_NODE,
        ),
    )


_BUSY_PEERS = RecordingGroup(
    "telemetry-busy-peers",
    (
        _ABOVE_IDLE,
        *_busy_peer_rules("clock_hertz", "accelerator:clock_hertz:avg5m"),
        *_busy_peer_rules("power_watts", "accelerator:power_watts:rate5m"),
    ),
    interval=INTERVAL,
)


def _ratio(used: str, limit: str, unless: str = "") -> str:
    """Return an expression for the total use of all cards that report both series, as a share of their total limit."""
    numerator_and_denominator = (f"{used} and on ({CARD}) {limit}{unless}", f"{limit} and on ({CARD}) {used}{unless}")
    return " / ".join(f"sum by (OVER) ({part})" for part in numerator_and_denominator)


# Without this condition, a card with eight partitions would count nine times.
_WITHOUT_COUNTED_PARTITIONS = (
    f"{_UTILIZATION} unless on ({CARD}) ({PARTITIONS} and on ({NODE}, parent)"
    f' label_replace({_UTILIZATION}, "parent", "$1", "id", "(.*)"))'
)
# Maps the name of a sum to (expression, meaning). `OVER` in an expression stands for the labels to sum by.
_SUMS: Mapping[str, tuple[str, str]] = {
    "accelerator_power_watts:sum": (
        "sum by (OVER) (accelerator_power_watts)",
        "Power drawn. Nothing is counted twice, because partitions report no power.",
    ),
    "accelerator_power_cap_used_ratio:avg": (
        _ratio("accelerator_power_watts", "(accelerator_power_cap_watts > 0)"),
        "Power drawn as a share of the power limits. Only devices that report both values are counted.",
    ),
    "accelerator_memory_used_ratio:avg": (
        _ratio("accelerator_memory_used_bytes", "accelerator_memory_total_bytes", f" unless on ({CARD}) {PARTITIONS}"),
        "Used device memory as a share of all device memory. Partitions are excluded, because they share the memory of their card.",
    ),
    "accelerator_utilization_ratio:avg": (
        f"avg by (OVER) ({_WITHOUT_COUNTED_PARTITIONS})",
        "Average utilization over five minutes. A partition counts only if its card reports no utilization.",
    ),
}
_POWER_SUM, _POWER_CAP_USED, _MEMORY_USED, _MEAN_UTILIZATION = _SUMS


def _sum_rules(scope: str, labels: str, *names: str) -> tuple[Recording, ...]:
    return tuple(
        Recording(f"{scope}:{name}", expression.replace("OVER", labels), meaning, labels)
        for name, (expression, meaning) in ((name, _SUMS[name]) for name in names)
    )


# (name, series, minimum spread). Without a minimum spread, small deviations among similar peers would score high.
_COMPARED = (
    ("utilization_ratio", _UTILIZATION, "0.02"),
    ("temperature_celsius", "accelerator:temperature_celsius", "2"),
    ("power_watts", "accelerator:power_watts:rate5m", "10"),
    ("clock_hertz", "accelerator:clock_hertz:avg5m", "3e7"),
)
_MIN_PEERS = 3
# Converts a median absolute deviation to a standard deviation. An ordinary standard deviation grows with
# the outlier, so none of eight cards could ever be three standard deviations away.
_MAD_TO_SIGMA = 1.4826


def _straggler_rules(name: str, series: str, min_spread: str) -> tuple[Recording, ...]:
    deviation = f"accelerator:{name}:deviation"
    spread = f"{_MAD_TO_SIGMA} * quantile by ({MODEL}) (0.5, abs({deviation}))"
    return (
        Recording(
            deviation,
            f"({series}) - on ({MODEL}) group_left () quantile by ({MODEL}) (0.5, {series})",
            "The device's value minus the median of all devices of its model.",
        ),
        Recording(
            f"accelerator:{name}:zscore",
            f"{deviation} / on ({MODEL}) group_left () clamp_min({spread}, {min_spread})"
            f" and on ({MODEL}) count by ({MODEL}) ({deviation}) >= {_MIN_PEERS}",
            "The deviation from the model's median in robust standard deviations. Requires at least three devices of the model.",
        ),
    )


GROUPS = (
    RecordingGroup("telemetry-devices", _DEVICE_RULES),
    MEMORIES,
    PAST,
    _BUSY_PEERS,
    _ACHIEVED_WORK,
    TOKEN_ENERGY,
    RecordingGroup(
        "telemetry-sums",
        (
            *_sum_rules("instance", f"{NODE}, vendor", _POWER_SUM, _POWER_CAP_USED, _MEAN_UTILIZATION),
            *_sum_rules("model", MODEL, _POWER_SUM, _MEMORY_USED, _MEAN_UTILIZATION),
            *_sum_rules("fleet", "cluster, job", _POWER_CAP_USED, _MEMORY_USED, _MEAN_UTILIZATION),
        ),
    ),
    RecordingGroup("telemetry-stragglers", tuple(rule for metric in _COMPARED for rule in _straggler_rules(*metric))),
)


def recorded_labels() -> dict[str, frozenset[str]]:
    """Map each recorded series to its labels."""
    return {rule.name: frozenset(rule.labels.split(", ")) for group in GROUPS for rule in group.rules}
