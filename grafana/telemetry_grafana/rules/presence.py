"""Alerts about cards that are not there: lost, fewer than expected, on the bus and unseen."""

from __future__ import annotations

from telemetry_grafana.rules.alert import Alert, AlertGroup

# On a node where the operator released a source, or all its cards sleep, nobody counts.
_ON_PURPOSE = 'unless on (job, instance) (telemetry_source_state{state=~"released|suspended"} == 1)'


def _listed(otherwise: str) -> str:
    # Targets may have labels of their own, such as a cluster's name, which a bare `or` would compare as well.
    return f"(sum by (job, instance, vendor) (telemetry_devices) or on (job, instance, vendor) {otherwise} * 0)"


PRESENCE = AlertGroup(
    "telemetry-presence",
    "Cards that are not there",
    (
        Alert(
            name="AcceleratorLost",
            severity="critical",
            condition="accelerator_up == 0",
            hold="3m",
            summary="{vendor} {device} ({model}) on {instance} is lost",
            meaning="A source that listed the card works and does not list it any more: it fell off the bus, its driver gave it up, or it was taken out. A partition that goes while its card stays is no loss.",
            check="`lspci`, `dmesg` (NVIDIA: Xid 79), the vendor's tool. The label `id` tells the card whatever number the others have now.",
            remedy="Drain the node and power-cycle it; a reboot alone often does not bring the card back. A card taken out for good: `telemetry forget ID`.",
        ),
        Alert(
            name="AcceleratorsFewerThanExpected",
            severity="critical",
            condition=(
                "telemetry_devices_expected > on (job, instance, vendor)"
                f" {_listed('telemetry_devices_expected')} {_ON_PURPOSE}"
            ),
            hold="10m",
            summary="{instance} should have {value} {vendor} cards and has fewer",
            meaning="The node has fewer cards than `expect.devices` says: one was missing from the start, or was forgotten.",
            check="`telemetry snapshot` and `lspci`; `telemetry_pci_devices` says whether the bus has them.",
            remedy="As for AcceleratorLost. Where the node was changed, change `expect.devices`.",
        ),
        Alert(
            name="AcceleratorNotListed",
            severity="warning",
            condition=(
                f"telemetry_pci_devices > on (job, instance, vendor) {_listed('telemetry_pci_devices')} {_ON_PURPOSE}"
            ),
            hold="15m",
            summary="{instance} has {value} {vendor} cards on the bus, and telemetry lists fewer",
            meaning="A card is on the PCI bus, but no tool or library lists it: no driver is bound to it, the driver gave up on it, or the vendor's tool is not installed.",
            check="`lspci -k` shows the driver of each card; `telemetry doctor` shows which sources were found.",
            remedy="Install the vendor's tool or driver; a card that others of its kind see but this one does not: power-cycle the node.",
        ),
    ),
)
