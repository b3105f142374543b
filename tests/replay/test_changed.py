"""A recording that is cut, goes away, grows or is replaced, also while it is played."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kits.waiting import comes_true
from replay.plays import LOADED, MINUTE, capture, made, made_of, played, shown
from telemetry_daemon.recording.record import Recorder
from telemetry_daemon.replay.node import ReplayNode
from telemetry_daemon.replay.player import Playing
from telemetry_daemon.times import Clock


def test_a_cut_one_is_played_to_its_end_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl.gz"
    shown(tmp_path, MINUTE)
    path.write_bytes(path.read_bytes()[:-40])
    node = ReplayNode(path, LOADED, Clock(), Playing())
    assert node.survey.length < 60
    assert "the recording " in node.warnings()[0]
    node.close()


def test_a_recording_that_goes_away_while_it_is_played_is_told_and_what_is_shown_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with played(tmp_path, MINUTE, Playing(loops=False), at="20s") as it:
        assert comes_true(lambda: bool(it.temperatures()))
        (tmp_path / "recording.jsonl.gz").unlink()
        it.node.player.seek(5.0)
        assert comes_true(lambda: any("cannot be played on" in record.message for record in caplog.records))
        assert comes_true(lambda: it.node.player.how() == "cannot be played on")
        assert it.node.player.place == pytest.approx(20.0, abs=5.0)
        before = it.temperatures()
        assert None not in before
        time.sleep(0.5)
        assert it.temperatures() == before


def test_what_is_recorded_on_while_it_is_played_is_not_played(tmp_path: Path) -> None:
    with Recorder.to_file(tmp_path / "recording.jsonl") as recorder:
        for each in MINUTE:
            recorder.add(each)
        it = made_of(tmp_path / "recording.jsonl", Playing(speed=100.0, loops=False))
        recorder.add(capture(80, "20 20"))
    it.node.play(it.store, it.history)
    assert comes_true(lambda: it.node.player.how() == "100 ×, ended")
    assert it.temperatures() == [99.0, None]
    it.node.close()


def test_another_file_in_its_place_is_not_played(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with played(tmp_path, MINUTE, Playing(loops=False), at="20s") as it:
        assert it.comes(61.0, 50.0)
        made(tmp_path, [capture(at, "20 20") for at in range(60)])
        it.node.player.seek(5.0)
        assert comes_true(lambda: it.node.player.how() == "cannot be played on")
        assert "another file was put in its place; begin anew to play that" in str(vars(caplog.records[-1])["error"])
        assert it.temperatures()[1] == 50.0
