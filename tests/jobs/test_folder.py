"""The folder of job files: jobs are read at once even if no hook reaches the daemon; short jobs have a record."""

import os
from pathlib import Path

import pytest

from kits.billed_node import START, Node, by_name, has, job
from kits.daemon import Daemon
from telemetry_daemon.service.owners import JobFolderWatcher
from telemetry_parsers.ownership import Claim, DeviceName


def test_changed_folder_is_read(tmp_path: Path) -> None:
    read: list[str] = []
    folder = JobFolderWatcher(str(tmp_path / "jobs"), read.append)
    folder.check()
    assert read == []
    (tmp_path / "jobs").mkdir()
    os.utime(tmp_path / "jobs", (START, START))
    folder.check()
    assert read == ["slurm", "pbs", "flux"]
    folder.check()
    assert len(read) == 3
    (tmp_path / "jobs" / "slurm-1.json").write_text("{}")
    folder.check()
    assert len(read) == 6


def test_change_in_the_same_clock_tick_is_read(tmp_path: Path) -> None:
    read: list[str] = []
    folder = JobFolderWatcher(str(tmp_path), read.append)
    folder.check()
    changed = tmp_path.stat().st_mtime_ns
    (tmp_path / "slurm-1.json").write_text("{}")
    os.utime(tmp_path, ns=(changed, changed))
    folder.check()
    assert len(read) == 6


def test_job_without_a_working_hook_is_read(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir(mode=0o755)
    with Daemon(tmp_path, config=f'[attribution]\nenabled = true\njob_directory = "{jobs}"\n') as daemon:
        daemon.until_state("slurm", "missing")
        (tmp_path / "run" / "control.sock").unlink()
        new = jobs / ".new"
        new.write_text('{"scheduler": "slurm", "id": "12", "user": "anna", "devices": ["0"], "started": 1.0}')
        new.rename(jobs / "slurm-12.json")
        daemon.until_state("slurm", "ok")


def unseen(name: str, begin: float, end: float) -> Claim:
    return Claim(job(name), names=(DeviceName("0", "index", "0"),), started=START + begin, ended=START + end)


def node() -> Node:
    made = Node(power=100.0)
    made.poll()
    made.runs(60.0)
    return made


def test_job_between_two_polls_has_a_record() -> None:
    it = node()
    it.claims = (unseen("7", 20.0, 45.0),)
    it.runs(200.0)
    it.claims = ()
    records = by_name(it.ends())
    assert (records["7"].start.time, records["7"].end.time) == (START + 20.0, START + 45.0)
    assert records["7"].seconds == pytest.approx(25.0)
    assert records["7"].energy_joules == pytest.approx(2500.0)
    assert records["7"].cards[0].is_allocated
    assert records["nobody"].energy_joules == pytest.approx(100.0 * 260.0 - 2500.0, rel=0.02)


def test_short_job_is_recorded_once() -> None:
    it = node()
    it.gives(has(job("stray"), started=START + 1.0, is_allocated=False))
    it.runs(20.0)
    it.claims = (unseen("7", 62.0, 72.0),)
    it.runs(300.0)
    records = [record for record in it.ends() if record.owner.name == "7"]
    assert [record.seconds for record in records] == [pytest.approx(10.0)]


def test_job_before_the_restart_is_not_added_again() -> None:
    it = node()
    it.claims = (unseen("7", 20.0, 45.0),)
    it.runs(200.0)
    again = it.restarted(5.0)
    again.runs(200.0)
    assert [record.owner.name for record in again.ends()].count("7") == 1


def test_seen_job_is_not_added_again() -> None:
    it = node()
    it.gives(has(job("7"), started=START + 50.0))
    it.runs(30.0)
    it.gives()
    it.claims = (unseen("7", 50.0, 88.0),)
    it.runs(300.0)
    records = [record for record in it.ends() if record.owner.name == "7"]
    assert [record.seconds for record in records] == [pytest.approx(38.0)]
