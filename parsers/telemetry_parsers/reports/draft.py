"""A report under construction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from telemetry_parsers import bounds, units
from telemetry_parsers.combining import combine_devices
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.metrics import HEALTH_STATES, reading
from telemetry_parsers.model import Absent, Device, Event, Form, Outcome, Problem, Process, Reading, Report, Value
from telemetry_parsers.reports.targets import Target, metric, value_of, with_domain
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.lines import bus_address, quote

# Readings with these values are reported as problems, because the printed text is not a valid number.
REPORTED_ABSENCES = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)
# A function that takes (absent reading, printed text) and returns the text of the problem.
Wording = Callable[[Reading, str], str]
# A reading's (metric, label).
Key = tuple[str, str]


def problem_by_metric(item: Reading, text: str) -> str:
    """Return a problem text such as `power_watts: "57" is implausible`."""
    return f'{item.metric}: "{quote(text)}" is {absence_reason(item)}'


def problem_by_text(item: Reading, text: str) -> str:
    """Return a problem text such as `"57" is implausible`."""
    return f'"{quote(text)}" is {absence_reason(item)}'


def absence_reason(item: Reading) -> str:
    """Return the reason, such as `implausible`, or an empty string for a number."""
    return item.value.value if isinstance(item.value, Absent) else ""


@dataclass(slots=True)
class Draft:
    """A report under construction, for one text that a tool printed."""

    vendor: str
    wording: Wording = problem_by_metric
    words: Mapping[str, Value] = field(default_factory=dict)  # lower-case words that replace numbers
    index_space: str = ""
    tool_version: str | None = None
    driver: str | None = None
    is_cut: bool = False  # the text shows that its list may be truncated
    is_open: bool = False  # the list has no end mark and is ignored if the tool failed
    has_gaps: bool = False  # the list is complete, but some device could not be parsed
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    _devices: list[Device] = field(default_factory=list)
    # Maps a device's key in the text, such as an index or a bus address, to the device's position.
    _positions: dict[Hashable, int] = field(default_factory=dict)
    # The readings of each device by key, and the (device, key) of all readings in the order in which they were added.
    _readings: list[dict[Key, Reading]] = field(default_factory=list)
    _order: list[tuple[int, Key]] = field(default_factory=list)

    def has_device(self, key: Hashable) -> bool:
        """Return whether there is a device with this key."""
        return key in self._positions

    def device(self, key: Hashable, template: Device | None = None) -> int:
        """Return the position of the device with this key. Add the device if it does not exist."""
        position = self._positions.get(key)
        if position is None:
            position = self._positions[key] = len(self._devices)
            index = key if isinstance(key, int) else None
            self._devices.append(template or Device(self.vendor, index))
            self._readings.append({})
        return position

    def add_device(self, template: Device) -> int:
        """Add a device without a key. Return its position."""
        return self.device(len(self._devices), template)

    def device_at(self, position: int) -> Device:
        """Return the device at this position."""
        return self._devices[position]

    def devices(self) -> list[Device]:
        """Return all devices, in the order of their positions."""
        return list(self._devices)

    def replace_device(self, position: int, device: Device) -> None:
        """Replace a device, for example because its readings show that it is not up."""
        self._devices[position] = device

    def device_keys(self) -> list[Hashable]:
        """Return the keys of the devices, in the order of their positions."""
        return list(self._positions)

    def positions(self) -> dict[int, int]:
        """Map the index of each device to its position."""
        return {device.index: position for position, device in enumerate(self._devices) if device.index is not None}

    def device_count(self) -> int:
        """Return the number of devices."""
        return len(self._devices)

    def set_index(self, position: int, index: int | None) -> None:
        """Replace the device's index, unless `index` is None."""
        if index is not None:
            self._devices[position] = replace(self._devices[position], index=index)

    def set_partition(self, position: int, parent: int, name: str) -> None:
        """Make the device at `position` a partition of the device at `parent`."""
        self._devices[position] = replace(self._devices[position], index=None, parent=parent, partition=name)

    def clear_devices(self) -> None:
        """Remove all devices and readings, but keep the problems."""
        for collection in (self._devices, self._positions, self._readings, self._order):
            collection.clear()

    def describe(self, position: int, device: Device, facts: Mapping[str, str | None]) -> None:
        """Fill in the device's unknown fields, except the index, and add new facts."""
        previous = self._devices[position]
        added = {name: text for name, text in facts.items() if text is not None}
        device = combine_devices(previous, replace(device, index=None, facts=()))
        self._devices[position] = replace(device, facts=tuple({**added, **dict(device.facts)}.items()))

    def store(self, position: int, targets: Iterable[Target], text: str, where: str, unit: str = "") -> None:
        """Parse `text` separately for each target, and store the results. `unit` is the unit in its key or heading."""
        for target in targets:
            if target.kind == "metric":
                value = self.value_in(target, text, unit)
                if value is not None:
                    self.set_value(position, target, value, text, where)
            elif target.kind == "health":
                self._store_health(position, target, text, where)
            elif target.kind == "fact":
                self._store_fact(position, target.key, text)
            else:
                self._store_identity(position, target.key, text, where)

    def value_in(self, target: Target, text: str, unit: str = "") -> Value | None:
        """Return the value of the target's metric in a printed text, or None if the text is ignored."""
        value = self.words.get(text.strip().lower()) if self.words else None
        return value_of(target, text, unit) if value is None else value

    def set_value(self, position: int, target: Target, value: Value, text: str = "", where: str = "") -> None:
        """Set the target's metric, unless it already has a number. If `where` is given, report a bad value."""
        item = reading(position, target.key, value, target.label, self.vendor)
        if where:
            self.report_bad_value(item, text, where)
        self.add_reading(item)

    def report_bad_value(self, item: Reading, text: str, where: str) -> None:
        """Add a problem if the reading is not understood or implausible."""
        if isinstance(item.value, Absent) and item.value in REPORTED_ABSENCES:
            self.add_problem(where, self.wording(item, text))

    def add_reading(self, item: Reading) -> None:
        """Add a reading, unless the device already has a number for the same metric and label."""
        readings = self._readings[item.device or 0]
        key = (item.metric, item.label)
        previous = readings.get(key)
        if previous is None:
            readings[key] = item
            self._order.append((item.device or 0, key))
        elif isinstance(previous.value, Absent) and not isinstance(item.value, Absent):
            readings[key] = item

    def replace_reading(self, item: Reading) -> None:
        """Replace a reading, for example because other readings of the device show that it is wrong."""
        self._readings[item.device or 0][item.metric, item.label] = item

    def has_reading(self, position: int, target: Target) -> bool:
        """Return whether the device has a reading, possibly an `Absent` value, for this target."""
        return (target.key, target.label) in self._readings[position]

    def value(self, position: int, key: str, label: str = "") -> Value | None:
        """Return the value of a reading, or None if there is no such reading."""
        item = self._readings[position].get((key, label))
        return None if item is None else item.value

    def readings_of(self, position: int) -> list[Reading]:
        """Return the readings of one device."""
        return list(self._readings[position].values())

    def add_problem(self, where: str, text: str) -> None:
        """Add a problem to the report."""
        self.problems.append(Problem(where, text))

    def add_unknown(self, *names: str) -> None:
        """Report keys or headings as unknown fields."""
        for name in names:
            self.unknown[quote(name) or "(blank)"] = None

    def add_event(self, position: int, code: str, text: str) -> None:
        """Add an ongoing event of a device, unless it was already added."""
        event = Event(position, code, text, is_ongoing=True)
        if event not in self.events:
            self.events.append(event)

    def report(self, form: Form = "text") -> Report:
        """Return the finished report."""
        if len(self._devices) > bounds.MAX_LISTED:
            text = f"the output lists {len(self._devices)} devices, more than any tool does"
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
            unknown_fields=tuple(self.unknown)[: bounds.MAX_LISTED],
            facts=(*version, *self.facts.items()),
            index_space=self.index_space,
            form=form,
            is_cut=self.is_cut or self.has_gaps,
        )

    def _with_driver(self, device: Device) -> Device:
        if self.driver is None or device.driver or device.parent is not None:
            return device
        return replace(device, driver=self.driver)

    def _store_health(self, position: int, target: Target, text: str, where: str) -> None:
        state = target.states.get(" ".join(text.lower().split()))
        absence = None if state else units.placeholder(text) or Absent.NOT_UNDERSTOOD
        for word in HEALTH_STATES:
            value = absence or (1.0 if word == state else 0.0)
            self.set_value(position, metric("health", word), value, text, where if word == HEALTH_STATES[0] else "")

    def _store_fact(self, position: int, key: str, text: str) -> None:
        device = self._devices[position]
        if units.placeholder(text) is None and key not in dict(device.facts):
            self._devices[position] = replace(device, facts=(*device.facts, (key, text.strip())))

    def _store_identity(self, position: int, key: str, text: str, where: str) -> None:
        identifier = units.text_or_none(text)
        if identifier is None or getattr(self._devices[position], key) is not None:
            return
        if key == "index":
            self._devices[position] = replace(self._devices[position], index=units.integer(identifier))
            return
        if key == "bus_id":
            address = bus_address(with_domain(identifier))
            if address is None:
                self.add_problem(where, f'"{quote(identifier)}" is not a bus address')
            identifier = address
        if key == "driver" and identifier is not None:
            identifier = identifier.removeprefix("v")
        changes: dict[str, str | None] = {key: identifier}
        self._devices[position] = replace(self._devices[position], **changes)  # type: ignore[arg-type]  # str fields only
