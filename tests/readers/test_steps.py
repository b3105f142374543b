"""The reader of steps: what jobs write, in a folder where everybody may write anything."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from telemetry_daemon.profiling.publish import publish
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.steps import LARGEST_BYTES, StepsReader
from telemetry_parsers import steps
from telemetry_parsers.model import Capture, Report
from telemetry_parsers.ownership import DeviceName, PartSeconds, StepCounts

POLL = steps.PARSER.polls[0]
COUNTS = StepCounts(
    "",
    0,
    "1234",
    "0",
    DeviceName("3", "index", "3"),
    120.0,
    4096.0,
    2.5e15,
    (PartSeconds("compute", 8.5), PartSeconds("data", 0.25)),
)


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


def told(folder: Path) -> Report:
    return steps.parse(captured(folder))


def test_what_is_published_is_read(folder: Path) -> None:
    path = publish(folder, COUNTS)
    read = told(folder).steps
    assert [replace(one, file="", user_id=0) for one in read] == [COUNTS]
    assert (read[0].file, read[0].user_id) == (path.name, os.geteuid())


def test_a_good_file_is_read_beside_a_thousand_bad_ones(folder: Path) -> None:
    bad = ("{", "[]", '{"steps": NaN}', '{"schema": "telemetry.steps/1"}', "\x00" * 4000, "[" * 3000, '{"a":' * 500)
    for number in range(1000):
        (folder / f"bad-{number}.json").write_text(bad[number % len(bad)])
    os.mkfifo(folder / "pipe.json")
    (folder / "link.json").symlink_to("/etc/passwd")
    (folder / "folder.json").mkdir()
    (folder / "large.json").write_bytes(b" " * (LARGEST_BYTES + 1))
    publish(folder, COUNTS)
    report = told(folder)
    assert [one.job_id for one in report.steps] == ["1234"]
    assert 0 < len(report.problems) < 100


def test_a_file_that_is_written_no_more_is_passed_over(folder: Path) -> None:
    publish(folder, COUNTS)
    time.sleep(0.05)
    assert steps.parse(captured(folder, expire_after=0.01)).steps == ()
    assert len(steps.parse(captured(folder)).steps) == 1


def test_a_file_from_the_future_is_passed_over(folder: Path) -> None:
    path = publish(folder, COUNTS)
    later = time.time() + 3600
    os.utime(path, (later, later))
    assert told(folder).steps == ()


def test_of_two_files_of_a_rank_the_first_goes_on_telling(folder: Path) -> None:
    reader = StepsReader(str(folder.parent), Settings())
    first = folder / "z.json"
    publish(folder, COUNTS).rename(first)
    assert len(steps.parse(reader.read(POLL, Targets())).steps) == 1
    publish(folder, replace(COUNTS, steps=10**6)).rename(folder / "a.json")
    report = steps.parse(reader.read(POLL, Targets()))
    assert [one.file for one in report.steps] == ["z.json"]
    assert "same rank" in report.problems[0].text


def test_of_one_user_a_bounded_number_of_files_is_read(folder: Path) -> None:
    for number in range(steps.MOST_FILES_OF_A_USER + 3):
        publish(folder, replace(COUNTS, rank=str(number)))
    report = told(folder)
    assert len(report.steps) == steps.MOST_FILES_OF_A_USER
    assert len(report.problems) == 3


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
    found = steps.counts_in({"schema": steps.SCHEMA, "job_id": "1", "rank": 0, "card": card, "steps": 1}).card
    assert found is not None
    assert (found.way, found.value) == (way, value)


def test_a_file_that_was_not_written_again_is_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(folder, COUNTS)
    monkeypatch.setattr("telemetry_daemon.readers.steps._TICK_SECONDS", -1.0)
    reader = StepsReader(str(folder.parent), Settings())
    reader.read(POLL, Targets())
    read: list[str] = []
    monkeypatch.setattr("telemetry_daemon.readers.steps.json.loads", lambda text, **_more: read.append(text) or {})
    assert len(steps.parse(reader.read(POLL, Targets())).steps) == 1
    assert read == []
