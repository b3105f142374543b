"""Recording rules: the temperature, true averages, sums of nodes and models, and how far a card is from its peers."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from telemetry_exporters.judgement.thresholds import in_promql
from telemetry_grafana.promql import DEVICE_LABELS, TARGET_LABELS, beginning_with
from telemetry_grafana.rules.alert import EVERY, MAINTENANCE_END
from telemetry_grafana.rules.record import Recording, RecordingGroup, device, for_ten_minutes
from telemetry_grafana.rules.recording_full_load import FULL_LOAD, POWER_RANGE
from telemetry_grafana.rules.recording_work import WORK
from telemetry_parsers.metrics import OTHER_SENSORS, OWNER_LABELS

# The rule of the terminal and the page: every sensor but memory, HBM and board.
_CORE_SENSORS = f'sensor!~"{beginning_with(OTHER_SENSORS)}"'
_PEERS = "cluster, job, vendor, model"


def _limit(name: str) -> str:
    return f"accelerator_temperature_{name}_celsius{{{_CORE_SENSORS}}}"


# Each sensor has limits of its own: an edge slows its card down at 100, a junction at 110.
_LIMITS = f"({_limit('slowdown')} or {_limit('critical')} or {_limit('shutdown')})"


_DEVICES = (
    device(
        "accelerator:temperature_celsius",
        f"max without (sensor) (accelerator_temperature_celsius{{{_CORE_SENSORS}}})",
        "The temperature of a device: its hottest sensor other than memory and board.",
    ),
    device(
        "accelerator:temperature_limit_celsius",
        f"max without (sensor) {_LIMITS}",
        "The temperature at which the device itself does something about it, of the sensor that may be hottest.",
    ),
    device(
        "accelerator:temperature_margin_celsius",
        "accelerator_temperature_margin_celsius or min without (sensor)"
        f" ({_LIMITS} - accelerator_temperature_celsius{{{_CORE_SENSORS}}})",
        "Degrees left before the device itself does something about it, by each sensor's own limit.",
    ),
    device(
        "accelerator:utilization_ratio:rate5m",
        "clamp_max(rate(accelerator_busy_seconds_total[5m]), 1)",
        "True average utilization over five minutes, from the seconds that the daemon integrates.",
    ),
    Recording(
        "accelerator:allocation_utilization_ratio:rate5m",
        '(max without (basis) (accelerator_allocation_ratio{job_id!="",basis="whole"}) > bool 0)'
        " * on (cluster, job, instance, id) group_left () accelerator:utilization_ratio:rate5m",
        DEVICE_LABELS | frozenset(OWNER_LABELS["accelerator_allocation_seconds_total"]),
        "The same of the whole cards of each job, with the job's labels.",
    ),
    device(
        "accelerator:power_watts:rate5m",
        "rate(accelerator_energy_estimated_joules_total[5m])",
        "True average power over five minutes, from the energy that the daemon integrates.",
    ),
    device(
        "accelerator:clock_hertz:avg5m",
        'max without (domain) (avg_over_time(accelerator_clock_hertz{domain=~"graphics|sm"}[5m]))',
        "Average clock of what computes, over five minutes.",
    ),
)


def _both(metric: str, other: str) -> str:
    """The metric of those devices that also have the other one."""
    return f"{metric} and on (cluster, job, instance, id) {other}"


def _share(used: str, limit: str, of: str = "") -> str:
    return f"sum by ({{over}}) ({_both(used, limit)}{of}) / sum by ({{over}}) ({_both(limit, used)}{of})"


_WHOLE = ' unless on (cluster, job, instance, id) accelerator_info{{parent!=""}}'
_WORK_OF_DEVICES = "accelerator:utilization_ratio:rate5m"
# A partition counts where its card tells nothing of its own; else a card of eight partitions would count nine times.
_ONCE = (
    ' unless on (cluster, job, instance, id) (accelerator_info{{{{parent!=""}}}} and on (cluster, job, instance, parent)'
    ' label_replace({0}, "parent", "$1", "id", "(.*)"))'
)
# What is summed up: its name, how, and what that means.
_SUMMED: Mapping[str, tuple[str, str]] = {
    "accelerator_power_watts:sum": (
        "sum by ({over}) (accelerator_power_watts)",
        "Power drawn; partitions have none of their own, so nothing counts twice.",
    ),
    "accelerator_power_cap_used_ratio:avg": (
        _share("accelerator_power_watts", "(accelerator_power_cap_watts > 0)"),
        "Power drawn as a share of the limits, of the devices that have both.",
    ),
    "accelerator_memory_used_ratio:avg": (
        _share("accelerator_memory_used_bytes", "accelerator_memory_total_bytes", _WHOLE),
        "Device memory in use as a share of all; a card's partitions share its memory and are left out.",
    ),
    "accelerator_utilization_ratio:avg": (
        f"avg by ({{over}}) ({_WORK_OF_DEVICES}{_ONCE.format(_WORK_OF_DEVICES)})",
        "Average utilization over five minutes; a partition counts if its card has none.",
    ),
}
_POWER, _POWER_SHARE, _MEMORY, _WORK = _SUMMED


def _sums(scope: str, over: str, *names: str) -> tuple[Recording, ...]:
    """These sums over the devices that have the same labels `over`."""
    labels = frozenset(over.split(", "))
    return tuple(
        Recording(f"{scope}:{name}", form.format(over=over), labels, meaning)
        for name, (form, meaning) in ((name, _SUMMED[name]) for name in names)
    )


# What is compared between peers: the short name, the series, and the least spread that is reckoned with: among peers that
# are closer together, a small deviation must not look large.
_COMPARED: Mapping[str, tuple[str, str]] = {
    "utilization_ratio": ("accelerator:utilization_ratio:rate5m", "0.02"),
    "temperature_celsius": ("accelerator:temperature_celsius", "2"),
    "power_watts": ("accelerator:power_watts:rate5m", "10"),
    "clock_hertz": ("accelerator:clock_hertz:avg5m", "3e7"),
}
_FEWEST_PEERS = 3
# The median of the absolute deviations times this is the standard deviation of what is normally distributed. A standard
# deviation itself grows with the outlier that is looked for: among eight cards none could ever be three of them away.
_SPREAD_OF_MEDIAN = 1.4826


def _straggler(name: str, series: str, least_spread: str) -> tuple[Recording, ...]:
    deviation = f"accelerator:{name}:deviation"
    spread = f"{_SPREAD_OF_MEDIAN} * quantile by ({_PEERS}) (0.5, abs({deviation}))"
    return (
        device(
            deviation,
            f"({series}) - on ({_PEERS}) group_left () quantile by ({_PEERS}) (0.5, {series})",
            "How far the device is from the median of the devices of its model.",
        ),
        device(
            f"accelerator:{name}:zscore",
            f"{deviation} / on ({_PEERS}) group_left () clamp_min({spread}, {least_spread})"
            f" and on ({_PEERS}) count by ({_PEERS}) ({deviation}) >= {_FEWEST_PEERS}",
            "The same in robust standard deviations of the peers; none where there are fewer than three.",
        ),
    )


_NODE = "cluster, job, instance"


def _of_thresholds(expression: str) -> str:
    return Template(expression).substitute(in_promql())


_ENDS_IN = "telemetry_maintenance_ends_in_seconds"
_MAINTENANCE = Recording(
    MAINTENANCE_END,
    # The page's last words, also where its node went down between two evaluations.
    f"max by (cluster, job, instance) (last_over_time((timestamp({_ENDS_IN}) + {_ENDS_IN})[5m:15s])"
    # What is not counted down is no daemon's any more, such as a textfile that one left behind.
    f" unless ({_ENDS_IN} == {_ENDS_IN} offset 5m))"
    # A node that is off, or was installed anew, tells nothing: then what was recorded before goes on, until a day after that end.
    f" or (last_over_time({MAINTENANCE_END}[6h]) > time() - 86400)",
    TARGET_LABELS,
    "When the maintenance that a node announced ends or ended, by the clock of Prometheus; also while the node is off.",
)


# What alerts look back at for hours, made once a minute: looking back at every scrape took seconds.
_MEMORIES = RecordingGroup(
    "telemetry-memories",
    (
        device(
            "accelerator:core_readings:group",
            "group by (cluster, job, instance, vendor, device, id, model) (accelerator_memory_total_bytes"
            " or accelerator_power_watts or accelerator_utilization_ratio or accelerator:temperature_celsius)",
            "1 for each device that reports its memory, power, utilization or temperature.",
        ),
        device(
            "accelerator:link_up:sum",
            "sum without (link) (accelerator_link_up)",
            "How many of a device's links are up.",
        ),
        device(
            "accelerator:up:flapping",
            _of_thresholds(
                "changes(accelerator_up[1h]) >= $long_flaps and changes(accelerator_up[30m]) > 0 unless"
                " (changes(accelerator_up[1h]) < $flaps and avg_over_time(accelerator_up[1h]) >= $flapping_up_share)"
            ),
            "How often within an hour a device was lost or came back, of those that do so again and again.",
        ),
        Recording(
            "accelerator:link_up:flapping",
            _of_thresholds("changes(accelerator_link_up[1h]) >= $flaps"),
            DEVICE_LABELS | {"link"},
            "How often within an hour a link went down or up, of those that do so again and again.",
        ),
        Recording(
            "instance:accelerators:known",
            f"count by ({_NODE}, vendor) (group by ({_NODE}, vendor, id) (accelerator_up{_WHOLE.format()}))",
            frozenset(f"{_NODE}, vendor".split(", ")),
            "How many of a vendor's whole devices a node tells of, lost ones included.",
        ),
        _MAINTENANCE,
    ),
    every=EVERY,
)
_SEEN = "[10m]"
_LONG_AGO = "[7d]"
_REMEMBERS_SINCE = f"max by ({_NODE}) (telemetry_remembers_since_timestamp_seconds)"
_BEFORE = "instance:accelerators:before"
_STEADY = f"last_over_time(instance:accelerators:steady{_LONG_AGO})"
# Whoever loses the memory again, while there are fewer, still had what there was at first.
_STILL_FEWER = f"last_over_time({_BEFORE}[1h])"
_LAST_BEFORE = f"last_over_time({_BEFORE}{_LONG_AGO})"


def _once(name: str, now: str, over: str, while_there: str, meaning: str) -> Recording:
    """1 from the first moment on that the series are there, for as long as others are."""
    return Recording(
        name,
        f"group by ({over}) ({now}) or group by ({over}) (last_over_time({name}{_LONG_AGO}))"
        f" and on ({over}) group by ({over}) ({while_there})",
        frozenset(over.split(", ")),
        meaning,
    )


def _most(name: str, now: str, labels: frozenset[str], meaning: str) -> Recording:
    """The highest value that a series ever had; one that is gone for a week begins anew."""
    return Recording(name, f"last_over_time({name}{_LONG_AGO}) > ({now}) or {now}", labels, meaning)


# What is remembered for as long as it matters: each rule asks for its own last value, which may be a week old.
_PAST = RecordingGroup(
    "telemetry-past",
    (
        _once(
            "accelerator:core_readings:once",
            f"max_over_time(accelerator:core_readings:group{_SEEN})",
            f"{_NODE}, id",
            "accelerator_up",
            "1 for each device that is there and once had core readings.",
        ),
        _once(
            "instance:telemetry:once",
            f"last_over_time(telemetry_build_info{_SEEN})",
            _NODE,
            "up",
            "1 for each target that is there and once was one of ours.",
        ),
        # What was so for as long as that, and not for a moment only, which may have been a wrong answer.
        _most(
            "accelerator:link_up:most",
            # By its id: it may get another number, and another name from another driver.
            f"max by ({_NODE}, id) ({for_ten_minutes('min_over_time', 'accelerator:link_up:sum')})",
            frozenset(f"{_NODE}, id".split(", ")),
            "How many of a device's links were up at most, for ten minutes.",
        ),
        _most(
            "model:accelerator_fan_ratio:most",
            f"max by ({_PEERS}) ({for_ten_minutes('min_over_time', 'accelerator_fan_ratio')})",
            frozenset(_PEERS.split(", ")),
            "How fast a fan of the model turned at most, for ten minutes.",
        ),
        *POWER_RANGE,
        # First of these three, so that it finds what the others recorded ten minutes ago.
        Recording(
            _BEFORE,
            # What there was when the memory became another one; then itself for as long as there are fewer, and 0 once there are not.
            f"({_STEADY} > {_STILL_FEWER} or {_STILL_FEWER} or {_STEADY}) and on ({_NODE})"
            f" ({_REMEMBERS_SINCE} != last_over_time(instance:telemetry_remembers_since_timestamp_seconds:max{_LONG_AGO}))"
            f" or {_LAST_BEFORE} * ({_LAST_BEFORE} > bool (instance:accelerators:known or 0 * {_LAST_BEFORE}))"
            f" and on ({_NODE}) (changes(instance:telemetry_remembers_since_timestamp_seconds:max{_LONG_AGO}) > 0)",
            frozenset(f"{_NODE}, vendor".split(", ")),
            "How many of a vendor's whole devices a node told of before its daemon lost its memory; 0 once it tells of as many again.",
        ),
        Recording(
            "instance:accelerators:steady",
            # Not the most nor the fewest: while a driver starts there are fewer, and for a moment there may be more.
            "floor(quantile_over_time(0.5, instance:accelerators:known[1h])) and instance:accelerators:known",
            frozenset(f"{_NODE}, vendor".split(", ")),
            "How many of a vendor's whole devices a node has told of for most of an hour.",
        ),
        Recording(
            "instance:telemetry_remembers_since_timestamp_seconds:max",
            _REMEMBERS_SINCE,
            frozenset(_NODE.split(", ")),
            "Which memory the daemon has: another number, another memory.",
        ),
        Recording(
            "instance:telemetry:pushed",
            f'group by (cluster, job, instance) (last_over_time(telemetry_build_info{{pushed="yes"}}{_SEEN}))',
            frozenset({"cluster", "job", "instance"}),
            "1 for each node that sends its own metrics.",
        ),
        Recording(
            "fleet:telemetry:seen",
            f"group by (cluster) (last_over_time(telemetry_build_info{_SEEN}))",
            frozenset({"cluster"}),
            "1 for each cluster with a node that answers.",
        ),
    ),
    every="10m",
)

GROUPS = (
    RecordingGroup("telemetry-devices", _DEVICES),
    _MEMORIES,
    _PAST,
    FULL_LOAD,
    WORK,
    RecordingGroup(
        "telemetry-sums",
        (
            *_sums("instance", "cluster, job, instance, vendor", _POWER, _POWER_SHARE, _WORK),
            *_sums("model", "cluster, job, vendor, model", _POWER, _MEMORY, _WORK),
            *_sums("fleet", "cluster, job", _POWER_SHARE, _MEMORY, _WORK),
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
