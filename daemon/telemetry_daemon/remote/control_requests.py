"""The types of the control socket's requests and answers."""

from __future__ import annotations

from telemetry_exporters.human import is_valid_time
from telemetry_parsers.codec.json_types import LongText
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.dataclass import dataclass

# The schema of a line that counts dropped captures. `round_ended` is the monotonic time by which all polls had run.
LOST_SCHEMA = "telemetry.lost/1"
_MAX_SECONDS = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A request to forget a lost device, or to close the open events of a present device."""

    id: str


@dataclass(frozen=True, slots=True)
class ForgetLostRequest:
    """A request to forget all lost devices, or only one vendor's."""

    vendor: str | None


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A request to release a source. If `seconds` is None, the source is released until it is resumed."""

    source: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """A request for a maintenance window. If `reason` is None, the current reason is kept."""

    seconds: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """A request about one source, such as to resume it."""

    source: str


@dataclass(frozen=True, slots=True)
class EmptyRequest:
    """A request without arguments."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A request to control a replay. `value` is a position or speed as the user entered it."""

    action: str
    value: str


@dataclass(frozen=True, slots=True)
class CapturesRequest:
    """A request for past captures and, if `live` is set, new captures."""

    minutes_before: bool
    live: bool


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """The number of forgotten devices, the codes of closed events, and the devices that are still lost."""

    forgotten: int
    events: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """The result of a release: the PIDs of processes that still use the devices."""

    left_behind: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ResumeResult:
    """The result of a resume: whether the source had been released."""

    resumed: bool


@dataclass(frozen=True, slots=True)
class MaintenanceState:
    """The maintenance window. `not_kept` says why the window could not be saved."""

    ends_in: float | None
    reason: LongText
    not_kept: LongText

    def __post_init__(self) -> None:
        if self.ends_in is not None and not abs(self.ends_in) <= _MAX_SECONDS:
            raise CodecError("ends_in", "expected a number of seconds within a year")


@dataclass(frozen=True, slots=True)
class MaintenanceEndResult:
    """The result of ending maintenance. `not_kept` says why the end could not be saved."""

    was_on: bool
    not_kept: LongText


@dataclass(frozen=True, slots=True)
class ReplayState:
    """The state of a replay: position and length in seconds, the shown time, and a text such as `10 ×, paused`."""

    place: float
    length: float
    shown: float
    how: LongText

    def __post_init__(self) -> None:
        if not is_valid_time(self.shown) or not all(
            0 <= seconds <= _MAX_SECONDS for seconds in (self.place, self.length)
        ):
            raise CodecError("shown", "expected a position in a recording")
