"""Identifies devices that are listed by number only, from a tool's other outputs, while the list has the same numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from telemetry_parsers import bounds
from telemetry_parsers.combining import combine, has_address_or_uuid
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge.joining import Group, Sighting
from telemetry_parsers.merge.report_columns import newest_lists
from telemetry_parsers.model import Device, Problem, SourceReport

# The vendor, and what the numbers count.
_Space = tuple[str, str]
Learnt = Mapping[_Space, Mapping[int, Device]]
# By source and index space.
_Listed = dict[tuple[str, _Space], set[int | None]]


@dataclass(frozen=True, slots=True)
class Recalled:
    """Sightings with learnt addresses, sources whose numbers match no learnt number, and the valid learnt numbers."""

    sightings: tuple[Sighting, ...]
    unmatched: tuple[str, ...]
    learnt: Learnt

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """Return a problem for each source whose numbers match no learnt number."""
        text = "the list of devices has changed; its numbers cannot be matched to addresses until the addresses are read again"
        return tuple((source, Problem("list of devices", text)) for source in self.unmatched)


def recall(sightings: Sequence[Sighting], fresh: Iterable[SourceReport], learnt: Learnt) -> Recalled:
    """Return the sightings with the addresses and uuids learnt for their numbers.

    Some tools renumber the cards when one is lost. So a number is valid only while the list has the same numbers as
    when it was learnt. A list with other numbers is not used: it could mix up devices or create new ones. From then on
    the numbers are invalid until they are learnt again: a lost card and a returned card give the same numbers.
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
    """Return the sources whose lists have only a number for every device."""
    listed = [sighting for sighting in sightings if not sighting.attached]
    return frozenset(sighting.source for sighting in listed) - {
        sighting.source for sighting in listed if has_address_or_uuid(sighting.device)
    }


def learn(groups: Iterable[Group]) -> dict[_Space, dict[int, Device]]:
    """Return the device of each number, from lists in which every device has an address or a uuid."""
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
    """Return the devices learnt before and now. A vendor with too many numbering schemes keeps only those learnt now."""
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
    """Return the index spaces whose list has other numbers than learnt, or none. Each is returned empty."""
    changed = {space for (_, space), numbers in listed.items() if space in learnt and numbers != learnt[space].keys()}
    return {space: {} for space in (*changed, *_emptied(fresh)) if space in learnt}


def _emptied(fresh: Iterable[SourceReport]) -> Iterator[_Space]:
    for report in newest_lists(fresh).values():
        if not report.report.devices:
            yield report.vendor, report.report.index_space or report.source


def _listed(sightings: Iterable[Sighting]) -> _Listed:
    listed: _Listed = {}
    for sighting in sightings:
        if not sighting.attached and sighting.device.partition is None:
            listed.setdefault((sighting.source, _space(sighting)), set()).add(sighting.device.index)
    return listed


def _space(sighting: Sighting) -> _Space:
    """Return the index space of a sighting. Within it, a number identifies one device."""
    return sighting.device.vendor, sighting.index_space or sighting.source


def _needs_help(sighting: Sighting) -> bool:
    return sighting.device.partition is None and not has_address_or_uuid(sighting.device)
