"""A saved output is read like a direct one: with launchers' prefixes, echoed command lines and lost blanks."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kits.captures import Case, of_each_layout, own_cases, registered_parsers, report_on, text_of
from parsers.short_texts import summary
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Absent, Capture, Command, Output, Report
from telemetry_parsers.text.echoes import arguments_of, split_runs, without_commands, without_echoes, without_prefix
from telemetry_parsers.text.lines import lines

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


# Changes that do not affect the report.
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
# Changes that may add a problem, but change no reading.
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
def test_last_of_several_runs_in_a_text_is_read(source: str) -> None:
    for case in TABLES[source]:
        text = text_of(source, case)
        found = report_on(source, text.replace("0000:", "0001:") + text)
        assert found.devices == report_on(source, text).devices
        assert "2 runs" in found.problems[0].text


def test_warning_within_amd_smi_output_is_a_problem_and_loses_no_reading() -> None:
    for case in ("metric-text", "static-text-mi300a", "metric-text-ecc-blocks", "metric-json-7"):
        lines = text_of("amd-smi", case).splitlines(keepends=True)
        whole = report_on("amd-smi", "".join(lines))
        for position in range(len(lines) % 5, len(lines), 5):
            report = report_on(
                "amd-smi", "".join([*lines[:position], "WARNING: the moon is full\n", *lines[position:]])
            )
            warnings = [
                problem for problem in report.problems if "moon" in problem.text or "list without" in problem.text
            ]
            assert warnings, (case, position)
            assert numbers(report) == numbers(whole) or "list" in warnings[0].text, (case, position)


@pytest.mark.parametrize("source", ["ixsmi", "xpu-smi-kunlun"])
def test_elements_need_no_lines_of_their_own(source: str) -> None:
    text = text_of(source, "markup")
    found = report_on(source, "".join(line.strip() for line in text.splitlines()) + "\n")
    assert numbers(found) == numbers(report_on(source, text))


def test_a_card_that_mthreads_gmi_lists_twice_is_one_card() -> None:
    text = text_of("mthreads-gmi", "query-two-cards")
    report = report_on("mthreads-gmi", text + text[text.index("GPU0") :])
    assert [device.index for device in report.devices] == [0, 1]
    assert len([problem for problem in report.problems if "second time" in problem.text]) == 2


def test_common_prefix_of_all_lines_is_removed() -> None:
    for text, bare in [
        ("node7 out: a: 1\nnode7 out:   b: 2\nnode7 out:\nnode7 out: c\n", ["a: 1", "  b: 2", "", "c"]),
        ("3: [\n3:  {\n3: }\n", ["[", " {", "}"]),
        ("gpu04 | GPU: 0\ngpu04 |     POWER:\ngpu04 |     CLOCK:\n", ["GPU: 0", "    POWER:", "    CLOCK:"]),
        ("[1,0]<stdout>:a: 1\n[1,0]<stdout>:\n[1,0]<stdout>: b\n", ["a: 1", "", " b"]),
        (
            "srun: job 17 queued\nsrun: job 17 has got it\n0: a\n0: b\n",
            ["srun: job 17 queued", "srun: job 17 has got it", "a", "b"],
        ),
        ("> a: 1\n>   b: 2\n>\n> c\n", ["a: 1", "  b: 2", "", "c"]),
        ("# a: 1\n# b: 2\n", ["a: 1", "b: 2"]),
        ("1: a\n2: b\n3: c\n", ["1: a", "2: b", "3: c"]),
        ("node7 out: a\n", ["node7 out: a"]),
        ("  x: 1\n  x: 2\n  x: 3\n", ["  x: 1", "  x: 2", "  x: 3"]),
        ("no\nprefix\nhere\n", ["no", "prefix", "here"]),
        ("", []),
    ]:
        assert [line.text for line in without_prefix(lines(text))] == bare


def test_numbers_and_the_missing_end_of_lines_are_kept() -> None:
    found = without_prefix(lines("0: a\n0: b\n0: c"))
    assert [(line.number, line.text, line.ended) for line in found] == [(1, "a", True), (2, "b", True), (3, "c", False)]


# A launcher puts one prefix before each line, not two.
LAYOUTS = [case for case in of_each_layout(own_cases()) if "prefix" not in case.id]


def read(report: Report) -> object:
    return [(reading.device, reading.metric, reading.label, reading.value) for reading in report.readings]


def assert_prefix_changes_no_reading(prefix: str, parser: Parser, case: Case) -> None:
    for capture in case.captures(parser):
        report = parser.parse(capture)
        if isinstance(capture.request, Command) and report.readings and "\n" in capture.outputs[0].text.strip():
            texts = ["".join(prefix + line for line in output.text.splitlines(True)) for output in capture.outputs]
            outputs = tuple(replace(output, text=text) for output, text in zip(capture.outputs, texts, strict=True))
            assert read(parser.parse(replace(capture, outputs=outputs))) == read(report), case.id


PREFIXES = [
    "nid005113 out: ",
    "[1,0]<stdout>:",
    "node7: ",
    "| ",
    "2025-01-06 ",
    "[node7] ",
    "2025-01-06T08:30:00.12Z stdout F ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefix_changes_no_reading_of_any_layout(prefix: str) -> None:
    parsers = registered_parsers()
    for case in LAYOUTS:
        if case.tool in parsers:
            assert_prefix_changes_no_reading(prefix, parsers[case.tool], case)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| 1    Iluvatar BI-V150         | 00000000:16:00.0     | 7", "| 1    Iluvatar BI-V150         | x y z"),
        ("| N/A  39C   P8    104W / 350W  | 64MiB / 32768MiB     | 0%        Exclusive P.|", "| ?? garbled"),
        ("| N/A  39C   P8    104W / 350W  | 64MiB / 32768MiB     | 0%        Exclusive P.|\n", ""),
        ("| 64MiB / 32768MiB     | 0%        Exclusive P.|", ""),
    ],
)
def test_prefix_changes_no_report_of_a_damaged_card(prefix: str, old: str, new: str) -> None:
    text = text_of("ixsmi", "table-two-dies-busy")
    assert text.count(old) == 1
    damaged = text.replace(old, new)
    report = report_on("ixsmi", damaged)
    assert [device.index for device in report.devices] == [0, 1]
    assert summary(report_on("ixsmi", "".join(prefix + line for line in damaged.splitlines(True)))) == summary(report)


def test_card_name_below_a_rule_is_not_a_prefix() -> None:
    """A section of rocm-smi that was cut after two equal lines."""
    power = "Average Graphics Package Power (W)"
    rows = [f"GPU[{card}]\t\t: {power}: {watts}\n" for card, watts in ((2, 3.0), (1, 4.0), (0, 5.0), (0, 5.0))]
    text = f"{'=' * 30} Power Consumption {'=' * 30}\n{''.join(rows)}"
    parser = registered_parsers()["rocm-smi"]
    poll = parser.polls[0]
    report = parser.parse(Capture("rocm-smi", poll.name, poll.request, (Output(text=text),)))
    assert sorted(device.index for device in report.devices) == [0, 1, 2]


def test_command_lines() -> None:
    for text, expected in [
        ("tool -i 3 -g", ("-i", "3", "-g")),
        ("/opt/vendor/tool info -m", ("info", "-m")),
        ("> tool info", ("info",)),
        ("root@node:~# tool info", ("info",)),
        ("[root@node ~]$ tool info", ("info",)),
        ("(env) [user work]$tool info", ("info",)),
        ("$ docker exec -it job tool info -m", ("info", "-m")),
        ("[root@node ~]# ssh other /opt/tool -g", ("-g",)),
        ("root@node:~# for i in 0 1; do tool -i $i; done", ("-i", "$i;", "done")),
        (
            "Every 2.0s: tool info     node: Mon Mar  3 10:00:00 2025",
            ("info",),
        ),
        ("sudo tool info", ("info",)),
        ("timeout 5 tool info", ("info",)),
        ("tool", ()),
        ("tool went away", None),
        ("> tool  version: 2.2", None),
        ("$ tool info 2>&1 | head", ("info", "2>&1", "|", "head")),
        ("bash-5.1# tool info", ("info",)),
        ("node% tool info", ("info",)),
        ("+ tool info", ("info",)),
        ("Usage: tool info <watch>", None),
        ("| tool 23.0.1   Version: 23.0.1 |", None),
        ("tool: error while loading", None),
        ("bash: tool: command not found", None),
        ("the tool info", None),
        ("tool 99", None),
        ("", None),
    ]:
        assert arguments_of(text, "tool") == expected


def test_a_text_is_split_at_its_commands() -> None:
    text = "before\ntool -i 0 -g\na\n\nb\ntool -i 1 -g\n> cat file\nforeign\n# lspci\nforeign\ntool -i 2 -g\nc\n"
    found = split_runs(lines(text), "tool")
    texts = [(run.value_of("-i"), [line.text for line in run.lines if line.text]) for run in found]
    assert texts == [("", ["before"]), ("0", ["a", "b"]), ("1", []), ("2", ["c"])]


@pytest.mark.parametrize(
    "command", ["# lspci -n", "user@node:~$ lspci", "[root@node ~]# lspci", "(env) [user work]$ lspci"]
)
def test_output_of_other_tools_is_ignored(command: str) -> None:
    found = split_runs(lines(f"tool info\na\n{command}\nforeign\n"), "tool")
    assert [line.text for run in found for line in run.lines] == ["a"]


@pytest.mark.parametrize("text", ["a [b] c", "| x [y]# |", "50%", "#", "price in $", "key : value $"])
def test_text_that_resembles_a_prompt_is_output(text: str) -> None:
    (run,) = split_runs(lines(f"{text}\n"), "tool")
    assert [line.text for line in run.lines] == [text]


def test_commands_can_be_left_out() -> None:
    found = without_commands(lines("user@node:~# tool info\ncat file\n# a note\na\n\nb\n"), "tool")
    assert [line.text for line in found] == ["a", "", "b"]


def test_a_flag_at_the_end_has_no_value() -> None:
    (run,) = split_runs(lines("tool -g -i\n"), "tool")
    assert run.value_of("-i") == ""


def test_removed_echoes_leave_the_line_numbers() -> None:
    text = "root@node:~# tool info\na\n$ tool -x\nConnection to node closed.\nb\n"
    assert without_echoes(text, ("tool",)) == "\na\n\n\nb\n"


@pytest.mark.parametrize("text", ["a\n# b\n", "# tool\n", "50%\n", "$ other -x\n", "tool went away\n", "a: [b]# c\n"])
def test_output_is_left_as_it_is(text: str) -> None:
    assert without_echoes(text, ("smi",)) == text
