"""Peaks of the configuration in the running daemon: there from the start, others after a reload; snapshot says the same."""

from __future__ import annotations

import json
import signal

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_mthreads_gmi import TABLE
from kits.fake_tools import ToolFolder

MINE = '[peaks."{}"]\nflops = {{ bf16 = {}e14, fp8 = 9e14 }}\n'


def models(page: str) -> set[str]:
    """The models on the page."""
    return {line.split('model="')[1].split('"')[0] for line in page.splitlines() if line.startswith("accelerator_up{")}


def test_the_peak_of_an_unknown_model_is_that_of_the_configuration(tmp_path):
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


def test_a_snapshot_without_a_daemon_has_them_too(tmp_path):
    tools, config = ToolFolder(tmp_path / "tools"), tmp_path / "telemetry.toml"
    tools.prints("mthreads-gmi", TABLE)
    config.write_text(f'state.runtime_directory = "{tmp_path}/run"\n' + MINE.format("MTT S80", 4))
    arguments = ("--format", "json", "--source", "mthreads-gmi", "--config", str(config))
    _, out, _ = run_main("snapshot", *arguments, environment={"PATH": tools.search_path})
    (device,) = json.loads(out)["devices"]
    assert device["readings"]["peak_flops"] == {"bf16": 4e14}
