"""More than one output of a tool is joined by the device's number, by card and chip, or by partition."""

import json

from kits import captures
from kits.captures import registered_parsers
from telemetry_parsers.combining import combine_reports
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.merged import merge
from telemetry_parsers.merge.report_columns import check_report
from telemetry_parsers.model import Capture, Output, Report, SourceReport, Value

PARSERS = registered_parsers()
NPU_SMI = PARSERS["npu-smi"]
POLLS = {poll.name: poll for poll in NPU_SMI.polls}
USAGES = "NPU ID : 3\nChip Count : 2\nAicpu Usage Rate(%) : 4\nChip ID : 0\nAicpu Usage Rate(%) : 9\nChip ID : 1\n"


def text_of(case: str) -> str:
    return captures.text_of("npu-smi", case)


def report_on(text: str) -> Report:
    return captures.report_on("npu-smi", text)


def asked(poll: str, card: str, text: str) -> Report:
    """Return the report on the output for one card."""
    output = Output(f"npu-smi info -t {poll} -i {card}", card, text, status=0)
    return NPU_SMI.parse(Capture("npu-smi", poll, POLLS[poll].request, (output,)))


def aicpu(report: Report) -> list[Value]:
    key = ("engine_utilization_ratio", "aicpu")
    return [item.value for item in report.readings if (item.metric, item.label) == key]


def test_output_without_partitions_is_joined_by_index() -> None:
    cards = [{"gpu": n, "power": {"socket_power": {"value": 200 + n, "unit": "W"}}} for n in range(4)]
    metric = captures.report_on("amd-smi", json.dumps(cards))
    listing = captures.report_on("amd-smi", captures.text_of("amd-smi", "list-json-dpx"))
    for order in ([listing, metric], [metric, listing]):
        report = combine_reports(order)
        found = [(device.index, device.partition, device.parent) for device in report.devices]
        assert found == [(0, None, None), (1, "1", 0), (2, None, None), (3, "1", 2)]
        powers = {item.device: item.value for item in report.readings if item.metric == "power_watts"}
        assert powers == {0: 200.0, 1: 201.0, 2: 202.0, 3: 203.0}


def test_answers_of_several_shapes_may_follow_one_another_without_their_commands() -> None:
    parts = [text_of("table-a3-dies"), text_of("m-a3"), USAGES]
    for texts in (parts, parts[::-1]):
        report = report_on("\n".join(texts))
        assert [device.bus_id for device in report.devices] == ["0000:92:00.0", "0000:94:00.0"]
        assert aicpu(report) == [0.04, 0.09]
        assert report.problems == ()


def test_an_answer_of_the_whole_card_is_joined_only_where_the_card_has_one_chip() -> None:
    board = text_of("board-card")
    single = combine_reports([report_on(text_of("table-910a-busy")), report_on(board)])
    assert [device.serial for device in single.devices] == ["033EFS10N1000123", None]
    many = combine_reports([report_on(text_of("table-310-chips")), report_on(board.replace(": 0\n", ": 33\n", 1))])
    assert [device.serial for device in many.devices] == [None, None, "033EFS10N1000123"]


def test_answer_for_a_card_applies_to_each_of_its_chips() -> None:
    answers = {
        "readings": report_on(text_of("table-310p-duo")),
        "common": asked("common", "2944", text_of("common-310p").replace(": 1\n", ": 2944\n", 1)),
        "card": asked("card", "2944", text_of("board-card-310p")),
    }
    reports = [
        SourceReport("npu-smi", name, "ascend", (), POLLS[name].lists_devices, 60.0, 1.0, 100.0, report)
        for name, report in answers.items()
    ]
    merged = merge([check_report(report) for report in reports], MergeState(), now=2.0, wall_time=100.0)
    powers = [[r.value for r in device.readings if r.metric == "power_card_watts"] for device in merged.devices]
    assert [device.device for device in merged.devices] == ["2944:0", "2944:1"]
    assert powers == [[45.2], [45.2]]
    faulty = [merged.device_ids["npu-smi", "card"][event.device or 0] for event in answers["card"].events]
    assert faulty == [device.id for device in merged.devices]
