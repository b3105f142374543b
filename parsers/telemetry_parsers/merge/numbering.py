"""Which device a bare number stands for: it was learnt from a tool's fuller outputs, and holds while the list is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from telemetry_parsers import bounds
from telemetry_parsers.combining import combine, has_address_or_uuid
from telemetry_parsers.merge.joining import Group, Sighting
from telemetry_parsers.model import Device, Problem, SourceReport

# The vendor, and what the numbers are counted in.
_Space = tuple[str, str]
Learnt = Mapping[_Space, Mapping[int, Device]]
# By source and space.
_Listed = dict[tuple[str, _Space], set[int | None]]


@dataclass(frozen=True, slots=True)
class Recalled:
    """The sightings with learnt addresses, the sources whose numbers match nothing learnt, and what is still learnt."""

    sightings: tuple[Sighting, ...]
    unmatched: tuple[str, ...]
    learnt: Learnt

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """A problem for each source whose numbers match nothing learnt."""
        text = (
            "the devices are not those whose addresses were read; which is which is not known until these are read anew"
        )
        return tuple((source, Problem("list of devices", text)) for source in self.unmatched)


def recall(sightings: Sequence[Sighting], fresh: Iterable[SourceReport], learnt: Learnt) -> Recalled:
    """The sightings with the addresses and uuids that were learnt for their numbers.

    Some tools number the cards anew when one is lost. So a number holds only while the list has the same numbers as when
    it was learnt. A list with other numbers is not used: it would make new devices of old ones, or mix them up. From then
    on the numbers hold no more until they are learnt anew: one card lost and another back gives the same numbers.
    """
    listed = _listed(sightings)
    learnt = {**learnt, **_forgotten(listed, fresh, learnt)}
    recalled: list[Sighting] = []
    unmatched: dict[str, None] = {}
    for sighting in sightings:
        devices = learnt.get(_space(sighting))
        index = sighting.device.index
        if devices is None or index is None or not _needs_help(sighting):
            recalled.append(sighting)
        elif not sighting.attached and listed[sighting.source, _space(sighting)] != devices.keys():
            unmatched[sighting.source] = None
        else:
            recalled.append(replace(sighting, device=combine(sighting.device, devices.get(index, sighting.device))))
    return Recalled(tuple(recalled), tuple(unmatched), learnt)


def numbers_only(sightings: Iterable[Sighting]) -> frozenset[str]:
    """The sources whose lists give no more than a number for any device."""
    listed = [sighting for sighting in sightings if not sighting.attached]
    return frozenset(sighting.source for sighting in listed) - {
        sighting.source for sighting in listed if has_address_or_uuid(sighting.device)
    }


def learn(groups: Iterable[Group]) -> dict[_Space, dict[int, Device]]:
    """Which device each number stands for, from lists in which every device has an address or a uuid."""
    learnt: dict[_Space, dict[int, Device]] = {}
    unclear: set[_Space] = set()
    for group in groups:
        named = Device(group.vendor, bus_id=group.device.bus_id, uuid=group.device.uuid)
        for sighting in group.sightings:
            index = sighting.device.index
            if sighting.attached or index is None or sighting.device.partition is not None:
                continue
            if (
                not has_address_or_uuid(named)
                or learnt.setdefault(_space(sighting), {}).setdefault(index, named) is not named
            ):
                unclear.add(_space(sighting))
    return {space: named for space, named in learnt.items() if space not in unclear}


def remember(learnt: Learnt, now: Learnt) -> Learnt:
    """What was learnt before and now; of a vendor with too many index spaces only what was learnt now."""
    both = {**learnt, **now}
    if len(both) <= bounds.MOST_INDEX_SPACES:
        return both
    spaces = Counter(vendor for vendor, _ in both)
    return {
        space: devices
        for space, devices in both.items()
        if space in now or spaces[space[0]] <= bounds.MOST_INDEX_SPACES
    }


def _forgotten(listed: _Listed, fresh: Iterable[SourceReport], learnt: Learnt) -> dict[_Space, dict[int, Device]]:
    """The index spaces whose list has other numbers than were learnt, or none; each is returned empty."""
    changed = {space for (_, space), numbers in listed.items() if space in learnt and numbers != learnt[space].keys()}
    return {space: {} for space in (*changed, *_emptied(fresh)) if space in learnt}


def _emptied(fresh: Iterable[SourceReport]) -> Iterator[_Space]:
    newest: dict[str, SourceReport] = {}
    for report in sorted(fresh, key=lambda report: report.taken):
        if report.lists_devices:
            newest[report.source] = report
    for report in newest.values():
        if not report.report.devices:
            yield report.vendor, report.report.index_space or report.source


def _listed(sightings: Iterable[Sighting]) -> _Listed:
    listed: _Listed = {}
    for sighting in sightings:
        if not sighting.attached and sighting.device.partition is None:
            listed.setdefault((sighting.source, _space(sighting)), set()).add(sighting.device.index)
    return listed


def _space(sighting: Sighting) -> _Space:
    """The index space of a sighting: within it, a number stands for one device."""
    return sighting.device.vendor, sighting.index_space or sighting.source


def _needs_help(sighting: Sighting) -> bool:
    return sighting.device.partition is None and not has_address_or_uuid(sighting.device)
