"""Misbehaving tools: what the command reader reports, and that it keeps no process or descriptor of them."""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kits.command_reader import NO_TARGETS, poll, read, tool
from kits.fake_tools import Answer, ToolFolder
from kits.processes import marked, own_holdings
from kits.waiting import PATIENCE_SECONDS, comes_true
from telemetry_daemon.processes.process import LaunchRequest, Process, launch
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_parsers.model import Capture, Failure, Output

TABLE = "GPU  Temp   Power\n0    41.0C  80.0W\n"
MakeReader = Callable[..., CommandReader]
Fault = Callable[[ToolFolder], object]

# Faults that last until the deadline, and the output that is kept.
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
def test_hanging_tool_is_killed_with_all_its_children(
    make_reader: MakeReader, tools: ToolFolder, mark: str, fault: Fault
) -> None:
    fault(tools)
    for deadline in (0.3, 3.0, 30.0):  # repeat until it prints in time
        capture = read(make_reader(), tool("smi", "-q"), deadline)
        if capture.outputs[0].text:
            break
    assert capture.failure == Failure("failed", "timeout", f"smi -q did not exit within {deadline:g} s and was killed")
    assert [output.text for output in capture.outputs] == [TABLE]
    assert capture.seconds >= deadline
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
    assert capture.failure == Failure("failed", "too_much_output", "smi printed more than 8 MiB and was killed")
    (output,) = capture.outputs
    assert output.text[:17] == text
    assert output.stderr[:22] == stderr
    assert len(output.text + output.stderr) == 64 << 10
    assert marked(mark) == []


@pytest.mark.parametrize("fault", LEAVING.values(), ids=list(LEAVING))
def test_child_left_behind_does_not_delay_the_poll_and_is_killed(
    make_reader: MakeReader, tools: ToolFolder, mark: str, fault: Fault
) -> None:
    fault(tools)
    for _ in range(2):
        capture = read(make_reader(), tool("smi"))
        assert capture.failure is None
        assert [output.status for output in capture.outputs] == [0]
    assert marked(mark) == []


def test_unfinished_line_of_a_child_is_dropped(make_reader: MakeReader, tools: ToolFolder, tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    child = f"printf 'GPU 0\\nPower 5'; touch {printed}; sleep 600; echo '7.0 W'"
    tools.script("smi", f"({child}) &\nwhile ! [ -e {printed} ]; do sleep 0.02; done; exit 0")
    assert read(make_reader(), tool("smi")).outputs == (Output("smi", "", "GPU 0\n", "", 0),)


def test_a_stranger_left_behind_does_not_keep_the_tool_locked(
    make_reader: MakeReader, tools: ToolFolder, mark: str
) -> None:
    # In another session the child gets no signals.
    tools.script("smi", f"setsid sleep 600 >/dev/null 2>&1 &\nprintf '{TABLE}'\nexit 0")
    captures = [read(make_reader(), tool("smi")) for _ in range(3)]
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    assert [capture.failure for capture in captures] == [None] * 3


@pytest.mark.parametrize(
    ("sent", "named"), [("SEGV", "SIGSEGV"), ("KILL", "SIGKILL"), ("TERM", "SIGTERM"), ("40", "signal 40")]
)
def test_tool_ended_by_a_foreign_signal_is_reported_as_killed(
    make_reader: MakeReader, tools: ToolFolder, sent: str, named: str
) -> None:
    tools.crashes("smi", TABLE, sent)
    capture = read(make_reader(), tool("smi"))
    assert capture.failure == Failure("failed", "killed", f"smi was killed by {named}")
    assert capture.outputs[0].text == TABLE
    assert (capture.outputs[0].status or 0) < 0


@pytest.mark.parametrize(
    ("content", "mode", "state", "reason", "says"),
    [
        ("#!/bin/sh\n", 0o644, "failed", "no_permission", "allow the service's user to execute it"),
        ("#!/no/such/interpreter\n", 0o755, "failed", "internal", "its interpreter or loader is missing"),
        ("GPU 0\n", 0o755, "failed", "internal", "neither a program for this machine nor a script"),
    ],
)
def test_tool_that_cannot_be_started_has_a_reason(
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


def test_an_argument_that_no_program_can_get_fails(make_reader: MakeReader, tools: ToolFolder) -> None:
    tools.prints("smi", TABLE)
    capture = read(make_reader(), tool("smi", "a\0b"))
    assert capture.failure is not None
    assert (capture.failure.state, capture.failure.reason) == ("failed", "internal")


@contextmanager
def beside(reader: CommandReader, tools: ToolFolder) -> Iterator[Future[Capture]]:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read, reader, tool("smi"), 600)
        assert comes_true(lambda: len(tools.pids("smi")) == 1)
        yield waiting
        reader.close()


@pytest.mark.parametrize("fault", ["hangs", "closes its output and lives on"])
def test_close_ends_a_running_tool_from_another_thread(
    make_reader: MakeReader, tools: ToolFolder, mark: str, fault: str
) -> None:
    ENDLESS[fault](tools)
    reader = make_reader(limits=None)
    with beside(reader, tools) as waiting:
        reader.close()
        assert comes_true(lambda: marked(mark) == [])
        cut_short = waiting.result(PATIENCE_SECONDS).failure
    assert cut_short == Failure("disabled", None, "smi was interrupted, because the reader was closed")
    assert read(reader, tool("smi")).failure == Failure("disabled", None, "fake: the reader is closed")
    assert len(tools.pids("smi")) == 1


def test_close_ends_the_wait_for_a_tool_that_another_runs(make_reader: MakeReader, tools: ToolFolder) -> None:
    tools.hangs("smi")
    reader = make_reader()
    with beside(make_reader(limits=None), tools), ThreadPoolExecutor(1) as pool:
        second = pool.submit(read, reader, tool("smi"), 600)
        time.sleep(0.2)  # the read waits now, or begins after the close: both must fail alike
        reader.close()
        assert second.result(PATIENCE_SECONDS).failure == Failure("disabled", None, "fake: the reader is closed")


def test_a_poll_gives_up_waiting_for_another_of_its_source(make_reader: MakeReader, tools: ToolFolder) -> None:
    tools.hangs("smi")
    reader = make_reader()
    with beside(reader, tools):
        capture = read(reader, tool("smi"), deadline=0.1)
        assert capture.failure == Failure("stuck", None, "fake: an earlier poll of this source has not finished")
    assert len(tools.pids("smi")) == 1


def test_a_tool_that_vanishes_before_it_starts_is_missing(make_reader: MakeReader, tools: ToolFolder) -> None:
    path = tools.prints("smi", TABLE)

    def too_late(what: LaunchRequest) -> Process:
        path.unlink()
        return launch(what)

    capture = read(make_reader(launcher=too_late), tool("smi"))
    assert capture.failure == Failure("missing", None, f"{path} could not be started: No such file or directory")


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.long)])
def test_nothing_is_held_after_many_polls_of_tools_that_misbehave(
    make_reader: MakeReader, tools: ToolFolder, mark: str, times: int
) -> None:
    reader = make_reader()
    SHORT["prints nothing"](tools)
    read(reader, tool("smi"))
    before = own_holdings()
    faults = [(fault, 4 * times, 60.0) for fault in SHORT.values()]
    faults += [(fault, 2 * times, 0.08) for fault in ENDLESS.values()]
    faults += [(fault, times, 60.0) for fault in LEAVING.values()]
    captures = []
    for fault, polls, deadline in faults:
        fault(tools)
        captures += [reader.read(poll(tool("smi"), deadline), NO_TARGETS) for _ in range(polls)]
    assert own_holdings().at_most(before)
    assert marked(mark) == []
    counted = {key: len(list(group)) for key, group in itertools.groupby(sorted(map(_outcome, captures)))}
    assert counted == {
        "failed/internal": 4 * times,
        "failed/killed": 4 * times,
        "failed/timeout": 10 * times,
        "failed/too_much_output": 8 * times,
        "missing/None": 4 * times,
        "ok": 22 * times,
    }


def _outcome(capture: Capture) -> str:
    failure = capture.failure
    return "ok" if failure is None else f"{failure.state}/{failure.reason}"
