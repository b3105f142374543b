"""Texts that are larger, deeper or longer than any node prints are refused; a reader's failure is passed on."""

import json
from typing import Any

import pytest

from kits.captures import registered_parsers, report_on, text_of
from telemetry_parsers.model import Capture, Command, Failure, Output, Report

PARSERS = registered_parsers()
OF_TEXT = sorted(name for name, parser in PARSERS.items() if isinstance(parser.polls[0].request, Command))


def mthreads_table() -> str:
    text = text_of("mthreads-gmi", "table-old-idle")
    rows = (f"{number}    MTT S80 |00000000:03:00.0 |0% 1MiB(2MiB)\n" for number in range(1025))
    return text[: text.index("0    MTT")] + "".join(rows)


def npu_table() -> str:
    lines = text_of("npu-smi", "table-910b-sparse").splitlines(keepends=True)
    card = "".join(lines[7:10])
    return "".join(lines[:7]) + "".join(card.replace("| 5 ", f"| {number} ") for number in range(1025))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("mthreads-gmi", mthreads_table()),
        ("mthreads-gmi", "".join(f"GPU{number} 00000000:01:00.0\n" for number in range(1025))),
        ("mthreads-gmi", "Processes:\n" + "ID   PID\n" * 100),
        ("npu-smi", npu_table()),
        ("amd-smi", json.dumps([{"gpu": number} for number in range(1025)])),
        ("rocminfo", "*******\nAgent 1\n*******\n" * 1025),
        ("amd-smi", "[" * 100_000),
        ("mthreads-gmi", '{"Attached GPUs": "1", "GPU": ' + '[{"a":' * 100_000),
    ],
    ids=range(8),
)
def test_items_beyond_the_limits_are_not_read(source: str, text: str) -> None:
    report = report_on(source, text)
    assert (report.outcome, report.reason, report.devices) == ("failed", "not_understood", ())


@pytest.mark.parametrize("source", OF_TEXT)
def test_lines_beyond_the_limit_are_not_read(source: str) -> None:
    report = report_on(source, "\n" * 20_001)
    assert (report.outcome, report.reason) == ("failed", "not_understood")


def test_a_list_of_more_gpus_than_nvml_knows_is_no_answer() -> None:
    report = parsed("nvml", Output("fast", data={"node": {}, "gpus": [{}] * 257}, status=0))
    assert (report.outcome, report.devices, "257 GPUs" in report.problems[0].text) == ("failed", (), True)


def parsed(source: str, *outputs: Output, **more: Any) -> Report:
    poll = PARSERS[source].polls[0]
    return PARSERS[source].parse(Capture(source, poll.name, poll.request, outputs, **more))


@pytest.mark.parametrize("source", sorted(PARSERS))
def test_failure_of_a_reader_is_passed_on(source: str) -> None:
    report = parsed(source, Output(text="x"), failure=Failure("failed", "timeout", "no answer within 10 s"))
    assert (report.outcome, report.reason, report.devices, report.readings) == ("failed", "timeout", (), ())
    assert [problem.text for problem in report.problems] == ["no answer within 10 s"]


def test_too_long_csv_cell_of_rocm_smi_affects_only_its_row() -> None:
    report = report_on("rocm-smi", f"device,GPU use (%)\ncard0,{'x' * 200_000}\ncard1,7\n")
    assert [device.index for device in report.devices] == [0, 1]
    assert [(item.device, item.value) for item in report.readings if item.device == 1] == [(1, 0.07)]
    assert len(report.problems) == 1


def test_a_json_of_rocm_smi_that_is_nested_deeply_gives_nothing() -> None:
    report = report_on("rocm-smi", '{"card0": {"GPU use (%)": ' + "[" * 100_000)
    assert report.readings == ()
    assert "cut off or broken" in report.problems[0].text


def test_thousands_of_rows_of_one_card_are_read_in_bounded_steps() -> None:
    row = "| 0     /   MLU370-X8    v1.1.6 |         0000:39:00.0 | 0%                N/A |\n"
    text = text_of("cnmon", "table-5.10-busy").replace("|==", row * 2_000 + "|==", 1)
    assert len(report_on("cnmon", text).devices) <= 2
