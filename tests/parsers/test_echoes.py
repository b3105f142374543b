"""Command lines in saved texts: what is one, what it asked, and where its output ends."""

from __future__ import annotations

import pytest

from telemetry_parsers.text.echoes import arguments_of, runs, without_commands, without_echoes
from telemetry_parsers.text.lines import lines


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
    found = runs(lines(text), "tool")
    told = [(run.value_of("-i"), [line.text for line in run.lines if line.text]) for run in found]
    assert told == [("", ["before"]), ("0", ["a", "b"]), ("1", []), ("2", ["c"])]


@pytest.mark.parametrize(
    "command", ["# lspci -n", "user@node:~$ lspci", "[root@node ~]# lspci", "(env) [user work]$ lspci"]
)
def test_what_other_tools_print_is_left_out(command: str) -> None:
    found = runs(lines(f"tool info\na\n{command}\nforeign\n"), "tool")
    assert [line.text for run in found for line in run.lines] == ["a"]


@pytest.mark.parametrize("prompt", ["user@node:~$", "[root@node ~]#", "(env) [user work]$", "root@node:/home# "])
def test_a_prompt_at_the_end_is_no_output(prompt: str) -> None:
    (run,) = runs(lines(f"a\nb\n{prompt}\n"), "tool")
    assert [line.text for line in run.lines] == ["a", "b"]


@pytest.mark.parametrize("text", ["a [b] c", "| x [y]# |", "50%", "#", "price in $", "key : value $"])
def test_what_only_looks_like_a_prompt_is_output(text: str) -> None:
    (run,) = runs(lines(f"{text}\n"), "tool")
    assert [line.text for line in run.lines] == [text]


def test_commands_can_be_left_out() -> None:
    found = without_commands(lines("user@node:~# tool info\ncat file\n# a note\na\n\nb\n"), "tool")
    assert [line.text for line in found] == ["a", "", "b"]


def test_a_text_without_commands_is_one_run() -> None:
    (run,) = runs(lines("a\nb\n"), "tool")
    assert (run.arguments, len(run.lines)) == ((), 2)


def test_a_flag_at_the_end_has_no_value() -> None:
    (run,) = runs(lines("tool -g -i\n"), "tool")
    assert run.value_of("-i") == ""


def test_what_is_left_without_echoes_keeps_its_lines_numbers() -> None:
    text = "root@node:~# tool info\na\n$ tool -x\nConnection to node closed.\nb\n"
    assert without_echoes(text, ("tool",)) == "\na\n\n\nb\n"


@pytest.mark.parametrize("end", ["root@node:~# ", "$ ", "[root@node ~]# exit\nlogout\n", "\n\n➜  ~ "])
def test_what_ends_in_a_prompt_ends_in_a_whole_line(end: str) -> None:
    assert without_echoes(f"a\nb\n{end}", ("tool",)) == "a\nb\n"


@pytest.mark.parametrize("text", ["a\n# b\n", "# tool\n", "50%\n", "$ other -x\n", "tool went away\n", "a: [b]# c\n"])
def test_output_is_left_as_it_is(text: str) -> None:
    assert without_echoes(text, ("smi",)) == text
