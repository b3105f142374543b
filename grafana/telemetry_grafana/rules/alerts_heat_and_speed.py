"""Alerts about hot, throttled and slow cards."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_grafana.promql import CARD, MODEL, MODEL_IN_NODE, NODE, prefix_pattern
from telemetry_grafana.rules.recording import OWNED_UTILIZATION
from telemetry_grafana.rules.recording_past import CLOCK_LOST_TO_HEAT, THROTTLED_BY_HEAT
from telemetry_grafana.rules.rule import AlertGroup, critical, info, warning
from telemetry_parsers.metrics import BOARD_SENSORS, OTHER_SENSORS

# A hung card reports full utilization, but uses hardly more power than an idle card.
_ABOVE_IDLE = "accelerator:power_above_idle:ratio"
_MEMORY_ACTIVITY, _MEMORY_BANDWIDTH = "accelerator_memory_activity_ratio", "accelerator_memory_bandwidth_ratio"
# A hung card may use as much power as a slowly decoding card, but has little memory traffic.
_AT_REST = (
    f"({_ABOVE_IDLE} < $rest_share_alone or {_ABOVE_IDLE} < $rest_share and on ({CARD}) ({_MEMORY_ACTIVITY} or {_MEMORY_BANDWIDTH}))"
    f" unless on ({CARD}) ({_MEMORY_ACTIVITY} > $quiet_ratio or {_MEMORY_BANDWIDTH} > $quiet_ratio)"
)
_HUNG = (
    "min_over_time(accelerator_utilization_ratio[5m]) >= $hung_busy_ratio"
    f" and on ({CARD}) ({_AT_REST}) unless on ({CARD}) accelerator_memory_used_ratio < $empty_ratio"
)

_TEMPERATURE = "accelerator:temperature_celsius"
_TEMPERATURE_MARGIN = "accelerator:temperature_margin_celsius"
_SENSOR_TEMPERATURE = "accelerator_temperature_celsius"
_OTHER_SENSORS, _BOARD_SENSORS = prefix_pattern(OTHER_SENSORS), prefix_pattern(BOARD_SENSORS)
_CRITICAL_LIMITS = "(accelerator_temperature_critical_celsius or accelerator_temperature_shutdown_celsius)"
_UTILIZATION = "accelerator:utilization_ratio:rate5m"
_POWER = "accelerator:power_watts:rate5m"


def _difference_from_mean(series: str) -> str:
    """Return an expression for a card's difference from the node's mean for this model."""
    return f"({series} - on ({MODEL_IN_NODE}) group_left () avg by ({MODEL_IN_NODE}) ({series}))"


def _often_throttled_by(reasons: str) -> str:
    return f'avg_over_time(accelerator_throttled{{reason=~"{reasons}"}}[10m]) >= $throttled_share'


def _throttled_by(reasons: str) -> str:
    """Return an expression for cards that are throttled now, or often were in the last ten minutes."""
    return f'max without (reason) (accelerator_throttled{{reason=~"{reasons}"}} == 1 or {_often_throttled_by(reasons)})'


# Frequent throttling explains a slow card. The current throttling state changes so often that it would reset alerts.
_OFTEN_THROTTLED = _often_throttled_by("$heat_reasons|$brake_reasons")
# Cards are compared with cards of the same owner on the node.
_PEER_LABELS = f"{MODEL_IN_NODE}, owner_kind, owner"
_UTILIZATION_GAP = f"(quantile by ({_PEER_LABELS}) (0.5, {OWNED_UTILIZATION}) - on ({_PEER_LABELS}) group_right () {OWNED_UTILIZATION})"
_HELD_MEMORY = (
    f"({OWNED_UTILIZATION} > bool -1) * on ({CARD}) group_left () max by ({CARD}) (accelerator_memory_used_ratio)"
)
_DIFFERENT_WORK = f"abs({_HELD_MEMORY} - on ({_PEER_LABELS}) group_left () quantile by ({_PEER_LABELS}) (0.5, {_HELD_MEMORY})) > $same_work_memory"
_THROTTLED_EACH_HOUR = f" and on ({CARD}) ".join(
    f"avg_over_time({THROTTLED_BY_HEAT}[1h]{offset}) >= $often_throttled_share"
    for offset in ("", " offset 1h", " offset 2h")
)
_IS_HOT = (
    f"{_TEMPERATURE} and {_TEMPERATURE_MARGIN} < $limit_margin_celsius or"
    f' max without (sensor) ({_SENSOR_TEMPERATURE}{{sensor!~"{_OTHER_SENSORS}|$inner_sensors"}} > $hot_celsius'
    f' or {_SENSOR_TEMPERATURE}{{sensor=~"$inner_sensors"}} > $hot_junction_celsius) unless {_TEMPERATURE_MARGIN}'
)
_NODE_AND_VENDOR = f"{NODE}, vendor"
# Each card is counted once, even if two agents report it.
_HOT_CARDS = f"count by ({_NODE_AND_VENDOR}) (group by ({_NODE_AND_VENDOR}, id) ({_IS_HOT}))"

HEAT_AND_SPEED = AlertGroup(
    "telemetry-heat-and-speed",
    "Hot and slow cards",
    (
        warning(
            name="AcceleratorHot",
            condition=_IS_HOT,
            pending_period="10m",
            inhibited_by=("AcceleratorTemperatureCritical", "AcceleratorThermalThrottling", "AcceleratorsHot"),
            summary="{vendor} {device} on {instance} is at {value:humanize} °C",
            meaning="A sensor of the card is close to the temperature at which the card slows down. If the card reports no limit, a common limit applies.",
            check="In the Node dashboard, see whether the other cards are hot as well. If so, check the node's air or water cooling. Otherwise, check the card's cooler.",
        ),
        critical(
            name="AcceleratorsHot",
            condition=(
                f"{_HOT_CARDS} >= $straggler_peers and on ({_NODE_AND_VENDOR})"
                f" {_HOT_CARDS} >= $hot_share * count by ({_NODE_AND_VENDOR}) (group by ({_NODE_AND_VENDOR}, id) ({_TEMPERATURE}))"
            ),
            pending_period="4m",
            summary="{value} {vendor} cards on {instance} are hot at the same time: the node's cooling is failing",
            meaning="At least three quarters of the node's cards, and at least four cards, are hot enough for AcceleratorHot. The cause is the air or water cooling of the node or room, not a single cooler.",
            check="Inspect the node's fans, pumps and inlet temperature (in its BMC). Check whether neighbouring nodes are also hot.",
            remedy="Restore the cooling. Until then, lower the power limits, or drain the node before the cards switch off.",
        ),
        critical(
            name="AcceleratorTemperatureCritical",
            condition=(
                f"max without (sensor) ({_SENSOR_TEMPERATURE} >= {_CRITICAL_LIMITS} or"
                f' ({_SENSOR_TEMPERATURE}{{sensor!~"{_BOARD_SENSORS}|$inner_sensors"}} >= $critical_celsius'
                f' or {_SENSOR_TEMPERATURE}{{sensor=~"$inner_sensors"}} >= $critical_junction_celsius)'
                f" unless {_CRITICAL_LIMITS} unless {_SENSOR_TEMPERATURE} < accelerator_temperature_slowdown_celsius)"
            ),
            pending_period="2m",
            summary="a sensor of {vendor} {device} on {instance} is at {value:humanize} °C",
            meaning="A sensor has reached the card's critical temperature. If the card reports no critical temperature, a common limit applies. This limit is ignored while the sensor is below the card's slowdown temperature.",
            check="See which sensor is hot (Card dashboard), compare the other sensors, and check the node's cooling.",
        ),
        warning(
            name="AcceleratorHotterThanPeers",
            condition=(
                f"{_difference_from_mean(_TEMPERATURE)} > $outlier_celsius unless {_difference_from_mean(_UTILIZATION)} > $busier_ratio"
                # A busier card is also recognised by its power, because some cards report no utilization.
                f" unless {_POWER} / on ({MODEL_IN_NODE}) group_left () avg by ({MODEL_IN_NODE}) ({_POWER}) > $busier_power"
            ),
            pending_period="15m",
            inhibited_by=(
                "AcceleratorTemperatureCritical",
                "AcceleratorThermalThrottling",
                "AcceleratorHot",
                "AcceleratorsHot",
            ),
            summary="{vendor} {device} on {instance} is {value:humanize} K hotter than the mean of its node",
            meaning="A card is much hotter than the other cards of its model in the node, although it is not busier and does not draw more power.",
            check="Inspect the card's cooler, thermal paste and slot.",
            remedy="Clean or reseat the cooler.",
        ),
        warning(
            name="AcceleratorFanStopped",
            # Some tools print 0 for a card without a fan. The alert requires that a fan of the same model has turned before.
            condition=(
                f"accelerator_fan_ratio == 0 and on (cluster, job, instance, id) ({_TEMPERATURE} > $fan_stopped_celsius)"
                " and on (cluster, job, vendor, model) (last_over_time(model:accelerator_fan_ratio:most[1h]) > 0)"
            ),
            pending_period="5m",
            summary="the fan of {vendor} {device} on {instance} has stopped while the card is hot",
            meaning="The fan is broken, or a setting keeps the fan at zero. If no fan of a model has ever run for ten minutes in a row, the alert treats the model as fanless.",
            check="Look at the fan, and check its setting.",
        ),
        warning(
            name="AcceleratorThermalThrottling",
            condition=_throttled_by("$heat_reasons"),
            pending_period="5m",
            inhibited_by=("AcceleratorTemperatureCritical", "AcceleratorsHot"),
            summary="{vendor} {device} on {instance} slows down because of heat",
            meaning="The card is so hot that it lowers its clocks, permanently or repeatedly.",
            check="See the reason that the card reports. Compare its temperature with its limit and with the other cards (Node dashboard).",
        ),
        warning(
            name="AcceleratorThrottledForHours",
            condition=f"avg_over_time({CLOCK_LOST_TO_HEAT}[3h]) and on ({CARD}) {_THROTTLED_EACH_HOUR}",
            pending_period="10m",
            counted_over_seconds=10_800,
            inhibited_by=("AcceleratorTemperatureCritical", "AcceleratorThermalThrottling", "AcceleratorsHot"),
            summary="heat has reduced the clock of {vendor} {device} on {instance} by {value:humanizePercentage} over the last three hours",
            meaning="In each of the last three hours, heat lowered the clocks for at least three minutes. The value is the average reduction, relative to the clock's highest five-minute average in these hours.",
            check="The Card dashboard shows when the card is throttled. Look at the load and the inlet temperature at these times, and check whether other cards are throttled, too.",
            remedy="Clean filters and coolers, and check fans and air flow. A lower power limit may cost less speed than throttling.",
        ),
        warning(
            name="AcceleratorPowerBrake",
            condition=_throttled_by("$brake_reasons"),
            pending_period="5m",
            summary="{vendor} {device} on {instance} is slowed down by the power brake",
            meaning="The power supply or the board asks the card to slow down: a supply has failed or is overloaded.",
            check="Inspect the node's power supplies.",
        ),
        info(
            name="AcceleratorIdleWithMemoryHeld",
            condition=(
                "accelerator:utilization_ratio:rate5m < $idle_ratio"
                " and on (cluster, job, instance, id) accelerator_memory_used_ratio > $held_ratio"
                # If the owner is known, AcceleratorAllocatedIdle fires instead.
                " unless on (cluster, job, instance, id) accelerator_allocation_ratio"
            ),
            pending_period="30m",
            summary="{vendor} {device} on {instance} is idle while its memory is in use",
            meaning="A process, such as a hung job or a forgotten notebook, holds memory on the card but does not use the card.",
            check="`telemetry snapshot --processes` lists the processes.",
            remedy="Ask the owner, or end the job.",
        ),
        info(
            name="AcceleratorStraggler",
            condition=(
                f"{_UTILIZATION_GAP} > $straggler_ratio and {OWNED_UTILIZATION} > $idle_ratio"
                f" and on ({_PEER_LABELS}) quantile by ({_PEER_LABELS}) (0.5, abs({_UTILIZATION_GAP})) < $alike_ratio"
                f" and on ({_PEER_LABELS}) count by ({_PEER_LABELS}) ({OWNED_UTILIZATION}) >= $straggler_peers"
                f" unless on ({CARD}) {_DIFFERENT_WORK}"
                # Without an owner or a memory reading, the cards may work for different jobs.
                f" and on ({CARD}) (accelerator_allocation_ratio or accelerator_memory_used_ratio)"
                # Cards are not compared with hung cards.
                f" unless on ({MODEL_IN_NODE}) ({_HUNG})"
            ),
            pending_period="30m",
            summary="{vendor} {device} on {instance} is {value:humanizePercentage} less busy than its node's other cards",
            meaning="The other cards of the same model and owner in the node are about equally busy, but this card is less busy. If a job uses all these cards, either this card delays the job, or it waits for a slower card. The alert compares only cards that use the same amount of memory, because the others may do different work.",
            check="Compare the card's clocks, temperature and links with those of its peers (Stragglers dashboard).",
            remedy="Take the node out of the job and test it.",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class _Peers:
    """The names and labels for comparing cards or nodes with their busy peers."""

    ratio_template: str  # name of the series that records a reading's ratio to the peers' median
    reading_template: str  # expression for a reading
    labels: str
    group_labels: str  # the labels that are equal for all peers
    min_count: str


_CARD_PEERS = _Peers("accelerator:{}:of_busy_peers", "{}", CARD, MODEL_IN_NODE, "$straggler_peers")
_NODE_PEERS = _Peers(
    "instance:accelerator_{}:of_busy_peers",
    f"avg by ({MODEL_IN_NODE}) ({{}})",
    MODEL_IN_NODE,
    MODEL,
    "$slow_node_peers",
)


def _slower_than_peers(peers: _Peers) -> str:
    clock, power = _busy_average("clock_hertz", peers), _busy_average("power_watts", peers)
    memory_used = peers.reading_template.format("accelerator_memory_used_ratio")
    power_cap = peers.reading_template.format("(accelerator_power_cap_watts > 0)")
    return (
        f"{clock} < $slower_share and on ({peers.labels}) {power} < $slower_share"
        f" and on ({peers.labels}) last_over_time({peers.ratio_template.format('clock_hertz')}[30m]) < (1 + $slower_share) / 2"
        f" and on ({peers.group_labels}) quantile by ({peers.group_labels}) (0.5, abs({power} - 1)) < $same_power_share"
        f" and on ({peers.group_labels}) count by ({peers.group_labels}) ({clock}) >= {peers.min_count}"
        f" unless on ({peers.labels}) abs({memory_used} - {_median_expression(memory_used, peers)}) > $same_memory_ratio"
        f" unless on ({peers.labels}) {power_cap} / {_median_expression(power_cap, peers)} < $lower_cap_share"
    )


def _busy_average(name: str, peers: _Peers) -> str:
    """Return an expression for a ratio's average over half an hour. Only mostly busy cards are included."""
    series = peers.ratio_template.format(name)
    return f"(avg_over_time({series}[30m]) and on ({peers.labels}) count_over_time({series}[30m]) >= $busy_minutes)"


def _median_expression(series: str, peers: _Peers) -> str:
    busy = f"count_over_time({peers.ratio_template.format('clock_hertz')}[30m]) >= $busy_minutes"
    return f"on ({peers.group_labels}) group_left () quantile by ({peers.group_labels}) (0.5, {series} and on ({peers.labels}) {busy})"


FULL_LOAD = AlertGroup(
    "telemetry-full-load",
    "Busy cards that do little work",
    (
        warning(
            name="AcceleratorsHung",
            condition=f"count by ({MODEL_IN_NODE}) ({_HUNG})",
            pending_period="25m",
            summary="{value} {vendor} card(s) on {instance} have been fully busy for half an hour, but use hardly more power than idle cards",
            meaning="A kernel never ends, or a collective operation waits for a missing rank. Utilization stays at its maximum, but power is close to that of an idle card, and the memory is inactive. The alert needs samples of the model from the last month: ten minutes at idle power, and ten minutes at full power.",
            check="The job's log shows whether the job still makes progress. In the Node dashboard, look for a card that differs from the others (events, links, temperature). The cause may also be on another node of the job.",
            remedy="End the job. Reset cards that stay busy without a process. If a card hangs again, test it.",
        ),
        warning(
            name="AcceleratorSlowerThanPeers",
            condition=f"{_slower_than_peers(_CARD_PEERS)} unless on ({CARD}) {_OFTEN_THROTTLED} unless on ({CARD}) ({_AT_REST})",
            pending_period="10m",
            summary="{vendor} {device} on {instance} runs at {value:humanizePercentage} of the clock of its node's other cards",
            meaning="The card is as busy as the other cards of its model in the node and uses the same amount of memory, but its clock and power are much lower. If a job uses several cards of the group, they all wait for the slowest card. A lower power limit, heat and the power brake do not explain the difference.",
            check="Look at the Stragglers dashboard. Check for locked clocks (`nvidia-smi -q -d CLOCK`), power cables, and reasons for throttling.",
            remedy="Unlock the clocks if they are locked. Otherwise take the node out of the job, power-cycle it and test the card.",
        ),
        warning(
            name="AcceleratorNodeSlow",
            condition=(
                f"{_slower_than_peers(_NODE_PEERS)} unless on ({MODEL_IN_NODE}) {_OFTEN_THROTTLED} unless on ({MODEL_IN_NODE}) ({_HUNG})"
            ),
            pending_period="10m",
            summary="the {vendor} cards on {instance} run at {value:humanizePercentage} of the clock of other nodes",
            meaning="All cards of the node are busy, but their clock and power are much lower than on other nodes with equally busy cards of the same model. The other nodes are about equally fast. Lower power limits, heat and the power brake do not explain the difference.",
            check="Compare power supplies, the power policy of the node's firmware, locked clocks and the driver version with those of another node.",
            remedy="Take the node out of the job until the difference is explained.",
        ),
    ),
)
