"""What is wrong between cards, their drivers and their device nodes. Pure."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence

from telemetry_daemon.doctor.fared import Fared
from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.doctor.machine import DeviceNode, Machine, patterns_of
from telemetry_daemon.polling.cross_check import WHERE as PCI_BUS
from telemetry_daemon.readers.pci import PciDevice
from telemetry_exporters.text import named
from telemetry_parsers.vendors import VENDORS

_NODES = "device nodes"
_READABLE_BY_GROUP = 0o040
# Drivers that show a picture and no readings, and what to do for one that the vendor's tools read.
_OF_SCREENS = {
    "nouveau": "install the driver nvidia, keep nouveau from being loaded (/etc/modprobe.d), reboot",
    "radeon": (
        "boot with radeon.si_support=0 radeon.cik_support=0 amdgpu.si_support=1 amdgpu.cik_support=1, if amdgpu knows "
        "the card; an older one is for screens only"
    ),
}
_RUNTIMES = {vendor.word: vendor.pool.runtime_class for vendor in VENDORS}


def findings(machine: Machine, of_vendors: Iterable[Fared]) -> Iterator[Finding]:
    """Cards without their driver, cards that nothing reads, and device nodes that are missing or denied."""
    for fared in of_vendors:
        if fared.is_switched_off:
            continue
        cards = [card for card in machine.own_cards if card.vendor == fared.vendor]
        of_screens = [card for card in cards if card.driver in _OF_SCREENS]
        bound = [card for card in cards if card.driver and card not in of_screens]
        yield from _without_driver([card for card in cards if not card.driver], fared.vendor)
        yield from _of_screens(of_screens, fared.vendor)
        nodes = machine.nodes_of(fared.vendor)
        # Nodes beside nothing but such cards are theirs.
        if fared.is_well or not (bound or (nodes and not of_screens)):
            continue
        yield from _unread(machine, fared, len(bound))
        if bound and not nodes:
            yield _no_nodes(machine, fared.vendor)
        yield from _denied(machine, fared.vendor, [node for node in nodes if node.refusal])


def notes(machine: Machine) -> Iterator[str]:
    """What is as it should be and explains much."""
    given = [card for card in machine.cards if card.given_away]
    if given:
        drivers = ", ".join(sorted({card.driver for card in given}))
        are = "belongs to a virtual machine" if len(given) == 1 else "belong to virtual machines"
        yield f"{counted(len(given), 'card')} ({named([card.bus_id for card in given])}) {are}: bound to {drivers}"
    if machine.container:
        yield f"in a container ({machine.container}): what is said of limits and device nodes holds for it alone"


def _without_driver(cards: Sequence[PciDevice], vendor: str) -> Iterator[Finding]:
    if not cards:
        return
    has = "has no kernel driver" if len(cards) == 1 else "have no kernel driver"
    what = f"{counted(len(cards), f'{vendor} card')} {has}: {named([card.bus_id for card in cards])}"
    yield Finding(
        PCI_BUS, what, "install or load the vendor's driver on the host; dmesg says why the kernel did not take it"
    )


def _of_screens(cards: Sequence[PciDevice], vendor: str) -> Iterator[Finding]:
    by_driver: Mapping[str, list[str]] = {
        driver: [card.bus_id for card in cards if card.driver == driver] for driver in _OF_SCREENS
    }
    for driver, addresses in by_driver.items():
        if addresses:
            what = (
                f"{driver} is the driver of {counted(len(addresses), f'{vendor} card')}, and no tool reads through it: "
                f"{named(addresses)}"
            )
            yield Finding(PCI_BUS, what, _OF_SCREENS[driver])


def _unread(machine: Machine, fared: Fared, cards: int) -> Iterator[Finding]:
    if fared.read_by or fared.asleep or fared.bad or not fared.missing:
        return
    there = counted(cards, f"{fared.vendor} card") if cards else f"{fared.vendor} device nodes"
    what = f"the node has {there}, and none is read: {', '.join(fared.missing)} not found"
    remedy = (
        f"install the vendor's tools (telemetry doctor --all shows where they are looked for), or set "
        f"sources.{fared.missing[0]}.path"
    )
    if machine.container:
        remedy = f"{_by_runtime(fared.vendor)}mount the vendor's tools and libraries: docs/install.md"
    yield Finding(fared.vendor, what, remedy)


def _no_nodes(machine: Machine, vendor: str) -> Finding:
    paths = patterns_of(vendor)
    what = f"the kernel's driver has the {vendor} cards, and there is no {' and no '.join(paths)}"
    if not machine.container:
        remedy = (
            "run the vendor's tool once as root, which makes them, or load the driver anew; dmesg says why it made none"
        )
        return Finding(_NODES, what, remedy)
    given = f"give it each of {' '.join(paths)} with --device"
    return Finding(_NODES, what, f"{_by_runtime(vendor)}{given}; in Kubernetes use the chart's pool of the vendor")


def _by_runtime(vendor: str) -> str:
    runtime = _RUNTIMES.get(vendor, "")
    return f"start the container with the vendor's runtime ({runtime}), or " if runtime else ""


def _denied(machine: Machine, vendor: str, nodes: Sequence[DeviceNode]) -> Iterator[Finding]:
    for error in sorted({node.refusal for node in nodes}):
        alike = [node for node in nodes if node.refusal == error]
        groups = sorted({node.group for node in alike}) if error == errno.EACCES else [""]
        for group in groups:
            those = [node for node in alike if not group or node.group == group]
            paths = named([node.path for node in those])
            what = (
                f"{machine.user} may not open {paths} ({vendor}): {_REASONS.get(error, errno.errorcode.get(error, ''))}"
            )
            yield Finding(_NODES, what.rstrip(": "), _remedy(machine, error, those))


_REASONS = {
    errno.EACCES: "owner, group or mode",
    errno.EPERM: "the list of devices that are allowed here",
}


def _remedy(machine: Machine, error: int, nodes: Sequence[DeviceNode]) -> str:
    first = nodes[0]
    if error == errno.EPERM:
        if machine.container:
            return f"give the container the device: --device {first.path}; in Kubernetes through the vendor's device plugin or runtime"
        return (
            f"allow it in a drop-in (systemctl edit telemetry): DeviceAllow={first.path} rw; then restart the service"
        )
    if error != errno.EACCES:
        return "look into the kernel's log (dmesg), and load the vendor's driver anew"
    if not first.mode & _READABLE_BY_GROUP or first.group == "root":
        return (
            f"mode {first.mode:04o} of {first.owner}:{first.group} lets root alone in: run as root, or give the nodes to a "
            'group with a udev rule (GROUP="render", MODE="0660")'
        )
    if machine.container:
        return f"start the container with the nodes' group: --group-add {first.group}; in Kubernetes supplementalGroups"
    return (
        f"usermod -aG {first.group} {machine.user} and log in anew; for the service SupplementaryGroups={first.group} "
        "in a drop-in (systemctl edit telemetry)"
    )
