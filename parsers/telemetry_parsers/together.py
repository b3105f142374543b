"""Several reports of one tool on one node as one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.answers import told
from telemetry_parsers.model import Absent, Device, Event, Process, Reading, Report

_IDENTITY = ("bus_id", "uuid", "serial", "partition")
_LEARNT = (*_IDENTITY, "model", "driver")


def together(reports: Sequence[Report]) -> Report:
    """All that these reports say, a device being the same where its index is and no identity contradicts.

    Of two values of one reading a number beats an Absent, and else the earlier report's is kept. Without any device
    the first report stands.
    """
    full = [report for report in reports if report.devices]
    if (len(full) < 2 and len(reports) < 2) or not full:
        return reports[0]
    joined = _Joined()
    for report in full:
        joined.add(report)
    return replace(
        full[0],
        devices=tuple(joined.devices),
        readings=tuple(joined.readings.values()),
        events=tuple(joined.events),
        processes=tuple(joined.processes),
        problems=told([problem for report in reports for problem in report.problems]),
        unknown_fields=tuple(dict.fromkeys(name for report in reports for name in report.unknown_fields)),
        facts=tuple(dict(fact for report in reversed(reports) for fact in report.facts).items()),
    )


class _Joined:
    """Devices and readings at their positions in the joined report."""

    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.readings: dict[tuple[int | None, str, str], Reading] = {}
        self.events: list[Event] = []
        self.processes: list[Process] = []

    def add(self, report: Report) -> None:
        """What one more report says."""
        moved: dict[int | None, int | None] = {None: None}
        known = len(self.devices)
        for position, device in enumerate(report.devices):
            moved[position] = self._place(device, known)
        counted = {process.device for process in self.processes}
        self.processes.extend(
            replace(process, device=place)
            for process in report.processes
            if (place := moved[process.device]) is not None and place not in counted
        )
        self.events.extend(replace(event, device=moved[event.device]) for event in report.events)
        for reading in report.readings:
            self._keep(replace(reading, device=moved[reading.device]))

    def _place(self, device: Device, known: int) -> int:
        """The position of the same device in an earlier report, else a new one."""
        for position, other in enumerate(self.devices[:known]):
            if device.index is not None and device.index == other.index and not _contradict(device, other):
                learnt = {name: getattr(device, name) for name in _LEARNT if getattr(other, name) is None}
                facts = tuple({**dict(device.facts), **dict(other.facts)}.items())
                self.devices[position] = replace(other, facts=facts, **learnt)
                return position
        self.devices.append(device)
        return len(self.devices) - 1

    def _keep(self, reading: Reading) -> None:
        name = (reading.device, reading.metric, reading.label)
        kept = self.readings.get(name)
        if kept is None or (isinstance(kept.value, Absent) and not isinstance(reading.value, Absent)):
            self.readings[name] = reading


def _contradict(one: Device, other: Device) -> bool:
    pairs = ((getattr(one, name), getattr(other, name)) for name in _IDENTITY)
    return any(a is not None and b is not None and a != b for a, b in pairs)
