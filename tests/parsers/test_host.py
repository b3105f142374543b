"""The host's values are foreign data: an invalid value is absent and does not affect the others."""

import pytest

from telemetry_parsers.host import PARSER, parse
from telemetry_parsers.model import Absent, Capture, Output, Plain, Report, Value

GOOD: dict[str, Plain] = {
    "cpu": {"utilization_percent": 25.0},
    "memory": {"total_bytes": 1000, "available_bytes": 400},
    "load": {"load1": 1.5, "load5": 1, "load15": 0.0},
    "uptime": {"seconds": 12.5},
}


def report_on(data: dict[str, Plain]) -> Report:
    outputs = tuple(Output(name=name, data=value) for name, value in data.items())
    return parse(Capture("host", "readings", PARSER.polls[0].request, outputs))


def values(report: Report) -> dict[str, Value]:
    return {item.metric.removeprefix("telemetry_host_"): item.value for item in report.readings}


def test_a_bad_value_is_absent_alone() -> None:
    for value, absent in [
        (None, Absent.NOT_REPORTED),
        (True, Absent.NOT_UNDERSTOOD),
        ("12", Absent.NOT_UNDERSTOOD),
        ([1], Absent.NOT_UNDERSTOOD),
        (float("nan"), Absent.IMPLAUSIBLE),
        (float("inf"), Absent.IMPLAUSIBLE),
        (-1, Absent.IMPLAUSIBLE),
        (10**400, Absent.IMPLAUSIBLE),
    ]:
        for call, key, metrics in [
            ("cpu", "utilization_percent", ["cpu_utilization_ratio"]),
            ("memory", "total_bytes", ["memory_total_bytes", "memory_used_bytes"]),
            ("memory", "available_bytes", ["memory_used_bytes"]),
            ("load", "load5", ["load5"]),
            ("uptime", "seconds", ["uptime_seconds"]),
        ]:
            report = report_on({**GOOD, call: {**GOOD[call], key: value}})
            expected = {**values(report_on(GOOD)), **dict.fromkeys(metrics, absent)}
            assert values(report) == expected
            assert bool(report.problems) == (absent is not Absent.NOT_REPORTED)


@pytest.mark.parametrize("call", list(GOOD))
def test_missing_call_affects_only_its_own_readings(call: str) -> None:
    whole = values(report_on(GOOD))
    alone = {name for name, value in values(report_on({call: GOOD[call]})).items() if not isinstance(value, Absent)}
    report = report_on({name: value for name, value in GOOD.items() if name != call})
    assert alone
    assert values(report) == {**whole, **dict.fromkeys(alone, Absent.NOT_REPORTED)}
    assert report.problems == ()


@pytest.mark.parametrize("data", [None, [1], "text", 5, True])
def test_a_call_without_an_object_is_a_problem(data: Plain) -> None:
    report = report_on({**GOOD, "cpu": data})
    assert values(report)["cpu_utilization_ratio"] is Absent.NOT_UNDERSTOOD
    assert values(report)["load1"] == 1.5
    assert len(report.problems) == 1


def test_a_call_of_another_name_is_an_unknown_field() -> None:
    report = report_on({**GOOD, "sensors": {"core": 45}})
    assert report.unknown_fields == ("sensors",)
    assert values(report) == values(report_on(GOOD))
