"""What the store took of an attempt."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.model import Problem, Report


@dataclass(frozen=True, slots=True)
class Taken:
    """What the store took of an attempt: the report within its bounds, events of devices, and problems to log."""

    report: Report | None = None
    events: tuple[DeviceEvent, ...] = ()
    problems: tuple[Problem, ...] = ()
