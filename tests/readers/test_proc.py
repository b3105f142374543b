"""The reader of processes: real ones, those of a fixture's /proc, and what changes between two polls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry_daemon.readers import proc
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.proc import ProcReader, command_line
from telemetry_parsers.owners.proc import PARSER

POLL = PARSER.polls[0]
SECRET = "hunter2-of-the-test"  # planted, to be looked for


class Tree:
    """A root with a /proc of our own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc/1").mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\nbroken\n")

    def process(
        self, pid: int, *, ticks: int = 5000, uid: int = 1000, comm: str = "python", cgroup: str = "0::/"
    ) -> Path:
        folder = self.root / "proc" / str(pid)
        folder.mkdir(exist_ok=True)
        after = " ".join(["S", *["0"] * 18, str(ticks), "0"])
        (folder / "stat").write_text(f"{pid} ({comm}) {after}\n")
        (folder / "comm").write_text(comm + "\n")
        (folder / "cgroup").write_text(cgroup + "\n")
        (folder / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        return folder


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", "input()", f"--password={SECRET}"],
        stdin=subprocess.PIPE,
        env={**os.environ, "PASSWORD": SECRET, "RANK": "3", "SLURM_JOB_ID": "41"},
    ) as process:
        yield process
        process.kill()


def tasks(reader: ProcReader, *pids: int):
    capture = reader.read(POLL, Targets(pids=pids))
    assert capture.failure is None
    return {task.pid: task for task in PARSER.parse(capture).tasks}


def test_a_real_process_is_told_and_its_end_as_well(child):
    reader = ProcReader("/", environment=False)
    (task,) = tasks(reader, child.pid).values()
    assert (task.pid, task.command, task.rank) == (child.pid, "python3", None) or task.command.startswith("python")
    assert task.started is not None
    child.kill()
    child.wait()
    assert tasks(reader, child.pid) == {}


@pytest.mark.needs("root")
def test_only_the_named_variables_leave_the_reader(child):
    capture = ProcReader("/", environment=True).read(POLL, Targets(pids=(child.pid,)))
    assert SECRET not in repr(capture)
    (task,) = PARSER.parse(capture).tasks
    assert (task.rank, task.keys) == (3, ("slurm:41",))
    assert SECRET in command_line(child.pid)


def test_who_started_it_is_told_by_name_and_else_by_number(tree):
    tree.process(10)
    tree.process(11, uid=4242)
    found = tasks(ProcReader(str(tree.root), environment=False), 10, 11)
    assert [found[pid].user for pid in (10, 11)] == ["alice", "4242"]


def test_nothing_is_read_again_while_a_process_is_the_same(tree):
    folder = tree.process(10)
    reader = ProcReader(str(tree.root), environment=False)
    first = reader.read(POLL, Targets(pids=(10,)))
    (folder / "cgroup").unlink()
    assert reader.read(POLL, Targets(pids=(10,))).outputs[1] is first.outputs[1]


def test_another_process_with_the_same_number_is_another(tree):
    reader = ProcReader(str(tree.root), environment=False)
    tree.process(10, comm="old")
    assert tasks(reader, 10)[10].command == "old"
    tree.process(10, ticks=9000, comm="new", uid=0)
    found = tasks(reader, 10)[10]
    assert (found.command, found.ticks, found.user) == ("new", 9000, "root")


@pytest.mark.parametrize("comm", ["a) S 1 2 (b", "((", "\x1b[31mred", "tab\tand\nline", "x" * 300])
def test_a_name_of_any_characters_hides_nothing(tree, comm):
    tree.process(10, comm=comm)
    (task,) = tasks(ProcReader(str(tree.root), environment=False), 10).values()
    assert task.ticks == 5000


def test_a_process_that_cannot_be_read_is_left_out(tree):
    tree.process(10)
    (tree.process(11) / "stat").write_text("11 (x) Z\n")
    (tree.process(12) / "comm").unlink()
    assert list(tasks(ProcReader(str(tree.root), environment=False), 10, 11, 12, 13)) == [10]


def test_a_root_without_processes_is_missing(tmp_path):
    capture = ProcReader(str(tmp_path), environment=False).read(POLL, Targets(pids=(1,)))
    assert capture.failure is not None
    assert capture.failure.state == "missing"


def test_numbers_of_another_namespace_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "FIRST_NAMESPACE", "pid:[1]")
    capture = ProcReader("", environment=False).read(POLL, Targets(pids=(os.getpid(),)))
    assert capture.failure is not None
    assert (capture.failure.state, capture.outputs) == ("not_supported", ())
    assert "hostPID" in capture.failure.text
