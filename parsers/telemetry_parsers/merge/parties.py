"""Groups the claims and tasks of all sources by owner. An owner with its claims and processes is a party."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from telemetry_parsers.dataclass import dataclass, field, fields, replace
from telemetry_parsers.merge.ranks import RANK_METRIC
from telemetry_parsers.model import MergedDevice, MergedReading, Process
from telemetry_parsers.ownership import Claim, Owner, OwnerKind, Task

_MAX_RANKS = 16
SOURCE = "proc"


def with_memory(devices: Sequence[MergedDevice], tasks: Mapping[int, Task]) -> tuple[MergedDevice, ...]:
    """Add the memory that the kernel reports to processes whose memory the tools do not report."""
    if not any(task.holds for task in tasks.values()):
        return tuple(devices)
    # The kernel reports memory by address. It cannot be assigned if partitions share their card's address.
    cards = Counter(device.bus_id for device in devices)
    return tuple(_with_kernel_memory(device, tasks) if cards[device.bus_id] == 1 else device for device in devices)


def rank_readings(processes: Sequence[Process], tasks: Mapping[int, Task]) -> tuple[MergedReading, ...]:
    """Return one reading for each rank of these processes. Several may have the same rank, as children inherit it."""
    ranks_of_tasks = {tasks[process.pid].rank for process in processes if process.pid in tasks}
    distinct = sorted(rank for rank in ranks_of_tasks if rank is not None)
    return tuple(MergedReading(RANK_METRIC, str(rank), 1.0, SOURCE) for rank in distinct[:_MAX_RANKS])


def _with_kernel_memory(device: MergedDevice, tasks: Mapping[int, Task]) -> MergedDevice:
    processes = tuple(
        replace(process, memory_used_bytes=_kernel_memory(tasks[process.pid], device.bus_id))
        if process.memory_used_bytes is None and process.pid in tasks
        else process
        for process in device.processes
    )
    return device if processes == device.processes else replace(device, processes=processes)


def _kernel_memory(task: Task, bus_id: str | None) -> float | None:
    return next((hold.memory_bytes for hold in task.holds if hold.bus_id == bus_id), None)


# If sources report the same owner with different kinds, the first kind in this order is used.
_KIND_ORDER: Mapping[OwnerKind, int] = {"pod": 0, "job": 1, "container": 2, "service": 3, "user": 4, "others": 5}
# The prefix of a pod's key, which its containers share. It identifies a process only if no other key matches.
_POD_KEY = "pod:"
# The kinds of owners whose processes run as the owner's user. Processes in containers often run as root.
_RUN_AS_OWNER = frozenset({"job", "user"})
_TEXTS = tuple(item.name for item in fields(Owner) if item.name not in ("kind", "name"))


@dataclass(frozen=True, slots=True)
class SourcedClaim:
    """A claim and the source that reported it."""

    source: str
    claim: Claim


@dataclass(slots=True)
class Party:
    """An owner with the owner's claims and processes."""

    owner: Owner
    claims: list[SourcedClaim] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)

    @property
    def lives(self) -> bool | None:
        """Return whether the owner has not ended, or None if this is unknown. An owner with processes has not ended."""
        reported = {sourced.claim.lives for sourced in self.claims}
        return True if self.pids or True in reported else False if False in reported else None

    @property
    def started(self) -> float | None:
        """Return the owner's earliest reported start, or None."""
        return min(
            (sourced.claim.started for sourced in self.claims if sourced.claim.started is not None), default=None
        )


class Parties:
    """The owners on the node. A process belongs to at most one owner."""

    def __init__(self, claims: Iterable[SourcedClaim], tasks: Mapping[int, Task]) -> None:
        ordered = sorted(claims, key=_sort_key)
        groups = _connected_groups(
            [_identifying_keys(sourced.claim.keys) | {_name_key(sourced.claim.owner)} for sourced in ordered]
        )
        self._by_key: dict[str, Party] = {}
        self._by_pod: dict[str, list[Party]] = {}
        self._by_pid: dict[int, Party] = {}
        self.all: list[Party] = []
        for group in groups:
            self._add([ordered[position] for position in group])
        for pid in sorted(tasks):
            self._add_task(tasks[pid])

    def party_of(self, pid: int) -> Party | None:
        """Return the party of a process, or None if its owner is unknown."""
        return self._by_pid.get(pid)

    def _add(self, claims: Sequence[SourcedClaim]) -> None:
        party = Party(_joined_owner([sourced.claim.owner for sourced in claims]), list(claims))
        self.all.append(party)
        for sourced in claims:
            for key in (*sourced.claim.keys, _name_key(sourced.claim.owner)):
                if key.startswith(_POD_KEY):
                    pods = self._by_pod.setdefault(key, [])
                    if party not in pods:
                        pods.append(party)
                else:
                    self._by_key.setdefault(key, party)

    def _add_task(self, task: Task) -> None:
        if task.owner is None:
            return
        party = self._find(task)
        if party is None:
            party = Party(task.owner)
            self.all.append(party)
            for key in (*_identifying_keys(task.keys), _name_key(task.owner)):
                self._by_key.setdefault(key, party)
        else:
            party.owner = _joined_owner([party.owner, task.owner])
        if task.user and not party.owner.user and party.owner.kind in _RUN_AS_OWNER:
            party.owner = replace(party.owner, user=task.user)
        party.pids.add(task.pid)
        self._by_pid[task.pid] = party

    def _find(self, task: Task) -> Party | None:
        owner_key = _name_key(task.owner) if task.owner is not None else ""
        party = next((self._by_key[key] for key in (*task.keys, owner_key) if key in self._by_key), None)
        if party is not None:
            return party
        pods = [party for key in task.keys if key.startswith(_POD_KEY) for party in self._by_pod.get(key, ())]
        return min(pods, key=lambda party: party.owner.name, default=None)


def _sort_key(sourced: SourcedClaim) -> tuple[int, str, str, str]:
    claim = sourced.claim
    return _KIND_ORDER[claim.owner.kind], claim.owner.name, sourced.source, repr(claim)


def _name_key(owner: Owner) -> str:
    return f"{owner.kind}={owner.name}"


def _identifying_keys(keys: Collection[str]) -> set[str]:
    return {key for key in keys if not key.startswith(_POD_KEY)}


def _connected_groups(keys: Sequence[set[str]]) -> list[list[int]]:
    """Group the positions whose sets of keys are connected by common keys. Groups are ordered by first position."""
    leader_of: dict[str, int] = {}
    leaders = list(range(len(keys)))

    def leader(position: int) -> int:
        while leaders[position] != position:
            leaders[position] = leaders[leaders[position]]
            position = leaders[position]
        return position

    for position, own_keys in enumerate(keys):
        for key in own_keys:
            first, other = leader(position), leader(leader_of.setdefault(key, position))
            leaders[max(first, other)] = min(first, other)
    groups: dict[int, list[int]] = {}
    for position in range(len(keys)):
        groups.setdefault(leader(position), []).append(position)
    return list(groups.values())


def _joined_owner(owners: Sequence[Owner]) -> Owner:
    """Merge the owner that several sources report. Each field has the first known value."""
    primary = min(owners, key=lambda owner: _KIND_ORDER[owner.kind])
    ordered = (primary, *(owner for owner in owners if owner is not primary))
    texts: dict[str, str] = {
        name: next(filter(None, (getattr(owner, name) for owner in ordered)), "") for name in _TEXTS
    }
    return Owner(primary.kind, primary.name, **texts)
