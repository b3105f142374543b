"""Contradictions between the PCI bus, what each source lists, and the devices that are told in the end. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import digits

from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.doctor.machine import DeviceNode, Machine
from telemetry_daemon.polling.cross_check import WHERE as PCI_BUS
from telemetry_exporters.text import named
from telemetry_parsers.model import Device, MergedDevice

_LOG = "see the kernel's log (dmesg), and whether this process may see only some of them (CUDA_VISIBLE_DEVICES and the like)"


@dataclass(frozen=True, slots=True)
class Listing:
    """The cards of one vendor that a source listed; `slots` are all of theirs, or none where a card has no address.

    `is_told` says that the source's own problems name the cards that it lacks.
    """

    source: str
    vendor: str
    cards: int
    slots: frozenset[str] = frozenset()
    is_told: bool = False


def listings(source: str, devices: Iterable[Device], *, is_told: bool) -> Iterator[Listing]:
    """What a source listed, by vendor; what is in one slot is one card."""
    whole = [device for device in devices if device.parent is None]
    for vendor in sorted({device.vendor for device in whole}):
        addresses = [device.bus_id for device in whole if device.vendor == vendor]
        slots = frozenset(_slot(address) for address in addresses if address)
        if all(addresses):
            yield Listing(source, vendor, len(slots), slots, is_told)
        else:
            yield Listing(source, vendor, len(addresses), is_told=is_told)


def all_given(machine: Machine, listed: Sequence[Listing], expected: Mapping[str, int]) -> tuple[Listing, ...]:
    """What lacks cards of the bus and has all that the container was given: as many as it has numbered nodes, or as expected."""
    if not machine.container:
        return ()
    return tuple(
        one
        for one in listed
        if one.is_told and one.cards in {expected.get(one.vendor), *_numbered(machine.nodes_of(one.vendor))}
    )


def notes(given: Iterable[Listing]) -> Iterator[str]:
    """What is said of those."""
    for one in given:
        yield f"{one.source} lists the {counted(one.cards, f'{one.vendor} card')} that the container was given; the bus has more"


def _numbered(nodes: Iterable[DeviceNode]) -> Iterable[int]:
    """How many nodes there are of each name with a number at its end."""
    return Counter(node.path.rstrip(digits) for node in nodes if node.path[-1] in digits).values()


def findings(
    on_bus: Mapping[str, Sequence[str]], listed: Sequence[Listing], devices: Sequence[MergedDevice]
) -> Iterator[Finding]:
    """Cards that only some know; `on_bus` are the addresses of each vendor's cards."""
    for one in listed:
        yield from _strangers(one, on_bus.get(one.vendor, ()))
    for first, second in combinations(listed, 2):
        if first.vendor == second.vendor:
            yield from _disagreement(first, second)
    vendors = {one.vendor for one in listed}
    counts = {vendor: len(addresses) for vendor, addresses in on_bus.items() if vendor in vendors}
    yield from _untold(counts, devices, frozenset(one.vendor for one in listed if one.is_told))
    most_listed = {vendor: max(one.cards for one in listed if one.vendor == vendor) for vendor in vendors}
    yield from _told_twice(counts, devices, most_listed)


def findings_from_afar(on_bus: Mapping[str, int], devices: Sequence[MergedDevice]) -> Iterator[Finding]:
    """Cards that another node's daemon tells twice; its sources' own problems name those that they lack.

    Its bus alone does not say which cards belong to virtual machines, sleep or were let go of.
    """
    sources = {reading.source for device in devices for reading in device.readings}
    by_source = [
        _cards_told([one for one in devices if any(reading.source == source for reading in one.readings)])
        for source in sources
    ]
    most_listed = {vendor: max((cards[vendor] for cards in by_source), default=0) for vendor in on_bus}
    yield from _told_twice(on_bus, devices, most_listed)


def _untold(on_bus: Mapping[str, int], devices: Sequence[MergedDevice], told: frozenset[str]) -> Iterator[Finding]:
    counts = _cards_told(devices)
    for vendor, cards in sorted(on_bus.items()):
        count = counts[vendor]
        if count < cards and vendor not in told:
            what = f"the bus has {counted(cards, f'{vendor} card')}, and {count} {'is' if count == 1 else 'are'} told"
            yield Finding(PCI_BUS, what, _LOG)


def _told_twice(
    on_bus: Mapping[str, int], devices: Sequence[MergedDevice], most_listed: Mapping[str, int]
) -> Iterator[Finding]:
    counts = _cards_told(devices)
    for vendor, cards in sorted(on_bus.items()):
        count = counts[vendor]
        if count > cards and count > most_listed[vendor]:
            what = f"{counted(count, f'{vendor} device')} are told, and the bus has {cards}: some are told twice"
            yield Finding(PCI_BUS, what, f"this is a bug of ours: {_REPORT}")


_REPORT = "send what `telemetry doctor --bundle FILE` writes"


def _cards_told(devices: Sequence[MergedDevice]) -> Counter[str]:
    """How many cards of each vendor the devices are: those in one slot are one, each without an address is one."""
    cards = {
        (one.vendor, _slot(one.bus_id) if one.bus_id else one.id)
        for one in devices
        if one.up and one.parent is None and not one.simulated
    }
    return Counter(vendor for vendor, _ in cards)


def _strangers(one: Listing, on_bus: Sequence[str]) -> Iterator[Finding]:
    if not on_bus:
        return  # the bus cannot be seen from here
    strangers = _alone(one.slots, frozenset(map(_slot, on_bus)))
    if strangers:
        what = f"lists {counted(len(strangers), 'card')} that the PCI bus does not have: {named(strangers)}"
        yield Finding(
            one.source,
            what,
            "a card fell off the bus, or the tool is wrong: see dmesg, then load the driver anew or reboot",
        )


def _disagreement(first: Listing, second: Listing) -> Iterator[Finding]:
    if first.is_told or second.is_told:
        return
    if not (first.slots and second.slots):
        if first.cards != second.cards:
            what = f"{first.source} lists {counted(first.cards, 'card')}, {second.source} {second.cards}"
            yield Finding(first.vendor, what, _DISAGREED)
        return
    for one, other in ((first, second), (second, first)):
        alone = _alone(one.slots, other.slots)
        if alone:
            what = f"{named(alone)}: {one.source} lists {'it' if len(alone) == 1 else 'them'}, {other.source} does not"
            yield Finding(first.vendor, what, _DISAGREED)


_DISAGREED = "see dmesg for a card that is going, and whether one of them is told to show only some cards"


def _alone(some: frozenset[str], others: frozenset[str]) -> list[str]:
    """The slots that the others lack; without their domains where one of them has none, as some tools print them."""
    if all(slot.count(":") == 2 for slot in (*some, *others)):
        return sorted(some - others)
    without = {_without_domain(slot) for slot in others}
    return sorted(slot for slot in some if _without_domain(slot) not in without)


def _without_domain(slot: str) -> str:
    return ":".join(slot.split(":")[-2:])


def _slot(address: str) -> str:
    """The address without its function: some tools number the parts of a card so."""
    return address.lower().partition(".")[0]
