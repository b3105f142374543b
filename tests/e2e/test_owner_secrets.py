"""Secrets of processes and job files are in no page, document, log, recording or job record."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon, run
from kits.fake_nvml.library import FakeNvml, Process
from kits.fake_nvml.profile import load_profile
from kits.waiting import PATIENT_JOB

pytestmark = pytest.mark.needs(
    "cc", "root"
)  # only root may read environments of others, and root's job files are trusted
SECRET = "hunter2-planted"
CONFIG = """
[attribution]
enabled = true
users = "hash"
environment = true
process_metrics = true
job_directory = "{folder}/jobs"
[sources.nvml]
interval = 0.5
[sources.proc]
interval = 0.5
path = "/"
[sources.slurm]
interval = 0.5
"""
PAGES = ("/metrics", "/api/v1/snapshot", "/api/v1/history", "/")


def planted_job(folder: Path) -> None:
    """Start a job, and add secrets to its file and environment."""
    (folder / "jobs").mkdir(mode=0o755)
    variables = {"SLURM_JOB_ID": "41", "SLURM_JOB_USER": "alice", "SLURM_JOB_GPUS": "0", "SLURM_JOB_COMMENT": SECRET}
    assert run("job", "start", "--directory", str(folder / "jobs"), environment={**PATIENT_JOB, **variables})[0] == 0
    (file,) = (folder / "jobs").glob("slurm-*")
    assert SECRET not in file.read_text()
    file.write_text(json.dumps({**json.loads(file.read_text()), "comment": SECRET, "token": [SECRET]}))


def test_secrets_of_processes_and_jobs_are_not_reported(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path / "nvml", load_profile("h100").with_gpus(2))
    planted_job(tmp_path)
    program = tmp_path / f"{SECRET}.py"
    program.write_text("input()")
    environment = {**os.environ, "API_TOKEN": SECRET, "SLURM_JOB_ID": "41", "RANK": "7"}
    command = [sys.executable, str(program), f"--password={SECRET}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, cwd=tmp_path) as process:
        fake.processes(0, [Process(process.pid, 1 << 30)])
        with Daemon(tmp_path, CONFIG.format(folder=tmp_path), environment=fake.environment) as daemon:
            daemon.until(lambda: "accelerator_rank_info{" in daemon.page() and 'owner="41"' in daemon.page())
            pages = {path: daemon.get(path)[1] for path in PAGES}
            assert {path for path, page in pages.items() if SECRET in page or "alice" in page} == set()
            of_record = ("record", "--unmasked", "--for", "1", "--config", str(daemon.config_path))
            status, recording, complaints = run_main(*of_record, environment=fake.environment)
            assert (status, '"source":"proc"' in recording, SECRET in recording + complaints) == (0, True, False)
            of_snapshot = ("snapshot", "--config", str(daemon.config_path), "--format", "json", "--why")
            shown = run_main(*of_snapshot, environment=fake.environment)
            assert SECRET not in shown[1]
            assert daemon.process is not None
            daemon.process.terminate()
            daemon.process.wait()
            assert [line for line in daemon.lines if SECRET in line] == []
        process.kill()
    kept = [file for file in (tmp_path / "state").iterdir() if file.is_file()]
    assert "ledger.json" in {file.name for file in kept}
    assert {file.name for file in kept if SECRET.encode() in file.read_bytes()} == set()
