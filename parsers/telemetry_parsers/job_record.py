"""What one owner had of a node's cards and what it cost; docs/job.schema.json is made of these classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from telemetry_parsers.codec.json_types import NotNegative, Schema
from telemetry_parsers.ownership import Basis, OwnerKind

_Schema = Literal["telemetry.job/1"]
SCHEMA: _Schema = "telemetry.job/1"
# Who told when it was: the scheduler's hook, the kernel by the start of a process, the daemon that saw it come or go, the daemon's own start, the end of a day.
Told = Literal["hook", "process", "seen", "daemon_start", "day"]
# Whether the card's own counter gave the energy, or the daemon integrated power readings, for some of the time at least.
EnergySource = Literal["", "counter", "estimated"]
NOBODY = "nobody"

# The sums of a record and of each of its cards.
Seconds = Annotated[
    float,
    Schema({"description": "Seconds for which the owner had the card, times its share of it.", "minimum": 0}),
]
MeasuredSeconds = Annotated[
    float,
    Schema({"description": "The part of these for which the card's utilization was known.", "minimum": 0}),
]
BusySeconds = Annotated[
    float | None,
    Schema(
        {
            "description": "The integral of the card's utilization over the measured seconds, times the share.",
            "minimum": 0,
        }
    ),
]
EnergyJoules = Annotated[
    float | None, Schema({"description": "The integral of the card's power, times the share.", "minimum": 0})
]
ThrottledSeconds = Annotated[
    float | None,
    Schema({"description": "Seconds for which the card's clocks were held down, times the share.", "minimum": 0}),
]


@dataclass(frozen=True, slots=True)
class Who:
    """An owner, as `ownership.Owner`; the kind may also be `nobody`."""

    kind: Annotated[str, Schema({"enum": [*get_args(OwnerKind), NOBODY]})]
    name: str = ""
    """Unique on the node for its kind."""
    pod_namespace: str = ""
    pod_name: str = ""
    container_name: str = ""
    job_id: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in Unix seconds, and who told it."""

    time: float
    told_by: Told
    """`hook`: the scheduler's. `process`: the start of the owner's first process. `seen`: when the daemon saw it come or go. `daemon_start`: it was there already, or was gone, when the daemon started. `day`: the record of nobody ends with a day."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which nothing is in the sums, such as while no daemon ran: Unix seconds, and how long it was by a clock that cannot be set."""

    start: float
    end: float
    seconds: NotNegative


@dataclass(frozen=True, slots=True)
class Course:
    """One reading over the seconds for which it was known, times the share: its mean, and the highest that was read; None is what nobody read."""

    seconds: NotNegative
    """For how long it was known, times the share."""
    mean: float | None
    """Over that time; null where that is 0."""
    peak: float | None
    """The highest that was read; null where only the time between two readings was the owner's."""


@dataclass(frozen=True, slots=True)
class CardShare:
    """What the owner had of one card. All seconds and joules are times its share; what was not measured is None.

    `readings` are the card's, and `memory_peak_bytes` is what the owner's own processes held.
    """

    id: str
    """The card's id, as in all other outputs."""
    vendor: str
    device: str
    model: str
    is_allocated: bool
    """Somebody gave the card to the owner."""
    is_used: bool
    """Processes of the owner were on it."""
    basis: tuple[Annotated[str, Schema({"enum": list(get_args(Basis))})], ...]
    """What the owner's share was taken from, in the order in which that came."""
    seconds: Seconds
    measured_seconds: MeasuredSeconds
    busy_seconds: BusySeconds
    energy_joules: EnergyJoules
    throttled_seconds: ThrottledSeconds
    memory_peak_bytes: NotNegative | None
    """The most that the owner's own processes held; null if unknown."""
    readings: Annotated[Mapping[str, Course], Schema({"propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}})]
    """Readings of the card while the owner had it, by metric without `accelerator_`: of the temperature the hottest main sensor."""
    events: Mapping[str, Annotated[int, Schema({"minimum": 1})]]
    """How often each event came while the owner had the card, by its code. All who share a card have the event."""
    energy_source: Annotated[EnergySource, Schema({"enum": ["counter", "estimated"]})] = field(
        default="", metadata={"left_out": True}
    )
    """`counter` if the card's own counter gave the energy, `estimated` if the daemon integrated its power for some of the time. Missing if no energy was measured, and in the records of earlier releases, which estimated all of it."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What one owner had of a node's cards: a line of `jobs.jsonl`, written when the owner has ended, and once a day for `nobody`.

    Times are Unix seconds. All keys are always present; what is not known of an owner is an empty text, and what was not measured is
    null. Nothing is extrapolated.
    """

    schema: _Schema
    id: Annotated[str, Schema({"pattern": "^[0-9a-f]{16}$"})]
    """Nobody else's: a record that two files have is one."""
    hostname: str
    owner: Who
    start: Moment
    end: Moment | None
    """Null in `ledger.json`, for an owner that has not ended."""
    seconds: Seconds
    measured_seconds: MeasuredSeconds
    busy_seconds: BusySeconds
    energy_joules: EnergyJoules
    throttled_seconds: ThrottledSeconds
    gaps: Annotated[tuple[Gap, ...], Schema({"maxItems": 16})]
    """Times of which nothing is in the sums: before the daemon saw the owner, while no daemon ran, while no source reported the owner. Of more than 16 the last are joined."""
    cards: tuple[CardShare, ...]
