"""The report in the making: devices in the order in which they are spoken of, the first number of each reading."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace

from telemetry_parsers import units
from telemetry_parsers.boxed.targets import Target, metric, value_of, with_domain
from telemetry_parsers.metrics import HEALTH_STATES, reading
from telemetry_parsers.model import Absent, Device, Form, Problem, Process, Reading, Report, Value
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.lines import bus_address, quote

MOST_DEVICES = 1024
_LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)


@dataclass(slots=True)
class Page:
    """All that one output says; `cut` when it shows that it does not list all cards."""

    vendor: str
    tool_version: str | None = None
    driver: str | None = None
    cut: bool = False
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    _devices: list[Device] = field(default_factory=list)
    _places: dict[Hashable, int] = field(default_factory=dict)
    _readings: dict[tuple[int, str, str], Reading] = field(default_factory=dict)

    def has(self, place: Hashable) -> bool:
        """Whether the device there was spoken of before."""
        return place in self._places

    def device(self, place: Hashable) -> int:
        """The position of the device there, made when it is spoken of first; a whole number is its index."""
        if place not in self._places:
            self._places[place] = len(self._devices)
            self._devices.append(Device(self.vendor, place if isinstance(place, int) else None))
        return self._places[place]

    def positions(self) -> dict[int, int]:
        """The position of each device that has an index, by that index."""
        return {device.index: at for at, device in enumerate(self._devices) if device.index is not None}

    def size(self) -> int:
        """How many devices were spoken of."""
        return len(self._devices)

    def partition(self, position: int, parent: int, name: str) -> None:
        """Say that a device is a part of another."""
        self._devices[position] = replace(self._devices[position], index=None, parent=parent, partition=name)

    def take(self, position: int, targets: Iterable[Target], text: str, where: str) -> None:
        """Put a text where it belongs."""
        for target in targets:
            if target.kind == "metric":
                value = value_of(target, text)
                if value is not None:
                    self.give(position, target, value, text, where)
            elif target.kind == "health":
                self._judge(position, target, text, where)
            elif target.kind == "fact":
                self._tell(position, target.key, text)
            else:
                self._identify(position, target.key, text, where)

    def give(self, position: int, target: Target, value: Value, text: str = "", where: str = "") -> None:
        """Take a reading in, unless a number for the same was there before; a bad text becomes a problem too."""
        item = reading(position, target.key, value, target.label)
        key = (position, item.metric, item.label)
        if where and isinstance(item.value, Absent) and item.value in _LOUD:
            self.problems.append(Problem(where, f'{item.metric}: "{quote(text)}" is {item.value.value}'))
        before = self._readings.get(key)
        if before is None or (isinstance(before.value, Absent) and not isinstance(item.value, Absent)):
            self._readings[key] = item

    def is_given(self, position: int, target: Target) -> bool:
        """Whether there is a reading for it, be it absent."""
        return (position, target.key, target.label) in self._readings

    def report(self, index_space: str, form: Form = "text") -> Report:
        """What was read."""
        if len(self._devices) > MOST_DEVICES:
            return failed("not_understood", "text", f"{len(self._devices)} devices in one output, as no tool prints")
        devices = (
            replace(device, driver=device.driver or self.driver) if device.parent is None else device
            for device in self._devices
        )
        version = (("tool_version", self.tool_version),) if self.tool_version else ()
        return Report(
            outcome="ok" if self._devices or version or self.facts else "no_devices",
            devices=tuple(devices),
            readings=tuple(self._readings.values()),
            processes=tuple(self.processes),
            problems=capped(self.problems),
            unknown_fields=tuple(self.unknown)[:MOST_DEVICES],
            facts=(*version, *self.facts.items()),
            index_space=index_space,
            form=form,
            is_cut=self.cut,
        )

    def _judge(self, position: int, target: Target, text: str, where: str) -> None:
        """A reading for each state of health; all of them absent for a word that is none."""
        word = target.states.get(" ".join(text.lower().split()))
        gap = None if word else units.placeholder(text) or Absent.NOT_UNDERSTOOD
        for name in HEALTH_STATES:
            value = gap or (1.0 if name == word else 0.0)
            self.give(position, metric("health", name), value, text, where if name == HEALTH_STATES[0] else "")

    def _tell(self, position: int, key: str, text: str) -> None:
        device = self._devices[position]
        if units.placeholder(text) is None and key not in dict(device.facts):
            self._devices[position] = replace(device, facts=(*device.facts, (key, text.strip())))

    def _identify(self, position: int, key: str, text: str, where: str) -> None:
        known = None if units.placeholder(text) is not None else text.strip()
        if known is None or getattr(self._devices[position], key) is not None:
            return
        if key == "index":
            index = units.whole(known)
            self._devices[position] = replace(self._devices[position], index=index)
            return
        if key == "bus_id":
            address = bus_address(with_domain(known))
            if address is None:
                self.problems.append(Problem(where, f'"{quote(known)}" is no bus address'))
            known = address
        if key == "driver" and known is not None:
            known = known.removeprefix("v")
        changes: dict[str, str | None] = {key: known}
        self._devices[position] = replace(self._devices[position], **changes)  # type: ignore[arg-type]  # str fields only
