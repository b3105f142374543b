"""An output is read the same however it was saved: through launchers and terminals, copied, with blanks lost."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kits.captures import report_on, text_of
from telemetry_parsers.model import Absent, Report

TABLES = {
    "cnmon": ("table-5.10-busy",),
    "mx-smi": ("table-2.2.9-busy", "table-ht-2.3.1", "table-2.1.6", "table-2.2.12-slices"),
    "ixsmi": ("table-two-dies-busy",),
    "efsmi": ("table-1.7",),
    "xpu-smi-kunlun": ("table",),
    "xpu-smi": ("table-2.0", "table-2.0-wrapped"),
    "mthreads-gmi": ("table-old-busy", "table-new-busy"),
    "npu-smi": ("table-910a-busy",),
}
OTHERS = {
    "ixsmi": ("markup",),
    "xpu-smi-kunlun": ("markup",),
    "cnmon": ("info",),
    "mthreads-gmi": ("query-two-cards", "query-json", "names"),
    "amd-smi": ("metric-text", "static-text-mi300a", "metric-json-7", "monitor-6.1", "list-text", "metric-csv"),
}


def numbers(report: Report) -> dict[tuple[int | None, str, str], float]:
    return {
        (report.devices[item.device].index, item.metric, item.label): item.value
        for item in report.readings
        if item.device is not None and not isinstance(item.value, Absent)
    }


def each_line(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form.format(line).rstrip(" ") + "\n" for line in text.splitlines())


# What changes nothing at all.
EQUAL: dict[str, Callable[[str], str]] = {
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: "\ufeff" + text,
    "blanks of web pages": lambda text: text.replace(" ", "\u00a0"),
    "tabs": lambda text: text.replace("    ", "\t"),
    "blanks collapsed": lambda text: "".join(" ".join(line.split()) + "\n" for line in text.splitlines()),
    "indented": each_line("  {}"),
    "colours": each_line("\x1b[1m{}\x1b[0m"),
    "pdsh": each_line("node7: {}"),
    "srun": each_line("3: {}"),
    "a quotation": each_line("> {}"),
    "a comment": each_line("# {}"),
}
# What may be a problem of its own, and changes no reading.
BESIDE: dict[str, Callable[[str], str]] = {
    "a command": lambda text: f"root@node7:~# sudo /usr/bin/smi -q --json\n{text}",
    "a warning": lambda text: f"Warning: the clock of this host was changed\n{text}",
}
OF_TABLES: dict[str, Callable[[str], str]] = {
    "a prompt": lambda text: f"root@node7:~# {text}",
    "mpirun": each_line("[1,0]<stdout>:{}"),
    "no last end": lambda text: text.rstrip("\n"),
    "blank lines": lambda text: text.replace("\n", "\n\n"),
}


@pytest.mark.parametrize("source", sorted({*TABLES, *OTHERS}))
def test_an_output_is_read_the_same_however_it_was_saved(source: str) -> None:
    for case in (*TABLES.get(source, ()), *OTHERS.get(source, ())):
        text = text_of(source, case)
        whole = report_on(source, text)
        for name, change in EQUAL.items():
            assert report_on(source, change(text)) == whole, f"{case}: {name}"
        of_case = BESIDE | (OF_TABLES if case.startswith("table") else {})
        for name, change in of_case.items():
            found = report_on(source, change(text))
            assert (found.devices, numbers(found)) == (whole.devices, numbers(whole)), f"{case}: {name}"
            assert found.processes == whole.processes, f"{case}: {name}"


@pytest.mark.parametrize("source", sorted(TABLES))
def test_of_several_runs_in_one_text_the_last_is_read(source: str) -> None:
    for case in TABLES[source]:
        text = text_of(source, case)
        found = report_on(source, text.replace("0000:", "0001:") + text)
        assert found.devices == report_on(source, text).devices
        assert "2 runs" in found.problems[0].text


def test_a_warning_anywhere_in_an_output_of_amd_smi_is_a_problem_and_costs_nothing() -> None:
    for case in ("metric-text", "static-text-mi300a", "metric-text-ecc-blocks", "metric-json-7"):
        lines = text_of("amd-smi", case).splitlines(keepends=True)
        whole = report_on("amd-smi", "".join(lines))
        for place in range(len(lines) % 5, len(lines), 5):
            report = report_on("amd-smi", "".join([*lines[:place], "WARNING: the moon is full\n", *lines[place:]]))
            told = [problem for problem in report.problems if "moon" in problem.text or "list without" in problem.text]
            assert told, (case, place)
            assert numbers(report) == numbers(whole) or "list" in told[0].text, (case, place)


@pytest.mark.parametrize("source", ["ixsmi", "xpu-smi-kunlun"])
def test_elements_need_no_lines_of_their_own(source: str) -> None:
    text = text_of(source, "markup")
    found = report_on(source, "".join(line.strip() for line in text.splitlines()) + "\n")
    assert numbers(found) == numbers(report_on(source, text))


def test_the_envelope_of_amd_smi_7_and_the_list_of_6_are_read_the_same() -> None:
    document = json.loads(text_of("amd-smi", "metric-json-7"))
    bare = report_on("amd-smi", json.dumps(document["gpu_data"]))
    assert bare == report_on("amd-smi", json.dumps(document)) == report_on("amd-smi", json.dumps(document, indent=8))


def test_text_and_json_of_the_same_answer_of_mthreads_gmi_agree() -> None:
    of_json = text_of("mthreads-gmi", "query-json")
    document = json.loads(of_json)
    text = f"Driver Version : {document['Driver Version']}\nAttached GPUs : 2\n"
    for card in document["GPU"]:
        address = card.get("PCI", {}).get("Bus ID", "00000000:00:00.0")
        text += f"GPU{card.pop('Index')} {address}\n" + as_text(card)
    found, expected = report_on("mthreads-gmi", text), report_on("mthreads-gmi", of_json)
    assert numbers(found) == numbers(expected)
    assert [device.uuid for device in found.devices] == [device.uuid for device in expected.devices]


def as_text(values: dict[str, object], depth: int = 1) -> str:
    keys = [(key, value) for key, value in values.items() if not isinstance(value, dict)]
    sections = [(key, value) for key, value in values.items() if isinstance(value, dict)]
    indent = "    " * depth
    text = "".join(f"{indent}{key:<{50 - len(indent)}}:  {value}\n" for key, value in keys)
    return text + "".join(f"{indent}{key}\n{as_text(value, depth + 1)}" for key, value in sections)


def test_a_card_that_mthreads_gmi_lists_twice_is_one_card() -> None:
    text = text_of("mthreads-gmi", "query-two-cards")
    report = report_on("mthreads-gmi", text + text[text.index("GPU0") :])
    assert [device.index for device in report.devices] == [0, 1]
    assert len([problem for problem in report.problems if "second time" in problem.text]) == 2


def test_a_list_of_nvidia_smi_is_none_of_mthreads_gmi() -> None:
    text = "==============NVSMI LOG==============\n" + text_of("mthreads-gmi", "query-two-cards")
    for ours, theirs in (("GPU0 ", "GPU "), ("GPU1 ", "GPU "), ("MTBios", "VBIOS"), ("MPC Capable", "MIG")):
        text = text.replace(ours, theirs)
    assert report_on("mthreads-gmi", text).outcome == "not_mine"


def test_a_line_of_npu_smi_that_is_cut_gives_no_other_number() -> None:
    text = text_of("npu-smi", "table-910a-busy")
    whole, lines = numbers(report_on("npu-smi", text)).items(), text.split("\n")
    for at in (3, 4, 6, 7, 15, 16):
        for end in (3, 20, 45, 60, 66, 75, 80, 88):
            found = report_on("npu-smi", "\n".join([*lines[:at], lines[at][:end], *lines[at + 1 :]]))
            assert numbers(found).items() <= whole, (at, end)
            assert found.problems, (at, end)
