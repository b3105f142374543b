"""The reader of steps: files that jobs write, in a folder where every user may write anything."""

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.waiting import comes_true
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.steps import MAX_NEW_RANKS_PER_USER, StepsReader
from telemetry_daemon.state.steps import StepMetrics
from telemetry_parsers import steps
from telemetry_parsers.model import Capture, MergedDevice, Output, Report
from telemetry_parsers.owners.privacy import Privacy
from telemetry_parsers.ownership import DeviceName, PartSeconds, StepCounts
from telemetry_profile.files.publish import publish

POLL = steps.PARSER.polls[0]
UUID = "GPU-8a56f2d0-7c1f-4a11-9c5e-000000000000"
PARTS = (PartSeconds("compute", 8.5), PartSeconds("data", 0.25))
COUNTS = StepCounts("", 0, "1234", "0", DeviceName("3", "index", "3"), 120.0, 4096.0, 2.5e15, PARTS)


@dataclass(frozen=True)
class Settings:
    directory: str = "/steps"
    expire_after: float = 900.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "steps"
    path.mkdir()
    path.chmod(0o1777)
    return path


def captured(folder: Path, expire_after: float = 900.0) -> Capture:
    return StepsReader(str(folder.parent), Settings(expire_after=expire_after)).read(POLL, Targets())


def file_of(**fields: object) -> dict[str, object]:
    required = {"schema": steps.SCHEMA, "job_id": "1234", "rank": 0, "card": {"uuid": UUID}, "steps": 5}
    return {"file": "a.json", "uid": 1000, **required, **fields}


def report_on(files: list[dict[str, object]]) -> Report:
    output = Output(steps.SOURCE, status=0, data=files)
    return steps.parse(Capture(steps.SOURCE, POLL.name, POLL.request, (output,), None, 0.0, 0.0, 1.7e9, 1.0))


def read_steps(folder: Path) -> Report:
    return steps.parse(captured(folder))


def test_published_steps_are_read(folder: Path) -> None:
    path = publish(folder, COUNTS)
    read = read_steps(folder).steps
    assert [replace(file, file="", user_id=0) for file in read] == [COUNTS]
    assert (read[0].file, read[0].user_id) == (path.name, os.geteuid())


def test_a_file_that_is_written_no_more_or_from_the_future_is_passed_over(folder: Path) -> None:
    path = publish(folder, COUNTS)
    assert len(read_steps(folder).steps) == 1
    assert comes_true(lambda: steps.parse(captured(folder, expire_after=0.01)).steps == ())
    os.utime(path, (time.time() + 3600,) * 2)
    assert read_steps(folder).steps == ()


def test_of_two_files_of_a_rank_the_first_counts_until_it_is_quiet(folder: Path) -> None:
    reader = StepsReader(str(folder.parent), Settings())

    def read() -> Capture:
        return reader.read(POLL, Targets())

    publish(folder, COUNTS).rename(folder / "z.json")
    assert [file["is_quiet"] for file in read().outputs[0].data] == [False]
    publish(folder, replace(COUNTS, steps=10**6)).rename(folder / "a.json")
    report = steps.parse(read())
    assert [step.file for step in report.steps] == ["z.json"]
    assert "same rank" in report.problems[0].text
    later = [dict(file, is_quiet=file["file"] == "z.json") for file in read().outputs[0].data]
    assert [counts.file for counts in report_on(later).steps] == ["a.json"]


def test_the_files_of_a_job_are_those_of_the_user_who_reported_it_first() -> None:
    first = file_of(uid=1000, rank=0, is_quiet=True)
    report = report_on([first, file_of(uid=1001, rank=0), file_of(uid=1001, rank=1), file_of(uid=1000, rank=2)])
    assert [(step.user_id, step.rank) for step in report.steps] == [(1000, "0"), (1000, "2")]
    assert [problem.text for problem in report.problems] == ["reports a job that another user already reports"] * 2


def test_a_user_who_renames_ranks_at_each_write_makes_a_bounded_number_of_series(folder: Path) -> None:
    reader = StepsReader(str(folder.parent), Settings())
    names: set[tuple[str, str]] = set()
    for write in range(MAX_NEW_RANKS_PER_USER // 200 + 2):
        for number in range(200):
            (folder / f"{number}.json").write_text(json.dumps(file_of(job_id=f"{write}-{number}")))
        names |= {(step.job_id, step.rank) for step in steps.parse(reader.read(POLL, Targets())).steps}
    assert len(names) == MAX_NEW_RANKS_PER_USER
    (folder / "0.json").write_text(json.dumps(file_of(job_id="0-0", steps=9)))
    read = steps.parse(reader.read(POLL, Targets())).steps
    assert [counts.steps for counts in read if counts.job_id == "0-0"] == [9.0]


@pytest.mark.parametrize(
    "fields",
    [
        {"seconds": [[]] * 500},
        {"card": {"uuid": {"a": "b"}}},
        {"seconds": {str(number): 1 for number in range(9)}},
        {"job_id": "ü" * 65},
    ],
)
def test_large_fields_are_not_kept(folder: Path, fields: dict[str, object]) -> None:
    (folder / "a.json").write_text(json.dumps({**file_of(), **fields}))
    (content,) = captured(folder).outputs[0].data
    assert content.keys() == {"file", "uid", "problem", "is_quiet"}


def test_a_profile_that_is_published_leaves_the_file_of_the_job_as_it_is(folder: Path) -> None:
    job = folder / f"{COUNTS.job_id}-{COUNTS.rank}-{os.getuid()}.json"
    job.write_text("{}")
    assert publish(folder, COUNTS) != job
    assert job.read_text() == "{}"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(changed=st.dictionaries(st.sampled_from(["file", "uid", *file_of()]), _VALUES, min_size=1, max_size=3))
def test_file_of_any_content_does_not_affect_others(changed: dict[str, object]) -> None:
    report = report_on([{**file_of(job_id="other"), **changed}, file_of(uid=2000)])
    assert (report.outcome, [step.job_id for step in report.steps][-1:]) == ("ok", ["1234"])
    for counts in report.steps:
        numbers = (
            counts.steps,
            counts.tokens or 0.0,
            counts.flops or 0.0,
            *(spent.seconds for spent in counts.seconds),
        )
        assert all(0 <= number <= 1e24 for number in numbers)
        assert counts.job_id.isprintable()
        assert counts.rank.isprintable()


def test_jobs_that_are_not_reported_by_name_stay_different_ones() -> None:
    counted = StepMetrics(Privacy("name", "name", "none", b"key"))
    counts = report_on([file_of(job_id="secret-one"), file_of(job_id="secret-two")]).steps
    samples = counted.samples(counts, [MergedDevice("nvidia", 0, UUID, "nvidia0", "H100", UUID)])
    jobs = [dict(sample.labels)["job_id"] for sample in samples["telemetry_steps_total"]]
    assert len(set(jobs)) == 2
    assert "secret" not in "".join(jobs)


def test_of_one_user_a_bounded_number_of_files_is_read(folder: Path) -> None:
    for number in range(steps.MAX_FILES_PER_USER + 3):
        publish(folder, replace(COUNTS, rank=str(number)))
    report = read_steps(folder)
    assert len(report.steps) == steps.MAX_FILES_PER_USER
    assert len(report.problems) == 3


@pytest.mark.needs("root")
@pytest.mark.parametrize("files", [5_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_the_files_of_one_user_hide_no_file_of_others(folder: Path, files: int) -> None:
    jobs = [str(number) for number in range(20)]
    for job in jobs:
        os.chown(publish(folder, replace(COUNTS, job_id=job)), 3000 + int(job), -1)
    for number in range(files):
        path = folder / f"{number:05}.json"
        path.touch()
        os.chown(path, 2000, -1)
    assert sorted(counts.job_id for counts in read_steps(folder).steps) == sorted(jobs)


@pytest.mark.parametrize(("mode", "state"), [(0o1777, None), (0o755, None), (0o777, "failed"), (0o775, "failed")])
def test_a_folder_whose_files_anybody_can_replace_is_refused(folder: Path, mode: int, state: str | None) -> None:
    publish(folder, COUNTS)
    folder.chmod(mode)
    failure = captured(folder).failure
    assert (failure.state if failure else None) == state
    assert failure is None or "chmod +t" in failure.text


def test_without_the_folder_the_source_is_missing(tmp_path: Path) -> None:
    failure = captured(tmp_path / "steps").failure
    assert failure is not None
    assert failure.state == "missing"


@pytest.mark.parametrize(
    ("card", "way", "value"),
    [
        ({"uuid": "GPU-1"}, "uuid", "GPU-1"),
        ({"bus_id": "00000000:3B:00.0"}, "bus_id", "0000:3b:00.0"),
        ({"bus_id": "3b:00.0"}, "bus_id", "0000:3b:00.0"),
        ({"index": 1, "visible": "4,5"}, "index", "5"),
        ({"index": 0, "visible": "MIG-abc"}, "uuid", "MIG-abc"),
        ({"index": 2}, "index", "2"),
    ],
)
def test_a_card_is_named_as_the_job_knows_it(card: dict[str, object], way: str, value: str) -> None:
    found = steps.parse_file({"schema": steps.SCHEMA, "job_id": "1", "rank": 0, "card": card, "steps": 1}).card
    assert found is not None
    assert (found.way, found.value) == (way, value)
