"""Tables like nvidia-smi's, as they arrive: through launchers, with blanks lost, several runs in one text, cut, mixed up."""

from __future__ import annotations

import re

import pytest

from kits.captures import own_case, parse_file, text_capture
from kits.parsed.any_source import numbers, report_on, text_of
from telemetry_parsers.model import Absent

TABLES = (
    ("cnmon", "table-5.10-busy"),
    ("mx-smi", "table-2.2.9-busy"),
    ("mx-smi", "table-ht-2.3.1"),
    ("mx-smi", "table-2.1.6"),
    ("mx-smi", "table-2.2.12-slices"),
    ("ixsmi", "table-two-dies-busy"),
    ("efsmi", "table-1.7"),
    ("xpu-smi-kunlun", "table"),
    ("xpu-smi", "table-2.0"),
    ("xpu-smi", "table-2.0-wrapped"),
    ("mthreads-gmi", "table-old-busy"),
    ("mthreads-gmi", "table-new-busy"),
)


@pytest.mark.parametrize(("source", "case"), TABLES)
@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"node7: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"  {line}   \n" for line in text.splitlines()),
        lambda text: f"\x1b[0m{text}\x1b[0m\n",
        lambda text: f"root@node7:~# {text}",
        lambda text: f"Warning: the clock of this host was changed\n{text}",
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.rstrip("\n"),
        lambda text: "\n".join(" ".join(line.split()) for line in text.splitlines()) + "\n",
    ],
    ids=["crlf", "launcher", "indented", "coloured", "prompt", "warning", "blank lines", "no last end", "collapsed"],
)
def test_a_table_reads_the_same_however_it_was_saved(source: str, case: str, changed) -> None:
    text = text_of(source, case)
    expected = report_on(source, text)
    found = report_on(source, changed(text))
    assert found.devices == expected.devices
    assert numbers(found) == numbers(expected)


@pytest.mark.parametrize(("source", "case"), TABLES)
def test_of_several_runs_in_one_text_the_last_is_read(source: str, case: str) -> None:
    text = text_of(source, case)
    found = report_on(source, text.replace("0000:", "0001:") + text)
    assert found.devices == report_on(source, text).devices
    assert "2 runs" in found.problems[0].text


@pytest.mark.parametrize(("source", "case"), TABLES)
def test_a_table_without_the_lines_above_it_is_read_where_its_headings_are_its_own(source: str, case: str) -> None:
    lines = text_of(source, case).splitlines()
    first = next(at for at, line in enumerate(lines) if "Bus-" in line or "BUS-ID" in line or "|PCIe" in line)
    found = report_on(source, "\n".join(lines[first:]) + "\n")
    assert (found.outcome == "ok") == (source != "xpu-smi")


@pytest.mark.parametrize(("source", "case"), [*TABLES, ("amd-smi", "overview")])
def test_a_lost_rule_below_the_headings_costs_no_card(source: str, case: str) -> None:
    text = text_of(source, case)
    lines = text.splitlines(keepends=True)
    headings = ("Bus-", "BUS-ID", "|PCIe", "| BDF")
    first = next(at for at, line in enumerate(lines) if any(heading in line for heading in headings))
    rule = next(at for at in range(first, len(lines)) if lines[at].strip("-=+| \n") == "")
    found = report_on(source, "".join(lines[:rule] + lines[rule + 1 :]))
    assert numbers(found) == numbers(report_on(source, text))


@pytest.mark.parametrize(("source", "case"), [("ixsmi", "table-two-dies-busy"), ("mthreads-gmi", "table-new-busy")])
def test_a_table_without_its_headings_does_not_say_that_there_is_no_card(source: str, case: str) -> None:
    lines = text_of(source, case).splitlines(keepends=True)
    found = report_on(source, "".join(line for line in lines if "Name" not in line))
    assert (found.outcome, found.reason) == ("failed", "not_understood")


@pytest.mark.parametrize(
    ("source", "case", "row", "damaged"),
    [
        ("mthreads-gmi", "table-new-busy", "\n1    MTT", "\nx    MTT"),
        ("amd-smi", "overview", "|   1       2 ", "|   x       2 "),
    ],
)
def test_a_card_whose_row_is_not_understood_is_not_lost(source: str, case: str, row: str, damaged: str) -> None:
    text = text_of(source, case)
    found = report_on(source, text.replace(row, damaged))
    assert 1 not in [device.index for device in found.devices]
    assert found.is_cut
    assert not report_on(source, text).is_cut
    assert report_on(source, text.replace(row, damaged), status=1).devices == found.devices


def test_a_tool_that_died_in_the_middle_of_its_table_has_failed():
    assert report_on("cnmon", text_of("cnmon", "table-cut-in-row"), status=-9).reason == "killed"


@pytest.mark.parametrize(
    ("source", "case", "keep"),
    [
        ("cnmon", "table-5.10-busy", "| 1 "),
        ("mx-smi", "table-2.1.6", "| 1 "),
        ("xpu-smi", "stats-tiles", "| Cache Errors"),
    ],
)
def test_a_text_that_ends_inside_a_rule_is_known_to_lack_something(source: str, case: str, keep: str) -> None:
    text = text_of(source, case)
    rule = text.rindex("\n+", 0, text.index(keep))
    found = report_on(source, text[: rule + 20])
    assert found.outcome == "ok"
    assert any("cut off" in problem.text or "ends inside" in problem.text for problem in found.problems)


def test_the_table_of_mx_smi_must_have_as_many_cards_as_the_tool_counts() -> None:
    text = text_of("mx-smi", "table-2.1.6")
    assert report_on("mx-smi", text).problems == ()
    text = text.replace("Attached GPUs                                     : 2", "Attached GPUs : 3")
    assert "counts 3 cards and lists 2" in report_on("mx-smi", text).problems[0].text


def test_a_lost_line_costs_its_own_readings_and_no_card():
    lines = text_of("cnmon", "table-5.10-busy").splitlines()
    found = report_on("cnmon", "\n".join([*lines[:8], lines[9], lines[10], *lines[11:]]) + "\n")
    assert [device.index for device in found.devices] == [0, 1]
    assert (0, "power_watts", "") not in numbers(found)
    assert numbers(found)[1, "power_watts", ""] == 91.0


@pytest.mark.parametrize(("source", "other"), [("xpu-smi", "xpu-smi-kunlun"), ("xpu-smi-kunlun", "xpu-smi")])
@pytest.mark.parametrize("case", ["table", "table-2.0", "query", "places", "discovery", "dump", "stats", "ps"])
def test_the_two_tools_of_one_name_know_each_other(source: str, other: str, case: str) -> None:
    kunlun = case in ("table", "query", "places")
    if kunlun != (other == "xpu-smi-kunlun"):
        return
    found = report_on(source, text_of(other, case))
    assert (found.outcome, found.devices) == ("not_mine", ())


def test_of_a_dump_the_newest_row_of_each_device_counts():
    head = "Timestamp, DeviceId, GPU Power (W)\n"
    found = report_on("xpu-smi", f"{head}06:00:01.000, 0, 14.5\n06:00:01.000, 1, 15.5\n06:00:02.000, 0, 16.5\n")
    assert numbers(found) == {(0, "power_watts", ""): 16.5, (1, "power_watts", ""): 15.5}


def test_of_a_dump_in_json_the_newest_object_of_each_device_counts() -> None:
    row = '{{"timestamp":"08:16:01.123","device":{},"metrics":{{"power.draw":"{}"}}}}\n'
    text = "".join(row.format(*each) for each in ((0, "14.5"), (1, "15.5"), (0, "16.5")))
    expected = {(0, "power_watts", ""): 16.5, (1, "power_watts", ""): 15.5}
    assert numbers(report_on("xpu-smi", text)) == expected


def test_of_a_monitor_the_newest_row_of_each_card_counts():
    head = "*Dev Pwr\n*Idx W\n"
    banner = "Enflame System Management Interface\n"
    found = report_on("efsmi", f"{banner}{head}0 100\n1 90\n{head}0 120\n1 95\n")
    assert numbers(found) == {(0, "power_watts", ""): 120.0, (1, "power_watts", ""): 95.0}


def test_a_number_below_a_heading_of_another_unit_is_not_read():
    found = report_on("xpu-smi", "Timestamp, DeviceId, GPU Power (kW), GPU Memory Used (%)\n06:00:01.000, 0, 14.5, 3\n")
    assert numbers(found) == {}
    assert found.unknown_fields == ("GPU Power (kW)", "GPU Memory Used (%)")


EFSMI = "Enflame System Management Interface\n"
# What a number may look like that is in the text all the same: the source, a text of a case, what stands there instead, what must be read.
STILL_READ = (
    ("efsmi", "table-1.7", "71℃", "71 ", {(0, "temperature_celsius", "core"): 71.0, (0, "power_watts", ""): 612.0}),
    (
        "cnmon",
        "table-5.10-busy",
        "9216 MiB/ 42396 MiB",
        "9216 MiB/ xxxxx MiB",
        {(0, "memory_used_bytes", ""): 9216.0 * 2**20},
    ),
)


@pytest.mark.parametrize(("source", "case", "old", "new", "expected"), STILL_READ, ids=[row[0] for row in STILL_READ])
def test_what_stands_beside_a_damaged_or_renamed_text_is_read(
    source: str, case: str, old: str, new: str, expected
) -> None:
    text = text_of(source, case)
    assert old in text
    assert expected.items() <= numbers(report_on(source, text.replace(old, new))).items()


def test_the_older_list_of_efsmi_tells_error_correction_with_the_memory() -> None:
    text = f"{EFSMI}DEV ID 0\n\tDevice Mem Info\n\t\tMem Usage : 1129 MiB\n\t\tMem Ecc : enable\n"
    found = report_on("efsmi", text)
    assert numbers(found) == {(0, "memory_used_bytes", ""): 1129.0 * 2**20, (0, "ecc_enabled", ""): 1.0}
    assert found.unknown_fields == ()


@pytest.mark.parametrize(
    "text",
    [
        "Timestamp,DeviceId,utilization.gpu (%),power.draw (W)\n08:16:01.123,0,22.5,140.25\n08:16:02.123,0,23.5,141.25\n",
        "Timestamp    DeviceId  utilization.gpu (%)  power.draw (W)\n08:16:02.123        0                 23.5          141.25\n",
        "Timestamp DeviceId utilization.gpu (%) power.draw (W)\n2026/08/03 08:16:02.123 0 23.5 141.25\n",
        "Timestamp,DeviceId,utilization.gpu,power.draw\n08:16:02.123,0,23.5,141.25\n08:16:03.123,0\n",
    ],
    ids=["csv", "aligned", "aligned with the date", "without units, torn"],
)
def test_a_dump_of_2_0_reads_the_same_however_it_was_printed(text: str) -> None:
    found = report_on("xpu-smi", text)
    assert numbers(found) == {(0, "utilization_ratio", ""): 0.235, (0, "power_watts", ""): 141.25}


def test_a_number_below_a_field_of_another_unit_is_read_in_that_unit_or_not_at_all() -> None:
    text = "index,power.draw (mW),memory.used (GiB),temperature.gpu (K),utilization.gpu\n0,141250,2,330,23.5 W\n"
    found = report_on("xpu-smi", text)
    assert numbers(found) == {(0, "power_watts", ""): 141.25, (0, "memory_used_bytes", ""): 2.0 * 2**30}
    assert len(found.problems) == 2


def test_of_several_engines_of_a_kind_the_busiest_is_told() -> None:
    head = "Timestamp, DeviceId, Compute engine 0 (%), Compute engine 1 (%), Compute engine 2 (%), 3D Engine (%)\n"
    found = report_on("xpu-smi", f"{head}06:00:01.000, 0, N/A, 71.5, 3, N/A\n")
    assert numbers(found) == {(0, "engine_utilization_ratio", "compute"): 0.715}
    assert found.unknown_fields == ()


def test_what_xpu_smi_prints_where_it_does_not_know_is_no_complaint() -> None:
    text = text_of("xpu-smi", "discovery").replace("PCIe Generation: 5 ", "PCIe Generation: -1")
    text = text.replace("PCIe Max Link Width: 16", "PCIe Max Link Width: -1")
    before, found = report_on("xpu-smi", text_of("xpu-smi", "discovery")), report_on("xpu-smi", text)
    assert found.problems == before.problems
    assert not {metric for _, metric, _ in numbers(found)} & {"pcie_link_generation_max", "pcie_link_width_max"}


def test_a_range_without_an_upper_end_gives_no_highest_cap() -> None:
    text = text_of("xpu-smi", "config").replace("Valid Range: 10 to 450", "Valid Range: 1 to 0   ")
    assert "1 to 0" in text
    assert (2, "power_cap_max_watts", "") not in numbers(report_on("xpu-smi", text))


def test_words_below_a_model_are_part_of_it_only_where_the_tool_wraps_models() -> None:
    lost = "| GPU is lost       |                      |                       |"
    lines = text_of("cnmon", "table-5.10-busy").splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("| 0 "))
    found = report_on("cnmon", "\n".join([*lines[: at + 1], lost, *lines[at + 2 :]]) + "\n")
    assert found.devices[0].model == report_on("cnmon", text_of("cnmon", "table-5.10-busy")).devices[0].model
    assert found.problems


def test_an_option_that_mx_smi_does_not_know_is_a_wrong_request() -> None:
    text = "PARSE ERROR: Argument: -q\n             Couldn't find match for argument\n\nBrief USAGE: \n   mx-smi  [-hjLrsvy]\n"
    assert report_on("mx-smi", text, status=1).outcome == "wrong_request"


def test_a_megabyte_of_rows_is_read_in_bounded_steps():
    row = "| 0     /   MLU370-X8    v1.1.6 |         0000:39:00.0 | 0%                N/A |\n"
    text = text_of("cnmon", "table-5.10-busy").replace("|==", row * 12_000 + "|==", 1)
    assert len(report_on("cnmon", text).devices) <= 2


def test_a_value_without_a_key_is_told() -> None:
    from telemetry_parsers.vendors.kunlunxin.xpu_smi import PARSER

    text = parse_file(own_case("xpu-smi-kunlun", "query").path.read_text()).text
    line = next(line for line in text.splitlines() if "Product Name" in line)
    damaged = text.replace(line, f"{line}\n                          : P800 PCIe")
    problems = PARSER.parse(text_capture(PARSER, damaged)).problems
    assert "a value without its key: : P800 PCIe" in {problem.text for problem in problems}


def test_a_power_without_the_cap_behind_it_is_no_cap() -> None:
    """`105W  300W` in one cell: where the second is blank, the word of the column before must not be the first."""
    whole = text_of("efsmi", "table-1.2")
    pair = next(match for match in re.finditer(r"[0-9]+W  [0-9]+W", whole))
    power, _, cap = pair.group().partition("  ")
    found = report_on("efsmi", whole.replace(pair.group(), power + " " * (2 + len(cap)), 1))
    assert numbers(report_on("efsmi", whole))[0, "power_cap_watts", ""] == float(cap.rstrip("W"))
    assert (0, "power_cap_watts", "") not in numbers(found)
    assert found.problems


def test_the_level_3_cache_is_not_the_memory() -> None:
    """Kunlunxin's `12MiB / 96MiB` stands in the line below the memory: no loss of a line makes it that."""
    whole = text_of("xpu-smi-kunlun", "table").splitlines(keepends=True)
    for at in range(len(whole)):
        found = numbers(report_on("xpu-smi-kunlun", "".join(whole[:at] + whole[at + 1 :])))
        assert 96.0 * 2**20 not in found.values(), whole[at]


def test_a_row_of_places_that_lost_one_is_not_read() -> None:
    whole = text_of("xpu-smi-kunlun", "places")
    line = whole.splitlines()[0]
    fields = re.findall(r'"[^"]*"|\S+', line)
    good = numbers(report_on("xpu-smi-kunlun", whole)).items()
    for at in range(len(fields)):
        found = report_on("xpu-smi-kunlun", whole.replace(line, " ".join(fields[:at] + fields[at + 1 :])))
        assert numbers(found).items() <= good, fields[at]


def test_items_behind_a_lost_device_number_are_not_read() -> None:
    """`health -l` of four cards: without the number of the second, its items are not the first one's."""
    whole = text_of("xpu-smi", "health-all")
    line = next(line for line in whole.splitlines() if "Device ID" in line and "| 1 " in line)
    found = report_on("xpu-smi", whole.replace(line + "\n", ""))
    assert {device.index for device in found.devices} == {0, 2, 3}
    assert numbers(found)[0, "health", "ok"] == 1.0
    assert any("of which device" in problem.text for problem in found.problems)


@pytest.mark.parametrize(
    ("source", "case"),
    [("cnmon", "table-4.20-idle"), ("mx-smi", "table-2.1.12-idle"), ("ixsmi", "table-idle-container")],
)
@pytest.mark.parametrize("body", [None, "|     |"])
def test_a_blank_process_table_is_no_count_of_0(source: str, case: str, body: str | None) -> None:
    text = text_of(source, case)
    assert 0.0 in [
        number for (_, metric, _), number in numbers(report_on(source, text)).items() if metric == "processes"
    ]
    lines = [body if re.search("no .*process.* found", line, re.IGNORECASE) else line for line in text.splitlines()]
    found = report_on(source, "".join(f"{line}\n" for line in lines if line is not None))
    assert {item.value for item in found.readings if item.metric == "processes"} == {Absent.NOT_REPORTED}
    assert [problem.text for problem in found.problems][-1:] == [
        "the process table has no row and does not say that there is none"
    ]
