"""Who has a card: what sources say of it, and what comes of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# The many owners of a card beyond the bound are one, `others`.
OwnerKind = Literal["pod", "job", "container", "service", "user", "others"]
# How a device is named: the number of its device node, of its render node, of its DRM card, the chip's physical id, the tool's index.
Way = Literal["uuid", "bus_id", "minor", "render", "card", "physical", "index"]
ProcessKind = Literal["", "compute", "graphics", "mps"]
# What a share was taken from. `partition`: the owner's slices of the card.
Basis = Literal["whole", "partition", "utilization", "memory", "equal"]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who may have a card; what is not known is empty.

    `name` is unique on the node for its kind: `namespace/pod/container`, a job's id, a container's id or name, a unit, a user.
    """

    kind: OwnerKind
    name: str
    pod_namespace: str = ""
    pod_name: str = ""
    container_name: str = ""
    job_id: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class DeviceName:
    """What somebody calls a device: `text` as it was given, `value` what is left of it for this way of naming.

    `vendor` is empty if it may be anybody's; `instance` is the number of the GPU instance or partition on it.
    """

    text: str
    way: Way
    value: str
    vendor: str = ""
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A source says that an owner was given a device. Without a device it says only that there is this owner.

    `keys` are names under which other sources know the same owner: `pod:UID`, `container:ID`, `podname:NAMESPACE/POD/CONTAINER`,
    `slurm:ID`, `sluid:ID`, `pbs:ID`, `flux:ID`. `names` are tried in turn; `replica` is its part of a shared device.
    `lives` is False where the source knows that the owner has ended. Times are Unix seconds.
    """

    owner: Owner
    keys: tuple[str, ...] = ()
    names: tuple[DeviceName, ...] = ()
    replica: str = ""
    lives: bool | None = None
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """What the driver says that a process holds of a device."""

    bus_id: str
    memory_bytes: float | None = None
    busy_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """What the kernel tells of a process. (`pid`, `ticks`) is nobody else's; `started` is Unix seconds.

    `owner` is the innermost job or container, else the unit or the user, as its cgroup tells; `keys` as a claim's.
    """

    pid: int
    ticks: int
    started: float | None = None
    user: str = ""
    command: str = ""
    container: str = ""
    owner: Owner | None = None
    keys: tuple[str, ...] = ()
    rank: int | None = None
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a device; from `started` on, what merge adds of what the kernel tells of it."""

    device: int
    pid: int
    name: str
    memory_used_bytes: float | None = None
    kind: ProcessKind = ""
    instance: str = ""
    utilization_ratio: float | None = None
    started: float | None = None
    user: str = ""
    command: str = ""
    container: str = ""
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """What an owner has of a device; `share` is of the whole card, whose shares add to 1 at most.

    `is_allocated`: somebody gave it the device. `is_used`: processes of it are there, None where nobody lists them. The totals
    are what this share of the card's time, busy time and energy has come to, None where nobody counts.
    """

    owner: Owner
    share: float
    basis: Basis
    is_allocated: bool
    is_used: bool | None
    sources: tuple[str, ...] = ()
    memory_used_bytes: float | None = None
    started: float | None = None
    seconds_total: float | None = None
    busy_seconds_total: float | None = None
    energy_joules_total: float | None = None


@dataclass(frozen=True, slots=True)
class PartSeconds:
    """The time that a rank has spent in one part of its steps."""

    part: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StepCounts:
    """What one rank has counted so far. None stands for what it does not count; `file` is where it said so.

    A quiet file was not written lately.
    """

    file: str
    user_id: int
    job_id: str
    rank: str
    card: DeviceName | None
    steps: float
    tokens: float | None = None
    flops: float | None = None
    seconds: tuple[PartSeconds, ...] = ()
    is_quiet: bool = False
