"""The frozen types that cross module borders, from a reader's capture to an exporter's snapshot."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Literal, get_args

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.ownership import Allocation, Claim, StepCounts, Task
from telemetry_parsers.ownership import Process as Process  # noqa: PLC0414  # parsers and plugins know it here
from telemetry_parsers.recorded import Recorded

Plain = Any  # the JSON-compatible data that a library reader returns
Kind = Literal["gauge", "counter", "info"]
Scope = Literal["device", "owner", "host", "daemon"]
Tier = Literal["fast", "slow", "inventory"]
Outcome = Literal["ok", "no_devices", "not_mine", "wrong_request", "failed"]
Form = Literal["data", "json", "text"]
State = Literal[
    "ok", "failed", "stuck", "missing", "no_devices", "not_mine", "suspended", "released", "disabled", "not_supported",
]  # fmt: skip
Reason = Literal[
    "timeout", "exit_status", "not_understood", "driver_gone", "no_permission", "too_much_output", "library_mismatch",
    "killed", "internal",
]  # fmt: skip

STATES: tuple[State, ...] = get_args(State)
REASONS: tuple[Reason, ...] = get_args(Reason)


class Absent(enum.Enum):
    """Why a reading has no number. Absence is a value, never 0, -1 or NaN."""

    NOT_SUPPORTED = "not_supported"
    NOT_PERMITTED = "not_permitted"
    NOT_REPORTED = "not_reported"
    IMPLAUSIBLE = "implausible"
    NOT_UNDERSTOOD = "not_understood"


Value = float | Absent


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the catalogue: the properties of one metric."""

    name: str
    kind: Kind
    unit: str
    help: str
    low: float = 0.0
    high: float = float("inf")
    label: str = ""
    words: tuple[str, ...] = ()
    scope: Scope = "device"
    core: bool = False
    card_level: bool = False

    @property
    def key(self) -> str:
        """Return the name in readings and JSON: the catalogue's without `accelerator_`."""
        return self.name.removeprefix("accelerator_")


@dataclass(frozen=True, slots=True)
class Command:
    """Run a tool. The alternatives are command lines, tried in turn if a version does not support a flag."""

    alternatives: tuple[tuple[str, ...], ...]
    env: tuple[tuple[str, str], ...] = ()
    on_deadline: Literal["kill", "abandon"] = "kill"
    # Repeat the command with `{card}` or `{device}` filled from the inventory.
    per: Literal["card", "device"] | None = None
    folders: tuple[str, ...] = ()  # the vendor's usual folders, searched after PATH


@dataclass(frozen=True, slots=True)
class Files:
    """Read small files: text by `globs`, link targets by `links`, bytes by `binary`."""

    globs: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    binary: tuple[str, ...] = ()
    skip_when: tuple[tuple[str, str], ...] = ()  # skip a folder whose file of this name has this text


@dataclass(frozen=True, slots=True)
class Library:
    """Call the library reader of that name with these calls. The reader may need the Python `module` from `package`."""

    reader: str
    calls: tuple[str, ...] = ()
    module: str = ""
    package: str = ""


Request = Command | Files | Library


@dataclass(frozen=True, slots=True)
class Poll:
    """One periodic request to a source. Times are seconds. `costs` is the cost to jobs; such a poll is off by default."""

    name: str
    request: Request
    tier: Tier = "fast"
    interval: float = 15.0
    deadline: float = 10.0
    lists_devices: bool = True
    wakes: bool = False
    costs: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one run, one file or one call."""

    name: str = ""  # the command line, the path or the call
    target: str = ""  # the card or device for which the command was repeated
    text: str = ""
    stderr: str = ""
    status: int | None = None  # the exit status (negative: the signal) or the errno, None if unknown
    data: Plain = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a reader has no output to parse."""

    state: State
    reason: Reason | None
    text: str


@dataclass(frozen=True, slots=True)
class Capture:
    """The output of one poll, recorded and replayed as is. A recording without masks has the `hostname`."""

    source: str
    poll: str
    request: Request
    outputs: tuple[Output, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    wall_time: float = 0.0
    monotonic_time: float = 0.0
    hostname: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as one source reports it."""

    vendor: str
    index: int | None = None
    model: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    partition: str | None = None
    parent: int | None = None  # a position in the same report
    serial: str | None = None
    driver: str | None = None
    up: bool = True
    simulated: bool = False
    facts: tuple[tuple[str, str], ...] = ()  # labels of `accelerator_info`: firmware, numa_node, power_kind …


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one metric; `device` is a position in the report's devices, None for the host."""

    device: int | None
    metric: str
    value: Value
    label: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a device: an Xid, a reset, a lost link."""

    device: int | None
    code: str
    text: str = ""
    wall_time: float | None = None
    is_ongoing: bool = False  # reported as long as it lasts and counted when it starts, such as an error code


@dataclass(frozen=True, slots=True)
class Problem:
    """Something unexpected in the input: where it is, and what is wrong."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `parse(capture)`."""

    outcome: Outcome = "ok"
    reason: Reason | None = None
    devices: tuple[Device, ...] = ()
    readings: tuple[Reading, ...] = ()
    events: tuple[Event, ...] = ()
    processes: tuple[Process, ...] = ()
    problems: tuple[Problem, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    index_space: str = ""
    form: Form = "text"  # ranks the report: data before JSON before printed text
    is_cut: bool = False  # devices may be missing at the end of the list, so that no missing device is lost
    claims: tuple[Claim, ...] = ()
    tasks: tuple[Task, ...] = ()
    steps: tuple[StepCounts, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one (source, poll) after the newest attempt. Times are Unix seconds, except those of the monotonic clock."""

    source: str
    poll: str
    tier: Tier
    lists_devices: bool
    state: State
    reason: Reason | None = None
    detail: str = ""
    attempted: float = 0.0
    attempted_monotonic: float = 0.0  # of the monotonic clock, as the next one and `fails_since`
    expires: float = 0.0
    seconds: float = 0.0
    last_success: float | None = None
    fails_since: float | None = None  # the first failure after the last success
    failures: tuple[tuple[str, int], ...] = ()  # by reason
    overruns: int = 0


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A report with the properties of its source and poll that merge needs. Times are monotonic seconds."""

    source: str
    poll: str
    vendor: str
    gives: tuple[str, ...]
    lists_devices: bool
    interval: float
    taken: float
    expires: float
    report: Report


@dataclass(frozen=True, slots=True)
class MergedReading:
    """A reading chosen by merge, with its source; `taken` is monotonic seconds."""

    metric: str
    label: str
    value: Value
    source: str
    taken: float = 0.0
    interval: float = 0.0


@dataclass(frozen=True, slots=True)
class MergedDevice:
    """A device of the node with its final identity. While its source fails, `up` is None."""

    vendor: str
    index: int | None
    id: str
    device: str
    model: str
    uuid: str | None = None
    bus_id: str | None = None
    serial: str | None = None
    driver: str | None = None
    up: bool | None = True
    last_read: float | None = None  # Unix time of its last list, while its source fails
    parent: str | None = None
    partition: str | None = None
    simulated: bool = False
    replayed: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    readings: Sequence[MergedReading] = ()  # merge returns a `readings.Readings`
    processes: tuple[Process, ...] = ()
    current_model: str | None = None
    allocations: tuple[Allocation, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The state of a source over all its polls; `refused` counts devices beyond the bounds."""

    source: str
    vendor: str
    state: State
    reason: Reason | None = None
    detail: str = ""
    up: bool | None = None
    version: str | None = None
    problems: tuple[Problem, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    polls: tuple[Health, ...] = ()
    cpu_seconds: float = 0.0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of one of the daemon's own metrics, labels in order."""

    metric: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole node at one point in time: the only input of an exporter."""

    hostname: str
    wall_time: float
    monotonic_time: float  # the same moment by the monotonic clock, as `valid_until`
    valid_until: float
    devices: tuple[MergedDevice, ...] = ()
    host: Sequence[MergedReading] = ()
    sources: tuple[SourceStatus, ...] = ()
    own: tuple[Sample, ...] = ()
    maintenance: Maintenance | None = None  # None without a daemon
    recorded: Recorded | None = None  # None unless a recording is replayed


@dataclass(frozen=True, slots=True)
class Identity:
    """The id and label of a device, kept as long as the process or its state directory exists."""

    id: str
    vendor: str
    device: str
    model: str
    index: int | None = None
    uuid: str | None = None
    bus_id: str | None = None
    partition: str | None = None
    parent: str | None = None
    serial: str | None = None
    power_kind: str | None = None
    listed_by: tuple[str, ...] = ()  # the sources that last listed the device
    lost_since: float | None = None  # Unix time of its loss
    simulated: bool = False
    polls: int = 1  # lists with the device, rounded down to a power of two, so that the state file is written rarely
