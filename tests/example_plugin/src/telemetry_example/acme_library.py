"""What the library reader of this distribution gives: the same cards as acme-smi, at a hundredth of its cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from telemetry_example.vendor import COOLANT_FLOW, INDEX_SPACE, VENDOR
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Capture, Device, Library, Plain, Poll, Problem, Reading, Report, Value
from telemetry_parsers.text.answers import capped, failed, reader_failure
from telemetry_parsers.text.lines import quote


@dataclass(frozen=True)
class Field:
    """Where a number goes, and what it is divided by on its way to the base unit."""

    metric: str
    divisor: int
    label: str = ""


FIELDS = {
    "power_milliwatts": Field("power_watts", 1000),
    "temperature_celsius": Field("temperature_celsius", 1, "core"),
    "coolant_flow_percent": Field("acme_coolant_flow_ratio", 100),
}
IDENTITY = ("index", "uuid")
METRICS = {**BY_KEY, COOLANT_FLOW.key: COOLANT_FLOW}
# The library's error numbers for one field of one card.
ABSENT = {4: Absent.NOT_SUPPORTED, 2: Absent.NOT_PERMITTED}
LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)
_LARGEST = 2**63


def parse(capture: Capture) -> Report:
    """The report on what the library said."""
    refusal = reader_failure(capture)
    if refusal is not None:
        return refusal
    answers = {output.name: output for output in capture.outputs}
    cards = answers.get("cards")
    if cards is None or not isinstance(cards.data, list):
        text = quote(cards.stderr) if cards is not None and cards.stderr else "there is no list of cards"
        return failed("not_understood", "cards", text)
    if not cards.data:
        return Report("no_devices")
    objects = [card for card in cards.data if isinstance(card, dict)]
    if len(objects) < len(cards.data):
        return failed("not_understood", "cards", "one of the cards is no object")
    version = answers["version"].data if "version" in answers else None
    facts = (("library_version", version),) if isinstance(version, str) and version.strip() else ()
    return replace(_report(objects), facts=facts)


def _report(cards: list[dict[str, Plain]]) -> Report:
    readings = tuple(reading for position, card in enumerate(cards) for reading in _readings(position, card))
    keys = dict.fromkeys(key for card in cards for key in card)
    return Report(
        devices=tuple(_device(card) for card in cards),
        readings=readings,
        problems=capped([_problem(reading) for reading in readings if reading.value in LOUD]),
        unknown_fields=tuple(quote(key) for key in keys if key not in FIELDS and key not in IDENTITY),
        index_space=INDEX_SPACE,
        form="data",
    )


def _device(card: dict[str, Plain]) -> Device:
    index, uuid = card.get("index"), card.get("uuid")
    return Device(
        vendor=VENDOR,
        index=index if type(index) is int and 0 <= index < _LARGEST else None,
        uuid=uuid if isinstance(uuid, str) and uuid.strip() else None,
    )


def _readings(position: int, card: dict[str, Plain]) -> list[Reading]:
    return [
        Reading(position, row.metric, in_range(METRICS[row.metric], _value(card.get(key), row.divisor)), row.label)
        for key, row in FIELDS.items()
    ]


def _problem(reading: Reading) -> Problem:
    return Problem(f"card {reading.device}", f"{reading.metric}: what the library says of it is no such number")


def _value(given: Plain, divisor: int) -> Value:
    if given is None:
        return Absent.NOT_REPORTED
    if isinstance(given, dict):
        error = given.get("error")
        return ABSENT.get(error, Absent.NOT_REPORTED) if type(error) is int else Absent.NOT_UNDERSTOOD
    if type(given) is int and abs(given) < _LARGEST:
        return given / divisor
    return Absent.NOT_UNDERSTOOD


PARSER = SourceParser(
    name="acme-library",
    vendor=VENDOR,
    gives=tuple(row.metric for row in FIELDS.values()),
    polls=(Poll("cards", Library("acme", ("version", "cards")), interval=2.0, deadline=2.0),),
    parse=parse,
    metrics=(COOLANT_FLOW,),
)
