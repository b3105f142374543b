"""Contradictions between the PCI bus, what each source lists, and the devices that are told in the end. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from telemetry_daemon.doctor.findings import Finding, counted, named
from telemetry_parsers.model import Device, MergedDevice

PCI_BUS = "PCI bus"
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
    yield from merged(
        {vendor: len(addresses) for vendor, addresses in on_bus.items() if vendor in vendors},
        devices,
        {vendor: max(one.cards for one in listed if one.vendor == vendor) for vendor in vendors},
        frozenset(one.vendor for one in listed if one.is_told),
    )


def merged(
    on_bus: Mapping[str, int],
    devices: Sequence[MergedDevice],
    most_listed: Mapping[str, int],
    told: frozenset[str] = frozenset(),
) -> Iterator[Finding]:
    """Vendors of which the bus has another number of cards than is told."""
    counts = _cards_told(devices)
    for vendor, cards in sorted(on_bus.items()):
        count = counts[vendor]
        if count < cards and vendor not in told:
            what = f"the bus has {counted(cards, f'{vendor} card')}, and {count} {'is' if count == 1 else 'are'} told"
            yield Finding(PCI_BUS, what, _LOG)
        if count > cards and count > most_listed.get(vendor, count):
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
