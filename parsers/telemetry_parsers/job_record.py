"""Records of the cards that one owner used. docs/job.schema.json is generated from these classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from telemetry_parsers.codec.json_types import NotNegative, Schema
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.ownership import Basis, OwnerKind

_Schema = Literal["telemetry.job/1"]
SCHEMA: _Schema = "telemetry.job/1"
# The origin of a time: the scheduler's hook, the start of a process, the report in which the owner appeared or
# disappeared (`seen`), the start of the daemon, or the end of the day.
TimeOrigin = Literal["hook", "process", "seen", "daemon_start", "day"]
# `estimated`: the daemon calculated at least a part of the energy from power readings.
EnergySource = Literal["", "counter", "estimated"]
NOBODY = "nobody"

# The totals that a record contains for all its cards together and for each card.
Seconds = Annotated[
    float, Schema({"description": "Time that the owner had the card, multiplied by the owner's share.", "minimum": 0})
]
MeasuredSeconds = Annotated[
    float, Schema({"description": "The part of `seconds` in which the card's utilization was known.", "minimum": 0})
]
BusySeconds = Annotated[
    float | None,
    Schema(
        {
            "description": "Seconds for which the card was busy (the integral of the utilization), multiplied by the owner's share.",
            "minimum": 0,
        }
    ),
]
EnergyJoules = Annotated[
    float | None, Schema({"description": "The card's energy, multiplied by the owner's share.", "minimum": 0})
]
ThrottledSeconds = Annotated[
    float | None,
    Schema({"description": "Seconds of throttled clocks, multiplied by the owner's share.", "minimum": 0}),
]


@dataclass(frozen=True, slots=True)
class JobOwner:
    """The owner in a job record. The kind `nobody` stands for unallocated cards."""

    kind: Annotated[str, Schema({"enum": [*get_args(OwnerKind), NOBODY]})]
    name: str = ""
    """Unique among the node's owners of this kind."""
    pod_namespace: str = ""
    pod_name: str = ""
    container_name: str = ""
    job_id: str = ""
    job_name: str = ""
    """The name that the user gave the job."""
    user: str = ""
    account: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class RecordedTime:
    """A time in Unix seconds, and its origin."""

    time: float
    told_by: TimeOrigin
    """The origin of the time. `hook`: the scheduler's hook. `process`: the start of the owner's first process. `seen`: the daemon saw the owner appear or disappear. `daemon_start`: the start of the daemon; the owner had appeared or disappeared before. `day`: the end of the day, for unallocated use."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A period that the totals do not include, such as a daemon outage. `seconds` is measured with the monotonic clock."""

    start: float
    end: float
    seconds: NotNegative


@dataclass(frozen=True, slots=True)
class ReadingSummary:
    """The mean and the peak of one reading while the owner had the card."""

    seconds: NotNegative
    """Seconds for which the reading was known, multiplied by the owner's share."""
    mean: float | None
    """The mean over `seconds`. Null if `seconds` is 0."""
    peak: float | None
    """The highest reading. Null if no reading was made while the owner had the card."""


@dataclass(frozen=True, slots=True)
class CardShare:
    """An owner's use of one card. Seconds and joules are multiplied by the owner's share. Unknown values are null.

    `readings` describe the whole card, but `memory_peak_bytes` describes only the owner's processes.
    """

    id: str
    """The card's id, as in all other outputs."""
    vendor: str
    device: str
    model: str
    is_allocated: bool
    """A scheduler allocated the card to the owner."""
    is_used: bool
    """The owner's processes used the card."""
    basis: tuple[Annotated[str, Schema({"enum": list(get_args(Basis))})], ...]
    """The rules that determined the owner's share, in chronological order."""
    seconds: Seconds
    measured_seconds: MeasuredSeconds
    busy_seconds: BusySeconds
    energy_joules: EnergyJoules
    throttled_seconds: ThrottledSeconds
    memory_peak_bytes: NotNegative | None
    """The largest memory use of the owner's own processes. Null if unknown."""
    readings: Annotated[Mapping[str, ReadingSummary], Schema({"propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}})]
    """Summaries of the card's readings while the owner had the card. The keys are metric names without `accelerator_`. The temperature is that of the hottest main sensor."""
    events: Mapping[str, Annotated[int, Schema({"minimum": 1})]]
    """The number of events by code while the owner had the card. An event counts for every owner that shares the card."""
    energy_source: Annotated[EnergySource, Schema({"enum": ["counter", "estimated"]})] = field(
        default="", metadata={"left_out": True}
    )
    """`counter`: the energy is from the card's counter. `estimated`: at least a part of the energy was calculated from power readings. Missing if no energy was measured. Also missing in records of earlier releases, which always estimated the energy."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One owner's use of a node's cards: a line of `jobs.jsonl`. Written when the owner ends, or daily for unallocated use.

    Times are Unix seconds. All keys are always present. Unknown fields of an owner are empty strings, and values that were
    not measured are null. Nothing is extrapolated.
    """

    schema: _Schema
    id: Annotated[str, Schema({"pattern": "^[0-9a-f]{16}$"})]
    """The record's unique id. Equal ids in two files denote the same record."""
    hostname: str
    owner: JobOwner
    start: RecordedTime
    end: RecordedTime | None
    """Null if the record is still open (only in `ledger.json`)."""
    seconds: Seconds
    measured_seconds: MeasuredSeconds
    busy_seconds: BusySeconds
    energy_joules: EnergyJoules
    throttled_seconds: ThrottledSeconds
    gaps: Annotated[tuple[Gap, ...], Schema({"maxItems": 16})]
    """Periods that the totals exclude, because the daemon had not seen the owner yet, no daemon ran, or no source reported the owner. If there are more than 16, the last ones are merged."""
    cards: tuple[CardShare, ...]
