"""A report under construction: devices in the order of their first mention, the first number of each reading."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from telemetry_parsers import bounds, units
from telemetry_parsers.combining import combine
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.metrics import HEALTH_STATES, reading
from telemetry_parsers.model import Absent, Device, Event, Form, Outcome, Problem, Process, Reading, Report, Value
from telemetry_parsers.reports.targets import Target, metric, value_of, with_domain
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.lines import bus_address, quote

# Absences shown to the operator: the tool printed a text that is not a valid number.
LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)
# Words a problem about such an absence, from the reading and the printed text.
Wording = Callable[[Reading, str], str]
# A metric and its label.
Key = tuple[str, str]


def by_metric(item: Reading, text: str) -> str:
    """Return `power_watts: "57" is implausible`."""
    return f'{item.metric}: "{quote(text)}" is {why(item)}'


def by_text(item: Reading, text: str) -> str:
    """Return `"57" is implausible`, for tools whose problems name the key in `where`."""
    return f'"{quote(text)}" is {why(item)}'


def why(item: Reading) -> str:
    """Return why a reading has no number, such as `implausible`; empty if it has one."""
    return item.value.value if isinstance(item.value, Absent) else ""


@dataclass(slots=True)
class Draft:
    """The contents read from one text, for a tool that lists only devices of one vendor."""

    vendor: str
    wording: Wording = by_metric
    words: Mapping[str, Value] = field(default_factory=dict)  # printed instead of any number, in lower case: `failed`
    index_space: str = ""
    tool_version: str | None = None
    driver: str | None = None
    is_cut: bool = False  # the text shows that its list may be truncated
    is_open: bool = False  # no end mark was found, so that the list is ignored if the tool failed
    has_gaps: bool = False  # the list is complete, but a device in it is not understood
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    _devices: list[Device] = field(default_factory=list)
    # Positions by key: the text's name for a device, such as an index, a bus address, a pair of numbers.
    _positions: dict[Hashable, int] = field(default_factory=dict)
    # The readings of each device, and their order in the text.
    _readings: list[dict[Key, Reading]] = field(default_factory=list)
    _order: list[tuple[int, Key]] = field(default_factory=list)

    def has(self, key: Hashable) -> bool:
        """Return whether the text has already named this device."""
        return key in self._positions

    def device(self, key: Hashable, template: Device | None = None) -> int:
        """Return the position of the device with this key, created at the first mention from `template`. A whole number is its index."""
        position = self._positions.get(key)
        if position is None:
            position = self._positions[key] = len(self._devices)
            index = key if isinstance(key, int) else None
            self._devices.append(template or Device(self.vendor, index))
            self._readings.append({})
        return position

    def add(self, template: Device) -> int:
        """Return the position of a new device, for an answer that lists each device once."""
        return self.device(len(self._devices), template)

    def device_at(self, position: int) -> Device:
        """Return the current description of a device."""
        return self._devices[position]

    def devices(self) -> list[Device]:
        """Return the current descriptions of all devices, by position."""
        return list(self._devices)

    def rewrite(self, position: int, device: Device) -> None:
        """Replace the description of a device, for example because its readings show that it is not up."""
        self._devices[position] = device

    def device_keys(self) -> list[Hashable]:
        """Return the keys of the devices, in the order of their positions."""
        return list(self._positions)

    def positions(self) -> dict[int, int]:
        """Return the position of each device that has an index, by that index."""
        return {device.index: at for at, device in enumerate(self._devices) if device.index is not None}

    def size(self) -> int:
        """Return the number of devices."""
        return len(self._devices)

    def number(self, position: int, index: int | None) -> None:
        """Set the printed index of a device, which replaces the one derived from its key."""
        if index is not None:
            self._devices[position] = replace(self._devices[position], index=index)

    def partition(self, position: int, parent: int, name: str) -> None:
        """Make a device a partition of another."""
        self._devices[position] = replace(self._devices[position], index=None, parent=parent, partition=name)

    def forget_devices(self) -> None:
        """Remove all devices with their readings, for a text whose devices cannot be determined. Problems are kept."""
        for per_device in (self._devices, self._positions, self._readings, self._order):
            per_device.clear()

    def describe(self, position: int, device: Device, facts: Mapping[str, str | None]) -> None:
        """Fill in unknown fields of a device except its index, and add unknown facts. Known values are kept."""
        before = self._devices[position]
        added = {name: text for name, text in facts.items() if text is not None}
        device = combine(before, replace(device, index=None, facts=()))
        self._devices[position] = replace(device, facts=tuple({**added, **dict(device.facts)}.items()))

    def take(self, position: int, targets: Iterable[Target], text: str, where: str, unit: str = "") -> None:
        """Store a text in its targets; `unit` is the unit in its key or heading."""
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
        """Return the value of a text for a metric, or None if the text is about something else."""
        word = self.words.get(text.strip().lower()) if self.words else None
        return value_of(target, text, unit) if word is None else word

    def give(self, position: int, target: Target, value: Value, text: str = "", where: str = "") -> None:
        """Keep a reading. If `where` is given, report a bad value as a problem."""
        item = reading(position, target.key, value, target.label, self.vendor)
        if where:
            self.complain_of(item, text, where)
        self.keep(item)

    def complain_of(self, item: Reading, text: str, where: str) -> None:
        """Report a bad reading as a problem."""
        if isinstance(item.value, Absent) and item.value in LOUD:
            self.complain(where, self.wording(item, text))

    def keep(self, item: Reading) -> None:
        """Keep a reading of the catalogue, unless it already has a number."""
        readings = self._readings[item.device or 0]
        key = (item.metric, item.label)
        before = readings.get(key)
        if before is None:
            readings[key] = item
            self._order.append((item.device or 0, key))
        elif isinstance(before.value, Absent) and not isinstance(item.value, Absent):
            readings[key] = item

    def overrule(self, item: Reading) -> None:
        """Replace a reading that other readings of the device show to be wrong."""
        self._readings[item.device or 0][item.metric, item.label] = item

    def is_given(self, position: int, target: Target) -> bool:
        """Return whether there is a reading for this target, present or absent."""
        return (target.key, target.label) in self._readings[position]

    def value(self, position: int, key: str, label: str = "") -> Value | None:
        """Return the value read so far, or None."""
        item = self._readings[position].get((key, label))
        return None if item is None else item.value

    def readings_of(self, position: int) -> list[Reading]:
        """Return the readings of one device."""
        return list(self._readings[position].values())

    def complain(self, where: str, text: str) -> None:
        """Report a problem."""
        self.problems.append(Problem(where, text))

    def name_unknown(self, *names: str) -> None:
        """Report unknown keys or headings as unknown fields."""
        for name in names:
            self.unknown[quote(name) or "(blank)"] = None

    def happens(self, position: int, code: str, text: str) -> None:
        """Report an ongoing event of a device."""
        event = Event(position, code, text, is_ongoing=True)
        if event not in self.events:
            self.events.append(event)

    def report(self, form: Form = "text") -> Report:
        """Return the report."""
        if len(self._devices) > bounds.MOST_LISTED:
            text = f"{len(self._devices)} devices in one output are more than any tool prints"
            return failed("not_understood", "text", text)
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
        """Return a whole device with the driver that the text names for all devices."""
        if self.driver is None or device.driver or device.parent is not None:
            return device
        return replace(device, driver=self.driver)

    def _take_health(self, position: int, target: Target, text: str, where: str) -> None:
        """Keep a reading for each state of health; all are absent for an unknown word."""
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
        text_value = units.text_or_none(text)
        if text_value is None or getattr(self._devices[position], key) is not None:
            return
        if key == "index":
            self._devices[position] = replace(self._devices[position], index=units.whole(text_value))
            return
        if key == "bus_id":
            address = bus_address(with_domain(text_value))
            if address is None:
                self.complain(where, f'"{quote(text_value)}" is not a bus address')
            text_value = address
        if key == "driver" and text_value is not None:
            text_value = text_value.removeprefix("v")
        changes: dict[str, str | None] = {key: text_value}
        self._devices[position] = replace(self._devices[position], **changes)  # type: ignore[arg-type]  # str fields only
