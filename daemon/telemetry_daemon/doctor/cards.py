"""Findings about cards: drivers, device nodes, differences between bus and sources, and faults that cards report. Pure."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from string import digits

from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.doctor.machine import DeviceNode, Machine, patterns_of
from telemetry_daemon.polling.pci_bus import WHERE as PCI_BUS
from telemetry_exporters.judgement.checkup import device_name
from telemetry_exporters.judgement.verdict import Severity, judge
from telemetry_exporters.text import first_names
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Device, MergedDevice, Snapshot, SourceStatus
from telemetry_parsers.states import UNSUCCESSFUL
from telemetry_parsers.vendors import BY_WORD

_NODES = "device nodes"
_READABLE_BY_GROUP = 0o040
# Remedies for a card without a driver, and for display drivers that provide no readings.
_OF_DRIVERS = {
    "": "install or load the vendor's driver on the host; dmesg says why the kernel did not take it",
    "nouveau": "install the driver nvidia, keep nouveau from being loaded (/etc/modprobe.d), reboot",
    "radeon": (
        "boot with radeon.si_support=0 radeon.cik_support=0 amdgpu.si_support=1 amdgpu.cik_support=1, if amdgpu knows "
        "the card; an older one is for screens only"
    ),
}
_REASONS = {errno.EACCES: "owner, group or mode", errno.EPERM: "the list of devices that are allowed here"}
_LOG = "see the kernel's log (dmesg), and whether this process may see only some of them (CUDA_VISIBLE_DEVICES and the like)"
_OFF_THE_BUS = "a card fell off the bus, or the tool is wrong: see dmesg, then reload the driver or reboot"
_DISAGREED = "see dmesg for a card that is going, and whether one of them is configured to show only some cards"
_BUG = "this is a bug of ours: send the file of `telemetry doctor --bundle FILE`"


@dataclass(frozen=True, slots=True)
class VendorSources:
    """A vendor's sources: those that read its cards (`read_by`), missing and failing ones, and whether all are switched off."""

    vendor: str
    read_by: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    asleep: tuple[str, ...] = ()
    is_switched_off: bool = False

    @property
    def is_well(self) -> bool:
        """Return whether the vendor's cards are read without contradiction."""
        return bool(self.read_by or self.asleep) and not self.bad and not self.incomplete


def sources_of(snapshot: Snapshot, vendor: str, complete: Collection[str] = ()) -> VendorSources:
    """Return the vendor's sources. `complete` are those that list all cards that they can, whatever the bus shows."""
    of_vendor = [device for device in snapshot.devices if device.vendor == vendor and device.up]
    readers = {reading.source for device in of_vendor for reading in device.readings}
    ours = [status for status in snapshot.sources if status.vendor == vendor or status.source in readers]
    states = {status.state for status in ours}

    def names(is_meant: Callable[[SourceStatus], bool]) -> tuple[str, ...]:
        return tuple(status.source for status in ours if is_meant(status))

    return VendorSources(
        vendor,
        read_by=names(lambda status: status.state == "ok" and status.source in readers),
        missing=names(lambda status: status.state == "missing"),
        bad=names(lambda status: status.state in UNSUCCESSFUL),
        incomplete=names(
            lambda status: (
                status.source not in complete and any(problem.where == PCI_BUS for problem in status.problems)
            )
        ),
        asleep=names(lambda status: status.state in ("suspended", "released")),
        is_switched_off="disabled" in states and states <= {"disabled", "missing", "not_mine"},
    )


def broken(snapshots: Sequence[Snapshot], recorded: Mapping[str, str]) -> Iterator[Finding]:
    """Yield each fault of each device in any of the snapshots once. `recorded` is the newest recording of each cause."""
    reported: set[tuple[str, str]] = set()
    for snapshot in snapshots:
        verdict = judge(snapshot)
        for device in snapshot.devices:
            address = f" ({device.bus_id})" if device.bus_id else ""
            bad = [condition for condition in verdict[device.id] if condition.severity is Severity.BAD]
            for condition in bad:
                if (device.id, condition.meaning) not in reported:
                    path = recorded.get(condition.word)
                    before = f"; telemetry top --replay {path} shows what the tools printed before" if path else ""
                    yield Finding(
                        device_name(device),
                        f"{condition.words}{address}: {condition.meaning}",
                        condition.remedy + before,
                    )
            reported |= {(device.id, condition.meaning) for condition in bad}


def too_few(snapshots: Sequence[Snapshot], expected: Mapping[str, int]) -> Iterator[Finding]:
    """Yield vendors with fewer cards than expected. Suspended and lost cards are reported elsewhere."""
    for vendor, wanted in sorted(expected.items()):
        count = max(present(snapshot)[vendor] for snapshot in snapshots)
        lost = max(
            sum(device.up is False for device in snapshot.devices if device.vendor == vendor and device.parent is None)
            for snapshot in snapshots
        )
        if count + lost < wanted and not any(sources_of(snapshot, vendor).asleep for snapshot in snapshots):
            what = f"{counted(wanted, f'{vendor} device')} {'is' if wanted == 1 else 'are'} expected, and {count} found"
            yield Finding("expect.devices", what, "see `lspci` and `dmesg` for the others, or mend expect.devices")


def present(snapshot: Snapshot) -> Counter[str]:
    """Return the number of whole devices of each vendor that are up."""
    return Counter(
        device.vendor for device in snapshot.devices if device.up and device.parent is None and not device.simulated
    )


def unread(machine: Machine, of_vendors: Iterable[VendorSources]) -> Iterator[Finding]:
    """Yield cards without a driver, cards that no source reads, and device nodes that are missing or denied."""
    for sources in of_vendors:
        if sources.is_switched_off:
            continue
        cards = [card for card in machine.own_cards if card.vendor == sources.vendor]
        for driver, remedy in _OF_DRIVERS.items():
            if addresses := [card.bus_id for card in cards if card.driver == driver]:
                those = counted(len(addresses), f"{sources.vendor} card")
                what = f"{driver} is the driver of {those}, and no tool reads through it"
                if not driver:
                    what = f"{those} {'has' if len(addresses) == 1 else 'have'} no kernel driver"
                yield Finding(PCI_BUS, f"{what}: {first_names(addresses)}", remedy)
        bound = sum(card.driver not in _OF_DRIVERS for card in cards)
        is_of_screens = any(card.driver and card.driver in _OF_DRIVERS for card in cards)
        nodes = machine.nodes_of(sources.vendor)
        # If the only cards are display adapters, the nodes belong to them.
        if not sources.is_well and (bound or (nodes and not is_of_screens)):
            yield from _unread(machine, sources, bound)
            if not nodes:
                yield _without_nodes(machine, sources.vendor)
            yield from _denied(machine, sources.vendor, nodes)


def _unread(machine: Machine, sources: VendorSources, cards: int) -> Iterator[Finding]:
    if sources.read_by or sources.asleep or sources.bad or not sources.missing:
        return
    there = counted(cards, f"{sources.vendor} card") if cards else f"{sources.vendor} device nodes"
    what = f"the node has {there}, and none is read: {', '.join(sources.missing)} not found"
    remedy = (
        "install the vendor's tools (telemetry doctor --all shows where they are looked for), or set "
        f"sources.{sources.missing[0]}.path"
    )
    if machine.container:
        remedy = f"{_by_runtime(sources.vendor)}mount the vendor's tools and libraries: docs/install.md"
    yield Finding(sources.vendor, what, remedy)


def _without_nodes(machine: Machine, vendor: str) -> Finding:
    paths = patterns_of(vendor)
    remedy = "run the vendor's tool once as root, which makes them, or reload the driver; dmesg says why it made none"
    if machine.container:
        given = f"give it each of {' '.join(paths)} with --device"
        remedy = f"{_by_runtime(vendor)}{given}; in Kubernetes use the chart's pool of the vendor"
    what = f"the kernel's driver has the {vendor} cards, and there is no {' and no '.join(paths)}"
    return Finding(_NODES, what, remedy)


def _by_runtime(vendor: str) -> str:
    runtime = BY_WORD[vendor].pool.runtime_class
    return f"start the container with the vendor's runtime ({runtime}), or " if runtime else ""


def _denied(machine: Machine, vendor: str, nodes: Sequence[DeviceNode]) -> Iterator[Finding]:
    alike: dict[tuple[int, str], list[DeviceNode]] = {}
    for node in nodes:
        if node.refusal:
            group = node.group if node.refusal == errno.EACCES else ""
            alike.setdefault((node.refusal, group), []).append(node)
    for error, group in sorted(alike):
        those = alike[error, group]
        reason = _REASONS.get(error, errno.errorcode.get(error, ""))
        what = f"{machine.user} may not open {first_names([node.path for node in those])} ({vendor})"
        yield Finding(_NODES, f"{what}: {reason}" if reason else what, _remedy(machine, error, those[0]))


def _remedy(machine: Machine, error: int, node: DeviceNode) -> str:
    if error == errno.EPERM:
        if machine.container:
            return f"give the container the device: --device {node.path}; in Kubernetes through the vendor's device plugin or runtime"
        return f"allow it in a drop-in (systemctl edit telemetry): DeviceAllow={node.path} rw; then restart the service"
    if error != errno.EACCES:
        return "look into the kernel's log (dmesg), and reload the vendor's driver"
    if not node.mode & _READABLE_BY_GROUP or node.group == "root":
        return (
            f"mode {node.mode:04o} of {node.owner}:{node.group} lets root alone in: run as root, or give the nodes to a "
            'group with a udev rule (GROUP="render", MODE="0660")'
        )
    if machine.container:
        return f"start the container with the nodes' group: --group-add {node.group}; in Kubernetes supplementalGroups"
    return (
        f"usermod -aG {node.group} {machine.user} and log in again; for the service SupplementaryGroups={node.group} "
        "in a drop-in (systemctl edit telemetry)"
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """The cards of one vendor that a source listed. `slots` is empty if a card has no address; `names_missing` if the source itself reports missing cards."""

    source: str
    vendor: str
    cards: int
    slots: frozenset[str] = frozenset()
    names_missing: bool = False


def listings(source: str, devices: Iterable[Device], *, names_missing: bool) -> Iterator[Listing]:
    """Yield the cards that a source listed, by vendor. Devices in one slot are one card."""
    whole = [device for device in devices if device.parent is None]
    for vendor in sorted({device.vendor for device in whole}):
        addresses = [device.bus_id for device in whole if device.vendor == vendor]
        slots = frozenset(_slot(address) for address in addresses if address) if all(addresses) else frozenset()
        yield Listing(source, vendor, len(slots) or len(addresses), slots, names_missing)


def given_to_container(machine: Machine, listed: Sequence[Listing], expected: Mapping[str, int]) -> tuple[Listing, ...]:
    """Return the listings without all cards of the bus that contain all that the container was given: as many as it has numbered nodes, or as expected."""
    if not machine.container:
        return ()

    def given(vendor: str) -> set[int | None]:
        nodes = (node.path for node in machine.nodes_of(vendor))
        return {expected.get(vendor), *Counter(path.rstrip(digits) for path in nodes if path[-1] in digits).values()}

    return tuple(listing for listing in listed if listing.names_missing and listing.cards in given(listing.vendor))


def notes(machine: Machine, given: Iterable[Listing]) -> Iterator[str]:
    """Yield explanations of a healthy state: cards of virtual machines, and cards given to the container."""
    away = [card for card in machine.cards if card.is_passed_through]
    if away:
        drivers = ", ".join(sorted({card.driver for card in away}))
        are = "belongs to a virtual machine" if len(away) == 1 else "belong to virtual machines"
        yield f"{counted(len(away), 'card')} ({first_names([card.bus_id for card in away])}) {are}: bound to {drivers}"
    if machine.container:
        yield f"in a container ({machine.container}): the findings about limits and device nodes apply to it alone"
    for listing in given:
        yield f"{listing.source} lists the {counted(listing.cards, f'{listing.vendor} card')} that the container was given; the bus has more"


def contradictions(
    on_bus: Mapping[str, Sequence[str]], listed: Sequence[Listing], devices: Sequence[MergedDevice]
) -> Iterator[Finding]:
    """Yield cards that only some of bus, sources and merged devices contain. `on_bus` are the addresses of each vendor's cards."""
    for listing in listed:
        addresses = frozenset(map(_slot, on_bus.get(listing.vendor, ())))
        if addresses and (strangers := _alone(listing.slots, addresses)):  # otherwise the bus is not visible from here
            what = f"lists {counted(len(strangers), 'card')} that the PCI bus does not have: {first_names(strangers)}"
            yield Finding(listing.source, what, _OFF_THE_BUS)
    for first, second in combinations(listed, 2):
        if first.vendor == second.vendor and not (first.names_missing or second.names_missing):
            yield from _disagreement(first, second)
    most_listed: dict[str, int] = {}
    for listing in listed:
        most_listed[listing.vendor] = max(listing.cards, most_listed.get(listing.vendor, 0))
    counts = {vendor: len(addresses) for vendor, addresses in on_bus.items() if vendor in most_listed}
    merged = _cards(devices)
    for vendor, cards in sorted(counts.items()):
        if merged[vendor] < cards and not any(listing.names_missing for listing in listed if listing.vendor == vendor):
            what = f"{counted(cards, f'{vendor} card')} on the PCI bus, {merged[vendor]} reported"
            yield Finding(PCI_BUS, what, _LOG)
    yield from _listed_twice(counts, merged, most_listed)


def contradictions_afar(on_bus: Mapping[str, int], devices: Sequence[MergedDevice]) -> Iterator[Finding]:
    """Yield cards that another node's daemon reports twice. Missing cards are left to the problems of its sources."""
    of_source: dict[str, list[MergedDevice]] = {}
    for device in devices:
        for source in {reading.source for reading in device.readings}:
            of_source.setdefault(source, []).append(device)
    by_source = [_cards(theirs) for theirs in of_source.values()]
    most_listed = {vendor: max((cards[vendor] for cards in by_source), default=0) for vendor in on_bus}
    yield from _listed_twice(on_bus, _cards(devices), most_listed)


def _listed_twice(on_bus: Mapping[str, int], merged: Counter[str], most_listed: Mapping[str, int]) -> Iterator[Finding]:
    for vendor, cards in sorted(on_bus.items()):
        count = merged[vendor]
        if count > cards and count > most_listed[vendor]:
            what = f"{counted(count, f'{vendor} device')} reported, {cards} on the PCI bus: some are reported twice"
            yield Finding(PCI_BUS, what, _BUG)


def _cards(devices: Iterable[MergedDevice]) -> Counter[str]:
    """Return the number of cards by vendor. Devices in one slot are one card, as is each device without an address."""
    whole = (device for device in devices if device.up and device.parent is None and not device.simulated)
    cards = {(device.vendor, _slot(device.bus_id) if device.bus_id else device.id) for device in whole}
    return Counter(vendor for vendor, _ in cards)


def _disagreement(first: Listing, second: Listing) -> Iterator[Finding]:
    if not (first.slots and second.slots):
        if first.cards != second.cards:
            what = f"{first.source} lists {counted(first.cards, 'card')}, {second.source} {second.cards}"
            yield Finding(first.vendor, what, _DISAGREED)
        return
    for listing, other in ((first, second), (second, first)):
        if alone := _alone(listing.slots, other.slots):
            what = f"{first_names(alone)}: {listing.source} lists {'it' if len(alone) == 1 else 'them'}, {other.source} does not"
            yield Finding(first.vendor, what, _DISAGREED)


def _alone(some: frozenset[str], others: frozenset[str]) -> list[str]:
    """Return the slots that are missing in `others`. Domains are ignored if a slot has none, as some tools print them."""
    has_domains = all(slot.count(":") == 2 for slot in (*some, *others))

    def compared(slot: str) -> str:
        return slot if has_domains else ":".join(slot.split(":")[-2:])

    compared_slots = set(map(compared, others))
    return sorted(slot for slot in some if compared(slot) not in compared_slots)


def _slot(address: str) -> str:
    """Return the address without its function, which some tools use to number the parts of a card."""
    return address.lower().partition(".")[0]
