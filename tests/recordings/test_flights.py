"""Files of the flight recorder: private, masked, named after time and cause, few, and what can prevent them."""

import contextlib
import gzip
import io
import itertools
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from kits.captures import own_cases, registered_parsers
from kits.planted_identities import INSERTIONS, PLANTS, left_in, planted
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.recordings import flight_writer
from telemetry_daemon.recordings.flight_recorder import FlightFileWriter
from telemetry_daemon.recordings.flight_writer import write
from telemetry_daemon.recordings.last_minutes import CaptureFeed, RecentCaptures
from telemetry_daemon.state import flights
from telemetry_parsers.codec.captures import capture_from_plain, capture_line, decode_line
from telemetry_parsers.model import Capture, Command, Output, Report

BEGUN = 1_795_000_000.0
NAME = "20261118T110640Z-xid_79.jsonl.gz"
SERIAL = "MY97YL9BF9"
CAPTURE = Capture(
    "mthreads-gmi", "readings", Command((("mthreads-gmi",),)), (Output(text=f"Serial Number : {SERIAL}\n"),)
)


def named(cause: str, seconds: float = 0.0) -> str:
    return flights.file_name(BEGUN + seconds, cause)


def packed(*captures: Capture) -> Iterator[bytes]:
    tap, ring = CaptureFeed(), RecentCaptures()
    tap.add_listener(ring.add, lambda: None)
    for capture in captures:
        tap(capture, None)
    return ring.packed()


def write_here(folder: Path, name: str, packed: Iterator[bytes], seconds: float = 60.0) -> str:
    """Run the writer in this process; a separate process would take half a second."""
    members = list(packed)
    descriptor = os.memfd_create("captures")
    os.write(descriptor, b"".join(members))
    os.lseek(descriptor, 0, os.SEEK_SET)
    order = {"folder": str(folder), "name": name, "seconds": seconds, "descriptor": descriptor, "parser_paths": []}
    given = io.StringIO(json.dumps({**order, "sizes": [*map(len, members)]}))
    output = io.StringIO()
    with mock.patch("sys.stdin", given), mock.patch("os.nice"), contextlib.redirect_stderr(output):
        status = flight_writer.main()
    assert (status == 0) == (output.getvalue() == "")
    return output.getvalue()


def captures(path: Path) -> list[Capture]:
    return [capture_from_plain(decode_line(line)) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_a_file_is_masked_private_and_listed(tmp_path: Path) -> None:
    assert flights.list_flights(str(tmp_path)) == ()
    assert FlightFileWriter(str(tmp_path), ()).write(NAME, packed(CAPTURE, CAPTURE)) == ""
    path = tmp_path / "flights" / NAME
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [capture.source for capture in captures(path)] == ["mthreads-gmi"] * 2
    assert SERIAL not in repr(captures(path))
    (flight,) = flights.list_flights(str(tmp_path))
    assert (flight.name, flight.path, flight.cause, flight.wall_time) == (NAME, str(path), "xid_79", BEGUN)
    assert flight.size_bytes == path.stat().st_size


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("xid_79", NAME),
        ("Error 0x80E0 / slot: 3", "20261118T110640Z-error_0x80e0_slot_3.jsonl.gz"),
        ("错误", "20261118T110640Z-event.jsonl.gz"),
        ("x" * 500, f"20261118T110640Z-{'x' * 40}.jsonl.gz"),
    ],
)
def test_names_report_when_and_why(cause: str, name: str) -> None:
    assert flights.file_name(BEGUN, cause) == name
    assert len(name) < 100


def test_oldest_flight_files_are_deleted_above_the_size_limit(tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    names = [flights.file_name(BEGUN + number, "lost") for number in range(5)]
    write(folder, names[0], [capture_line(CAPTURE)])
    (folder / "notes.txt").write_text("x" * 10_000)
    size = (folder / names[0]).stat().st_size
    for name in names[1:]:
        write(folder, name, [capture_line(CAPTURE)], max_bytes=3 * size)
    assert sorted(path.name for path in folder.iterdir()) == [*names[2:], "notes.txt"]
    write(folder, flights.file_name(BEGUN + 9, "lost"), [capture_line(CAPTURE)], max_bytes=1)
    assert [flight.wall_time for flight in flights.list_flights(str(tmp_path))] == [BEGUN + 9]
    write(folder, NAME, [capture_line(CAPTURE)], max_bytes=1)
    assert [flight.name for flight in flights.list_flights(str(tmp_path))] == [NAME], (
        "the clock was set back: the newest stays"
    )


def test_there_are_at_most_five_hundred_files(tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    write(folder, NAME, [capture_line(CAPTURE)])
    for number in range(1, 520):
        (folder / named("lost", number)).write_bytes(b"")
    write(folder, named("lost", 520), [capture_line(CAPTURE)])
    left = flights.list_flights(str(tmp_path))
    assert (len(left), left[-1].name) == (500, named("lost", 21))


def test_a_folder_of_others_is_not_used_and_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    folder, secret = tmp_path / "flights", tmp_path / "secret"
    folder.mkdir()
    folder.chmod(0o777)
    secret.write_text("stays")
    (folder / NAME).symlink_to(secret)
    assert "can be written by others" in write_here(folder, NAME, packed(CAPTURE))
    with pytest.raises(PermissionError, match="can be written by others"):
        flights.list_flights(str(tmp_path))
    folder.chmod(0o700)
    assert write_here(folder, NAME, packed(CAPTURE)) == ""
    assert (secret.read_text(), [path.name for path in folder.iterdir()]) == ("stays", [NAME])
    assert not (folder / NAME).is_symlink()


def test_flight_file_is_written_although_a_plugin_folder_is_gone(tmp_path: Path) -> None:
    assert FlightFileWriter(str(tmp_path), (str(tmp_path / "none"),)).write(NAME, packed(CAPTURE)) == ""


def test_large_outputs_of_a_tool_displace_no_other_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masking takes 1 s per capture of this tool, and it may use 0.3 of the time; its newest captures are kept."""
    now, mask_capture = [0.0], Mask.masked_capture

    def mask_slowly(self: Mask, given: Capture, report: Report | None) -> Capture:
        now[0] += given.source == "loud"
        return mask_capture(self, given, report)

    monkeypatch.setattr(Mask, "masked_capture", mask_slowly)
    monkeypatch.setattr(flight_writer, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    found = [
        replace(CAPTURE, source=source, monotonic_time=float(number))
        for number in range(30)
        for source in ("loud", CAPTURE.source)
    ]
    assert write_here(tmp_path / "flights", NAME, packed(*found), 15.0) == ""
    written = captures(tmp_path / "flights" / NAME)
    times = {
        name: [capture.monotonic_time for capture in written if capture.source == name]
        for name in ("loud", CAPTURE.source)
    }
    assert times == {"loud": [25.0, 26.0, 27.0, 28.0, 29.0], CAPTURE.source: list(range(30))}


def test_masking_leaves_time_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count()
    monkeypatch.setattr(flight_writer, "time", SimpleNamespace(monotonic=lambda: float(next(now)), time=time.time))
    found = [replace(CAPTURE, source=f"tool {number}", monotonic_time=float(number)) for number in range(30)]
    assert write_here(tmp_path / "flights", NAME, packed(*found), 30.0) == ""
    written = captures(tmp_path / "flights" / NAME)
    assert [capture.monotonic_time for capture in written] == [float(number) for number in range(30 - len(written), 30)]
    assert 10 <= len(written) <= 13


def test_timeout_is_not_reported_as_a_disk_error(tmp_path: Path) -> None:
    assert FlightFileWriter(str(tmp_path), ()).write(NAME, packed(CAPTURE), 0.0) == "no answer within 0 s"


def test_identities_planted_in_the_captures_of_every_vendor_are_in_no_file(tmp_path: Path) -> None:
    """One after another in the same ring, so that an identity of one capture may be in another."""
    parsers = registered_parsers()
    insertions = itertools.cycle(INSERTIONS)
    found = [
        planted(capture, PLANTS, next(insertions))
        for tool, parser in parsers.items()
        for case in own_cases(tool)[:3]
        for capture in case.captures(parser)
    ]
    assert len({capture.source for capture in found}) >= 12
    ring, tap = RecentCaptures(seconds=1e9), CaptureFeed()
    tap.add_listener(ring.add, lambda: None)
    for capture in found:
        tap(capture, None)
    assert FlightFileWriter(str(tmp_path), ()).write(NAME, ring.packed()) == ""
    written = captures(tmp_path / "flights" / NAME)
    assert len(written) == len(found)
    assert [left_in(capture) for capture in written if left_in(capture)] == []
