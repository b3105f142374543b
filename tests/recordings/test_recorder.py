"""Recordings are whole, appended and private; the tap writes each capture once for all listeners."""

import errno
import gzip
import io
import json
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kits.files import files_of_at_most
from telemetry_daemon.recordings import last_minutes as module
from telemetry_daemon.recordings.last_minutes import CaptureFeed, CaptureLine
from telemetry_daemon.recordings.recorder import Recorder, RecordError
from telemetry_daemon.recordings.recording_file import RecordingFile
from telemetry_parsers.codec.captures import capture_from_plain, capture_to_plain, decode_line, encode_line
from telemetry_parsers.model import Capture, Command, Failure, Files, Library, Output

CAPTURES = (
    Capture(
        "mthreads-gmi",
        "readings",
        Command((("mthreads-gmi", "-q"),), folders=("/opt",)),
        (Output("mthreads-gmi -q", "", "Temp: 41 ℃\n\x00\ufffd", "note\n", 0),),
        None,
        0.31,
        0.12,
        1_700_000_000.25,
        1234.5,
    ),
    Capture("amdgpu-sysfs", "fast", Files(("/sys/*",)), (Output("/sys/x", status=errno.EACCES),)),
    Capture(
        "host", "readings", Library("host", ("cpu",)), (Output("cpu", status=0, data={"utilization_percent": None}),)
    ),
    Capture("nvml", "readings", Library("nvml"), failure=Failure("failed", "driver_gone", "no driver")),
)
LARGE = Capture("s", "p", Library("x"), (Output(text="x" * 10_000),))


def test_each_capture_is_in_the_file_or_stream_at_once(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    with Recorder.to_file(path) as recorder:
        for number, capture in enumerate(CAPTURES, start=1):
            recorder.add(capture)
            assert tuple(RecordingFile(path)) == CAPTURES[:number]
    stream = io.StringIO()
    with Recorder(stream) as recorder:
        for capture in CAPTURES:
            recorder.add(capture)
    assert stream.getvalue() == path.read_text(encoding="ascii")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["schema"] for line in lines] == ["telemetry.capture/1"] * len(CAPTURES)


def test_a_second_recording_replaces_the_first_in_a_private_file(tmp_path: Path) -> None:
    """Its stand-ins differ: in one file, the same card would appear as two."""
    path = tmp_path / "recording.jsonl"
    path.write_text("")
    path.chmod(0o666)
    for capture in CAPTURES:
        with Recorder.to_file(path) as recorder:
            recorder.add(capture)
    assert tuple(RecordingFile(path)) == CAPTURES[-1:]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    large = [Capture("s", str(n), Library("x"), (Output(text=str(n) * 200_000),)) for n in range(6)]
    with Recorder.to_file(path) as recorder, ThreadPoolExecutor(6) as pool:
        list(pool.map(recorder.add, large))
    assert sorted(RecordingFile(path), key=lambda capture: capture.poll) == large


def test_incomplete_line_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    with files_of_at_most(5_000), Recorder.to_file(path) as recorder:
        recorder.add(CAPTURES[0])
        with pytest.raises(RecordError, match=f"^cannot record to {path}: File too large; free some space"):
            recorder.add(LARGE)
        recorder.add(CAPTURES[1])
    assert tuple(RecordingFile(path)) == CAPTURES[:2]


def test_existing_content_of_a_passed_file_is_kept(tmp_path: Path) -> None:
    """For example `record -o /dev/stdout >> mine.log` on a full disk."""
    path, mine = tmp_path / "mine.log", b"mine\n" * 400
    path.write_bytes(mine)
    with (
        files_of_at_most(5_000),
        path.open("ab") as file,
        Recorder.to_file(Path(f"/dev/fd/{file.fileno()}")) as recorder,
    ):
        recorder.add(CAPTURES[0])
        with pytest.raises(RecordError, match="File too large"):
            recorder.add(LARGE)
    kept = path.read_bytes()
    assert kept.startswith(mine)
    assert kept[len(mine) :].count(b"\n") == 1


def test_a_reader_that_went_away_is_reported() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as raw:
        stream = io.TextIOWrapper(raw, write_through=True)
        with pytest.raises(RecordError, match=r"^cannot record to standard output: Broken pipe$"):
            Recorder(stream).add(CAPTURES[0])


def test_nothing_is_added_after_the_end(tmp_path: Path) -> None:
    recorder = Recorder.to_file(tmp_path / "recording.jsonl")
    recorder.close()
    recorder.close()
    with pytest.raises(RecordError, match="the recorder is closed"):
        recorder.add(CAPTURES[0])


def test_data_that_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    odd = Capture("nvml", "readings", Library("nvml"), (Output("power", data=float("nan")),))
    with Recorder.to_file(path) as recorder:
        with pytest.raises(RecordError, match="a capture of nvml/readings cannot be recorded"):
            recorder.add(odd)
        recorder.add(CAPTURES[0])
    assert tuple(RecordingFile(path)) == CAPTURES[:1]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_text("127.0.0.1 localhost\n"), "the existing file is not a recording"),
        (lambda path: path.symlink_to("elsewhere"), "it is a link, which is not followed"),
    ],
)
def test_a_file_that_cannot_be_recorded_to_is_named(tmp_path: Path, make: object, says: str) -> None:
    path = tmp_path / "recording.jsonl"
    make(path)  # type: ignore[operator]  # a function from the table
    with pytest.raises(RecordError, match=f"^cannot record to {path}: {says}; use a new file"):
        Recorder.to_file(path)


def test_two_recorders_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    with Recorder.to_file(path), pytest.raises(RecordError, match="another process is recording to this file"):
        Recorder.to_file(path)
    Recorder.to_file(path).close()


@pytest.mark.parametrize("name", ["recording.jsonl", "recording.jsonl.gz"])
def test_an_earlier_recording_is_there_until_something_is_recorded(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with Recorder.to_file(path) as recorder:
        assert not recorder.has_captures
    assert list(tmp_path.iterdir()) == []
    for capture in CAPTURES[:2]:
        with Recorder.to_file(path) as recorder:
            recorder.add(capture)
            assert tuple(RecordingFile(path)) == (capture,)
        before = path.read_bytes()
        with Recorder.to_file(path) as recorder:
            assert not recorder.has_captures
        assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0), gzip.compress(b"", mtime=0)[:10]])
def test_a_recording_with_nothing_in_it_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recording.jsonl.gz"
    path.write_bytes(content)
    with Recorder.to_file(path) as recorder:
        recorder.add(CAPTURES[0])
    assert tuple(RecordingFile(path)) == CAPTURES[:1]


def recorded_at_once(path: Path) -> list[Capture | str]:
    begin, end = threading.Barrier(4), threading.Barrier(4)

    def record(capture: Capture) -> Capture | str:
        begin.wait()
        try:
            with Recorder.to_file(path) as recorder:
                recorder.add(capture)
                end.wait()
        except RecordError as error:
            end.wait()
            return str(error)
        return capture

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(record, CAPTURES))


def test_one_of_many_simultaneous_recorders_wins(tmp_path: Path) -> None:
    for attempt in range(16):
        path = tmp_path / f"{attempt}.jsonl"
        if attempt % 2:
            path.write_text(encode_line(capture_to_plain(CAPTURES[0])) + "\n")
        results = recorded_at_once(path)
        assert list(RecordingFile(path)) == [result for result in results if isinstance(result, Capture)]
        assert (
            sum("another process is recording to this file" in result for result in results if isinstance(result, str))
            == 3
        )


@pytest.mark.parametrize("name", ["recording.jsonl", "recording.jsonl.gz"])
def test_a_recording_that_is_removed_meanwhile_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for ends in (True, False):
        recorder = Recorder.to_file(path)
        recorder.add(CAPTURES[0])
        path.unlink()
        with pytest.raises(RecordError, match=r"the recording file was removed while it was being written"):
            recorder.close() if ends else recorder.add(CAPTURES[1])
        assert not recorder.has_captures


CAPTURE = Capture("smi", "fast", Library("x"), (Output(data={"watts": 41.5}),), monotonic_time=7.0)


def test_each_listener_gets_each_capture_as_a_line() -> None:
    tap = CaptureFeed()
    first: list[CaptureLine] = []
    second: list[CaptureLine] = []
    tap.add_listener(first.append, lambda: None)
    tap(CAPTURE, None)
    tap.add_listener(second.append, lambda: None)
    tap(CAPTURE, None)
    tap.remove_listener(first.append)
    tap(CAPTURE, None)
    assert [len(first), len(second)] == [2, 2]
    assert (first[0].source, first[0].poll, first[0].taken) == ("smi", "fast", 7.0)
    assert capture_from_plain(decode_line(first[0].text)) == CAPTURE
    assert first[0].text.endswith(b"}\n")


def test_a_capture_is_written_once_for_all_and_not_at_all_without_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    encode = module.capture_line
    monkeypatch.setattr(module, "capture_line", lambda capture: written.append(1) or encode(capture))
    tap = CaptureFeed()
    tap(CAPTURE, None)
    assert written == []
    for _ in range(3):
        tap.add_listener([].append, lambda: None)
    tap(CAPTURE, None)
    assert written == [1]


def test_between_two_captures_nothing_is_lost_and_nothing_comes_twice() -> None:
    """The fetched captures and the captures received later are all captures, each once."""
    tap = CaptureFeed()
    kept: list[CaptureLine] = []
    received: list[CaptureLine] = []
    tap.add_listener(kept.append, lambda: None)
    tap(CAPTURE, None)
    before = tap.add_listener(received.append, lambda: list(kept))
    tap(replace(CAPTURE, monotonic_time=8.0), None)
    assert [line.taken for line in (*before, *received)] == [7.0, 8.0]


def test_data_that_json_lacks_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    tap = CaptureFeed()
    received: list[CaptureLine] = []
    tap.add_listener(received.append, lambda: None)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tap(replace(CAPTURE, outputs=(Output(data={"watts": float("nan")}),)), None)
    assert [record.message for record in caplog.records] == ["a capture cannot be recorded"]
    tap(CAPTURE, None)
    assert len(received) == 1
