"""Replaces users, pods and jobs by a keyed hash or removes them, as configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import MergedDevice, Process
from telemetry_parsers.ownership import Claim, Owner, OwnerKind, Task

Shown = Literal["name", "hash", "none"]
_Category = Literal["users", "pods", "jobs"]
# The number of hexadecimal digits of a hash. Of 10,000 names, two collide in one of five million cases.
_DIGITS = 12
# The setting that applies to the name of an owner of each kind. Units are often named after the user who runs them.
_NAMED: Mapping[OwnerKind, _Category] = {
    "pod": "pods",
    "container": "pods",
    "job": "jobs",
    "service": "users",
    "user": "users",
}
_FIELDS: Mapping[str, _Category] = {
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
    """How users, pods and jobs are exposed. A hidden owner gets a number without its name, so that the owners of a card stay distinct."""

    users: Shown
    pods: Shown
    jobs: Shown
    key: bytes = b""  # for hashes, so that names cannot be guessed

    @property
    def needs_key(self) -> bool:
        """Return whether something is exposed as a hash or hidden."""
        return {self.users, self.pods, self.jobs} != {"name"}

    def owner(self, owner: Owner) -> Owner:
        """Return the owner as it may be exposed."""
        category = _NAMED.get(owner.kind)
        texts: Mapping[str, Any] = {field: self._text(of, getattr(owner, field)) for field, of in _FIELDS.items()}
        name = owner.name if category is None else self._name(category, owner)
        return replace(owner, name=name, **texts)

    def claim(self, claim: Claim) -> Claim:
        """Return the claim with its owner as it may be exposed. The keys, which join owners and are never exposed, are kept."""
        return replace(claim, owner=self.owner(claim.owner)) if self.needs_key else claim

    def task(self, task: Task) -> Task:
        """Return the task with its user, container and owner as they may be exposed."""
        if not self.needs_key:
            return task
        return replace(
            task,
            user=self._text("users", task.user),
            container=self._text("pods", task.container),
            owner=None if task.owner is None else self.owner(task.owner),
        )

    def device(self, device: MergedDevice) -> MergedDevice:
        """Return the device. If users are not exposed by name, the folders of its processes' programs are removed, too."""
        if self.users == "name" or not any("/" in process.name for process in device.processes):
            return device
        return replace(device, processes=tuple(map(_without_folder, device.processes)))

    def _text(self, category: _Category, text: str) -> str:
        shown: Shown = getattr(self, category)
        if shown == "name" or not text:
            return text
        return _hashed(self.key, category, text) if shown == "hash" else ""

    def _name(self, category: _Category, owner: Owner) -> str:
        if getattr(self, category) != "none" or not owner.name:
            return self._text(category, owner.name)
        return str(int(_hashed(self.key, "number", f"{owner.kind} {owner.name}"), 16) % 10**8)


BY_NAME = Privacy("name", "name", "name")


def _without_folder(process: Process) -> Process:
    return replace(process, name=process.name.partition(" ")[0].rpartition("/")[2])


def _hashed(key: bytes, what: str, text: str) -> str:
    """Return the hash of the text. `what` distinguishes a user from a pod of the same name."""
    from hmac import digest  # no key is needed if all names are exposed

    return digest(key, f"{what}\0{text}".encode(errors="surrogatepass"), "sha256").hex()[:_DIGITS]
