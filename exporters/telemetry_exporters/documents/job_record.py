"""The document `telemetry.job/1`: what one owner had of a node's cards and what it cost, as docs/job.schema.json describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telemetry_exporters.text import cleaned
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line

_Schema = Literal["telemetry.job/1"]
SCHEMA: _Schema = "telemetry.job/1"
# Who told when it was: the scheduler's hook, the kernel by the start of a process, the daemon that saw it come or go, the daemon's own start, the end of a day.
Told = Literal["hook", "process", "seen", "daemon_start", "day"]
# Whether the card's own counter gave the energy, or the daemon integrated power readings, for some of the time at least.
EnergySource = Literal["", "counter", "estimated"]
NOBODY = "nobody"
LONGEST_LINE_BYTES = 1 << 20
# More than all cards of the world come to in a century.
_MOST = 1e18


@dataclass(frozen=True, slots=True)
class Who:
    """An owner, as `ownership.Owner`; the kind may also be `nobody`."""

    kind: str
    name: str = ""
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


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which nothing is in the sums, such as while no daemon ran: Unix seconds, and how long it was."""

    start: float
    end: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Course:
    """One reading over the seconds for which it was known, times the share: its mean, and the highest that was read; None is what nobody read."""

    seconds: float
    mean: float | None
    peak: float | None


@dataclass(frozen=True, slots=True)
class CardShare:
    """What the owner had of one card. All seconds and joules are times its share; what was not measured is None.

    `readings` are the card's, and `memory_peak_bytes` is what the owner's own processes held.
    """

    id: str
    vendor: str
    device: str
    model: str
    is_allocated: bool
    is_used: bool
    basis: tuple[str, ...]
    seconds: float
    measured_seconds: float
    busy_seconds: float | None
    energy_joules: float | None
    throttled_seconds: float | None
    memory_peak_bytes: float | None
    readings: Mapping[str, Course]
    events: Mapping[str, int]
    # Empty in the records of releases that estimated all energy.
    energy_source: EnergySource = field(default="", metadata={"left_out": True})


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A line of `jobs.jsonl`; `end` is None for one that still runs. The sums are those of its cards together."""

    schema: _Schema
    id: str
    hostname: str
    owner: Who
    start: Moment
    end: Moment | None
    seconds: float
    measured_seconds: float
    busy_seconds: float | None
    energy_joules: float | None
    throttled_seconds: float | None
    gaps: tuple[Gap, ...]
    cards: tuple[CardShare, ...]


def line(record: JobRecord) -> str:
    """The record as one line of JSON without its end; its texts are safe to print."""
    return encode_line(to_plain(JobRecord, cleaned(record)))


def read(text: str | bytes) -> JobRecord:
    """The record in a line. Raises CodecError."""
    if len(text) > LONGEST_LINE_BYTES:
        raise CodecError("", "the line is too long")
    return checked(from_plain(JobRecord, decode_line(text)))


def checked(record: JobRecord) -> JobRecord:
    """The record with clean texts, if its sums may be true. Raises CodecError."""
    told: tuple[JobRecord | CardShare, ...] = (record, *record.cards)
    sums = ((one.seconds, one.measured_seconds, one.busy_seconds, one.energy_joules) for one in told)
    if not all(0.0 <= number <= _MOST for numbers in sums for number in numbers if number is not None):
        raise CodecError("", "a sum that no card can come to")
    return cleaned(record)
