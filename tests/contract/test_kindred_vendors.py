"""A tool of AMD's that Hygon's runtime brings along may list Hygon's cards, by an address without a domain."""

from __future__ import annotations

import pytest

from telemetry_parsers.checks.laws import report_violations
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Device, Poll, Report

POLL = Poll("agents", Command((("tool",),)))


@pytest.mark.parametrize(
    ("parser_vendor", "device", "broken"),
    [
        ("amd", Device("amd", 0, bus_id="0000:09:00.0"), False),
        ("amd", Device("amd", 0, bus_id="09:00.0"), False),
        ("amd", Device("hygon", 0, bus_id="09:00.0"), False),
        ("amd", Device("nvidia", 0), True),
        ("hygon", Device("amd", 0), True),
        ("amd", Device("amd", 0, bus_id="9:00.0"), True),
        ("amd", Device("amd", 0, bus_id="0000:09:00.8"), True),
        ("amd", Device("amd", 0, bus_id="0000:0A:00.0"), True),
    ],
)
def test_whose_devices_and_which_addresses_a_report_may_hold(
    parser_vendor: str, device: Device, *, broken: bool
) -> None:
    report = Report(devices=(device,))
    parser = SourceParser("tool", parser_vendor, ("power_watts",), (POLL,), lambda _: report)
    capture = Capture("tool", POLL.name, POLL.request)
    assert bool(report_violations(parser, capture, report)) == broken
