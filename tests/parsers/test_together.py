"""Several reports of one tool on one node: the same device once, with all that any of them knows."""

from __future__ import annotations

from telemetry_parsers.model import Absent, Device, Event, Problem, Process, Reading, Report
from telemetry_parsers.together import together

FIRST = Report(
    devices=(
        Device("v", 0, model="A", bus_id="0000:01:00.0", facts=(("slot", "1"),)),
        Device("v", 1, bus_id="0000:02:00.0"),
    ),
    readings=(
        Reading(0, "power_watts", 50.0),
        Reading(1, "power_watts", Absent.NOT_REPORTED),
        Reading(None, "telemetry_host_load1", 1.0),
    ),
    problems=(Problem("line 1", "one"),),
    facts=(("tool_version", "1"),),
)


def test_one_report_is_itself() -> None:
    assert together([FIRST]) is FIRST


def test_same_index_is_the_same_device_and_learns_what_it_lacked() -> None:
    other = Report(
        devices=(Device("v", 1, uuid="u1", driver="9", facts=(("slot", "2"),)), Device("v", 0, uuid="u0", model="B")),
        readings=(Reading(0, "power_watts", 60.0), Reading(1, "power_watts", 70.0), Reading(1, "processes", 2.0)),
        events=(Event(1, "x"),),
        processes=(Process(1, 10, "p"), Process(1, 11, "q")),
        problems=(Problem("line 2", "two"),),
        unknown_fields=("new",),
        facts=(("tool_version", "2"), ("library_version", "3")),
    )
    joined = together([FIRST, other])
    assert joined.devices == (
        Device("v", 0, model="A", uuid="u0", bus_id="0000:01:00.0", facts=(("slot", "1"),)),
        Device("v", 1, uuid="u1", bus_id="0000:02:00.0", driver="9", facts=(("slot", "2"),)),
    )
    assert set(joined.readings) == {
        Reading(0, "power_watts", 50.0),
        Reading(1, "power_watts", 60.0),
        Reading(None, "telemetry_host_load1", 1.0),
        Reading(0, "processes", 2.0),
    }
    assert joined.events == (Event(0, "x"),)
    assert [(process.device, process.pid) for process in joined.processes] == [(0, 10), (0, 11)]
    assert [problem.text for problem in joined.problems] == ["one", "two"]
    assert joined.unknown_fields == ("new",)
    assert dict(joined.facts) == {"tool_version": "1", "library_version": "3"}


def test_contradicting_identities_are_two_devices() -> None:
    joined = together([FIRST, Report(devices=(Device("v", 0, bus_id="0000:09:00.0"),))])
    assert [device.bus_id for device in joined.devices] == ["0000:01:00.0", "0000:02:00.0", "0000:09:00.0"]


def test_devices_without_an_index_are_never_the_same() -> None:
    bare = Report(devices=(Device("v"),), readings=(Reading(0, "power_watts", 1.0),))
    joined = together([bare, bare])
    assert len(joined.devices) == 2
    assert [reading.device for reading in joined.readings] == [0, 1]


def test_processes_of_a_device_come_from_one_report() -> None:
    listed = Report(devices=(Device("v", 0),), processes=(Process(0, 10, "p"),))
    assert len(together([listed, listed]).processes) == 1


def test_reports_without_devices_add_their_problems_and_facts() -> None:
    refused = Report("failed", "driver_gone", problems=(Problem("line 1", "no"),), facts=(("tool_version", "0"),))
    joined = together([refused, FIRST])
    assert joined.outcome == "ok"
    assert joined.devices == FIRST.devices
    assert [problem.text for problem in joined.problems] == ["no", "one"]
    assert dict(joined.facts) == {"tool_version": "0"}


def test_without_any_device_the_first_report_stands() -> None:
    refused = Report("failed", "driver_gone", problems=(Problem("line 1", "no"),))
    assert together([refused, Report()]) is refused
