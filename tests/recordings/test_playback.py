"""A recording is played through its parsers: each capture once, in order, at any speed, from any position."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kits.waiting import comes_true
from recordings import plays
from recordings.plays import BEGUN, LOADED, MINUTE, PARSER, capture, made, made_of, parse, played, shown
from telemetry_daemon.plugins.loading import LoadedParser, ParserSet
from telemetry_daemon.recordings.playback import PAUSE_SECONDS, PlaybackOptions
from telemetry_daemon.recordings.playback_clock import PlaybackClock
from telemetry_daemon.recordings.recorder import Recorder
from telemetry_daemon.recordings.replay_node import ReplayNode
from telemetry_daemon.remote import control_requests
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Capture, Failure, Report


@pytest.mark.parametrize(
    ("at", "temperatures"),
    [
        ("0", [41.0, 50.0]),
        ("10.5", [51.0, 50.0]),
        ("11:07:00", [60.0, 50.0]),
        ("end-1.5", [98.0, 50.0]),
        ("end", [99.0, None]),
    ],
)
def test_past_state_is_shown(tmp_path: Path, at: str, temperatures: list[float | None]) -> None:
    it = shown(tmp_path, [replace(capture, hostname="gpu-17") for capture in MINUTE], at)
    assert it.temperatures() == temperatures
    snapshot = it.store.snapshot()
    assert (snapshot.hostname, it.node.replay_info().hostname) == ("gpu-17", "gpu-17")
    assert snapshot.recorded is not None
    assert snapshot.recorded.shown_time is not None
    assert snapshot.wall_time == pytest.approx(snapshot.recorded.shown_time)
    assert BEGUN <= snapshot.wall_time <= BEGUN + 60


def test_recording_plays_at_its_pace_and_repeats(tmp_path: Path) -> None:
    with played(tmp_path, MINUTE, PlaybackOptions(speed=20.0)) as it:
        assert it.comes(99.0, None)
        assert it.comes(45.0, 50.0), "at the beginning no card is lost"


def test_single_playback_stops_at_the_end(tmp_path: Path) -> None:
    with played(tmp_path, MINUTE, PlaybackOptions(speed=100.0, loops=False)) as it:
        assert it.comes(99.0, None)
        assert comes_true(lambda: it.node.controls.state_text() == "100 ×, ended")
        time.sleep(0.3)  # thirty seconds of the recording: shown readings do not expire
        assert it.temperatures() == [99.0, None]
        it.node.controls.resume()
        assert comes_true(lambda: it.node.controls.state_text() == "100 ×, ended")


def test_seek_from_the_end_changes_the_state_at_once(tmp_path: Path) -> None:
    with played(tmp_path, MINUTE, PlaybackOptions(loops=False), at="end") as it:
        controls = it.node.controls
        assert comes_true(lambda: controls.state_text() == "ended")
        controls.seek(30.0)
        controls.resume()
        assert controls.state_text() in ("", "seeking to 2026-11-18 11:07:11 UTC")
        assert controls.position == pytest.approx(30.0, abs=15.0)
        controls.seek(60.0)
        assert comes_true(lambda: controls.state_text() == "ended")
        controls.toggle()
        assert controls.state_text() in ("", "seeking to 2026-11-18 11:06:41 UTC")
        assert controls.position == pytest.approx(0.0, abs=15.0)


def test_playback_pauses_seeks_and_resumes(tmp_path: Path) -> None:
    with played(tmp_path, MINUTE, PlaybackOptions(loops=False)) as it:
        controls = it.node.controls
        controls.pause()
        controls.seek(30.2)
        assert it.comes(71.0, 50.0)
        time.sleep(0.2)
        assert (controls.position, controls.state_text()) == (30.2, "paused")
        controls.seek(1e9)
        assert it.comes(99.0, None)
        controls.seek(-5.0)
        assert it.comes(41.0, 50.0)
        controls.set_speed(50.0)
        assert controls.state_text() == "50 ×, paused"
        controls.toggle()
        assert it.comes(99.0, None)


def test_control_requests_are_executed_or_refused(tmp_path: Path) -> None:
    asked = {
        ("status", ""): "1 ×",
        ("speed", "2x"): "2 ×",
        ("speed", "0.5"): "0.5 ×",
        **{
            ("speed", bad): f"'{bad}' is not a valid speed; give a number from 0.1 to 100"
            for bad in ("0", "nan", "1e9", "fast")
        },
        ("seek", "soon"): "'soon' is not a time in a recording",
        ("rewind", ""): "'rewind' is unknown; write seek, pause, play, speed, status",
    }
    with played(tmp_path, MINUTE, PlaybackOptions(loops=False)) as it:
        for (action, value), says in asked.items():
            answer = it.node.handlers()["replay"].answer(control_requests.ReplayRequest(action, value))
            assert says in str(answer.get("error") or f"{it.node.controls.speed:g} ×")
            assert ("error" in answer) == says.startswith("'")


def test_playback_resumes_after_a_pause_at_any_speed(tmp_path: Path) -> None:
    with played(tmp_path, [capture(0, "40 50"), capture(0, "40 50", "slow")], PlaybackOptions(speed=100.0)) as it:
        begun = it.node.controls.clock.monotonic
        assert it.comes(40.0, 50.0)
        start = time.monotonic()
        seen = {begun() for _ in range(20) if not time.sleep(0.01)}  # in this time it would repeat a hundred times
        assert len(seen) <= 2 + (time.monotonic() - start) / PAUSE_SECONDS


@pytest.mark.parametrize("keeps_times", [True, False])
def test_old_position_is_shown_until_the_new_one_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_times: bool
) -> None:
    """The old position stays while the parser is busy at the new one; another seek does not wait."""
    may_continue, arrived = threading.Event(), threading.Event()
    may_continue.set()

    def parse_held_up(given: Capture) -> Report:
        if not may_continue.is_set():
            arrived.set()
            may_continue.wait()
        return parse(given)

    monkeypatch.setattr(
        plays, "LOADED", ParserSet((LoadedParser(replace(PARSER, parse=parse_held_up), "tests", is_isolated=False),))
    )
    hours = [capture(at, f"{at // 60} 50") for at in range(0, 7201, 10)]
    with played(tmp_path, hours, PlaybackOptions(keeps_times=keeps_times), at="10m") as it:
        assert it.comes(10.0, 50.0)
        it.node.controls.pause()
        before = it.store.snapshot()
        may_continue.clear()
        it.node.press("}")
        it.node.controls.seek(7200.0)
        assert arrived.wait(30)
        try:
            for goal, hour in ((7200.0, "13:06:40"), (3600.0, "12:06:50")):
                it.node.controls.seek(goal)
                snapshot = it.store.snapshot()
                assert snapshot.recorded is not None
                assert it.temperatures() == [10.0, 50.0]
                assert snapshot.recorded.shown_time == pytest.approx(BEGUN + 610, abs=60)
                assert snapshot.recorded.player_state == f"paused, seeking to 2026-11-18 {hour} UTC"
                assert snapshot.wall_time == pytest.approx(before.wall_time, abs=5)
        finally:
            may_continue.set()
        assert it.comes(60.0, 50.0)
        assert comes_true(lambda: it.node.controls.state_text() == "paused")
        assert it.node.replay_info().shown_time == pytest.approx(BEGUN + 3610)


def test_keys_seek(tmp_path: Path) -> None:
    with played(tmp_path, MINUTE, at="20s") as it:
        it.node.press(" ")
        wanted = it.node.controls.position
        for key in ".,.,}{,x1/":
            it.node.press(key)
            wanted = min(59.0, max(0.0, wanted + {".": 10.0, ",": -10.0, "}": 60.0, "{": -60.0}.get(key, 0.0)))
            assert it.node.controls.position == pytest.approx(wanted, abs=1.5)


def test_keys_change_the_speed_within_its_limits(tmp_path: Path) -> None:
    node = made(tmp_path, MINUTE).node
    assert node.press("+")
    assert node.controls.speed == 2.0
    node.press("-")
    assert node.controls.speed == 1.0
    for key, limit in (("+", 100.0), ("-", 0.1)):
        for _ in range(20):
            node.press(key)
        assert node.controls.speed == limit
    assert not node.press("x")
    node.close()


def test_every_capture_is_played_once_at_any_speed(tmp_path: Path) -> None:
    """At 100 times the speed, a check every second would miss these events."""
    events = [capture(at / 10, "40 50 xid" if at % 10 == 5 else "40 50") for at in range(600)]
    with played(tmp_path, events, PlaybackOptions(speed=100.0, loops=False)) as it:
        assert comes_true(lambda: it.events() == 60.0)
        it.node.controls.seek(0.0)
        assert comes_true(lambda: it.node.controls.state_text() == "100 ×, ended" and it.events() == 60.0)
    assert shown(tmp_path, events, "30s").events() == 30.0


def test_readings_expire_by_the_time_of_the_recording(tmp_path: Path) -> None:
    pause = [capture(0, "40 50"), capture(1, "41 50"), capture(100, "42 50"), capture(101, "43 50")]
    assert shown(tmp_path, pause, "30s").temperatures() == [41.0, 50.0], "they came so seldom"
    silence = [*(capture(at, "40 50") for at in range(30)), capture(120, "42 50"), capture(121, "43 50")]
    assert shown(tmp_path, silence, "32s").temperatures() == [40.0, 50.0]
    assert None in shown(tmp_path, silence, "80s").temperatures() or not shown(tmp_path, silence, "80s").temperatures()


def test_seek_reads_the_half_hour_before_and_older_newest_captures(tmp_path: Path) -> None:
    hours = [
        capture(0, "40 50", "slow"),
        *(capture(at, "40 50 xid" if at in (60, 7000) else f"{at // 100} 50") for at in range(0, 7201, 20)),
    ]
    it = shown(tmp_path, hours)
    assert it.temperatures() == [72.0, 50.0]
    assert it.events() == 1.0
    past = it.history.past()
    assert past.slots * past.slot_seconds == pytest.approx(1800.0, abs=10)
    assert max(past.devices["ACME-0"]["temperature_celsius"].last) == 71.0


def test_a_source_that_failed_fails_again_and_a_missing_one_stays_missing(tmp_path: Path) -> None:
    stuck = Failure("stuck", None, "hangs")
    gone = Failure("missing", None, "not there")
    captures = [capture(at, "40 50") for at in range(5)] + [capture(5, "", failure=stuck)]
    assert [source.state for source in shown(tmp_path, captures).store.snapshot().sources] == ["stuck"]
    captures = [capture(0, "", failure=gone), *(capture(at, "", "slow", gone) for at in range(900))]
    assert [source.state for source in shown(tmp_path, captures).store.snapshot().sources] == ["missing"]


def test_failing_parser_loses_only_its_capture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    captures = [capture(0, "40 50"), capture(1, "41 50"), capture(2, "bug"), capture(2.5, "bug"), capture(3, "43 50")]
    assert shown(tmp_path, captures).temperatures() == [43.0, 50.0]
    assert [record.message for record in caplog.records] == ["parser failed"]


def test_sources_without_a_parser_are_named_and_the_others_played(tmp_path: Path) -> None:
    it = shown(tmp_path, [*MINUTE, capture(60, "x", source="other-smi"), capture(60, "x", "new poll")])
    assert it.temperatures() == [99.0, None]
    assert it.node.warnings() == ("no installed parser reads the recorded other-smi: install its plugin",)
    many = [capture(0, "x", source=f"smi-{number:04}") for number in range(1500)]
    it = shown(tmp_path, [*MINUTE, *many])
    assert "reads the recorded smi-0000, smi-0001, smi-0002 and " in it.node.warnings()[0]
    assert len(it.node.warnings()[0]) < 200
    with pytest.raises(CommandError, match=r"recorded smi-0000, smi-0001, smi-0002 and \d+ more; install its plugin"):
        shown(tmp_path, many)


def test_timeline_runs_at_its_speed_and_pauses() -> None:
    now, shown_before = [100.0], 0.0
    line = PlaybackClock(0.0, 10.0, lambda: now[0])
    for act in (
        line.run,
        line.stop,
        lambda: line.advance_seek(50.0, 60.0),
        lambda: line.set_speed(0.1),
        lambda: line.advance_seek(0.0, 0.0),
    ):
        act()
        line.set_speed(10.0)
        assert line.monotonic() >= shown_before
        shown_before = line.monotonic()
        now[0] += 2
    line = PlaybackClock(0.0, 10.0, lambda: now[0])
    assert line.position() == 0.0
    line.run()
    now[0] += 2
    assert line.position() == 20.0
    line.set_speed(0.5)
    now[0] += 2
    assert line.position() == 21.0
    line.stop()
    now[0] += 100
    assert line.position() == 21.0
    before = line.monotonic()
    line.advance_seek(3.0, 9.0)
    assert (line.position(), line.seconds_to_target, line.monotonic()) == (3.0, 6.0, before)


def test_slow_playback_shows_all_captures_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser needs longer than the time between captures: playback takes longer, but loses no reading."""
    slow = [capture(at, f"{40 + at} 50") for at in range(0, 40, 2)]
    seen: list[list[float | None]] = []

    def parse_slowly(given: Capture) -> Report:
        seen.append(it.temperatures())
        time.sleep(0.1)  # ten seconds of the recording
        return parse(given)

    slow_parser = LoadedParser(replace(PARSER, parse=parse_slowly), "tests", is_isolated=False)
    monkeypatch.setattr(plays, "LOADED", ParserSet((slow_parser,)))
    it = made(tmp_path, slow, PlaybackOptions(speed=100.0, loops=False))
    it.node.start_filling(it.store, it.history)
    assert comes_true(lambda: it.node.controls.state_text() == "100 ×, ended")
    assert it.temperatures() == [78.0, 50.0]
    it.node.close()
    assert seen[1:] == [[40.0 + at, 50.0] for at in range(2, 38, 2)]


def test_truncated_recording_is_played_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl.gz"
    shown(tmp_path, MINUTE)
    path.write_bytes(path.read_bytes()[:-40])
    node = ReplayNode(path, LOADED, Clock(), PlaybackOptions())
    assert node.survey.length < 60
    assert "the recording " in node.warnings()[0]
    node.close()


@pytest.mark.parametrize("why", ["No such file", "the file was replaced; restart to play the new file"])
def test_deleted_recording_is_reported_and_the_last_state_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    with played(tmp_path, MINUTE, PlaybackOptions(loops=False), at="20s") as it:
        assert it.comes(61.0, 50.0)
        it.node.controls.pause()
        if why.startswith("the file"):
            made(tmp_path, [capture(at, "20 20") for at in range(60)])
        else:
            (tmp_path / "recording.jsonl.gz").unlink()
        it.node.controls.seek(5.0)
        assert comes_true(lambda: it.node.controls.state_text() == "playback cannot continue")
        assert why in str(vars(caplog.records[-1])["error"])
        assert it.node.controls.position >= 20.0
        assert it.temperatures()[1] == 50.0


def test_captures_added_during_playback_are_not_played(tmp_path: Path) -> None:
    with Recorder.to_file(tmp_path / "recording.jsonl") as recorder:
        for recorded in MINUTE:
            recorder.add(recorded)
        it = made_of(tmp_path / "recording.jsonl", PlaybackOptions(speed=100.0, loops=False))
        recorder.add(capture(80, "20 20"))
    it.node.start_filling(it.store, it.history)
    assert comes_true(lambda: it.node.controls.state_text() == "100 ×, ended")
    assert it.temperatures() == [99.0, None]
    it.node.close()
