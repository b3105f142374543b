"""A plugin's report is accepted as far as it fits the plugin's own declaration."""

from dataclasses import replace

import pytest

from telemetry_daemon.plugins.isolated import checked
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


def test_a_good_report_is_believed_whole() -> None:
    assert checked(GOOD, PARSER) == GOOD


def test_every_outcome_passes_and_a_failure_without_a_reason_was_not_understood() -> None:
    for report in (Report(outcome="no_devices"), Report(outcome="not_mine"), Report(outcome="wrong_request")):
        assert checked(report, PARSER) == report
    assert checked(Report(outcome="failed"), PARSER).reason == "not_understood"
    assert checked(Report(outcome="failed", reason="driver_gone"), PARSER).reason == "driver_gone"


LEFT_OUT = (
    (Reading(0, "fan_ratio", 0.5), "fan_ratio is not among the metrics that the parser gives"),
    (Reading(0, "up", 1.0), "up is not among the metrics that the parser gives"),
    (Reading(None, "power_watts", 0.5), "power_watts has no device"),
    (Reading(0, "telemetry_host_load1", 0.5), "telemetry_host_load1 is about the host and has a device"),
    (Reading(2, "power_watts", 1.0), "power_watts is about device 2 of 2"),
    (Reading(-1, "power_watts", 1.0), "power_watts is about device -1 of 2"),
    (Reading(0, "power_watts", 1.0, "core"), "power_watts{core} is a metric without label"),
    (Reading(0, "temperature_celsius", 1.0), "temperature_celsius has no sensor of that name"),
    (Reading(0, "temperature_celsius", 1.0, "GPU core"), "temperature_celsius{GPU core} has no sensor of that name"),
    (Reading(0, "health", 1.0, "splendid"), "health{splendid} has no state of that name"),
    (Reading(0, "power_watts", 81.0), "power_watts is given twice"),
)


@pytest.mark.parametrize(("reading", "text"), LEFT_OUT, ids=[row[1] for row in LEFT_OUT])
def test_a_reading_that_does_not_fit_is_left_out_and_told(reading: Reading, text: str) -> None:
    report = checked(Report(devices=DEVICES, readings=(*READINGS, reading)), PARSER)
    assert report.readings == READINGS
    assert problem_texts(report) == [text]


OUT_OF_RANGE = (
    (Reading(0, "power_watts", -1.0), "power_watts is -1, out of its range"),
    (Reading(0, "temperature_celsius", 3276.7, "core"), "temperature_celsius{core} is 3276.7, out of its range"),
    (Reading(0, "acme_voltage_ratio", 2.5, "core"), "acme_voltage_ratio{core} is 2.5, out of its range"),
)


def test_a_value_out_of_range_is_implausible_and_one_that_was_called_so_is_no_news() -> None:
    report = checked(Report(devices=DEVICES, readings=tuple(reading for reading, _ in OUT_OF_RANGE)), PARSER)
    assert report.readings == tuple(replace(reading, value=Absent.IMPLAUSIBLE) for reading, _ in OUT_OF_RANGE)
    assert problem_texts(report) == [text for _, text in OUT_OF_RANGE]
    assert checked(replace(report, problems=()), PARSER) == replace(report, problems=())


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ((Device("nvidia", 0),), "device 0 is of vendor 'nvidia', the parser of 'acme'"),
        ((Device("acme", 0, parent=5),), "device 0 has 5 as parent, which is no whole device of the report"),
        ((Device("acme", 0, parent=-1),), "device 0 has -1 as parent, which is no whole device of the report"),
        (
            (Device("acme", 0), Device("acme", 1, parent=0), Device("acme", 2, parent=1)),
            "device 2 has 1 as parent, which is no whole device of the report",
        ),
    ],
)
def test_a_wrong_list_of_devices_fails_the_report(devices: tuple[Device, ...], text: str) -> None:
    report = checked(Report(devices=devices, readings=(Reading(0, "power_watts", 1.0),)), PARSER)
    assert (report.outcome, report.reason) == ("failed", "internal")
    assert (report.devices, report.readings) == ((), ())
    assert problem_texts(report) == [text]


@pytest.mark.parametrize(
    ("device", "kept", "text"),
    [
        (Device("acme", -1), Device("acme", None), "device 0 has the index -1"),
        (
            Device("acme", bus_id="0000:AF:00.0"),
            Device("acme"),
            "device 0 has the bus_id '0000:AF:00.0', which is not dddd:bb:dd.f in lower case",
        ),
        (
            Device("acme", facts=(("a", "1"), ("Bad Name", "2"))),
            Device("acme", facts=(("a", "1"),)),
            "device 0 has a fact 'Bad Name', which cannot be a label",
        ),
    ],
)
def test_a_wrong_word_about_a_device_is_left_out(device: Device, kept: Device, text: str) -> None:
    report = checked(Report(devices=(device,)), PARSER)
    assert report.devices == (kept,)
    assert problem_texts(report) == [text]


def test_events_and_processes_of_no_device_are_left_out() -> None:
    report = checked(
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
        "2 of its Event entries are about no device of it",
        "1 of its Process entries are about no device of it",
    ]


def test_a_plugin_that_is_wrong_in_everything_is_told_so_briefly() -> None:
    readings = tuple(Reading(0, f"metric{number}", 1.0) for number in range(1000))
    report = checked(Report(devices=DEVICES, readings=readings), PARSER)
    assert len(report.problems) == 21
    assert report.problems[-1].text == "and 980 more"
