"""Steps from end to end: a job writes them as the documentation says, a daemon on a node of cards exports them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kits.captures import ROOT
from kits.daemon import Daemon
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from telemetry_parsers.steps import MOST_FILES_OF_A_USER, SCHEMA

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
    """The lines of Python that docs/profile.md gives to jobs."""
    text = (ROOT / "docs/profile.md").read_text()
    found = re.search(r"```python\n(.*?def report_steps.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def rank(uuid: str, **told: object) -> str:
    return json.dumps({"schema": SCHEMA, "job_id": "77", "rank": 0, "card": {"uuid": uuid}, "steps": 1, **told})


@pytest.mark.long
def test_a_thousand_hostile_files_cost_themselves_only(tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    folder.mkdir()
    folder.chmod(0o1777)
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(1))
    with Daemon(tmp_path, CONFIG.format(folder=folder), environment=fake.environment) as daemon:
        daemon.until(lambda: daemon.document()["devices"])
        uuid = daemon.document()["devices"][0]["uuid"]
        (folder / "good.json").write_text(rank(uuid, steps=5))
        daemon.until(lambda: "telemetry_steps_total{" in daemon.page())
        hostile = (
            "[" * 4000,
            rank(uuid, steps=float("inf")),
            rank(uuid, rank='9"} 1\n# evil'),
            rank(uuid, seconds={"x" * 3000: 1}),
        )
        for number in range(1000):
            (folder / f"bad-{number}.json").write_text(hostile[number % len(hostile)])
            (folder / f"many-{number}.json").write_text(rank(uuid, job_id=f"flood-{number}"))
        (folder / "link.json").symlink_to("/dev/zero")
        os.mkfifo(folder / "pipe.json")
        (folder / "good.json").write_text(rank(uuid, steps=6))
        daemon.until(lambda: 'job_id="77",rank="0"} 6' in daemon.page() and daemon.page().count("flood-") > 100)
        assert daemon.page().count("telemetry_steps_total{") == MOST_FILES_OF_A_USER
        assert "evil" not in daemon.page()
        assert psutil.Process(daemon.pid).memory_info().rss < 80 << 20
        for file in folder.iterdir():
            if file.name != "good.json":
                file.unlink()
        daemon.until(lambda: daemon.page().count("telemetry_steps_total{") == 1)


def test_what_a_job_writes_as_documented_stands_beside_its_card(tmp_path: Path) -> None:
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
                "fits none" in one["text"] for source in daemon.document()["sources"] for one in source["problems"]
            )
        )
