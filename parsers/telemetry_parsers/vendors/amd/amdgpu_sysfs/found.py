"""What is collected over all cards: each device with its readings, the first number of a metric counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Problem, Process, Reading, Value

_LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)


@dataclass(slots=True)
class Found:
    """Devices, and what is told of them."""

    devices: list[Device] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    notes: list[Problem] = field(default_factory=list)
    _readings: list[dict[tuple[str, str], Reading]] = field(default_factory=list)

    def add(self, device: Device) -> int:
        """Adds a device and gives its position."""
        self.devices.append(device)
        self._readings.append({})
        return len(self.devices) - 1

    def keep(self, position: int, metric: str, value: Value, label: str = "") -> Value:
        """Keeps a value within its metric's range, unless a number is known already; gives what is known now."""
        readings = self._readings[position]
        known = readings.get((metric, label))
        if known is None or isinstance(known.value, Absent):
            item = reading(position, metric, value, label)
            if known is None or not isinstance(item.value, Absent):
                known = readings[metric, label] = item
        return known.value

    def note(self, position: int, where: str, text: str) -> None:
        """Tells a problem of a device that is no reading's."""
        device = self.devices[position]
        self.notes.append(Problem(f"{device.bus_id or device.index} {where}", text))

    def value(self, position: int, metric: str, label: str = "") -> Value | None:
        """What is known of a metric, None when nothing was told."""
        known = self._readings[position].get((metric, label))
        return None if known is None else known.value

    def readings(self) -> Iterator[Reading]:
        """All readings, device by device."""
        for readings in self._readings:
            yield from readings.values()

    def problems(self) -> list[Problem]:
        """What was read and made no sense."""
        return self.notes + [
            Problem(
                f"{self._name(item)} {item.metric} {item.label}".rstrip(), f"what the driver says is {item.value.value}"
            )
            for item in self.readings()
            if isinstance(item.value, Absent) and item.value in _LOUD
        ]

    def _name(self, item: Reading) -> str:
        device = self.devices[item.device or 0]
        return device.bus_id or (f"card{device.index}" if device.index is not None else "card")
