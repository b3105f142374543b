"""The objects of the document `telemetry.snapshot/1`, as it is written, read again, and described in docs/snapshot.schema.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from telemetry_exporters.judgement.verdict import Severity
from telemetry_parsers import bounds
from telemetry_parsers.codec.json_types import (
    AtMost,
    Count,
    LongText,
    LongTextOrNull,
    NotNegative,
    Ratio,
    Schema,
    TextOrNull,
    Time,
    Word,
)
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Absent, Reason, State
from telemetry_parsers.ownership import Basis, OwnerKind

# Of a key that older daemons do not write.
ADDED_LATER = {"added_later": True}
_METRIC = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}
_ABSENCE = {"enum": [absent.value for absent in Absent]}


def _by_label(value: Mapping[str, Any], least: int = 1) -> Schema:
    """What JSON Schema says of values by metric: one value, or one for each word of the metric's label."""
    labelled = {"type": "object", "minProperties": least, "additionalProperties": value}
    return Schema({"propertyNames": _METRIC, "additionalProperties": {"anyOf": [value, labelled]}})


SeverityWord = Annotated[str, Schema({"enum": [severity.value for severity in Severity]})]
Numbers = Annotated[Mapping[str, Any], _by_label({"type": "number"})]
Absences = Annotated[Mapping[str, Any], _by_label(_ABSENCE)]
_Origins = Annotated[Mapping[str, Any], _by_label({"type": "string"}, least=2)]
ProcessKind = Literal["compute", "graphics", "mps"]


@dataclass(frozen=True, slots=True)
class MaintenanceJson:
    """The maintenance that an operator announced to the daemon."""

    until: str
    """Its end, in UTC by the node's clock."""
    reason: TextOrNull


@dataclass(frozen=True, slots=True)
class ReplayJson:
    """The recording that is played."""

    recorded: str
    """When it begins, in UTC."""
    hostname: TextOrNull
    """Where it was made; null in a masked one."""
    shown: TextOrNull = field(metadata=ADDED_LATER)
    """The moment of it that is shown, in UTC."""
    how: TextOrNull = field(metadata=ADDED_LATER)
    """A word if it is not just played, such as `paused` or `10 ×`; null else."""


@dataclass(frozen=True, slots=True)
class HostJson:
    """The node itself."""

    readings: Numbers
    """Numbers in base units that were read just now: one for a metric, or one for each word of its label."""


@dataclass(frozen=True, slots=True)
class ProblemJson:
    """What was not understood, and where."""

    where: str
    text: LongText


@dataclass(frozen=True, slots=True)
class PollJson:
    """One question that is put to a source again and again."""

    poll: str
    state: State
    reason: Reason | None
    """Why it failed; null for one that did not."""
    seconds: NotNegative | None
    """How long the last attempt took."""
    age_seconds: NotNegative | None
    """How long ago it began."""


@dataclass(frozen=True, slots=True)
class SourceJson:
    """One tool, library or set of driver files."""

    source: str
    """Named as its tool."""
    state: State
    reason: Reason | None
    """Why it failed; null for one that did not."""
    detail: LongTextOrNull
    """What is known of the reason, in words."""
    version: TextOrNull
    problems: Annotated[tuple[ProblemJson, ...], AtMost(bounds.MOST_PROBLEMS)]
    """What in its last outputs was not understood."""
    unknown_fields: Annotated[tuple[str, ...], AtMost(bounds.MOST_UNKNOWN_FIELDS)]
    """Fields in its last outputs that no table of ours knows; what they say is not read."""
    polls: Annotated[tuple[PollJson, ...], AtMost(64)]


@dataclass(frozen=True, slots=True)
class ConditionJson:
    """What is known against a device in a word."""

    word: Word
    severity: SeverityWord


@dataclass(frozen=True, slots=True)
class OwnerJson:
    """Who has a device."""

    kind: OwnerKind
    """`others` are all beyond the sixteen largest, as one."""
    name: LongTextOrNull
    """Unique on the node for its kind."""
    pod_namespace: LongTextOrNull
    pod_name: LongTextOrNull
    container_name: LongTextOrNull
    job_id: LongTextOrNull
    job_name: LongTextOrNull
    """The name that the user gave the job."""
    user: LongTextOrNull
    account: LongTextOrNull
    partition: LongTextOrNull
    """The scheduler's queue."""


@dataclass(frozen=True, slots=True)
class ProcessOwnerJson:
    """Whose a process is."""

    kind: OwnerKind
    """`others` are all beyond the sixteen largest, as one."""
    name: LongTextOrNull


@dataclass(frozen=True, slots=True)
class AllocationJson:
    """One owner's part of a device."""

    owner: OwnerJson
    share: Ratio
    """Of the whole card; all shares of a card add to 1 at most."""
    basis: Basis
    """What the share was taken from."""
    allocated: bool
    """Whether somebody gave it the device."""
    used: bool | None
    """Whether processes of it are there; null if that is unknown."""
    sources: Annotated[tuple[str, ...], AtMost(16)]
    """Who says so."""
    memory_used_bytes: Count | None
    started: TextOrNull
    """Since when, in UTC."""


@dataclass(frozen=True, slots=True)
class ProcessJson:
    """A process on a device."""

    pid: Count
    name: str
    """As the vendor's tool tells it."""
    memory_used_bytes: Count | None
    kind: ProcessKind | None
    instance: TextOrNull
    """The number of the GPU instance on which it runs."""
    utilization_ratio: Ratio | None
    """Its share of the device's time."""
    started: TextOrNull
    """When it began, in UTC."""
    user: LongTextOrNull
    command: LongTextOrNull
    """The name of its program, without arguments."""
    container: LongTextOrNull
    owner: ProcessOwnerJson | None
    """Null if that is unknown."""
    command_line: TextOrNull = field(default=None, metadata={"left_out": True})
    """Only in `telemetry snapshot --processes`, which reads it itself; null where it may not."""


@dataclass(frozen=True, slots=True)
class DeviceJson:
    """A whole card, or a part of one."""

    vendor: str
    index: Count | None
    """The number that the vendor's tool gives it."""
    id: str
    """Unique on the node, and the same for as long as it is known there."""
    device: str
    """The label `device` of its series."""
    model: TextOrNull
    uuid: TextOrNull
    bus_id: TextOrNull
    serial: TextOrNull
    driver: TextOrNull
    up: bool | None
    """False for a lost device, null if that is unknown."""
    last_read: TextOrNull = field(metadata=ADDED_LATER)
    """When a source last listed a device whose presence is unknown, in UTC; null for other devices."""
    condition: ConditionJson
    """The worst that is known against it; `ok` if it was looked at and found well."""
    parent: TextOrNull
    """The id of the device that it is a part of."""
    partition: TextOrNull
    simulated: bool
    """True for one that does not exist."""
    replayed: bool
    """True for one of a recording, which is not how it is now."""
    readings: Numbers
    """Numbers in base units that were read just now: one for a metric, or one for each word of its label."""
    absent: Absences
    """What could have been given and was not read, and why."""
    origin: _Origins
    """The source of each reading; an object by label where the labels' sources differ."""
    allocations: Annotated[tuple[AllocationJson, ...], AtMost(bounds.MOST_CLAIMS)]
    """Who has the device, the largest share first; empty if it has no owner or owners are not reported."""
    processes: Annotated[tuple[ProcessJson, ...], AtMost(bounds.MOST_PROCESSES)]


@dataclass(frozen=True, slots=True)
class SnapshotJson:
    """All that one node's device telemetry holds at one moment.

    All keys are always present; what is unknown is null. Later versions of `/1` may have more keys: ignore those that you do not know.
    Keys of readings are metric names without `accelerator_`.
    """

    schema: Literal["telemetry.snapshot/1"]
    time: Time
    """When the snapshot was made, in UTC."""
    hostname: TextOrNull
    maintenance: MaintenanceJson | None
    """Null when the node is in none."""
    replay: ReplayJson | None
    """Null when the node is read as it is now."""
    host: HostJson
    sources: Annotated[tuple[SourceJson, ...], AtMost(256)]
    devices: Annotated[tuple[DeviceJson, ...], AtMost(4 * bounds.MOST_DEVICES)]
