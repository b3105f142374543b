"""Findings about cards: drivers, device nodes, contradicting sources, and faults."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from string import digits

from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.doctor.machine import DeviceNode, Machine, node_patterns
from telemetry_daemon.polling.pci_bus import PCI_BUS
from telemetry_exporters.judgement.checkup import device_name
from telemetry_exporters.judgement.verdict import Severity, judge
from telemetry_exporters.text import first_names
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Device, MergedDevice, Snapshot, SourceStatus
from telemetry_parsers.states import UNSUCCESSFUL
from telemetry_parsers.vendors import VENDOR_BY_WORD

_DEVICE_NODES = "device nodes"
_READABLE_BY_GROUP = 0o040
# Maps drivers that no tool supports to remedies. The empty string means "no driver".
_DRIVER_REMEDIES = {
    "": "install or load the vendor's driver on the host; dmesg shows why the kernel does not use the driver",
    "nouveau": "install the nvidia driver, disable nouveau in /etc/modprobe.d, and reboot",
    "radeon": (
        "if amdgpu supports the card, boot with radeon.si_support=0 radeon.cik_support=0 amdgpu.si_support=1 "
        "amdgpu.cik_support=1; older cards can only drive displays"
    ),
}
_DENIAL_REASONS = {errno.EACCES: "owner, group or mode forbid access", errno.EPERM: "the device cgroup forbids access"}
_TOO_FEW_REMEDY = "see dmesg, and check whether a variable such as CUDA_VISIBLE_DEVICES hides cards from this process"
_NOT_ON_BUS_REMEDY = "a card fell off the bus, or the tool is wrong: see dmesg, then reload the driver or reboot"
_DISAGREEMENT_REMEDY = "see dmesg for a failing card, and check whether a source is configured to show only some cards"
_BUG_REMEDY = "this is a bug in device telemetry: send the file that `telemetry doctor --bundle FILE` writes"


@dataclass(frozen=True, slots=True)
class VendorSources:
    """A vendor's source names, grouped by state."""

    vendor: str
    successful: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    is_switched_off: bool = False

    @property
    def is_working(self) -> bool:
        """Return whether the vendor's cards are read or paused, and no source has a problem."""
        return bool(self.successful or self.paused) and not self.failed and not self.incomplete


def vendor_sources(snapshot: Snapshot, vendor: str, complete_sources: Collection[str] = ()) -> VendorSources:
    """Group a vendor's sources by state. The sources in `complete_sources` do not count as `incomplete`."""
    devices = [device for device in snapshot.devices if device.vendor == vendor and device.up]
    reading_sources = {reading.source for device in devices for reading in device.readings}
    statuses = [status for status in snapshot.sources if status.vendor == vendor or status.source in reading_sources]
    states = {status.state for status in statuses}

    def source_names(is_selected: Callable[[SourceStatus], bool]) -> tuple[str, ...]:
        return tuple(status.source for status in statuses if is_selected(status))

    return VendorSources(
        vendor,
        successful=source_names(lambda status: status.state == "ok" and status.source in reading_sources),
        missing=source_names(lambda status: status.state == "missing"),
        failed=source_names(lambda status: status.state in UNSUCCESSFUL),
        incomplete=source_names(
            lambda status: (
                status.source not in complete_sources and any(problem.where == PCI_BUS for problem in status.problems)
            )
        ),
        paused=source_names(lambda status: status.state in ("suspended", "released")),
        is_switched_off="disabled" in states and states <= {"disabled", "missing", "not_mine"},
    )


def device_fault_findings(snapshots: Sequence[Snapshot], recordings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each fault of a device. `recordings` maps causes of recordings to their paths."""
    reported_faults: set[tuple[str, str]] = set()
    for snapshot in snapshots:
        verdict = judge(snapshot)
        for device in snapshot.devices:
            address = f" ({device.bus_id})" if device.bus_id else ""
            faults = [condition for condition in verdict[device.id] if condition.severity is Severity.BAD]
            for condition in faults:
                if (device.id, condition.meaning) not in reported_faults:
                    path = recordings.get(condition.word)
                    replay = f"; telemetry top --replay {path} shows the readings before the fault" if path else ""
                    problem = f"{condition.headline}{address}: {condition.meaning}"
                    yield Finding(device_name(device), problem, condition.remedy + replay)
            reported_faults |= {(device.id, condition.meaning) for condition in faults}


def missing_card_findings(snapshots: Sequence[Snapshot], expected: Mapping[str, int]) -> Iterator[Finding]:
    """Yield a finding for each vendor with fewer cards than expected."""
    for vendor, expected_count in sorted(expected.items()):
        count = max(present_device_counts(snapshot)[vendor] for snapshot in snapshots)
        lost_count = max(
            sum(device.up is False for device in snapshot.devices if device.vendor == vendor and device.parent is None)
            for snapshot in snapshots
        )
        is_paused = any(vendor_sources(snapshot, vendor).paused for snapshot in snapshots)
        if count + lost_count < expected_count and not is_paused:
            problem = f"{counted(expected_count, f'{vendor} device')} {'is' if expected_count == 1 else 'are'} expected, {count} found"
            yield Finding("expect.devices", problem, "check `lspci` and `dmesg`, or correct expect.devices")


def present_device_counts(snapshot: Snapshot) -> Counter[str]:
    """Return the number of each vendor's cards that are up. Simulated cards do not count."""
    return Counter(
        device.vendor for device in snapshot.devices if device.up and device.parent is None and not device.simulated
    )


def unread_card_findings(machine: Machine, vendors: Iterable[VendorSources]) -> Iterator[Finding]:
    """Yield findings about cards that no source reads, and about their device nodes."""
    for sources in vendors:
        if sources.is_switched_off:
            continue
        cards = [card for card in machine.host_cards if card.vendor == sources.vendor]
        for driver, remedy in _DRIVER_REMEDIES.items():
            if addresses := [card.bus_id for card in cards if card.driver == driver]:
                count = counted(len(addresses), f"{sources.vendor} card")
                problem = (
                    f"bound to the driver {driver}, which no tool supports" if driver else "without a kernel driver"
                )
                yield Finding(PCI_BUS, f"{count} {problem}: {first_names(addresses)}", remedy)
        bound_count = sum(card.driver not in _DRIVER_REMEDIES for card in cards)
        has_display_driver = any(card.driver and card.driver in _DRIVER_REMEDIES for card in cards)
        nodes = machine.nodes_of(sources.vendor)
        # Device nodes alone do not prove that a tool is missing, because a display driver may have created them.
        if not sources.is_working and (bound_count or (nodes and not has_display_driver)):
            yield from _missing_tool_findings(machine, sources, bound_count)
            if not nodes:
                yield _missing_node_finding(machine, sources.vendor)
            yield from _denied_node_findings(machine, sources.vendor, nodes)


def _missing_tool_findings(machine: Machine, sources: VendorSources, card_count: int) -> Iterator[Finding]:
    if sources.successful or sources.paused or sources.failed or not sources.missing:
        return
    hardware = counted(card_count, f"{sources.vendor} card") if card_count else f"{sources.vendor} device nodes"
    problem = f"{hardware} without readings: {', '.join(sources.missing)} not found"
    remedy = (
        "install the vendor's tools (telemetry doctor --all shows the search paths), or set "
        f"sources.{sources.missing[0]}.path"
    )
    if machine.container:
        remedy = f"{_runtime_remedy(sources.vendor)}mount the vendor's tools and libraries: docs/install.md"
    yield Finding(sources.vendor, problem, remedy)


def _missing_node_finding(machine: Machine, vendor: str) -> Finding:
    paths = node_patterns(vendor)
    remedy = "run the vendor's tool once as root to create the nodes, or reload the driver; dmesg shows the reason"
    if machine.container:
        option = f"pass the device nodes {' and '.join(paths)} with --device"
        remedy = f"{_runtime_remedy(vendor)}{option}; in Kubernetes, use the vendor's pool in the chart"
    problem = f"the driver uses the {vendor} cards, but {' and '.join(paths)} are missing"
    return Finding(_DEVICE_NODES, problem, remedy)


def _runtime_remedy(vendor: str) -> str:
    runtime = VENDOR_BY_WORD[vendor].pool.runtime_class
    return f"start the container with the vendor's runtime ({runtime}), or " if runtime else ""


def _denied_node_findings(machine: Machine, vendor: str, nodes: Sequence[DeviceNode]) -> Iterator[Finding]:
    nodes_by_cause: dict[tuple[int, str], list[DeviceNode]] = {}
    for node in nodes:
        if node.refusal_errno:
            group = node.group if node.refusal_errno == errno.EACCES else ""
            nodes_by_cause.setdefault((node.refusal_errno, group), []).append(node)
    for error, group in sorted(nodes_by_cause):
        denied_nodes = nodes_by_cause[error, group]
        reason = _DENIAL_REASONS.get(error, errno.errorcode.get(error, ""))
        paths = first_names([node.path for node in denied_nodes])
        problem = f"{machine.user} cannot open {paths} ({vendor}){f': {reason}' if reason else ''}"
        yield Finding(_DEVICE_NODES, problem, _remedy_for_denial(machine, error, denied_nodes[0]))


def _remedy_for_denial(machine: Machine, error: int, node: DeviceNode) -> str:
    if error == errno.EPERM:
        if machine.container:
            return f"add the device to the container: --device {node.path}; in Kubernetes, use the vendor's device plugin or runtime"
        return f"allow the device in a drop-in (systemctl edit telemetry): DeviceAllow={node.path} rw; then restart the service"
    if error != errno.EACCES:
        return "see dmesg, and reload the vendor's driver"
    if not node.mode & _READABLE_BY_GROUP or node.group == "root":
        return (
            f"only root may open the node (mode {node.mode:04o}, {node.owner}:{node.group}): run as root, or set the nodes' "
            'group with a udev rule (GROUP="render", MODE="0660")'
        )
    if machine.container:
        return f"start the container with the nodes' group: --group-add {node.group}; in Kubernetes: supplementalGroups"
    return (
        f"run `usermod -aG {node.group} {machine.user}` and log in again; for the service, set "
        f"SupplementaryGroups={node.group} in a drop-in (systemctl edit telemetry)"
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """The cards of one vendor that a source lists."""

    source: str
    vendor: str
    card_count: int
    slots: frozenset[str] = frozenset()
    is_incomplete: bool = False


def source_listings(source: str, devices: Iterable[Device], *, is_incomplete: bool) -> Iterator[Listing]:
    """Yield one listing for each vendor of the listed devices."""
    physical_devices = [device for device in devices if device.parent is None]
    for vendor in sorted({device.vendor for device in physical_devices}):
        addresses = [device.bus_id for device in physical_devices if device.vendor == vendor]
        slots = frozenset(_pci_slot(address) for address in addresses if address) if all(addresses) else frozenset()
        yield Listing(source, vendor, len(slots) or len(addresses), slots, is_incomplete)


def listings_in_container(machine: Machine, listings: Sequence[Listing], expected: Mapping[str, int]) -> list[Listing]:
    """Return the listings that contain all cards of this container, but not all cards on the PCI bus."""
    if not machine.container:
        return []

    def possible_counts(vendor: str) -> set[int | None]:
        nodes = (node.path for node in machine.nodes_of(vendor))
        return {expected.get(vendor), *Counter(path.rstrip(digits) for path in nodes if path[-1] in digits).values()}

    return [item for item in listings if item.is_incomplete and item.card_count in possible_counts(item.vendor)]


def notes(machine: Machine, container_listings: Iterable[Listing]) -> Iterator[str]:
    """Yield notes about virtual machines, the container, and the sources that list only the container's cards."""
    assigned_cards = [card for card in machine.cards if card.is_passed_through]
    if assigned_cards:
        drivers = ", ".join(sorted({card.driver for card in assigned_cards}))
        addresses = first_names([card.bus_id for card in assigned_cards])
        yield f"assigned to virtual machines: {counted(len(assigned_cards), 'card')} ({addresses}), bound to {drivers}"
    if machine.container:
        yield f"in a container ({machine.container}): the findings about limits and device nodes apply only to the container"
    for listing in container_listings:
        yield f"{listing.source} lists the {counted(listing.card_count, f'{listing.vendor} card')} of the container; the PCI bus has more cards"


def contradiction_findings(
    bus_addresses: Mapping[str, Sequence[str]], listings: Sequence[Listing], devices: Sequence[MergedDevice]
) -> Iterator[Finding]:
    """Yield findings if the PCI bus, the sources and the merged devices contradict each other."""
    for listing in listings:
        addresses = frozenset(map(_pci_slot, bus_addresses.get(listing.vendor, ())))
        # If there are no addresses, this process cannot see the bus.
        if addresses and (unknown := _find_unmatched_slots(listing.slots, addresses)):
            problem = f"{counted(len(unknown), 'card')} listed, but not on the PCI bus: {first_names(unknown)}"
            yield Finding(listing.source, problem, _NOT_ON_BUS_REMEDY)
    for first, second in combinations(listings, 2):
        if first.vendor == second.vendor and not (first.is_incomplete or second.is_incomplete):
            yield from _disagreement_findings(first, second)
    max_listed_counts: dict[str, int] = {}
    for listing in listings:
        max_listed_counts[listing.vendor] = max(listing.card_count, max_listed_counts.get(listing.vendor, 0))
    bus_counts = {vendor: len(addresses) for vendor, addresses in bus_addresses.items() if vendor in max_listed_counts}
    merged_counts = _card_counts(devices)
    incomplete_vendors = {listing.vendor for listing in listings if listing.is_incomplete}
    for vendor, bus_count in sorted(bus_counts.items()):
        if merged_counts[vendor] < bus_count and vendor not in incomplete_vendors:
            problem = f"{counted(bus_count, f'{vendor} card')} on the PCI bus, {merged_counts[vendor]} reported"
            yield Finding(PCI_BUS, problem, _TOO_FEW_REMEDY)
    yield from _duplicate_findings(bus_counts, merged_counts, max_listed_counts)


def remote_contradiction_findings(bus_counts: Mapping[str, int], devices: Sequence[MergedDevice]) -> Iterator[Finding]:
    """Yield a finding for each vendor whose cards are reported twice."""
    devices_by_source: dict[str, list[MergedDevice]] = {}
    for device in devices:
        for source in {reading.source for reading in device.readings}:
            devices_by_source.setdefault(source, []).append(device)
    source_counts = [_card_counts(source_devices) for source_devices in devices_by_source.values()]
    max_listed_counts = {vendor: max((cards[vendor] for cards in source_counts), default=0) for vendor in bus_counts}
    yield from _duplicate_findings(bus_counts, _card_counts(devices), max_listed_counts)


def _duplicate_findings(
    bus_counts: Mapping[str, int], merged_counts: Counter[str], max_listed_counts: Mapping[str, int]
) -> Iterator[Finding]:
    for vendor, bus_count in sorted(bus_counts.items()):
        count = merged_counts[vendor]
        if count > bus_count and count > max_listed_counts[vendor]:
            problem = (
                f"{counted(count, f'{vendor} device')} reported, {bus_count} on the PCI bus: some are reported twice"
            )
            yield Finding(PCI_BUS, problem, _BUG_REMEDY)


def _card_counts(devices: Iterable[MergedDevice]) -> Counter[str]:
    physical_devices = (device for device in devices if device.up and device.parent is None and not device.simulated)
    cards = {(device.vendor, _pci_slot(device.bus_id) if device.bus_id else device.id) for device in physical_devices}
    return Counter(vendor for vendor, _ in cards)


def _disagreement_findings(first: Listing, second: Listing) -> Iterator[Finding]:
    if not (first.slots and second.slots):
        if first.card_count != second.card_count:
            problem = f"{first.source} lists {counted(first.card_count, 'card')}, {second.source} {second.card_count}"
            yield Finding(first.vendor, problem, _DISAGREEMENT_REMEDY)
        return
    for listing, other in ((first, second), (second, first)):
        if slots := _find_unmatched_slots(listing.slots, other.slots):
            problem = f"{first_names(slots)}: listed by {listing.source}, not by {other.source}"
            yield Finding(first.vendor, problem, _DISAGREEMENT_REMEDY)


def _find_unmatched_slots(slots: frozenset[str], others: frozenset[str]) -> list[str]:
    has_domains = all(slot.count(":") == 2 for slot in (*slots, *others))

    def comparable_slot(slot: str) -> str:
        return slot if has_domains else ":".join(slot.split(":")[-2:])

    other_slots = set(map(comparable_slot, others))
    return sorted(slot for slot in slots if comparable_slot(slot) not in other_slots)


def _pci_slot(address: str) -> str:
    """Return a PCI address without the function number."""
    return address.lower().partition(".")[0]
