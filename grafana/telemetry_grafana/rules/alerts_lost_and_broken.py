"""Alerts about missing and broken cards."""

from __future__ import annotations

from telemetry_grafana.promql import CARD, NODE, PARTITIONS
from telemetry_grafana.rules.rule import AlertGroup, critical, open_event, warning

# Missing devices are ignored while a source is paused by `telemetry release`, all cards sleep, or a driver hangs.
_UNLESS_INACTIVE = 'unless on (cluster, job, instance) (telemetry_source_state{state=~"released|suspended|stuck"} == 1)'
_UNLESS_PARTITION = f"unless on ({CARD}) {PARTITIONS}"
# The last 5 minutes are searched for partitions, because a node that does not respond exposes no partitions.
_UNLESS_RECENT_PARTITION = f"unless on ({CARD}) last_over_time({PARTITIONS}[5m])"
# Lost cards count as known, because a separate alert, AcceleratorLost, reports them.
_KNOWN_CARDS = f"count by ({NODE}, vendor) (group by ({NODE}, vendor, id) (accelerator_up {_UNLESS_PARTITION}))"

# The number of cards that a node had before its daemon lost its state.
_CARDS_BEFORE = "last_over_time(instance:accelerators:before[15m])"
# Nodes with a failed source are excluded, because the failure explains missing devices and has its own alert.
_CARDS_NOW = f"(instance:accelerators:known or 0 * {_CARDS_BEFORE} unless on (cluster, job, instance) (telemetry_source_up == 0))"


def _above_card_count(metric: str, labels: str, card_count: str) -> str:
    """Limit a metric to values above the node's number of cards."""
    count_or_zero = f"({card_count} or 0 * max by ({labels}) ({metric}))"
    return f"{metric} > on ({labels}) group_left () {count_or_zero} {_UNLESS_INACTIVE}"


# `job` is ignored, because in Kubernetes another job may expose `accelerator_up`.
_NOT_LISTED = _above_card_count(
    "telemetry_pci_devices", "cluster, instance, vendor", f"max by (cluster, instance, vendor) ({_KNOWN_CARDS})"
)

PRESENCE = AlertGroup(
    "telemetry-presence",
    "Missing cards",
    (
        critical(
            name="AcceleratorLost",
            # The 5 minutes bridge a restart of the daemon. Partitions are excluded, because their card is also lost.
            condition=f"last_over_time(accelerator_up[5m]) == 0 {_UNLESS_RECENT_PARTITION} unless accelerator:up:flapping",
            pending_period="3m",
            inhibited_by_event="xid_79",
            summary="{vendor} {device} ({model}) on {instance} is lost",
            meaning="The source that used to list the card still works, but no longer lists it. Possible causes: the card fell off the bus, the driver gave up on it, or somebody removed it. A partition that disappears while its card remains does not count as lost.",
            check="Run `lspci`, `dmesg` (NVIDIA: Xid 79) and the vendor's tool. The label `id` identifies the card, even if the card numbers have changed.",
        ),
        critical(
            name="AcceleratorFlapping",
            condition=f"accelerator:up:flapping and last_over_time(accelerator_up[5m]) {_UNLESS_RECENT_PARTITION}",
            counted_over_seconds=1800,  # a card that is lost for more than 1,800 s has stopped flapping
            summary="{vendor} {device} ({model}) on {instance} is lost and comes back repeatedly",
            meaning="Within an hour, the card was lost and returned three times, or it was missing for more than a tenth of the hour and was lost again. AcceleratorLost does not fire meanwhile. The alert ends half an hour after the last change.",
            check="Look at the history of `accelerator_up` (Card dashboard), `dmesg` (PCIe AER, NVIDIA: Xid 79), and power and temperature before each loss.",
            remedy="Drain the node. Reseat the card, its riser and its power cables. If it happens again, replace the card.",
        ),
        critical(
            name="AcceleratorsFewerThanExpected",
            condition=_above_card_count("telemetry_devices_expected", "cluster, job, instance, vendor", _KNOWN_CARDS),
            pending_period="10m",
            summary="{instance} should have {value} {vendor} cards, but has fewer",
            meaning="The node has fewer cards than `expect.devices`. Possible causes: a card was missing from the start, a card was removed with `telemetry forget`, or no source of the vendor works. Cards for which AcceleratorLost fires do not count as missing.",
            check="Run `telemetry snapshot` and `lspci`. `telemetry_pci_devices` shows how many cards are on the bus.",
            remedy="As for AcceleratorLost. If the node was changed, change `expect.devices`.",
        ),
        warning(
            name="AcceleratorNotListed",
            condition=_NOT_LISTED,
            pending_period="15m",
            summary="{instance} has {value} {vendor} cards on the bus, but telemetry lists fewer",
            meaning="A card is on the PCI bus, but no tool or library lists the card. Possible causes: no driver is bound to the card, the driver gave the card up, or the vendor's tool is missing or fails.",
            check="`lspci -k` shows the driver of each card; `telemetry doctor` shows which sources were found.",
            remedy="Install the vendor's tool or driver. If the tool lists other cards of the same model, power-cycle the node.",
        ),
        warning(
            name="AcceleratorsFewerThanBefore",
            condition=(
                f"{_CARDS_BEFORE} > {_CARDS_NOW} and on (cluster, job, instance) telemetry_build_info"
                f" unless on (cluster, job, instance, vendor) telemetry_devices_expected"
                f" unless on (cluster, instance, vendor) ({_NOT_LISTED}) {_UNLESS_INACTIVE}"
            ),
            pending_period="15m",
            summary="{instance} had {value} {vendor} cards before its daemon lost its state, but has fewer now",
            meaning="The daemon lost its state, for example because the node has a new image, or the pod has no volume for the state. Now the node has fewer cards than before. AcceleratorLost cannot fire, because the daemon does not know the missing cards. The alert ends when the node has the same number of cards again, or seven days after the daemon lost its state.",
            check="Run `lspci`, `dmesg` and the vendor's tool. Earlier samples of `accelerator_info` show the previous cards.",
            remedy="As for AcceleratorLost. If the node should have fewer cards, or is another machine under the same name, set `expect.devices`, which ends this alert. Keep the state directory on a persistent disk (Helm: `stateHostPath`).",
        ),
    ),
)

_BY_DEVICE = "by (cluster, job, instance, vendor, device, id, model)"


def _with_last_value(selector: str) -> str:
    """Return an expression for each series' current value, or its last value if it has ended."""
    metric = selector.split("{", maxsplit=1)[0]
    last_value = f"last_over_time({selector}[6h])"
    return f"({selector} or {last_value} unless on (cluster, job, instance, id) {metric})"


_OTHER_CODES = 'code!~"$xid_critical|$xid_application|$own_alert"'
# An open Xid is reported only if it has occurred again, or was not open in the 6 hours before. `increase` alone
# would miss new Xids, because Prometheus does not count the first sample of a series as an increase.
_OCCURRED_AGAIN = f'increase(accelerator_events_total{{code=~"xid_.*",{_OTHER_CODES}}}[$event_window]) > 0'
_OPEN_BEFORE = 'last_over_time(accelerator_event_open{code=~"xid_.*"}[6h] offset $event_window)'

BROKEN = AlertGroup(
    "telemetry-broken",
    "Broken cards",
    (
        critical(
            name="AcceleratorEventCritical",
            condition=open_event("$xid_critical"),
            summary="{vendor} {device} on {instance}: {code}",
            meaning="The driver reported an error that ends the jobs on the card, such as double-bit memory errors, a card that fell off the bus, or crashed firmware. The alert ends within five minutes after the card was reset, the card was bound to its driver again, or the node was rebooted.",
            check="Run `dmesg | grep -i xid`. Look up the code in the vendor's table.",
        ),
        warning(
            name="AcceleratorEvent",
            condition=(
                f"last_over_time(accelerator_event_open{{{_OTHER_CODES}}}[5m])"
                f" unless on (cluster, job, instance, id, code) {_OPEN_BEFORE} or {_OCCURRED_AGAIN}"
            ),
            counted_over_seconds=3600,
            summary="{vendor} {device} on {instance}: {code}",
            meaning="The driver reported an event that may precede a failure. After an Xid, the alert lasts for an hour. For an error code, the alert lasts while the vendor's tool lists the code. Events caused by an application (such as an illegal address) fire no alert; the Card dashboard shows them.",
            check="Look up the code in the vendor's table, and see whether it occurs on the same card again.",
        ),
        warning(
            name="AcceleratorRecoveryNeeded",
            condition='accelerator_recovery_action{action!="none"} == 1',
            pending_period="5m",
            summary="the driver asks to {action} {vendor} {device} on {instance}",
            meaning="The driver asks for an action, such as a reset. The card works properly again only after this action.",
            check="Look at the card's events and memory errors (Card dashboard).",
        ),
        critical(
            name="AcceleratorUnhealthy",
            condition=_with_last_value('accelerator_health{state=~"alarm|critical"}') + " == 1",
            pending_period="2m",
            summary="{vendor} {device} on {instance} reports its health as {state}",
            meaning="The card reports a bad health state.",
            check="The vendor's tool names the error codes (Ascend: `npu-smi info -t health -i ID`).",
        ),
        critical(
            name="AcceleratorUncorrectedErrors",
            condition="sum without (location) (" + _with_last_value("accelerator_ecc_uncorrected_total") + ") > 0",
            inhibited_by_event="xid_(48|95)",
            summary="{vendor} {device} on {instance}: {value:humanize} uncorrected memory errors",
            meaning="Wrong data in memory could not be corrected. Jobs that used this data have failed or have wrong results.",
            check="The Card dashboard shows where the errors were, and whether rows have been remapped or pages retired since.",
        ),
        warning(
            name="AcceleratorCorrectedErrorStorm",
            condition=(
                f"sum {_BY_DEVICE} (accelerator_ecc_corrected_total) > $ecc_corrected"
                f' or sum {_BY_DEVICE} (accelerator_ecc_corrected_total{{location=~"sram.*"}}) > $ecc_corrected_sram'
            ),
            pending_period="5m",
            summary="{vendor} {device} on {instance}: {value:humanize} corrected memory errors",
            meaning="The card has corrected many memory errors. Uncorrected errors often follow, and each correction takes time.",
            check="See how fast the number of errors grows.",
        ),
        critical(
            name="AcceleratorRowRemapFailed",
            condition=_with_last_value("accelerator_row_remap_failed") + " == 1",
            summary="{vendor} {device} on {instance} has no spare memory rows left",
            meaning="The card could not replace a bad memory row with a spare row.",
            check="Look at `accelerator_remapped_rows`.",
        ),
        warning(
            name="AcceleratorResetNeededForMemory",
            condition="accelerator_row_remap_pending == 1 or accelerator_retired_pages_pending == 1",
            pending_period="5m",
            inhibited_by=("AcceleratorUncorrectedErrors",),
            summary="{vendor} {device} on {instance} needs a reset to take bad memory out of use",
            meaning="Bad memory was found and stays in use until the card is reset.",
            check="Look at the card's uncorrected memory errors.",
        ),
        warning(
            name="AcceleratorMemoryWearingOut",
            condition=(
                f"sum {_BY_DEVICE} (accelerator_retired_pages) > $retired_pages"
                f" or sum {_BY_DEVICE} (accelerator_remapped_rows) >= $remapped_rows"
            ),
            pending_period="5m",
            summary="{vendor} {device} on {instance}: {value} memory pages or rows are out of use",
            meaning="The card has taken much of its memory out of use.",
            check="See how fast the number of pages or rows grows.",
        ),
        warning(
            name="AcceleratorLinkDown",
            condition=(
                "last_over_time(accelerator:link_up:most[1h])"
                " - on (cluster, job, instance, id) group_right () sum without (link) (accelerator_link_up) > 0"
                " and count without (link) (accelerator_link_up == 0 unless accelerator:link_up:flapping)"
            ),
            pending_period="5m",
            summary="{value} links of {vendor} {device} on {instance} are down",
            meaning="Links to other devices or to the network were up and are now down. Jobs on several cards hang or become slow. The alert lasts until the links are up again. A link that flaps has its own alert.",
            check="See which links are affected (Card dashboard). Check these links' error counters, and the devices at the other ends.",
        ),
        warning(
            name="AcceleratorLinkFlapping",
            condition="count without (link) (accelerator:link_up:flapping)",
            counted_over_seconds=3600,
            summary="{value} links of {vendor} {device} on {instance} went down and up repeatedly",
            meaning="Links go down and up repeatedly. Each time, the jobs that use them stall or fail.",
            check="See which links are affected (Card dashboard), and whether other links of the same cable or module also flap. Check the links' error counters, and the devices at the other ends.",
            remedy="As for AcceleratorLinkDown.",
        ),
        warning(
            name="AcceleratorLinkErrors",
            condition=(
                "count without (link) (rate(accelerator_link_crc_errors_total[5m]) > $link_crc_per_second"
                " or increase(accelerator_link_replay_errors_total[15m]) >= 1"
                " or increase(accelerator_link_recovery_errors_total[15m]) >= 1)"
            ),
            counted_over_seconds=900,
            summary="{value} links of {vendor} {device} on {instance} have errors",
            meaning="A link resends data or is retrained. The link is slow and may fail.",
            check="See which links are affected (Card dashboard). Check both ends of these links, and the temperature of optical modules.",
            remedy="As for AcceleratorLinkDown.",
        ),
        warning(
            name="AcceleratorPcieReplays",
            condition="increase(accelerator_pcie_replays_total[15m]) / 15 > $pcie_replays_per_minute",
            pending_period="15m",
            summary="{vendor} {device} on {instance} resends {value:humanize} PCIe packets per minute",
            meaning="The PCIe link has transmission errors.",
            check="Look at `lspci -vvv` (AER), the riser and the retimer.",
            remedy="Reseat the card, or replace the riser or the retimer.",
        ),
        warning(
            name="AcceleratorPcieDegraded",
            condition=(
                "accelerator_pcie_link_width < accelerator_pcie_link_width_max"
                " or (accelerator_pcie_link_generation < accelerator_pcie_link_generation_max"
                " and on (cluster, job, instance, id) accelerator:utilization_ratio:rate5m > $busy_ratio)"
            ),
            pending_period="15m",
            summary="the PCIe link of {vendor} {device} on {instance} runs below its maximum",
            meaning="The PCIe link has fewer lanes than it should have, or runs at a lower generation although the card is busy. (Idle cards slow down their link to save power.)",
            check="In the output of `lspci -vvv`, compare LnkCap with LnkSta, for the card and the bridge above it.",
        ),
    ),
)
