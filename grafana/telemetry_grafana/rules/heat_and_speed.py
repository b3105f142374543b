"""Alerts about heat and speed: cards that are hot, held back, slower than their peers, or idle with memory held."""

from __future__ import annotations

from telemetry_grafana.promql import beginning_with
from telemetry_grafana.rules.alert import AlertGroup, critical, info, warning
from telemetry_grafana.rules.at_rest import HUNG
from telemetry_parsers.metrics import BOARD_SENSORS, OTHER_SENSORS

_T = "accelerator:temperature_celsius"
_MARGIN = "accelerator:temperature_margin_celsius"
_DEGREES = "accelerator_temperature_celsius"
_OTHERS, _BOARD = beginning_with(OTHER_SENSORS), beginning_with(BOARD_SENSORS)
_OWN_CRITICAL = "(accelerator_temperature_critical_celsius or accelerator_temperature_shutdown_celsius)"
_WORK = "accelerator:utilization_ratio:rate5m"
_POWER = "accelerator:power_watts:rate5m"
_PEERS = "cluster, job, instance, vendor, model"


def _against(function: str, series: str) -> str:
    """The series less what its node's cards of the same model have in common."""
    return f"({series} - on ({_PEERS}) group_left () {function.format(peers=_PEERS, series=series)})"


def _mostly_held_by(reasons: str) -> str:
    return f'avg_over_time(accelerator_throttled{{reason=~"{reasons}"}}[10m]) >= $throttled_share'


def _held_by(reasons: str) -> str:
    """Now, or again and again."""
    return f'max without (reason) (accelerator_throttled{{reason=~"{reasons}"}} == 1 or {_mostly_held_by(reasons)})'


# What comes and goes must not explain a slow card every other minute: then neither alert would ever fire.
MOSTLY_HELD = _mostly_held_by("$heat_reasons|$brake_reasons")
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
                f" unless {_POWER} / on ({_PEERS}) group_left () avg by ({_PEERS}) ({_POWER}) > $busier_power"
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
                f" and on ({_PEERS}) quantile by ({_PEERS}) (0.5, abs({_LESS_WORK})) < $alike_ratio"
                f" and on ({_PEERS}) count by ({_PEERS}) ({_WORK}) >= $straggler_peers"
                # Beside cards that hang, the one that works is no straggler.
                f" unless on ({_PEERS}) ({HUNG})"
            ),
            hold="30m",
            summary="{vendor} {device} on {instance} works {value:humanizePercentage} less than its node's other cards",
            meaning="The card works, but less than the others of its model in the node, which are all alike: in one job over all of them it is the cause or the victim.",
            check="The dashboard Stragglers: clocks, temperature and links beside those of the peers.",
            remedy="Take the node out of the job and test it.",
        ),
    ),
)
