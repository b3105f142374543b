"""An operator takes a source away from the running daemon and gives it back."""

from __future__ import annotations

import signal
from pathlib import Path

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_mthreads_gmi import TABLE
from kits.fake_tools import ToolFolder

FAST = "[sources.mthreads-gmi]\ninterval = 0.5\n"


def test_a_released_source_is_left_alone_until_it_is_resumed_or_the_time_is_over(tmp_path: Path) -> None:
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
        assert "accelerator_up{" not in page, "nobody knows whether a released card is there"
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
            assert (status, "there is no source named 'nvmll'; the sources are" in error) == (64, True), error
        assert run_main("release", "mthreads-gmi", "--for", "2s", *config)[0] == 0
        running.until_state("mthreads-gmi", "ok")
        assert "for 20 d 0 h;" in run_main("release", "mthreads-gmi", "--for", "20d", *config)[1]
        running.write_config("[sources.mthreads-gmi]\ninterval = 0.7\n")
        running.signal(signal.SIGHUP)
        running.until(lambda: running.logged("configuration reloaded"))
        running.until_state("mthreads-gmi", "released")
