"""Alerts about heat and speed: cards that are hot, held back, slower than their peers, idle with memory held, or hung."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_grafana.promql import CARD, MODEL, MODEL_IN_NODE, beginning_with
from telemetry_grafana.rules.rule import AlertGroup, critical, info, warning
from telemetry_parsers.metrics import BOARD_SENSORS, OTHER_SENSORS

# Which cards draw hardly more than idle ones, and which of these are fully busy all the same: hung.
_ABOVE_IDLE = "accelerator:power_above_idle:ratio"
_ACTIVITY, _BANDWIDTH = "accelerator_memory_activity_ratio", "accelerator_memory_bandwidth_ratio"
# A card that waits for another one draws as much as one that decodes for a single user, but leaves its memory alone.
_AT_REST = (
    f"({_ABOVE_IDLE} < $rest_share_alone or {_ABOVE_IDLE} < $rest_share and on ({CARD}) ({_ACTIVITY} or {_BANDWIDTH}))"
    f" unless on ({CARD}) ({_ACTIVITY} > $quiet_ratio or {_BANDWIDTH} > $quiet_ratio)"
)
_HUNG = (
    "min_over_time(accelerator_utilization_ratio[5m]) >= $hung_busy_ratio"
    f" and on ({CARD}) ({_AT_REST}) unless on ({CARD}) accelerator_memory_used_ratio < $empty_ratio"
)


_T = "accelerator:temperature_celsius"
_MARGIN = "accelerator:temperature_margin_celsius"
_DEGREES = "accelerator_temperature_celsius"
_OTHERS, _BOARD = beginning_with(OTHER_SENSORS), beginning_with(BOARD_SENSORS)
_OWN_CRITICAL = "(accelerator_temperature_critical_celsius or accelerator_temperature_shutdown_celsius)"
_WORK = "accelerator:utilization_ratio:rate5m"
_POWER = "accelerator:power_watts:rate5m"


def _against(function: str, series: str) -> str:
    """The series less what its node's cards of the same model have in common."""
    return f"({series} - on ({MODEL_IN_NODE}) group_left () {function.format(peers=MODEL_IN_NODE, series=series)})"


def _mostly_held_by(reasons: str) -> str:
    return f'avg_over_time(accelerator_throttled{{reason=~"{reasons}"}}[10m]) >= $throttled_share'


def _held_by(reasons: str) -> str:
    """Now, or again and again."""
    return f'max without (reason) (accelerator_throttled{{reason=~"{reasons}"}} == 1 or {_mostly_held_by(reasons)})'


# What comes and goes must not explain a slow card every other minute: then neither alert would ever fire.
_MOSTLY_HELD = _mostly_held_by("$heat_reasons|$brake_reasons")
_ABOVE_MEAN = "avg by ({peers}) ({series})"
_LESS_WORK = f"-1 * {_against('quantile by ({peers}) (0.5, {series})', _WORK)}"

HEAT_AND_SPEED = AlertGroup(
    "telemetry-heat-and-speed",
    "Cards that run badly",
    (
        warning(
            name="AcceleratorHot",
            condition=(
                f"{_T} and {_MARGIN} < $limit_margin_celsius or"
                f' max without (sensor) ({_DEGREES}{{sensor!~"{_OTHERS}|$inner_sensors"}} > $hot_celsius'
                f' or {_DEGREES}{{sensor=~"$inner_sensors"}} > $hot_junction_celsius) unless {_MARGIN}'
            ),
            hold="10m",
            held_back_by=("AcceleratorTemperatureCritical", "AcceleratorThermalThrottling"),
            summary="{vendor} {device} on {instance} is at {value:humanize} °C",
            meaning="A sensor of the card is close to the temperature at which the card slows down; if it reports no limit of its own, above a common figure.",
            check="Whether its neighbours are hot as well (dashboard Node): one card: its cooler; all: the air or water of the node.",
            remedy="Clean filters and coolers, check fans and flow; lower the power limit meanwhile.",
        ),
        critical(
            name="AcceleratorTemperatureCritical",
            condition=(
                f"max without (sensor) ({_DEGREES} >= {_OWN_CRITICAL} or"
                f' ({_DEGREES}{{sensor!~"{_BOARD}|$inner_sensors"}} >= $critical_celsius'
                f' or {_DEGREES}{{sensor=~"$inner_sensors"}} >= $critical_junction_celsius)'
                f" unless {_OWN_CRITICAL} unless {_DEGREES} < accelerator_temperature_slowdown_celsius)"
            ),
            hold="2m",
            summary="a sensor of {vendor} {device} on {instance} is at {value:humanize} °C",
            meaning="A sensor has reached what the vendor calls critical; if the card reports none, what is critical for most, unless the card would not even slow down.",
            check="Which sensor (dashboard Card), and the others; the cooling of the node.",
            remedy="Stop the jobs on the card; it may switch itself off.",
        ),
        warning(
            name="AcceleratorHotterThanPeers",
            condition=(
                f"{_against(_ABOVE_MEAN, _T)} > $outlier_celsius unless {_against(_ABOVE_MEAN, _WORK)} > $busier_ratio"
                # Not every card tells its work: a partitioned one does not.
                f" unless {_POWER} / on ({MODEL_IN_NODE}) group_left () avg by ({MODEL_IN_NODE}) ({_POWER}) > $busier_power"
            ),
            hold="15m",
            held_back_by=("AcceleratorTemperatureCritical", "AcceleratorThermalThrottling", "AcceleratorHot"),
            summary="{vendor} {device} on {instance} is {value:humanize} K above the mean of its node",
            meaning="One card is much hotter than the others of its model in the node, and neither works nor draws more than they do.",
            check="Its cooler, its paste, its place.",
            remedy="Clean or reseat the cooler.",
        ),
        warning(
            name="AcceleratorFanStopped",
            # Some tools print 0 for a card without a fan. A model has fans where one of them has turned.
            condition=(
                f"accelerator_fan_ratio == 0 and on (cluster, job, instance, id) ({_T} > $fan_stopped_celsius)"
                " and on (cluster, job, vendor, model) (last_over_time(model:accelerator_fan_ratio:most[1h]) > 0)"
            ),
            hold="5m",
            summary="the fan of {vendor} {device} on {instance} stands still while the card is hot",
            meaning="The fan is broken, or held at zero by a setting. Where no fan of a model has ever turned for ten minutes, its cards count as having none.",
            check="The fan by eye; the fan setting.",
            remedy="Replace the fan; give its control back to the card.",
        ),
        warning(
            name="AcceleratorThermalThrottling",
            condition=_held_by("$heat_reasons"),
            hold="5m",
            held_back_by=("AcceleratorTemperatureCritical",),
            summary="{vendor} {device} on {instance} slows down because of heat",
            meaning="The card holds its clocks down to stay within its temperature, all the time or again and again.",
            check="The reason that it gives, its temperature against its limit and its neighbours (dashboard Node).",
            remedy="As for AcceleratorHot.",
        ),
        warning(
            name="AcceleratorPowerBrake",
            condition=_held_by("$brake_reasons"),
            hold="5m",
            summary="{vendor} {device} on {instance} is held down by the power brake",
            meaning="The power supply or the board asks the card to slow down: a supply has failed or is overloaded.",
            check="The power supplies of the node.",
            remedy="Replace the supply; spread the load.",
        ),
        info(
            name="AcceleratorIdleWithMemoryHeld",
            condition=(
                "accelerator:utilization_ratio:rate5m < $idle_ratio"
                " and on (cluster, job, instance, id) accelerator_memory_used_ratio > $held_ratio"
                # Of a card whose owner is known AcceleratorAllocatedIdle says who it is.
                " unless on (cluster, job, instance, id) accelerator_allocation_ratio"
            ),
            hold="30m",
            summary="{vendor} {device} on {instance} is idle while its memory is held",
            meaning="Somebody has loaded the card and does not use it: a hung job, a forgotten notebook.",
            check="`telemetry snapshot --all` lists the processes.",
            remedy="Ask the owner, or end the job.",
        ),
        info(
            name="AcceleratorStraggler",
            condition=(
                f"{_LESS_WORK} > $straggler_ratio and {_WORK} > $idle_ratio"
                f" and on ({MODEL_IN_NODE}) quantile by ({MODEL_IN_NODE}) (0.5, abs({_LESS_WORK})) < $alike_ratio"
                f" and on ({MODEL_IN_NODE}) count by ({MODEL_IN_NODE}) ({_WORK}) >= $straggler_peers"
                # Beside cards that hang, the one that works is no straggler.
                f" unless on ({MODEL_IN_NODE}) ({_HUNG})"
            ),
            hold="30m",
            summary="{vendor} {device} on {instance} works {value:humanizePercentage} less than its node's other cards",
            meaning="The card works, but less than the others of its model in the node, which are all alike: in one job over all of them it is the cause or the victim.",
            check="The dashboard Stragglers: clocks, temperature and links beside those of the peers.",
            remedy="Take the node out of the job and test it.",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class _Compared:
    """A card or a node beside its busy peers: patterns of its recorded shares and of its readings, and the labels of one and of its peers."""

    share: str
    reading: str
    one: str
    peers: str
    fewest: str


_CARDS = _Compared("accelerator:{}:of_busy_peers", "{}", CARD, MODEL_IN_NODE, "$straggler_peers")
_NODES = _Compared(
    "instance:accelerator_{}:of_busy_peers",
    f"avg by ({MODEL_IN_NODE}) ({{}})",
    MODEL_IN_NODE,
    MODEL,
    "$slow_node_peers",
)


def _slower(of: _Compared) -> str:
    """The clock's share, of who is behind by clock and power, and still is, among peers that draw alike, with as much memory and power allowed."""
    clock, power = _lately("clock_hertz", of), _lately("power_watts", of)
    memory_used = of.reading.format("accelerator_memory_used_ratio")
    power_cap = of.reading.format("(accelerator_power_cap_watts > 0)")
    return (
        f"{clock} < $slower_share and on ({of.one}) {power} < $slower_share"
        f" and on ({of.one}) last_over_time({of.share.format('clock_hertz')}[30m]) < (1 + $slower_share) / 2"
        f" and on ({of.peers}) quantile by ({of.peers}) (0.5, abs({power} - 1)) < $same_power_share"
        f" and on ({of.peers}) count by ({of.peers}) ({clock}) >= {of.fewest}"
        f" unless on ({of.one}) abs({memory_used} - {_median(memory_used, of)}) > $same_memory_ratio"
        f" unless on ({of.one}) {power_cap} / {_median(power_cap, of)} < $lower_cap_share"
    )


def _lately(name: str, of: _Compared) -> str:
    """The average of half an hour, of who was busy in most of it: jobs pause to write checkpoints."""
    series = of.share.format(name)
    return f"(avg_over_time({series}[30m]) and on ({of.one}) count_over_time({series}[30m]) >= $busy_minutes)"


def _median(series: str, of: _Compared) -> str:
    busy = f"count_over_time({of.share.format('clock_hertz')}[30m]) >= $busy_minutes"
    return f"on ({of.peers}) group_left () quantile by ({of.peers}) (0.5, {series} and on ({of.one}) {busy})"


FULL_LOAD = AlertGroup(
    "telemetry-full-load",
    "Cards that are busy and get little done",
    (
        warning(
            name="AcceleratorsHung",
            condition=f"count by ({MODEL_IN_NODE}) ({_HUNG})",
            hold="25m",
            summary="{value} {vendor} card(s) on {instance} fully busy for half an hour at the power of idle ones",
            meaning="A kernel never ends, or a collective waits for a rank that does not come: utilization stays at its maximum, power close to that of an idle card, and the memory quiet. Known only of models of which Prometheus has seen an idle and a busy card, for ten minutes each, within a month.",
            check="The log of the job: does it still make steps? The dashboard Node names the cards; one that differs from the others (events, links, temperature) may be the cause, also on another node of the job.",
            remedy="End the job. A card that stays busy without a process needs a reset; one that hangs again, a test.",
        ),
        warning(
            name="AcceleratorSlowerThanPeers",
            condition=f"{_slower(_CARDS)} unless on ({CARD}) {_MOSTLY_HELD} unless on ({CARD}) ({_AT_REST})",
            hold="10m",
            summary="{vendor} {device} on {instance} runs at {value:humanizePercentage} of the clock of its node's other cards",
            meaning="The card is as busy as the others of its model in the node and has as much in its memory, but clock and power are far below theirs: in one job over all of them, the others wait for it. Neither a lower power limit explains it, nor heat or the power brake that hold it down most of the time.",
            check="The dashboard Stragglers. Locked clocks (`nvidia-smi -q -d CLOCK`), power cables, the reasons for throttling.",
            remedy="Release locked clocks. Otherwise take the node out of the job, power-cycle it and test the card.",
        ),
        warning(
            name="AcceleratorNodeSlow",
            condition=(
                f"{_slower(_NODES)} unless on ({MODEL_IN_NODE}) {_MOSTLY_HELD} unless on ({MODEL_IN_NODE}) ({_HUNG})"
            ),
            hold="10m",
            summary="the {vendor} cards on {instance} run at {value:humanizePercentage} of the clock of other nodes",
            meaning="All cards of the node are busy, but by clock and power they are far below the other nodes with as busy cards of the same model, which are all alike. Neither lower power limits explain it, nor heat or the power brake that hold a card down most of the time.",
            check="Power supplies and the power policy of the node's firmware, locked clocks, driver version: what differs from another node.",
            remedy="Take the node out of the job until the difference is found.",
        ),
    ),
)
