"""Files of the flight recorder: private, masked, named after when and why; few enough; and what stands in their way."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from kits.captures import own_cases, registered_parsers
from kits.planted_identities import PLACES, PLANTS, left_in, planted
from telemetry_daemon.recording import flights
from telemetry_daemon.recording.alarms import Alarm, Rank
from telemetry_daemon.recording.bursts import Bursts
from telemetry_daemon.recording.flight_recorder import FlightRecorder, Writer
from telemetry_daemon.recording.flight_writer import write
from telemetry_daemon.recording.ring import Ring
from telemetry_daemon.recording.tap import Line, Tap
from telemetry_daemon.times import Clock
from telemetry_parsers.codec.captures import capture_from_plain, decode_line
from telemetry_parsers.model import Capture, Command, Output

BEGUN = 1_795_000_000.0
NAME = "20261118T110640Z-xid_79.jsonl.gz"
SERIAL = "MY97YL9BF9"
CAPTURE = Capture(
    "mthreads-gmi", "readings", Command((("mthreads-gmi",),)), (Output(text=f"Serial Number : {SERIAL}\n"),)
)


def packed(*captures: Capture) -> Iterator[bytes]:
    tap, ring = Tap(), Ring()
    tap.listen(ring.add, lambda: None)
    for capture in captures:
        tap(capture, None)
    return ring.packed()


def captures(path: Path) -> list[Capture]:
    return [capture_from_plain(decode_line(line)) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_a_file_is_masked_private_and_listed(tmp_path: Path) -> None:
    assert flights.kept(str(tmp_path)) == ()
    assert Writer(str(tmp_path), ()).write(NAME, packed(CAPTURE, CAPTURE)) == ""
    path = tmp_path / "flights" / NAME
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.source for each in captures(path)] == ["mthreads-gmi"] * 2
    assert SERIAL not in repr(captures(path))
    (flight,) = flights.kept(str(tmp_path))
    assert (flight.name, flight.path, flight.cause, flight.wall_time) == (NAME, str(path), "xid_79", BEGUN)
    assert flight.size_bytes == path.stat().st_size


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("xid_79", NAME),
        ("lost", "20261118T110640Z-lost.jsonl.gz"),
        ("Error 0x80E0 / slot: 3", "20261118T110640Z-error_0x80e0_slot_3.jsonl.gz"),
        ("../../etc/passwd", "20261118T110640Z-etc_passwd.jsonl.gz"),
        ("错误", "20261118T110640Z-event.jsonl.gz"),
        ("x" * 500, f"20261118T110640Z-{'x' * 40}.jsonl.gz"),
    ],
)
def test_names_tell_when_and_why(cause: str, name: str) -> None:
    assert flights.name_of(BEGUN, cause) == name
    assert len(name) < 100


def test_the_oldest_go_when_there_are_too_many_bytes_and_other_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    names = [flights.name_of(BEGUN + number, "lost") for number in range(5)]
    write(folder, names[0], iter((CAPTURE,)))
    (folder / "notes.txt").write_text("x" * 10_000)
    size = (folder / names[0]).stat().st_size
    for name in names[1:]:
        write(folder, name, iter((CAPTURE,)), most_bytes=3 * size)
    assert sorted(each.name for each in folder.iterdir()) == [*names[2:], "notes.txt"]
    write(folder, flights.name_of(BEGUN + 9, "lost"), iter((CAPTURE,)), most_bytes=1)
    assert [flight.wall_time for flight in flights.kept(str(tmp_path))] == [BEGUN + 9]


def in_the_way_of_nothing(folder: Path) -> None:
    folder.mkdir(mode=0o700)


def a_file(folder: Path) -> None:
    folder.write_text("")


def a_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o777)
    (folder.parent / "elsewhere").chmod(0o777)
    folder.symlink_to(folder.parent / "elsewhere")


def writable_by_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def a_link_in_place_of_the_file(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder.parent / "secret").write_text("stays")
    (folder / NAME).symlink_to(folder.parent / "secret")


@pytest.mark.parametrize(
    ("prepare", "trouble"),
    [
        (in_the_way_of_nothing, ""),
        (a_file, "Not a directory"),
        (a_link, "can be written by others"),
        (writable_by_others, "can be written by others"),
        (a_link_in_place_of_the_file, ""),
    ],
)
def test_what_stands_in_the_way_costs_the_file_only(tmp_path: Path, prepare, trouble: str) -> None:
    prepare(tmp_path / "flights")
    told = Writer(str(tmp_path), ()).write(NAME, packed(CAPTURE))
    assert trouble in told if trouble else not told
    if (tmp_path / "secret").exists():
        assert (tmp_path / "secret").read_text() == "stays"
        assert not (tmp_path / "flights" / NAME).is_symlink()
    assert not list((tmp_path).rglob("*.new"))


def test_a_plugins_folder_that_is_gone_does_not_cost_the_file(tmp_path: Path) -> None:
    assert Writer(str(tmp_path), (str(tmp_path / "none"),)).write(NAME, packed(CAPTURE)) == ""


class Timers:
    """Timers that go off when the test's clock is set behind them; `threads` says how many may be started yet."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.set: list[Timers.One] = []
        self.threads = 1000

    class One:
        daemon = False

        def __init__(self, at: float, act: Callable[[], None], timers: Timers) -> None:
            self.at, self.act, self.is_waiting, self._timers = at, act, False, timers

        def start(self) -> None:
            if self._timers.threads <= 0:
                raise RuntimeError("can't start new thread")
            self._timers.threads -= 1
            self.is_waiting = True

        def cancel(self) -> None:
            self.is_waiting = False

    def __call__(self, seconds: float, act: Callable[[], None]) -> Timers.One:
        self.set.append(Timers.One(self._now() + seconds, act, self))
        return self.set[-1]

    def go_off(self) -> None:
        for one in [one for one in self.set if one.is_waiting and one.at <= self._now()]:
            one.is_waiting = False
            one.act()


class Recorder:
    """The recorder by a clock that a test sets; `trouble` is what the disk says."""

    def __init__(self) -> None:
        self.now = 1e6
        self.written: list[tuple[str, int]] = []
        self.limits: list[float] = []
        self.trouble = ""
        self.timers, self.ring = Timers(lambda: self.now), Ring()
        clock = Clock(lambda: self.now, lambda: BEGUN + self.now - 1e6)
        self.recorder = FlightRecorder(self.ring, Bursts(clock.monotonic), self._write, clock, self.timers)

    def _write(self, name: str, content: Iterable[bytes], seconds: float) -> str:
        if self.trouble:
            return self.trouble
        self.written.append((name, len(list(content))))
        self.limits.append(seconds)
        return ""

    def at(self, seconds: float, *alarms: Alarm) -> list[str]:
        """The files that were written until so many seconds after the beginning; then these alarms come."""
        while self.now < 1e6 + seconds:
            self.now = min(1e6 + seconds, self.now + 0.5)
            self.timers.go_off()
        for alarm in alarms:
            self.recorder.alarm(alarm)
        return [name for name, _ in self.written]


def named(cause: str, seconds: float = 0.0) -> str:
    return flights.name_of(BEGUN + seconds, cause)


XID = Alarm("xid_79", "GPU-1", Rank.GRAVE)
LOST, OTHER_LOST = Alarm("lost", "GPU-1", Rank.GRAVE), Alarm("lost", "GPU-2", Rank.GRAVE)
HOT, CRASH = Alarm("throttled_by_heat", "GPU-1"), Alarm("xid_31", "GPU-1", Rank.MINOR)


def test_a_burst_is_written_once_it_has_settled_with_what_came_meanwhile() -> None:
    it = Recorder()
    it.ring.add(Line("smi", "fast", it.now, b"before\n"))
    assert it.at(0, XID) == []
    it.ring.add(Line("smi", "fast", it.now, b"after\n"))
    assert it.at(4.5, *[OTHER_LOST] * 999) == []
    it.at(30)
    assert it.written == [(NAME, 2)]


def test_what_follows_within_a_minute_is_put_into_the_file_once() -> None:
    it = Recorder()
    it.at(0, XID)
    it.at(20)
    it.ring.add(Line("smi", "fast", it.now, b"lost\n"))
    assert it.at(20, *[LOST] * 10) == [NAME]
    assert it.at(59.5) == [NAME]
    for seconds in range(60, 160, 20):
        it.at(seconds, LOST)
    assert it.written == [(NAME, 0), (NAME, 1)]


def test_what_is_written_anew_has_the_two_minutes_before_the_first_alarm() -> None:
    it = Recorder()
    for second in range(200):
        it.at(second, *[XID] * (second == 130), *[LOST] * (second == 150))
        it.ring.add(Line("smi", "fast", it.now, b"line\n"))
    (_, first), (_, anew) = it.written
    assert first >= 120
    assert anew >= 180


@pytest.mark.parametrize(
    ("alarms", "files"),
    [
        # what is worse gives the file its name while it is still due
        ([(0, CRASH, XID, CRASH, LOST)], [NAME]),
        ([(0, HOT), (3, LOST)], [named("lost", 3)]),
        ([(0, HOT), (0, XID), (0, LOST)], [NAME]),
        # and its own once it is written
        ([(0, CRASH), (10, CRASH), (20, XID)], [named("xid_31"), named("xid_79", 20)]),
        ([(0, HOT), (75, XID), (76, LOST)], [named("throttled_by_heat"), named("xid_79", 75)]),
        ([(0, XID), (75, OTHER_LOST)], [NAME, named("lost", 75)]),
        # a card that is lost within a minute of its trouble is one story, and another card another
        ([(0, HOT), (30, LOST), (70, LOST)], [named("throttled_by_heat")] * 2),
        ([(0, HOT), (30, OTHER_LOST), (50, LOST)], [named("throttled_by_heat"), *[named("lost", 30)] * 2]),
        # what waits for the end of the minute does not hold up what is worse
        ([(0, CRASH), (10, CRASH), (20, HOT), (30, HOT)], [named("xid_31"), *[named("throttled_by_heat", 20)] * 2]),
    ],
)
def test_what_is_worse_is_in_the_name_of_a_file(alarms: list[tuple[float, Alarm]], files: list[str]) -> None:
    it = Recorder()
    for seconds, *come in alarms:
        it.at(seconds, *come)
    assert it.at(300) == files


def test_what_only_gives_a_file_another_name_is_no_further_file_of_the_hour() -> None:
    it = Recorder()
    for turn in range(10):
        it.at(
            200 * turn,
            Alarm("xid_31", f"GPU-{turn}", Rank.MINOR),
            Alarm("uncorrected_errors", f"GPU-{turn}"),
            Alarm("xid_79", f"GPU-{turn}", Rank.GRAVE),
        )
    assert len(it.at(3000)) == 6


def test_a_file_that_could_not_be_written_is_none_of_the_hour() -> None:
    it = Recorder()
    it.trouble = "No space left on device"
    for turn in range(8):
        it.at(200 * turn, Alarm("lost", f"GPU-{turn}", Rank.GRAVE))
    it.at(1650)
    it.trouble = ""
    for turn in range(8):
        it.at(1700 + 200 * turn, Alarm("lost", f"GPU-{turn}", Rank.GRAVE))
    assert len(it.at(3500)) == 6


def test_a_file_that_is_written_at_the_second_attempt_is_one_of_the_hour() -> None:
    it = Recorder()
    for turn in range(8):
        it.trouble = "No space left on device"
        it.at(200 * turn, Alarm("lost", f"GPU-{turn}", Rank.GRAVE))
        it.at(200 * turn + 30, Alarm("lost", f"GPU-{turn}", Rank.GRAVE))
        it.trouble = ""
        it.at(200 * turn + 100)
    assert len(it.written) == 6


def test_who_never_stops_is_written_after_a_while_and_takes_few_threads() -> None:
    it = Recorder()
    for tenth in range(195):
        it.at(tenth / 10, *[XID] * 10)
    assert it.written == []
    it.at(20.0)
    assert it.written == [(NAME, 0)]
    assert len(it.timers.set) <= 5


@pytest.mark.parametrize(("threads", "written"), [(0, []), (1, [NAME]), (2, [NAME])])
def test_without_threads_a_file_is_given_up_or_written_at_once(threads: int, written: list[str], caplog) -> None:
    it = Recorder()
    it.timers.threads = threads
    for second in range(4):
        it.at(second, XID, OTHER_LOST)
    assert it.at(30) == written
    assert len(caplog.records) == (threads < 2)
    it.timers.threads = 10
    it.at(200, XID)
    assert it.at(300) == [*written, named("xid_79", 200)]


def test_what_is_due_when_it_ends_is_written_at_once_and_nothing_after_it() -> None:
    it = Recorder()
    it.at(0, XID)
    it.recorder.end(6.0)
    it.recorder.end(6.0)
    it.at(10, LOST)
    it.at(20)
    assert (it.written, it.limits) == ([(NAME, 0)], [6.0])


def test_the_folder_may_not_be_read_by_others(tmp_path: Path) -> None:
    write(tmp_path / "flights", NAME, iter((CAPTURE,)))
    (tmp_path / "flights").chmod(0o777)
    with pytest.raises(PermissionError, match="can be written by others"):
        flights.kept(str(tmp_path))


def test_identities_planted_in_the_captures_of_every_vendor_are_in_no_file(tmp_path: Path) -> None:
    """One after the other in the same ring, so that what one tells may stand in another's."""
    parsers = registered_parsers()
    places = itertools.cycle(PLACES)
    found = [
        planted(capture, PLANTS, next(places))
        for tool, parser in parsers.items()
        for case in own_cases(tool)[:3]
        for capture in case.captures(parser)
    ]
    assert len({capture.source for capture in found}) >= 12
    ring, tap = Ring(seconds=1e9), Tap()
    tap.listen(ring.add, lambda: None)
    for capture in found:
        tap(capture, None)
    assert Writer(str(tmp_path), ()).write(NAME, ring.packed()) == ""
    written = captures(tmp_path / "flights" / NAME)
    assert len(written) == len(found)
    assert [left_in(capture) for capture in written if left_in(capture)] == []
