"""When a flight file is written, rewritten or not written, its name, and the limits: with a clock and timers of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kits.snapshots import device, reading
from telemetry_daemon.config.settings import FlightRecorderSettings, Settings, StateSettings
from telemetry_daemon.recordings.alarms import Alarm, FlightFilePolicy, Severity
from telemetry_daemon.recordings.flight_recorder import FlightFileWriter, FlightRecorder
from telemetry_daemon.recordings.last_minutes import CaptureFeed, CaptureLine, RecentCaptures
from telemetry_daemon.service.capture_service import CaptureService
from telemetry_daemon.state import flights
from telemetry_daemon.times import Clock
from telemetry_parsers.past import PastEvent

CARDS = tuple(device(number, reading("power_watts", 300.0), id=f"GPU-{number}") for number in range(8))
BEGUN = 1_795_000_000.0
NAME = "20261118T110640Z-xid_79.jsonl.gz"


@dataclass
class Timer:
    """A timer that is due at that time once it was started."""

    timers: Timers
    at: float
    act: Callable[[], None]
    is_waiting: bool = False
    daemon: bool = False

    def start(self) -> None:
        if self.timers.threads <= 0:
            raise RuntimeError("can't start new thread")
        self.timers.threads -= 1
        self.is_waiting = True

    def cancel(self) -> None:
        self.is_waiting = False


class Timers:
    """The timers that were set by this clock; `threads` limits how many can be started."""

    def __init__(self, now: Callable[[], float], threads: int = 1_000_000) -> None:
        self._now = now
        self.set: list[Timer] = []
        self.threads = threads

    def __call__(self, seconds: float, act: Callable[[], None]) -> Timer:
        self.set.append(Timer(self, self._now() + seconds, act))
        return self.set[-1]

    def go_off(self) -> None:
        for due in [timer for timer in self.set if timer.is_waiting and timer.at <= self._now()]:
            due.is_waiting = False
            due.act()


class Recorder:
    """A recorder with a clock that a test sets; `trouble` is the disk's error."""

    def __init__(self) -> None:
        self.now = 1e6
        self.written: list[tuple[str, int]] = []
        self.limits: list[float] = []
        self.trouble = ""
        self.timers, self.ring = Timers(lambda: self.now), RecentCaptures()
        clock = Clock(lambda: self.now, lambda: BEGUN + self.now - 1e6)
        self.recorder = FlightRecorder(self.ring, FlightFilePolicy(clock.monotonic), self._write, clock, self.timers)

    def _write(self, name: str, content: Iterable[bytes], seconds: float) -> str:
        if self.trouble:
            return self.trouble
        self.written.append((name, len(list(content))))
        self.limits.append(seconds)
        return ""

    def at(self, seconds: float, *alarms: Alarm) -> list[str]:
        while self.now < 1e6 + seconds:
            self.now = min(1e6 + seconds, self.now + 0.5)
            self.timers.go_off()
        for alarm in alarms:
            self.recorder.on_alarm(alarm)
        return [name for name, _ in self.written]


def named(cause: str, seconds: float = 0.0) -> str:
    return flights.file_name(BEGUN + seconds, cause)


def lost(number: int, up_seconds: float = 0.0) -> Alarm:
    return Alarm("lost", f"GPU-{number}", Severity.CRITICAL, f"tool {number % 2}", up_seconds)


XID = Alarm("xid_79", "GPU-1", Severity.CRITICAL)
LOST, OTHER_LOST = lost(1), lost(2)
HOT, CRASH = Alarm("throttled_by_heat", "GPU-1"), Alarm("xid_31", "GPU-1", Severity.MINOR)


def test_burst_is_written_with_captures_of_its_settling_time() -> None:
    bench = Recorder()
    bench.ring.add(CaptureLine("smi", "fast", bench.now, b"before\n"))
    assert bench.at(0, XID) == []
    bench.ring.add(CaptureLine("smi", "fast", bench.now, b"after\n"))
    assert bench.at(4.5, *[OTHER_LOST] * 999) == []
    bench.at(30)
    assert bench.written == [(NAME, 2)]


def test_alarms_within_a_minute_rewrite_the_file_once() -> None:
    bench = Recorder()
    bench.at(0, XID)
    bench.at(20)
    bench.ring.add(CaptureLine("smi", "fast", bench.now, b"lost\n"))
    assert bench.at(20, *[LOST] * 10) == [NAME]
    assert bench.at(59.5) == [NAME]
    for seconds in range(60, 160, 20):
        bench.at(seconds, LOST)
    assert bench.written == [(NAME, 0), (NAME, 1)]


def test_rewritten_file_keeps_two_minutes_before_the_first_alarm() -> None:
    bench = Recorder()
    for second in range(200):
        bench.at(second, *[XID] * (second == 130), *[LOST] * (second == 150))
        bench.ring.add(CaptureLine("smi", "fast", bench.now, b"line\n"))
    (_, first), (_, rewritten) = bench.written
    assert first >= 120
    assert rewritten >= 180


@pytest.mark.parametrize(
    ("alarms", "files"),
    [
        # a more severe alarm renames the file while the file is due
        ([(0, CRASH, XID, CRASH, LOST)], [NAME]),
        ([(0, HOT), (3, LOST)], [named("lost", 3)]),
        # and gets its own file once the first is written
        ([(0, CRASH), (10, CRASH), (20, XID)], [named("xid_31"), named("xid_79", 20)]),
        ([(0, HOT), (75, XID), (76, LOST)], [named("throttled_by_heat"), named("xid_79", 75)]),
        # a card lost within a minute of its fault has one file, another card has another file
        ([(0, HOT), (30, LOST), (70, LOST)], [named("throttled_by_heat")] * 2),
        ([(0, HOT), (30, OTHER_LOST), (50, LOST)], [named("throttled_by_heat"), *[named("lost", 30)] * 2]),
        # a file due at the end of the minute does not delay a more severe one
        ([(0, CRASH), (10, CRASH), (20, HOT), (30, HOT)], [named("xid_31"), *[named("throttled_by_heat", 20)] * 2]),
    ],
)
def test_file_is_named_after_its_worst_alarm(alarms: list[tuple[float, Alarm]], files: list[str]) -> None:
    bench = Recorder()
    for seconds, *new_alarms in alarms:
        bench.at(seconds, *new_alarms)
    assert bench.at(300) == files


def test_renamed_file_counts_once_in_its_hour() -> None:
    bench = Recorder()
    for turn in range(10):
        bench.at(
            200 * turn,
            *(
                Alarm(cause, f"GPU-{turn}", severity, f"tool {turn % 2}")
                for cause, severity in zip(("xid_31", "uncorrected_errors", "xid_79"), Severity, strict=True)
            ),
        )
    assert len(bench.at(3000)) == 6


def test_unwritten_file_does_not_count_in_its_hour() -> None:
    bench = Recorder()
    bench.trouble = "No space left on device"
    for turn in range(8):
        bench.at(200 * turn, lost(turn))
    bench.at(1650)
    bench.trouble = ""
    for turn in range(8):
        bench.at(1700 + 200 * turn, lost(turn))
    assert len(bench.at(3500)) == 6


def test_file_written_at_the_second_attempt_counts_in_its_hour() -> None:
    bench = Recorder()
    for turn in range(8):
        bench.trouble = "No space left on device"
        bench.at(200 * turn, lost(turn))
        bench.at(200 * turn + 30, lost(turn))
        bench.trouble = ""
        bench.at(200 * turn + 100)
    assert len(bench.written) == 6


def test_file_counts_if_no_thread_could_rewrite_it() -> None:
    bench = Recorder()
    bench.at(0, XID)
    bench.at(10)
    bench.timers.threads = 0
    bench.at(20, OTHER_LOST)
    bench.timers.threads = 1000
    for number in range(8):
        bench.at(200 * (number + 1), lost(number))
    assert len(bench.at(2000)) == 6


def test_endless_burst_is_written_after_a_while_with_few_threads() -> None:
    bench = Recorder()
    for tenth in range(195):
        bench.at(tenth / 10, *[XID] * 10)
    assert bench.written == []
    bench.at(20.0)
    assert bench.written == [(NAME, 0)]
    assert len(bench.timers.set) <= 5


@pytest.mark.parametrize(("threads", "written"), [(0, []), (1, [NAME]), (2, [NAME])])
def test_without_threads_a_file_is_given_up_or_written_at_once(threads: int, written: list[str], caplog) -> None:
    bench = Recorder()
    bench.timers.threads = threads
    for second in range(4):
        bench.at(second, XID, OTHER_LOST)
    assert bench.at(30) == written
    assert len(caplog.records) == (threads < 2)
    bench.timers.threads = 10
    bench.at(200, XID)
    assert bench.at(300) == [*written, named("xid_79", 200)]


def test_end_waits_for_another_write_until_its_limit() -> None:
    """The writer of the first file is at work when the daemon ends, and does not come back."""
    bench, stuck = Recorder(), threading.Event()
    slow = FlightRecorder(
        bench.ring, FlightFilePolicy(time.monotonic), lambda *_: "" if stuck.wait(20) else "late", Clock()
    )
    slow.on_alarm(XID)
    with slow._write_lock:  # noqa: SLF001  # as a thread that writes holds it
        began = time.monotonic()
        slow.end(0.5)
        assert time.monotonic() - began < 10
    assert not stuck.is_set()


def test_end_writes_the_pending_file_and_nothing_later() -> None:
    bench = Recorder()
    bench.at(0, XID)
    bench.recorder.end(6.0)
    bench.recorder.end(6.0)
    bench.at(10, LOST)
    bench.at(20)
    assert (bench.written, bench.limits) == ([(NAME, 0)], [6.0])


@pytest.mark.parametrize(
    ("ahead", "is_on", "files"),
    [
        (0.0, False, 6),
        (0.0, True, 3),
        (-1e6, False, 6),  # the clock was set back before each start: files of the future count, too
    ],
)
def test_disabling_writes_pending_files_within_the_limit_of_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float, is_on: bool, files: int
) -> None:
    folder = flights.folder_in(str(tmp_path))
    folder.mkdir(0o700)
    monkeypatch.setattr(
        FlightFileWriter, "write", lambda _, name, *__: "" if not (folder / name).write_bytes(b"") else name
    )
    now = 1e6
    turns = 0
    clock = Clock(lambda: now, lambda: BEGUN + now + ahead * turns)
    box = CaptureService(CaptureFeed(), clock, lambda **_: lambda: True, lambda: is_on)
    on = Settings(state=StateSettings(directory=str(tmp_path)))
    for number in range(8):
        box.configure(on)
        box.alarm_detector.update(CARDS, {})
        box.alarm_detector.add_event(PastEvent(0.0, f"GPU-{number}", "xid_79"))
        box.configure(replace(on, flight_recorder=FlightRecorderSettings(enabled=False)))
        now, turns = now + 200.0, turns + 1
    assert len(flights.list_flights(str(tmp_path))) == files
