"""What `acme-smi --list` prints: a block of `key : value` lines for each card."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from telemetry_example.vendor import COOLANT_FLOW, INDEX_SPACE, VENDOR
from telemetry_parsers import units
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Capture, Command, Device, Poll, Problem, Reading, Report, Value
from telemetry_parsers.text.answers import ErrorText, capped, error_report, reader_failure
from telemetry_parsers.text.lines import Line, bus_address, lines, quote


@dataclass(frozen=True)
class Field:
    """The metric, units and label value of a printed value."""

    metric: str
    units: units.Units
    label: str = ""


# Maps the printed words to metrics. If a new version prints a new line, add a row.
FIELDS = {
    "core temperature": Field("temperature_celsius", units.CELSIUS, "core"),
    "hbm temperature": Field("temperature_celsius", units.CELSIUS, "memory"),
    "power draw": Field("power_watts", units.WATTS),
    "power limit": Field("power_cap_watts", units.WATTS),
    "memory used": Field("memory_used_bytes", units.BYTES),
    "memory total": Field("memory_total_bytes", units.BYTES),
    "core load": Field("utilization_ratio", units.RATIO),
    "coolant flow": Field("acme_coolant_flow_ratio", units.RATIO),
}
IDENTITY = ("uuid", "bus address")
METRICS = {**BY_KEY, COOLANT_FLOW.key: COOLANT_FLOW}
ERRORS = (ErrorText("acme driver is not running", "failed", "driver_gone", "systemctl start acme-driver"),)

_HEADING = re.compile(r"Acme System Management ([0-9.]{1,20}) \(driver ([0-9.]{1,20})\)\Z")
_CARD = re.compile(r"Card ([0-9]{1,4}): ([^:]{1,60})\Z")
_NO_CARDS = "No Acme cards found."


@dataclass
class _Card:
    """A card's block, as printed."""

    index: int
    model: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass
class _Listing:
    """The whole output, as printed."""

    version: str = ""
    driver: str = ""
    no_cards: bool = False
    cards: list[_Card] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)


def parse(capture: Capture) -> Report:
    """The report on one output of the tool."""
    refusal = reader_failure(capture)
    if refusal is not None:
        return refusal
    output = capture.outputs[0] if capture.outputs else None
    found = [*lines(output.text), *lines(output.stderr, "stderr")] if output else []
    listing = _listing(found)
    if not listing.version:
        status = output.status if output else None
        foreign = Problem("text", "this is not the output of acme-smi --list")
        return error_report(found, status, ERRORS) or Report("not_mine", problems=(foreign,))
    if not listing.cards:
        return _without_cards(listing, found)
    if output and output.status:
        listing.problems.append(Problem("exit status", f"exit status {output.status} despite output"))
    devices = tuple(_device(card, listing) for card in listing.cards)
    readings = tuple(item for position, card in enumerate(listing.cards) for item in _readings(position, card, listing))
    return Report(
        devices=devices,
        readings=readings,
        problems=capped(listing.problems),
        unknown_fields=tuple(listing.unknown),
        facts=(("tool_version", listing.version),),
        index_space=INDEX_SPACE,
    )


def _listing(found: list[Line]) -> _Listing:
    listing = _Listing()
    for line in found:
        text = line.text.strip()
        heading, card = _HEADING.match(text), _CARD.match(text)
        key, colon, value = (part.strip() for part in text.partition(" : "))
        if not line.ended:
            listing.problems.append(Problem(line.where, "the output ends inside this line, which is not read"))
        elif heading:
            listing.version, listing.driver = heading.groups()
        elif card:
            listing.cards.append(_Card(int(card[1]), card[2].strip()))
        elif text == _NO_CARDS:
            listing.no_cards = True
        elif colon and listing.cards:
            listing.cards[-1].values.setdefault(key.lower(), value)
        elif text:
            listing.problems.append(Problem(line.where, quote(text)))
    return listing


def _without_cards(listing: _Listing, found: list[Line]) -> Report:
    """The tool says that there are no cards, or why it cannot tell, or it was cut off."""
    facts = (("tool_version", listing.version),)
    if listing.no_cards:
        return Report("no_devices", facts=facts)
    cut_off = Report("failed", "not_understood", problems=(Problem("text", "the list of cards is missing"),))
    return error_report(found, None, ERRORS) or cut_off


def _device(card: _Card, listing: _Listing) -> Device:
    return Device(
        vendor=VENDOR,
        index=card.index,
        model=card.model,
        uuid=card.values.get("uuid") or None,
        bus_id=bus_address(card.values.get("bus address", "")),
        driver=listing.driver,
    )


def _readings(position: int, card: _Card, listing: _Listing) -> list[Reading]:
    """A reading for each row of FIELDS; a line that the table does not contain is reported, not dropped."""
    for key in card.values:
        if key not in FIELDS and key not in IDENTITY:
            listing.unknown[quote(key)] = None
    return [Reading(position, row.metric, _value(card, key, row, listing), row.label) for key, row in FIELDS.items()]


def _value(card: _Card, key: str, row: Field, listing: _Listing) -> Value:
    if key not in card.values:
        return Absent.NOT_REPORTED
    value = in_range(METRICS[row.metric], units.quantity(card.values[key], row.units))
    if value in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE):
        listing.problems.append(Problem(f"card {card.index}", f"{key}: {quote(card.values[key])}"))
    return value


PARSER = SourceParser(
    name="acme-smi",
    vendor=VENDOR,
    gives=tuple(dict.fromkeys(row.metric for row in FIELDS.values())),
    polls=(
        Poll(
            name="cards",
            request=Command(alternatives=(("acme-smi", "--list"),), folders=("/opt/acme/bin",)),
            interval=15.0,
            deadline=10.0,
        ),
    ),
    parse=parse,
    metrics=(COOLANT_FLOW,),
)
