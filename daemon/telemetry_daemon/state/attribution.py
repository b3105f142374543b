"""The current owner of each card, from the newest claims and tasks, with the key that hashes the owners' names."""

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
from telemetry_parsers.merge.allocations import NodeOwners, find_owners, lists_processes
from telemetry_parsers.merge.merged import Merged
from telemetry_parsers.merge.parties import SourcedClaim
from telemetry_parsers.model import MergedDevice, Sample, SourceReport
from telemetry_parsers.owners.privacy import BY_NAME, Privacy
from telemetry_parsers.ownership import Allocation, Claim, Owner, Task

UNRESOLVED = "telemetry_claims_unresolved"
_WHAT = attrgetter("id", "parent", "index", "uuid", "bus_id", "facts", "processes")
log = logging.getLogger(__name__)
NAME = "owners.key"
_LEAST_BYTES, _MOST_BYTES = 16, 4096
_OWN_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Input:
    """The input from which the owners of a node are derived."""

    devices: tuple[tuple[object, ...], ...]
    claims: tuple[tuple[str, tuple[Claim, ...]], ...]
    tasks: tuple[tuple[Task, ...], ...]

    @classmethod
    def of(cls, devices: Sequence[MergedDevice], reports: Iterable[SourceReport]) -> _Input:
        """Collect the input from devices and reports, in an order that does not depend on the order of the polls."""
        reported = sorted(
            (sourced.source, sourced.poll, sourced.report)
            for sourced in reports
            if sourced.report.claims or sourced.report.tasks
        )
        return cls(
            tuple((*_WHAT(device), lists_processes(device)) for device in devices),
            tuple((source, report.claims) for source, _, report in reported),
            tuple(report.tasks for _, _, report in reported),
        )


class Attribution:
    """The owners of the previous merge, for one thread at a time. `privacy` decides how names are exposed and stored."""

    def __init__(self, clock: Clock, ledger: Ledger | None = None, privacy: Privacy = BY_NAME) -> None:
        self._clock = clock
        self._ledger = ledger
        self.privacy = privacy
        self._input: _Input | None = None
        self._owned = NodeOwners()
        # Each owner as first reported, and the owners of which a later report has more details.
        self._first: dict[tuple[str, str], Owner] = {}
        self._better: dict[tuple[str, str], Owner] = {}

    def look(self, merged: Merged) -> Merged:
        """Return the merge with the owners of its devices and the problems of their claims."""
        devices, wall_time = merged.devices, self._clock.wall()
        new_input = _Input.of(devices, [checked.report for checked in merged.fresh.reports])
        if new_input != self._input or self._ends_by(wall_time):
            self._input = new_input
            self._owned = self._as_first_reported(self._made(devices, new_input, wall_time))
        put = tuple(of_one.apply_to(device) for device, of_one in zip(devices, self._owned.devices, strict=True))
        return replace(merged, devices=put, problems=(*merged.problems, *self._owned.problems))

    @property
    def owners(self) -> list[tuple[tuple[str, str], ...]]:
        """Return the kind and name of each device's owners, as of the last look."""
        return [tuple(_key(allocation.owner) for allocation in device.allocations) for device in self._owned.devices]

    def see(self, devices: Sequence[MergedDevice]) -> None:
        """Pass the current owners to the ledger, which has already counted the readings up to now."""
        if self._ledger is not None:
            ended = (claim for claim in self._claims() if claim.ended is not None)
            newest = [self._with_newest_owners(device) for device in devices]
            self._ledger.see(newest, self._clock.monotonic(), self._clock.wall(), map(self.privacy.hide_claim, ended))

    def with_totals(self, devices: Sequence[MergedDevice]) -> tuple[MergedDevice, ...]:
        """Return the devices with the totals of their owners' shares."""
        if self._ledger is None:
            return tuple(devices)
        return tuple(self._ledger.with_totals(device) for device in devices)

    def unresolved(self) -> tuple[Sample, ...]:
        """Return per source how many device names in its claims fit no device or more than one."""
        claimed = {source for source, claims in self._input.claims if claims} if self._input is not None else set()
        return tuple(
            Sample(UNRESOLVED, float(self._owned.unresolved.get(source, 0)), (("source", source),))
            for source in sorted(claimed)
        )

    def _made(self, devices: Sequence[MergedDevice], new_input: _Input, wall_time: float) -> NodeOwners:
        reported = [
            SourcedClaim(source, self.privacy.hide_claim(claim))
            for source, claims in new_input.claims
            for claim in claims
        ]
        tasks = {task.pid: self.privacy.hide_task(task) for tasks in new_input.tasks for task in tasks}
        return find_owners([self.privacy.hide_folders(device) for device in devices], reported, tasks, wall_time)

    def _ends_by(self, wall_time: float) -> bool:
        return any(claim.ended is not None and claim.ended <= wall_time for claim in self._claims())

    def _claims(self) -> Iterator[Claim]:
        for _, claims in self._input.claims if self._input is not None else ():
            yield from claims

    def _as_first_reported(self, found: NodeOwners) -> NodeOwners:
        """Return the devices with each owner as first reported, since later details would begin new series."""
        owners = [allocation.owner for of_one in found.devices for allocation in of_one.allocations]
        self._first = {_key(owner): self._first.get(_key(owner), owner) for owner in owners}
        self._better = {_key(owner): owner for owner in owners if owner != self._first[_key(owner)]}
        devices = tuple(
            replace(of_one, allocations=tuple(self._first_of(allocation) for allocation in of_one.allocations))
            for of_one in found.devices
        )
        return replace(found, devices=devices)

    def _with_newest_owners(self, device: MergedDevice) -> MergedDevice:
        """Return the device with the newest details of its owners, for the record in the ledger."""
        if not any(_key(allocation.owner) in self._better for allocation in device.allocations):
            return device
        owners = [self._better.get(_key(allocation.owner), allocation.owner) for allocation in device.allocations]
        allocations = tuple(
            replace(allocation, owner=owner) for allocation, owner in zip(device.allocations, owners, strict=True)
        )
        return replace(device, allocations=allocations)

    def _first_of(self, allocation: Allocation) -> Allocation:
        return replace(allocation, owner=self._first[_key(allocation.owner)])


def _key(owner: Owner) -> tuple[str, str]:
    return owner.kind, owner.name


def owner_key(key_file: str, directory: str | None) -> bytes:
    """Return the key of the named file, else of the state directory (created once), else a new random key. Raises ConfigError."""
    if key_file:
        return _given(key_file)
    return os.urandom(_OWN_BYTES) if directory is None else _own(Path(directory))


def _given(path: str) -> bytes:
    try:
        key = read_file(path, _MOST_BYTES).strip()
    except OSError as error:
        raise ConfigError(
            f"attribution.hash_key_file {path}: {error.strerror or error}; let the service's user read it"
        ) from error
    if len(key) < _LEAST_BYTES:
        raise ConfigError(
            f"attribution.hash_key_file {path} has less than {_LEAST_BYTES} characters; fill it with `openssl rand -hex 32`"
        )
    return key


def _own(directory: Path) -> bytes:
    try:
        with OwnFolder.made(directory) as folder:
            return _kept(folder) or _made(folder)
    except OSError as error:
        # Without a state directory, names have other hashes after each start.
        log.warning("the key of owners' hashes cannot be kept", extra={"path": str(directory / NAME), "error": error})
        return os.urandom(_OWN_BYTES)


def _kept(folder: OwnFolder) -> bytes | None:
    try:
        key = folder.read(NAME, _MOST_BYTES)
    except FileNotFoundError:  # the first start
        return None
    return key if len(key) >= _LEAST_BYTES else None


def _made(folder: OwnFolder) -> bytes:
    key = os.urandom(_OWN_BYTES).hex().encode()
    folder.replace(NAME, key)
    return key
