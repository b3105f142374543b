"""Owners of cards: claims, processes and the resulting allocations."""

from __future__ import annotations

from typing import Literal

from telemetry_parsers.dataclass import dataclass

# The kind of the summed owners beyond the bound on owners of a card.
OwnerKind = Literal["pod", "job", "container", "service", "user", "others"]
# How a device is named: number of its device node, render node or DRM card, physical id of the chip, or the tool's
# index.
Way = Literal["uuid", "bus_id", "minor", "render", "card", "physical", "index"]
ProcessKind = Literal["", "compute", "graphics", "mps"]
# What a share was derived from. `partition`: the owner's slices of the card.
Basis = Literal["whole", "partition", "utilization", "memory", "equal"]


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a card. Unknown fields are empty."""

    kind: OwnerKind
    name: str  # unique on the node for its kind: `namespace/pod/container`, a job's or container's id, a unit, a user
    pod_namespace: str = ""
    pod_name: str = ""
    container_name: str = ""
    job_id: str = ""
    job_name: str = ""  # given by the user
    user: str = ""
    account: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A name of a device."""

    text: str  # as printed
    way: Way
    value: str  # normalized for this way of naming
    vendor: str = ""  # empty if unknown
    instance: str = ""  # the number of the GPU instance or partition on the card


@dataclass(frozen=True, slots=True)
class Claim:
    """A source's report that an owner was given a device. A claim without a device only reports the owner. Times are Unix seconds."""

    owner: Owner
    # Names of the owner in other sources: `pod:UID`, `container:ID`, `podname:NAMESPACE/POD/CONTAINER`, `slurm:ID`, `sluid:ID`,
    # `pbs:ID`, `flux:ID`.
    keys: tuple[str, ...] = ()
    names: tuple[DeviceName, ...] = ()  # tried in turn
    replica: str = ""  # the owner's part of a shared device
    lives: bool | None = None  # False if the owner has ended
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """The memory and busy time of a process on a device, as the driver reports them."""

    bus_id: str
    memory_bytes: float | None = None
    busy_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A process as the kernel reports it. (`pid`, `ticks`) is unique; `started` is in Unix seconds."""

    pid: int
    ticks: int
    started: float | None = None
    user: str = ""
    command: str = ""
    container: str = ""
    owner: Owner | None = None  # the innermost job or container, else the unit or the user, by the cgroup
    keys: tuple[str, ...] = ()  # as in a claim
    rank: int | None = None
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a device. The fields from `started` on are added by merge from the kernel's tasks."""

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
    """The allocation of a device to an owner. The totals are its share of the card's values so far, None if not counted."""

    owner: Owner
    share: float  # of the whole card; all shares add up to at most 1
    basis: Basis
    is_allocated: bool  # a source claims the device for the owner
    is_used: bool | None  # the owner has processes on the device; None if no source lists processes
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
    """The counts of one rank so far; None for a count that the job does not report."""

    file: str  # its path
    user_id: int
    job_id: str
    rank: str
    card: DeviceName | None
    steps: float
    tokens: float | None = None
    flops: float | None = None
    seconds: tuple[PartSeconds, ...] = ()
    is_quiet: bool = False  # not written recently
