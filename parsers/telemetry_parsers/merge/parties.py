"""Claims and tasks of all sources put together: which of them are the same owner, and what the kernel reports about processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from telemetry_parsers.merge.ranks import RANK_METRIC
from telemetry_parsers.model import MergedDevice, MergedReading, Process
from telemetry_parsers.ownership import Claim, Owner, OwnerKind, Task

_MOST_RANKS = 16
SOURCE = "proc"


def with_memory(devices: Sequence[MergedDevice], tasks: Mapping[int, Task]) -> tuple[MergedDevice, ...]:
    """The devices whose processes have the memory that their open files tell, where the list of processes does not."""
    if not any(task.holds for task in tasks.values()):
        return tuple(devices)
    # Parts of a card have its address: what is held of which of them is not told.
    cards = Counter(device.bus_id for device in devices)
    return tuple(_filled(device, tasks) if cards[device.bus_id] == 1 else device for device in devices)


def ranks(processes: Sequence[Process], tasks: Mapping[int, Task]) -> tuple[MergedReading, ...]:
    """A reading for each rank of these processes; children that inherit a rank add none."""
    told = {tasks[process.pid].rank for process in processes if process.pid in tasks}
    known = sorted(rank for rank in told if rank is not None)
    return tuple(MergedReading(RANK_METRIC, str(rank), 1.0, SOURCE) for rank in known[:_MOST_RANKS])


def _filled(device: MergedDevice, tasks: Mapping[int, Task]) -> MergedDevice:
    processes = tuple(
        replace(process, memory_used_bytes=_held(tasks[process.pid], device.bus_id))
        if process.memory_used_bytes is None and process.pid in tasks
        else process
        for process in device.processes
    )
    return device if processes == device.processes else replace(device, processes=processes)


def _held(task: Task, bus_id: str | None) -> float | None:
    return next((hold.memory_bytes for hold in task.holds if hold.bus_id == bus_id), None)


# The first that is known names an owner which several sources know.
_KINDS: Mapping[OwnerKind, int] = {"pod": 0, "job": 1, "container": 2, "service": 3, "user": 4, "others": 5}
# Several containers share it, so that it joins only where nothing else does.
_SHARED = "pod:"
# In a container the user says nothing: it is root of its own.
_OF_A_USER = frozenset({"job", "user"})
_TEXTS = tuple(item.name for item in fields(Owner) if item.name not in ("kind", "name"))


@dataclass(frozen=True, slots=True)
class Told:
    """A claim, and the source that made it."""

    source: str
    claim: Claim


@dataclass(slots=True)
class Party:
    """One owner with everything that was said of it."""

    owner: Owner
    told: list[Told] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)

    @property
    def lives(self) -> bool | None:
        """Whether it is known to live, or to have ended; its processes show that it lives."""
        said = {told.claim.lives for told in self.told}
        return True if self.pids or True in said else False if False in said else None

    @property
    def started(self) -> float | None:
        """When it began, as the first who knows says."""
        return min((told.claim.started for told in self.told if told.claim.started is not None), default=None)


class Parties:
    """All owners on the node; each process has one at most."""

    def __init__(self, told: Iterable[Told], tasks: Mapping[int, Task]) -> None:
        ordered = sorted(told, key=_order)
        groups = _grouped([_joining(one.claim.keys) | {_own_key(one.claim.owner)} for one in ordered])
        self._by_key: dict[str, Party] = {}
        self._by_pod: dict[str, list[Party]] = {}
        self._of_task: dict[int, Party] = {}
        self.all: list[Party] = []
        for group in groups:
            self._add([ordered[place] for place in group])
        for pid in sorted(tasks):
            self._place(tasks[pid])

    def of(self, pid: int) -> Party | None:
        """The owner of a process; None where nothing is known of it."""
        return self._of_task.get(pid)

    def _add(self, told: Sequence[Told]) -> None:
        party = Party(_known_of([one.claim.owner for one in told]), list(told))
        self.all.append(party)
        for one in told:
            for key in (*one.claim.keys, _own_key(one.claim.owner)):
                if key.startswith(_SHARED):
                    pods = self._by_pod.setdefault(key, [])
                    if party not in pods:
                        pods.append(party)
                else:
                    self._by_key.setdefault(key, party)

    def _place(self, task: Task) -> None:
        if task.owner is None:
            return
        party = self._known(task)
        if party is None:
            party = Party(task.owner)
            self.all.append(party)
            for key in (*_joining(task.keys), _own_key(task.owner)):
                self._by_key.setdefault(key, party)
        else:
            party.owner = _known_of([party.owner, task.owner])
        if task.user and not party.owner.user and party.owner.kind in _OF_A_USER:
            party.owner = replace(party.owner, user=task.user)
        party.pids.add(task.pid)
        self._of_task[task.pid] = party

    def _known(self, task: Task) -> Party | None:
        owner_key = _own_key(task.owner) if task.owner is not None else ""
        found = next((self._by_key[key] for key in (*task.keys, owner_key) if key in self._by_key), None)
        if found is not None:
            return found
        pods = [party for key in task.keys if key.startswith(_SHARED) for party in self._by_pod.get(key, ())]
        return min(pods, key=lambda party: party.owner.name, default=None)


def _order(told: Told) -> tuple[int, str, str, str]:
    claim = told.claim
    return _KINDS[claim.owner.kind], claim.owner.name, told.source, repr(claim)


def _own_key(owner: Owner) -> str:
    return f"{owner.kind}={owner.name}"


def _joining(keys: Collection[str]) -> set[str]:
    return {key for key in keys if not key.startswith(_SHARED)}


def _grouped(keys: Sequence[set[str]]) -> list[list[int]]:
    """The places of what shares keys, directly or through others, in the order of the first of each."""
    leader_of: dict[str, int] = {}
    leaders = list(range(len(keys)))

    def leader(place: int) -> int:
        while leaders[place] != place:
            leaders[place] = leaders[leaders[place]]
            place = leaders[place]
        return place

    for place, of_one in enumerate(keys):
        for key in of_one:
            first, other = leader(place), leader(leader_of.setdefault(key, place))
            leaders[max(first, other)] = min(first, other)
    groups: dict[int, list[int]] = {}
    for place in range(len(keys)):
        groups.setdefault(leader(place), []).append(place)
    return list(groups.values())


def _known_of(owners: Sequence[Owner]) -> Owner:
    """One owner of what several sources say of it: the first that knows something is believed."""
    best = min(owners, key=lambda owner: _KINDS[owner.kind])
    ordered = (best, *(owner for owner in owners if owner is not best))
    known: dict[str, str] = {name: next(filter(None, (getattr(one, name) for one in ordered)), "") for name in _TEXTS}
    return Owner(best.kind, best.name, **known)
