"""What a source's parser reads in a text, as numbers by device, metric and label."""

from __future__ import annotations

from kits.captures import own_case, parse_file, registered_parsers, text_capture
from telemetry_parsers.model import Absent, Output, Report

PARSERS = registered_parsers()


def text_of(source: str, case: str) -> str:
    return parse_file(own_case(source, case).path.read_text()).text


def report_on(source: str, text: str, status: int | None = None) -> Report:
    return PARSERS[source].parse(text_capture(PARSERS[source], Output(text=text, status=status)))


def numbers(report: Report) -> dict[tuple[int | None, str, str], float]:
    return {
        (report.devices[item.device].index, item.metric, item.label): item.value
        for item in report.readings
        if item.device is not None and not isinstance(item.value, Absent)
    }
