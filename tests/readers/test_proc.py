"""The reader of processes: real ones, those of a fake /proc, and changes between two polls."""

import os
from pathlib import Path

import pytest

from kits.proc_tree import POLL, ProcTree, tasks
from kits.workers import HandClock
from telemetry_daemon.readers import proc
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.proc import ProcReader


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path)


def test_nothing_is_read_again_while_a_process_is_the_same(tree):
    folder = tree.process(10)
    reader = ProcReader(str(tree.root), environment=False)
    first = reader.read(POLL, Targets(pids=(10,)))
    (folder / "cgroup").unlink()
    assert reader.read(POLL, Targets(pids=(10,))).outputs[1] is first.outputs[1]


def test_pid_reused_between_list_and_look_up(tree):
    """The list is older than the new process: its owner is unknown until the list was surely read again."""
    clock = HandClock()
    reader = ProcReader(str(tree.root), environment=False, clock=clock)
    tree.process(10, comm="old")
    assert tasks(reader, 10)[10].command == "old"
    tree.process(10, ticks=9000, comm="new", uid=0)
    assert tasks(reader, 10) == {}
    clock.seconds += 599
    assert tasks(reader, 10) == {}
    clock.seconds += 1
    found = tasks(reader, 10)[10]
    assert (found.command, found.ticks, found.user) == ("new", 9000, "root")


def test_pid_dropped_from_the_list_may_be_reused(tree):
    reader = ProcReader(str(tree.root), environment=False)
    assert tasks(reader, 10) == {}
    tree.process(10, comm="old")
    assert tasks(reader, 10) == {}, "it may be of the one that ended before it was read"
    tasks(reader)
    assert tasks(reader, 10)[10].command == "old"
    tasks(reader)
    tree.process(10, ticks=9000, comm="new")
    assert tasks(reader, 10)[10].command == "new"


def test_zombie_with_memory_held(tree):
    """The process keeps its owner while the driver lists it: stat is readable, other files may be empty."""
    folder = tree.process(10, cgroup="0::/system.slice/slurmstepd.scope/job_7/step_0")
    reader = ProcReader(str(tree.root), environment=False)
    tasks(reader, 10)
    stat = (folder / "stat").read_text()
    (folder / "stat").write_text(stat.replace(") S", ") Z"))
    (folder / "cgroup").write_text("0::/ (deleted)\n")
    assert tasks(reader, 10)[10].keys == ("slurm:7",)


def test_hidden_processes_are_a_failure_with_a_remedy(tree):
    (tree.root / "proc/1/stat").unlink()
    failure = ProcReader(str(tree.root), environment=False).read(POLL, Targets(pids=(10,))).failure
    assert failure is not None
    assert (failure.state, failure.reason) == ("failed", "no_permission")
    assert "hidepid" in failure.text


def fdinfo(tree: ProcTree, pid: int, *texts: str) -> None:
    folder = tree.root / "proc" / str(pid) / "fdinfo"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / str(number)).write_text(text)


def client(number: int, kib: int, bus_id: str = "0000:03:00.0") -> str:
    return f"pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t{bus_id}\ndrm-client-id:\t{number}\ndrm-memory-vram:\t{kib} KiB\n"


def test_open_cards_are_counted_once_however_often_they_are_open(tree):
    for pid in (10, 11):
        tree.process(pid)
    fdinfo(tree, 10, "pos: 0\n", client(5, 8), client(5, 8), client(6, 2), client(9, 1, "0000:04:00.0"))
    fdinfo(tree, 11, client(5, 8))  # a fork
    found = tasks(ProcReader(str(tree.root), environment=False), 10, 11)
    assert [(hold.bus_id, hold.memory_bytes) for hold in found[10].holds] == [
        ("0000:03:00.0", 10240.0), ("0000:04:00.0", 1024.0),
    ]  # fmt: skip
    assert found[11].holds == ()


def test_process_that_opens_a_card_again_has_its_memory_again(tree):
    tree.process(10)
    fdinfo(tree, 10, client(5, 8))
    reader = ProcReader(str(tree.root), environment=False)
    file = tree.root / "proc" / "10" / "fdinfo" / "0"
    uses = []
    for text in (client(5, 8), "pos: 0\n", client(5, 8), client(5, 8)):
        file.write_text(text)
        uses.append(bool(tasks(reader, 10)[10].holds))
    assert uses == [True, False, True, True]


def test_open_cards_are_read_of_a_few_processes_at_each_poll(tree):
    pids = range(10, 30)
    for pid in pids:
        fdinfo(tree, tree.process(pid) and pid, client(pid, 1))
    reader = ProcReader(str(tree.root), environment=False)
    counts = [sum(bool(task.holds) for task in tasks(reader, *pids).values()) for _ in range(4)]
    assert counts[0] < 20
    assert counts[-1] == 20


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


def test_pids_of_another_namespace_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "INITIAL_NAMESPACE", "pid:[1]")
    capture = ProcReader("", environment=False).read(POLL, Targets(pids=(os.getpid(),)))
    assert capture.failure is not None
    assert (capture.failure.state, capture.outputs) == ("not_supported", ())
    assert "hostPID" in capture.failure.text
