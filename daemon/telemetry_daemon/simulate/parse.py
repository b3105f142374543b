"""The report in what the simulator says: the parser of every simulated source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.codec.plain import CodecError, finite
from telemetry_parsers.metrics import BY_KEY, reading
from telemetry_parsers.model import Absent, Capture, Device, Event, Form, Plain, Problem, Process, Reading, Report
from telemetry_parsers.vendors import VENDOR_WORDS

_ABSENT = {reason.value: reason for reason in Absent}
# The metrics without a label.
_NUMBERS = frozenset(metric.key for metric in BY_KEY.values() if not metric.label)


@dataclass(frozen=True, slots=True)
class _Card:
    """A device as the simulator says it is; `readings` are read one by one."""

    index: int
    model: str | None
    uuid: str | None
    bus_id: str | None
    serial: str | None
    driver: str | None
    facts: tuple[tuple[str, str], ...]
    readings: object
    partition: str | None
    parent: int | None


@dataclass(frozen=True, slots=True)
class _Incident:
    """An event of a device."""

    device: int
    code: str
    wall_time: float


@dataclass(frozen=True, slots=True)
class _Simulated:
    """What the simulator says of one vendor's devices."""

    vendor: str
    form: Form
    tool_version: str
    devices: tuple[_Card, ...]
    events: tuple[_Incident, ...]
    processes: tuple[Process, ...]


def parse(capture: Capture) -> Report:
    """The report in a capture of a simulated source; `failed` when there is none in it."""
    try:
        return _report(from_plain(_Simulated, capture.outputs[0].data if capture.outputs else None), capture.source)
    except CodecError as error:
        return Report(outcome="failed", reason="not_understood", problems=(Problem(error.path, error.text),))


def _report(simulated: _Simulated, source: str) -> Report:
    if simulated.vendor not in VENDOR_WORDS:
        raise CodecError("vendor", f"expected one of {' '.join(VENDOR_WORDS)}")
    _check_positions("events", simulated.events, len(simulated.devices))
    _check_positions("processes", simulated.processes, len(simulated.devices))
    _check_parents(simulated.devices)
    return Report(
        outcome="ok" if simulated.devices else "no_devices",
        devices=tuple(_device(card, simulated.vendor) for card in simulated.devices),
        readings=tuple(_all_readings(simulated.devices)),
        events=tuple(Event(event.device, event.code, wall_time=event.wall_time) for event in simulated.events),
        processes=simulated.processes,
        facts=(("tool_version", simulated.tool_version),),
        index_space=source,
        form=simulated.form,
    )


def _device(card: _Card, vendor: str) -> Device:
    return Device(
        vendor=vendor,
        index=card.index,
        model=card.model,
        uuid=card.uuid,
        bus_id=card.bus_id,
        serial=card.serial,
        driver=card.driver,
        partition=card.partition,
        parent=card.parent,
        simulated=True,
        facts=card.facts,
    )


def _check_positions(key: str, items: Iterable[_Incident | Process], devices: int) -> None:
    for place, item in enumerate(items):
        if not 0 <= item.device < devices:
            raise CodecError(f"{key}[{place}].device", f"expected the position of one of {devices} devices")


def _check_parents(cards: tuple[_Card, ...]) -> None:
    for place, card in enumerate(cards):
        if card.parent is not None and not (0 <= card.parent < len(cards) and cards[card.parent].parent is None):
            raise CodecError(f"devices[{place}].parent", "expected the position of a whole card")


def _all_readings(cards: Iterable[_Card]) -> Iterator[Reading]:
    for position, card in enumerate(cards):
        for key, value in _object(card.readings, f"devices[{position}].readings").items():
            if value.__class__ is float and key in _NUMBERS:  # most are
                yield reading(position, key, value)
                continue
            try:
                yield from _readings(position, key, value)
            except CodecError as error:  # the path is made only now: there are thousands of readings in a poll
                raise CodecError(f"devices[{position}].readings.{key}", error.text) from None


def _readings(position: int, key: str, value: Plain) -> Iterable[Reading]:
    """A metric without a label has a number, one with a label numbers by word; a reason stands for an absent one."""
    if key not in BY_KEY:
        raise CodecError("", "no such metric")
    if isinstance(value, str):
        return (Reading(position, key, _absent(value)),)
    if key in _NUMBERS:
        return (reading(position, key, finite(value)),)
    words = _object(value, "")
    return [
        reading(position, key, number, word) for word, number in zip(words, map(finite, words.values()), strict=True)
    ]


def _absent(word: str) -> Absent:
    if word not in _ABSENT:
        raise CodecError("", f"expected a number or one of {' '.join(_ABSENT)}")
    return _ABSENT[word]


def _object(plain: Plain, path: str) -> dict[str, Any]:
    if not isinstance(plain, dict) or not {str}.issuperset(map(type, plain)):
        raise CodecError(path, "expected an object")
    return plain
