"""The real daemon and a hook: the daemon reads a job at once, also if it does not run as root."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kits.daemon import Daemon
from kits.waiting import PATIENCE_SECONDS, PATIENT_JOB

TELEMETRY = str(Path(sys.executable).with_name("telemetry"))


def hook(daemon: Daemon, action: str) -> None:
    of_job = {"SLURM_JOB_ID": "12", "SLURM_JOB_USER": "anna"}
    environment = {**PATIENT_JOB, **of_job, "TELEMETRY_CONFIG": str(daemon.config_path)}
    done = subprocess.run(
        [TELEMETRY, "job", action],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stderr == ""


def test_job_is_read_as_soon_as_its_hook_runs(tmp_path: Path) -> None:
    """Otherwise a missing source is searched once a minute."""
    jobs = tmp_path / "jobs"
    with Daemon(tmp_path, config=f'[attribution]\nenabled = true\njob_directory = "{jobs}"\n') as daemon:
        daemon.until_state("slurm", "missing")
        begun = time.monotonic()
        hook(daemon, "start")
        daemon.until_state("slurm", "ok")
        assert time.monotonic() - begun < 30
        assert not daemon.logged("Traceback")
        hook(daemon, "end")
    assert json.loads((jobs / "slurm-12.json").read_text())["ended"]


def test_hook_of_a_daemon_without_attribution_is_harmless(tmp_path: Path) -> None:
    with Daemon(tmp_path, config=f'[attribution]\njob_directory = "{tmp_path}/jobs"\n') as daemon:
        hook(daemon, "start")
        assert not daemon.logged("Traceback")


@pytest.mark.needs("root")
def test_service_reads_files_of_root_and_others_do_not() -> None:
    with tempfile.TemporaryDirectory() as name:  # tmp_path is for root alone
        folder = Path(name)
        folder.chmod(0o755)
        runtime = folder / "run"
        runtime.mkdir()
        os.chown(runtime, 4242, 4343)
        environment = {
            **PATIENT_JOB,
            "SLURM_JOB_ID": "12",
            "TELEMETRY_ATTRIBUTION_JOB_DIRECTORY": f"{folder}/jobs",
            "TELEMETRY_STATE_RUNTIME_DIRECTORY": str(runtime),
        }
        subprocess.run([TELEMETRY, "job", "start"], env=environment, check=True, timeout=PATIENCE_SECONDS)
        read = [
            os.waitstatus_to_exitcode(_as_user(folder / "jobs/slurm-12.json", user, group))
            for user, group in ((4242, 4343), (4444, 4444))
        ]
        assert read == [0, 1]


def _as_user(path: Path, user: int, group: int) -> int:
    """Return the wait status of a child that opens the file as that user."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]
