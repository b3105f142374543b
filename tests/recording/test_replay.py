"""Replaying: captures come back at their recorded pace, all sources in step, over and over; bad lines are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.recording.record import Recorder
from telemetry_daemon.recording.replay import RecordingError, Replay, ReplayReader, read_recording
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Capture, Failure, Library, Output, Poll

REQUEST = Library("recorded")


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 5_000.0
        self.clock = Clock(lambda: self.now, lambda: self.now + 1_000_000)


@pytest.fixture
def hands() -> Hands:
    return Hands()


def capture(source: str, poll: str, at: float, text: str, failure: Failure | None = None) -> Capture:
    return Capture(source, poll, REQUEST, (Output(text=text),), failure, 0.25, 0.125, 1_700_000_000 + at, 777 + at)


def recording() -> list[Capture]:
    """Fast readings every 10 s for 30 s, an inventory once, another source between them."""
    fast = [capture("smi", "readings", at, f"fast {at}") for at in (0, 10, 20, 30)]
    other = [capture("host", "readings", at, f"host {at}") for at in (5, 25)]
    return [*fast, *other, capture("smi", "inventory", 2, "inventory")]


def asked(reader: ReplayReader, poll: str = "readings") -> str:
    return reader.read(Poll(poll, Library("x")), Targets()).outputs[0].text


def test_captures_come_at_their_recorded_pace_and_in_a_loop(hands: Hands) -> None:
    replay = Replay(recording(), hands.clock)
    smi, host = replay.reader("smi"), replay.reader("host")
    told = []
    for seconds in range(0, 101, 10):
        hands.now = 5_000.0 + seconds
        told.append((asked(smi), asked(host)))
    assert [fast for fast, _ in told] == [f"fast {at}" for at in (0, 10, 20, 30, 0, 10, 20, 30, 0, 10, 20)]
    assert [other for _, other in told[:5]] == ["host 5", "host 5", "host 25", "host 25", "host 5"]
    assert asked(smi, "inventory") == "inventory"


@pytest.mark.parametrize("jitter", [-3.0, -0.01, 0.0, 0.01, 3.0])
def test_polls_a_little_early_or_late_get_each_capture_once(hands: Hands, jitter: float) -> None:
    reader = Replay(recording(), hands.clock).reader("smi")
    told = [asked(reader)]
    for number in range(1, 8):
        hands.now = 5_000.0 + 10 * number + (jitter if number % 2 else -jitter)
        told.append(asked(reader))
    assert told == [f"fast {at}" for at in (0, 10, 20, 30)] * 2


def test_a_capture_is_told_as_taken_now(hands: Hands) -> None:
    reader = Replay(recording(), hands.clock).reader("smi")
    hands.now += 10
    read = reader.read(Poll("readings", Library("x")), Targets())
    assert read.monotonic_time == 5_010.0
    assert read.wall_time == 1_005_010.0
    assert (read.request, read.seconds, read.cpu_seconds) == (REQUEST, 0.25, 0.125)


def test_failures_are_replayed(hands: Hands) -> None:
    gone = Failure("failed", "driver_gone", "no driver")
    replay = Replay([capture("smi", "readings", 0, "", gone)], hands.clock)
    for seconds in (0, 100, 1000):
        hands.now = 5_000.0 + seconds
        assert replay.reader("smi").read(Poll("readings", REQUEST), Targets()).failure == gone


def test_sources_and_polls_are_told(hands: Hands) -> None:
    replay = Replay(recording(), hands.clock)
    assert replay.sources == ("host", "smi")
    assert replay.polls("smi") == ("inventory", "readings")
    assert replay.polls("nvml") == ()


@pytest.mark.parametrize(("source", "poll"), [("smi", "slow"), ("nvml", "readings")])
def test_what_was_not_recorded_is_switched_off(hands: Hands, source: str, poll: str) -> None:
    reader = Replay(recording(), hands.clock).reader(source)
    read = reader.read(Poll(poll, REQUEST), Targets())
    reader.close()
    assert read.failure == Failure("disabled", None, f"the recording has no {source}/{poll}")
    assert (read.source, read.poll, read.monotonic_time) == (source, poll, 5_000.0)


def test_a_file_is_replayed(tmp_path: Path, hands: Hands) -> None:
    path = tmp_path / "recording.jsonl"
    with Recorder.to_file(path) as recorder:
        for each in recording():
            recorder.add(each)
    assert asked(Replay.of_file(path, hands.clock).reader("smi")) == "fast 0"


LINE = '{"schema": "telemetry.capture/1"}\n'


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, ": No such file or directory; give a file that `telemetry record` wrote"),
        (lambda path: path.mkdir(), ": Is a directory; give"),
        (lambda path: path.write_text("\n \n"), ": there is no capture in it; give"),
        (lambda path: path.write_text("\n\nGPU 0\n"), ": line 3 is not a recorded capture (not JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe\n"), ": line 1 is not a recorded capture (not JSON"),
        (lambda path: path.write_text("[" * 100_000), ": line 1 is not a recorded capture ("),
        (lambda path: path.write_text("[]"), ": line 1 is not a recorded capture (expected an object"),
        (lambda path: path.write_text(LINE), ": line 1 is not a recorded capture ("),
        (
            lambda path: path.write_text(LINE.replace("/1", "/9")),
            ": line 1 is not a recorded capture (schema: expected",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_named(
    tmp_path: Path, hands: Hands, make: Callable[[Path], object], says: str
) -> None:
    path = tmp_path / "recording.jsonl"
    make(path)
    with pytest.raises(RecordingError) as error:
        Replay.of_file(path, hands.clock)
    assert str(error.value).startswith(f"{path}{says}")


def test_lines_before_a_bad_one_are_read(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    with Recorder.to_file(path) as recorder:
        for each in recording():
            recorder.add(each)
    path.write_bytes(path.read_bytes()[:-20])
    captures = read_recording(path)
    assert [next(captures) for _ in range(6)] == recording()[:6]
    with pytest.raises(RecordingError, match="line 7 is not a recorded capture"):
        next(captures)
