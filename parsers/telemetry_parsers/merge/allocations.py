"""The owners of each device: what was claimed, held against the processes that are there. It is pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from telemetry_parsers.merge.admission import short
from telemetry_parsers.merge.device_names import INSTANCE_FACT, DeviceNames
from telemetry_parsers.merge.parties import Parties, Party, Told, ranks, with_memory
from telemetry_parsers.merge.shares import Share, Use, shares, slice_of
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Problem, Value
from telemetry_parsers.ownership import Allocation, Owner, Process, Task
from telemetry_parsers.readings import Readings

MOST_OWNERS = 16
# Of one source: how many there are is counted.
_MOST_TOLD = 12
_FOREIGN = "foreign_memory_bytes"
SOURCE = "telemetry"
# What runs for the processes of others.
_SERVERS = frozenset({"nvidia-cuda-mps-server", "nvidia-cuda-mps-control"})
_OTHERS = Owner("others", "others")


@dataclass(frozen=True, slots=True)
class OwnersOf:
    """The owners of one device, what is known of its processes, and the memory that strangers hold; None on a device of nobody.

    `ranks` are the ranks of its processes.
    """

    allocations: tuple[Allocation, ...] = ()
    processes: tuple[Process, ...] = ()
    foreign_bytes: Value | None = None
    ranks: tuple[MergedReading, ...] = ()

    def put_on(self, device: MergedDevice) -> MergedDevice:
        """The device with them."""
        if not self.allocations and not self.processes and not self.ranks and self.foreign_bytes is None:
            return device
        strangers = () if self.foreign_bytes is None else (MergedReading(_FOREIGN, "", self.foreign_bytes, SOURCE),)
        more = () if device.up is False else (*strangers, *self.ranks)
        readings = Readings.of(device.readings).plus(more) if more else device.readings
        return replace(device, allocations=self.allocations, processes=self.processes, readings=readings)


@dataclass(frozen=True, slots=True)
class Owned:
    """The owners of each device, in the order of the devices, and what was wrong with the claims."""

    devices: tuple[OwnersOf, ...] = ()
    problems: tuple[tuple[str, Problem], ...] = ()
    unresolved: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def owned(devices: Sequence[MergedDevice], told: Iterable[Told], tasks: Mapping[int, Task], wall_time: float) -> Owned:
    """The owners of each device, and what is known of its processes."""
    devices = with_memory(devices, tasks)
    current = [one for one in told if one.claim.lives is not False and not _is_over(one, wall_time)]
    parties = Parties(current, tasks)
    running = _running(devices)
    placing = _Placing(devices, parties, running)
    of_device = {
        device.id: _OfDevice.of(device, placing.owners(device.id), running[device.id], parties) for device in devices
    }
    shown = []
    for device in devices:
        card = next((one for one in devices if one.id == device.parent), None) if device.parent else None
        allocations = _of_part(device, card, devices, of_device) if card else _of_card(device, devices, of_device)
        processes = tuple(_known(process, tasks, parties) for process in device.processes)
        found = ranks(running[device.id], tasks)
        shown.append(OwnersOf(allocations, processes, of_device[device.id].foreign(), found))
    return Owned(tuple(shown), tuple(placing.problems), MappingProxyType(dict(placing.unresolved)))


def billed(devices: Sequence[MergedDevice]) -> Iterator[tuple[MergedDevice, Allocation]]:
    """What counts: the allocations of whole cards, which hold those of their parts."""
    ids = {device.id for device in devices}
    for device in devices:
        if device.parent not in ids:
            for allocation in device.allocations:
                yield device, allocation


def lists_processes(device: MergedDevice) -> bool:
    """Whether a source lists the processes on a device, if only to say that there are none."""
    return bool(device.processes) or isinstance(Readings.of(device.readings).value("processes"), float)


def _running(devices: Sequence[MergedDevice]) -> Mapping[str, tuple[Process, ...]]:
    """The processes of each device; one that is told of an instance and of its card runs on the instance."""
    parts: dict[str, list[MergedDevice]] = {}
    for device in devices:
        if device.parent:
            parts.setdefault(device.parent, []).append(device)
    running = {device.id: device.processes for device in devices}
    for card in devices:
        if card.id not in parts:
            continue
        of_instance = {dict(part.facts).get(INSTANCE_FACT, ""): part.id for part in parts[card.id]}
        there = {process.pid for part in parts[card.id] for process in part.processes}
        here = [process for process in card.processes if process.pid not in there]
        for process in here:
            if process.instance and process.instance in of_instance:
                running[of_instance[process.instance]] += (process,)
        running[card.id] = tuple(one for one in here if not one.instance or one.instance not in of_instance)
    return running


def _is_over(told: Told, wall_time: float) -> bool:
    return told.claim.ended is not None and told.claim.ended <= wall_time


class _Placing:
    """Which party was given which device."""

    def __init__(
        self, devices: Sequence[MergedDevice], parties: Parties, running: Mapping[str, tuple[Process, ...]]
    ) -> None:
        self.problems: list[tuple[str, Problem]] = []
        self.unresolved: Counter[str] = Counter()
        self._complaints: Counter[str] = Counter()
        self._names = DeviceNames(devices)
        self._owners: dict[str, dict[int, Party]] = {}
        self._used = _devices_of_parties(running, parties)
        self._labels = {device.id: f"{device.vendor} {device.device}" for device in devices}
        for party in parties.all:
            for device_id in self._claimed(party):
                self._owners.setdefault(device_id, {})[id(party)] = party

    def owners(self, device_id: str) -> list[Party]:
        """Who was given this device; of several that were, those that live, if that is known of one."""
        given = list(self._owners.get(device_id, {}).values())
        living = [party for party in given if party.lives]
        shared = any(told.claim.replica for party in given for told in party.told)
        return living if living and not shared else given

    def _claimed(self, party: Party) -> list[str]:
        claimed: dict[str, Told] = {}
        for told in party.told:
            if not told.claim.names:
                continue
            device = self._names.find(told.claim)
            if device is None:
                self._complain(told, "fits no device of this node, or several", party)
                self.unresolved[told.source] += 1
            else:
                claimed.setdefault(device.id, told)
        return self._moved(party, claimed)

    def _moved(self, party: Party, claimed: Mapping[str, Told]) -> list[str]:
        """The devices of a pod; where its processes are on others, those: plugins hand out ids that they swap later."""
        used = self._used.get(id(party), {})
        elsewhere = [device_id for device_id in used if device_id not in claimed]
        if party.owner.kind != "pod" or not elsewhere:
            return list(claimed)
        unused = [device_id for device_id in claimed if device_id not in used]
        swapped = dict(zip(unused, elsewhere, strict=False))
        for device_id, other in swapped.items():
            where = f"its processes are on {self._labels[other]}, not on {self._labels[device_id]}"
            self._complain(claimed[device_id], where, party)
        return [swapped.get(device_id, device_id) for device_id in claimed]

    def _complain(self, told: Told, what: str, party: Party) -> None:
        names = told.claim.names
        text = names[0].text if names else ""
        self._complaints[told.source] += 1
        if self._complaints[told.source] <= _MOST_TOLD:
            where = short(f"{party.owner.kind} {party.owner.name}")
            self.problems.append((told.source, Problem(where, f"{short(text)!r}: {what}")))


def _devices_of_parties(running: Mapping[str, Sequence[Process]], parties: Parties) -> dict[int, dict[str, None]]:
    """The devices on which each party has processes, in order."""
    used: dict[int, dict[str, None]] = {}
    for device_id, processes in running.items():
        for process in processes:
            party = parties.of(process.pid)
            if party is not None and not _is_server(process):
                used.setdefault(id(party), {})[device_id] = None
    return used


def _is_server(process: Process) -> bool:
    return process.name.rpartition("/")[2] in _SERVERS


@dataclass(frozen=True, slots=True)
class _OfDevice:
    """What one device's processes and claims say, without its parts."""

    owners: tuple[tuple[Party, tuple[Process, ...]], ...]
    is_allocated: bool
    is_listed: bool
    # Whether some process there may be anybody's.
    has_unknown: bool
    foreign_bytes: float | None

    @classmethod
    def of(
        cls, device: MergedDevice, given: Sequence[Party], running: Sequence[Process], parties: Parties
    ) -> _OfDevice:
        """The owners of a device: those to whom it was given, else those whose processes are there."""
        by_party: dict[int, list[Process]] = {}
        known: dict[int, Party] = {}
        for process in running:
            party = parties.of(process.pid)
            if party is not None and not _is_server(process):
                known[id(party)] = party
                by_party.setdefault(id(party), []).append(process)
        owners = given or list(known.values())
        strangers = [one for place in by_party.keys() - {id(party) for party in given} for one in by_party[place]]
        return cls(
            tuple((party, tuple(by_party.get(id(party), ()))) for party in owners),
            bool(given),
            lists_processes(device),
            any(parties.of(process.pid) is None and not _is_server(process) for process in running),
            Use.of(strangers).memory_bytes if given else None,
        )

    @property
    def is_complete(self) -> bool:
        """Whether all its processes are listed, and the owner of each is known."""
        return self.is_listed and not self.has_unknown

    def foreign(self) -> Value | None:
        """The memory that strangers hold of a device that somebody was given; None on others."""
        if not self.is_allocated or not self.is_listed:
            return None
        known = self.is_complete and self.foreign_bytes is not None
        return float(self.foreign_bytes or 0.0) if known else Absent.NOT_REPORTED


_OfDevices = Mapping[str, _OfDevice]


def _of_card(card: MergedDevice, devices: Sequence[MergedDevice], of_device: _OfDevices) -> tuple[Allocation, ...]:
    """The owners of a whole card and those of its parts, each once."""
    parts = [device for device in devices if device.parent == card.id]
    allocations = [one for part in parts for one in _of_part(part, card, devices, of_device)]
    left = max(0.0, 1.0 - sum(slice_of(part, card, _siblings(card, parts)) for part in parts))
    own = _plain(of_device[card.id])
    if parts and allocations:
        own = tuple(replace(one, share=one.share * left, basis="partition") for one in own if left > 0)
    return _bounded(_summed((*allocations, *own)))


def _of_part(
    part: MergedDevice, card: MergedDevice, devices: Sequence[MergedDevice], of_device: _OfDevices
) -> tuple[Allocation, ...]:
    """The owners of an instance, with their shares of the card."""
    parts = [device for device in devices if device.parent == card.id]
    of_whole = slice_of(part, card, _siblings(card, parts))
    own = _plain(of_device[part.id])
    # Two parties may turn out to be one owner, where sources contradict each other.
    return _summed([replace(one, share=one.share * of_whole, basis="partition") for one in own])


def _siblings(card: MergedDevice, parts: Sequence[MergedDevice]) -> int:
    """Into how many parts a card is divided; one that is a part itself counts."""
    return len(parts) + (card.partition is not None)


def _plain(told: _OfDevice) -> tuple[Allocation, ...]:
    """The owners of a device as if it were no part of another."""
    uses = [Use.of(processes) for _, processes in told.owners]
    if not uses:
        return ()
    return tuple(
        _allocation(party, processes, use, share, told)
        for (party, processes), use, share in zip(told.owners, uses, shares(uses), strict=True)
    )


def _allocation(party: Party, processes: Sequence[Process], use: Use, share: Share, told: _OfDevice) -> Allocation:
    sources = {one.source for one in party.told} | ({"proc"} if processes else set())
    return Allocation(
        party.owner,
        share.share,
        share.basis,
        told.is_allocated,
        True if processes else False if told.is_complete else None,
        tuple(sorted(sources)),
        float(use.memory_bytes) if told.is_complete and use.memory_bytes is not None else None,
        party.started,
    )


def _summed(allocations: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """One allocation for each owner, the largest first."""
    by_owner: dict[Owner, Allocation] = {}
    for one in allocations:
        before = by_owner.get(one.owner)
        by_owner[one.owner] = one if before is None else _both(before, one)
    return tuple(sorted(by_owner.values(), key=lambda one: (-one.share, one.owner.kind, one.owner.name)))


def _both(first: Allocation, second: Allocation) -> Allocation:
    memory = (first.memory_used_bytes, second.memory_used_bytes)
    known = [value for value in memory if value is not None]
    used = {first.is_used, second.is_used}
    return replace(
        first,
        share=first.share + second.share,
        is_allocated=first.is_allocated or second.is_allocated,
        is_used=True if True in used else None if None in used else False,
        sources=tuple(sorted({*first.sources, *second.sources})),
        memory_used_bytes=sum(known) if len(known) == len(memory) else None,
        started=min((one for one in (first.started, second.started) if one is not None), default=None),
    )


def _bounded(allocations: tuple[Allocation, ...]) -> tuple[Allocation, ...]:
    """The first owners, and the rest as one."""
    if len(allocations) <= MOST_OWNERS:
        return allocations
    first, rest = allocations[: MOST_OWNERS - 1], allocations[MOST_OWNERS - 1 :]
    (others,) = _summed([replace(one, owner=_OTHERS) for one in rest])
    return (*first, others)


def _known(process: Process, tasks: Mapping[int, Task], parties: Parties) -> Process:
    task, party = tasks.get(process.pid), parties.of(process.pid)
    if task is None:
        return process
    return replace(
        process,
        started=task.started,
        user=task.user,
        command=task.command,
        container=task.container,
        owner=party.owner if party is not None else None,
    )
