"""The owners of each device: claims of schedulers compared with the running processes. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.merge.admission import short
from telemetry_parsers.merge.device_names import INSTANCE_FACT, DeviceNames
from telemetry_parsers.merge.parties import Parties, Party, SourcedClaim, ranks, with_memory
from telemetry_parsers.merge.shares import Share, Use, shares, slice_of
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Problem, Value
from telemetry_parsers.ownership import Allocation, Owner, Process, Task
from telemetry_parsers.readings import Readings

MOST_OWNERS = 16
# Further complaints about a source are only counted.
_MOST_COMPLAINTS = 12
_FOREIGN = "foreign_memory_bytes"
SOURCE = "telemetry"
# Processes that serve the processes of other owners.
_SERVERS = frozenset({"nvidia-cuda-mps-server", "nvidia-cuda-mps-control"})
_OTHERS = Owner("others", "others")


@dataclass(frozen=True, slots=True)
class OwnersOf:
    """A device's owners, its processes with their ranks, and the memory of foreign processes (None if unallocated)."""

    allocations: tuple[Allocation, ...] = ()
    processes: tuple[Process, ...] = ()
    foreign_bytes: Value | None = None
    ranks: tuple[MergedReading, ...] = ()

    def put_on(self, device: MergedDevice) -> MergedDevice:
        """Return the device with these owners, processes and ranks."""
        if not self.allocations and not self.processes and not self.ranks and self.foreign_bytes is None:
            return device
        strangers = () if self.foreign_bytes is None else (MergedReading(_FOREIGN, "", self.foreign_bytes, SOURCE),)
        more = () if device.up is False else (*strangers, *self.ranks)
        readings = Readings.of(device.readings).plus(more) if more else device.readings
        return replace(device, allocations=self.allocations, processes=self.processes, readings=readings)


@dataclass(frozen=True, slots=True)
class Owned:
    """The owners of each device, in the order of the devices, and problems with the claims."""

    devices: tuple[OwnersOf, ...] = ()
    problems: tuple[tuple[str, Problem], ...] = ()
    unresolved: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def owned(
    devices: Sequence[MergedDevice], claims: Iterable[SourcedClaim], tasks: Mapping[int, Task], wall_time: float
) -> Owned:
    """Return the owners of each device and its processes."""
    devices = with_memory(devices, tasks)
    current = [claim for claim in claims if claim.claim.lives is not False and not _is_over(claim, wall_time)]
    parties = Parties(current, tasks)
    running = _running(devices)
    placing = _Placing(devices, parties, running)
    of_device = {
        device.id: _OfDevice.of(device, placing.owners(device.id), running[device.id], parties) for device in devices
    }
    shown = []
    for device in devices:
        card = (
            next((other_device for other_device in devices if other_device.id == device.parent), None)
            if device.parent
            else None
        )
        allocations = _of_part(device, card, devices, of_device) if card else _of_card(device, devices, of_device)
        processes = tuple(_known(process, tasks, parties) for process in device.processes)
        found = ranks(running[device.id], tasks)
        shown.append(OwnersOf(allocations, processes, of_device[device.id].foreign(), found))
    return Owned(tuple(shown), tuple(placing.problems), MappingProxyType(dict(placing.unresolved)))


def billed(devices: Sequence[MergedDevice]) -> Iterator[tuple[MergedDevice, Allocation]]:
    """Yield the allocations that are billed: those of whole cards, which include those of their partitions."""
    ids = {device.id for device in devices}
    for device in devices:
        if device.parent not in ids:
            for allocation in device.allocations:
                yield device, allocation


def lists_processes(device: MergedDevice) -> bool:
    """Return whether a source lists the processes of a device, even if the list is empty."""
    return bool(device.processes) or isinstance(Readings.of(device.readings).value("processes"), float)


def _running(devices: Sequence[MergedDevice]) -> Mapping[str, tuple[Process, ...]]:
    """Return the processes of each device. A process reported for an instance and for its card belongs to the instance."""
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
        running[card.id] = tuple(
            process for process in here if not process.instance or process.instance not in of_instance
        )
    return running


def _is_over(sourced: SourcedClaim, wall_time: float) -> bool:
    return sourced.claim.ended is not None and sourced.claim.ended <= wall_time


class _Placing:
    """Assigns devices to the parties that claim them."""

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
        """Return the parties that claim this device. If several do, prefer those that are known to live."""
        claimants = list(self._owners.get(device_id, {}).values())
        living = [party for party in claimants if party.lives]
        shared = any(sourced.claim.replica for party in claimants for sourced in party.claims)
        return living if living and not shared else claimants

    def _claimed(self, party: Party) -> list[str]:
        claimed: dict[str, SourcedClaim] = {}
        for sourced in party.claims:
            if not sourced.claim.names:
                continue
            device = self._names.find(sourced.claim)
            if device is None:
                self._complain(sourced, "fits no device of this node, or several", party)
                self.unresolved[sourced.source] += 1
            else:
                claimed.setdefault(device.id, sourced)
        return self._moved(party, claimed)

    def _moved(self, party: Party, claimed: Mapping[str, SourcedClaim]) -> list[str]:
        """Return a pod's devices. Those of its processes win over the claim, because plugins swap ids after the allocation."""
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

    def _complain(self, sourced: SourcedClaim, what: str, party: Party) -> None:
        names = sourced.claim.names
        text = names[0].text if names else ""
        self._complaints[sourced.source] += 1
        if self._complaints[sourced.source] <= _MOST_COMPLAINTS:
            where = short(f"{party.owner.kind} {party.owner.name}")
            self.problems.append((sourced.source, Problem(where, f"{short(text)!r}: {what}")))


def _devices_of_parties(running: Mapping[str, Sequence[Process]], parties: Parties) -> dict[int, dict[str, None]]:
    """Return the devices on which each party has processes, in order."""
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
    """The processes and claims of one device, without its partitions."""

    owners: tuple[tuple[Party, tuple[Process, ...]], ...]
    is_allocated: bool
    is_listed: bool
    # Whether the owner of some process is unknown.
    has_unknown: bool
    foreign_bytes: float | None
    # The use of the processes of other users; empty if there are none, or some may be the owner's.
    strangers: tuple[Use, ...] = ()

    @classmethod
    def of(
        cls, device: MergedDevice, claimants: Sequence[Party], running: Sequence[Process], parties: Parties
    ) -> _OfDevice:
        """Return the parties that claim the device, else those that have processes on it."""
        by_party: dict[int, list[Process]] = {}
        found: dict[int, Party] = {}
        for process in running:
            party = parties.of(process.pid)
            if party is not None and not _is_server(process):
                found[id(party)] = party
                by_party.setdefault(id(party), []).append(process)
        owners = claimants or list(found.values())
        given = {id(party) for party in claimants}
        strangers = {party_id: party for party_id, party in found.items() if claimants and party_id not in given}
        has_unknown = any(parties.of(process.pid) is None and not _is_server(process) for process in running)
        apart = [] if has_unknown else _of_other_users(strangers, claimants)
        return cls(
            tuple((party, tuple(by_party.get(id(party), ()))) for party in owners),
            bool(claimants),
            lists_processes(device),
            has_unknown,
            _use_of(strangers, by_party).memory_bytes if claimants else None,
            (_use_of(apart, by_party),) if apart else (),
        )

    @property
    def is_complete(self) -> bool:
        """Return whether all processes are listed and the owner of each is known."""
        return self.is_listed and not self.has_unknown

    def foreign(self) -> Value | None:
        """Return the memory used by processes of other owners; None on an unallocated device."""
        if not self.is_allocated or not self.is_listed:
            return None
        is_known = self.is_complete and self.foreign_bytes is not None
        return float(self.foreign_bytes or 0.0) if is_known else Absent.NOT_REPORTED


def _of_other_users(strangers: Mapping[int, Party], claimants: Sequence[Party]) -> list[int]:
    """Return the parties that cannot belong to a claiming job: without cgroups, a job's processes run as the job's user."""
    users = {party.owner.user for party in claimants} - {""}
    return [key for key, party in strangers.items() if party.owner.kind == "job" or party.owner.user not in users]


def _use_of(party_ids: Iterable[int], by_party: Mapping[int, Sequence[Process]]) -> Use:
    return Use.of([process for party_id in party_ids for process in by_party[party_id]])


_OfDevices = Mapping[str, _OfDevice]


def _of_card(card: MergedDevice, devices: Sequence[MergedDevice], of_device: _OfDevices) -> tuple[Allocation, ...]:
    """Return the owners of a whole card and of its partitions, each owner once."""
    parts = [device for device in devices if device.parent == card.id]
    allocations = [item for part in parts for item in _of_part(part, card, devices, of_device)]
    left = max(0.0, 1.0 - sum(slice_of(part, card, _siblings(card, parts)) for part in parts))
    whole = _owners_of_whole_card(of_device[card.id])
    if parts and allocations:
        whole = tuple(replace(item, share=item.share * left, basis="partition") for item in whole if left > 0)
    return _bounded(_summed((*allocations, *whole)))


def _of_part(
    part: MergedDevice, card: MergedDevice, devices: Sequence[MergedDevice], of_device: _OfDevices
) -> tuple[Allocation, ...]:
    """Return the owners of an instance, with their shares of the card."""
    parts = [device for device in devices if device.parent == card.id]
    of_whole = slice_of(part, card, _siblings(card, parts))
    shared = _owners_of_whole_card(of_device[part.id])
    # Two parties may become one owner if sources contradict each other.
    return _summed([replace(item, share=item.share * of_whole, basis="partition") for item in shared])


def _siblings(card: MergedDevice, parts: Sequence[MergedDevice]) -> int:
    """Return the number of parts of a card. A partition that is the card itself counts as a part."""
    return len(parts) + (card.partition is not None)


def _owners_of_whole_card(on_device: _OfDevice) -> tuple[Allocation, ...]:
    """Return the owners of a device treated as a whole card. Use by processes of non-owners counts as unallocated."""
    uses = [Use.of(processes) for _, processes in on_device.owners]
    if not uses:
        return ()
    parts = shares([*uses, *on_device.strangers])[: len(uses)]
    # Idle memory of other parties does not reduce the share of owners whose processes have not started yet.
    holds_none = parts[0].basis == "memory" and not any(use.memory_bytes for use in uses)
    if parts[0].basis == "equal" or holds_none:
        parts = shares(uses)
    return tuple(
        _allocation(party, processes, use, share, on_device)
        for (party, processes), use, share in zip(on_device.owners, uses, parts, strict=True)
    )


def _allocation(party: Party, processes: Sequence[Process], use: Use, share: Share, on_device: _OfDevice) -> Allocation:
    sources = {sourced.source for sourced in party.claims} | ({"proc"} if processes else set())
    return Allocation(
        party.owner,
        share.share,
        share.basis,
        on_device.is_allocated,
        True if processes else False if on_device.is_complete else None,
        tuple(sorted(sources)),
        float(use.memory_bytes) if on_device.is_complete and use.memory_bytes is not None else None,
        party.started,
    )


def _summed(allocations: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Return one allocation for each owner, the largest first."""
    by_owner: dict[Owner, Allocation] = {}
    for allocation in allocations:
        before = by_owner.get(allocation.owner)
        by_owner[allocation.owner] = allocation if before is None else _both(before, allocation)
    return tuple(
        sorted(
            by_owner.values(), key=lambda allocation: (-allocation.share, allocation.owner.kind, allocation.owner.name)
        )
    )


def _both(first: Allocation, second: Allocation) -> Allocation:
    memory = (first.memory_used_bytes, second.memory_used_bytes)
    reported = [value for value in memory if value is not None]
    used = {first.is_used, second.is_used}
    return replace(
        first,
        share=first.share + second.share,
        is_allocated=first.is_allocated or second.is_allocated,
        is_used=True if True in used else None if None in used else False,
        sources=tuple(sorted({*first.sources, *second.sources})),
        memory_used_bytes=sum(reported) if len(reported) == len(memory) else None,
        started=min((started for started in (first.started, second.started) if started is not None), default=None),
    )


def _bounded(allocations: tuple[Allocation, ...]) -> tuple[Allocation, ...]:
    """Return the first owners. The others are summed as one."""
    if len(allocations) <= MOST_OWNERS:
        return allocations
    first, rest = allocations[: MOST_OWNERS - 1], allocations[MOST_OWNERS - 1 :]
    (others,) = _summed([replace(allocation, owner=_OTHERS) for allocation in rest])
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
