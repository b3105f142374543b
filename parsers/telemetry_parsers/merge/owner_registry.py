"""Groups the claims and processes of all sources by owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from telemetry_parsers.dataclass import dataclass, field, fields, replace
from telemetry_parsers.merge.ranks import RANK_METRIC
from telemetry_parsers.model import MergedDevice, MergedReading, Process
from telemetry_parsers.ownership import Claim, Owner, OwnerKind, Task

_MAX_RANKS = 16
SOURCE = "proc"


def add_memory(devices: Sequence[MergedDevice], tasks: Mapping[int, Task]) -> tuple[MergedDevice, ...]:
    """Add the kernel's memory figures to processes for which the tools report no memory."""
    if not any(task.holds for task in tasks.values()):
        return tuple(devices)
    # Memory that the kernel reports by address cannot be assigned to partitions that share the address.
    counts = Counter(device.bus_id for device in devices)
    return tuple(_with_kernel_memory(device, tasks) if counts[device.bus_id] == 1 else device for device in devices)


def rank_readings(processes: Sequence[Process], tasks: Mapping[int, Task]) -> tuple[MergedReading, ...]:
    """Return one reading for each distinct rank of these processes."""
    ranks = {tasks[process.pid].rank for process in processes if process.pid in tasks}
    known_ranks = sorted(rank for rank in ranks if rank is not None)
    return tuple(MergedReading(RANK_METRIC, str(rank), 1.0, SOURCE) for rank in known_ranks[:_MAX_RANKS])


def _with_kernel_memory(device: MergedDevice, tasks: Mapping[int, Task]) -> MergedDevice:
    processes = tuple(
        replace(process, memory_used_bytes=_kernel_memory(tasks[process.pid], device.bus_id))
        if process.memory_used_bytes is None and process.pid in tasks
        else process
        for process in device.processes
    )
    return device if processes == device.processes else replace(device, processes=processes)


def _kernel_memory(task: Task, bus_id: str | None) -> float | None:
    return next((usage.memory_bytes for usage in task.holds if usage.bus_id == bus_id), None)


# If sources report the same owner with different kinds, the first kind in this order is used.
_KIND_ORDER: Mapping[OwnerKind, int] = {"pod": 0, "job": 1, "container": 2, "service": 3, "user": 4, "others": 5}
# The prefix of pod keys. These keys are compared last, because all containers of a pod have the same pod key.
_POD_KEY = "pod:"
# The kinds of owners whose processes run as the owner's user. Containers often run as root.
_RUN_AS_OWNER = frozenset({"job", "user"})
_TEXT_FIELDS = tuple(item.name for item in fields(Owner) if item.name not in ("kind", "name"))


@dataclass(frozen=True, slots=True)
class SourceClaim:
    """A claim and the source that reported it."""

    source: str
    claim: Claim


@dataclass(slots=True)
class OwnerEntry:
    """An owner, and all claims and processes of this owner."""

    owner: Owner
    claims: list[SourceClaim] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)

    @property
    def is_running(self) -> bool | None:
        """Return whether the owner is still running, or None if unknown."""
        reported = {source_claim.claim.lives for source_claim in self.claims}
        return True if self.pids or True in reported else False if False in reported else None

    @property
    def earliest_start(self) -> float | None:
        """Return the owner's earliest reported start, or None if no source reports a start."""
        starts = [source_claim.claim.started for source_claim in self.claims]
        return min((start for start in starts if start is not None), default=None)


class OwnerRegistry:
    """All owners on the node, with one entry for each."""

    def __init__(self, claims: Iterable[SourceClaim], tasks: Mapping[int, Task]) -> None:
        ordered = sorted(claims, key=_sort_key)
        key_sets = [_identifying_keys(claim.claim.keys) | {_name_key(claim.claim.owner)} for claim in ordered]
        self._by_key: dict[str, OwnerEntry] = {}
        self._by_pod: dict[str, list[OwnerEntry]] = {}
        self._by_pid: dict[int, OwnerEntry] = {}
        self.entries: list[OwnerEntry] = []
        for group in _connected_groups(key_sets):
            self._add_entry([ordered[position] for position in group])
        for pid in sorted(tasks):
            self._add_task(tasks[pid])

    def entry_of(self, pid: int) -> OwnerEntry | None:
        """Return the entry of a process's owner, or None if the owner is unknown."""
        return self._by_pid.get(pid)

    def _add_entry(self, claims: Sequence[SourceClaim]) -> None:
        entry = OwnerEntry(_join_owners([source_claim.claim.owner for source_claim in claims]), list(claims))
        self.entries.append(entry)
        for source_claim in claims:
            for key in (*source_claim.claim.keys, _name_key(source_claim.claim.owner)):
                if key.startswith(_POD_KEY):
                    pod_entries = self._by_pod.setdefault(key, [])
                    if entry not in pod_entries:
                        pod_entries.append(entry)
                else:
                    self._by_key.setdefault(key, entry)

    def _add_task(self, task: Task) -> None:
        if task.owner is None:
            return
        entry = self._find_entry(task)
        if entry is None:
            entry = OwnerEntry(task.owner)
            self.entries.append(entry)
            for key in (*_identifying_keys(task.keys), _name_key(task.owner)):
                self._by_key.setdefault(key, entry)
        else:
            entry.owner = _join_owners([entry.owner, task.owner])
        if task.user and not entry.owner.user and entry.owner.kind in _RUN_AS_OWNER:
            entry.owner = replace(entry.owner, user=task.user)
        entry.pids.add(task.pid)
        self._by_pid[task.pid] = entry

    def _find_entry(self, task: Task) -> OwnerEntry | None:
        owner_key = _name_key(task.owner) if task.owner is not None else ""
        entry = next((self._by_key[key] for key in (*task.keys, owner_key) if key in self._by_key), None)
        if entry is not None:
            return entry
        pod_entries = [entry for key in task.keys if key.startswith(_POD_KEY) for entry in self._by_pod.get(key, ())]
        return min(pod_entries, key=lambda entry: entry.owner.name, default=None)


def _sort_key(source_claim: SourceClaim) -> tuple[int, str, str, str]:
    claim = source_claim.claim
    return _KIND_ORDER[claim.owner.kind], claim.owner.name, source_claim.source, repr(claim)


def _name_key(owner: Owner) -> str:
    return f"{owner.kind}={owner.name}"


def _identifying_keys(keys: Collection[str]) -> set[str]:
    return {key for key in keys if not key.startswith(_POD_KEY)}


def _connected_groups(key_sets: Sequence[set[str]]) -> list[list[int]]:
    """Group sets that share a key, directly or through other sets. Return the positions of each group's sets."""
    leaders_by_key: dict[str, int] = {}
    leaders = list(range(len(key_sets)))

    def find_leader(position: int) -> int:
        while leaders[position] != position:
            leaders[position] = leaders[leaders[position]]
            position = leaders[position]
        return position

    for position, keys in enumerate(key_sets):
        for key in keys:
            own_leader, key_leader = find_leader(position), find_leader(leaders_by_key.setdefault(key, position))
            leaders[max(own_leader, key_leader)] = min(own_leader, key_leader)
    groups: dict[int, list[int]] = {}
    for position in range(len(key_sets)):
        groups.setdefault(find_leader(position), []).append(position)
    return list(groups.values())


def _join_owners(owners: Sequence[Owner]) -> Owner:
    """Merge the reports of several sources about one owner."""
    primary = min(owners, key=lambda owner: _KIND_ORDER[owner.kind])
    ordered = (primary, *(owner for owner in owners if owner is not primary))
    texts: dict[str, str] = {
        name: next(filter(None, (getattr(owner, name) for owner in ordered)), "") for name in _TEXT_FIELDS
    }
    return Owner(primary.kind, primary.name, **texts)
