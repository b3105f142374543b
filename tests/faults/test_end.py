"""The daemon exits within one time limit for all parts that hang, and names the tasks that it left."""

import os
import threading
import time
from pathlib import Path

from kits.daemon import clean_environment
from kits.tool_node import tool_node
from telemetry_daemon.config.settings import SourceSettings
from telemetry_daemon.polling.pci_bus import PciView
from telemetry_daemon.polling.poller import MAX_STOP_SECONDS, Poller
from telemetry_daemon.polling.source import Source
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Command, Poll, Report

HANGS = """
import time
from telemetry_daemon.polling.node_sources import RealNode
RealNode.close = lambda self: time.sleep(600)
"""


def test_exit_does_not_wait_for_a_part_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "patched").mkdir()
    (tmp_path / "patched" / "sitecustomize.py").write_text(HANGS)
    daemon, _ = tool_node(tmp_path)
    search = os.pathsep.join((str(tmp_path / "patched"), clean_environment({})["PYTHONPATH"]))
    daemon.environment = {**daemon.environment, "PYTHONPATH": search}
    with daemon:
        assert daemon.stop()[0] == 0
        daemon.until(lambda: daemon.logged("stopped before all tasks had ended"))


class Stuck:
    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def close(self) -> None:
        self._released.wait(60.0)


def test_many_hanging_sources_delay_the_exit_no_more_than_one() -> None:
    released, clock, poll = threading.Event(), Clock(), Poll("readings", Command((("acme-smi",),)))
    poller = Poller(Store("node", clock), clock)
    for number in range(20):
        parser = SourceParser(f"acme-{number}", "acme", (), (poll,), lambda _: Report())
        poller.add(
            Source(parser, {poll.name: Stuck(released)}, SourceSettings(), lambda _: PciView(), clock, lambda *_: None)
        )
    began = time.monotonic()
    poller.stop()
    took = time.monotonic() - began
    released.set()
    assert took < 10 * MAX_STOP_SECONDS, "one after the other they would take twenty times as long"
