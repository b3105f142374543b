"""libacme: what each recorded answer says, the contract, and a machine without the library."""

from __future__ import annotations

from pathlib import Path

import pytest
from telemetry_example.acme_library import PARSER
from telemetry_example.reader import AcmeReader

from telemetry_parsers.checks.suite import check
from telemetry_parsers.codec.captures import capture_from_plain, decode_line
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.model import Absent

RECORDING = Path(__file__).parent.parent / "captures" / "library.jsonl"
CAPTURES = [capture_from_plain(decode_line(line)) for line in RECORDING.read_text().splitlines()]


def test_the_contract_is_kept() -> None:
    assert check(PARSER, CAPTURES) == []


def test_two_cards() -> None:
    report = PARSER.parse(CAPTURES[0])
    assert [(device.index, device.uuid) for device in report.devices] == [(0, "ACME-1f0c-aa01"), (1, "ACME-1f0c-aa02")]
    assert [(reading.device, reading.metric, reading.value) for reading in report.readings] == [
        (0, "power_watts", 61.5),
        (0, "temperature_celsius", 31.0),
        (0, "acme_coolant_flow_ratio", 0.2),
        (1, "power_watts", 287.5),
        (1, "temperature_celsius", 71.0),
        (1, "acme_coolant_flow_ratio", Absent.NOT_SUPPORTED),
    ]
    assert report.facts == (("library_version", "2.4.1"),)


@pytest.mark.parametrize(
    ("number", "outcome", "reason"),
    [(1, "no_devices", None), (2, "failed", "not_understood"), (3, "failed", "driver_gone")],
)
def test_answer_without_cards_has_a_reason(number: int, outcome: str, reason: str | None) -> None:
    report = PARSER.parse(CAPTURES[number])
    assert (report.outcome, report.reason) == (outcome, reason)


def test_without_the_library_the_reader_refuses() -> None:
    reader = AcmeReader()
    with pytest.raises(ReaderRefusal) as refusal:
        reader.open()
    assert (refusal.value.state, refusal.value.reason) == ("missing", None)
    assert "libacme.so.1" in refusal.value.text
    reader.close()
