"""A card or MPC instance as the reader asked it: the device, and its readings in base units."""

from __future__ import annotations

from telemetry_parsers.library_answers.devices import device_in, instance_in
from telemetry_parsers.library_answers.plain import mapping, text, whole
from telemetry_parsers.library_answers.readings import Readings
from telemetry_parsers.model import Absent, Device, Plain
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.moorethreads import VENDOR
from telemetry_parsers.vendors.moorethreads.mtml.tables import (
    ANSWERS,
    CALLS,
    DEVICE_TYPES,
    FAN,
    FAN_CALLS,
    GUEST,
    LINK_CALLS,
    LINK_DOWNGRADED,
    LINK_STATES,
    QUIET,
)


def take(calls: dict[str, Plain], readings: Readings) -> None:
    """Read the answers to the calls about the device."""
    for name, answer in calls.items():
        if name in CALLS:
            for row in CALLS[name]:
                readings.row(row, answer, quote(name))
        elif name.startswith(LINK_CALLS):
            _link(quote(name.removeprefix(LINK_CALLS)), answer, name, readings)
        elif not name.startswith(FAN_CALLS) and name not in QUIET:
            readings.draft.name_unknown(name)
    readings.greatest(FAN, {quote(name): answer for name, answer in calls.items() if name.startswith(FAN_CALLS)})


def _link(link: str, answer: Plain, name: str, readings: Readings) -> None:
    state = readings.value(answer, quote(name))
    if state == LINK_DOWNGRADED:
        readings.complain(f"MTLink {link} runs slower than it could")
    if not isinstance(state, Absent):
        state = LINK_STATES.get(int(state), Absent.NOT_UNDERSTOOD)
    readings.add("link_up", state, link, quote(name))


def card(recorded: dict[str, Plain], driver: Plain) -> Device:
    """The card that an object describes."""
    return device_in(recorded, VENDOR.word, driver, _facts(recorded))


def instance(recorded: dict[str, Plain], parent: Device, position: int) -> Device | None:
    """An MPC instance of the card at that position; None for one without a number."""
    return instance_in(recorded, parent, position, _facts(recorded))


def _facts(recorded: dict[str, Plain]) -> tuple[tuple[str, str], ...]:
    calls = mapping(recorded.get("calls"))
    kind = mapping(calls.get("DeviceProperty"))
    guest = "Virtual" if whole(kind.get("virtRole")) == GUEST else None
    facts = {
        "device_type": DEVICE_TYPES.get(whole(kind.get("mpcType")) or 0, guest),
        "mpc_capable": ANSWERS.get(-1 if (capable := whole(kind.get("mpcCap"))) is None else capable),
        "firmware": text(calls.get("DeviceMtBiosVersion")),
    }
    return tuple((name, fact) for name, fact in facts.items() if fact is not None)
