"""A plugin's report is accepted as far as it fits the plugin's own declaration."""

from dataclasses import replace

import pytest

from telemetry_daemon.plugins.isolated import checked_report
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.model import Absent, Command, Device, Event, Metric, Poll, Problem, Process, Reading, Report

PARSER = DescribedParser(
    contract_version=1,
    name="acme-smi",
    vendor="acme",
    gives=("power_watts", "temperature_celsius", "health", "acme_voltage_ratio", "telemetry_host_load1"),
    polls=(Poll("all", Command((("acme-smi",),))),),
    metrics=(Metric("accelerator_acme_voltage_ratio", "gauge", "ratio", "Voltage.", 0, 2, "rail"),),
)
DEVICES = (
    Device("acme", 0, uuid="A", bus_id="0000:33:00.0", facts=(("firmware", "1.2"),)),
    Device("acme", 0, parent=0, partition="1"),
)
READINGS = (
    Reading(0, "power_watts", 80.0),
    Reading(1, "power_watts", Absent.NOT_SUPPORTED),
    Reading(0, "temperature_celsius", 41.0, "core"),
    Reading(0, "temperature_celsius", 44.0, "acme_pump_2"),
    Reading(0, "health", 1.0, "ok"),
    Reading(0, "acme_voltage_ratio", 0.0, "core"),
    Reading(None, "telemetry_host_load1", 3.0),
)
GOOD = Report(
    devices=DEVICES,
    readings=READINGS,
    events=(Event(0, "79"), Event(None, "80")),
    processes=(Process(1, 12, "train"),),
    problems=(Problem("line 3", "odd"),),
    facts=(("tool_version", "1.0"),),
)


def problem_texts(report: Report) -> list[str]:
    assert all(problem.where == "plugin acme-smi" for problem in report.problems)
    return [problem.text for problem in report.problems]


def test_good_report_is_accepted() -> None:
    assert checked_report(GOOD, PARSER) == GOOD


def test_outcomes_pass_and_a_failure_has_a_reason() -> None:
    for report in (Report(outcome="no_devices"), Report(outcome="not_mine"), Report(outcome="wrong_request")):
        assert checked_report(report, PARSER) == report
    assert checked_report(Report(outcome="failed"), PARSER).reason == "not_understood"
    assert checked_report(Report(outcome="failed", reason="driver_gone"), PARSER).reason == "driver_gone"


LEFT_OUT = (
    (Reading(0, "fan_ratio", 0.5), "fan_ratio is not a metric that the parser declares"),
    (Reading(0, "up", 1.0), "up is not a metric that the parser declares"),
    (Reading(None, "power_watts", 0.5), "power_watts has no device"),
    (Reading(0, "telemetry_host_load1", 0.5), "telemetry_host_load1 has a device, but is a metric of the host"),
    (Reading(2, "power_watts", 1.0), "power_watts refers to device 2, but the report lists only 2 devices"),
    (Reading(-1, "power_watts", 1.0), "power_watts refers to device -1, but the report lists only 2 devices"),
    (Reading(0, "power_watts", 1.0, "core"), "power_watts{core} must not have a label"),
    (Reading(0, "temperature_celsius", 1.0), "temperature_celsius must have a valid sensor label"),
    (
        Reading(0, "temperature_celsius", 1.0, "GPU core"),
        "temperature_celsius{GPU core} must have a valid sensor label",
    ),
    (Reading(0, "health", 1.0, "splendid"), "health{splendid} must have a valid state label"),
    (Reading(0, "power_watts", 81.0), "power_watts is reported twice"),
)


@pytest.mark.parametrize(("reading", "text"), LEFT_OUT, ids=[row[1] for row in LEFT_OUT])
def test_unfit_reading_is_dropped_and_reported(reading: Reading, text: str) -> None:
    report = checked_report(Report(devices=DEVICES, readings=(*READINGS, reading)), PARSER)
    assert report.readings == READINGS
    assert problem_texts(report) == [text]


OUT_OF_RANGE = (
    (Reading(0, "power_watts", -1.0), "power_watts is -1, which is out of range"),
    (Reading(0, "temperature_celsius", 3276.7, "core"), "temperature_celsius{core} is 3276.7, which is out of range"),
    (Reading(0, "acme_voltage_ratio", 2.5, "core"), "acme_voltage_ratio{core} is 2.5, which is out of range"),
)


def test_value_out_of_range_is_implausible() -> None:
    report = checked_report(Report(devices=DEVICES, readings=tuple(reading for reading, _ in OUT_OF_RANGE)), PARSER)
    assert report.readings == tuple(replace(reading, value=Absent.IMPLAUSIBLE) for reading, _ in OUT_OF_RANGE)
    assert problem_texts(report) == [text for _, text in OUT_OF_RANGE]
    assert checked_report(replace(report, problems=()), PARSER) == replace(report, problems=())


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ((Device("nvidia", 0),), "device 0 has the vendor 'nvidia', but the parser declares 'acme'"),
        ((Device("acme", 0, parent=5),), "device 0 has the parent 5, which is not a whole device"),
        ((Device("acme", 0, parent=-1),), "device 0 has the parent -1, which is not a whole device"),
        (
            (Device("acme", 0), Device("acme", 1, parent=0), Device("acme", 2, parent=1)),
            "device 2 has the parent 1, which is not a whole device",
        ),
    ],
)
def test_wrong_devices_fail_the_report(devices: tuple[Device, ...], text: str) -> None:
    report = checked_report(Report(devices=devices, readings=(Reading(0, "power_watts", 1.0),)), PARSER)
    assert (report.outcome, report.reason) == ("failed", "internal")
    assert (report.devices, report.readings) == ((), ())
    assert problem_texts(report) == [text]


@pytest.mark.parametrize(
    ("device", "kept", "text"),
    [
        (Device("acme", -1), Device("acme", None), "device 0 has the negative index -1"),
        (
            Device("acme", bus_id="0000:AF:00.0"),
            Device("acme"),
            "device 0 has the bus_id '0000:AF:00.0', which is not dddd:bb:dd.f in lower case",
        ),
        (
            Device("acme", facts=(("a", "1"), ("Bad Name", "2"))),
            Device("acme", facts=(("a", "1"),)),
            "device 0 has a fact 'Bad Name', which is not a valid label name",
        ),
    ],
)
def test_wrong_fact_of_a_device_is_dropped(device: Device, kept: Device, text: str) -> None:
    report = checked_report(Report(devices=(device,)), PARSER)
    assert report.devices == (kept,)
    assert problem_texts(report) == [text]


def test_events_and_processes_without_a_device_are_dropped() -> None:
    report = checked_report(
        Report(
            devices=DEVICES,
            events=(Event(0, "1"), Event(7, "2"), Event(-1, "3")),
            processes=(Process(0, 1, "a"), Process(2, 2, "b")),
        ),
        PARSER,
    )
    assert report.events == (Event(0, "1"),)
    assert report.processes == (Process(0, 1, "a"),)
    assert problem_texts(report) == [
        "2 Event entries dropped: the report does not list their devices",
        "1 Process entries dropped: the report does not list their devices",
    ]


def test_problems_are_limited() -> None:
    readings = tuple(Reading(0, f"metric{number}", 1.0) for number in range(1000))
    report = checked_report(Report(devices=DEVICES, readings=readings), PARSER)
    assert len(report.problems) == 21
    assert report.problems[-1].text == "and 980 more"
