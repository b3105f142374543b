"""mthreads-gmi beyond its golden files: fragments, several runs, several outputs, odd cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kits.captures import own_case, parse_file, text_capture
from telemetry_parsers.model import Absent, Capture, Failure, Output, Report, Value
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.parser import PARSER


def text_of(case: str) -> str:
    return parse_file(own_case("mthreads-gmi", case).path.read_text()).text


def report_on(text: str, status: int | None = None) -> Report:
    return PARSER.parse(text_capture(PARSER, Output(text=text, status=status)))


def values(report: Report, metric: str, label: str = "") -> list[Value]:
    return [item.value for item in report.readings if (item.metric, item.label) == (metric, label)]


def value(report: Report, metric: str, label: str = "") -> Value:
    (found,) = values(report, metric, label)
    return found


OLD = text_of("table-old-idle")
BUSY = text_of("table-new-busy")


@pytest.mark.parametrize(
    ("end", "used", "total"),
    [
        ("|0%    3MiB(16384MiB)", 3 * 2**20, 16384 * 2**20),
        ("|0%    3MiB(16384MiB", 3 * 2**20, Absent.NOT_REPORTED),
        ("|0%    3MiB(163", 3 * 2**20, Absent.NOT_REPORTED),
        ("|0%    3MiB(", 3 * 2**20, Absent.NOT_REPORTED),
        ("|0%    3MiB", Absent.NOT_REPORTED, Absent.NOT_REPORTED),
        ("|0%    3", Absent.NOT_REPORTED, Absent.NOT_REPORTED),
    ],
)
def test_what_the_text_ends_inside_is_not_read(end: str, used: Value, total: Value) -> None:
    report = report_on(OLD[: OLD.index(end) + len(end)])
    assert value(report, "utilization_ratio") == 0.0
    assert value(report, "memory_used_bytes") == used
    assert value(report, "memory_total_bytes") == total


def test_a_percentage_at_the_very_end_may_be_a_fragment() -> None:
    text = OLD.replace("|0%  ", "|100%")
    assert value(report_on(text[: text.index("|100%") + 5]), "utilization_ratio") is Absent.NOT_REPORTED
    assert value(report_on(text[: text.index("|100%") + 6]), "utilization_ratio") == 1.0


def test_an_index_or_a_name_at_the_very_end_may_be_a_fragment() -> None:
    text = OLD.replace("0    MTT S80        |", "12   MTT S80        |")
    row = text.index("12   MTT")
    assert report_on(text[: row + 1]).devices == ()
    assert report_on(text[: row + 12]).devices == ()
    named = report_on(text[: text.index("|00000000:03") + 5]).devices
    assert [(device.index, device.model, device.bus_id) for device in named] == [(12, "MTT S80", None)]


@pytest.mark.parametrize(
    ("end", "facts"),
    [
        ("mthreads-gmi:1.1", ()),
        ("mthreads-gmi:1.14.0", ()),
        ("mthreads-gmi:1.14.0 ", (("tool_version", "1.14.0"),)),
        ("Driver Version:2.7.1\n", (("tool_version", "1.14.0"),)),
    ],
)
def test_an_output_cut_before_its_table_is_a_failure_and_gives_whole_versions_only(
    end: str, facts: tuple[tuple[str, str], ...]
) -> None:
    report = report_on(OLD[: OLD.index(end) + len(end)])
    assert (report.outcome, report.reason, report.facts) == ("failed", "not_understood", facts)
    assert "cut off" in report.problems[0].text


def test_the_tools_name_before_an_error_is_no_banner() -> None:
    report = report_on("mthreads-gmi: error while loading shared libraries: libdrm.so.2\n", 127)
    assert (report.outcome, report.reason) == ("failed", "library_mismatch")


def test_a_process_table_ends_the_device_table_where_no_rule_does() -> None:
    rows = [line for line in OLD.splitlines(keepends=True) if not line.startswith("-----")]
    report = report_on("".join(rows))
    assert (report.outcome, report.problems) == ("ok", ())
    assert values(report, "processes") == [0.0]


@pytest.mark.long  # of every source, the contract's tests cut at 128 places
def test_no_end_of_the_text_gives_a_number_that_the_whole_does_not() -> None:
    whole = {(item.device, item.metric, item.value) for item in report_on(BUSY).readings}
    for cut in range(len(BUSY)):
        found = {(item.device, item.metric, item.value) for item in report_on(BUSY[:cut]).readings}
        assert not {item for item in found - whole if not isinstance(item[2], Absent)}, cut


def test_of_two_runs_in_one_text_the_last_is_read() -> None:
    later = OLD.replace("44C", "45C")
    report = report_on(OLD + later)
    assert value(report, "temperature_celsius", "core") == 45.0
    assert [problem.text for problem in report.problems] == ["2 runs of the tool in one text; the last one is read"]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("On-die, EDC", 1.0),
        ("Enabled", 1.0),
        ("Off", 0.0),
        ("Disabled", 0.0),
        ("N/A", Absent.NOT_REPORTED),
        ("", Absent.NOT_REPORTED),
        ("Perhaps", Absent.NOT_UNDERSTOOD),
    ],
)
def test_error_correction_is_read_by_its_meaning(printed: str, expected: Value) -> None:
    report = report_on(OLD.replace("      N/A", f"      {printed}"))
    assert value(report, "ecc_enabled") == expected
    assert bool(report.problems) == (expected is Absent.NOT_UNDERSTOOD)


@pytest.mark.parametrize(
    ("printed", "metric", "label", "expected"),
    [
        ("|101%  3MiB(16384MiB)", "utilization_ratio", "", Absent.IMPLAUSIBLE),
        ("|-1%   3MiB(16384MiB)", "utilization_ratio", "", Absent.IMPLAUSIBLE),
        ("|nan%  3MiB(16384MiB)", "utilization_ratio", "", Absent.NOT_UNDERSTOOD),
        ("|5     3MiB(16384MiB)", "utilization_ratio", "", Absent.NOT_UNDERSTOOD),
        ("|0%    3(16384MiB)", "memory_used_bytes", "", Absent.NOT_UNDERSTOOD),
        ("|0%    3GB(16TB)", "memory_used_bytes", "", 3.0 * 2**30),
        ("|0%    3MiB(0MiB)", "memory_total_bytes", "", Absent.IMPLAUSIBLE),
        ("|0%    18446744073709551615B(16384MiB)", "memory_used_bytes", "", Absent.IMPLAUSIBLE),
        ("|0%    N/A(16384MiB)", "memory_used_bytes", "", Absent.NOT_REPORTED),
        ("|0%    N/A", "memory_total_bytes", "", Absent.NOT_REPORTED),
    ],
)
def test_cells_that_are_no_such_number_are_absent(printed: str, metric: str, label: str, expected: Value) -> None:
    report = report_on(OLD.replace("|0%    3MiB(16384MiB)", printed))
    assert value(report, metric, label) == expected
    assert bool(report.problems) == (expected in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE))


def test_a_bus_address_that_is_none_is_a_problem_and_no_address() -> None:
    report = report_on(OLD.replace("00000000:03:00.0", "slot 3          "))
    assert report.devices[0].bus_id is None
    assert "no bus address" in report.problems[0].text


def test_processes_of_an_unlisted_card_are_a_problem_and_counted_nowhere() -> None:
    report = report_on(BUSY.replace("3    91003", "9    91003"))
    assert values(report, "processes") == [1.0, 1.0, 0.0, 1.0]
    assert [problem.text for problem in report.problems] == ["processes of card 9, which is not listed"]


def test_a_process_row_without_memory_counts() -> None:
    report = report_on(BUSY.replace("938MiB    ", "N/A       "))
    assert values(report, "processes")[3] == 2.0
    assert [process.memory_used_bytes for process in report.processes][-1] is None


def test_a_process_row_with_tabs_for_blanks_reads_the_same() -> None:
    rows = BUSY[BUSY.index("Processes:") :]
    tabbed = "\n".join("\t".join(line.split(maxsplit=2)) for line in rows.splitlines())
    assert report_on(BUSY.replace(rows, tabbed.replace("    ", "\t") + "\n")) == report_on(BUSY)


def test_other_columns_in_the_process_table_are_named_and_nothing_is_counted() -> None:
    report = report_on(BUSY.replace("ID   PID     ", "ID   Type   PID"))
    assert report.unknown_fields == ("type",)
    assert set(values(report, "processes")) == {Absent.NOT_UNDERSTOOD}
    assert report.processes == ()


def test_lines_after_the_tables_are_problems_but_an_echoed_command_is_none() -> None:
    report = report_on("root@node:~# /usr/bin/mthreads-gmi -cf\n" + OLD + "core dumped at 99%\n")
    assert [problem.text for problem in report.problems] == ["not understood: core dumped at 99%"]
    assert value(report, "utilization_ratio") == 0.0


def test_another_tools_table_below_ours_adds_no_device() -> None:
    foreign = """\
+-----------------------------------------------------------------------------+
|   1  NVIDIA A40                On | 00000000:4F:00.0 Off | 0 |
+-----------------------------------------------------------------------------+
"""
    report = report_on(text_of("table-cut-after-card") + foreign)
    assert [device.index for device in report.devices] == [0, 1]
    assert {device.model for device in report.devices} == {"MTT S5000"}


def test_a_thousand_cards_are_none_of_this_tools() -> None:
    head, card = OLD[: OLD.index("0    MTT")], "{}    MTT S80 |00000000:03:00.0 |0% 1MiB(2MiB)\n"
    report = report_on(head + "".join(card.format(number) for number in range(1025)))
    assert (report.outcome, report.reason, report.devices) == ("failed", "not_understood", ())


def test_more_lines_than_any_node_has_are_not_looked_at() -> None:
    report = report_on(OLD + "\n" * 20_000)
    assert (report.outcome, report.reason) == ("failed", "not_understood")


def test_several_outputs_are_one_node() -> None:
    poll = PARSER.polls[0]
    outputs = (
        Output(text=text_of("version")),
        Output(text=text_of("table-cf-mpc-parent")),
        Output(text=text_of("table-processes-only").replace("5    30021", "1    30021")),
    )
    report = PARSER.parse(Capture(PARSER.name, poll.name, poll.request, outputs))
    assert [(device.index, device.bus_id) for device in report.devices] == [(0, "0000:5d:00.0"), (1, "0000:5f:00.0")]
    assert values(report, "processes") == [Absent.NOT_REPORTED, 1.0]
    assert [(process.device, process.pid) for process in report.processes] == [(1, 30021)]


def test_a_readers_failure_is_no_text_to_parse() -> None:
    poll = PARSER.polls[0]
    failure = Failure("failed", "too_much_output", "more than 4 MiB")
    report = PARSER.parse(Capture(PARSER.name, poll.name, poll.request, (Output(text=OLD),), failure))
    assert (report.outcome, report.reason, report.readings) == ("failed", "too_much_output", ())


def test_the_query_is_asked_first_and_the_table_for_the_processes() -> None:
    readings, processes = PARSER.polls
    assert readings.request.alternatives == (
        ("mthreads-gmi", "-q", "--json"),
        ("mthreads-gmi", "-q"),
        ("mthreads-gmi",),
    )
    assert (readings.name, readings.tier, readings.interval, readings.deadline) == ("readings", "fast", 15.0, 10.0)
    assert processes.request.alternatives == (("mthreads-gmi",),)
    assert (processes.tier, processes.interval, processes.lists_devices) == ("slow", 60.0, False)


def test_the_poll_for_processes_tells_nothing_but_them() -> None:
    _, poll = PARSER.polls
    report = PARSER.parse(Capture(PARSER.name, poll.name, poll.request, (Output("mthreads-gmi", text=BUSY, status=0),)))
    assert {item.metric for item in report.readings} == {"processes"}
    assert values(report, "processes") == [1.0, 1.0, 0.0, 2.0]
    assert len(report.processes) == 4
    assert report.facts == (("tool_version", "2.3.3"),)


REFUSALS = {
    "option": ("", "mthreads-gmi: unrecognized option '--json'\nTry 'mthreads-gmi --help'\n", 2),
    "usage": ("Usage: mthreads-gmi [-q] [-i ID]\n  -q  query\n", "", 0),
    "argument": ("Error: Invalid argument: --json\n", "", 1),
    "words": ("what is --json\n", "", 1),
    "silence": ("", "", 0),
    "status": ("", "", 255),
    "broken": ('{"Driver Version": "2.7.0", "Attached GPUs": ', "", 0),
}


@pytest.mark.parametrize("asked", ["mthreads-gmi -q --json", "/usr/bin/mthreads-gmi -q", "mthreads-gmi"])
@pytest.mark.parametrize(("stdout", "stderr", "status"), REFUSALS.values(), ids=REFUSALS)
def test_what_is_no_answer_to_flags_may_be_their_refusal(asked: str, stdout: str, stderr: str, status: int) -> None:
    report = PARSER.parse(text_capture(PARSER, Output(asked, text=stdout, stderr=stderr, status=status)))
    said = any(word in stdout.lower() + stderr for word in ("usage:", "invalid argument", "unrecognized option"))
    assert report.outcome == ("wrong_request" if said or " -q" in asked else "failed")


@pytest.mark.parametrize(
    "case", ["error-driver", "error-mtml", "error-permission", "error-no-device", "table-cf-mpc-parent"]
)
def test_what_is_known_is_no_refusal(case: str) -> None:
    output = parse_file(own_case("mthreads-gmi", case).path.read_text())
    report = PARSER.parse(text_capture(PARSER, replace(output, name="mthreads-gmi -q --json")))
    assert report == PARSER.parse(text_capture(PARSER, output))
    assert report.outcome != "wrong_request"


def test_process_headings_without_end_are_no_process_table() -> None:
    report = report_on("Processes:\n" + "ID   PID\n" * 100)
    assert (report.outcome, report.reason, report.devices) == ("failed", "not_understood", ())


@pytest.mark.parametrize("case", ["table-new-busy", "query-two-cards", "query-json", "names"])
@pytest.mark.parametrize(
    "copied",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: text.replace("\n", "\x1b[0m\n"),
        lambda text: "".join(f"node07: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines()),
    ],
    ids=["byte-order-mark", "blanks-of-web-pages", "colours", "pdsh", "mpirun"],
)
def test_what_copying_and_launchers_add_changes_nothing(case: str, copied: Callable[[str], str]) -> None:
    assert report_on(copied(text_of(case))) == report_on(text_of(case))


NAMES = text_of("names")


@pytest.mark.parametrize(
    "text",
    [
        "GPU 0: NVIDIA A40 (UUID: GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0)\n",
        "GPU 0: Iluvatar MR-V100 (UUID: GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0)\n",
        NAMES[:30],
        NAMES.splitlines()[0],
    ],
)
def test_another_tools_list_of_names_or_a_cut_one_names_no_card(text: str) -> None:
    assert report_on(text).devices == ()


def test_of_a_list_of_names_that_is_cut_off_the_whole_lines_are_read() -> None:
    report = report_on(NAMES[:-3])
    assert [device.index for device in report.devices] == [0]
    assert [problem.where for problem in report.problems] == ["line 2"]
    assert report_on(NAMES[:-3], status=1).outcome == "failed"


def test_what_is_left_of_cards_above_their_processes_is_reported_and_none_is_lost() -> None:
    report = report_on(BUSY[BUSY.index("\n1    MTT") + 1 :])
    assert "not understood: 1 MTT" in report.problems[0].text
    assert report.is_cut


def test_cards_without_headings_above_no_processes_are_no_sign_that_there_are_no_cards() -> None:
    report = report_on(OLD[OLD.index("\n0    MTT") + 1 :])
    assert (report.outcome, report.reason) == ("failed", "not_understood")
