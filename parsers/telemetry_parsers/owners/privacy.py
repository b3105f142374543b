"""Replaces the names of users, pods and jobs with keyed hashes, or removes them, as configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import MergedDevice, Process
from telemetry_parsers.ownership import Claim, Owner, OwnerKind, Task

Exposure = Literal["name", "hash", "none"]
_Category = Literal["users", "pods", "jobs"]
# Hexadecimal digits of a hash. Among 10,000 names, the probability of a collision is 1 in 5 million.
_HASH_DIGITS = 12
# Maps each kind of owner to the category of its names. Services belong to `users`: many are named after a user.
_CATEGORIES_BY_KIND: Mapping[OwnerKind, _Category] = {
    "pod": "pods",
    "container": "pods",
    "job": "jobs",
    "service": "users",
    "user": "users",
}
_CATEGORIES_BY_FIELD: Mapping[str, _Category] = {
    "pod_namespace": "pods",
    "pod_name": "pods",
    "container_name": "pods",
    "job_id": "jobs",
    "job_name": "jobs",
    "user": "users",
    "account": "users",
}


@dataclass(frozen=True, slots=True)
class Privacy:
    """How the names of users, pods and jobs are exposed."""

    users: Exposure
    pods: Exposure
    jobs: Exposure
    key: bytes = b""  # the secret key of the hashes

    @property
    def hides_names(self) -> bool:
        """Return whether some names are hashed or hidden."""
        return {self.users, self.pods, self.jobs} != {"name"}

    def hide_owner(self, owner: Owner) -> Owner:
        """Return the owner with hashed or hidden names. A hidden `name` becomes a number, to keep owners apart."""
        texts: Mapping[str, Any] = {
            field: self._hide_text(category, getattr(owner, field)) for field, category in _CATEGORIES_BY_FIELD.items()
        }
        kind_category = _CATEGORIES_BY_KIND.get(owner.kind)
        name = owner.name if kind_category is None else self._hide_name(kind_category, owner)
        return replace(owner, name=name, **texts)

    def hide_claim(self, claim: Claim) -> Claim:
        """Return the claim with hashed or hidden names."""
        return replace(claim, owner=self.hide_owner(claim.owner)) if self.hides_names else claim

    def hide_task(self, task: Task) -> Task:
        """Return the task with hashed or hidden names."""
        if not self.hides_names:
            return task
        return replace(
            task,
            user=self._hide_text("users", task.user),
            container=self._hide_text("pods", task.container),
            owner=None if task.owner is None else self.hide_owner(task.owner),
        )

    def hide_folders(self, device: MergedDevice) -> MergedDevice:
        """Remove the folders from process names if users are hashed or hidden."""
        if self.users == "name" or not any("/" in process.name for process in device.processes):
            return device
        return replace(device, processes=tuple(map(_without_folder, device.processes)))

    def _hide_text(self, category: _Category, text: str) -> str:
        exposure: Exposure = getattr(self, category)
        if exposure == "name" or not text:
            return text
        return _hash_text(self.key, category, text) if exposure == "hash" else ""

    def _hide_name(self, category: _Category, owner: Owner) -> str:
        if getattr(self, category) != "none" or not owner.name:
            return self._hide_text(category, owner.name)
        return str(int(_hash_text(self.key, "number", f"{owner.kind} {owner.name}"), 16) % 10**8)


BY_NAME = Privacy("name", "name", "name")


def _without_folder(process: Process) -> Process:
    return replace(process, name=process.name.partition(" ")[0].rpartition("/")[2])


def _hash_text(key: bytes, category: str, text: str) -> str:
    """Return a hash that differs for equal texts of different categories."""
    from hmac import digest  # imported here, because it is not needed if all names are exposed

    return digest(key, f"{category}\0{text}".encode(errors="surrogatepass"), "sha256").hex()[:_HASH_DIGITS]
