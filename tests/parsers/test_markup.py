"""The XML of `-q -x` and the list of `cnmon info`: as they arrive, cut, and beside the tables of the same tools."""

from __future__ import annotations

import pytest

from kits.parsed.any_source import numbers, report_on, text_of

LOGS = (("ixsmi", "markup"), ("xpu-smi-kunlun", "markup"), ("cnmon", "info"))


@pytest.mark.parametrize(("source", "case"), LOGS)
@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"node7: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"{line.strip()}\n" for line in text.splitlines()),
        lambda text: f"root@node7:~# the tool\n{text}root@node7:~#\n",
        lambda text: text.replace("\n", "\n\n"),
    ],
    ids=["crlf", "launcher", "indentation lost", "prompt", "blank lines"],
)
def test_it_reads_the_same_however_it_was_saved(source: str, case: str, changed) -> None:
    expected, found = report_on(source, text_of(source, case)), report_on(source, changed(text_of(source, case)))
    assert found.devices == expected.devices
    assert numbers(found) == numbers(expected)


@pytest.mark.parametrize("source", ["ixsmi", "xpu-smi-kunlun"])
def test_elements_need_no_lines_of_their_own(source: str) -> None:
    text = text_of(source, "markup")
    found = report_on(source, "".join(line.strip() for line in text.splitlines()) + "\n")
    assert numbers(found) == numbers(report_on(source, text))


@pytest.mark.parametrize("end", ["10", "1068 M", "1068 MiB", "1068 MiB</us"])
def test_a_number_in_which_the_text_ends_is_not_read(end: str) -> None:
    text = text_of("ixsmi", "markup")
    found = report_on("ixsmi", text[: text.index("<used>") + len("<used>")] + end)
    assert numbers(found) == {(2, "memory_total_bytes", ""): 32768.0 * 2**20}
    assert any("ends inside" in problem.text for problem in found.problems)
    assert any("counts 2 cards and lists 1" in problem.text for problem in found.problems)


def test_what_follows_the_end_of_a_section_is_not_taken_for_a_part_of_it() -> None:
    text = text_of("ixsmi", "markup").replace("<compute_mode>", "<total>77 MiB</total>\n<compute_mode>")
    found = report_on("ixsmi", text)
    assert numbers(found) == numbers(report_on("ixsmi", text_of("ixsmi", "markup")))
    assert found.unknown_fields == ("gpu/total",)


def test_processes_are_counted_where_the_log_says_that_there_are_none_and_nowhere_else() -> None:
    found = numbers(report_on("xpu-smi-kunlun", text_of("xpu-smi-kunlun", "markup")))
    assert [key for key in found if key[1] == "processes"] == [(0, "processes", "")]
    assert found[0, "processes", ""] == 0.0


def test_intels_parser_leaves_the_log_of_kunlunxins_tool_alone() -> None:
    assert report_on("xpu-smi", text_of("xpu-smi-kunlun", "markup")).outcome == "not_mine"


def test_a_banner_above_the_list_of_cnmon_does_not_make_it_an_empty_table() -> None:
    text = text_of("cnmon", "info")
    assert numbers(report_on("cnmon", f"CNMON v5.10.31\n{text}")) == numbers(report_on("cnmon", text))


def test_the_list_of_names_of_ixsmi_tells_which_die_has_which_uuid() -> None:
    text = "GPU 0: Iluvatar BI-V150S (UUID: GPU-0000-01)\nGPU 3: Iluvatar BI-V150S (UUID: GPU-0000-02)\n"
    report = report_on("ixsmi", text)
    assert [(device.index, device.model, device.uuid) for device in report.devices] == [
        (0, "Iluvatar BI-V150S", "GPU-0000-01"),
        (3, "Iluvatar BI-V150S", "GPU-0000-02"),
    ]
    assert (report.readings, report.problems) == ((), ())
    assert report_on("ixsmi", text.replace("Iluvatar BI-V150S", "NVIDIA L4")).devices == ()
