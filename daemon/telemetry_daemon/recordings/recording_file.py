"""Reads a recording as a stream, plain or gzipped. Bad lines and a truncated end cost no whole line."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from telemetry_daemon.guarded.packing import Unpacked, is_packed
from telemetry_daemon.guarded.reading import open_file
from telemetry_parsers.codec.captures import CAPTURE_SCHEMA, CodecError, capture_from_plain, decode_line
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture, Plain

# A capture contains the escaped output of a tool's runs, each of at most 8 MiB.
LONGEST_LINE_BYTES = 64 << 20
# A value may take a hundred times its size once it is decoded. Eight MiB of tool output, even of CSV, have at most this
# many of these characters; the captures of 64 cards have ten thousand.
_MARKS, _MOST_MARKS = (b"[", b"{", b","), 4_000_000
# The start of a bundle of `telemetry doctor`.
_BUNDLE = b"telemetry-doctor/"
# In seconds: the beginning of the year 9000, which leaves room for a long recording; an uptime of 300 years; a day.
_ENDS_OF_TIME = (221_845_392_000.0, 1e10, 86_400.0)
# Gigabytes of other lines, which compress to little, are not read to their end.
_MOST_IN_VAIN = 100_000
_HEAD_BYTES, _BUFFER_BYTES = 2, 1 << 20
_MOST_NAMED = 3
_REMEDY = "give a file that `telemetry record` wrote"
_OF_LATER_VERSION = re.compile(re.escape(CAPTURE_SCHEMA.rstrip("1")) + r"[0-9]{1,4}\Z")


class RecordingError(ValueError):
    """A recording that cannot be used. Names the file, and the line if there is one."""


@dataclass(slots=True)
class Damage:
    """What is left out of a recording: the first bad lines with their reasons, their number, and why the recording ends early."""

    bad: list[tuple[int, str]] = field(default_factory=list)
    count: int = 0
    cut: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the messages about the damage."""
        for number, reason in self.bad:
            yield f"line {number} is left out: it is not a recorded capture ({reason})"
        if self.count > len(self.bad):
            yield f"{self.count} lines in all are left out"
        if self.cut:
            yield self.cut


class RecordingFile:
    """The captures of a recording in order of arrival. `damage` describes the newest pass."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = Damage()
        self._file: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Capture]:
        """Yield the captures. Raises RecordingError if there is none, the file cannot be read, or it is not the file of the first pass."""
        self.damage = damage = Damage()
        found = False
        try:
            with os.fdopen(open_file(str(self.path)), "rb") as file:
                self._check(os.fstat(file.fileno()))
                for capture in captures_in(file, damage):
                    found = True
                    yield capture
        except OSError as error:
            raise RecordingError(f"{self.path}: {error.strerror}; {_REMEDY}") from error
        if not found:
            raise RecordingError(f"{self.path}: {_why_empty(damage)}; {_REMEDY}")

    def _check(self, status: os.stat_result) -> None:
        file = (status.st_dev, status.st_ino)
        if self._file not in (None, file):
            raise RecordingError(f"{self.path}: the file was replaced; start again to play the new one")
        self._file = file


def captures_in(stream: BinaryIO, damage: Damage) -> Iterator[Capture]:
    """Yield the captures of a stream; `damage` receives what is left out."""
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    packed = Unpacked(stream) if is_packed(head) else None
    lines = stream if packed is None else io.BufferedReader(packed, _BUFFER_BYTES)
    number = in_vain = 0
    while line := lines.readline(LONGEST_LINE_BYTES + 1):
        number += 1
        capture = _capture(line)
        if isinstance(capture, Capture):
            in_vain = 0
            yield capture
            continue
        in_vain += 1
        # If even the first lines are invalid, the file is not a recording, rather than a truncated one.
        may_be_cut = in_vain < number or CAPTURE_SCHEMA.encode() in line or (packed is not None and packed.damage != "")
        damage.cut = _end(line, number, capture if may_be_cut else "", in_vain)
        if damage.cut:
            return
        if capture:
            damage.count += 1
            damage.bad += [(number, capture)] * (len(damage.bad) < _MOST_NAMED)
    if packed is not None and packed.damage:
        damage.cut = f"the recording ends after line {number}: {packed.damage}"


def _end(line: bytes, number: int, reason: str, in_vain: int) -> str:
    """Return why reading ends after this invalid line, or an empty text if more captures may follow."""
    if len(line) > LONGEST_LINE_BYTES:
        return f"line {number} is longer than {LONGEST_LINE_BYTES >> 20} MiB: nothing is read from there on"
    if in_vain >= _MOST_IN_VAIN:
        return f"no capture is in the last {in_vain:,} lines up to line {number:,}: nothing is read from there on"
    if reason and not line.endswith(b"\n"):
        return f"the recording is cut off in line {number}: it ends with line {number - 1}"
    return ""


def _capture(line: bytes) -> Capture | str:
    if not line.strip():
        return ""
    if line.startswith(_BUNDLE):
        return "a bundle of telemetry doctor: unpack it, and play telemetry-doctor/recording.jsonl.gz"
    if sum(map(line.count, _MARKS)) > _MOST_MARKS:
        return f"it has more than {_MOST_MARKS:,} values"
    try:
        plain = decode_line(line)
    except CodecError as error:
        return str(error)
    try:
        capture = capture_from_plain(plain)
    except CodecError as error:
        return _newer(plain) or str(error)
    times = (capture.wall_time, capture.monotonic_time, capture.seconds)
    if not all(0.0 <= time < end for time, end in zip(times, _ENDS_OF_TIME, strict=True)):
        return "its time is out of range"
    return capture


def _newer(plain: Plain) -> str:
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if isinstance(schema, str) and _OF_LATER_VERSION.match(schema) and schema != CAPTURE_SCHEMA:
        return f"{schema} was written by a later version: upgrade to read it"
    return ""


def _why_empty(damage: Damage) -> str:
    if damage.bad:
        number, reason = damage.bad[0]
        return f"line {number} is not a recorded capture ({reason})"
    return damage.cut or "there is no capture in it"
