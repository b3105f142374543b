"""The report in the making: devices by card and chip, the first number of each reading, and what was out of place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from telemetry_parsers.merge.devices import combine
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Event, Problem, Process, Reading, Report, Value
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.ascend.npu_smi.words import MOST_DEVICES, TOOL, VENDOR


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chip sits: the NPU id of its card and its number on it, or its physical id where only that is told."""

    card: int | None = None
    chip: int | None = None
    physical: int | None = None

    def facts(self) -> dict[str, str]:
        """What the rest of the program knows a chip's place by."""
        told_facts = {"card": self.card, "chip": self.chip}
        return {name: str(number) for name, number in told_facts.items() if number is not None}


@dataclass(slots=True)
class Page:
    """All that one output says; `cut` when it shows that it does not list all cards, `complete` when that it does."""

    tool_version: str | None = None
    cut: bool = False
    complete: bool = True
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    _devices: list[Device] = field(default_factory=list)
    _places: dict[Place, int] = field(default_factory=dict)
    _readings: dict[tuple[int, str, str], Reading] = field(default_factory=dict)

    def has(self, place: Place) -> bool:
        """Whether the device there was spoken of before."""
        return place in self._places

    def device(self, place: Place) -> int:
        """The position of the device there, made when it is spoken of first; its index is the NPU id until told."""
        if place not in self._places:
            self._places[place] = len(self._devices)
            self._devices.append(Device(VENDOR, place.card, facts=tuple(place.facts().items())))
        return self._places[place]

    def places(self) -> list[Place]:
        """Where devices are, in the order of their positions."""
        return list(self._places)

    def number(self, position: int, index: int | None) -> None:
        """Give a device the index that is printed for it in place of its card's."""
        if index is not None:
            self._devices[position] = replace(self._devices[position], index=index)

    def describe(self, position: int, told: Device, facts: Mapping[str, str | None]) -> None:
        """Fill in what is known of a device; what was known before stays."""
        known = combine(self._devices[position], replace(told, index=None, facts=()))
        more = {name: text for name, text in facts.items() if text is not None}
        self._devices[position] = replace(known, facts=tuple({**more, **dict(known.facts)}.items()))

    def give(self, position: int, item: Reading, text: str, where: str) -> None:
        """Take a reading in, unless a number for the same was there before; a bad text becomes a problem too."""
        key = (position, item.metric, item.label)
        if item.value in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE) and isinstance(item.value, Absent):
            problem = Problem(where, f'{item.metric}: "{quote(text)}" is {item.value.value}')
            self.problems.extend([] if problem in self.problems[-1:] else [problem])
        before = self._readings.get(key)
        if before is None or (isinstance(before.value, Absent) and not isinstance(item.value, Absent)):
            self._readings[key] = item

    def tell_event(self, position: int, code: str, text: str) -> None:
        """Something that is wrong for now."""
        event = Event(position, code, text, is_ongoing=True)
        self.events.extend([] if event in self.events else [event])

    def value(self, position: int, metric: str, label: str = "") -> Value | None:
        """What was read so far."""
        item = self._readings.get((position, metric, label))
        return None if item is None else item.value

    def count_processes(self, position: int, value: Value) -> None:
        """The number of processes of a device."""
        self._readings.setdefault((position, "processes", ""), reading(position, "processes", value))

    def report(self, index_space: str = "") -> Report:
        """What was read."""
        if len(self._devices) > MOST_DEVICES:
            text = f"{len(self._devices)} devices in one output, as {TOOL} never prints"
            return failed("not_understood", "text", text)
        facts = (("tool_version", self.tool_version),) if self.tool_version else ()
        return Report(
            outcome="ok",
            devices=tuple(self._devices),
            readings=tuple(self._readings.values()),
            events=tuple(self.events),
            processes=tuple(self.processes),
            problems=capped(self.problems),
            unknown_fields=tuple(self.unknown)[:MOST_DEVICES],
            facts=facts,
            index_space=index_space,
        )
