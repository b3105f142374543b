"""What the command reader makes of tools that misbehave, and that it holds nothing of them afterwards."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.command_reader import NO_TARGETS, poll, read, tool
from kits.fake_tools import Answer, ToolFolder
from kits.processes import marked, own_holdings
from kits.waiting import comes_true
from telemetry_daemon.processes.process import Launch, Process, launch
from telemetry_daemon.readers.command import CommandReader
from telemetry_parsers.model import Capture, Command, Failure, Output

TABLE = "GPU  Temp   Power\n0    41.0C  80.0W\n"
MakeReader = Callable[..., CommandReader]
Fault = Callable[[ToolFolder], object]

# Faults that end at the deadline, with what is kept of them.
ENDLESS: dict[str, Fault] = {
    "hangs": lambda tools: tools.hangs("smi", TABLE),
    "sleeps": lambda tools: tools.sleeps("smi", TABLE),
    "closes its output and lives on": lambda tools: tools.closes_and_lives("smi", TABLE),
    "prints too slowly": lambda tools: tools.prints_slowly("smi", [TABLE, *["more\n"] * 100], 1),
    "leaves the work to a child": lambda tools: tools.script("smi", f"sh -c '{tools.hangs('child', TABLE)}'\nexit 0"),
}
# Faults that end at once.
SHORT: dict[str, Fault] = {
    "prints garbage": lambda tools: tools.prints("smi", bytes(range(256)) * 8),
    "prints nothing": lambda tools: tools.prints("smi", ""),
    "good table, bad status": lambda tools: tools.prints("smi", TABLE, status=1),
    "error text, good status": lambda tools: tools.prints("smi", "ERROR: no driver\n"),
    "good and bad by turns": lambda tools: tools.alternates("smi", [Answer(TABLE), Answer("", "no driver\n", 9)]),
    "crashes": lambda tools: tools.crashes("smi", TABLE),
    "prints for ever": lambda tools: tools.prints_for_ever("smi"),
    "complains for ever": lambda tools: tools.complains_for_ever("smi"),
    "not to be found": lambda tools: (tools.folder / "smi").unlink(missing_ok=True),
    "not a program": lambda tools: tools.prints("smi", TABLE).write_text("\x7fELF\n"),
}
LEAVING: dict[str, Fault] = {
    "leaves a child with its output": lambda tools: tools.leaves_child("smi", TABLE),
    "leaves a silent child": lambda tools: tools.script("smi", "sleep 600 >/dev/null 2>&1 &\nexit 0"),
}


@pytest.mark.parametrize("fault", ENDLESS.values(), ids=list(ENDLESS))
def test_what_does_not_end_is_ended_with_all_its_children(
    make_reader: MakeReader, tools: ToolFolder, mark: str, fault: Fault
) -> None:
    fault(tools)
    capture = read(make_reader(), tool("smi", "-q"), deadline=0.3)
    assert capture.failure == Failure("failed", "timeout", "smi -q did not end within 0.3 s and was ended")
    assert [output.text for output in capture.outputs] == [TABLE]
    assert capture.seconds >= 0.3
    assert marked(mark) == []


@pytest.mark.parametrize(
    ("fault", "text", "stderr"),
    [("prints for ever", "GPU  Temp  Power\n", ""), ("complains for ever", "", "error: no such device\n")],
)
def test_endless_output_is_ended_at_the_limit(
    make_reader: MakeReader, tools: ToolFolder, mark: str, fault: str, text: str, stderr: str
) -> None:
    SHORT[fault](tools)
    capture = read(make_reader(limits=None), tool("smi"))
    assert capture.failure == Failure("failed", "too_much_output", "smi printed more than 8 MiB and was ended")
    (output,) = capture.outputs
    assert output.text[:17] == text
    assert output.stderr[:22] == stderr
    assert len(output.text + output.stderr) == 64 << 10
    assert marked(mark) == []


@pytest.mark.parametrize("fault", LEAVING.values(), ids=list(LEAVING))
def test_a_child_left_behind_neither_holds_the_poll_nor_outlives_it(
    make_reader: MakeReader, tools: ToolFolder, mark: str, fault: Fault
) -> None:
    fault(tools)
    for _ in range(2):
        capture = read(make_reader(), tool("smi"))
        assert capture.failure is None
        assert [output.status for output in capture.outputs] == [0]
    assert marked(mark) == []


def test_a_line_that_a_child_left_unfinished_is_not_taken_for_a_whole_one(
    make_reader: MakeReader, tools: ToolFolder
) -> None:
    tools.script("smi", "(printf 'GPU 0\\nPower 5'; sleep 600; echo '7.0 W') &\nsleep 0.2; exit 0")
    assert read(make_reader(), tool("smi")).outputs == (Output("smi", "", "GPU 0\n", "", 0),)


def test_a_stranger_left_behind_does_not_keep_the_tool_locked(make_reader: MakeReader, tools: ToolFolder) -> None:
    tools.leaves_stranger("smi", TABLE, 3)
    captures = [read(make_reader(), tool("smi"), deadline=2) for _ in range(3)]
    assert [capture.failure for capture in captures] == [None] * 3


@pytest.mark.parametrize(
    ("sent", "named"), [("SEGV", "SIGSEGV"), ("KILL", "SIGKILL"), ("TERM", "SIGTERM"), ("40", "signal 40")]
)
def test_a_tool_ended_by_somebody_elses_signal_was_killed(
    make_reader: MakeReader, tools: ToolFolder, sent: str, named: str
) -> None:
    tools.crashes("smi", TABLE, sent)
    capture = read(make_reader(), tool("smi"))
    assert capture.failure == Failure("failed", "killed", f"smi was ended by {named}")
    assert capture.outputs[0].text == TABLE
    assert (capture.outputs[0].status or 0) < 0


def test_good_and_bad_by_turns_are_told_apart(make_reader: MakeReader, tools: ToolFolder) -> None:
    SHORT["good and bad by turns"](tools)
    reader = make_reader()
    outputs = [read(reader, tool("smi")).outputs[0] for _ in range(4)]
    good, bad = Output("smi", "", TABLE, "", 0), Output("smi", "", "", "no driver\n", 9)
    assert outputs == [good, bad, good, bad]


@pytest.mark.parametrize(
    ("content", "mode", "state", "reason", "says"),
    [
        ("#!/bin/sh\n", 0o644, "failed", "no_permission", "allow the service's user to execute it"),
        ("#!/no/such/interpreter\n", 0o755, "failed", "internal", "not the interpreter or loader that it names"),
        ("GPU 0\n", 0o755, "failed", "internal", "neither a program for this machine nor a script"),
    ],
)
def test_what_cannot_be_started_says_why(
    make_reader: MakeReader, tools: ToolFolder, content: str, mode: int, state: str, reason: str, says: str
) -> None:
    path = tools.folder / "smi"
    path.write_text(content)
    path.chmod(mode)
    capture = read(make_reader(), tool("smi"))
    assert capture.failure is not None
    assert (capture.failure.state, capture.failure.reason) == (state, reason)
    assert str(path) in capture.failure.text
    assert says in capture.failure.text
    assert capture.outputs == ()


@pytest.mark.parametrize("path", ["/nowhere/smi", "/usr"])
def test_a_wrong_path_names_its_setting(make_reader: MakeReader, path: str) -> None:
    capture = read(make_reader(path=path), tool("smi"))
    text = f"{path} is not a file; correct sources.fake.path, or leave it empty to search"
    assert capture.failure == Failure("missing", None, text)


def test_missing_names_all_places(make_reader: MakeReader) -> None:
    capture = read(make_reader(), Command((("smi", "-q"),), folders=("/opt/one/bin", "/opt/two")))
    text = "smi was not found on PATH or in /opt/one/bin or /opt/two; install it, or set sources.fake.path"
    assert capture.failure == Failure("missing", None, text)


def test_an_argument_that_no_program_can_get_fails(make_reader: MakeReader, tools: ToolFolder) -> None:
    tools.prints("smi", TABLE)
    capture = read(make_reader(), tool("smi", "a\0b"))
    assert capture.failure is not None
    assert (capture.failure.state, capture.failure.reason) == ("failed", "internal")


@pytest.mark.parametrize("fault", ["hangs", "closes its output and lives on"])
def test_close_ends_a_running_tool_from_another_thread(
    make_reader: MakeReader, tools: ToolFolder, mark: str, fault: str
) -> None:
    ENDLESS[fault](tools)
    reader = make_reader(limits=None)
    captures: list[Capture] = []
    thread = threading.Thread(target=lambda: captures.append(read(reader, tool("smi"), deadline=600)))
    thread.start()
    assert comes_true(lambda: len(tools.pids("smi")) == 1)
    reader.close()
    assert comes_true(lambda: marked(mark) == [])
    thread.join(20)
    reader.close()
    assert captures[0].failure == Failure("disabled", None, "smi was cut short: the reader was closed")
    assert read(reader, tool("smi")).failure == Failure("disabled", None, "fake: the reader is closed")
    assert len(tools.pids("smi")) == 1


def test_close_ends_the_wait_for_a_tool_that_another_runs(make_reader: MakeReader, tools: ToolFolder) -> None:
    """To be stopped while waiting is no fault of the tool's."""
    tools.hangs("smi")
    other, reader = make_reader(limits=None), make_reader()
    captures: list[Capture] = []
    first = threading.Thread(target=read, args=(other, tool("smi"), 600))
    first.start()
    assert comes_true(lambda: len(tools.pids("smi")) == 1)
    second = threading.Thread(target=lambda: captures.append(read(reader, tool("smi"), 600)))
    second.start()
    threading.Event().wait(0.2)
    reader.close()
    second.join(20)
    other.close()
    first.join(20)
    assert captures[0].failure == Failure("disabled", None, "fake: the reader is closed")


def test_a_poll_gives_up_waiting_for_another_of_its_source(make_reader: MakeReader, tools: ToolFolder) -> None:
    tools.hangs("smi")
    reader = make_reader()
    thread = threading.Thread(target=read, args=(reader, tool("smi"), 600))
    thread.start()
    assert comes_true(lambda: len(tools.pids("smi")) == 1)
    capture = read(reader, tool("smi"), deadline=0.1)
    assert capture.failure == Failure("stuck", None, "fake: an earlier poll of this source has not ended")
    reader.close()
    thread.join(20)
    assert len(tools.pids("smi")) == 1


def test_a_tool_that_vanishes_before_it_starts_is_missing(make_reader: MakeReader, tools: ToolFolder) -> None:
    path = tools.prints("smi", TABLE)

    def too_late(what: Launch) -> Process:
        path.unlink()
        return launch(what)

    capture = read(make_reader(launcher=too_late), tool("smi"))
    assert capture.failure == Failure("missing", None, f"{path} could not be started: No such file or directory")


def test_polls_of_one_source_never_run_side_by_side(make_reader: MakeReader, tools: ToolFolder, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    tools.script("smi", f"echo start >>{trace}; sleep 0.05; echo end >>{trace}")
    reader, other = make_reader(), make_reader()
    threads = [threading.Thread(target=read, args=(each, tool("smi"))) for each in (reader, other) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert trace.read_text().split() == ["start", "end"] * 8


def test_nothing_is_held_after_five_hundred_polls_of_tools_that_misbehave(
    make_reader: MakeReader, tools: ToolFolder, mark: str
) -> None:
    reader = make_reader()
    SHORT["prints nothing"](tools)
    read(reader, tool("smi"))
    before = own_holdings()
    faults = [(fault, 400 // len(SHORT), 30.0) for fault in SHORT.values()]
    faults += [(fault, 16, 0.08) for fault in ENDLESS.values()]
    faults += [(fault, 10, 30.0) for fault in LEAVING.values()]
    captures = []
    for fault, times, deadline in faults:
        fault(tools)
        captures += [reader.read(poll(tool("smi"), deadline), NO_TARGETS) for _ in range(times)]
    assert len(captures) == 500
    assert own_holdings().at_most(before)
    assert marked(mark) == []
    counted = {key: len(list(group)) for key, group in itertools.groupby(sorted(map(_outcome, captures)))}
    assert counted == {
        "failed/internal": 40,
        "failed/killed": 40,
        "failed/timeout": 80,
        "failed/too_much_output": 80,
        "missing/None": 40,
        "ok": 220,
    }


def _outcome(capture: Capture) -> str:
    failure = capture.failure
    return "ok" if failure is None else f"{failure.state}/{failure.reason}"
