"""A card or MPC instance as the reader asked it: the device, and its readings in base units."""

from __future__ import annotations

from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Device, Plain, Problem, Reading, Value
from telemetry_parsers.mtml.tables import (
    ANSWERS,
    CALLS,
    DEVICE_TYPES,
    FAN_CALLS,
    GUEST,
    LINK_CALLS,
    LINK_DOWNGRADED,
    LINK_STATES,
    QUIET,
    REASONS,
    Row,
)
from telemetry_parsers.recorded import error_in, mapping, number, part_of, text, whole
from telemetry_parsers.text.lines import bus_address, quote

VENDOR = "moorethreads"
_LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)


class CardReadings:
    """The readings of one device in the making, and what is told beside them."""

    def __init__(self, position: int, where: str) -> None:
        self._position = position
        self._where = where
        self._values: dict[tuple[str, str], Value] = {}
        self.problems: dict[Problem, None] = {}
        self.unknown: dict[str, None] = {}

    def take(self, calls: dict[str, Plain]) -> None:
        """Take in what was asked of the device."""
        fans = [answer for name, answer in calls.items() if name.startswith(FAN_CALLS)]
        for name, answer in calls.items():
            if name in CALLS:
                for row in CALLS[name]:
                    self._add(row, self._value(answer, row, name), name)
            elif name.startswith(LINK_CALLS):
                self._link(quote(name.removeprefix(LINK_CALLS)), answer, name)
            elif not name.startswith(FAN_CALLS) and name not in QUIET:
                self.unknown[quote(name) or "unnamed"] = None
        if fans:
            self._fastest(fans)

    def told(self) -> tuple[Reading, ...]:
        """All of them."""
        return tuple(Reading(self._position, metric, value, label) for (metric, label), value in self._values.items())

    def _fastest(self, fans: list[Plain]) -> None:
        """The fastest fan where all of them tell their speed; the fastest of some may not be it."""
        row = Row("fan_ratio", over=100)
        speeds = [self._value(answer, row, "fans") for answer in fans]
        numbers = [speed for speed in speeds if not isinstance(speed, Absent)]
        absent = [speed for speed in speeds if isinstance(speed, Absent)]
        self._add(row, absent[0] if absent else max(numbers), "fans")

    def _link(self, link: str, answer: Plain, name: str) -> None:
        row = Row("link_up", link)
        state = self._value(answer, row, name)
        if isinstance(state, Absent):
            self._add(row, state, name)
            return
        if state == LINK_DOWNGRADED:
            self._problem(f"MTLink {link} runs slower than it could")
        self._add(row, LINK_STATES.get(int(state), Absent.NOT_UNDERSTOOD), name)

    def _add(self, row: Row, value: Value, name: str) -> None:
        value = in_range(BY_KEY[row.metric], value)
        if isinstance(value, Absent) and value in _LOUD:
            self._problem(f"{quote(name)}: {row.metric} is {value.value.replace('_', ' ')}")
        self._values[row.metric, row.label] = value

    def _value(self, answer: Plain, row: Row, name: str) -> Value:
        code = error_in(answer)
        if code is not None:
            if code not in REASONS:
                self._problem(f"{quote(name)}: MTML error {code}")
            return REASONS.get(code, Absent.NOT_REPORTED)
        value = number(part_of(answer, row.part))
        return value if isinstance(value, Absent) else value * row.times / row.over

    def _problem(self, words: str) -> None:
        self.problems[Problem(self._where, words)] = None


def card(told: dict[str, Plain], driver: Plain) -> Device:
    """The card that an object tells of."""
    return Device(
        vendor=VENDOR,
        index=whole(told.get("index")),
        model=text(told.get("name")),
        uuid=text(told.get("uuid")),
        bus_id=bus_address(text(told.get("bus_id")) or ""),
        serial=text(told.get("serial")),
        driver=text(driver),
        up="lost" not in told,
        facts=_facts(told),
    )


def instance(told: dict[str, Plain], parent: Device, position: int) -> Device | None:
    """An MPC instance of the card at that position; None for one without a number."""
    index = whole(told.get("index"))
    if index is None:
        return None
    return Device(
        vendor=VENDOR,
        index=parent.index,
        model=text(told.get("name")),
        uuid=text(told.get("uuid")),
        bus_id=bus_address(text(told.get("bus_id")) or "") or parent.bus_id,
        partition=str(index),
        parent=position,
        driver=parent.driver,
        up=parent.up,
        facts=_facts(told),
    )


def _facts(told: dict[str, Plain]) -> tuple[tuple[str, str], ...]:
    calls = mapping(told.get("calls"))
    kind = mapping(calls.get("DeviceProperty"))
    guest = "Virtual" if whole(kind.get("virtRole")) == GUEST else None
    found = {
        "device_type": DEVICE_TYPES.get(whole(kind.get("mpcType")) or 0, guest),
        "mpc_capable": ANSWERS.get(-1 if (capable := whole(kind.get("mpcCap"))) is None else capable),
        "firmware": text(calls.get("DeviceMtBiosVersion")),
    }
    return tuple((name, fact) for name, fact in found.items() if fact is not None)
