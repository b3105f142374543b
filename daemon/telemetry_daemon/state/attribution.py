"""Derives the current owners of each card from the newest claims and tasks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from telemetry_daemon.config.inputs import ConfigError
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.state.ledger import Ledger
from telemetry_daemon.times import Clock
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge.allocations import NodeOwners, find_owners, has_process_list
from telemetry_parsers.merge.merged import MergedNode
from telemetry_parsers.merge.owner_registry import SourceClaim
from telemetry_parsers.model import MergedDevice, Sample, SourceReport
from telemetry_parsers.owners.privacy import BY_NAME, Privacy
from telemetry_parsers.ownership import Allocation, Claim, Owner, Task

UNRESOLVED_METRIC = "telemetry_claims_unresolved"
_device_fields = attrgetter("id", "parent", "index", "uuid", "bus_id", "facts", "processes")
log = logging.getLogger(__name__)
KEY_FILE_NAME = "owners.key"
_MIN_KEY_BYTES, _MAX_KEY_BYTES = 16, 4096
_NEW_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class _OwnershipInput:
    """The devices, claims and tasks from which the owners are derived."""

    devices: tuple[tuple[object, ...], ...]
    claims: tuple[tuple[str, tuple[Claim, ...]], ...]
    tasks: tuple[tuple[Task, ...], ...]

    @classmethod
    def from_reports(cls, devices: Sequence[MergedDevice], reports: Iterable[SourceReport]) -> _OwnershipInput:
        """Collect the input. Reports are sorted by source and poll."""
        sorted_reports = sorted(
            (source_report.source, source_report.poll, source_report.report)
            for source_report in reports
            if source_report.report.claims or source_report.report.tasks
        )
        return cls(
            tuple((*_device_fields(device), has_process_list(device)) for device in devices),
            tuple((source, report.claims) for source, _, report in sorted_reports),
            tuple(report.tasks for _, _, report in sorted_reports),
        )


class Attribution:
    """Derives the owners of the merged devices. Not thread-safe."""

    def __init__(self, clock: Clock, ledger: Ledger | None = None, privacy: Privacy = BY_NAME) -> None:
        self._clock = clock
        self._ledger = ledger
        self.privacy = privacy
        self._last_input: _OwnershipInput | None = None
        self._node_owners = NodeOwners()
        # The details of each owner as first reported, because later reports may differ.
        self._first_owners: dict[tuple[str, str], Owner] = {}
        self._newer_owners: dict[tuple[str, str], Owner] = {}

    def with_owners(self, merged: MergedNode) -> MergedNode:
        """Return the node with owners for its devices, and with the problems found in claims."""
        devices, wall_time = merged.devices, self._clock.wall()
        inputs = _OwnershipInput.from_reports(devices, [checked.report for checked in merged.fresh.reports])
        if inputs != self._last_input or self._has_ended_claim(wall_time):
            self._last_input = inputs
            self._node_owners = self._keep_first_details(self._derive_owners(devices, inputs, wall_time))
        pairs = zip(devices, self._node_owners.devices, strict=True)
        owned_devices = tuple(ownership.apply_to(device) for device, ownership in pairs)
        return replace(merged, devices=owned_devices, problems=(*merged.problems, *self._node_owners.problems))

    @property
    def owners(self) -> list[tuple[tuple[str, str], ...]]:
        """Return, for each device, the kind and name of its owners."""
        return [
            tuple(_key(allocation.owner) for allocation in device.allocations) for device in self._node_owners.devices
        ]

    def update_ledger(self, devices: Sequence[MergedDevice]) -> None:
        """Pass the current owners to the ledger. Call this after adding the readings."""
        if self._ledger is not None:
            ended_claims = (claim for claim in self._claims() if claim.ended is not None)
            owned_devices = [self._with_newest_owners(device) for device in devices]
            self._ledger.update(
                owned_devices, self._clock.monotonic(), self._clock.wall(), map(self.privacy.hide_claim, ended_claims)
            )

    def with_totals(self, devices: Sequence[MergedDevice]) -> tuple[MergedDevice, ...]:
        """Return the devices with each owner's totals from the ledger."""
        if self._ledger is None:
            return tuple(devices)
        return tuple(self._ledger.with_totals(device) for device in devices)

    def unresolved_counts(self) -> tuple[Sample, ...]:
        """Return samples that count the unresolved device names of each source."""
        claimed = {source for source, claims in self._last_input.claims if claims} if self._last_input else set()
        return tuple(
            Sample(UNRESOLVED_METRIC, float(self._node_owners.unresolved.get(source, 0)), (("source", source),))
            for source in sorted(claimed)
        )

    def _derive_owners(self, devices: Sequence[MergedDevice], inputs: _OwnershipInput, wall_time: float) -> NodeOwners:
        source_claims = [
            SourceClaim(source, self.privacy.hide_claim(claim)) for source, claims in inputs.claims for claim in claims
        ]
        tasks = {task.pid: self.privacy.hide_task(task) for tasks in inputs.tasks for task in tasks}
        return find_owners([self.privacy.hide_folders(device) for device in devices], source_claims, tasks, wall_time)

    def _has_ended_claim(self, wall_time: float) -> bool:
        return any(claim.ended is not None and claim.ended <= wall_time for claim in self._claims())

    def _claims(self) -> Iterator[Claim]:
        for _, claims in self._last_input.claims if self._last_input is not None else ():
            yield from claims

    def _keep_first_details(self, node_owners: NodeOwners) -> NodeOwners:
        """Keep each owner's first details, because new label values would begin new time series."""
        owners = [allocation.owner for device in node_owners.devices for allocation in device.allocations]
        self._first_owners = {_key(owner): self._first_owners.get(_key(owner), owner) for owner in owners}
        self._newer_owners = {_key(owner): owner for owner in owners if owner != self._first_owners[_key(owner)]}
        devices = tuple(
            replace(device, allocations=tuple(map(self._with_first_owner, device.allocations)))
            for device in node_owners.devices
        )
        return replace(node_owners, devices=devices)

    def _with_newest_owners(self, device: MergedDevice) -> MergedDevice:
        if not any(_key(allocation.owner) in self._newer_owners for allocation in device.allocations):
            return device
        owners = [self._newer_owners.get(_key(allocation.owner), allocation.owner) for allocation in device.allocations]
        allocations = tuple(
            replace(allocation, owner=owner) for allocation, owner in zip(device.allocations, owners, strict=True)
        )
        return replace(device, allocations=allocations)

    def _with_first_owner(self, allocation: Allocation) -> Allocation:
        return replace(allocation, owner=self._first_owners[_key(allocation.owner)])


def _key(owner: Owner) -> tuple[str, str]:
    return owner.kind, owner.name


def load_hash_key(key_file: str, directory: str | None) -> bytes:
    """Return the key from `key_file`, else from `directory`, else a new key. Raise ConfigError if `key_file` is unusable."""
    if key_file:
        return _key_from_file(key_file)
    return os.urandom(_NEW_KEY_BYTES) if directory is None else _key_in_directory(Path(directory))


def _key_from_file(path: str) -> bytes:
    try:
        key = read_file(path, _MAX_KEY_BYTES).strip()
    except OSError as error:
        raise ConfigError(
            f"attribution.hash_key_file {path}: {error.strerror or error}; let the service's user read it"
        ) from error
    if len(key) < _MIN_KEY_BYTES:
        raise ConfigError(
            f"attribution.hash_key_file {path} has fewer than {_MIN_KEY_BYTES} bytes; fill it with `openssl rand -hex 32`"
        )
    return key


def _key_in_directory(directory: Path) -> bytes:
    try:
        with OwnFolder.create_at(directory) as folder:
            return _read_stored_key(folder) or _create_key(folder)
    except OSError as error:
        # Without a saved key, the hashes change at each start.
        extra = {"path": str(directory / KEY_FILE_NAME), "error": error}
        log.warning("the hash key cannot be saved: the hashes will change at the next start", extra=extra)
        return os.urandom(_NEW_KEY_BYTES)


def _read_stored_key(folder: OwnFolder) -> bytes | None:
    try:
        key = folder.read(KEY_FILE_NAME, _MAX_KEY_BYTES)
    except FileNotFoundError:  # the first start
        return None
    return key if len(key) >= _MIN_KEY_BYTES else None


def _create_key(folder: OwnFolder) -> bytes:
    key = os.urandom(_NEW_KEY_BYTES).hex().encode()
    folder.replace(KEY_FILE_NAME, key)
    return key
