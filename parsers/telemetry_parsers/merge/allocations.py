"""Determines the owners of each device from the schedulers' claims and the running processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.merge.admission import cut_text
from telemetry_parsers.merge.device_names import INSTANCE_FACT, DeviceNames
from telemetry_parsers.merge.owner_registry import OwnerEntry, OwnerRegistry, SourceClaim, add_memory, rank_readings
from telemetry_parsers.merge.shares import GroupUsage, Share, fraction_of, split_card
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Problem, Value
from telemetry_parsers.ownership import Allocation, Claim, Owner, Process, Task
from telemetry_parsers.readings import Readings

MAX_OWNERS = 16
# The maximum number of reported problems with a source's claims.
_MAX_PROBLEMS = 12
_METRIC = "foreign_memory_bytes"
SOURCE = "telemetry"
# These processes run work on behalf of other processes.
_MPS_SERVERS = frozenset({"nvidia-cuda-mps-server", "nvidia-cuda-mps-control"})
_OTHER_OWNERS = Owner("others", "others")
_ProcessesByDevice = Mapping[str, tuple[Process, ...]]


@dataclass(frozen=True, slots=True)
class DeviceOwners:
    """A device's allocations, processes and ranks."""

    allocations: tuple[Allocation, ...] = ()
    processes: tuple[Process, ...] = ()
    non_owner_bytes: Value | None = None  # None if the device is not allocated
    rank_readings: tuple[MergedReading, ...] = ()

    def apply_to(self, device: MergedDevice) -> MergedDevice:
        """Return the device with these allocations, processes and ranks."""
        if not self.allocations and not self.processes and not self.rank_readings and self.non_owner_bytes is None:
            return device
        foreign = () if self.non_owner_bytes is None else (MergedReading(_METRIC, "", self.non_owner_bytes, SOURCE),)
        added = () if device.up is False else (*foreign, *self.rank_readings)
        readings = Readings.of(device.readings).extended(added) if added else device.readings
        return replace(device, allocations=self.allocations, processes=self.processes, readings=readings)


@dataclass(frozen=True, slots=True)
class NodeOwners:
    """Each device's owners, and the problems and unresolved claims of each source."""

    devices: tuple[DeviceOwners, ...] = ()
    problems: tuple[tuple[str, Problem], ...] = ()
    unresolved: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def find_owners(
    devices: Sequence[MergedDevice], claims: Iterable[SourceClaim], tasks: Mapping[int, Task], wall_time: float
) -> NodeOwners:
    """Return the owners and the processes of each device."""
    devices = add_memory(devices, tasks)
    current_claims = [source_claim for source_claim in claims if not _has_ended(source_claim.claim, wall_time)]
    registry = OwnerRegistry(current_claims, tasks)
    processes_by_device = _processes_by_device(devices)
    assignment = _Assignment(devices, registry, processes_by_device)
    uses = {
        device.id: _DeviceUse.from_processes(
            device, assignment.claimants(device.id), processes_by_device[device.id], registry
        )
        for device in devices
    }
    by_id = {device.id: device for device in devices}
    device_owners = []
    for device in devices:
        card = by_id.get(device.parent or "")
        allocations = (
            _partition_allocations(device, card, devices, uses) if card else _card_allocations(device, devices, uses)
        )
        processes = tuple(_with_owner(process, tasks, registry) for process in device.processes)
        device_ranks = rank_readings(processes_by_device[device.id], tasks)
        device_owners.append(DeviceOwners(allocations, processes, uses[device.id].non_owner_memory(), device_ranks))
    return NodeOwners(tuple(device_owners), tuple(assignment.problems), MappingProxyType(dict(assignment.unresolved)))


def cards_with_allocations(devices: Sequence[MergedDevice]) -> Iterator[tuple[MergedDevice, Allocation]]:
    """Yield (card, allocation) for each allocation of a card, including the allocations of its partitions."""
    ids = {device.id for device in devices}
    for device in devices:
        if device.parent not in ids:
            for allocation in device.allocations:
                yield device, allocation


def has_process_list(device: MergedDevice) -> bool:
    """Return whether a source lists the processes of a device, even if the list is empty."""
    return bool(device.processes) or isinstance(Readings.of(device.readings).value("processes"), float)


def _processes_by_device(devices: Sequence[MergedDevice]) -> _ProcessesByDevice:
    """Map each device id to the device's processes. A card has only those that no partition has."""
    partitions_by_card: dict[str, list[MergedDevice]] = {}
    for device in devices:
        if device.parent:
            partitions_by_card.setdefault(device.parent, []).append(device)
    processes_by_device = {device.id: device.processes for device in devices}
    for card in devices:
        if card.id not in partitions_by_card:
            continue
        instance_ids = {dict(part.facts).get(INSTANCE_FACT, ""): part.id for part in partitions_by_card[card.id]}
        instance_pids = {process.pid for part in partitions_by_card[card.id] for process in part.processes}
        card_processes = [process for process in card.processes if process.pid not in instance_pids]
        for process in card_processes:
            if process.instance and process.instance in instance_ids:
                processes_by_device[instance_ids[process.instance]] += (process,)
        processes_by_device[card.id] = tuple(
            process for process in card_processes if not process.instance or process.instance not in instance_ids
        )
    return processes_by_device


def _has_ended(claim: Claim, wall_time: float) -> bool:
    return claim.lives is False or (claim.ended is not None and claim.ended <= wall_time)


class _Assignment:
    def __init__(
        self, devices: Sequence[MergedDevice], registry: OwnerRegistry, processes_by_device: _ProcessesByDevice
    ) -> None:
        self.problems: list[tuple[str, Problem]] = []
        self.unresolved: Counter[str] = Counter()
        self._problem_counts: Counter[str] = Counter()
        self._names = DeviceNames(devices)
        self._claimants: dict[str, dict[int, OwnerEntry]] = {}
        self._used_devices = _devices_by_owner(processes_by_device, registry)
        self._labels = {device.id: f"{device.vendor} {device.device}" for device in devices}
        for entry in registry.entries:
            for device_id in self._find_devices(entry):
                self._claimants.setdefault(device_id, {})[id(entry)] = entry

    def claimants(self, device_id: str) -> list[OwnerEntry]:
        """Return the owners that claim this device. If the device is not shared, prefer owners that still run."""
        claimants = list(self._claimants.get(device_id, {}).values())
        running = [entry for entry in claimants if entry.is_running]
        is_shared = any(source_claim.claim.replica for entry in claimants for source_claim in entry.claims)
        return running if running and not is_shared else claimants

    def _find_devices(self, entry: OwnerEntry) -> list[str]:
        claimed: dict[str, SourceClaim] = {}
        for source_claim in entry.claims:
            if not source_claim.claim.names:
                continue
            device = self._names.find(source_claim.claim)
            if device is None:
                self._add_problem(source_claim, "matches either no device or several devices of this node", entry)
                self.unresolved[source_claim.source] += 1
            else:
                claimed.setdefault(device.id, source_claim)
        return self._actual_devices(entry, claimed)

    def _actual_devices(self, entry: OwnerEntry, claimed: Mapping[str, SourceClaim]) -> list[str]:
        """Return the claimed devices. If a pod uses unclaimed devices, they replace unused claimed devices."""
        used_devices = self._used_devices.get(id(entry), {})
        unclaimed = [device_id for device_id in used_devices if device_id not in claimed]
        if entry.owner.kind != "pod" or not unclaimed:
            return list(claimed)
        unused = [device_id for device_id in claimed if device_id not in used_devices]
        replacements = dict(zip(unused, unclaimed, strict=False))
        for device_id, used_id in replacements.items():
            problem = f"the owner's processes use {self._labels[used_id]}, not {self._labels[device_id]}"
            self._add_problem(claimed[device_id], problem, entry)
        return [replacements.get(device_id, device_id) for device_id in claimed]

    def _add_problem(self, source_claim: SourceClaim, problem: str, entry: OwnerEntry) -> None:
        names = source_claim.claim.names
        text = names[0].text if names else ""
        self._problem_counts[source_claim.source] += 1
        if self._problem_counts[source_claim.source] <= _MAX_PROBLEMS:
            where = cut_text(f"{entry.owner.kind} {entry.owner.name}")
            self.problems.append((source_claim.source, Problem(where, f"{cut_text(text)!r}: {problem}")))


def _devices_by_owner(processes_by_device: _ProcessesByDevice, registry: OwnerRegistry) -> dict[int, dict[str, None]]:
    """Map the `id()` of each owner entry to the devices that its processes use."""
    used_devices: dict[int, dict[str, None]] = {}
    for device_id, processes in processes_by_device.items():
        for process in processes:
            entry = registry.entry_of(process.pid)
            if entry is not None and not _is_mps_server(process):
                used_devices.setdefault(id(entry), {})[device_id] = None
    return used_devices


def _is_mps_server(process: Process) -> bool:
    return process.name.rpartition("/")[2] in _MPS_SERVERS


@dataclass(frozen=True, slots=True)
class _DeviceUse:
    """The use of one device, without its partitions, by its owners and by other users."""

    owners: tuple[tuple[OwnerEntry, tuple[Process, ...]], ...]
    is_allocated: bool
    has_process_list: bool
    has_unknown_owners: bool  # True if the owner of any process is unknown
    non_owner_bytes: float | None
    # Empty if `has_unknown_owners`, because a process with an unknown owner may belong to the device's owner.
    use_by_other_users: tuple[GroupUsage, ...] = ()

    @classmethod
    def from_processes(
        cls, device: MergedDevice, claimants: Sequence[OwnerEntry], running: Sequence[Process], registry: OwnerRegistry
    ) -> _DeviceUse:
        processes_by_entry: dict[int, list[Process]] = {}
        entries_by_id: dict[int, OwnerEntry] = {}
        processes = [process for process in running if not _is_mps_server(process)]
        for process in processes:
            entry = registry.entry_of(process.pid)
            if entry is not None:
                entries_by_id[id(entry)] = entry
                processes_by_entry.setdefault(id(entry), []).append(process)
        owners = claimants or list(entries_by_id.values())
        claimant_ids = {id(entry) for entry in claimants}
        other_entries = {
            entry_id: entry for entry_id, entry in entries_by_id.items() if claimants and entry_id not in claimant_ids
        }
        has_unknown_owners = any(registry.entry_of(process.pid) is None for process in processes)
        other_user_entry_ids = [] if has_unknown_owners else _entry_ids_of_other_users(other_entries, claimants)
        return cls(
            tuple((entry, tuple(processes_by_entry.get(id(entry), ()))) for entry in owners),
            bool(claimants),
            has_process_list(device),
            has_unknown_owners,
            _total_usage(other_entries, processes_by_entry).memory_bytes if claimants else None,
            (_total_usage(other_user_entry_ids, processes_by_entry),) if other_user_entry_ids else (),
        )

    @property
    def is_complete(self) -> bool:
        return self.has_process_list and not self.has_unknown_owners

    def non_owner_memory(self) -> Value | None:
        """Return the memory that non-owners use on an allocated device, else None."""
        if not self.is_allocated or not self.has_process_list:
            return None
        is_known = self.is_complete and self.non_owner_bytes is not None
        return float(self.non_owner_bytes or 0.0) if is_known else Absent.NOT_REPORTED


def _entry_ids_of_other_users(other_entries: Mapping[int, OwnerEntry], claimants: Sequence[OwnerEntry]) -> list[int]:
    users = {entry.owner.user for entry in claimants} - {""}
    return [key for key, entry in other_entries.items() if entry.owner.kind == "job" or entry.owner.user not in users]


def _total_usage(entry_ids: Iterable[int], processes_by_entry: Mapping[int, Sequence[Process]]) -> GroupUsage:
    return GroupUsage.from_processes([process for entry_id in entry_ids for process in processes_by_entry[entry_id]])


_DeviceUses = Mapping[str, _DeviceUse]


def _card_allocations(card: MergedDevice, devices: Sequence[MergedDevice], uses: _DeviceUses) -> tuple[Allocation, ...]:
    """Return a card's allocations, including those of its partitions."""
    partitions = [device for device in devices if device.parent == card.id]
    allocations = [item for part in partitions for item in _partition_allocations(part, card, devices, uses)]
    free_share = max(0.0, 1.0 - sum(fraction_of(part, card, _partition_count(card, partitions)) for part in partitions))
    card_allocations = _device_allocations(uses[card.id])
    if partitions and allocations:
        card_allocations = _with_part_of_card(card_allocations, free_share) if free_share > 0 else ()
    return _limit_owners(_combine_by_owner((*allocations, *card_allocations)))


def _partition_allocations(
    partition: MergedDevice, card: MergedDevice, devices: Sequence[MergedDevice], uses: _DeviceUses
) -> tuple[Allocation, ...]:
    partitions = [device for device in devices if device.parent == card.id]
    fraction = fraction_of(partition, card, _partition_count(card, partitions))
    allocations = _device_allocations(uses[partition.id])
    # If sources contradict each other, two entries may have the same owner.
    return _combine_by_owner(_with_part_of_card(allocations, fraction))


def _with_part_of_card(allocations: tuple[Allocation, ...], fraction: float) -> tuple[Allocation, ...]:
    return tuple(replace(item, share=item.share * fraction, basis="partition") for item in allocations)


def _partition_count(card: MergedDevice, partitions: Sequence[MergedDevice]) -> int:
    return len(partitions) + (card.partition is not None)


def _device_allocations(device_use: _DeviceUse) -> tuple[Allocation, ...]:
    uses = [GroupUsage.from_processes(processes) for _, processes in device_use.owners]
    if not uses:
        return ()
    shares = split_card([*uses, *device_use.use_by_other_users])[: len(uses)]
    # The memory of other users does not reduce the shares of owners that use no memory yet.
    uses_no_memory = shares[0].basis == "memory" and not any(use.memory_bytes for use in uses)
    if shares[0].basis == "equal" or uses_no_memory:
        shares = split_card(uses)
    return tuple(
        _create_allocation(entry, processes, use, share, device_use)
        for (entry, processes), use, share in zip(device_use.owners, uses, shares, strict=True)
    )


def _create_allocation(
    entry: OwnerEntry, processes: Sequence[Process], use: GroupUsage, share: Share, device_use: _DeviceUse
) -> Allocation:
    sources = {source_claim.source for source_claim in entry.claims} | ({"proc"} if processes else set())
    return Allocation(
        entry.owner,
        share.fraction,
        share.basis,
        device_use.is_allocated,
        True if processes else False if device_use.is_complete else None,
        tuple(sorted(sources)),
        float(use.memory_bytes) if device_use.is_complete and use.memory_bytes is not None else None,
        entry.earliest_start,
    )


def _combine_by_owner(allocations: Sequence[Allocation]) -> tuple[Allocation, ...]:
    by_owner: dict[Owner, Allocation] = {}
    for allocation in allocations:
        previous = by_owner.get(allocation.owner)
        by_owner[allocation.owner] = allocation if previous is None else _combine_allocations(previous, allocation)
    return tuple(
        sorted(
            by_owner.values(), key=lambda allocation: (-allocation.share, allocation.owner.kind, allocation.owner.name)
        )
    )


def _combine_allocations(first: Allocation, second: Allocation) -> Allocation:
    memory = (first.memory_used_bytes, second.memory_used_bytes)
    reported = [value for value in memory if value is not None]
    usage_states = {first.is_used, second.is_used}
    return replace(
        first,
        share=first.share + second.share,
        is_allocated=first.is_allocated or second.is_allocated,
        is_used=True if True in usage_states else None if None in usage_states else False,
        sources=tuple(sorted({*first.sources, *second.sources})),
        memory_used_bytes=sum(reported) if len(reported) == len(memory) else None,
        started=min((started for started in (first.started, second.started) if started is not None), default=None),
    )


def _limit_owners(allocations: tuple[Allocation, ...]) -> tuple[Allocation, ...]:
    if len(allocations) <= MAX_OWNERS:
        return allocations
    largest, smallest = allocations[: MAX_OWNERS - 1], allocations[MAX_OWNERS - 1 :]
    (others,) = _combine_by_owner([replace(allocation, owner=_OTHER_OWNERS) for allocation in smallest])
    return (*largest, others)


def _with_owner(process: Process, tasks: Mapping[int, Task], registry: OwnerRegistry) -> Process:
    task, entry = tasks.get(process.pid), registry.entry_of(process.pid)
    if task is None:
        return process
    return replace(
        process,
        started=task.started,
        user=task.user,
        command=task.command,
        container=task.container,
        owner=entry.owner if entry is not None else None,
    )
