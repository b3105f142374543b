"""The objects of the document `telemetry.snapshot/1`. docs/snapshot.schema.json is generated from these classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from telemetry_exporters.judgement.verdict import Severity
from telemetry_parsers import bounds
from telemetry_parsers.codec.json_types import (
    Count,
    LongText,
    LongTextOrNull,
    MaxSize,
    NotNegative,
    Ratio,
    Schema,
    TextOrNull,
    Time,
    Word,
)
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Absent, Health, Reason, State
from telemetry_parsers.ownership import Basis, OwnerKind

# The field metadata of keys that older daemons do not write.
ADDED_LATER = {"added_later": True}
_METRIC = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}
_ABSENCE = {"enum": [absent.value for absent in Absent]}


def _schema_by_metric(value_schema: Mapping[str, Any], min_labels: int = 1) -> Schema:
    """Return the schema of an object that maps metrics to values, or to objects with a value for each label."""
    labelled_schema = {"type": "object", "minProperties": min_labels, "additionalProperties": value_schema}
    return Schema({"propertyNames": _METRIC, "additionalProperties": {"anyOf": [value_schema, labelled_schema]}})


SeverityWord = Annotated[str, Schema({"enum": [severity.value for severity in Severity]})]
Numbers = Annotated[Mapping[str, Any], _schema_by_metric({"type": "number"})]
Absences = Annotated[Mapping[str, Any], _schema_by_metric(_ABSENCE)]
_Origins = Annotated[Mapping[str, Any], _schema_by_metric({"type": "string"}, min_labels=2)]
ProcessKind = Literal["compute", "graphics", "mps"]


@dataclass(frozen=True, slots=True)
class MaintenanceJson:
    """Maintenance that an operator has announced for the node."""

    until: str
    """The end of the maintenance, in UTC by the node's clock."""
    reason: TextOrNull


@dataclass(frozen=True, slots=True)
class ReplayJson:
    """The recording that is being replayed."""

    recorded: str
    """The beginning of the recording, in UTC."""
    hostname: TextOrNull
    """The recorded host; null in a masked recording."""
    shown: TextOrNull = field(metadata=ADDED_LATER)
    """The recorded time that is currently shown, in UTC."""
    how: TextOrNull = field(metadata=ADDED_LATER)
    """How the recording is replayed, such as `paused` or `10 ×`; null at normal speed."""


@dataclass(frozen=True, slots=True)
class HostJson:
    """The readings of the node itself, which belong to no device."""

    readings: Numbers
    """Current numbers in base units. Metrics with a label have an object with a number for each label value."""


@dataclass(frozen=True, slots=True)
class ProblemJson:
    """A part of a source's output that could not be parsed, and its location."""

    where: str
    text: LongText


@dataclass(frozen=True, slots=True)
class PollJson:
    """A periodic request to a source."""

    poll: str
    state: State
    reason: Reason | None
    """Why the last attempt failed; null if it did not fail."""
    seconds: NotNegative | None
    """The duration of the last attempt."""
    age_seconds: NotNegative | None
    """The time since the last attempt began."""


def poll_json(health: Health, now: float, duration_digits: int, age_digits: int) -> PollJson:
    """Return a poll for JSON documents. `now` is a monotonic time."""
    seconds = round(health.seconds, duration_digits) if health.attempted else None
    age = round(max(0.0, now - health.attempted_monotonic), age_digits) if health.attempted else None
    return PollJson(health.poll, health.state, health.reason, seconds, age)


@dataclass(frozen=True, slots=True)
class SourceJson:
    """A tool, a library or a set of driver files."""

    source: str
    """The name of the source, usually of its tool."""
    state: State
    reason: Reason | None
    """Why the last attempt failed; null if it did not fail."""
    detail: LongTextOrNull
    """Details about the reason."""
    version: TextOrNull
    problems: Annotated[tuple[ProblemJson, ...], MaxSize(bounds.MAX_PROBLEMS)]
    """The parts of the latest outputs that could not be parsed."""
    unknown_fields: Annotated[tuple[str, ...], MaxSize(bounds.MAX_UNKNOWN_FIELDS)]
    """The names of unknown fields in the latest outputs. Their values are ignored."""
    polls: Annotated[tuple[PollJson, ...], MaxSize(64)]


@dataclass(frozen=True, slots=True)
class ConditionJson:
    """A condition of a device."""

    word: Word
    severity: SeverityWord


@dataclass(frozen=True, slots=True)
class OwnerJson:
    """The owner of a device."""

    kind: OwnerKind
    """`others` combines all owners beyond the sixteen largest."""
    name: LongTextOrNull
    """Unique on the node among owners of the same kind."""
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
    """The owner of a process."""

    kind: OwnerKind
    """`others` combines all owners beyond the sixteen largest."""
    name: LongTextOrNull


@dataclass(frozen=True, slots=True)
class AllocationJson:
    """The allocation of a device to one owner."""

    owner: OwnerJson
    share: Ratio
    """The owner's share of the whole card. The shares of a card add up to at most 1."""
    basis: Basis
    """How the share was determined."""
    allocated: bool
    """Whether a scheduler or other source allocated the device to the owner."""
    used: bool | None
    """Whether the owner has processes on the device; null if unknown."""
    sources: Annotated[tuple[str, ...], MaxSize(16)]
    """The sources that report the owner."""
    memory_used_bytes: Count | None
    started: TextOrNull
    """The start of the allocation, in UTC."""


@dataclass(frozen=True, slots=True)
class ProcessJson:
    """A process on a device."""

    pid: Count
    name: str
    """The name that the vendor's tool reports."""
    memory_used_bytes: Count | None
    kind: ProcessKind | None
    instance: TextOrNull
    """The ID of the GPU instance (MIG) that the process uses."""
    utilization_ratio: Ratio | None
    """The share of the device's time that the process uses."""
    started: TextOrNull
    """The start of the process, in UTC."""
    user: LongTextOrNull
    command: LongTextOrNull
    """The name of the program, without arguments."""
    container: LongTextOrNull
    owner: ProcessOwnerJson | None
    """Null if unknown."""
    command_line: TextOrNull = field(default=None, metadata={"left_out": True})
    """Present only in the output of `telemetry snapshot --processes`. Null without permission to read it."""


@dataclass(frozen=True, slots=True)
class DeviceJson:
    """A whole card or a partition."""

    vendor: str
    index: Count | None
    """The index of the device in the vendor's tool."""
    id: str
    """Unique on the node. Does not change until the device is forgotten."""
    device: str
    """The label `device` of the device's series."""
    model: TextOrNull
    uuid: TextOrNull
    bus_id: TextOrNull
    serial: TextOrNull
    driver: TextOrNull
    up: bool | None
    """False if the device is lost; null if its presence is unknown."""
    last_read: TextOrNull = field(metadata=ADDED_LATER)
    """When a source last listed the device, in UTC. Null unless the device's presence is unknown."""
    condition: ConditionJson
    """The worst condition of the device; `ok` if there is none."""
    parent: TextOrNull
    """The id of the card that this partition belongs to."""
    partition: TextOrNull
    simulated: bool
    """True for a device that does not exist."""
    replayed: bool
    """True if the device comes from a recording."""
    readings: Numbers
    """Current numbers in base units. Metrics with a label have an object with a number for each label value."""
    absent: Absences
    """The reason for each absent reading."""
    origin: _Origins
    """The source of each reading. Metrics with several sources have an object with the source of each label value."""
    allocations: Annotated[tuple[AllocationJson, ...], MaxSize(bounds.MAX_CLAIMS)]
    """The owners of the device, the largest share first. Empty if the device has no owner, or if owners are not reported."""
    processes: Annotated[tuple[ProcessJson, ...], MaxSize(bounds.MAX_PROCESSES)]


@dataclass(frozen=True, slots=True)
class SnapshotJson:
    """The current state of one node. All keys are always present; unknown values are null. New keys may be added without a new schema version: ignore unknown keys. Keys of readings are metric names without `accelerator_`."""

    schema: Literal["telemetry.snapshot/1"]
    time: Time
    """The time of the snapshot, in UTC."""
    hostname: TextOrNull
    maintenance: MaintenanceJson | None
    """Null if no maintenance is announced."""
    replay: ReplayJson | None
    """Null unless a recording is being replayed."""
    host: HostJson
    sources: Annotated[tuple[SourceJson, ...], MaxSize(256)]
    devices: Annotated[tuple[DeviceJson, ...], MaxSize(4 * bounds.MAX_DEVICES)]
