"""The frozen types that modules exchange, from a reader's capture to an exporter's snapshot."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Literal, get_args

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.ownership import Allocation, Claim, StepCounts, Task
from telemetry_parsers.ownership import Process as Process  # noqa: PLC0414  # parsers and plugins know it here
from telemetry_parsers.replay_info import ReplayInfo

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
    """The reason why a reading has no number."""

    NOT_SUPPORTED = "not_supported"
    NOT_PERMITTED = "not_permitted"
    NOT_REPORTED = "not_reported"
    IMPLAUSIBLE = "implausible"
    NOT_UNDERSTOOD = "not_understood"


Value = float | Absent


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of the catalogue: its name, kind, unit, help text, range and label."""

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
        """Return the metric's name without `accelerator_`, as used in readings and JSON."""
        return self.name.removeprefix("accelerator_")


@dataclass(frozen=True, slots=True)
class Command:
    """A request to run a tool with the first supported command line in `alternatives`."""

    alternatives: tuple[tuple[str, ...], ...]
    env: tuple[tuple[str, str], ...] = ()
    on_deadline: Literal["kill", "abandon"] = "kill"
    # Run the command for each known card or device, whose number replaces `{card}` or `{device}`.
    per: Literal["card", "device"] | None = None
    folders: tuple[str, ...] = ()  # folders that are searched after PATH


@dataclass(frozen=True, slots=True)
class Files:
    """A request to read small text files (`globs`), link targets (`links`) and binary files (`binary`)."""

    globs: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    binary: tuple[str, ...] = ()
    skip_when: tuple[tuple[str, str], ...] = ()  # (name, text): a folder is skipped if its file `name` contains `text`


@dataclass(frozen=True, slots=True)
class Library:
    """A request to make calls with a library reader, which may need a Python `module`."""

    reader: str
    calls: tuple[str, ...] = ()
    module: str = ""
    package: str = ""


Request = Command | Files | Library


@dataclass(frozen=True, slots=True)
class Poll:
    """A periodic request to a source, with times in seconds."""

    name: str
    request: Request
    tier: Tier = "fast"
    interval: float = 15.0
    deadline: float = 10.0
    lists_devices: bool = True
    wakes: bool = False  # the poll wakes suspended cards
    costs: str = ""  # the reason why the poll is off by default


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one command, one file or one call."""

    name: str = ""  # the command line, the path of the file, or the name of the library call
    target: str = ""  # the number of the card or device, if the command takes one
    text: str = ""
    stderr: str = ""
    status: int | None = None  # the exit status (negative for a signal) or the errno; None if unknown
    data: Plain = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a reader has no output."""

    state: State
    reason: Reason | None
    text: str


@dataclass(frozen=True, slots=True)
class Capture:
    """The result of one poll, which can be recorded and replayed."""

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
    parent: int | None = None  # the parent's position in the same report
    serial: str | None = None
    driver: str | None = None
    up: bool = True
    simulated: bool = False
    facts: tuple[tuple[str, str], ...] = ()  # labels of `accelerator_info`, such as `firmware`


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one metric. `device` is a position in the report, or None for the host."""

    device: int | None
    metric: str
    value: Value
    label: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a device, such as an Xid, a reset, or a lost link."""

    device: int | None
    code: str
    text: str = ""
    wall_time: float | None = None
    is_ongoing: bool = False  # True for a lasting state, such as an error code, which is counted only once


@dataclass(frozen=True, slots=True)
class Problem:
    """Something unexpected in the input, with its position and a description."""

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
    form: Form = "text"  # the merge prefers data to JSON, and JSON to text
    is_cut: bool = False  # the device list may be truncated, so a missing device is not necessarily lost
    claims: tuple[Claim, ...] = ()
    tasks: tuple[Task, ...] = ()
    steps: tuple[StepCounts, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one poll after its newest attempt, with times in Unix seconds."""

    source: str
    poll: str
    tier: Tier
    lists_devices: bool
    state: State
    reason: Reason | None = None
    detail: str = ""
    attempted: float = 0.0
    attempted_monotonic: float = 0.0  # the time `attempted` in monotonic seconds, like `expires` and `fails_since`
    expires: float = 0.0
    seconds: float = 0.0
    last_success: float | None = None
    fails_since: float | None = None  # the time of the first failure after the last success
    failures: tuple[tuple[str, int], ...] = ()  # (reason, count)
    overruns: int = 0


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A report with the source's properties for the merge. Times are monotonic seconds."""

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
    """A reading that the merge chose, with its source. `taken` is the monotonic time of the capture."""

    metric: str
    label: str
    value: Value
    source: str
    taken: float = 0.0
    interval: float = 0.0


@dataclass(frozen=True, slots=True)
class MergedDevice:
    """A device of the node after the merge. `up` is None while its sources fail."""

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
    last_read: float | None = None  # the Unix time of the last list with the device, if its sources now fail
    parent: str | None = None
    partition: str | None = None
    simulated: bool = False
    replayed: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    readings: Sequence[MergedReading] = ()  # after the merge, a `readings.Readings` object
    processes: tuple[Process, ...] = ()
    current_model: str | None = None
    allocations: tuple[Allocation, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The state of a source over all its polls."""

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
    refused: int = 0  # number of devices that were ignored or forgotten


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of one of the daemon's own metrics, with the labels in order."""

    metric: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the whole node at one time: the only input of exporters."""

    hostname: str
    wall_time: float
    monotonic_time: float  # the same time as `wall_time`, but in monotonic seconds, like `valid_until`
    valid_until: float
    devices: tuple[MergedDevice, ...] = ()
    host: Sequence[MergedReading] = ()
    sources: tuple[SourceStatus, ...] = ()
    daemon_samples: tuple[Sample, ...] = ()
    maintenance: Maintenance | None = None  # None if a command runs without a daemon
    recorded: ReplayInfo | None = None  # set only while a recording is replayed


@dataclass(frozen=True, slots=True)
class Identity:
    """The remembered id, label and other fields of a device."""

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
    lost_since: float | None = None
    simulated: bool = False
    polls: int = 1  # number of lists that contained the device, rounded down to a power of 2, so that the state file rarely changes
