"""Identifies devices in lists that have only indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from telemetry_parsers import bounds
from telemetry_parsers.combining import combine_devices, has_address_or_uuid
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge.joining import Sighting, SightingGroup
from telemetry_parsers.merge.report_columns import newest_lists
from telemetry_parsers.model import Device, Problem, SourceReport

# (vendor, name). In an index space, an index always means the same device.
_IndexSpace = tuple[str, str]
Learnt = Mapping[_IndexSpace, Mapping[int, Device]]
# Maps (source, index space) to the indices that the source lists.
_ListedIndices = dict[tuple[str, _IndexSpace], set[int | None]]


@dataclass(frozen=True, slots=True)
class NumberedSightings:
    """The sightings with addresses, and the sources whose listed indices changed."""

    sightings: tuple[Sighting, ...]
    renumbered_sources: tuple[str, ...]
    learnt: Learnt

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """Return a problem for each source whose indices changed."""
        text = "the indices changed, so the list is ignored until the devices' addresses are read again"
        return tuple((source, Problem("list of devices", text)) for source in self.renumbered_sources)


def with_addresses(sightings: Sequence[Sighting], reports: Iterable[SourceReport], learnt: Learnt) -> NumberedSightings:
    """Add addresses from other outputs to sightings that have only an index.

    Some tools renumber the cards when a card is lost, and again when it returns. A list whose indices changed is
    therefore ignored until other outputs have reported the addresses of all indices again.
    """
    listed_indices = _listed_indices(sightings)
    learnt = _without_changed_spaces(listed_indices, reports, learnt)
    completed: list[Sighting] = []
    renumbered_sources: dict[str, None] = {}
    for sighting in sightings:
        devices = learnt.get(_index_space(sighting))
        index = sighting.device.index
        if devices is None or index is None or not _needs_address(sighting):
            completed.append(sighting)
        elif not sighting.is_attached and listed_indices[sighting.source, _index_space(sighting)] != devices.keys():
            renumbered_sources[sighting.source] = None
        else:
            device = combine_devices(sighting.device, devices.get(index, sighting.device))
            completed.append(replace(sighting, device=device))
    return NumberedSightings(tuple(completed), tuple(renumbered_sources), learnt)


def sources_without_addresses(sightings: Iterable[Sighting]) -> frozenset[str]:
    """Return the sources whose lists have neither addresses nor UUIDs."""
    listed_sightings = [sighting for sighting in sightings if not sighting.is_attached]
    return frozenset(sighting.source for sighting in listed_sightings) - {
        sighting.source for sighting in listed_sightings if has_address_or_uuid(sighting.device)
    }


def learn_addresses(groups: Iterable[SightingGroup]) -> dict[_IndexSpace, dict[int, Device]]:
    """Map each index to its address and UUID. Index spaces with an unidentified device are omitted."""
    learnt: dict[_IndexSpace, dict[int, Device]] = {}
    incomplete: set[_IndexSpace] = set()
    for group in groups:
        identified = Device(group.vendor, bus_id=group.device.bus_id, uuid=group.device.uuid)
        for sighting in group.sightings:
            index = sighting.device.index
            if sighting.is_attached or index is None or sighting.device.partition is not None:
                continue
            if (
                not has_address_or_uuid(identified)
                or learnt.setdefault(_index_space(sighting), {}).setdefault(index, identified) is not identified
            ):
                incomplete.add(_index_space(sighting))
    return {space: devices for space, devices in learnt.items() if space not in incomplete}


def combine_learnt(learnt: Learnt, newly_learnt: Learnt) -> Learnt:
    """Combine both mappings. If a vendor has too many index spaces, keep only the newly learnt ones."""
    combined = {**learnt, **newly_learnt}
    if len(combined) <= bounds.MAX_INDEX_SPACES:
        return combined
    spaces = Counter(vendor for vendor, _ in combined)
    return {
        space: devices
        for space, devices in combined.items()
        if space in newly_learnt or spaces[space[0]] <= bounds.MAX_INDEX_SPACES
    }


def _without_changed_spaces(listed: _ListedIndices, reports: Iterable[SourceReport], learnt: Learnt) -> Learnt:
    """Return `learnt` with an empty mapping for each index space whose listed indices changed."""
    changed = {space for (_, space), indices in listed.items() if space in learnt and indices != learnt[space].keys()}
    return {**learnt, **{space: {} for space in (*changed, *_index_spaces_without_devices(reports)) if space in learnt}}


def _index_spaces_without_devices(reports: Iterable[SourceReport]) -> Iterator[_IndexSpace]:
    for source_report in newest_lists(reports).values():
        if not source_report.report.devices:
            yield source_report.vendor, source_report.report.index_space or source_report.source


def _listed_indices(sightings: Iterable[Sighting]) -> _ListedIndices:
    indices_by_space: _ListedIndices = {}
    for sighting in sightings:
        if not sighting.is_attached and sighting.device.partition is None:
            indices_by_space.setdefault((sighting.source, _index_space(sighting)), set()).add(sighting.device.index)
    return indices_by_space


def _index_space(sighting: Sighting) -> _IndexSpace:
    return sighting.device.vendor, sighting.index_space or sighting.source


def _needs_address(sighting: Sighting) -> bool:
    return sighting.device.partition is None and not has_address_or_uuid(sighting.device)
