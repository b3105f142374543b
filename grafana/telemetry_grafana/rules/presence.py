"""Alerts about cards that are not there: lost, fewer than expected, on the bus and unseen."""

from __future__ import annotations

from telemetry_grafana.rules.alert import AlertGroup, critical, warning

# On a node where the operator released a source, or all its cards sleep, nobody counts.
# Nor while a driver hangs, which has an alert of its own.
_NOBODY_COUNTS = 'unless on (cluster, job, instance) (telemetry_source_state{state=~"released|suspended|stuck"} == 1)'
_WHOLE = 'unless on (cluster, job, instance, id) accelerator_info{parent!=""}'
# As far back as the alert looks: while the node does not answer, the partitions of a lost card must not turn into cards.
_WHOLE_LATELY = 'unless on (cluster, job, instance, id) last_over_time(accelerator_info{parent!=""}[5m])'
# Whole cards that telemetry knows, lost ones included: those have an alert of their own. Once each, whoever sends them.
_KNOWN = f"count by (cluster, job, instance, vendor) (group by (cluster, job, instance, vendor, id) (accelerator_up {_WHOLE}))"


# Of a node whose daemon began anew within the week, without what it remembered.
_BEFORE = "last_over_time(instance:accelerators:before[15m])"
# Where a source fails, that is why none is told of, and has an alert of its own.
_NOW = f"(instance:accelerators:known or 0 * {_BEFORE} unless on (cluster, job, instance) (telemetry_source_up == 0))"


def _more_than(metric: str, node: str, known: str) -> str:
    """The metric if it is more than `known` of that node, where no series counts as 0."""
    known_or_none = f"({known} or 0 * max by ({node}) ({metric}))"
    return f"{metric} > on ({node}) group_left () {known_or_none} {_NOBODY_COUNTS}"


# Another job may read them: in Kubernetes a node has a pod for each vendor.
_NOT_LISTED = _more_than(
    "telemetry_pci_devices", "cluster, instance, vendor", f"max by (cluster, instance, vendor) ({_KNOWN})"
)

PRESENCE = AlertGroup(
    "telemetry-presence",
    "Cards that are not there",
    (
        critical(
            name="AcceleratorLost",
            # A restart of the daemon is no news of the card, and a card's partitions are lost with it.
            condition=f"last_over_time(accelerator_up[5m]) == 0 {_WHOLE_LATELY} unless accelerator:up:flapping",
            hold="3m",
            held_back_by_event="xid_79",
            summary="{vendor} {device} ({model}) on {instance} is lost",
            meaning="A source that listed the card works and does not list it any more: it fell off the bus, its driver gave it up, or it was taken out. A partition that goes while its card stays is no loss.",
            check="`lspci`, `dmesg` (NVIDIA: Xid 79), the vendor's tool. The label `id` names the card, whatever numbers the others have now.",
            remedy="Drain the node and power-cycle it; a reboot alone often does not bring the card back. A card taken out for good: `telemetry forget ID`.",
        ),
        critical(
            name="AcceleratorFlapping",
            condition=f"accelerator:up:flapping and last_over_time(accelerator_up[5m]) {_WHOLE_LATELY}",
            counted_over_seconds=1800,  # so long after the last change it has ended, and AcceleratorLost looks again
            summary="{vendor} {device} ({model}) on {instance} is lost and comes back again and again",
            meaning="Within an hour the card was lost and back three times, or was away for more than a tenth of the hour and was lost again after it came back. AcceleratorLost is silent meanwhile. It ends half an hour after the card was last lost or came back.",
            check="The history of `accelerator_up` (dashboard Card), `dmesg` (PCIe AER, NVIDIA: Xid 79), power and temperature before each loss.",
            remedy="Drain the node. Reseat the card, its riser and its power cables; repeated: have it replaced.",
        ),
        critical(
            name="AcceleratorsFewerThanExpected",
            condition=_more_than("telemetry_devices_expected", "cluster, job, instance, vendor", _KNOWN),
            hold="10m",
            summary="{instance} should have {value} {vendor} cards and has fewer",
            meaning="The node has fewer cards than `expect.devices` says, even counting those of AcceleratorLost: one was missing from the start, or was forgotten, or no source of that vendor works.",
            check="`telemetry snapshot` and `lspci`; `telemetry_pci_devices` says whether the bus has them.",
            remedy="As for AcceleratorLost. Where the node was changed, change `expect.devices`.",
        ),
        warning(
            name="AcceleratorNotListed",
            condition=_NOT_LISTED,
            hold="15m",
            summary="{instance} has {value} {vendor} cards on the bus, and telemetry lists fewer",
            meaning="A card is on the PCI bus, but no tool or library lists it: no driver is bound to it, the driver gave up on it, or the vendor's tool is not installed, or fails.",
            check="`lspci -k` shows the driver of each card; `telemetry doctor` shows which sources were found.",
            remedy="Install the vendor's tool or driver; a card that others of its kind see but this one does not: power-cycle the node.",
        ),
        warning(
            name="AcceleratorsFewerThanBefore",
            condition=(
                f"{_BEFORE} > {_NOW} and on (cluster, job, instance) telemetry_build_info"
                f" unless on (cluster, job, instance, vendor) telemetry_devices_expected"
                f" unless on (cluster, instance, vendor) ({_NOT_LISTED}) {_NOBODY_COUNTS}"
            ),
            hold="15m",
            summary="{instance} had {value} {vendor} cards before its daemon began anew, and has fewer",
            meaning="The daemon lost what it remembered (a new image of the node, a pod without a volume for its state), and the node has fewer cards than it told of before. A card that went meanwhile is not known any more, so AcceleratorLost cannot tell. It ends once there are as many, or seven days after the state was last lost; `expect.devices` tells for ever.",
            check="`lspci`, `dmesg`, the vendor's tool; which cards there were: `accelerator_info` of the time before.",
            remedy="As for AcceleratorLost. Where the node is to have fewer cards, or is another machine under the same name: say so in `expect.devices`, which ends this alert. Keep the state directory on a disk that outlives the daemon (Helm: `stateHostPath`).",
        ),
    ),
)
