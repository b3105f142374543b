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
    float, Schema({"description": "Seconds with the card, multiplied by the owner's share of the card.", "minimum": 0})
]
MeasuredSeconds = Annotated[
    float, Schema({"description": "The part of `seconds` for which the card's utilization was known.", "minimum": 0})
]
BusySeconds = Annotated[
    float | None,
    Schema(
        {
            "description": "Utilization integrated over the measured seconds, multiplied by the share.",
            "minimum": 0,
        }
    ),
]
EnergyJoules = Annotated[
    float | None, Schema({"description": "The card's energy, multiplied by the share.", "minimum": 0})
]
ThrottledSeconds = Annotated[
    float | None,
    Schema({"description": "Seconds of throttled clocks, multiplied by the share.", "minimum": 0}),
]


@dataclass(frozen=True, slots=True)
class JobOwner:
    """An owner, like `ownership.Owner`. The kind can also be `nobody` (unallocated)."""

    kind: Annotated[str, Schema({"enum": [*get_args(OwnerKind), NOBODY]})]
    name: str = ""
    """Unique on the node for its kind."""
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
    """`hook`: from the scheduler's hook. `process`: start of the owner's first process. `seen`: the daemon saw the owner appear or disappear. `daemon_start`: when the daemon started, the owner was already present, or had disappeared. `day`: records of unallocated use end with the day."""


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
    """Seconds for which the reading was known, multiplied by the share."""
    mean: float | None
    """The mean over this time; null if the time is 0."""
    peak: float | None
    """The highest reading; null if the owner had the card only between two readings."""


@dataclass(frozen=True, slots=True)
class CardShare:
    """The use of one card by the owner. Seconds and joules are multiplied by the owner's share. Unknown values are null.

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
    """How the owner's share was determined, in order of time."""
    seconds: Seconds
    measured_seconds: MeasuredSeconds
    busy_seconds: BusySeconds
    energy_joules: EnergyJoules
    throttled_seconds: ThrottledSeconds
    memory_peak_bytes: NotNegative | None
    """The largest memory use of the owner's own processes; null if unknown."""
    readings: Annotated[Mapping[str, ReadingSummary], Schema({"propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}})]
    """Summaries of the card's readings while the owner had the card. The keys are metric names without `accelerator_`. The temperature is that of the hottest main sensor."""
    events: Mapping[str, Annotated[int, Schema({"minimum": 1})]]
    """How often each event occurred while the owner had the card, by code. Events count for all owners that share the card."""
    energy_source: Annotated[EnergySource, Schema({"enum": ["counter", "estimated"]})] = field(
        default="", metadata={"left_out": True}
    )
    """`counter` if the energy is from the card's counter, `estimated` if the daemon calculated at least a part of it from power readings. Missing if no energy was measured, and in records of earlier releases, which always estimated the energy."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One owner's use of a node's cards: a line of `jobs.jsonl`. Written when the owner ends, or daily for `nobody`.

    Times are Unix seconds. All keys are always present. Unknown fields of an owner are empty strings, and values that were
    not measured are null. Nothing is extrapolated.
    """

    schema: _Schema
    id: Annotated[str, Schema({"pattern": "^[0-9a-f]{16}$"})]
    """Unique: equal ids in two files mean the same record."""
    hostname: str
    owner: JobOwner
    start: RecordedTime
    end: RecordedTime | None
    """Null in `ledger.json`, for an owner that has not ended."""
    seconds: Seconds
    measured_seconds: MeasuredSeconds
    busy_seconds: BusySeconds
    energy_joules: EnergyJoules
    throttled_seconds: ThrottledSeconds
    gaps: Annotated[tuple[Gap, ...], Schema({"maxItems": 16})]
    """Periods that the sums do not include: before the daemon saw the owner, while no daemon ran, and while no source reported the owner. If there are more than 16, the last ones are merged."""
    cards: tuple[CardShare, ...]
