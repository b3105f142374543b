"""The contract suite finds violations: for each law there is a parser here that breaks it."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from telemetry_parsers.checks.report_rules import report_violations
from telemetry_parsers.checks.suite import check, declaration_violations
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import (
    Absent,
    Capture,
    Command,
    Device,
    Event,
    Metric,
    Output,
    Poll,
    Problem,
    Process,
    Reading,
    Report,
)

GIVES = (
    *("temperature_celsius", "utilization_ratio", "memory_used_bytes", "processes"),
    *("ecc_enabled", "health", "memory_processes_bytes"),
)
POLL = Poll("readings", Command((("foo-smi",),)))
TEXT = "card 3 temp 48C load 7% mem 12MiB pid 9\n"


def device(**changes: object) -> Device:
    return replace(Device("foo", 3), **changes)  # type: ignore[arg-type]  # laws must hold for wrong types too


def parser(parse: Callable[[Capture], object], **changes: object) -> SourceParser:
    base = SourceParser("foo-smi", "foo", GIVES, (POLL,), parse)  # type: ignore[arg-type]  # as above
    return replace(base, **changes)  # type: ignore[arg-type]  # as above


def careful(capture: Capture) -> Report:
    """A parser that keeps the contract: it reads a line only if the line is whole."""
    text = "".join(output.text for output in capture.outputs)
    match = re.search(r"card ([0-9]{1,3}) temp ([0-9]{1,3})C load ([0-9]{1,3})% mem ([0-9]{1,5})MiB pid 9\n", text)
    if match is None or int(match[2]) > 200 or int(match[3]) > 100:
        return Report("failed", "not_understood", problems=(Problem("text", "nothing of ours"),))
    values = (float(match[2]), int(match[3]) / 100, float(int(match[4]) * 2**20), 1.0)
    readings = tuple(
        Reading(0, metric, value, "core" if metric == "temperature_celsius" else "")
        for metric, value in zip(GIVES, values, strict=False)
    )
    return Report(devices=(device(index=int(match[1])),), readings=readings)


def giving(report: object) -> SourceParser:
    """Return a parser that gives this report on the sample, and the careful parser's on all other texts."""
    return parser(lambda capture: report if capture.outputs == (Output(text=TEXT),) else careful(capture))


def with_reading(**changes: object) -> SourceParser:
    reading = replace(Reading(0, "temperature_celsius", 48.0, "core"), **changes)  # type: ignore[arg-type]  # as above
    return giving(Report(devices=(device(),), readings=(reading,)))


def test_careful_parser_passes() -> None:
    assert check(parser(careful), [TEXT]) == []


BROKEN_REPORTS = {
    "not a Report": giving(None),
    "field of the wrong type": giving(Report(devices=("card",))),  # type: ignore[arg-type]  # that is the point
    "outcome": giving(Report("splendid")),  # type: ignore[arg-type]  # that is the point
    "a failure needs a reason": giving(Report("failed", problems=(Problem("", "x"),))),
    "outcome ok does not fit reason timeout": giving(Report("ok", "timeout")),
    "needs a problem that explains it": giving(Report("not_mine")),
    "must not have devices or readings": giving(Report("no_devices", devices=(device(),))),
    "vendor 'bar'": giving(Report(devices=(device(vendor="bar"),))),
    "index -1": giving(Report(devices=(device(index=-1),))),
    "index True": giving(Report(devices=(device(index=True),))),
    "bus_id '0000:AB:00.0'": giving(Report(devices=(device(bus_id="0000:AB:00.0"),))),
    "bus_id ''": giving(Report(devices=(device(bus_id=""),))),
    "parent 0 must be the position of another device": giving(Report(devices=(device(parent=0),))),
    "parent 5 must be the position of another device": giving(Report(devices=(device(parent=5),))),
    "model serial must not be blank": giving(Report(devices=(device(model="", serial=" "),))),
    "fact 'Slot No'": giving(Report(devices=(device(facts=(("Slot No", "1"),)),))),
    "fact 'slot'": giving(Report(devices=(device(facts=(("slot", ""),)),))),
    "the parser's `gives` does not contain this metric": with_reading(metric="power_watts", label=""),
    "only the daemon may report this metric": parser(
        lambda capture: Report(readings=(Reading(None, "telemetry_source_up", 1.0),)), gives=("telemetry_source_up",)
    ),
    "cannot be recorded": giving(Report(index_space=7)),  # type: ignore[arg-type]  # that is the point
    "reported twice": giving(
        Report(devices=(device(),), readings=(Reading(0, "temperature_celsius", 48.0, "core"),) * 2)
    ),
    "its device is not in the report": with_reading(device=1),
    "device None: its device is not in the report": with_reading(device=None),
    "label '' is not valid for sensor": with_reading(label=""),
    "label 'Core Temp' is not valid for": with_reading(label="Core Temp"),
    "label 'core' is not valid for a metric without a label": with_reading(metric="utilization_ratio", value=0.07),
    "label 'dizzy' is not valid for state": with_reading(metric="health", label="dizzy", value=1.0),
    "48 is not a finite float": with_reading(value=48),
    "nan is not a finite float": with_reading(value=float("nan")),
    "True is not a finite float": with_reading(value=True),
    "900.0 is outside": with_reading(value=900.0),
    "49.0 is not in the input": with_reading(value=49.0),
    "0.5 is not in the input": with_reading(metric="memory_used_bytes", value=0.5, label=""),
    "12.0 is not the sum of the processes' memory": with_reading(metric="memory_processes_bytes", value=12.0, label=""),
    "is neither 0 nor 1": with_reading(metric="ecc_enabled", value=0.5, label=""),
    "process 9 of device 4": giving(Report(devices=(device(),), processes=(Process(4, 9, "a"),))),
    "process -9": giving(Report(devices=(device(),), processes=(Process(0, -9, "a"),))),
    "process 9: invalid memory -1.0": giving(Report(devices=(device(),), processes=(Process(0, 9, "a", -1.0),))),
    "process 9: memory 77.0 is not in the input": giving(
        Report(devices=(device(),), processes=(Process(0, 9, "a", 77.0),))
    ),
    "event ''": giving(Report(devices=(device(),), events=(Event(0, ""),))),
    "event 'x' of device 3": giving(Report(devices=(device(),), events=(Event(3, "x"),))),
    "a problem has no text": giving(Report(problems=(Problem("line 1", " "),))),
    "unknown field has no name": giving(Report(unknown_fields=("",))),
    "form 'poem'": giving(Report(form="poem")),  # type: ignore[arg-type]  # that is the point
}


def test_wrong_report_is_found() -> None:
    for words, broken in BROKEN_REPORTS.items():
        violations = check(broken, [TEXT])
        assert any(words in violation for violation in violations), (words, violations)


def test_sum_of_processes_is_accepted() -> None:
    processes = (Process(0, 9, "a", 7.0), Process(0, 48, "b", 48.0))
    readings = (Reading(0, "memory_processes_bytes", 55.0),)
    assert check(giving(Report(devices=(device(),), readings=readings, processes=processes)), [TEXT]) == []


def raising(capture: Capture) -> Report:
    """Works on the sample, and fails on text without the expected parts."""
    text = capture.outputs[0].text
    return replace(careful(capture), unknown_fields=(text.split("temp")[1][:3],))


def forgetful() -> Callable[[Capture], Report]:
    """Keep a count of calls, which the contract forbids."""
    calls: list[int] = []

    def parse(capture: Capture) -> Report:
        calls.append(1)
        return replace(careful(capture), index_space=str(len(calls)))

    return parse


def greedy(capture: Capture) -> Report:
    """Read a number that the text may end inside."""
    match = re.search(r"temp ([0-9]{1,2})", "".join(output.text for output in capture.outputs))
    found = () if match is None else (Reading(0, "temperature_celsius", float(match[1]), "core"),)
    return Report(devices=(device(),), readings=found)


def meddling(capture: Capture) -> Report:
    for output in capture.outputs:
        if isinstance(output.data, dict):
            output.data.pop("temp", None)
    return Report()


def inventing(capture: Capture) -> Report:
    """Report 0 for a missing value."""
    text = "".join(output.text for output in capture.outputs)
    match = re.search(r"load ([0-9]+)%", text)
    value = min(float(match[1]) / 100, 1.0) if match else 0.0
    return Report(devices=(device(),), readings=(Reading(0, "utilization_ratio", value),))


def test_wrong_parser_is_found() -> None:
    for parse, words in (
        (raising, "raises IndexError"),
        (forgetful(), "returns a different report"),
        (greedy, "cut at"),
        (inventing, "is not in the input"),
    ):
        violations = check(parser(parse), [TEXT])
        assert any(words in violation for violation in violations), violations


def test_parser_that_changes_its_input_is_found() -> None:
    sample = Capture("foo-smi", "readings", POLL.request, (Output("a", data={"temp": 48}),))
    assert "sample 0: changes the capture" in check(parser(meddling), [sample])


def test_numbers_in_data_count_as_input() -> None:
    sample = Capture(
        "foo-smi", "readings", POLL.request, (Output("a", data={"cards": [{"temp": 48, "mem": "12 MiB"}]}),)
    )

    def parse(capture: Capture) -> Report:
        if capture != sample:
            return Report("failed", "not_understood", problems=(Problem("data", "not ours"),))
        readings = (Reading(0, "temperature_celsius", 48.0, "core"), Reading(0, "memory_used_bytes", 12.0 * 2**20))
        return Report(devices=(device(),), readings=readings)

    assert check(parser(parse), [sample]) == []


OWN = Metric("accelerator_foo_wobble", "gauge", "", "Wobble of a card.", 0, 10)
# plugins/test_declaration.py has the broken declarations.
BROKEN_SHAPES = {
    "contract_version is 2": parser(careful, contract_version=2),
    "parse is not a function": parser("parse"),  # type: ignore[arg-type]  # that is the point
    "is not a Parser; missing attributes": object(),
}


def test_wrong_shape_is_found() -> None:
    for words, broken in BROKEN_SHAPES.items():
        violations = declaration_violations(broken)
        assert any(words in violation for violation in violations), (words, violations)


def test_own_metrics_need_the_vendor_prefix() -> None:
    def parse(capture: Capture) -> Report:
        report = careful(capture)
        extra = (Reading(0, "foo_wobble", Absent.NOT_SUPPORTED),) if report.devices else ()
        return replace(report, readings=(*report.readings, *extra))

    assert check(parser(parse, gives=(*GIVES, "foo_wobble"), metrics=(OWN,)), [TEXT]) == []


def test_number_of_violations_is_limited() -> None:
    assert len(check(parser(inventing), [TEXT] * 20)) == 50


@pytest.mark.parametrize(
    ("vendor", "listed", "is_broken"),
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
def test_vendors_and_addresses_in_a_report(vendor: str, listed: Device, *, is_broken: bool) -> None:
    """AMD's tool in Hygon's runtime may list Hygon's cards, by an address without a domain."""
    report = Report(devices=(listed,))
    source = SourceParser("tool", vendor, ("power_watts",), (POLL,), lambda _: report)
    assert bool(report_violations(source, Capture("tool", POLL.name, POLL.request), report)) == is_broken
