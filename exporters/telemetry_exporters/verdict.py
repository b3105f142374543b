"""What is to be said against each device of a node, worst first."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from telemetry_parsers.model import MergedDevice, Snapshot


class Severity(enum.Enum):
    """How much a state asks for attention."""

    GOOD = "good"
    QUIET = "quiet"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is said of a device or source: in a word or two, and what to do about it, in a sentence."""

    word: str
    severity: Severity
    remedy: str = ""


_LOST_REMEDY = "see `dmesg`, reset the device or reboot; `telemetry forget {id}` if it was taken out"
_HEALTH: Mapping[str, Finding] = {
    "warning": Finding("warning", Severity.WARNING),
    "alarm": Finding("alarm", Severity.BAD),
    "critical": Finding("critical", Severity.BAD),
    "unknown": Finding("health unknown", Severity.QUIET),
}
_WELL = Finding("ok", Severity.GOOD)


def judge(snapshot: Snapshot) -> Mapping[str, tuple[Finding, ...]]:
    """The findings of each device by its id, worst first; there is always one, such as `ok` or `unknown`."""
    return {device.id: tuple(_findings(device)) or (_WELL,) for device in snapshot.devices}


def _findings(device: MergedDevice) -> Iterator[Finding]:
    if device.up is None:
        yield Finding("unknown", Severity.QUIET)
    elif not device.up:
        remedy = _LOST_REMEDY.format(id=shlex.quote(device.id))  # an Ascend id has blanks
        yield Finding("lost", Severity.BAD, remedy)
    elif ("suspended", "") in _active(device):
        yield Finding("asleep", Severity.QUIET)
    else:
        yield from _told(device)


def _told(device: MergedDevice) -> Iterator[Finding]:
    active = dict(_active(device))
    if (action := active.get("recovery_action")) not in (None, "none"):
        yield Finding(f"needs {action}".replace("_", " "), Severity.BAD)
    if (state := active.get("health", "")) in _HEALTH:
        yield _HEALTH[state]


def _active(device: MergedDevice) -> list[tuple[str, str]]:
    """Metric and label of what is 1, of those metrics that have a reading for each state."""
    wanted = ("suspended", "recovery_action", "health")
    return [(one.metric, one.label) for one in device.readings if one.metric in wanted and one.value == 1.0]
