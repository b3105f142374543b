"""What the daemon can be asked for over the control socket: the arguments of each verb, and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_exporters.human import is_moment
from telemetry_parsers.codec.json_types import LongText
from telemetry_parsers.codec.plain import CodecError

# A line between captures: how many before it were not taken in time. With `round_ended`, a time by the monotonic clock, it
# says that each poll has ended once since the recording began or, where the newest captures are kept, since the daemon did.
LOST_SCHEMA = "telemetry.lost/1"
_LONGEST_SECONDS = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget the lost device with this id, or end the open events of a device that is there."""

    id: str


@dataclass(frozen=True, slots=True)
class ForgetLost:
    """Forget all lost devices, or those of one vendor."""

    vendor: str | None


@dataclass(frozen=True, slots=True)
class Release:
    """Let go of a source for so many seconds, or until it is resumed."""

    source: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class MaintenanceOn:
    """The node is in maintenance for so many seconds; without a reason, one given before stays."""

    seconds: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class OfSource:
    """Poll a released source again, or read the jobs of a source at once."""

    source: str


@dataclass(frozen=True, slots=True)
class NoArguments:
    """The whole node as JSON, whether it is in maintenance, or the end of the maintenance."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Do this with the recording that is played: a moment to go to, or a speed, as somebody wrote it."""

    action: str
    value: str


@dataclass(frozen=True, slots=True)
class Captures:
    """What the sources answer, as it comes; before that the last minutes, or the newest capture of each poll.

    If not `live`, nothing more comes after these.
    """

    minutes_before: bool
    live: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many devices were forgotten, the codes of the events that ended, and the devices that are still lost."""

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
    """The seconds until the maintenance ends, None without one; and why a restart would undo it, if it would."""

    ends_in: float | None
    reason: LongText
    not_kept: LongText

    def __post_init__(self) -> None:
        if self.ends_in is not None and not abs(self.ends_in) <= _LONGEST_SECONDS:
            raise CodecError("ends_in", "expected seconds within a year")


@dataclass(frozen=True, slots=True)
class MaintenanceEnded:
    """Whether there was a maintenance; and why a restart would undo this, if it would."""

    was_on: bool
    not_kept: LongText


@dataclass(frozen=True, slots=True)
class Played:
    """The place in the recording and its length in seconds, the Unix time that is shown, and how it is played."""

    place: float
    length: float
    shown: float
    how: LongText

    def __post_init__(self) -> None:
        if not is_moment(self.shown) or not all(
            0 <= seconds <= _LONGEST_SECONDS for seconds in (self.place, self.length)
        ):
            raise CodecError("shown", "expected a place in a recording")
