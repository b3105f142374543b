"""Types of ownership: claims, processes, and the resulting allocations of cards to owners."""

from __future__ import annotations

from typing import Literal

from telemetry_parsers.dataclass import dataclass

# `others` combines the owners beyond the maximum number per card.
OwnerKind = Literal["pod", "job", "container", "service", "user", "others"]
# The kind of a device's name. `minor`, `render` and `card` are numbers of device nodes.
NameKind = Literal["uuid", "bus_id", "minor", "render", "card", "physical", "index"]
ProcessKind = Literal["", "compute", "graphics", "mps"]
# How a share was determined.
Basis = Literal["whole", "partition", "utilization", "memory", "equal"]


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner of cards. Unknown fields are empty."""

    kind: OwnerKind
    name: str  # unique among the node's owners of this kind: `namespace/pod/container`, an id, a unit or a user
    pod_namespace: str = ""
    pod_name: str = ""
    container_name: str = ""
    job_id: str = ""
    job_name: str = ""  # the name that the user chose for the job
    user: str = ""
    account: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A device's name as a source reports it, and the kind of name (`way`)."""

    text: str  # the name as the source prints it
    way: NameKind
    value: str  # the name in normalized form, for comparison
    vendor: str = ""  # empty if unknown
    instance: str = ""  # the number of the GPU instance or partition


@dataclass(frozen=True, slots=True)
class Claim:
    """A source's report about an owner and, usually, one of the owner's devices."""

    owner: Owner
    # Keys by which sources identify the same owner, such as `pod:UID`, `container:ID` or `slurm:ID`.
    keys: tuple[str, ...] = ()
    names: tuple[DeviceName, ...] = ()  # possible names of the device, which are tried in order
    replica: str = ""  # the owner's part of a shared device
    lives: bool | None = None  # False if the owner has ended
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """The memory and busy time of a process on a device, from the driver."""

    bus_id: str
    memory_bytes: float | None = None
    busy_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A process as the kernel reports it, identified by its `pid` and its start time in clock `ticks`."""

    pid: int
    ticks: int
    started: float | None = None
    user: str = ""
    command: str = ""
    container: str = ""
    owner: Owner | None = None  # from the cgroup: the innermost job or container, otherwise the unit or user
    keys: tuple[str, ...] = ()
    rank: int | None = None
    holds: tuple[ProcessUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a device."""

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
    """The allocation of a device to an owner."""

    owner: Owner
    share: float  # share of the whole card; a card's shares add up to at most 1
    basis: Basis
    is_allocated: bool  # a source claims the device for the owner
    is_used: bool | None  # the owner has processes on the device; None if unknown
    sources: tuple[str, ...] = ()
    memory_used_bytes: float | None = None
    started: float | None = None
    seconds_total: float | None = None
    busy_seconds_total: float | None = None
    energy_joules_total: float | None = None


@dataclass(frozen=True, slots=True)
class PartSeconds:
    """The time that a rank spent in one part of its steps."""

    part: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StepCounts:
    """The numbers of steps, tokens and operations that one rank has completed since its start."""

    file: str  # the path of the file with the counts
    user_id: int
    job_id: str
    rank: str
    card: DeviceName | None
    steps: float
    tokens: float | None = None
    flops: float | None = None
    seconds: tuple[PartSeconds, ...] = ()
    is_quiet: bool = False  # True if the job has not written `file` recently
