"""The report in the making: devices in the order of their first mention, the first number of each reading."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from telemetry_parsers import bounds, units
from telemetry_parsers.combining import combine
from telemetry_parsers.metrics import HEALTH_STATES, reading
from telemetry_parsers.model import Absent, Device, Event, Form, Outcome, Problem, Process, Reading, Report, Value
from telemetry_parsers.reports.targets import Target, metric, value_of, with_domain
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.lines import bus_address, quote

# Absences that a person should see: the tool printed something, and it is no number that can be believed.
LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)
# How a problem words a loud absence, from the reading and the printed text.
Wording = Callable[[Reading, str], str]
# A metric and its label.
Key = tuple[str, str]


def by_metric(item: Reading, text: str) -> str:
    """`power_watts: "57" is implausible`."""
    return f'{item.metric}: "{quote(text)}" is {why(item)}'


def by_text(item: Reading, text: str) -> str:
    """`"57" is implausible`, for tools whose problems name the key as the place."""
    return f'"{quote(text)}" is {why(item)}'


def why(item: Reading) -> str:
    """Why a reading has no number: `implausible`; empty where it has one."""
    return item.value.value if isinstance(item.value, Absent) else ""


@dataclass(slots=True)
class Draft:
    """All that was read of one text, by a tool whose devices are the vendor's.

    A place is whatever the text names its devices by: an index, a bus address, a pair of numbers.
    `words` are what the tool prints in place of any number, in lower case: `failed`.
    `is_cut`: the text shows that its list of devices may go on. `is_open`: nothing shows that it ended, so that the list
    counts for nothing if the tool failed. `has_gaps`: it ended, and one of its devices is not understood.
    """

    vendor: str
    wording: Wording = by_metric
    words: Mapping[str, Value] = field(default_factory=dict)
    index_space: str = ""
    tool_version: str | None = None
    driver: str | None = None
    is_cut: bool = False
    is_open: bool = False
    has_gaps: bool = False
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    _devices: list[Device] = field(default_factory=list)
    _places: dict[Hashable, int] = field(default_factory=dict)
    # The readings of each device, and their order in the text.
    _readings: list[dict[Key, Reading]] = field(default_factory=list)
    _order: list[tuple[int, Key]] = field(default_factory=list)

    # Devices.

    def has(self, place: Hashable) -> bool:
        """Whether the text named the device there before."""
        return place in self._places

    def device(self, place: Hashable, known: Device | None = None) -> int:
        """The position of the device there, made at its first mention; a whole number is its index.

        `known` is what a new device is made of, where the place alone does not say it.
        """
        position = self._places.get(place)
        if position is None:
            position = self._places[place] = len(self._devices)
            index = place if isinstance(place, int) else None
            self._devices.append(known or Device(self.vendor, index))
            self._readings.append({})
        return position

    def add(self, known: Device) -> int:
        """The position of one more device, for an answer that lists each once."""
        return self.device(len(self._devices), known)

    def device_at(self, position: int) -> Device:
        """What is known of a device so far."""
        return self._devices[position]

    def devices(self) -> list[Device]:
        """What is known of each device so far, by their positions."""
        return list(self._devices)

    def rewrite(self, position: int, device: Device) -> None:
        """Put another description in the place of a device's, for what its readings show: that it is not up."""
        self._devices[position] = device

    def places(self) -> list[Hashable]:
        """Where devices are, in the order of their positions."""
        return list(self._places)

    def positions(self) -> dict[int, int]:
        """The position of each device that has an index, by that index."""
        return {device.index: at for at, device in enumerate(self._devices) if device.index is not None}

    def size(self) -> int:
        """How many devices there are so far."""
        return len(self._devices)

    def number(self, position: int, index: int | None) -> None:
        """Give a device the index that is printed for it, in place of the one that its place gave it."""
        if index is not None:
            self._devices[position] = replace(self._devices[position], index=index)

    def partition(self, position: int, parent: int, name: str) -> None:
        """Say that a device is a part of another."""
        self._devices[position] = replace(self._devices[position], index=None, parent=parent, partition=name)

    def forget_devices(self) -> None:
        """Take all devices back with their readings, where a text does not show whose these are; problems stay."""
        for of_devices in (self._devices, self._places, self._readings, self._order):
            of_devices.clear()

    def describe(self, position: int, known: Device, facts: Mapping[str, str | None]) -> None:
        """Fill in what is known of a device, but its index, and facts as far as they are known; what was known stays."""
        before = self._devices[position]
        added = {name: text for name, text in facts.items() if text is not None}
        device = combine(before, replace(known, index=None, facts=()))
        self._devices[position] = replace(device, facts=tuple({**added, **dict(device.facts)}.items()))

    # Readings.

    def take(self, position: int, targets: Iterable[Target], text: str, where: str, unit: str = "") -> None:
        """Put a text where it belongs; `unit` is the one that stands in its key or heading."""
        for target in targets:
            if target.kind == "metric":
                value = self.value_in(target, text, unit)
                if value is not None:
                    self.give(position, target, value, text, where)
            elif target.kind == "health":
                self._take_health(position, target, text, where)
            elif target.kind == "fact":
                self._take_fact(position, target.key, text)
            else:
                self._take_identity(position, target.key, text, where)

    def value_in(self, target: Target, text: str, unit: str = "") -> Value | None:
        """What a text gives for a metric, None where it is about something else."""
        word = self.words.get(text.strip().lower()) if self.words else None
        return value_of(target, text, unit) if word is None else word

    def give(self, position: int, target: Target, value: Value, text: str = "", where: str = "") -> None:
        """Keep a reading; one that a person should see, printed somewhere, becomes a problem too."""
        item = reading(position, target.key, value, target.label, self.vendor)
        if where:
            self.complain_of(item, text, where)
        self.keep(item)

    def complain_of(self, item: Reading, text: str, where: str) -> None:
        """Report a reading that a person should see as a problem."""
        if isinstance(item.value, Absent) and item.value in LOUD:
            self.complain(where, self.wording(item, text))

    def keep(self, item: Reading) -> None:
        """Keep a reading of the catalogue, unless a number for the same was there before."""
        readings = self._readings[item.device or 0]
        key = (item.metric, item.label)
        before = readings.get(key)
        if before is None:
            readings[key] = item
            self._order.append((item.device or 0, key))
        elif isinstance(before.value, Absent) and not isinstance(item.value, Absent):
            readings[key] = item

    def overrule(self, item: Reading) -> None:
        """Put a reading in the place of the one before it, where the whole device shows that it is wrong."""
        self._readings[item.device or 0][item.metric, item.label] = item

    def is_given(self, position: int, target: Target) -> bool:
        """Whether there is a reading for it, be it absent."""
        return (target.key, target.label) in self._readings[position]

    def value(self, position: int, key: str, label: str = "") -> Value | None:
        """What was read so far, None where nothing was."""
        item = self._readings[position].get((key, label))
        return None if item is None else item.value

    def readings_of(self, position: int) -> list[Reading]:
        """The readings of one device."""
        return list(self._readings[position].values())

    # What is beside the readings.

    def complain(self, where: str, text: str) -> None:
        """Report a problem."""
        self.problems.append(Problem(where, text))

    def name_unknown(self, *names: str) -> None:
        """Name keys or headings that no table knows as unknown fields."""
        for name in names:
            self.unknown[quote(name) or "(blank)"] = None

    def happens(self, position: int, code: str, text: str) -> None:
        """Report what is wrong with a device for as long as it lasts."""
        event = Event(position, code, text, is_ongoing=True)
        if event not in self.events:
            self.events.append(event)

    def report(self, form: Form = "text") -> Report:
        """What was read."""
        if len(self._devices) > bounds.MOST_LISTED:
            return failed("not_understood", "text", f"{len(self._devices)} devices in one output, as no tool prints")
        version = (("tool_version", self.tool_version),) if self.tool_version else ()
        outcome: Outcome = "ok" if self._devices or version or self.facts else "no_devices"
        return Report(
            outcome=outcome,
            devices=tuple(map(self._with_driver, self._devices)),
            readings=tuple(self._readings[position][key] for position, key in self._order),
            events=tuple(self.events),
            processes=tuple(self.processes),
            problems=capped(tuple(dict.fromkeys(self.problems))),
            unknown_fields=tuple(self.unknown)[: bounds.MOST_LISTED],
            facts=(*version, *self.facts.items()),
            index_space=self.index_space,
            form=form,
            is_cut=self.is_cut or self.has_gaps,
        )

    def _with_driver(self, device: Device) -> Device:
        """A whole device with the driver that the text names for all."""
        if self.driver is None or device.driver or device.parent is not None:
            return device
        return replace(device, driver=self.driver)

    def _take_health(self, position: int, target: Target, text: str, where: str) -> None:
        """A reading for each state of health; all of them absent for a word that is none."""
        word = target.states.get(" ".join(text.lower().split()))
        gap = None if word else units.placeholder(text) or Absent.NOT_UNDERSTOOD
        for name in HEALTH_STATES:
            value = gap or (1.0 if name == word else 0.0)
            self.give(position, metric("health", name), value, text, where if name == HEALTH_STATES[0] else "")

    def _take_fact(self, position: int, key: str, text: str) -> None:
        device = self._devices[position]
        if units.placeholder(text) is None and key not in dict(device.facts):
            self._devices[position] = replace(device, facts=(*device.facts, (key, text.strip())))

    def _take_identity(self, position: int, key: str, text: str, where: str) -> None:
        known = units.text_or_none(text)
        if known is None or getattr(self._devices[position], key) is not None:
            return
        if key == "index":
            self._devices[position] = replace(self._devices[position], index=units.whole(known))
            return
        if key == "bus_id":
            address = bus_address(with_domain(known))
            if address is None:
                self.complain(where, f'"{quote(known)}" is no bus address')
            known = address
        if key == "driver" and known is not None:
            known = known.removeprefix("v")
        changes: dict[str, str | None] = {key: known}
        self._devices[position] = replace(self._devices[position], **changes)  # type: ignore[arg-type]  # str fields only
