"""The reader of jobs: files of hooks, folders of other tools, and hostile files among them."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.jobs.environment import Job
from telemetry_daemon.readers.jobs.files import file_name, record_end, record_start
from telemetry_daemon.readers.jobs.reader import JobsReader
from telemetry_parsers.model import Capture, Report
from telemetry_parsers.owners import job_files, job_maps

PARSERS = {"slurm": job_files.SLURM, "pbs": job_files.PBS, "flux": job_files.FLUX, "job-map": job_maps.PARSER}
LONG_AGO = time.time() - 3600


@dataclass(frozen=True)
class Settings:
    job_directory: str
    job_maps: tuple[str, ...] = ()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[OwnFolder]:
    (tmp_path / "jobs").mkdir(mode=0o755)
    with OwnFolder.at(tmp_path / "jobs") as opened:
        yield opened


def reader(root: Path, *maps: str) -> JobsReader:
    return JobsReader(str(root), Settings("/jobs", maps))


def captured(of: JobsReader, source: str) -> Capture:
    return of.read(PARSERS[source].polls[0], Targets())


def report_of(of: JobsReader, source: str) -> Report:
    return PARSERS[source].parse(captured(of, source))


def names(report: Report) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for claim in report.claims:
        found.setdefault(claim.owner.name, []).extend(name.text for name in claim.names)
    return found


def plant(path: Path, text: str, at: float = LONG_AGO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))


def test_files_of_the_hook_are_read(tmp_path: Path, folder: OwnFolder) -> None:
    record_start(
        folder, Job("slurm", "12", "10_2", "sX", "0", "anna", "1000", "physics", "gpu", ("0", "1"), "llm"), LONG_AGO
    )
    record_start(folder, Job("pbs", "3[1].head", "3[1].head", devices=("GPU-1",)), LONG_AGO)
    record_start(folder, Job("flux", "ƒ2Ek", "ƒ2Ek", devices=("2",)), LONG_AGO)
    of = reader(tmp_path)
    slurm = report_of(of, "slurm")
    assert names(slurm) == {"10_2": ["0", "1"]}
    assert slurm.claims[0].keys == ("slurm:12", "sluid:sX")
    owner = slurm.claims[0].owner
    assert (owner.job_name, owner.user, owner.account) == ("llm", "anna", "physics")
    assert slurm.claims[0].started == LONG_AGO
    assert names(report_of(of, "pbs")) == {"3[1].head": ["GPU-1"]}
    assert names(report_of(of, "flux")) == {"ƒ2Ek": ["2"]}


def test_ended_job_is_reported_for_a_minute_with_its_end(
    tmp_path: Path, folder: OwnFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, runs = (Job("slurm", number, number, devices=("0",)) for number in ("12", "13"))
    of = reader(tmp_path)
    record_start(folder, over, LONG_AGO)
    assert report_of(of, "slurm").claims[0].ended is None
    record_start(folder, runs, LONG_AGO)
    record_end(folder, over, LONG_AGO + 60)
    ended, _ = report_of(of, "slurm").claims
    assert (ended.started, ended.ended, ended.lives) == (LONG_AGO, LONG_AGO + 60, False)
    monkeypatch.setattr("telemetry_daemon.readers.jobs.reader._TICK_SECONDS", -1.0)  # as if some time had passed
    monkeypatch.setattr("telemetry_daemon.readers.jobs.reader._REPORTED_SECONDS", -1.0)
    assert names(report_of(of, "slurm")).keys() == {"13"}
    record_start(folder, replace(over, run="1"), LONG_AGO + 90)
    assert names(report_of(of, "slurm")).keys() == {"12", "13"}


def test_the_user_of_a_number_is_looked_up_and_a_job_of_another_boot_has_ended(
    tmp_path: Path, folder: OwnFolder
) -> None:
    plant(tmp_path / "etc/passwd", "anna:x:1000:1000::/:/bin/sh\n")
    record_start(folder, Job("slurm", "12", "12", uid="1000"), LONG_AGO)
    record_start(folder, Job("slurm", "13", "13", uid="1001"), LONG_AGO)
    assert [claim.owner.user for claim in report_of(reader(tmp_path), "slurm").claims] == ["anna", "1001"]
    plant(tmp_path / "proc/sys/kernel/random/boot_id", "another\n")
    assert [claim.lives for claim in report_of(reader(tmp_path), "slurm").claims] == [False, False]


def missing(of: JobsReader, source: str) -> bool:
    failure = captured(of, source).failure
    return failure is not None and failure.state == "missing"


@pytest.mark.parametrize("source", ["slurm", "pbs", "flux", "job-map"])
def test_without_a_folder_the_source_is_missing(tmp_path: Path, source: str) -> None:
    assert missing(reader(tmp_path, "jobstats:/gpustat"), source)


def test_a_scheduler_that_reported_a_job_is_there_without_jobs(tmp_path: Path, folder: OwnFolder) -> None:
    of = reader(tmp_path)
    record_start(folder, Job("slurm", "12", "12"), LONG_AGO)
    assert captured(of, "slurm").failure is None
    folder.remove(file_name("slurm", "12"))
    assert report_of(of, "slurm").outcome == "ok"
    assert report_of(of, "slurm").claims == ()
    assert missing(of, "pbs")


def hostile(root: Path) -> dict[str, str]:
    """Return hostile job files, each with its problem."""
    jobs = root / "jobs"
    plant(root / "secret", '{"id": "99"}')
    (jobs / "slurm-link.json").symlink_to(root / "secret")
    with (jobs / "slurm-large.json").open("wb") as large:
        large.truncate(1 << 30)
    os.mkfifo(jobs / "slurm-pipe.json")
    (jobs / "slurm-folder.json").mkdir()
    plant(jobs / "slurm-nul.json", "\0" * 4096)
    plant(jobs / "slurm-half.json", '{"id": "1')
    plant(jobs / "slurm-empty.json", "")
    plant(jobs / "slurm-deep.json", "[" * 60_000)
    plant(jobs / "slurm-list.json", "[1]")
    (jobs / "slurm-bytes.json").write_bytes(b'{"id": "\xff\xfe"}')
    plant(jobs / "slurm-others.json", '{"id": "99"}')
    os.chown(jobs / "slurm-others.json", 12345, 12345)
    return {
        "slurm-link.json": "link",
        "slurm-large.json": "larger",
        "slurm-pipe.json": "pipe",
        "slurm-folder.json": "folder",
        "slurm-others.json": "belongs to user 12345",
    }


@pytest.mark.needs("root")
def test_hostile_files_do_not_affect_others(tmp_path: Path, folder: OwnFolder) -> None:
    record_start(folder, Job("slurm", "12", "12", devices=("0",)), LONG_AGO)
    output = hostile(tmp_path)
    of = reader(tmp_path)
    report = report_of(of, "slurm")
    assert names(report) == {"12": ["0"]}
    problems = {problem.where: problem.text for problem in report.problems}
    assert all(words in problems[name] for name, words in output.items())
    assert len(report.problems) == 11


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("mode", "owner", "remedy"), [(0o777, 0, "chmod go-w"), (0o775, 0, ""), (0o755, 12345, "chown root")]
)
def test_a_folder_in_which_others_can_write_is_refused(
    tmp_path: Path, folder: OwnFolder, mode: int, owner: int, remedy: str
) -> None:
    record_start(folder, Job("slurm", "12", "12"), LONG_AGO)
    (tmp_path / "jobs").chmod(mode)
    os.chown(tmp_path / "jobs", owner, 0)
    failure = captured(reader(tmp_path), "slurm").failure
    assert (failure is not None) == bool(remedy)
    assert failure is None or remedy in failure.text


def test_no_more_files_are_read_than_there_may_be(
    tmp_path: Path, folder: OwnFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry_daemon.readers.jobs.reader.MAX_FILES", 5)
    for number in range(9):
        record_start(folder, Job("slurm", str(number), str(number)), LONG_AGO)
    assert len(report_of(reader(tmp_path), "slurm").claims) == 5


def test_folders_of_other_tools_are_read(tmp_path: Path) -> None:
    plant(tmp_path / "etc/passwd", "anna:x:1000:1000::/:/bin/sh\n")
    plant(tmp_path / "dcgm/0", "1234\n1235\n")
    plant(tmp_path / "dcgm/1.3", "1236\n")
    plant(tmp_path / "dcgm/.1.swp", "9\n")
    plant(tmp_path / "gpustat/GPU-1", "77 1000\n")
    plant(tmp_path / "gpustat/3", "77 1000\n")
    plant(
        tmp_path / "exporter/2",
        json.dumps({"SLURM_JOB_ID": "88", "SLURM_JOB_USER": "ben", "SLURM_JOB_PARTITION": "mi300"}),
    )
    report = report_of(
        reader(tmp_path, "dcgm:/dcgm", "jobstats:/gpustat", "dme:/exporter", "jobstats:/absent"), "job-map"
    )
    assert names(report) == {"1234": ["0"], "1235": ["0"], "1236": ["1.3"], "77": ["3", "GPU-1"], "88": ["2"]}
    assert {claim.owner.user for claim in report.claims} == {"", "anna", "ben"}
    assert report.problems == ()


def test_incomplete_file_is_no_problem_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = reader(tmp_path, "dme:/exporter")
    plant(tmp_path / "exporter/0", '{"SLURM_JOB', at=time.time())
    report = report_of(of, "job-map")
    assert (report.claims, report.problems) == ((), ())
    plant(tmp_path / "exporter/0", '{"SLURM_JOB_ID": "88"}', at=time.time())
    assert names(report_of(of, "job-map")) == {"88": ["0"]}
    plant(tmp_path / "exporter/0", '{"SLURM_JOB')
    monkeypatch.setattr("telemetry_daemon.readers.jobs.reader._NEW_SECONDS", -1.0)  # as if some time had passed
    assert [problem.text for problem in report_of(of, "job-map").problems] == ["is not JSON"]


def test_the_lists_of_old_cgroups(tmp_path: Path) -> None:
    slurm = tmp_path / "sys/fs/cgroup/devices/slurm_node1"
    plant(slurm / "uid_1000/job_12/devices.list", "c 1:3 rwm\nc 195:0 rwm\nc 195:255 rw\nb 8:0 rwm\nc 226:129 rw\n")
    plant(slurm / "uid_1000/job_13/devices.list", "a *:* rwm\n")
    (slurm / "uid_1001/job_14").mkdir(parents=True)
    assert names(report_of(reader(tmp_path), "slurm")) == {"12": ["195:0", "226:129"]}


@pytest.mark.parametrize("name", ["job_12", "sX"], ids=["by number", "by SLUID"])
def test_a_job_whose_epilog_never_comes_ends_with_its_cgroup(
    tmp_path: Path, folder: OwnFolder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    record_start(folder, Job("slurm", "12", "12", sluid="sX"), LONG_AGO)
    cgroup = tmp_path / "sys/fs/cgroup/system.slice/node1_slurmstepd.scope" / name
    of = reader(tmp_path)
    assert report_of(of, "slurm").claims[0].lives is None  # no step has begun
    (cgroup / "step_extern").mkdir(parents=True)
    assert report_of(of, "slurm").claims[0].lives is True
    (cgroup / "step_extern").rmdir()
    cgroup.rmdir()
    now = time.time()
    assert report_of(of, "slurm").claims[0].lives is None  # its epilog may be running
    monkeypatch.setattr("telemetry_daemon.readers.jobs.reader.time.time", lambda: now + 700)
    (claim,) = report_of(of, "slurm").claims
    assert claim.lives is False
    assert claim.ended is not None
    assert abs(claim.ended - now) < 60


def test_a_job_without_steps_keeps_its_cards(
    tmp_path: Path, folder: OwnFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `Contain` an allocation has a cgroup only while a step runs."""
    record_start(folder, Job("slurm", "12", "12"), LONG_AGO)
    step = tmp_path / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/step_0"
    step.mkdir(parents=True)
    of = reader(tmp_path)
    assert report_of(of, "slurm").claims[0].lives is True
    step.rmdir()
    step.parent.rmdir()
    now = time.time()
    monkeypatch.setattr("telemetry_daemon.readers.jobs.reader.time.time", lambda: now + 9000)
    assert report_of(of, "slurm").claims[0].lives is None
