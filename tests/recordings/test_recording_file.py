"""A recording is read as a stream in bounded memory: whole lines are played, damaged ones are named."""

import gzip
import io
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from telemetry_daemon.recordings import recording_file
from telemetry_daemon.recordings.recorder import Recorder
from telemetry_daemon.recordings.recording_file import Damage, RecordingError, RecordingFile, captures_in
from telemetry_parsers.codec.captures import capture_to_plain, encode_line
from telemetry_parsers.model import Capture, Library, Output

CAPTURES = [
    Capture(
        "smi", "fast", Library("x"), (Output(text=f"{number} ℃\n"),), wall_time=1.7e9 + number, monotonic_time=number
    )
    for number in range(4)
]


def line(capture: Capture, **changed: object) -> bytes:
    return encode_line(capture_to_plain(capture) | changed).encode() + b"\n"


WHOLE = b"".join(map(line, CAPTURES))


def read(content: bytes) -> tuple[list[Capture], Damage]:
    damage = Damage()
    return list(captures_in(io.BytesIO(content), damage)), damage


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.gz"])
def test_recording_is_read_under_any_name(tmp_path: Path, name: str) -> None:
    with Recorder.to_file(tmp_path / name) as recorder:
        for capture in CAPTURES:
            recorder.add(capture)
            assert list(RecordingFile(tmp_path / name)) == CAPTURES[: recorder.capture_count], (
                "each is in the file at once"
            )
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    renamed = (tmp_path / name).rename(tmp_path / "renamed")
    tape = RecordingFile(renamed)
    assert list(tape) == list(tape) == CAPTURES
    assert list(tape.damage.lines()) == []


def test_truncated_plain_recording_is_read_to_its_last_whole_line() -> None:
    start = len(WHOLE) - len(line(CAPTURES[3]))
    for end in range(start, len(WHOLE) + 1):
        captures, damage = read(WHOLE[:end])
        is_whole = end >= len(WHOLE) - 1  # without the line end it is whole, too
        assert captures == CAPTURES[: 4 if is_whole else 3]
        cut = "" if is_whole or end == start else "the recording is truncated in line 4; the last complete line is 3"
        assert damage == Damage(early_end=cut)


def test_truncated_gzip_recording_loses_no_whole_line(tmp_path: Path) -> None:
    with Recorder.to_file(tmp_path / "a.gz") as recorder:
        for capture in CAPTURES:
            recorder.add(capture)
    packed = (tmp_path / "a.gz").read_bytes()
    for end in range(2, len(packed)):
        captures, damage = read(packed[:end])
        written = zlib.decompressobj(31).decompress(packed[:end])
        # At most the line end is missing.
        assert len(captures) in (written.count(b"\n"), written.count(b"\n") + 1)
        assert captures == CAPTURES[: len(captures)]
        assert damage.early_end.startswith(("the recording is truncated in line", "the recording ends after line"))
        assert damage.invalid_count == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"GPU 0: fine\n", "not JSON"),
        (b'{"schema": "telemetry.capture/1"}\n', "missing"),
        (line(CAPTURES[0], wall_time=-1.0), "out of range"),
        (line(CAPTURES[0], wall_time=253_402_300_799.0), "out of range"),
        (line(CAPTURES[0], monotonic_time=-1.0), "out of range"),
        (line(CAPTURES[0], seconds=1e308), "out of range"),
        (line(CAPTURES[0], schema="telemetry.capture/2", news=1), "later version; upgrade"),
        (b"[" * 100_000 + b"\n", "nested too deeply"),
        (WHOLE[:50] + WHOLE, "not JSON"),
    ],
)
def test_bad_lines_in_the_middle_are_named_counted_and_left_out(bad: bytes, reason: str) -> None:
    lines = WHOLE.splitlines(keepends=True)
    captures, damage = read(lines[0] + bad + b"\n" + lines[1])
    assert captures[0] == CAPTURES[0]
    assert captures[-1] == CAPTURES[1] or b'"schema"' in bad[50:]
    assert (damage.invalid_count, damage.invalid_lines[0][0]) == (1, 2)
    assert reason in damage.invalid_lines[0][1]
    assert next(damage.lines()).startswith("line 2 was skipped: it is not a recorded capture (")


def test_of_many_bad_lines_the_first_are_named_and_all_counted() -> None:
    captures, damage = read(b"bad\n" * 1000 + WHOLE)
    assert captures == CAPTURES
    assert [text[:7] for text in damage.lines()] == ["line 1 ", "line 2 ", "line 3 ", "1000 li"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, ": No such file or directory; use a file that `telemetry record` wrote"),
        (lambda path: path.mkdir(), ": it is a folder; name the file in it; use"),
        (lambda path: path.write_text(""), ": the file contains no captures; use"),
        (lambda path: path.write_text("\n\nGPU 0\n"), ": line 3 is not a recorded capture (not JSON"),
        (
            lambda path: path.write_bytes(gzip.compress(b"telemetry-doctor/CONTENTS\0\0\0 x\n")),
            ": line 1 is not a recorded capture (a bundle of telemetry doctor; unpack it and play telemetry-doctor/",
        ),
        (
            lambda path: path.write_bytes(WHOLE[:80]),
            ": the recording is truncated in line 1; the last complete line is 0; use",
        ),
        (lambda path: path.write_bytes(gzip.compress(WHOLE)[:9]), ": the recording ends after line 0: it is truncated"),
        (
            lambda path: path.write_bytes(line(CAPTURES[0], schema="telemetry.capture/7")),
            ": line 1 is not a recorded capture (telemetry.capture/7 was written by a later version; upgrade to read the recording)",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, make: Callable[[Path], object], says: str) -> None:
    path = tmp_path / "recording.jsonl"
    make(path)
    with pytest.raises(RecordingError) as error:
        list(RecordingFile(path))
    assert str(error.value).startswith(f"{path}{says}")


EACH = [replace(capture, monotonic_time=float(at)) for at in range(150) for capture in CAPTURES]
MANY = b"".join(map(line, EACH))
PACKED = {
    "one member": gzip.compress(MANY),
    "several members": gzip.compress(MANY[: len(MANY) // 2]) + gzip.compress(MANY[len(MANY) // 2 :]),
}


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_damaged_gzip_data_end_the_recording_and_a_wrong_checksum_loses_no_line(packed: bytes) -> None:
    for tenth in (1, 5, 9):
        at = len(packed) * tenth // 10
        captures, damage = read(packed[:at] + b"\xff" * 16 + packed[at + 16 :])
        before = packed_up_to(packed[:at]).count(b"\n")
        assert before <= len(captures) < 600
        assert captures[:before] == EACH[:before]
        assert damage.early_end
    captures, damage = read(packed[:-8] + bytes([packed[-8] ^ 0xFF]) + packed[-7:])
    assert captures == EACH
    assert damage.early_end.startswith("the recording ends after line 600: its content is damaged")


def packed_up_to(packed: bytes) -> bytes:
    text = b""
    while packed:
        inflate = zlib.decompressobj(31)
        text += inflate.decompress(packed)
        packed = inflate.unused_data
    return text


def read_with_peak(path: Path) -> tuple[int, int, str]:
    """Return the number of captures, the peak memory in MiB, and the messages of reading a recording."""
    tape = RecordingFile(path)
    tracemalloc.start()
    try:
        count = sum(1 for _ in tape)
        return count, tracemalloc.get_traced_memory()[1] >> 20, " ".join(tape.damage.lines())
    finally:
        tracemalloc.stop()


def test_a_line_that_would_take_much_memory_is_not_decoded(tmp_path: Path) -> None:
    """Lines of hundreds of MiB that compress to less than one, and lines with millions of values."""
    values = [(b'"a":[[]', b",[]", b"]"), (b'"a":{"a":1', b',"b":{}', b"}"), (b'"a":[0', b",1e9", b"]")]
    paths = [tmp_path / f"{number}.gz" for number in range(4)]
    with gzip.open(paths[0], "wb", compresslevel=1) as file:
        file.write(WHOLE)
        for _ in range(400):
            file.write(bytes(1 << 20))
    for path, (begin, value, end) in zip(paths[1:], values, strict=True):
        million = value * (1 << 20)
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(WHOLE + b'{"schema":"telemetry.capture/1",' + begin)
            for _ in range((40 << 20) // len(million)):
                file.write(million)
            file.write(end + b"}\n" + WHOLE)
    (bomb, most, words), *others = map(read_with_peak, paths)
    assert (bomb, "longer than 64 MiB" in words, most < 300) == (4, True, True)
    for count, most, words in others:
        assert count == 8
        assert "line 5 was skipped: it is not a recorded capture (the line has more than 4,000,000 values)" in words
        assert most < 300


@pytest.mark.parametrize("text", ["0,1.5,2\n", '{"a": [1, 2], "b": null},\n', "°C;\n"])
def test_what_tools_print_at_most_is_read(text: str) -> None:
    longest = replace(CAPTURES[0], outputs=(Output(text=text * ((8 << 20) // len(text.encode()))),))
    assert read(line(longest))[0] == [longest]


@pytest.mark.parametrize("useless", [b"\n", b"x\n"])
def test_after_very_many_lines_without_a_capture_nothing_is_read(
    useless: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "_MAX_INVALID", 5000)
    captures, damage = read(WHOLE + useless * 5001 + WHOLE)
    assert captures == CAPTURES
    assert damage.early_end == "the 5,000 lines up to line 5,004 contain no captures; reading stopped there"


def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    packed = gzip.compress(line(replace(CAPTURES[0], outputs=(Output(text="x" * 20_000),))), 1)
    peaks = []
    for number in (50, 500):
        (tmp_path / "a.gz").write_bytes(packed * number)
        count, peak, _ = read_with_peak(tmp_path / "a.gz")
        assert count == number
        peaks.append(peak)
    assert peaks[1] - peaks[0] <= 4, peaks
