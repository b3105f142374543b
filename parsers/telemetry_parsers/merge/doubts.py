"""A new device in the place of a known one is believed when it is reported twice: one garbled line makes no card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from telemetry_parsers.combining import canonical_uuid, combine, differ, same_slot, without_domain
from telemetry_parsers.merge.joining import Group, Sighting
from telemetry_parsers.model import Device, Identity, Problem

ENOUGH_WITNESSES = 2
# The source, the poll, and when it was taken.
Witness = tuple[str, str, float]
# The vendor, and the uuid or address that nobody knows.
Doubts = Mapping[tuple[str, str], frozenset[Witness]]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A newcomer in the place of a known device: what remains of it without its new name belongs to the `occupant`."""

    group: Group
    occupant: Identity
    problem: tuple[str, Problem]


@dataclass(slots=True)
class Weighed:
    """The doubts by the `id()` of their groups, and the witnesses to remember of every newcomer in an occupied place."""

    doubts: dict[int, Doubt] = field(default_factory=dict)
    remembered: dict[tuple[str, str], frozenset[Witness]] = field(default_factory=dict)


def weigh(newcomers: Sequence[Group], present: Iterable[Identity], before: Doubts) -> Weighed:
    """Which newcomers to doubt; `present` are the known devices that were listed a moment ago and are not now.

    Parts of a card are believed at once: they come and go at the same places.
    """
    weighed, places = Weighed(), _Places(present)
    for group in newcomers:
        name = canonical_uuid(group.device.uuid) or group.device.bus_id
        occupant = places.occupant(group.device) if name and group.device.partition is None else None
        if occupant is None or name is None:
            continue
        key = (group.vendor, name)
        witnesses_now = {
            (report.source, report.poll, report.taken)
            for report, position in group.parts
            if _is_another(report.report.devices[position], occupant)
        }
        if not witnesses_now:
            continue  # nothing says which device it is, so nothing says that it is another one
        # More witnesses are not kept: what is remembered must not grow with a device that gets no name.
        witnesses = frozenset(sorted(witnesses_now | before.get(key, frozenset()))[:ENOUGH_WITNESSES])
        weighed.remembered[key] = witnesses
        if len(witnesses) < ENOUGH_WITNESSES:
            weighed.doubts[id(group)] = Doubt(_what_is_left(group, occupant), occupant, _problem(group, occupant))
            places.free(occupant)
    return weighed


class _Places:
    """Known devices by their addresses, as every tool prints them, and by their numbers."""

    def __init__(self, present: Iterable[Identity]) -> None:
        self._held: dict[tuple[str, str | int], list[Identity]] = {}
        for identity in present:
            for place in self._of(identity):
                self._held.setdefault(place, []).append(identity)

    def occupant(self, device: Device) -> Identity | None:
        """The one known device at the same address, else the one with the same number."""
        for place in self._of(device):
            identities = self._held.get(place)
            if identities:
                return identities[0] if len(identities) == 1 else None
        return None

    def free(self, occupant: Identity) -> None:
        """Take a known device out, so that no second newcomer is taken for one in its place."""
        for place in self._of(occupant):
            self._held[place].remove(occupant)

    @staticmethod
    def _of(device: Device | Identity) -> Iterator[tuple[str, str | int]]:
        if device.bus_id:
            yield device.vendor, without_domain(device.bus_id)
        if device.index is not None:
            yield device.vendor, device.index


def _is_another(device: Device, occupant: Identity) -> bool:
    """Whether what is reported has another uuid or address than the device that is known there."""
    if differ(occupant.uuid, device.uuid):
        return True
    return bool(device.bus_id and occupant.bus_id) and not same_slot(device.bus_id or "", occupant.bus_id or "")


def _what_is_left(group: Group, occupant: Identity) -> Group:
    remaining = Group(group.vendor)
    for sighting in group.sightings:
        remaining.add(_without_another(sighting, occupant))
    return remaining


def _without_another(sighting: Sighting, occupant: Identity) -> Sighting:
    """The sighting as one of the occupant, without the parts that name another device."""
    parts = tuple(
        (report, position)
        for report, position in sighting.parts
        if not _is_another(report.report.devices[position], occupant)
    )
    occupying = Device(occupant.vendor, sighting.device.index, uuid=occupant.uuid, bus_id=occupant.bus_id)
    devices = (replace(report.report.devices[position], parent=None) for report, position in parts)
    return replace(sighting, device=reduce(combine, (*devices, occupying)), parts=parts)


def _problem(group: Group, occupant: Identity) -> tuple[str, Problem]:
    name = group.device.uuid or group.device.bus_id
    text = f"reported as {name} where {occupant.id} was: not believed before it is reported twice"
    return group.sightings[0].source, Problem(f"{occupant.vendor} {occupant.device}", text)
