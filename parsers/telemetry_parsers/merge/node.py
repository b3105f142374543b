"""The reports of all sources as one picture of the node. It is pure: the state goes in and comes out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from telemetry_parsers.combining.devices import name_of
from telemetry_parsers.merge import identity, joining, numbering, precedence, presence
from telemetry_parsers.merge.identity import Named
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.merge.precedence import Offered, ReadingKey
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.merge.sightings import sightings
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import (
    Absent,
    Identity,
    MergedDevice,
    MergedReading,
    Problem,
    Process,
    SourceReport,
)


@dataclass(frozen=True, slots=True)
class Merged:
    """The node's devices and host readings, the state to remember, problems and events.

    `positions` gives the id of each device of each (source, poll), None for a device without one.
    """

    devices: tuple[MergedDevice, ...]
    host: tuple[MergedReading, ...]
    state: MergeState
    valid_until: float
    problems: tuple[tuple[str, Problem], ...] = ()
    events: tuple[DeviceEvent, ...] = ()
    positions: Mapping[tuple[str, str], tuple[str | None, ...]] = field(default_factory=dict)


def merge(
    reports: Iterable[Offered], state: MergeState, *, now: float, wall: float, pending_vendors: Collection[str] = ()
) -> Merged:
    """One picture of the node from every report that has not expired at `now` (monotonic)."""
    by_report = {
        (offered.report.source, offered.report.poll): offered for offered in reports if offered.report.expires > now
    }
    fresh = tuple(item.report for item in by_report.values())
    recalled = numbering.recall(sightings(fresh), fresh, state.learnt)
    joined = joining.join(recalled.sightings)
    naming = identity.name(joined.groups, state, pending_vendors)
    named, weighed = naming.named, naming.weighed
    # Before the first inventory is over, another source of the vendor may still list what this one lacks.
    listing = {report.source for report in fresh if _is_whole_list(report) and report.vendor not in pending_vendors}
    numbering_sources = numbering.numbers_only(recalled.sightings)
    present = presence.update(state, named, listing.difference(recalled.unmatched), numbering_sources, wall)
    counters = dict(state.counters)
    live, underivable = _live_devices(named, by_report, counters, pending_vendors)
    remembered = {item.id for item in present.identities}
    believed = [weighed.doubts[id(group)].group if id(group) in weighed.doubts else group for group in joined.groups]
    return Merged(
        devices=tuple(sorted((*live, *map(_lost_device, present.lost)), key=_display_order)),
        host=_host_readings(by_report.values()),
        state=MergeState(
            identities=present.identities,
            seen=present.seen,
            doubts=weighed.remembered,
            forgotten=present.forgotten,
            learnt=numbering.remember(recalled.learnt, numbering.learn(believed)),
            counters=precedence.remember(counters, remembered, live),
        ),
        valid_until=min((report.expires for report in fresh), default=math.inf),
        problems=(
            *recalled.problems,
            *joined.problems,
            *underivable,
            *map(_nameless_problem, naming.nameless),
            *(doubt.problem for doubt in weighed.doubts.values()),
            *present.problems,
        ),
        events=present.events,
        positions=_positions(fresh, named),
    )


def _live_devices(
    named: tuple[Named, ...],
    by_report: Mapping[tuple[str, str], Offered],
    counters: dict[tuple[str, str, str], str],
    pending_vendors: Collection[str],
) -> tuple[list[MergedDevice], list[tuple[str, Problem]]]:
    chosen: dict[str, dict[ReadingKey, MergedReading]] = {}
    problems: list[tuple[str, Problem]] = []
    absences = precedence.Absences()
    for item in named:
        values = precedence.choose(item, by_report, counters, pending_vendors)
        problem = _derive_memory_ratio(values)
        if problem is not None:
            problems.append((problem[0], Problem(f"{item.identity.vendor} {item.identity.device}", problem[1])))
        for absent in absences.of(item, values):
            values[(absent.metric, absent.label)] = absent
        chosen[item.identity.id] = values
    for item in named:
        _drop_card_level(chosen[item.identity.id], chosen.get(item.identity.parent or ""))
    return [_device(item, chosen[item.identity.id]) for item in named], problems


def _derive_memory_ratio(values: dict[ReadingKey, MergedReading]) -> tuple[str, str] | None:
    """Sets the ratio from used and total of one capture. Returns source and problem if more is used than there is."""
    used, total = values.get(("memory_used_bytes", "")), values.get(("memory_total_bytes", ""))
    if used is None or total is None or (used.source, used.taken) != (total.source, total.taken):
        return None
    if isinstance(used.value, Absent) or isinstance(total.value, Absent) or total.value <= 0:
        return None
    ratio = replace(used, metric="memory_used_ratio", value=Absent.IMPLAUSIBLE)
    if used.value <= total.value:
        values[("memory_used_ratio", "")] = replace(ratio, value=used.value / total.value)
        return None
    values[("memory_used_ratio", "")] = ratio
    return used.source, f"memory used ({used.value:.0f} B) is above the total ({total.value:.0f} B)"


def _drop_card_level(
    values: dict[ReadingKey, MergedReading], parent: Mapping[ReadingKey, MergedReading] | None
) -> None:
    """Drops a partition's readings that belong to the whole card, such as power, if the card has them itself."""
    if parent is None:
        return
    metrics = {metric for (metric, _), reading in parent.items() if not isinstance(reading.value, Absent)}
    for key in [key for key in values if key[0] in metrics and key[0] in BY_KEY and BY_KEY[key[0]].card_level]:
        del values[key]


def _device(item: Named, values: Mapping[ReadingKey, MergedReading]) -> MergedDevice:
    identity, device = item.identity, item.group.device
    facts = dict(device.facts)
    if identity.power_kind is not None:
        facts["power_kind"] = identity.power_kind
    return replace(
        _lost_device(identity),
        index=device.index if device.index is not None else identity.index,
        driver=device.driver,
        up=device.up,
        simulated=device.simulated,
        facts=tuple(sorted(facts.items())),
        readings=tuple(values.values()) if device.up else (),
        processes=_processes(item),
        current_model=device.model,
    )


def _is_whole_list(report: SourceReport) -> bool:
    return report.lists_devices and not report.report.is_cut


def _lost_device(identity: Identity) -> MergedDevice:
    """A device that nobody lists any more, from what is remembered of it."""
    return MergedDevice(
        vendor=identity.vendor,
        index=identity.index,
        id=identity.id,
        device=identity.device,
        model=identity.model,
        uuid=identity.uuid,
        bus_id=identity.bus_id,
        serial=identity.serial,
        up=False,
        parent=identity.parent,
        partition=identity.partition,
        simulated=identity.simulated,
        current_model=identity.model or None,
    )


def with_unknown(devices: Iterable[MergedDevice], unknown: Iterable[Identity]) -> tuple[MergedDevice, ...]:
    """The devices, and remembered ones of which nobody knows whether they are there, in order."""
    return tuple(sorted((*devices, *(replace(_lost_device(one), up=None) for one in unknown)), key=_display_order))


def _processes(item: Named) -> tuple[Process, ...]:
    """The process list of the most preferred source that has one."""
    for report, position in item.group.parts:
        processes = tuple(process for process in report.report.processes if process.device == position)
        if processes:
            return processes
    return ()


def _host_readings(reports: Iterable[Offered]) -> tuple[MergedReading, ...]:
    """The newest reading of each metric of the host."""
    values: dict[ReadingKey, MergedReading] = {}
    for offered in sorted(reports, key=lambda offered: offered.report.taken):
        offers = offered.offers.get(None, ())
        values |= {key: reading for key, _, reading, _ in offers if BY_KEY[key[0]].scope == "host"}
    return tuple(values.values())


def _positions(
    fresh: tuple[SourceReport, ...], named: tuple[Named, ...]
) -> dict[tuple[str, str], tuple[str | None, ...]]:
    ids_of: dict[tuple[str, str], list[str | None]] = {
        (report.source, report.poll): [None] * len(report.report.devices) for report in fresh
    }
    for item in named:
        for report, position in item.group.parts:
            ids_of[(report.source, report.poll)][position] = item.identity.id
    return {key: tuple(ids) for key, ids in ids_of.items()}


def _nameless_problem(group: joining.Group) -> tuple[str, Problem]:
    where = name_of(group.device)
    return group.sightings[0].source, Problem(where, "no identity of its own: another device has the same; left out")


def _display_order(device: MergedDevice) -> tuple[str, tuple[tuple[int, str], ...], str]:
    """By vendor, then by device label with its numbers read as numbers, then by id."""
    parts = tuple((int(part), "") if part.isdigit() else (-1, part) for part in device.device.split(":"))
    return device.vendor, parts, device.id
