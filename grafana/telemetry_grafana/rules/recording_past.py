"""Recording rules for hours or days in the past, such as the end of a maintenance."""

from __future__ import annotations

from telemetry_grafana.promql import CARD, DEVICE, MODEL, NODE, PARTITIONS
from telemetry_grafana.rules.rule import EVERY, MAINTENANCE_END, Recording, RecordingGroup, with_thresholds
from telemetry_parsers.metrics import OWNER_LABELS

_ENDS_IN = "telemetry_maintenance_ends_in_seconds"
_MAINTENANCE = Recording(
    MAINTENANCE_END,
    # The last value of the page, also if its node went down between two evaluations.
    f"max by ({NODE}) (last_over_time((timestamp({_ENDS_IN}) + {_ENDS_IN})[5m:15s])"
    # A value that does not count down comes from no daemon, such as a textfile that was left behind.
    f" unless ({_ENDS_IN} == {_ENDS_IN} offset 5m))"
    # A node that is off, or was reinstalled, exposes nothing: the recorded end continues until a day after it.
    f" or (last_over_time({MAINTENANCE_END}[6h]) > time() - 86400)",
    "When the maintenance that a node announced ends or ended, by the clock of Prometheus; also while the node is off.",
    NODE,
)


THROTTLED, LOST_CLOCK = "accelerator:throttled_by_heat:avg5m", "accelerator:clock_lost_to_heat_ratio:avg5m"
_HEAT = with_thresholds('accelerator_throttled{reason=~"$heat_reasons"}')
_BEST_CLOCK = "max_over_time(accelerator:clock_hertz:avg5m[3h])"
_HEATED = (
    Recording(
        THROTTLED,
        f"max without (reason) (avg_over_time({_HEAT}[5m]))",
        "The share of five minutes in which heat held the clocks down.",
    ),
    Recording(
        LOST_CLOCK,
        # The clock of a card at rest has no meaning.
        f"clamp_min(1 - accelerator:clock_hertz:avg5m / {_BEST_CLOCK}, 0) and on ({CARD}) {THROTTLED} > 0"
        f" or 0 * {THROTTLED}",
        "The loss of clock in five minutes in which heat throttled the card, compared with the best clock of three hours; otherwise, and without a reported clock, 0.",
    ),
)

HELD_IDLE = "accelerator:job_idle_memory_held:seconds"
_HELD_IDLE = (
    'max without (basis) (accelerator_allocation_ratio{job_id!=""})'
    f" and on ({CARD}) accelerator:utilization_ratio:rate5m < $idle_ratio"
    f" and on ({CARD}) accelerator_memory_used_ratio > $unowned_ratio"
)
_HANGING = Recording(
    HELD_IDLE,
    with_thresholds(
        f"(last_over_time({HELD_IDLE}[5m]) + 60 or (({_HELD_IDLE}) > bool -1) * 60) and ({_HELD_IDLE})",
    ),
    "Seconds for which a job has held memory on a card without using it.",
    ", ".join((DEVICE, *OWNER_LABELS["accelerator_allocation_seconds_total"])),
)


# Series that alerts read over hours, recorded once a minute, because reading every scrape took seconds.
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
            "How many of a device's links are up.",
        ),
        Recording(
            "accelerator:up:flapping",
            with_thresholds(
                "changes(accelerator_up[1h]) >= $long_flaps and changes(accelerator_up[30m]) > 0 unless"
                " (changes(accelerator_up[1h]) < $flaps and avg_over_time(accelerator_up[1h]) >= $flapping_up_share)"
            ),
            "How often within an hour a flapping device was lost or came back.",
        ),
        Recording(
            "accelerator:link_up:flapping",
            with_thresholds("changes(accelerator_link_up[1h]) >= $flaps"),
            "How often within an hour a flapping link went down or up.",
            f"{DEVICE}, link",
        ),
        Recording(
            "instance:accelerators:known",
            f"count by ({NODE}, vendor) (group by ({NODE}, vendor, id) (accelerator_up unless on ({CARD}) {PARTITIONS}))",
            "Whole devices of a vendor that a node reports, including lost ones.",
            f"{NODE}, vendor",
        ),
        _MAINTENANCE,
        *_HEATED,
        _HANGING,
    ),
    every=EVERY,
)
_SEEN = "[10m]"
_LONG_AGO = "[7d]"
_REMEMBERS_SINCE = f"max by ({NODE}) (telemetry_remembers_since_timestamp_seconds)"
_BEFORE = "instance:accelerators:before"
_STEADY = f"last_over_time(instance:accelerators:steady{_LONG_AGO})"
# A second loss of the state, while devices are missing, keeps the first count.
_STILL_FEWER = f"last_over_time({_BEFORE}[1h])"
_LAST_BEFORE = f"last_over_time({_BEFORE}{_LONG_AGO})"


def _for_ten_minutes(function: str, series: str) -> str:
    """Return the least or the most of ten minutes, but nothing for a series that has just begun, whose first values may be wrong."""
    return f"{function}({series}[10m]) and count_over_time({series}[5m] offset 5m)"


def _once(name: str, now: str, over: str, while_there: str, meaning: str) -> Recording:
    """Return a rule that is 1 once a series has appeared, until all series of the group are gone."""
    return Recording(
        name,
        f"group by ({over}) ({now}) or group by ({over}) (last_over_time({name}{_LONG_AGO}))"
        f" and on ({over}) group by ({over}) ({while_there})",
        meaning,
        over,
    )


def _most(name: str, now: str, labels: str, meaning: str) -> Recording:
    """Return the highest value that a series ever had; a series that is gone for a week starts again."""
    return Recording(name, f"last_over_time({name}{_LONG_AGO}) > ({now}) or {now}", meaning, labels)


IDLE_POWER, HIGHEST_POWER = "model:accelerator_power_watts:idle", "model:accelerator_power_watts:highest"
_POWER = "accelerator_power_watts"
# Extremes over ten minutes, so that a single wrong value does not count; other wrong values are over after a month.
_POWER_RANGE = (
    Recording(
        IDLE_POWER,
        f"min by ({MODEL}) ({_for_ten_minutes('max_over_time', _POWER)} and on ({CARD})"
        + with_thresholds(" max_over_time(accelerator_utilization_ratio[10m]) < $idle_ratio)"),
        "The least power that an idle device of this model drew for ten minutes.",
        MODEL,
    ),
    Recording(
        HIGHEST_POWER,
        f"max by ({MODEL}) ({_for_ten_minutes('min_over_time', _POWER)})",
        "The most power that a device of this model drew for ten minutes.",
        MODEL,
    ),
)


# Long memories: each rule reads its own last value, which may be a week old.
PAST = RecordingGroup(
    "telemetry-past",
    (
        _once(
            "accelerator:core_readings:once",
            f"max_over_time(accelerator:core_readings:group{_SEEN})",
            CARD,
            "accelerator_up",
            "1 for each existing device that once had core readings.",
        ),
        _once(
            "instance:telemetry:once",
            f"last_over_time(telemetry_build_info{_SEEN})",
            NODE,
            "up",
            "1 for each existing target that once was a daemon of ours.",
        ),
        # Values that lasted for ten minutes, because a short one may be wrong.
        _most(
            "accelerator:link_up:most",
            # By id, because number and name may change with the driver.
            f"max by ({CARD}) ({_for_ten_minutes('min_over_time', 'accelerator:link_up:sum')})",
            CARD,
            "The highest number of a device's links that were up for ten minutes.",
        ),
        _most(
            "model:accelerator_fan_ratio:most",
            f"max by ({MODEL}) ({_for_ten_minutes('min_over_time', 'accelerator_fan_ratio')})",
            MODEL,
            "The highest speed of a fan of the model for ten minutes.",
        ),
        *_POWER_RANGE,
        # Before the next two rules, so that it reads what they recorded ten minutes ago.
        Recording(
            _BEFORE,
            # The count when the state was lost; then its own value while there are fewer devices, and then 0.
            f"({_STEADY} > {_STILL_FEWER} or {_STILL_FEWER} or {_STEADY}) and on ({NODE})"
            f" ({_REMEMBERS_SINCE} != last_over_time(instance:telemetry_remembers_since_timestamp_seconds:max{_LONG_AGO}))"
            f" or {_LAST_BEFORE} * ({_LAST_BEFORE} > bool (instance:accelerators:known or 0 * {_LAST_BEFORE}))"
            f" and on ({NODE}) (changes(instance:telemetry_remembers_since_timestamp_seconds:max{_LONG_AGO}) > 0)",
            "Whole devices of a vendor that a node reported before its daemon lost its state; 0 once it reports as many again.",
            f"{NODE}, vendor",
        ),
        Recording(
            "instance:accelerators:steady",
            # The median, because there are fewer devices while a driver starts, and there may be more for a moment.
            "floor(quantile_over_time(0.5, instance:accelerators:known[1h])) and instance:accelerators:known",
            "Whole devices of a vendor that a node reported for most of an hour.",
            f"{NODE}, vendor",
        ),
        Recording(
            "instance:telemetry_remembers_since_timestamp_seconds:max",
            _REMEMBERS_SINCE,
            "Identifies the daemon's state: the number changes if the state is lost.",
            NODE,
        ),
        Recording(
            "instance:telemetry:pushed",
            f'group by ({NODE}) (last_over_time(telemetry_build_info{{pushed="yes"}}{_SEEN}))',
            "1 for each node that sends its own metrics.",
            NODE,
        ),
        Recording(
            "fleet:telemetry:seen",
            f"group by (cluster) (last_over_time(telemetry_build_info{_SEEN}))",
            "1 for each cluster with a node that answers.",
            "cluster",
        ),
    ),
    every="10m",
)
