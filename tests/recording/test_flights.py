"""Files of the flight recorder: private, masked, named after when and why; few enough; and what stands in their way."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.captures import own_cases, registered_parsers
from kits.planted_identities import PLACES, PLANTS, left_in, planted
from telemetry_daemon.recording import flights
from telemetry_daemon.recording.alarms import Alarm
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
    """Timers that go off when the test says so."""

    def __init__(self) -> None:
        self.set: list[Timers.One] = []

    class One:
        daemon = False

        def __init__(self, seconds: float, act) -> None:
            self.seconds, self.act, self.is_waiting = seconds, act, False

        def start(self) -> None:
            self.is_waiting = True

        def cancel(self) -> None:
            self.is_waiting = False

    def __call__(self, seconds: float, act) -> Timers.One:
        self.set.append(Timers.One(seconds, act))
        return self.set[-1]

    def go_off(self) -> None:
        for one in [one for one in self.set if one.is_waiting]:
            one.is_waiting = False
            one.act()


class Recorder:
    def __init__(self) -> None:
        self.now = 1e6
        self.timers, self.written, self.limits, self.ring = Timers(), [], [], Ring()
        clock = Clock(lambda: self.now, lambda: BEGUN + self.now - 1e6)
        self.recorder = FlightRecorder(self.ring, Bursts(clock.monotonic), self._write, clock, self.timers)

    def _write(self, name: str, content: Iterator[bytes], seconds: float) -> str:
        self.written.append((name, len(list(content))))
        self.limits.append(seconds)
        return ""


def test_a_burst_is_written_once_it_has_settled_with_what_came_meanwhile() -> None:
    it = Recorder()
    it.ring.add(Line("smi", "fast", it.now, b"before\n"))
    it.recorder.alarm(Alarm("xid_79", "GPU-1"))
    assert it.written == []
    it.ring.add(Line("smi", "fast", it.now, b"after\n"))
    for _ in range(999):
        it.recorder.alarm(Alarm("lost", "GPU-2"))
    it.timers.go_off()
    it.timers.go_off()
    assert it.written == [(NAME, 2)]


def test_what_follows_within_a_minute_is_put_into_the_file_once() -> None:
    it = Recorder()
    it.recorder.alarm(Alarm("xid_79", "GPU-1"))
    it.timers.go_off()
    it.now += 20.0
    it.ring.add(Line("smi", "fast", it.now, b"lost\n"))
    for _ in range(10):
        it.recorder.alarm(Alarm("lost", "GPU-1"))
    assert (len(it.written), it.timers.set[-1].seconds) == (1, 40.0)
    for _ in range(10):
        it.timers.go_off()
        it.now += 20.0
        it.recorder.alarm(Alarm("lost", "GPU-1"))
    assert it.written == [(NAME, 0), (NAME, 1)]


def test_what_is_worse_than_a_file_that_is_written_gets_its_own() -> None:
    it = Recorder()
    for cause, is_minor in (("xid_31", True), ("xid_31", True), ("xid_79", False)):
        it.recorder.alarm(Alarm(cause, "GPU-1", is_minor=is_minor))
        if is_minor:
            it.timers.go_off()
    it.timers.go_off()
    assert [name for name, _ in it.written] == [NAME.replace("79", "31"), NAME.replace("79", "31"), NAME]


def test_what_is_worse_gives_the_file_its_name() -> None:
    it = Recorder()
    for cause, is_minor in (("xid_31", True), ("xid_79", False), ("xid_31", True), ("lost", False)):
        it.recorder.alarm(Alarm(cause, "GPU-1", is_minor=is_minor))
    it.timers.go_off()
    assert [name for name, _ in it.written] == [NAME]


def test_who_never_stops_is_written_after_a_while() -> None:
    it = Recorder()
    for _ in range(100):
        it.recorder.alarm(Alarm("xid_79", "GPU-1"))
        it.now += 1.0
    waits = [one.seconds for one in it.timers.set[:22]]
    assert waits[0] == 5.0
    assert waits[19:21] == [1.0, 0.0]


def test_after_its_end_nothing_is_written() -> None:
    it = Recorder()
    it.recorder.alarm(Alarm("xid_79", "GPU-1"))
    it.recorder.close()
    it.timers.go_off()
    it.recorder.alarm(Alarm("lost", "GPU-1"))
    it.timers.go_off()
    assert it.written == []


def test_what_is_due_when_it_ends_is_written_at_once_and_nothing_after_it() -> None:
    it = Recorder()
    it.recorder.alarm(Alarm("xid_79", "GPU-1"))
    it.recorder.end(6.0)
    it.recorder.end(6.0)
    it.timers.go_off()
    it.recorder.alarm(Alarm("lost", "GPU-1"))
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
