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
    """The whole cards of one vendor that a source listed; `addresses` are all of theirs, or none where one has no address.

    `is_told` says that the source's own problems name the cards that it lacks.
    """

    source: str
    vendor: str
    cards: int
    addresses: frozenset[str] = frozenset()
    is_told: bool = False


def listings(source: str, devices: Iterable[Device], *, is_told: bool) -> Iterator[Listing]:
    """What a source listed, by vendor."""
    whole = [device for device in devices if device.parent is None]
    for vendor, count in sorted(Counter(device.vendor for device in whole).items()):
        addresses = frozenset(_slot(one.bus_id) for one in whole if one.vendor == vendor and one.bus_id)
        yield Listing(source, vendor, count, addresses if len(addresses) == count else frozenset(), is_told)


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
    counts = Counter(one.vendor for one in devices if one.up and one.parent is None and not one.simulated)
    for vendor, cards in sorted(on_bus.items()):
        count = counts[vendor]
        if count < cards and vendor not in told:
            what = f"the bus has {counted(cards, f'{vendor} card')}, and {count} {'is' if count == 1 else 'are'} told"
            yield Finding(PCI_BUS, what, _LOG)
        if count > cards and count > most_listed.get(vendor, count):
            what = f"{counted(count, f'{vendor} device')} are told, and the bus has {cards}: some are told twice"
            yield Finding(PCI_BUS, what, f"this is a bug of ours: {_REPORT}")


_REPORT = "send what `telemetry doctor --bundle FILE` writes"


def _strangers(one: Listing, on_bus: Sequence[str]) -> Iterator[Finding]:
    if not on_bus:
        return  # the bus cannot be seen from here
    strangers = sorted(one.addresses - {_slot(address) for address in on_bus})
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
    if not (first.addresses and second.addresses):
        if first.cards != second.cards:
            what = f"{first.source} lists {counted(first.cards, 'card')}, {second.source} {second.cards}"
            yield Finding(first.vendor, what, _DISAGREED)
        return
    for one, other in ((first, second), (second, first)):
        alone = sorted(one.addresses - other.addresses)
        if alone:
            what = f"{named(alone)}: {one.source} lists {'it' if len(alone) == 1 else 'them'}, {other.source} does not"
            yield Finding(first.vendor, what, _DISAGREED)


_DISAGREED = "see dmesg for a card that is going, and whether one of them is told to show only some cards"


def _slot(address: str) -> str:
    """Bus and device: some tools know no domain, and number parts of a card as functions."""
    return ":".join(address.lower().split(":")[-2:]).partition(".")[0]
