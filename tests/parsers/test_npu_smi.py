"""npu-smi's default table beyond its golden files: fragments, torn rows, memory kinds, several runs, odd frames."""

from __future__ import annotations

import pytest

from kits.captures import own_case, parse_file, text_capture
from telemetry_parsers.model import Absent, Output, Report, Value
from telemetry_parsers.vendors.ascend.npu_smi.parser import PARSER

MIB = 2**20


def text_of(case: str) -> str:
    return parse_file(own_case("npu-smi", case).path.read_text()).text


def report_on(text: str, status: int | None = None) -> Report:
    return PARSER.parse(text_capture(PARSER, Output(text=text, status=status)))


def values(report: Report, metric: str, label: str = "") -> list[Value]:
    return [item.value for item in report.readings if (item.metric, item.label) == (metric, label)]


def indices(report: Report) -> list[int | None]:
    return [device.index for device in report.devices]


BUSY, DIES, SPARSE = text_of("table-910a-busy"), text_of("table-a3-dies"), text_of("table-910b-sparse")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("blanks collapsed", "\n".join(" ".join(line.split()) for line in BUSY.split("\n"))),
        ("carriage returns", BUSY.replace("\n", "\r\n")),
        ("blank lines", BUSY.replace("\n", "\n\n")),
        ("tabs", BUSY.replace("    ", "\t")),
        ("indented", BUSY.replace("\n", "\n    ")),
        ("a launcher's prefix", "".join(f"node17: {line}" for line in BUSY.splitlines(keepends=True))),
        ("behind its command", "root@node17:~# npu-smi info\n" + BUSY),
        ("behind its command, by its path", "/usr/local/sbin/npu-smi info\n" + BUSY),
        ("colours", BUSY.replace("Warning", "\x1b[33mWarning\x1b[0m")),
        ("a word that pushes its row out", BUSY.replace("| Warning       |", "| Warning              |")),
        ("the last blanks of the headings lost", BUSY.replace("(page)|", "(page)           |")),
    ],
)
def test_layout_does_not_matter(change: str, text: str) -> None:
    whole, found = report_on(BUSY), report_on(text)
    assert (found.devices, set(found.readings), found.processes) == (
        whole.devices,
        set(whole.readings),
        whole.processes,
    ), change
    assert found.problems == ()


@pytest.mark.parametrize(
    ("ddr", "hbm", "used", "total"),
    [
        ("4610 / 15137", "30711/ 32768", 30711 * MIB, 32768 * MIB),
        ("4610 / 15137", "0    / 0    ", 4610 * MIB, 15137 * MIB),
        ("0    / 0    ", "0    / 32768", 0.0, 32768 * MIB),
        ("0    / 0    ", "0    / 0    ", Absent.NOT_REPORTED, Absent.NOT_REPORTED),
        ("4610 / 15137", "NA   / NA   ", Absent.NOT_REPORTED, Absent.NOT_REPORTED),
        ("4610 / 15137", "N/A / N/A   ", Absent.NOT_REPORTED, Absent.NOT_REPORTED),
        ("4610 / 15137", "-    / 32768", Absent.NOT_REPORTED, 32768 * MIB),
        ("4610 / 15137", "4294967295 / 32768", Absent.IMPLAUSIBLE, 32768 * MIB),
    ],
)
def test_hbm_is_the_memory_unless_there_is_none(ddr: str, hbm: str, used: Value, total: Value) -> None:
    report = report_on(BUSY.replace("4610 / 15137", ddr).replace("30711/ 32768", hbm))
    assert (values(report, "memory_used_bytes")[0], values(report, "memory_total_bytes")[0]) == (used, total)


def test_used_above_total_stands_as_printed() -> None:
    report = report_on(BUSY.replace("30711/ 32768", "40000/ 32768"))
    assert values(report, "memory_used_bytes")[0] == 40000 * MIB


def test_a_memory_column_in_another_unit_is_read_by_it() -> None:
    text = SPARSE.replace("HBM-Usage(MB)", "HBM-Usage(GB)").replace("3320 / 65536", "3    / 64   ")
    assert values(report_on(text), "memory_total_bytes")[0] == 64 * 2**30


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("| 3     Ascend910           | OK            | -           57  ", [6]),
        ("| 1     7                   | 0000:94:00.0  | 0           0    / 0          3190 / 65536         |", [6]),
    ],
)
def test_a_die_of_which_a_line_is_lost_is_not_taken_for_another(row: str, found: list[int]) -> None:
    kept = [line for line in DIES.splitlines(keepends=True) if not line.startswith(row)]
    report = report_on("".join(kept))
    assert indices(report) == found
    assert len(report.problems) == 1


def test_a_lost_rule_between_two_cards_does_no_harm() -> None:
    rules = [at for at, line in enumerate(SPARSE.splitlines()) if line.startswith("+===")]
    lines = SPARSE.splitlines(keepends=True)
    del lines[rules[1]]
    assert set(report_on("".join(lines)).readings) == set(report_on(SPARSE).readings)


def test_numbers_of_another_line_never_stand_under_a_heading() -> None:
    lines = [line for line in BUSY.splitlines(keepends=True) if not line.startswith("| 0                  ")]
    report = report_on("".join(lines))
    assert values(report, "utilization_ratio") == [Absent.NOT_REPORTED, Absent.NOT_REPORTED]
    assert values(report, "power_watts") == [231.5, 70.2]


@pytest.mark.parametrize(("version", "problems"), [("25.2.0", 1), ("x.x.x", 1), ("23.0.rc1", 1), ("22.0.3.1", 0)])
def test_a_table_of_cards_with_hbm_is_whole_only_above_the_list_of_processes(version: str, problems: int) -> None:
    text = DIES.replace("25.2.0", version)
    cut = text.index("+---------------------------+---------------+-", text.index("65536"))
    assert len(report_on(text[:cut]).problems) == problems
    assert "cut off" in report_on(text_of("table-cut-between-dies")).problems[0].text


def test_a_chip_whose_second_line_is_lost_is_told() -> None:
    rows = text_of("table-310-chips").split("\n")
    lost = next(at for at, row in enumerate(rows) if "0000:3B" in row)
    report = report_on("\n".join(rows[:lost] + rows[lost + 1 :]))
    assert "no heading" in report.problems[0].text or "line" in report.problems[0].text


@pytest.mark.parametrize(("status", "outcome"), [(0, "ok"), (None, "ok"), (1, "failed"), (-9, "failed")])
def test_a_table_that_may_go_on_is_a_failure_when_the_tool_failed(status: int | None, outcome: str) -> None:
    assert report_on(SPARSE[: SPARSE.index("| NPU     Chip")], status).outcome == outcome


def test_a_whole_table_of_a_failed_tool_is_read_with_a_problem() -> None:
    report = report_on(BUSY, 3)
    assert (report.outcome, len(report.devices)) == ("ok", 2)
    assert [problem.where for problem in report.problems] == ["exit status"]


def test_of_two_runs_in_one_text_the_last_is_read() -> None:
    report = report_on(BUSY + BUSY.replace("| 97  ", "| 12  "))
    assert values(report, "utilization_ratio") == [0.12, 0.0]
    assert [problem.text for problem in report.problems] == ["2 runs of the tool in one text; the last one is read"]


def test_a_chip_that_is_listed_twice_counts_once() -> None:
    card = "".join(SPARSE.splitlines(keepends=True)[7:10])
    report = report_on(SPARSE.replace(card, card + card.replace("91.4", "12.0"), 1))
    assert (indices(report), values(report, "power_watts")) == ([5, 12], [91.4, 88.0])
    assert any("second time" in problem.text for problem in report.problems)


def test_processes_are_counted_where_their_card_is_closed() -> None:
    row = "| 0       0                 | 40212 "
    assert values(report_on(BUSY), "processes") == [2.0, 0.0]
    assert values(report_on(BUSY[: BUSY.index(row)]), "processes") == [Absent.NOT_REPORTED, Absent.NOT_REPORTED]


def test_a_foreign_line_in_the_process_table_hides_the_counts_but_not_the_word_that_there_are_none() -> None:
    report = report_on(BUSY.replace("| 0       0                 | 40212 ", "| query failed              | 40212 "))
    assert values(report, "processes") == [Absent.NOT_UNDERSTOOD, 0.0]


def test_a_power_column_in_another_unit_is_read_by_it() -> None:
    assert values(report_on(SPARSE.replace("Power(W) ", "Power(mW)")), "power_watts") == pytest.approx([0.0914, 0.088])


def all_values(report: Report) -> dict[tuple[int | None, str, str], Value]:
    return {(report.devices[item.device or 0].index, item.metric, item.label): item.value for item in report.readings}


@pytest.mark.parametrize("at", [3, 4, 6, 7, 15, 16])
def test_a_line_that_is_cut_gives_no_other_number(at: int) -> None:
    whole, lines = all_values(report_on(BUSY)), BUSY.split("\n")
    for end in (3, 20, 45, 60, 66, 75, 80, 88):
        found = report_on("\n".join([*lines[:at], lines[at][:end], *lines[at + 1 :]]))
        wrong = {
            key: value
            for key, value in all_values(found).items()
            if not isinstance(value, Absent) and whole[key] != value
        }
        assert (wrong, bool(found.problems)) == ({}, True), end


@pytest.mark.parametrize("cell", ["NA", "17", "-"])
def test_a_process_may_have_no_id_in_a_container(cell: str) -> None:
    added = {"Process memory(MB)": " Process id in container |", "| 40211 ": f" {cell} |", "| 40212 ": f" {cell} |"}
    lines = [line + next((more for word, more in added.items() if word in line), "") for line in BUSY.split("\n")]
    report = report_on("\n".join(lines))
    assert (values(report, "processes"), report.problems) == ([2.0, 0.0], ())


def test_commands_of_other_tools_before_the_table_do_not_hide_it() -> None:
    text = "root@node:~# npu-smi info\ncat /etc/hosts\n$ cat saved.out\n" + SPARSE
    assert report_on(text).readings == report_on(SPARSE).readings


@pytest.mark.parametrize(
    ("case", "space"),
    [("table-910a-busy", "ascend-physical"), ("table-a3-dies", "ascend-physical"), ("table-310-chips", "")],
)
def test_indices_are_physical_ids_where_a_chip_has_one_of_its_own(case: str, space: str) -> None:
    assert report_on(text_of(case)).index_space == space


def test_more_chips_than_any_node_has_are_not_looked_at() -> None:
    lines = SPARSE.splitlines(keepends=True)
    card = "".join(lines[7:10])
    text = "".join(lines[:7]) + "".join(card.replace("| 5 ", f"| {number} ") for number in range(1025))
    report = report_on(text)
    assert (report.outcome, report.reason) == ("failed", "not_understood")


def test_more_lines_than_any_node_has_are_not_looked_at() -> None:
    assert report_on(BUSY + "\n" * 20_000).outcome == "failed"
