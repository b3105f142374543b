"""Which device a bare number stands for: what a tool's fuller outputs told earlier, while it still counts the same way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from telemetry_parsers.merge.joining import Group, Sighting, canonical_uuid, combine
from telemetry_parsers.model import Device, Problem

Learnt = Mapping[tuple[str, str], Mapping[int, Device]]


@dataclass(frozen=True, slots=True)
class Recalled:
    """The sightings that can be told, and the sources whose numbers say nothing any more."""

    sightings: tuple[Sighting, ...]
    strangers: tuple[str, ...]

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """What to say of the strangers."""
        text = (
            "the devices are not those whose addresses were read; which is which is not known until these are read anew"
        )
        return tuple((source, Problem("list of devices", text)) for source in self.strangers)


def recall(found: Sequence[Sighting], learnt: Learnt) -> Recalled:
    """The sightings with the addresses and uuids that were learnt for their numbers.

    Some tools number the cards anew when one is lost. So a number says something only while the list has the same ones
    as when it was learnt; a list that has others is not used: it would make new devices of old ones, or mix them up.
    """
    listed = _listed(found)
    told: list[Sighting] = []
    strangers: dict[str, None] = {}
    for sighting in found:
        known = learnt.get(_space(sighting))
        index = sighting.device.index
        if known is None or index is None or not _needs_help(sighting):
            told.append(sighting)
        elif not sighting.attached and listed[sighting.source, _space(sighting)] != known.keys():
            strangers[sighting.source] = None
        else:
            told.append(replace(sighting, device=combine(sighting.device, known.get(index, sighting.device))))
    return Recalled(tuple(told), tuple(strangers))


def learn(groups: Iterable[Group]) -> dict[tuple[str, str], dict[int, Device]]:
    """What each number stands for, of the lists in which all devices have an address or a uuid."""
    pairs: dict[tuple[str, str], dict[int, Device]] = {}
    unclear: set[tuple[str, str]] = set()
    for group in groups:
        known = Device(group.vendor, bus_id=group.device.bus_id, uuid=group.device.uuid)
        for sighting in group.sightings:
            index = sighting.device.index
            if sighting.attached or index is None or sighting.device.partition is not None:
                continue
            if not _is_told(known) or pairs.setdefault(_space(sighting), {}).setdefault(index, known) is not known:
                unclear.add(_space(sighting))
    return {space: known for space, known in pairs.items() if space not in unclear}


def _listed(found: Iterable[Sighting]) -> dict[tuple[str, tuple[str, str]], set[int | None]]:
    listed: dict[tuple[str, tuple[str, str]], set[int | None]] = {}
    for sighting in found:
        if not sighting.attached and sighting.device.partition is None:
            listed.setdefault((sighting.source, _space(sighting)), set()).add(sighting.device.index)
    return listed


def _space(sighting: Sighting) -> tuple[str, str]:
    """Within what a number is one device's: the vendor's cards as one tool counts them."""
    return sighting.device.vendor, sighting.index_space or sighting.source


def _needs_help(sighting: Sighting) -> bool:
    return sighting.device.partition is None and not _is_told(sighting.device)


def _is_told(device: Device) -> bool:
    return bool(device.bus_id) or canonical_uuid(device.uuid) is not None
