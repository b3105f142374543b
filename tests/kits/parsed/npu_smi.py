"""Texts of npu-smi given to its parser, and what the report says of whom."""

from __future__ import annotations

from kits.captures import own_case, parse_file, text_capture
from telemetry_parsers.model import Capture, Output, Report, Value
from telemetry_parsers.vendors.ascend.npu_smi.parser import PARSER

POLLS = {poll.name: poll for poll in PARSER.polls}


def text_of(case: str) -> str:
    return parse_file(own_case("npu-smi", case).path.read_text()).text


def report_on(text: str) -> Report:
    return PARSER.parse(text_capture(PARSER, text))


def asked(poll: str, *answers: tuple[str, str]) -> Report:
    """The report on what each card answered, as the reader hands it over."""
    outputs = tuple(Output(f"npu-smi info -t {poll} -i {card}", card, text, status=0) for card, text in answers)
    return PARSER.parse(Capture(PARSER.name, poll, POLLS[poll].request, outputs))


def values(report: Report, metric: str, label: str = "") -> list[Value]:
    return [item.value for item in report.readings if (item.metric, item.label) == (metric, label)]


def chip_places(report: Report) -> list[tuple[str | None, str | None]]:
    return [(dict(device.facts).get("card"), dict(device.facts).get("chip")) for device in report.devices]
