"""A plugin that breaks costs its own readings: the daemon, other sources and scrapes go on, and a repair is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults_kit import PLUGIN, TOOL, SwitchedPlugin, series, tool_node
from telemetry_daemon.readers.worker import WorkerOverflowError, WorkerTimeoutError
from worker_kit import PATIENCE_SECONDS, HandClock, new_worker, parse_payload

POWER = 'accelerator_power_watts{device="0",id="ACME-1"'


def test_a_plugin_that_dies_is_told_and_started_again(tmp_path: Path, plugin: SwitchedPlugin) -> None:
    daemon, _ = tool_node(tmp_path, plugin.config)
    with daemon:
        daemon.until(lambda: series(daemon, POWER))
        for word, reason in (("parse-die", "killed"), ("read-segfault", "killed")):
            plugin.says(word)
            daemon.until(lambda: daemon.source(PLUGIN)["state"] == "failed")
            source = daemon.source(PLUGIN)
            assert (source["reason"], series(daemon, POWER)) == (reason, [])
            assert daemon.source(TOOL)["state"] == daemon.source("host")["state"] == "ok"
            plugin.says("81")
            daemon.until(lambda: series(daemon, POWER))
        assert daemon.logged("Traceback") == 0


def test_while_a_worker_waits_to_be_started_again_its_trouble_is_the_same() -> None:
    """Or the source would change its reason, and log it, at every second poll."""
    clock = HandClock()
    worker = new_worker(clock=clock)
    try:
        assert worker.call("parse", parse_payload("echo"), PATIENCE_SECONDS)
        for _ in range(2):
            with pytest.raises(WorkerTimeoutError, match=r"before the deadline$"):
                worker.call("parse", parse_payload("hang"), 0.5)
            with pytest.raises(WorkerTimeoutError, match="before the deadline; started again in"):
                worker.call("parse", parse_payload("echo"), PATIENCE_SECONDS)
            clock.seconds += 60
        with pytest.raises(WorkerOverflowError):
            worker.call("parse", parse_payload("flood"), PATIENCE_SECONDS)
        with pytest.raises(WorkerOverflowError, match="; started again in"):
            worker.call("parse", parse_payload("echo"), PATIENCE_SECONDS)
    finally:
        worker.close()
