"""Prolog and epilog in a real Slurm: the daemon reads the jobs, and no failure of telemetry drains the node."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.test_hooks import USELESS
from kits.captures import ROOT
from kits.daemon import Daemon
from kits.fake_mthreads_gmi import REFUSAL, TOOL, query_json
from kits.fake_tools import Answer, ToolFolder
from kits.slurm import Slurm
from kits.waiting import until
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.jobs.reader import JobsReader
from telemetry_parsers.owners.job_files import SLURM
from telemetry_parsers.ownership import Claim

pytestmark = [pytest.mark.needs("slurmctld", "slurmd", "sbatch", "root"), pytest.mark.long, pytest.mark.timeout(600)]

HOOKS = ROOT / "deploy/slurm"
TELEMETRY = Path(sys.executable).with_name("telemetry")


class Site:
    """A folder for hooks and job files; the hooks find `telemetry` in its folder of programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "telemetry-jobs"
        self.program = folder / "bin/telemetry"
        self.program.parent.mkdir()
        for name in ("prolog", "epilog"):
            text = (HOOKS / f"{name}.sh").read_text()
            assert "\nPATH=/usr/local/sbin:" in text
            elsewhere = f"\nTELEMETRY_ATTRIBUTION_JOB_DIRECTORY={self.jobs}\nexport TELEMETRY_ATTRIBUTION_JOB_DIRECTORY"
            text = text.replace("\nPATH=/usr/local/sbin:/usr/local/bin:", f"{elsewhere}\nPATH={self.program.parent}:")
            self.hook(name).write_text(text)
            self.hook(name).chmod(0o755)

    def hook(self, name: str) -> Path:
        return self.folder / f"{name}.sh"

    def install(self, text: str) -> None:
        self.program.unlink(missing_ok=True)
        if text:
            self.program.write_text(text)
            self.program.chmod(0o755)

    def record(self, job: str) -> dict[str, Any]:
        path = self.jobs / f"slurm-{job}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def claims(self) -> dict[str, Claim]:
        class Settings:
            job_directory = str(self.jobs)
            job_maps = ()

        report = SLURM.parse(JobsReader("", Settings()).read(SLURM.polls[0], Targets()))
        assert report.problems == ()
        return {claim.owner.name: claim for claim in report.claims}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def slurm(site: Site) -> Iterator[Slurm]:
    with Slurm(site.folder / "slurm", site.hook("prolog"), site.hook("epilog")) as running:
        yield running


def test_jobs_are_reported_from_prolog_to_epilog(site: Site, slurm: Slurm) -> None:
    site.install(f'#!/bin/sh\nexec {TELEMETRY} "$@"\n')
    first, second = slurm.submit("sleep 600"), slurm.submit("sleep 600")
    until(lambda: slurm.job(first) == slurm.job(second) == "RUNNING", "both jobs run")
    until(lambda: site.record(first) and site.record(second), "their prologs came")
    claims = site.claims()
    assert {claims[job].names[0].text for job in (first, second)} == {"0", "1"}
    assert {claim.owner.user for claim in claims.values()} == {"root"}
    assert {claim.owner.partition for claim in claims.values()} == {"gpu"}
    assert all(claim.lives is None and claim.ended is None for claim in claims.values())

    slurm.cancel(first)
    until(lambda: site.record(first).get("ended"), "the epilog of the killed job came")
    ended = site.claims()[first]
    assert ended.lives is False
    assert ended.started is not None
    assert ended.ended is not None
    assert ended.ended >= ended.started

    slurm.requeue(second)
    until(lambda: site.record(second).get("run") == "1", "the prolog of the second run came")
    again = site.claims()[second]
    assert again.started is not None
    assert again.started > (claims[second].started or 0)
    assert (again.ended, again.names[0].way) == (None, "minor")
    slurm.cancel(second)
    until(lambda: slurm.state() == "idle", "the node is free")
    assert site.record(second)["ended"] >= again.started


def test_broken_telemetry_drains_no_node(site: Site, slurm: Slurm) -> None:
    for what, text in USELESS.items():
        site.install(text)
        job = slurm.submit("true")
        until(lambda job=job: slurm.job(job) == "COMPLETED", f"a job ends well: telemetry is {what}")
        until(lambda: slurm.state() == "idle", f"the node is free again: telemetry is {what}")
    assert not site.jobs.exists()
    site.hook("prolog").write_text("#!/bin/sh\nexit 1\n")
    slurm.submit("true")
    until(lambda: "drain" in slurm.state(), "the node is drained by a prolog that fails")


@pytest.mark.parametrize(
    "is_reachable", [True, False], ids=["the hook reaches the daemon", "the hook does not reach it"]
)
def test_short_jobs_in_a_row_have_a_record_each(site: Site, slurm: Slurm, tmp_path: Path, is_reachable: bool) -> None:
    runtime = tmp_path / ("run" if is_reachable else "elsewhere")
    site.install(f'#!/bin/sh\nTELEMETRY_STATE_RUNTIME_DIRECTORY={runtime} exec {TELEMETRY} "$@"\n')
    tools = ToolFolder(tmp_path / "tools")
    tools.answers(TOOL, {"-q --json": Answer(query_json())}, REFUSAL)
    config = f'[attribution]\nenabled = true\njob_directory = "{site.jobs}"\n[sources.mthreads-gmi]\ninterval = 1.0\nmode = "always"\n'
    with Daemon(tmp_path, config, environment={"PATH": tools.search_path}) as daemon:
        daemon.until(lambda: daemon.document()["devices"])
        # One after another: each job needs both processors of the node.
        jobs = [slurm.submit(f"sleep {seconds}", processors=2) for seconds in (5, 7, 9, 6, 5, 30, 8, 5, 6, 7)]
        until(lambda: set(jobs) <= slurm.completed().keys(), "all jobs have ended", 300.0)
        ledger = tmp_path / "state" / "jobs.jsonl"
        until(lambda: ledger.exists() and len(ledger.read_text().splitlines()) >= len(jobs), "all have a record", 300.0)
    records = {record["owner"]["name"]: record for record in map(json.loads, ledger.read_text().splitlines())}
    for job in jobs:
        begun, ended = slurm.completed()[job]
        # Slurm has whole seconds only, and its hooks start late on a busy machine.
        assert records[job]["start"]["time"] == pytest.approx(begun, abs=4.5)
        assert records[job]["end"]["time"] == pytest.approx(ended, abs=4.5)
        assert records[job]["seconds"] == pytest.approx(ended - begun, abs=4.5)
