"""Job files after repeated prologs, after late, repeated or missing epilogs, and for requeued jobs."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.readers.jobs.environment import Job
from telemetry_daemon.readers.jobs.files import TooManyFilesError, file_name, record_end, record_start


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OwnFolder]:
    (tmp_path / "jobs").mkdir(mode=0o755)
    with OwnFolder.at(tmp_path / "jobs") as found:
        yield found


FIRST, AGAIN = Job("slurm", "12", "12", run="0", devices=("0",)), Job("slurm", "12", "12", run="1", devices=("1",))
NOW = time.time()


def kept(opened: OwnFolder, job: Job = FIRST) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(opened.read(file_name(job.scheduler, job.id), 1 << 16))
    return found


def test_second_prolog_starts_no_second_job(opened: OwnFolder) -> None:
    record_start(opened, FIRST, NOW)
    record_start(opened, Job("slurm", "12", "12", run="0", user="anna"), NOW + 9)
    assert (kept(opened)["started"], kept(opened)["user"], kept(opened)["devices"]) == (NOW, "anna", ["0"])


@pytest.mark.parametrize("with_end", [True, False], ids=["its epilog came", "its epilog never came"])
def test_requeued_job_starts_again(opened: OwnFolder, with_end: bool) -> None:  # a case of the table
    record_start(opened, FIRST, NOW)
    if with_end:
        record_end(opened, FIRST, NOW + 5)
    record_start(opened, AGAIN, NOW + 9)
    assert (kept(opened)["started"], kept(opened)["ended"], kept(opened)["devices"]) == (NOW + 9, None, ["1"])


def test_late_epilog_does_not_end_the_next_run(opened: OwnFolder) -> None:
    record_start(opened, AGAIN, NOW)
    record_end(opened, FIRST, NOW + 1)
    assert kept(opened)["ended"] is None
    record_end(opened, AGAIN, NOW + 2)
    assert kept(opened)["ended"] == NOW + 2


def test_epilogs_without_a_running_job_change_nothing(opened: OwnFolder) -> None:
    record_end(opened, FIRST, NOW)
    assert opened.modification_times() == {}
    record_start(opened, FIRST, NOW)
    record_end(opened, FIRST, NOW + 1)
    record_end(opened, FIRST, NOW + 5)
    assert kept(opened)["ended"] == NOW + 1


def test_ended_jobs_are_removed_after_an_hour(tmp_path: Path, opened: OwnFolder) -> None:
    for number, age in (("1", 4000), ("2", 3000), ("3", 4000), ("4", 4000)):
        job = Job("slurm", number, number)
        record_start(opened, job, NOW - 9000)
        if number != "3":
            record_end(opened, job, NOW - age)
        os.utime(tmp_path / "jobs" / file_name("slurm", number), (NOW - age, NOW - age))
    plain = {**kept(opened, Job("slurm", "4", "4")), "ended": None, "boot_id": "another"}
    (tmp_path / "jobs/slurm-4.json").write_text(json.dumps(plain))
    os.utime(tmp_path / "jobs/slurm-4.json", (NOW - 4000, NOW - 4000))
    (tmp_path / "jobs/notes.txt").write_text("of another program")
    record_start(opened, FIRST, NOW)
    record_end(opened, FIRST, NOW)
    assert sorted(opened.modification_times()) == ["notes.txt", "slurm-12.json", "slurm-2.json", "slurm-3.json"]


def test_full_folder_drops_the_oldest_ended_job(
    tmp_path: Path, opened: OwnFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry_daemon.readers.jobs.files.MAX_FILES", 3)
    for number, age in (("1", 300), ("2", 200), ("3", 10)):
        record_start(opened, Job("slurm", number, number), NOW - 400)
        record_end(opened, Job("slurm", number, number), NOW - age)
        os.utime(tmp_path / "jobs" / file_name("slurm", number), (NOW - age, NOW - age))
    record_start(opened, FIRST, NOW)
    assert sorted(opened.modification_times()) == ["slurm-12.json", "slurm-3.json"]


def test_old_files_are_removed_in_portions(tmp_path: Path, opened: OwnFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry_daemon.readers.jobs.files._MAX_REMOVED", 2)
    monkeypatch.setattr("telemetry_daemon.readers.jobs.files.MAX_FILES", 5)
    for number in range(5):
        record_start(opened, Job("slurm", str(number), ""), NOW - 9_000)
        record_end(opened, Job("slurm", str(number), ""), NOW - 8_000)
        os.utime(tmp_path / "jobs" / file_name("slurm", str(number)), (NOW - 8_000 + number,) * 2)
    record_start(opened, FIRST, NOW)
    assert sorted(opened.names()) == ["slurm-12.json", "slurm-2.json", "slurm-3.json", "slurm-4.json"]
    record_end(opened, FIRST, NOW)
    assert sorted(opened.names()) == ["slurm-12.json", "slurm-4.json"]


def test_folder_full_of_running_jobs_refuses_more(opened: OwnFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry_daemon.readers.jobs.files.MAX_FILES", 1)
    record_start(opened, AGAIN, NOW)
    with pytest.raises(TooManyFilesError):
        record_start(opened, Job("slurm", "13", "13"), NOW)
    record_start(opened, AGAIN, NOW)
