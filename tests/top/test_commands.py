"""Facts of processes that `top` reads with its user's rights: only of visible processes, and never of a reused pid."""

import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from kits import snapshots as kit
from kits.waiting import PATIENCE_SECONDS
from telemetry_daemon.top.commands import FeedWithProcesses, ProcessReader
from telemetry_daemon.top.feed import Feed, Focus
from telemetry_exporters.terminal.frames.model import NodeState, View
from telemetry_parsers.model import Process


@pytest.fixture
def child():
    """Yield a process that computes until it is killed, and its start time."""
    started = time.time()
    with subprocess.Popen([sys.executable, "-c", "while True: pass", "secret"]) as process:
        yield process.pid, started
        process.kill()


class OneNode(Feed):
    """A feed of one node whose card has these processes."""

    title = "a node"

    def __init__(self, *processes):
        self.state = NodeState("a", kit.snapshot(replace(kit.device(0), processes=processes)))

    def start(self, wake):
        """Do nothing, because nothing is read."""

    def nodes(self):
        return (self.state,)

    def set_focus(self, focus):
        """Do nothing, because all data are present."""

    def close(self):
        """Do nothing, because nothing is open."""


def test_process_has_command_line_and_cpu_time(child):
    pid, started = child
    processes = ProcessReader()
    first = processes.read({pid: started})[pid]
    assert first.command_line.endswith("while True: pass secret")
    assert 0.0 <= processes.read({pid: started})[pid].cpu_ratio < 2.0


def test_reused_pid_is_not_shown(child):
    pid, started = child
    assert ProcessReader().read({pid: started - 60.0}) == {}
    assert ProcessReader().read({2**22 + 1: started}) == {}


@pytest.mark.parametrize("is_reported", [True, False])
def test_processes_are_read_only_in_sight(child, is_reported):
    pid, started = child
    woken, read = threading.Event(), []

    class Recording(ProcessReader):
        def read(self, started):
            read.append(dict(started))
            return super().read(started)

    feed = FeedWithProcesses(OneNode(Process(0, pid, "python3", started=started if is_reported else None)), Recording())
    feed.start(woken.set)
    assert feed.nodes()[0].running == {}
    feed.set_focus(Focus(View.CARD))
    assert read == []
    feed.set_focus(Focus(View.CARDS, shows_processes=True))
    if is_reported:
        assert woken.wait(PATIENCE_SECONDS)
        assert "secret" in feed.nodes()[0].running[pid].command_line
        feed.set_focus(Focus(View.CARDS, shows_processes=True))
        assert read == [{pid: started}]
    feed.close()
    assert len(read) == is_reported
