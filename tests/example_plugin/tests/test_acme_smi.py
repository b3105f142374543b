"""acme-smi: what each capture says, and the contract that every parser keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from telemetry_example.acme_smi import PARSER

from telemetry_parsers.checks.suite import check
from telemetry_parsers.model import Absent, Capture, Output, Report

CAPTURES = Path(__file__).parent.parent / "captures"


def read(name: str, status: int = 0) -> Report:
    text = (CAPTURES / name).read_text()
    return PARSER.parse(Capture("acme-smi", "cards", PARSER.polls[0].request, (Output(text=text, status=status),)))


def values(report: Report, device: int) -> dict[str, object]:
    return {f"{r.metric} {r.label}".strip(): r.value for r in report.readings if r.device == device}


def test_the_contract_is_kept() -> None:
    """On every capture and on hundreds of damaged forms of it: cut, shuffled, flipped, doubled, empty, binary."""
    assert check(PARSER, [path.read_text() for path in sorted(CAPTURES.glob("*.txt"))]) == []


def test_an_idle_card() -> None:
    report = read("idle.txt")
    assert (report.outcome, report.problems, report.unknown_fields) == ("ok", (), ())
    first = report.devices[0]
    assert (first.index, first.model, first.uuid, first.bus_id, first.driver) == (
        0, "Anvil 3000", "ACME-1f0c-aa01", "0000:3b:00.0", "2.4.0",
    )  # fmt: skip
    assert values(report, 0) == {
        "temperature_celsius core": 31.0,
        "temperature_celsius memory": 33.0,
        "power_watts": 61.5,
        "power_cap_watts": 300.0,
        "memory_used_bytes": 0.0,
        "memory_total_bytes": 68719476736.0,
        "utilization_ratio": 0.0,
        "acme_coolant_flow_ratio": 0.2,
    }


def test_missing_value_is_absent_with_its_reason() -> None:
    report = read("busy.txt")
    found = values(report, 0)
    assert found["temperature_celsius memory"] is Absent.NOT_REPORTED
    assert found["acme_coolant_flow_ratio"] is Absent.NOT_SUPPORTED
    assert report.problems == ()
    assert report.unknown_fields == ("forge mode", "power cap source")


def test_odd_values_are_reported_and_are_no_numbers() -> None:
    report = read("odd_values.txt")
    found = values(report, 0)
    assert found["temperature_celsius core"] is Absent.IMPLAUSIBLE
    assert found["temperature_celsius memory"] is Absent.NOT_UNDERSTOOD
    assert found["power_watts"] is Absent.NOT_UNDERSTOOD
    assert found["power_cap_watts"] == 300.0
    assert [problem.text for problem in report.problems] == [
        "core temperature: 65535 C",
        "hbm temperature: warm",
        "power draw: ERR!",
    ]


@pytest.mark.parametrize(
    ("name", "status", "outcome", "reason"),
    [("no_cards.txt", 0, "no_devices", None), ("driver_gone.txt", 1, "failed", "driver_gone")],
)
def test_output_without_cards_has_a_reason(name: str, status: int, outcome: str, reason: str | None) -> None:
    report = read(name, status)
    assert (report.outcome, report.reason, report.devices) == (outcome, reason, ())
