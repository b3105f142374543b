"""npu-smi's other answers: which chip a key speaks of, several answers in one text, and what each poll adds."""

from __future__ import annotations

import pytest

from kits.parsed.npu_smi import POLLS, asked, chip_places, report_on, text_of, values
from telemetry_parsers.combining.outputs import combine_reports
from telemetry_parsers.model import Absent, Capture, Command, Output, Report, Value
from telemetry_parsers.vendors.ascend.npu_smi.parser import PARSER

USAGES, COMMON = text_of("usages-310p"), text_of("common-mcu")


@pytest.mark.parametrize("change", ["blank lines lost", "blanks collapsed", "tabs lost", "carriage returns"])
def test_blocks_are_told_apart_by_their_keys(change: str) -> None:
    text = {
        "blank lines lost": USAGES.replace("\n\n", "\n"),
        "blanks collapsed": "\n".join(" ".join(line.split()) for line in USAGES.split("\n")),
        "tabs lost": USAGES.replace("\t", ""),
        "carriage returns": USAGES.replace("\n", "\r\n"),
    }[change]
    assert report_on(text) == report_on(USAGES)


def test_the_number_of_a_chip_may_open_or_close_its_block() -> None:
    opened = "NPU ID : 1\nChip Count : 2\nChip ID : 0\nAicpu Usage Rate(%) : 4\nChip ID : 1\nAicpu Usage Rate(%) : 9\n"
    closed = "NPU ID : 1\nChip Count : 2\nAicpu Usage Rate(%) : 4\nChip ID : 0\nAicpu Usage Rate(%) : 9\nChip ID : 1\n"
    for text in (opened, closed):
        report = report_on(text)
        assert chip_places(report) == [("1", "0"), ("1", "1")]
        assert values(report, "engine_utilization_ratio", "aicpu") == [0.04, 0.09]


def test_the_cards_controller_lends_its_temperature_to_no_chip() -> None:
    report = report_on(COMMON)
    assert values(report, "temperature_celsius", "core") == [46.0]
    assert values(report, "power_watts") == [93.5]
    first = "NPU ID : 0\nChip Name : mcu\nTemperature(C) : 33\nChip ID : 0\nTemperature(C) : 46\n"
    assert values(report_on(first), "temperature_celsius", "core") == [46.0]


def test_a_block_of_keys_that_bears_another_tools_marks_is_not_read() -> None:
    keys = "HBM Temperature(C) : 46\nPower Dissipation(W) : 90.5\n"
    assert values(report_on(keys), "power_watts") == [90.5]
    report = report_on(f"Enflame System Management Interface\n{keys}")
    assert (report.outcome, report.devices, report.readings) == ("not_mine", (), ())


CARD, CHIPS = "NPU ID : 3\n", "NPU ID : 3\nChip Count : 2\n"


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("the chips close their blocks", CARD + "\nHealth : OK\nChip ID : 0\n\nHealth : Alarm\nChip Name : MCU\n", ["OK"]),
        ("without blank lines", CARD + "Health : OK\nChip ID : 0\nHealth : Alarm\nChip Name : MCU\n", ["OK"]),
        ("the chips open their blocks", CARD + "\nChip ID : 0\nHealth : OK\n\nHealth : Alarm\nChip Name : MCU\n", ["OK"]),
        ("the chip says nothing", CARD + "\nHealth : Alarm\nChip Name : MCU\n", []),
        ("its name is cut off", CARD + "\nHealth : OK\nChip ID : 0\n\nHealth : Alarm\n", ["OK"]),
        ("its own sensors", CARD + "\nHealth : OK\nChip ID : 0\n\nLM75A_TE (C) : 36\nHealth : Alarm\nChip Name : MCU\n", ["OK"]),
    ],
)  # fmt: skip
def test_the_controller_may_be_named_below_its_values(answer: str, text: str, expected: list[str]) -> None:
    report = report_on(text)
    found = [item.label for item in report.readings if item.metric == "health" and item.value == 1.0]
    assert found == [word.lower() for word in expected], answer
    assert len(report.devices) == 1, answer
    assert report.unknown_fields == (), answer


def test_a_lost_blank_line_does_not_give_the_controllers_values_to_a_chip() -> None:
    text = (
        CHIPS
        + "\nChip ID : 0\nTemperature(C) : 60\n\nChip ID : 1\nTemperature(C) : 59\nChip Name : mcu\nTemperature(C) : 48\n"
    )
    assert [(item.device, item.value) for item in report_on(text).readings] == [(0, 60.0), (1, 59.0)]


def test_values_that_may_be_the_controllers_or_the_chips_are_of_neither() -> None:
    report = report_on(CARD + "Power Dissipation(W) : 40.1\nChip Name : MCU\nTemperature(C) : 33\n")
    assert (report.readings, len(report.problems)) == ((), 1)


def test_the_controllers_own_board_is_no_chip() -> None:
    board = "NPU ID : 3\nChip ID : 1\nChip Name : Mcu\nBoard ID : 0x60\nFirmware Version : 23.2.3\n"
    report = report_on(board)
    assert (chip_places(report), dict(report.devices[0].facts)) == ([("3", None)], {"card": "3"})


def test_a_chip_that_did_not_answer_does_not_take_the_next_ones_values() -> None:
    text = CHIPS + "\nChip ID : 0\nFailed to query npu chip: 0 info.\n\nTemperature (C) : 50\nChip ID : 1\n"
    report = report_on(text)
    assert chip_places(report) == [("3", "0"), ("3", "1")]
    assert [(item.device, item.value) for item in report.readings] == [(1, 50.0)]
    assert [problem.text for problem in report.problems] == ["Failed to query npu chip: 0 info."]


PROCESS = "Process id:{} Process name:{} Process memory(MB):48208\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PROCESS.format(7, "a") + "Chip ID : 0\n\n" + PROCESS.format(8, "b") + "Chip ID : 1\n", [("0", 7), ("1", 8)]),
        ("Chip ID : 0\n" + PROCESS.format(7, "a") + "\nChip ID : 1\n" + PROCESS.format(8, "b"), [("0", 7), ("1", 8)]),
        ("No process in device.\nChip ID : 0\n\n" + PROCESS.format(8, " ") + "Chip ID : 1\n", [("1", 8)]),
        (
            "No process in device.\nChip ID : 0\n\nGet pid name failed.\n" + PROCESS.format(8, " ") + "Chip ID : 1\n",
            [("1", 8)],
        ),
    ],
)
def test_a_process_is_its_chips_whose_number_stands_above_or_below(text: str, expected: list[tuple[str, int]]) -> None:
    report = report_on(CHIPS + "\n" + text)
    found = [(dict(report.devices[process.device].facts)["chip"], process.pid) for process in report.processes]
    assert (found, report.problems) == (expected, ())


def test_a_process_of_one_of_several_chips_is_not_read_without_its_chip() -> None:
    report = report_on(CHIPS + PROCESS.format(8, "b"))
    assert (report.processes, len(report.problems)) == ((), 1)


def test_answers_about_several_chips_without_their_names_are_not_read() -> None:
    answer = "Health Status : {}\nError Code : NA\nError Information : NA\n"
    report = report_on(answer.format("OK") + answer.format("Alarm"))
    assert (report.devices, report.readings, len(report.problems)) == ((), (), 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Capacity(MB) : 8192\nClock Speed(MHz) : 1600\n", {"memory_total_bytes": 8192.0 * 2**20, "clock_hertz": 1.6e9}),
        ("Total Capacity(MB) : 12288\nCapacity(MB) : 11577\nClock Speed(MHz) : 3200\n",
         {"memory_total_bytes": 11577.0 * 2**20, "clock_hertz": 3.2e9}),
        ("Flash Count : 1\n\nFlash ID : 1\nManufacturer ID : 0xEF\nCapacity(MB) : 16\n", {}),
        ("HBM ECC-Enable Status : True\n", {"ecc_enabled": 1.0}),
        ("DDR ECC-Enable Status : True\nHBM ECC-Enable Status : False\n", {"ecc_enabled": 0.0}),
        ("ECC-Enable Status : odd\n", {"ecc_enabled": Absent.NOT_UNDERSTOOD}),
        ("Product Type : Atlas 300I Duo\nHugepages Total(page) : 969\nVoltage(V) : 0.85\n", {"voltage_volts": 0.85}),
    ],
)  # fmt: skip
def test_answers_of_single_products(text: str, expected: dict[str, Value]) -> None:
    report = report_on("NPU ID : 33\nChip Count : 1\n\nChip ID : 0\n" + text)
    assert {item.metric: item.value for item in report.readings} == expected
    assert report.unknown_fields == ()


@pytest.mark.parametrize(
    ("key", "value", "metric", "label", "expected"),
    [
        ("Temperature(C)", "60", "temperature_celsius", "core", 60.0),
        ("Temperature (C)", "60", "temperature_celsius", "core", 60.0),
        ("NPU Temperature (C)", "60", "temperature_celsius", "core", 60.0),
        ("NPU Temperature", "60 C", "temperature_celsius", "core", 60.0),
        ("NPU Temperature", "60", "temperature_celsius", "core", Absent.NOT_UNDERSTOOD),
        ("NPU Temperature (C)", "NA", "temperature_celsius", "core", Absent.NOT_REPORTED),
        ("NPU Temperature (C)", "32765", "temperature_celsius", "core", Absent.IMPLAUSIBLE),
        ("Power Dissipation(W)", "12.8", "power_watts", "", 12.8),
        ("NPU Real-time Power(mW)", "12800", "power_watts", "", 12.8),
        ("HBM Capacity(KB)", "67108864", "memory_total_bytes", "", 64.0 * 2**30),
        ("NPU Real-time Power(W)", "298.6", "power_watts", "", 298.6),
        ("HBM Clock Speed(MHz)", "1600", "clock_hertz", "memory", 1.6e9),
        ("HBM Capacity(GB)", "64", "memory_total_bytes", "", 64.0 * 2**30),
        ("Memory Capacity(MB)", "8192", "memory_total_bytes", "", 8192.0 * 2**20),
        ("Aicore Usage Rate(%)", "100%", "utilization_ratio", "", 1.0),
    ],
)
def test_keys_are_read_by_their_meaning_and_their_unit(
    key: str, value: str, metric: str, label: str, expected: Value
) -> None:
    report = report_on(f"NPU ID : 0\nChip Count : 1\n\n{key} : {value}\nChip ID : 0\n")
    assert values(report, metric, label) == [expected]
    assert bool(report.problems) == (expected in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE))


def test_a_warning_before_the_answer_is_a_problem_and_no_device() -> None:
    report = report_on("WARNING: the driver package is old\n" + COMMON)
    assert chip_places(report) == [("0", "0")]
    assert [problem.text for problem in report.problems] == ["WARNING: the driver package is old"]


def test_the_last_turn_of_watch_counts() -> None:
    head = "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)\n"
    report = report_on(head + "0           0           8.7         55\n" + "0           0           9.1         56\n")
    assert (values(report, "power_watts"), values(report, "temperature_celsius", "core")) == ([9.1], [56.0])


def test_headings_of_watch_may_stand_close_together() -> None:
    head = "NpuID(Idx) Pwr(W) Temp(C) AI Core(%) AI Cpu(%) Ctrl Cpu(%) Memory(%) Memory BW(%) NPU Util(%)\n"
    report = report_on(head + "3 290.4 51 1 2 16 3 4 5\n")
    assert values(report, "engine_utilization_ratio", "ctrlcpu") == [0.16]
    assert values(report, "memory_bandwidth_ratio") == [0.04]


def test_several_files_of_one_node_are_joined_by_card_and_chip() -> None:
    """Card 3 holds the dies with the physical ids 6 and 7; `-t` counts by card."""
    usages = "NPU ID : 3\nChip Count : 2\nAicpu Usage Rate(%) : 4\nChip ID : 0\nAicpu Usage Rate(%) : 9\nChip ID : 1\n"
    reports = [report_on(text) for text in (text_of("table-a3-dies"), text_of("m-a3"), usages)]
    combined = combine_reports(reports)
    assert [(device.index, device.bus_id) for device in combined.devices] == [(6, "0000:92:00.0"), (7, "0000:94:00.0")]
    assert values(combined, "engine_utilization_ratio", "aicpu") == [0.04, 0.09]
    assert [dict(device.facts)["logic_id"] for device in combined.devices] == ["0", "1"]


def test_answers_of_several_shapes_may_follow_one_another_without_their_commands() -> None:
    usages = "NPU ID : 3\nChip Count : 2\nAicpu Usage Rate(%) : 4\nChip ID : 0\nAicpu Usage Rate(%) : 9\nChip ID : 1\n"
    parts = [text_of("table-a3-dies"), text_of("m-a3"), usages]
    for texts in (parts, parts[::-1]):
        report = report_on("\n".join(texts))
        assert [device.bus_id for device in report.devices] == ["0000:92:00.0", "0000:94:00.0"]
        assert values(report, "engine_utilization_ratio", "aicpu") == [0.04, 0.09]
        assert report.problems == ()


def test_an_answer_without_a_name_behind_the_table_is_of_no_device() -> None:
    table = text_of("table-910a-busy")
    report = report_on(table + "Health Status : Alarm\nError Code : 80E01801\n")
    assert (report.devices, len(report.problems)) == (report_on(table).devices, 1)


def test_an_answer_of_the_whole_card_is_joined_only_where_the_card_has_one_chip() -> None:
    board = text_of("board-card")
    one = combine_reports([report_on(text_of("table-910a-busy")), report_on(board)])
    assert [device.serial for device in one.devices] == ["033EFS10N1000123", None]
    many = combine_reports([report_on(text_of("table-310-chips")), report_on(board.replace(": 0\n", ": 33\n", 1))])
    assert [device.serial for device in many.devices] == [None, None, "033EFS10N1000123"]


def test_an_answer_that_names_no_card_is_that_of_the_card_that_was_asked() -> None:
    text = "HBM Capacity(MB) : 65536\nHBM Temperature(C) : 52\n"
    report = asked("memory", ("4", text), ("12", text.replace("52", "57")))
    assert chip_places(report) == [("4", None), ("12", None)]
    assert values(report, "temperature_celsius", "memory") == [52.0, 57.0]


def test_one_card_that_does_not_answer_costs_its_own_readings_only() -> None:
    usages = "NPU ID : 4\nChip Count : 1\nAicpu Usage Rate(%) : 4\nChip ID : 0\n"
    report = asked("usages", ("4", usages), ("5", "Invalid card id.\nError parameter of -i\n"))
    assert (report.outcome, values(report, "engine_utilization_ratio", "aicpu")) == ("ok", [0.04])
    assert "Invalid card id." in report.problems[0].text


def test_error_codes_are_facts_of_the_chip_that_was_asked() -> None:
    request = POLLS["health"].request
    output = Output("npu-smi info -t health -i 7 -c 0", "7", text_of("health-alarm"), status=0)
    report = PARSER.parse(Capture(PARSER.name, "health", request, (output,)))
    assert chip_places(report) == [("7", "0")]
    assert dict(report.devices[0].facts)["error_codes"] == "A4025021 8C03A000"
    assert report.readings == ()  # the state is the table's to tell


def test_what_a_product_cannot_tell_is_quiet_when_every_card_is_asked() -> None:
    text = "This device does not support querying ecc.\n"
    assert asked("ecc", ("4", text), ("5", text)) == Report("ok")
    assert report_on(text).outcome == "wrong_request"


def test_a_poll_of_every_card_adds_to_the_table_and_never_contradicts_it() -> None:
    report = asked("usages", ("5", text_of("usages-910b")))
    assert {item.metric for item in report.readings} == {"engine_utilization_ratio", "memory_bandwidth_ratio"}
    assert "power_watts" in {item.metric for item in report_on(COMMON).readings}
    assert {item.metric for item in asked("common", ("0", COMMON)).readings} == {
        "clock_hertz",
        "clock_max_hertz",
        "compute_units",
    }


def test_only_the_table_lists_devices_and_the_others_ask_card_by_card() -> None:
    assert [poll.name for poll in PARSER.polls if poll.lists_devices] == ["readings"]
    assert POLLS["readings"].request == Command((("npu-smi", "info"),), folders=POLLS["readings"].request.folders)
    per_card = [poll for poll in PARSER.polls if isinstance(poll.request, Command) and poll.request.per == "card"]
    assert [poll.name for poll in per_card] == [
        "usages",
        "common",
        "memory",
        "temperatures",
        "voltage",
        "board",
        "card",
        "ecc",
        "health",
        "pcie-errors",
    ]
    assert all(poll.tier != "fast" for poll in per_card)


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("dcmi model initialized failed, because the device is used. ret is -8020\n", "failed", "no_permission"),
        ("dcmi module initialize failed. ret is -8002\n", "failed", "no_permission"),
        ("dcmi module initialize failed. ret is -8005\n", "failed", "driver_gone"),
        ("npu-smi: error while loading shared libraries: libdrvdsmi_host.so\n", "failed", "library_mismatch"),
        ("There is no NPU card on this server.\n", "no_devices", None),
        ("Error parameter of -t\nUsage: npu-smi info <watch|proc|-h|-m|-l|-t type>\n", "wrong_request", None),
        ("Invalid card id.\n", "failed", "exit_status"),
        ("There is no NPU chip on this card.\n", "failed", "driver_gone"),
        ("npu get board type failed. ret is -9005\n", "failed", "driver_gone"),
        ('Failed to query "health" result.\n', "failed", "not_understood"),
        ("This command must input card id and chip id.\n", "wrong_request", None),
        ("==============NVSMI LOG==============\n", "not_mine", None),
        ("the NPU is at 99 C\n", "failed", "not_understood"),
    ],
)
def test_error_texts_are_told_by_their_words_and_give_no_number(text: str, outcome: str, reason: str | None) -> None:
    report = report_on(text)
    assert (report.outcome, report.reason, report.readings) == (outcome, reason, ())
    assert report.problems


@pytest.mark.parametrize(
    ("answer", "problems"),
    [
        ("Invalid card id.", ["Invalid card id"]),
        ("dcmi module initialize failed. ret is -8005", ["ret is -8005"]),
        ("This device does not support querying usages.", []),
        ("Error parameter of -t", []),
        ("\tError Count : 0", []),
    ],
)
def test_a_command_that_failed_among_others_that_did_not_is_told(answer: str, problems: list[str]) -> None:
    text = (
        f"# npu-smi info -t power -i 0 -c 0\n\tNPU Real-time Power(W) : 97.5\n# npu-smi info -t usages -i 3\n{answer}\n"
    )
    report = report_on(text)
    assert chip_places(report) == [("0", "0")]
    assert len(report.problems) == len(problems)
    assert all(words in problem.text for words, problem in zip(problems, report.problems, strict=True))
