"""Tools that cannot or must not be killed: no second process starts, and the node reports it."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.command_reader import HOPELESS, Stand, StuckProcess, is_held, poll, read, tool
from kits.fake_tools import ToolFolder
from kits.processes import marked, own_holdings
from kits.waiting import comes_true
from telemetry_daemon.readers import tool_lock
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_parsers.model import Capture, Command, Failure

TABLE = "GPU  Temp   Power\n0    41.0C  80.0W\n"
ABANDONED = Command((("smi",),), on_deadline="abandon")
MakeReader = Callable[..., CommandReader]


@pytest.fixture
def stuck() -> Iterator[StuckProcess]:
    process = StuckProcess()
    yield process
    process.ends()
    process.close()


def outcome(capture: Capture) -> tuple[str, str | None]:
    assert capture.failure is not None
    return capture.failure.state, capture.failure.reason


def test_no_second_process_is_started_beside_one_that_does_not_end(
    make_reader: MakeReader, tools: ToolFolder, stuck: StuckProcess
) -> None:
    tools.prints("smi", TABLE)
    stand = Stand(stuck)
    reader = make_reader(launcher=stand, limits=HOPELESS)
    stuck.prints(b"GPU 0\n")
    first = read(reader, tool("smi"), deadline=0.5)
    assert outcome(first) == ("stuck", None)
    printed = r"smi \(process 4194304\) has not exited for \d+ s; no new run is started"
    assert first.failure is not None
    assert re.fullmatch(printed, first.failure.text)
    assert [output.text for output in first.outputs] == ["GPU 0\n"]
    assert stuck.signals == [signal.SIGTERM, signal.SIGKILL]
    before = own_holdings()
    for _ in range(20):
        assert outcome(read(reader, tool("smi"))) == ("stuck", None)
    assert own_holdings().at_most(before)
    assert len(stand.launches) == 1


def test_reading_continues_once_the_stuck_tool_has_ended(
    make_reader: MakeReader, tools: ToolFolder, stuck: StuckProcess
) -> None:
    tools.prints("smi", TABLE)
    reader = make_reader(launcher=Stand(stuck), limits=HOPELESS)
    read(reader, tool("smi"), deadline=0.5)
    stuck.ends()
    capture = read(reader, tool("smi"))
    assert [output.text for output in capture.outputs] == [TABLE]
    assert capture.failure is None
    assert stuck.reaped
    assert stuck.closed
    assert capture.cpu_seconds >= 0.5
    assert read(reader, tool("smi")).cpu_seconds < 0.5


def test_child_of_a_tool_delays_the_next_read(make_reader: MakeReader, tools: ToolFolder, stuck: StuckProcess) -> None:
    tools.prints("smi", TABLE)
    stand = Stand(stuck)
    reader = make_reader(launcher=stand, limits=HOPELESS)
    stuck.members_live = True
    stuck.prints(TABLE.encode())
    stuck.ends(status=0)
    first = read(reader, tool("smi"))
    assert [output.text for output in first.outputs] == [TABLE]
    assert first.failure is None
    assert first.cpu_seconds == 0.5
    assert outcome(read(reader, tool("smi"))) == ("stuck", None)
    assert len(stand.launches) == 1
    stuck.members_live = False
    last = read(reader, tool("smi"))
    assert last.failure is None
    assert last.cpu_seconds < 0.5


def test_other_targets_are_not_read_while_a_tool_is_stuck(
    make_reader: MakeReader, tools: ToolFolder, stuck: StuckProcess
) -> None:
    tools.prints("smi", TABLE)
    stand = Stand(stuck)
    request = Command((("smi", "{card}"),), per="card")
    reader = make_reader(launcher=stand, limits=HOPELESS)
    assert outcome(reader.read(poll(request, 0.5), Targets(cards=("0", "1")))) == ("stuck", None)
    assert len(stand.launches) == 1


def test_stuck_tool_stays_locked(
    make_reader: MakeReader, tools: ToolFolder, stuck: StuckProcess, tmp_path: Path
) -> None:
    tools.prints("smi", TABLE)
    read(make_reader(launcher=Stand(stuck), limits=HOPELESS), tool("smi"), deadline=0.5)
    assert is_held(tmp_path / "locks", "smi")
    assert not is_held(tmp_path / "locks", "other-smi")
    capture = read(make_reader(), tool("smi"), deadline=0.1)
    assert capture.failure is not None
    assert capture.failure.text.startswith(
        f"smi: another process runs it: this daemon's source fake (process {stuck.pid}, for "
    )
    assert tool_lock.is_busy(capture.failure)
    assert tools.calls("smi") == []


def test_tool_of_another_vendor_is_not_delayed(
    make_reader: MakeReader, tools: ToolFolder, stuck: StuckProcess, tmp_path: Path
) -> None:
    other = ToolFolder(tmp_path / "other").prints("smi", TABLE)
    tools.prints("smi", TABLE)
    read(make_reader(launcher=Stand(stuck), limits=HOPELESS), tool("smi"), deadline=0.5)
    assert read(make_reader(path=str(other)), tool("smi")).failure is None


def test_close_does_not_wait_for_a_stuck_tool(make_reader: MakeReader, tools: ToolFolder, stuck: StuckProcess) -> None:
    tools.prints("smi", TABLE)
    reader = make_reader(launcher=Stand(stuck), limits=HOPELESS)
    before = own_holdings().descriptors
    read(reader, tool("smi"), deadline=0.5)
    reader.close()
    reader.close()
    assert stuck.closed
    assert own_holdings().descriptors == before - 2  # the reading ends of its two pipes
    assert outcome(read(reader, tool("smi"))) == ("disabled", None)


def test_tool_that_must_not_be_killed_is_awaited(
    make_reader: MakeReader, tools: ToolFolder, mark: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    tools.script("smi", f"while ! [ -e {go} ]; do sleep 0.02; done\nprintf '%060000d\\n' 0; printf '%060000d\\n' 0")
    reader = make_reader()
    first = read(reader, ABANDONED, deadline=0.2)
    assert first.failure == Failure("failed", "timeout", "smi did not exit within 0.2 s and was left running")
    assert comes_true(lambda: tools.pids("smi"))
    second = read(reader, ABANDONED, deadline=0.2)
    assert outcome(second) == ("stuck", None)
    assert not tool_lock.is_busy(second.failure)
    (pid,) = tools.pids("smi")
    assert pid in marked(mark)
    go.touch()
    tools.prints("smi", TABLE)
    assert comes_true(lambda: read(reader, ABANDONED, deadline=5).failure is None)
    assert len(tools.pids("smi")) == 2


def test_close_leaves_a_tool_that_must_not_be_killed(
    make_reader: MakeReader, tools: ToolFolder, mark: str, tmp_path: Path
) -> None:
    tools.hangs("smi")
    reader = make_reader()
    read(reader, ABANDONED, deadline=0.2)
    reader.close()
    assert comes_true(lambda: tools.pids("smi"))
    (pid,) = tools.pids("smi")
    try:
        assert pid in marked(mark)
        assert is_held(tmp_path / "locks", "smi")
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
