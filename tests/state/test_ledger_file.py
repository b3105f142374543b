"""The ledger's files: saved state is loaded, records are written once, and a broken file costs only itself."""

import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.billed_node import START, Node, has, job, pod
from kits.waiting import PATIENCE_SECONDS
from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.service.owners import OwnerAccounting
from telemetry_daemon.state import ledger_file
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.ledger_file import (
    JOBS,
    LEDGER,
    ROTATED_JOBS,
    LedgerFile,
    SavedLedger,
    decode_ledger,
    encode_ledger,
)
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters.documents import job_json
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.job_record import JobRecord


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def file_in(folder: Path, clock: Time | None = None) -> LedgerFile:
    return LedgerFile(str(folder / "state"), clock or Time())


def worked() -> Node:
    """Return a node on which one job has ended and a pod continues."""
    node = Node(
        cards=("GPU-a", "GPU-b"), more={"temperature_celsius": 61.0, "memory_used_bytes": 3e9, "throttled": 1.0}
    )
    node.gives(has(job("7"), 0.5, START), has(job("8"), 0.25, memory=5e8))
    node.gives(has(pod("a")), card="GPU-b")
    node.runs(30)
    node.gives()
    node.runs(70)
    return node


def lines_of(folder: Path, name: str = JOBS) -> list[JobRecord]:
    return [job_json.read(line) for line in (folder / "state" / name).read_bytes().splitlines()]


TEXT = encode_ledger(worked().kept()).encode()


def test_saved_ledger_is_loaded_and_continues(tmp_path, caplog):
    node, file = worked(), file_in(tmp_path)
    assert file.load() is None
    file.write((), None)
    assert (caplog.records, list(tmp_path.iterdir())) == ([], []), "the first start says nothing"
    file.write(node.records, saved := node.kept())
    assert file.load() == saved
    assert [record.owner.name for record in lines_of(tmp_path)] == ["7", "8"]
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()} == {
        LEDGER: 0o600,
        JOBS: 0o600,
    }
    again = node.restarted(0.0, saved=saved)
    again.poll()
    before = {record.id: record for record in saved.jobs}
    for record in again.kept().jobs:
        same = replace(record, gaps=before[record.id].gaps)
        assert same == replace(before[record.id], cards=same.cards, busy_seconds=same.busy_seconds)
        for card, old in zip(record.cards, before[record.id].cards, strict=True):
            assert card.energy_joules == pytest.approx(old.energy_joules)
            assert {name: reading.peak for name, reading in card.readings.items()} == {
                name: reading.peak for name, reading in old.readings.items()
            }


def test_file_is_due_at_once_and_each_minute(tmp_path):
    clock = Time()
    file = file_in(tmp_path, clock)
    assert file.is_due
    file.write((), worked().kept())
    clock.now += 59.0
    assert not file.is_due
    clock.now += 1.0
    assert file.is_due


def test_killed_daemon_leaves_a_gap(tmp_path):
    node, clock = Node(), Time()
    owners = OwnerAccounting(AttributionSettings(), str(tmp_path / "state"), Clock(clock, lambda: node.wall))
    node.ledger = owners.ledger
    node.accumulator = Accumulator(ledger=node.ledger)
    store = Store("node-1", Clock(clock, lambda: node.wall))
    node.poll()
    owners.write(store)
    assert [record.owner.kind for record in saved_of(tmp_path).jobs] == ["nobody"]
    node.runs(2)
    node.gives(has(job("7"), started=START + 2))
    node.runs(2)
    owners.write(store)
    written = saved_of(tmp_path)
    assert {record.owner.name for record in written.jobs} == {"", "7"}
    node.runs(38)
    owners.write(store)
    assert saved_of(tmp_path) == written, "the next minute has not passed, and no owner has appeared"
    restarted = node.restarted(2.0)
    restarted.ledger = OwnerAccounting(
        AttributionSettings(), str(tmp_path / "state"), Clock(clock, lambda: node.wall)
    ).ledger
    restarted.accumulator = Accumulator(ledger=restarted.ledger)
    restarted.poll()
    assert {record.owner.name: [gap.seconds for gap in record.gaps] for record in restarted.kept().jobs} == {
        "": [40.0],
        "7": [40.0],
    }


def saved_of(folder: Path) -> SavedLedger:
    return decode_ledger((folder / "state" / LEDGER).read_bytes())


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 100,
        b"{",
        b"[]",
        b'{"schema":"telemetry.ledger/2"}',
        b"[" * 100_000,
        b'{"schema":"telemetry.ledger/1","boot":7}',
    ],
)
def test_broken_ledger_is_reported_and_replaced(tmp_path, caplog, content):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / LEDGER).write_bytes(content)
    file = file_in(tmp_path)
    assert file.load() is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    file.write((), saved := worked().kept())
    assert file.load() == saved


@given(st.data())
@settings(deadline=None)
def test_changed_ledger_is_refused_or_continues(data):
    text = bytearray(TEXT)
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(32, 126))
    try:
        saved = decode_ledger(bytes(text))
    except CodecError:
        return
    node = Node(saved=saved, now=500.0)
    node.gives(has(job("8")))
    node.runs(140)
    for record in (*node.records, *node.kept().jobs):
        assert job_json.read(job_json.line(record)) == record


@pytest.mark.parametrize("name", [LEDGER, JOBS])
def test_link_in_place_of_a_file_is_not_followed(tmp_path, caplog, name):
    (tmp_path / "elsewhere").write_text("theirs")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / name).symlink_to(tmp_path / "elsewhere")
    node, file = worked(), file_in(tmp_path)
    file.load()
    file.write(node.records, node.kept())
    assert (tmp_path / "elsewhere").read_text() == "theirs"
    if name == JOBS:
        assert "cannot be saved" in caplog.text
        (tmp_path / "state" / JOBS).unlink()
        file.write((), None)
    assert len(lines_of(tmp_path)) == 2


@pytest.mark.parametrize("kind", ["pipe", "folder", "second name"])
def test_irregular_file_is_not_written_to(tmp_path, caplog, kind):
    folder, node = tmp_path / "state", worked()
    folder.mkdir()
    (tmp_path / "other").write_text("theirs")
    make = {"pipe": os.mkfifo, "folder": os.mkdir, "second name": lambda path: os.link(tmp_path / "other", path)}
    make[kind](folder / JOBS)
    file_in(tmp_path).write(node.records, node.kept())
    assert len(caplog.records) == 1
    assert (tmp_path / "other").read_text() == "theirs"


def test_full_disk_loses_no_record(tmp_path, monkeypatch, caplog):
    node, file = worked(), file_in(tmp_path)
    written = os.write
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    file.write(node.records, node.kept())
    file.write((), node.kept())
    assert len(caplog.records) == 1
    monkeypatch.setattr(os, "write", written)
    file.write((), None)
    assert [record.owner.name for record in lines_of(tmp_path)] == ["7", "8"]


def test_incomplete_line_spoils_no_other(tmp_path):
    node, file = worked(), file_in(tmp_path)
    file.write(node.records, None)
    path = tmp_path / "state" / JOBS
    path.write_bytes(path.read_bytes()[:-20])
    file.write(node.records, None)
    good = [line for line in path.read_bytes().splitlines() if line.endswith(b"}]}")]
    assert len(good) == 3


def test_full_file_is_rotated(tmp_path, monkeypatch):
    node, file = worked(), file_in(tmp_path)
    line = len(job_json.line(node.records[0])) + 1
    monkeypatch.setattr(ledger_file, "MAX_JOBS_BYTES", int(2.5 * line))
    for number in range(7):
        file.write([replace(node.records[0], hostname=f"n{number}")], None)
    assert [line.hostname for line in lines_of(tmp_path, ROTATED_JOBS)] == ["n4", "n5"]
    assert [line.hostname for line in lines_of(tmp_path)] == ["n6"]
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [JOBS, ROTATED_JOBS]


def test_completed_record_is_not_loaded_again(tmp_path):
    node, file = worked(), file_in(tmp_path)
    saved = node.kept()
    ended = replace(node.records[0], end=None)
    file.write(node.records, replace(saved, jobs=(*saved.jobs, ended)))
    assert file.load() == saved


def test_hostile_name_stays_on_its_line(tmp_path):
    node = Node()
    node.gives(has(job("7\n{}\x1b[2J\u202e" + "x" * 10_000)))
    node.runs(10)
    node.ends()
    file_in(tmp_path).write(node.records, None)
    (record,) = lines_of(tmp_path)
    assert record.owner.name.startswith("7 {}\ufffd[2J\ufffd")


_DAEMON = """
import sys
from kits.billed_node import *
from telemetry_daemon.state.ledger_file import LedgerFile
file = LedgerFile(sys.argv[1], lambda: 0.0)
node = Node(saved=file.load())
for number in range(100_000):
    node.gives(has(job(str(number // 40))))
    node.runs(2)
    file.write(node.records, node.kept())
    node.records.clear()
    if number == 100:
        print("ready", flush=True)
"""


@pytest.mark.long
def test_killed_daemon_leaves_valid_files(tmp_path):
    for _ in range(3):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, "-c", _DAEMON, str(tmp_path / "state")]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as daemon:
            assert daemon.stdout is not None
            assert daemon.stdout.readline() == "ready\n"
            daemon.send_signal(signal.SIGKILL)
            daemon.wait(PATIENCE_SECONDS)
        saved = file_in(tmp_path).load()
        assert saved is not None
        ids = [record.id for record in lines_of(tmp_path)]
        assert len(ids) == len(set(ids))
        assert not {record.id for record in saved.jobs} & set(ids)
    assert json.loads((tmp_path / "state" / LEDGER).read_bytes())["schema"] == "telemetry.ledger/1"
