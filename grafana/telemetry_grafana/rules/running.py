"""Alerts about cards that run badly: hot, held back, idle with memory held, slower than their peers."""

from __future__ import annotations

from telemetry_grafana.rules.alert import Alert, AlertGroup

_T = "accelerator:temperature_celsius"
_LIMIT = "accelerator:temperature_limit_celsius"
_OWN_CRITICAL = "on (job, instance, id, sensor) (accelerator_temperature_critical_celsius or accelerator_temperature_shutdown_celsius)"

RUNNING = AlertGroup(
    "telemetry-running",
    "Cards that run badly",
    (
        Alert(
            name="AcceleratorHot",
            severity="warning",
            condition=(
                f"{_T} > on (job, instance, id) ({_LIMIT} - $limit_margin_celsius)"
                f" or ({_T} > $hot_celsius unless on (job, instance, id) {_LIMIT})"
            ),
            hold="10m",
            summary="{vendor} {device} on {instance} is at {value} °C",
            meaning="The card is close to the temperature at which it slows down; where it tells no limit of its own, above a common figure.",
            check="Whether its neighbours are hot as well (dashboard Node): one card: its cooler; all: the air or water of the node.",
            remedy="Clean filters and coolers, check fans and flow; lower the power limit meanwhile.",
        ),
        Alert(
            name="AcceleratorTemperatureCritical",
            severity="critical",
            condition=(
                f"accelerator_temperature_celsius >= {_OWN_CRITICAL}"
                f' or (accelerator_temperature_celsius{{sensor!="board"}} >= $critical_celsius unless {_OWN_CRITICAL})'
            ),
            hold="2m",
            summary="sensor {sensor} of {vendor} {device} on {instance} is at {value} °C",
            meaning="A sensor has reached what the vendor calls critical; where the card does not tell, what is critical for most.",
            check="The other sensors; the cooling of the node.",
            remedy="Stop the jobs on the card; it may switch itself off.",
        ),
        Alert(
            name="AcceleratorHotterThanPeers",
            severity="warning",
            condition=(
                f"{_T} - on (job, instance, vendor, model) group_left ()"
                f" avg by (job, instance, vendor, model) ({_T}) > $outlier_celsius"
            ),
            hold="15m",
            summary="{vendor} {device} on {instance} is {value} K above the mean of its node",
            meaning="One card is much hotter than the others of its model in the node.",
            check="Whether it works more than the others; its cooler, its paste, its place.",
            remedy="Clean or reseat the cooler.",
        ),
        Alert(
            name="AcceleratorFanStopped",
            severity="warning",
            condition=f"accelerator_fan_ratio == 0 and on (job, instance, id) ({_T} > $fan_stopped_celsius)",
            hold="5m",
            summary="the fan of {vendor} {device} on {instance} stands still while the card is hot",
            meaning="The fan is broken, or held at zero by a setting.",
            check="The fan by eye; the fan setting.",
            remedy="Replace the fan; give its control back to the card.",
        ),
        Alert(
            name="AcceleratorThermalThrottling",
            severity="warning",
            condition=(
                'accelerator_throttled{reason=~".*thermal.*"} == 1'
                ' or avg_over_time(accelerator_throttled{reason=~".*thermal.*"}[10m]) >= $throttled_share'
            ),
            hold="5m",
            summary="{vendor} {device} on {instance} slows down because of heat ({reason})",
            meaning="The card holds its clocks down to stay within its temperature, all the time or again and again.",
            check="Its temperature against its limit and its neighbours.",
            remedy="As for AcceleratorHot.",
        ),
        Alert(
            name="AcceleratorPowerBrake",
            severity="warning",
            condition='accelerator_throttled{reason=~".*power_brake.*"} == 1',
            hold="5m",
            summary="{vendor} {device} on {instance} is held down by the power brake",
            meaning="The power supply or the board asks the card to slow down: a supply has failed or is overloaded.",
            check="The power supplies of the node.",
            remedy="Replace the supply; spread the load.",
        ),
        Alert(
            name="AcceleratorIdleWithMemoryHeld",
            severity="info",
            condition=(
                "accelerator:utilization_ratio:rate5m < $idle_ratio"
                " and on (job, instance, id) accelerator_memory_used_ratio > $held_ratio"
            ),
            hold="30m",
            summary="{vendor} {device} on {instance} is idle while its memory is held",
            meaning="Somebody has loaded the card and does not use it: a hung job, a forgotten notebook.",
            check="`telemetry snapshot --all` lists the processes.",
            remedy="Ask the owner, or end the job.",
        ),
        Alert(
            name="AcceleratorStraggler",
            severity="info",
            condition=(
                "accelerator:utilization_ratio:deviation < -$straggler_ratio"
                " and on (job, vendor, model) count by (job, vendor, model) (accelerator:utilization_ratio:rate5m)"
                " >= $straggler_peers"
            ),
            hold="30m",
            summary="{vendor} {device} on {instance} works {value:humanizePercentage} less than the median of its model",
            meaning="The card does less than its peers. In one job over all of them it is the cause or the victim; otherwise it just has less to do.",
            check="The dashboard Stragglers: clocks, temperature and links beside those of the peers.",
            remedy="Take the node out of the job and test it.",
        ),
    ),
)
