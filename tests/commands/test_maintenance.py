"""`telemetry maintenance` with the running daemon."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon, bare_config
from kits.waiting import PATIENCE_SECONDS

HOST_ONLY = "[sources.host]\ninterval = 1.0\n"


def samples(page: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(telemetry_maintenance\S*) (\S+)$", page, re.MULTILINE)}


def test_announced_told_kept_over_a_restart_and_ended(tmp_path: Path) -> None:
    config = ("--config", str(tmp_path / "telemetry.toml"))
    with Daemon(tmp_path, HOST_ONLY) as running:
        assert samples(running.page()) == {"telemetry_maintenance": 0.0}
        assert running.document()["maintenance"] is None
        assert run_main("maintenance", *config)[:2] == (0, "the node is not in maintenance\n")
        status, told, _ = run_main("maintenance", "on", "--for", "2h", "--reason", "new <fans>", *config)
        assert (status, told.splitlines()[0][:50]) == (0, "in maintenance for 2 h 0 min more, until " + told[41:50])
        assert told.splitlines()[0].endswith("UTC: new <fans>")
        page = samples(running.page())
        assert page["telemetry_maintenance"] == 1.0
        assert 7000 < page["telemetry_maintenance_ends_in_seconds"] <= 7200
        assert running.document()["maintenance"]["reason"] == "new <fans>"
        assert "new &lt;fans&gt;" in running.get("/")[1]
        running.until(lambda: running.logged("maintenance is on"))
        running.signal(signal.SIGTERM)
        assert running.process is not None
        running.process.wait(PATIENCE_SECONDS)
    with Daemon(tmp_path, HOST_ONLY) as running:
        assert samples(running.page())["telemetry_maintenance"] == 1.0
        running.until(lambda: running.logged("maintenance goes on"))
        assert "new <fans>" in run_main("maintenance", "status", *config)[1]
        assert run_main("maintenance", "off", *config)[:2] == (0, "maintenance is off\n")
        page = samples(running.page())
        assert page["telemetry_maintenance"] == 0.0
        assert page["telemetry_maintenance_ends_in_seconds"] <= 0
        assert run_main("maintenance", "off", *config)[:2] == (0, "the node was not in maintenance\n")
        assert run_main("maintenance", "on", "--for", "1s", *config)[0] == 0
        running.until(lambda: samples(running.page())["telemetry_maintenance"] == 0.0)
        running.until(lambda: running.logged("maintenance has ended"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("on", "--for", "31d"), "from 1s to 30d"),
        (("on", "--for", "4"), "'4' has no unit; write 4h, 90m or 2d"),
        (("on", "--for", "soon"), "is not a duration"),
        (("on", "--reason", "x" * 201), "at most 200 printable characters"),
        (("on", "--reason", "two\nlines"), "printable characters on one line"),
        (("off", "--for", "1h"), "go with 'telemetry maintenance on'"),
        (("--reason", "why"), "go with 'telemetry maintenance on'"),
        (("begin",), "no such choice: 'begin'"),
    ],
)
def test_a_wrong_request_is_refused(arguments: tuple[str, ...], words: str) -> None:
    status, _, told = run_main("maintenance", *arguments)
    assert (status, words in told) == (64, True), told


def test_without_a_daemon_nothing_can_be_announced(tmp_path: Path) -> None:
    status, _, told = run_main("maintenance", "on", "--config", bare_config(tmp_path))
    assert (status, "no daemon answers" in told) == (69, True), told


def test_where_it_cannot_be_kept_the_command_says_so_and_it_holds_all_the_same(tmp_path: Path) -> None:
    config = ("--config", str(tmp_path / "telemetry.toml"))
    (tmp_path / "state").write_text("in the way of the folder")
    with Daemon(tmp_path, HOST_ONLY) as running:
        status, _, told = run_main("maintenance", "on", *config)
        assert (status, "a restart of the daemon undoes this" in told) == (2, True), told
        assert samples(running.page())["telemetry_maintenance"] == 1.0
