"""kill -9 at any time: files are complete, no process remains, and the next start succeeds."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import prometheus_client.parser as oracle
import pytest

from faults.switched_plugin import SwitchedPlugin
from kits.daemon import COMMAND, clean_environment
from kits.processes import alive, descendants
from kits.tool_node import TOOL, series, tool_node
from telemetry_daemon.state.devices_file import load
from telemetry_parsers.codec.captures import capture_from_plain, decode_line

ROUNDS = 15
SEED = int(os.environ.get("FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)


@pytest.mark.timeout(300)
def test_daemon_killed_at_any_time_restarts_cleanly(tmp_path: Path, plugin: SwitchedPlugin) -> None:
    dice = random.Random(SEED)
    print(f"FAULT_SEED={SEED}")
    prom, recording = tmp_path / "shown" / "telemetry.prom", tmp_path / "recording.jsonl"
    prom.parent.mkdir()
    more = f'{plugin.config}[export.textfile]\npath = "{prom}"\ninterval = 1\n'
    daemon, tools = tool_node(tmp_path, more)
    identities: set[str] = set()
    for number in range(ROUNDS):
        command = [*COMMAND, "record", "--for", "60", "-o", str(recording), "--config", str(daemon.config_path)]
        with daemon:
            recorder = subprocess.Popen(
                command, env=clean_environment(daemon.environment), stderr=subprocess.PIPE, text=True
            )
            daemon.until_state(TOOL, "ok")
            daemon.until(lambda: series(daemon, "accelerator_up{"))
            time.sleep(dice.uniform(0.0, 1.2))
            children = [pid for top in (daemon.pid, recorder.pid) for pid in descendants(top)]
            os.kill(daemon.pid, signal.SIGKILL)
            recorder.kill()
            recorder.communicate(timeout=10)
            daemon.until(lambda children=children: not [pid for pid in children if alive(pid)])
        if prom.exists():
            assert prom.read_text().endswith("\n")
            assert list(oracle.text_string_to_metric_families(prom.read_text())), number
        identities |= {identity.id for identity in load(tmp_path / "state" / "devices.json").devices}
        if recording.exists() and recording.stat().st_size:
            assert recording.read_bytes().endswith(b"\n"), number
            assert [capture_from_plain(decode_line(line)) for line in recording.read_text().splitlines()]
        daemon.lines.clear()
        daemon.address = ""
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: prom.exists() and "accelerator_up" in prom.read_text())
        assert daemon.logged("unusable") == 0
        assert daemon.stop()[0] == 0
    names = sorted(path.name for folder in (prom.parent, tmp_path / "state") for path in folder.iterdir())
    assert names == ["devices.json"], "left behind by those that were killed; the textfile goes with the last"
    assert not [pid for pid in tools.pids(TOOL) if alive(pid)]
