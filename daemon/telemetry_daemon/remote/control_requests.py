"""The requests to the daemon over the control socket: the arguments and the answer of each verb."""

from __future__ import annotations

from telemetry_exporters.human import is_valid_time
from telemetry_parsers.codec.json_types import LongText
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.dataclass import dataclass

# A line between captures: how many captures before it were lost. `round_ended` is the monotonic time at which each poll
# had ended once since the recording began or, if the newest captures are kept, since the daemon started.
LOST_SCHEMA = "telemetry.lost/1"
_LONGEST_SECONDS = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget the lost device with this ID, or end the open events of a present device."""

    id: str


@dataclass(frozen=True, slots=True)
class ForgetLost:
    """Forget all lost devices, or those of one vendor."""

    vendor: str | None


@dataclass(frozen=True, slots=True)
class Release:
    """Release a source for this many seconds, or until it is resumed."""

    source: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class MaintenanceOn:
    """Start a maintenance of this many seconds; without a reason, an earlier reason is kept."""

    seconds: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class OfSource:
    """Poll a released source again, or read the jobs of a source at once."""

    source: str


@dataclass(frozen=True, slots=True)
class NoArguments:
    """Request the whole node as JSON, the state of the maintenance, or its end."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Control the played recording: a time to go to, or a speed, as the user wrote it."""

    action: str
    value: str


@dataclass(frozen=True, slots=True)
class Captures:
    """Request the sources' captures as they come; before them the last minutes, or the newest capture of each poll. Without `live`, only those."""

    minutes_before: bool
    live: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many devices were forgotten, the codes of the ended events, and the devices that are still lost."""

    forgotten: int
    events: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Released:
    """The processes that still hold the devices of a released source."""

    left_behind: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Resumed:
    """Whether the source was released before."""

    resumed: bool


@dataclass(frozen=True, slots=True)
class MaintenanceState:
    """The seconds until the maintenance ends, None without a maintenance; and why a restart would undo it."""

    ends_in: float | None
    reason: LongText
    not_kept: LongText

    def __post_init__(self) -> None:
        if self.ends_in is not None and not abs(self.ends_in) <= _LONGEST_SECONDS:
            raise CodecError("ends_in", "expected seconds within a year")


@dataclass(frozen=True, slots=True)
class MaintenanceEnded:
    """Whether there was a maintenance; and why a restart would undo its end."""

    was_on: bool
    not_kept: LongText


@dataclass(frozen=True, slots=True)
class Played:
    """The position in the recording and its length in seconds, the Unix time that is shown, and how it is played."""

    place: float
    length: float
    shown: float
    how: LongText

    def __post_init__(self) -> None:
        if not is_valid_time(self.shown) or not all(
            0 <= seconds <= _LONGEST_SECONDS for seconds in (self.place, self.length)
        ):
            raise CodecError("shown", "expected a place in a recording")
