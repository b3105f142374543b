"""Recording rules for alerts that depend on hours or days in the past."""

from __future__ import annotations

from telemetry_grafana.promql import CARD, DEVICE, MODEL, NODE, PARTITIONS
from telemetry_grafana.rules.rule import INTERVAL, MAINTENANCE_END, Recording, RecordingGroup, with_thresholds
from telemetry_parsers.metrics import OWNER_LABELS

_MAINTENANCE_LEFT = "telemetry_maintenance_ends_in_seconds"
_MAINTENANCE = Recording(
    MAINTENANCE_END,
    # The last exposed value is used even if the node went down between two evaluations.
    f"max by ({NODE}) (last_over_time((timestamp({_MAINTENANCE_LEFT}) + {_MAINTENANCE_LEFT})[5m:15s])"
    # The remaining seconds should count down. A constant value is ignored: it may come from an old textfile.
    f" unless ({_MAINTENANCE_LEFT} == {_MAINTENANCE_LEFT} offset 5m))"
    # A node that is off exposes nothing, so the recorded end of its maintenance is kept for one more day.
    f" or (last_over_time({MAINTENANCE_END}[6h]) > time() - 86400)",
    "The end of a node's maintenance by Prometheus' clock. The series continues even if the node is off.",
    NODE,
)

THROTTLED_BY_HEAT = "accelerator:throttled_by_heat:avg5m"
CLOCK_LOST_TO_HEAT = "accelerator:clock_lost_to_heat_ratio:avg5m"
_HEAT_THROTTLING = with_thresholds('accelerator_throttled{reason=~"$heat_reasons"}')
_HIGHEST_CLOCK = "max_over_time(accelerator:clock_hertz:avg5m[3h])"
_HEAT_RULES = (
    Recording(
        THROTTLED_BY_HEAT,
        f"max without (reason) (avg_over_time({_HEAT_THROTTLING}[5m]))",
        "Share of the last five minutes in which heat throttled the clocks.",
    ),
    Recording(
        CLOCK_LOST_TO_HEAT,
        # Only throttled cards are considered, because the clock of an idle card has no meaning.
        f"clamp_min(1 - accelerator:clock_hertz:avg5m / {_HIGHEST_CLOCK}, 0) and on ({CARD}) {THROTTLED_BY_HEAT} > 0"
        f" or 0 * {THROTTLED_BY_HEAT}",
        "How far heat throttling reduced the clock, as a share of the highest clock within three hours. 0 without heat throttling or without a reported clock.",
    ),
)

IDLE_MEMORY_HELD = "accelerator:job_idle_memory_held:seconds"
_IDLE_MEMORY_HOLDERS = (
    'max without (basis) (accelerator_allocation_ratio{job_id!=""})'
    f" and on ({CARD}) accelerator:utilization_ratio:rate5m < $idle_ratio"
    f" and on ({CARD}) accelerator_memory_used_ratio > $unowned_ratio"
)
_IDLE_MEMORY_RULE = Recording(
    IDLE_MEMORY_HELD,
    with_thresholds(
        f"(last_over_time({IDLE_MEMORY_HELD}[5m]) + 60 or (({_IDLE_MEMORY_HOLDERS}) > bool -1) * 60) and ({_IDLE_MEMORY_HOLDERS})"
    ),
    "How many seconds a job has held a card's memory without computing.",
    ", ".join((DEVICE, *OWNER_LABELS["accelerator_allocation_seconds_total"])),
)

# Alerts read hours of these series, which would take seconds if the series had a sample per scrape.
MEMORIES = RecordingGroup(
    "telemetry-memories",
    (
        Recording(
            "accelerator:core_readings:group",
            "group by (cluster, job, instance, vendor, device, id, model) (accelerator_memory_total_bytes"
            " or accelerator_power_watts or accelerator_utilization_ratio or accelerator:temperature_celsius)",
            "1 for each device that reports its memory, power, utilization or temperature.",
        ),
        Recording(
            "accelerator:link_up:sum",
            "sum without (link) (accelerator_link_up)",
            "The number of the device's links that are up.",
        ),
        Recording(
            "accelerator:up:flapping",
            with_thresholds(
                "changes(accelerator_up[1h]) >= $long_flaps and changes(accelerator_up[30m]) > 0 unless"
                " (changes(accelerator_up[1h]) < $flaps and avg_over_time(accelerator_up[1h]) >= $flapping_up_share)"
            ),
            "How often a flapping device was lost or came back within the last hour.",
        ),
        Recording(
            "accelerator:link_up:flapping",
            with_thresholds("changes(accelerator_link_up[1h]) >= $flaps"),
            "How often a flapping link went down or up within the last hour.",
            f"{DEVICE}, link",
        ),
        Recording(
            "instance:accelerators:known",
            f"count by ({NODE}, vendor) (group by ({NODE}, vendor, id) (accelerator_up unless on ({CARD}) {PARTITIONS}))",
            "The number of a node's whole devices by vendor, including lost devices.",
            f"{NODE}, vendor",
        ),
        _MAINTENANCE,
        *_HEAT_RULES,
        _IDLE_MEMORY_RULE,
    ),
    interval=INTERVAL,
)
_RECENT_RANGE = "[10m]"
_WEEK_RANGE = "[7d]"
_REMEMBERS_SINCE = f"max by ({NODE}) (telemetry_remembers_since_timestamp_seconds)"
_CARDS_BEFORE_LOSS = "instance:accelerators:before"
_STEADY_WITHIN_WEEK = f"last_over_time(instance:accelerators:steady{_WEEK_RANGE})"
# If the state is lost again while devices are missing, the count from before the first loss is kept.
_BEFORE_WITHIN_HOUR = f"last_over_time({_CARDS_BEFORE_LOSS}[1h])"
_BEFORE_WITHIN_WEEK = f"last_over_time({_CARDS_BEFORE_LOSS}{_WEEK_RANGE})"


def _lasting_extreme(function: str, series: str) -> str:
    """Return an expression for a series' minimum or maximum over ten minutes. New series are omitted."""
    return f"{function}({series}[10m]) and count_over_time({series}[5m] offset 5m)"


def _once_rule(name: str, current: str, group_labels: str, presence: str, meaning: str) -> Recording:
    """Return a rule that becomes 1 when `current` has a result, and stays 1 as long as `presence` has a result."""
    return Recording(
        name,
        f"group by ({group_labels}) ({current}) or group by ({group_labels}) (last_over_time({name}{_WEEK_RANGE}))"
        f" and on ({group_labels}) group by ({group_labels}) ({presence})",
        meaning,
        group_labels,
    )


def _maximum_rule(name: str, current: str, labels: str, meaning: str) -> Recording:
    """Return a rule that records the highest value that `current` has had so far."""
    return Recording(name, f"last_over_time({name}{_WEEK_RANGE}) > ({current}) or {current}", meaning, labels)


IDLE_POWER, HIGHEST_POWER = "model:accelerator_power_watts:idle", "model:accelerator_power_watts:highest"
_POWER = "accelerator_power_watts"
# Only values that lasted for ten minutes are recorded, because single values may be wrong.
_POWER_RANGE = (
    Recording(
        IDLE_POWER,
        f"min by ({MODEL}) ({_lasting_extreme('max_over_time', _POWER)} and on ({CARD})"
        + with_thresholds(" max_over_time(accelerator_utilization_ratio[10m]) < $idle_ratio)"),
        "Idle power of the model: an idle device stayed at or below this power for ten minutes.",
        MODEL,
    ),
    Recording(
        HIGHEST_POWER,
        f"max by ({MODEL}) ({_lasting_extreme('min_over_time', _POWER)})",
        "Highest power of the model: a device stayed at or above this power for ten minutes.",
        MODEL,
    ),
)

# Some rules in this group also read their own previous results.
PAST = RecordingGroup(
    "telemetry-past",
    (
        _once_rule(
            "accelerator:core_readings:once",
            f"max_over_time(accelerator:core_readings:group{_RECENT_RANGE})",
            CARD,
            "accelerator_up",
            "1 for each device, present or lost, that has ever reported core readings.",
        ),
        _once_rule(
            "instance:telemetry:once",
            f"last_over_time(telemetry_build_info{_RECENT_RANGE})",
            NODE,
            "up",
            "1 for each target that is or was a telemetry daemon.",
        ),
        _maximum_rule(
            "accelerator:link_up:most",
            # Cards are identified by `id`, because number and name may change with the driver.
            f"max by ({CARD}) ({_lasting_extreme('min_over_time', 'accelerator:link_up:sum')})",
            CARD,
            "The highest number of a device's links that stayed up for ten minutes.",
        ),
        _maximum_rule(
            "model:accelerator_fan_ratio:most",
            f"max by ({MODEL}) ({_lasting_extreme('min_over_time', 'accelerator_fan_ratio')})",
            MODEL,
            "Highest fan speed of the model: a fan ran at this speed or faster for ten minutes.",
        ),
        *_POWER_RANGE,
        # This rule precedes the next two rules, because it must read their previous results.
        Recording(
            _CARDS_BEFORE_LOSS,
            # The count from before the loss is kept until the node has as many devices again.
            f"({_STEADY_WITHIN_WEEK} > {_BEFORE_WITHIN_HOUR} or {_BEFORE_WITHIN_HOUR} or {_STEADY_WITHIN_WEEK}) and on ({NODE})"
            f" ({_REMEMBERS_SINCE} != last_over_time(instance:telemetry_remembers_since_timestamp_seconds:max{_WEEK_RANGE}))"
            f" or {_BEFORE_WITHIN_WEEK} * ({_BEFORE_WITHIN_WEEK} > bool (instance:accelerators:known or 0 * {_BEFORE_WITHIN_WEEK}))"
            f" and on ({NODE}) (changes(instance:telemetry_remembers_since_timestamp_seconds:max{_WEEK_RANGE}) > 0)",
            "The number of a node's whole devices before its daemon lost its state, by vendor. 0 once the node reports as many devices again.",
            f"{NODE}, vendor",
        ),
        Recording(
            "instance:accelerators:steady",
            # The median ignores short deviations, for example while a driver starts.
            "floor(quantile_over_time(0.5, instance:accelerators:known[1h])) and instance:accelerators:known",
            "The number of whole devices that a node reported for most of the last hour, by vendor.",
            f"{NODE}, vendor",
        ),
        Recording(
            "instance:telemetry_remembers_since_timestamp_seconds:max",
            _REMEMBERS_SINCE,
            "Identifies the daemon's state. The value changes if the state is lost.",
            NODE,
        ),
        Recording(
            "instance:telemetry:pushed",
            f'group by ({NODE}) (last_over_time(telemetry_build_info{{pushed="yes"}}{_RECENT_RANGE}))',
            "1 for each node that sends its own metrics.",
            NODE,
        ),
        Recording(
            "fleet:telemetry:seen",
            f"group by (cluster) (last_over_time(telemetry_build_info{_RECENT_RANGE}))",
            "1 for each cluster with a node that responds.",
            "cluster",
        ),
    ),
    interval="10m",
)
