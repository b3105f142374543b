"""Steps from end to end: a job writes them as the documentation says, a daemon on a node of cards exports them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.daemon import Daemon
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile

pytestmark = pytest.mark.needs("cc")
CONFIG = """
[steps]
enabled = true
directory = "{folder}"
[sources.nvml]
interval = 0.5
[sources.steps]
interval = 0.5
"""
SERIES = re.compile(r"^telemetry_steps_(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


def documented() -> str:
    """Return the Python code for jobs in docs/profile.md."""
    text = (ROOT / "docs/profile.md").read_text()
    found = re.search(r"```python\n(.*?def report_steps.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_documented_steps_are_beside_their_card(tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    folder.mkdir()
    folder.chmod(0o1777)
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(2))
    with Daemon(tmp_path, CONFIG.format(folder=folder), environment=fake.environment) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 2)
        cards = daemon.document()["devices"]
        job = documented().replace("/run/telemetry-steps", str(folder))
        job += f'\nreport_steps({{"uuid": "{cards[1]["uuid"]}"}}, steps=12, tokens=98304, seconds={{"compute": 1.5}})\n'
        subprocess.run([sys.executable, "-c", job], check=True, env={**os.environ, "SLURM_JOB_ID": "77", "RANK": "3"})
        daemon.until(lambda: "telemetry_steps_total{" in daemon.page())
        of_rank = {f'id="{cards[1]["id"]}"', 'job_id="77"', 'rank="3"'}
        found = {name: (set(labels.split(",")), float(value)) for name, labels, value in SERIES.findall(daemon.page())}
        assert found == {
            "total": (of_rank, 12.0),
            "tokens_total": (of_rank, 98304.0),
            "seconds_total": ({*of_rank, 'part="compute"'}, 1.5),
        }
        for file in folder.iterdir():
            file.unlink()
        daemon.until(lambda: "telemetry_steps_total{" not in daemon.page())
        (folder / "stranger.json").write_text(
            '{"schema":"telemetry.steps/1","job_id":"1","rank":0,"card":{"uuid":"GPU-0"},"steps":1}'
        )
        daemon.until(
            lambda: any(
                "is not on this node" in problem["text"]
                for source in daemon.document()["sources"]
                for problem in source["problems"]
            )
        )
