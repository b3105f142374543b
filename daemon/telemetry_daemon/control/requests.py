"""What the daemon can be asked for over the control socket: the arguments of each verb."""

from __future__ import annotations

from dataclasses import dataclass

# A line between captures: how many before it were not taken in time. With `round_ended`, a time by the monotonic clock, it
# says that each poll has ended once since the recording began or, where the newest captures are kept, since the daemon did.
LOST_SCHEMA = "telemetry.lost/1"


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
class Resume:
    """Poll a released source again."""

    source: str


@dataclass(frozen=True, slots=True)
class MaintenanceOn:
    """The node is in maintenance for so many seconds; without a reason, one given before stays."""

    seconds: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class MaintenanceOff:
    """The maintenance ends now."""


@dataclass(frozen=True, slots=True)
class MaintenanceStatus:
    """Whether the node is in maintenance."""


@dataclass(frozen=True, slots=True)
class JobsChanged:
    """Read the jobs of this source at once."""

    source: str


@dataclass(frozen=True, slots=True)
class Replay:
    """Do this with the recording that is played: a moment to go to, or a speed, as somebody wrote it."""

    action: str
    value: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole node as JSON."""


@dataclass(frozen=True, slots=True)
class Captures:
    """What the sources answer, as it comes; before that the last minutes, or the newest capture of each poll.

    If not `live`, nothing more comes after these.
    """

    minutes_before: bool
    live: bool
