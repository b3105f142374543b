"""rocm-smi's reports as a test compares them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kits.captures import text_capture
from telemetry_parsers.model import Absent, Device, Output, Report
from telemetry_parsers.vendors.amd.rocm_smi import PARSER

# What the readings of a test are called: by metric, with its label behind a dot.
Readings = dict[str, float | str]


def report_on(text: str, status: int | None = 0, stderr: str = "") -> Report:
    """What rocm-smi's parser makes of an output."""
    return PARSER.parse(text_capture(PARSER, Output(text=text, stderr=stderr, status=status)))


def json_of(*cards: Mapping[str, object], system: Mapping[str, str] | None = None) -> str:
    """The JSON that the tool prints for these cards."""
    members: dict[str, object] = {f"card{number}": dict(card) for number, card in enumerate(cards)}
    return json.dumps(members | ({} if system is None else {"system": dict(system)})) + "\n"


def report_of(*cards: Mapping[str, object], system: Mapping[str, str] | None = None) -> Report:
    """The report on cards with these keys."""
    return report_on(json_of(*cards, system=system))


def readings(report: Report, device: int = 0) -> Readings:
    """A device's readings: numbers, or why there is none; of a level only the one that is set."""
    found: Readings = {}
    for item in report.readings:
        if item.device != device or (item.metric == "performance_level" and item.value == 0.0):
            continue
        name = f"{item.metric}.{item.label}" if item.label else item.metric
        found[name] = item.value.value if isinstance(item.value, Absent) else item.value
    return found


def the_device(report: Report) -> Device:
    """The only device of a report."""
    (device,) = report.devices
    return device


def problems(report: Report) -> list[str]:
    """Where and what is wrong, as one text each."""
    return [f"{problem.where}: {problem.text}" for problem in report.problems]
