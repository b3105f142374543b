"""Reloads and clock steps lose no scrape and no poll; a reload removes and adds sources and peaks."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.command_line import run_main
from kits.daemon import Daemon, reload_held_up, shared_daemon
from kits.fake_mthreads_gmi import TABLE
from kits.fake_tools import ToolFolder
from kits.stepped_clock import SteppedClock
from web.scraper import Scraper

HOST = "[sources.host]\ninterval = 0.5\n"


def reloaded(daemon: Daemon) -> str:
    name = "telemetry_config_last_reload_successful"
    return next(line for line in daemon.page().splitlines() if line.startswith(name)).split()[1]


shared = shared_daemon(HOST)


@pytest.fixture
def daemon(shared):
    """Return the shared daemon with the configuration with which it was started."""
    yield shared
    shared.lines.clear()
    shared.write_config(HOST)
    shared.signal(signal.SIGHUP)
    shared.until_state("host", "ok")
    shared.until(lambda: shared.logged("configuration reloaded"))


def test_reload_loses_no_scrape(daemon):
    port = int(daemon.address.rpartition(":")[2])
    with Scraper(port, path="/metrics") as scraper:
        daemon.until_state("host", "ok")
        daemon.write_config(HOST + "[expect.devices]\nnvidia = 8\n")
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: 'telemetry_devices_expected{vendor="nvidia"} 8.0' in daemon.page())
        assert reloaded(daemon) == "1.0"
        daemon.write_config("[expect.devicez]\nnvidia = 9\n")
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: reloaded(daemon) == "0.0")
        assert 'telemetry_devices_expected{vendor="nvidia"} 8.0' in daemon.page()
        daemon.logs("expect.devicez")
        daemon.write_config(HOST)
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: reloaded(daemon) == "1.0")
        assert "telemetry_devices_expected{" not in daemon.page()
        daemon.write_config('[sources.host]\nmode = "never"\n')
        daemon.signal(signal.SIGHUP)
        daemon.until_state("host", "disabled")
        assert "telemetry_host_memory_total_bytes" not in daemon.page()
        daemon.logs("source=mthreads-gmi poll=readings")
    assert set(scraper.statuses) == {200}


def test_reload_of_the_unit_fails_for_a_bad_file(daemon):
    """The unit's own command: the error is printed by the command, and logged by the daemon."""
    unit = (ROOT / "deploy" / "systemd" / "telemetry.service").read_text()
    shell, flag, script = shlex.split(re.search(r"^ExecReload=(.*)$", unit, re.MULTILINE)[1])

    def reload():
        # Replace the variables like systemd.
        filled = script.replace("${MAINPID}", str(daemon.pid)).replace("$$", "$")
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "TELEMETRY_CONFIG": str(daemon.config_path),
        }
        done = subprocess.run([shell, flag, filled], env=environment, capture_output=True, text=True)
        return done.returncode, done.stderr

    daemon.write_config(HOST + "no_such_key = 1\n")
    status, message = reload()
    assert (status, "no_such_key" in message) == (78, True), message
    daemon.until(lambda: reloaded(daemon) == "0.0")
    daemon.write_config(HOST)
    assert reload() == (0, "")
    daemon.until(lambda: reloaded(daemon) == "1.0")


@pytest.mark.long
def test_history_survives_a_reload(tmp_path):
    with Daemon(tmp_path, "[sources.nvml]\ninterval = 1.0\n", arguments=("--demo", "1xnvidia")) as daemon:

        def history():
            """Return the time of the first slot, and the power in each."""
            document = json.loads(daemon.get("/api/v1/history")[1])
            start = datetime.fromisoformat(document["start"].replace("Z", "+00:00"))
            (device,) = document["devices"]
            return start, device["series"].get("power_watts", {"last": []})["last"], document["slot_seconds"]

        daemon.until(lambda: any(history()[1]))
        start, before, slot_seconds = history()
        daemon.write_config("[sources.nvml]\ninterval = 2.0\n")
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: daemon.logged("configuration reloaded"))
        daemon.until(lambda: history()[0] > start)
        # The demo has a full history: each new slot replaces the oldest. The last slot was not complete yet.
        new_start, after, _ = history()
        dropped = round((new_start - start).total_seconds() / slot_seconds)
        assert dropped < len(before) / 2
        assert after[: len(before) - dropped - 1] == before[dropped:-1]


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    "step_seconds",
    [
        pytest.param(-3600.0, id="an hour back"),
        pytest.param(30 * 86400.0, id="30 days forward", marks=pytest.mark.long),
    ],
)
def test_clock_step_misses_no_poll(tmp_path, step_seconds):
    """After a step of the wall clock, polls continue at their interval; an hour of missed polls is not repeated."""
    tools = ToolFolder(tmp_path / "tools")
    tools.prints("mthreads-gmi", "Error: failed to initialize mtml: driver not loaded\n")
    clock = SteppedClock(tmp_path)
    interval_seconds = 0.5
    config = f'[sources.mthreads-gmi]\ninterval = {interval_seconds}\nmode = "always"\n'
    environment = {**clock.environment(), "PATH": tools.search_path}
    with Daemon(tmp_path, config, environment=environment) as daemon:
        daemon.until_state("mthreads-gmi", "failed")
        clock.step(step_seconds)
        # Calls without flags are of the poll for processes, which runs once a minute and at the step.
        began, before = time.monotonic(), tools.calls("mthreads-gmi").count("-q --json")
        daemon.until(lambda: tools.calls("mthreads-gmi").count("-q --json") >= before + 6)
        polls, took = tools.calls("mthreads-gmi").count("-q --json") - before, time.monotonic() - began
        assert polls <= took / interval_seconds + 3, "what was missed is not caught up on"
        daemon.logs("the wall clock was set")
    clock.close()


def test_exit_does_not_wait_for_a_hanging_reload(tmp_path):
    """The configuration may be on a disk that hangs. The service manager kills the daemon after ten seconds."""
    with Daemon(tmp_path, HOST) as daemon:
        daemon.until_state("host", "ok")
        with reload_held_up(daemon):
            assert daemon.stop()[0] == 0


def test_host_name_is_answered_once_it_is_allowed(daemon):
    """A browser may send the name of another site, so unknown names are refused."""
    for path in ("/metrics", "/api/v1/snapshot", "/", "/healthz", "/nothing"):
        assert daemon.get(path, Host="gpu7.example.com")[0] == 421
    daemon.logs("web.allowed_hosts")
    daemon.write_config(HOST + '[web]\nallowed_hosts = ["gpu7.example.com"]\n')
    daemon.signal(signal.SIGHUP)
    daemon.until(lambda: daemon.get(Host="gpu7.example.com")[0] == 200)
    assert daemon.get(Host="evil.example")[0] == 421
    assert daemon.get(Host="localhost")[0] == 200


FAST = "[sources.mthreads-gmi]\ninterval = 0.5\n"


def test_released_source_is_not_polled(tmp_path: Path) -> None:
    tools = ToolFolder(tmp_path / "tools")
    tools.prints("mthreads-gmi", TABLE)
    with Daemon(tmp_path, FAST + "[sources.host]\ninterval = 1.0\n", environment=tools.environment) as running:
        running.until_state("mthreads-gmi", "ok")
        config = ("--config", str(running.config_path))
        status, out, _ = run_main("release", "mthreads-gmi", *config)
        assert (status, "released mthreads-gmi" in out) == (0, True)
        page = running.page()
        assert 'telemetry_source_state{source="mthreads-gmi",state="released"} 1.0' in page
        assert 'telemetry_source_up{source="mthreads-gmi"} 1.0' in page
        assert "accelerator_memory_used_bytes" not in page
        assert "accelerator_up{" not in page, "the state of a released card is unknown"
        calls = tools.calls("mthreads-gmi")
        seen = running.source("host")["polls"][0]["age_seconds"]
        running.until(lambda: running.source("host")["polls"][0]["age_seconds"] < seen)
        assert tools.calls("mthreads-gmi") == calls
        assert run_main("resume", "mthreads-gmi", *config)[:2] == (0, "resumed mthreads-gmi\n")
        running.until_state("mthreads-gmi", "ok")
        assert "accelerator_memory_used_bytes" in running.page()
        assert run_main("resume", "mthreads-gmi", *config)[1] == "mthreads-gmi was not released\n"
        for action in ("release", "resume"):
            status, _, error = run_main(action, "nvmll", *config)
            assert (status, "unknown source 'nvmll'; the sources are" in error) == (64, True), error
        assert run_main("release", "mthreads-gmi", "--for", "2s", *config)[0] == 0
        running.until_state("mthreads-gmi", "ok")
        assert "for 20 d 0 h;" in run_main("release", "mthreads-gmi", "--for", "20d", *config)[1]
        running.write_config("[sources.mthreads-gmi]\ninterval = 0.7\n")
        running.signal(signal.SIGHUP)
        running.until(lambda: running.logged("configuration reloaded"))
        running.until_state("mthreads-gmi", "released")


MINE = '[peaks."{}"]\nflops = {{ bf16 = {}e14, fp8 = 9e14 }}\n'


def models(page: str) -> set[str]:
    return {line.split('model="')[1].split('"')[0] for line in page.splitlines() if line.startswith("accelerator_up{")}


def test_configured_peak_of_an_unknown_model(tmp_path):
    with Daemon(tmp_path, arguments=("--demo", "1xmoorethreads")) as daemon:
        daemon.until(lambda: models(daemon.page()))
        (model,) = models(daemon.page())
        assert "accelerator_peak_flops{" not in daemon.page()
        daemon.write_config(MINE.format(model, 4))
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: 'dtype="bf16"' in daemon.page())
        assert 'peak_origin="configured"' in daemon.page()
        assert 'dtype="fp8"' not in daemon.page()
        daemon.write_config(MINE.format(model, 5))
        daemon.config_path.write_text('peak_dtypes = ["fp8"]\n' + daemon.config_path.read_text())
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: 'dtype="fp8"' in daemon.page())
        values = [line.rsplit(" ", 1)[1] for line in daemon.page().splitlines() if line.startswith("accelerator_peak_")]
        assert values == ["5e+14", "9e+14"]


def test_configured_peaks_without_a_daemon(tmp_path):
    tools, config = ToolFolder(tmp_path / "tools"), tmp_path / "telemetry.toml"
    tools.prints("mthreads-gmi", TABLE)
    config.write_text(f'state.runtime_directory = "{tmp_path}/run"\n' + MINE.format("MTT S80", 4))
    arguments = ("--format", "json", "--source", "mthreads-gmi", "--config", str(config))
    _, out, _ = run_main("snapshot", *arguments, environment={"PATH": tools.search_path})
    (device,) = json.loads(out)["devices"]
    assert device["readings"]["peak_flops"] == {"bf16": 4e14}
