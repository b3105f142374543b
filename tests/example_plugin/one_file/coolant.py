"""Add the coolant temperature to NVIDIA cards. `coolant --json` prints {"0000:1a:00.0": 31.5}."""

import json

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.metrics import in_range
from telemetry_parsers.model import Absent, Capture, Command, Device, Metric, Poll, Problem, Reading, Report, Value
from telemetry_parsers.text.lines import bus_address

COOLANT = Metric("accelerator_nvidia_coolant_celsius", "gauge", "celsius", "Temperature of the coolant.", -20, 120)


def parse(capture: Capture) -> Report:
    """Return a reading for each card."""
    try:
        document = json.loads(capture.outputs[0].text)
    except (IndexError, ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or None in map(bus_address, document):
        return Report("failed", "not_understood", problems=(Problem("text", "not the output of coolant --json"),))
    devices = tuple(Device("nvidia", bus_id=bus_address(address)) for address in document)
    return Report(devices=devices, readings=tuple(map(_reading, range(len(devices)), document.values())))


def _reading(position: int, value: object) -> Reading:
    number: Value = value if isinstance(value, float) else Absent.NOT_UNDERSTOOD
    return Reading(position, COOLANT.key, in_range(COOLANT, number))


PARSER = SourceParser(
    name="coolant",
    vendor="nvidia",
    gives=(COOLANT.key,),
    polls=(Poll("cards", Command((("coolant", "--json"),)), interval=15.0, deadline=10.0),),
    parse=parse,
    metrics=(COOLANT,),
)
