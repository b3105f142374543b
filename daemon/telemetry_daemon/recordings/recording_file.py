"""Reads plain or gzipped recordings as a stream, even if they are damaged."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from telemetry_daemon.guarded.gzip_reader import GzipReader, is_gzip
from telemetry_daemon.guarded.reading import open_file
from telemetry_parsers.codec.captures import CAPTURE_SCHEMA, CodecError, capture_from_plain, decode_line
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture, Plain

# A line may contain several outputs of up to 8 MiB, and escaping makes them longer.
MAX_LINE_BYTES = 64 << 20
# Decoded JSON may use a hundred times the memory of its text, so the number of values is limited.
_VALUE_STARTS, _MAX_VALUES = (b"[", b"{", b","), 4_000_000
_DOCTOR_BUNDLE_PREFIX = b"telemetry-doctor/"
# Limits in seconds: the year 9000 for the wall time, 300 years for the monotonic time, a day for a poll.
_TIME_LIMITS = (221_845_392_000.0, 1e10, 86_400.0)
# A small compressed file may have gigabytes of invalid lines.
_MAX_INVALID = 100_000
_HEAD_BYTES, _BUFFER_BYTES = 2, 1 << 20
_MAX_SHOWN_LINES = 3
_REMEDY = "use a file that `telemetry record` wrote"
_LATER_SCHEMA = re.compile(re.escape(CAPTURE_SCHEMA.rstrip("1")) + r"[0-9]{1,4}\Z")


class RecordingError(ValueError):
    """A recording cannot be used."""


@dataclass(slots=True)
class Damage:
    """The invalid lines of a recording, and the reason why reading ended early."""

    # The first invalid lines: (line number, reason).
    invalid_lines: list[tuple[int, str]] = field(default_factory=list)
    invalid_count: int = 0
    early_end: str = ""

    def lines(self) -> Iterator[str]:
        """Yield a message for each problem of the recording."""
        for line_number, reason in self.invalid_lines:
            yield f"line {line_number} was skipped: it is not a recorded capture ({reason})"
        if self.invalid_count > len(self.invalid_lines):
            yield f"{self.invalid_count} lines were skipped in total"
        if self.early_end:
            yield self.early_end


class RecordingFile:
    """The captures of a recording, and the damage found by the latest iteration."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = Damage()
        self._file_id: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Capture]:
        """Yield the captures. Raise RecordingError if the file cannot be used."""
        self.damage = damage = Damage()
        has_captures = False
        try:
            with os.fdopen(open_file(str(self.path)), "rb") as file:
                self._check_not_replaced(os.fstat(file.fileno()))
                for capture in captures_in(file, damage):
                    has_captures = True
                    yield capture
        except OSError as error:
            raise RecordingError(f"{self.path}: {error.strerror}; {_REMEDY}") from error
        if not has_captures:
            raise RecordingError(f"{self.path}: {_reason_for_no_captures(damage)}; {_REMEDY}")

    def _check_not_replaced(self, status: os.stat_result) -> None:
        file_id = (status.st_dev, status.st_ino)
        if self._file_id not in (None, file_id):
            raise RecordingError(f"{self.path}: the file was replaced; restart to play the new file")
        self._file_id = file_id


def captures_in(stream: BinaryIO, damage: Damage) -> Iterator[Capture]:
    """Yield the captures of a stream, and record skipped lines in `damage`."""
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    gzip_reader = GzipReader(stream) if is_gzip(head) else None
    lines = stream if gzip_reader is None else io.BufferedReader(gzip_reader, _BUFFER_BYTES)
    line_number = consecutive_invalid = 0
    while line := lines.readline(MAX_LINE_BYTES + 1):
        line_number += 1
        capture_or_reason = _capture_or_reason(line)
        if isinstance(capture_or_reason, Capture):
            consecutive_invalid = 0
            yield capture_or_reason
            continue
        reason, consecutive_invalid = capture_or_reason, consecutive_invalid + 1
        # A file that does not begin with a valid line is not a truncated recording.
        is_gzip_damaged = gzip_reader is not None and gzip_reader.damage != ""
        may_be_truncated = consecutive_invalid < line_number or CAPTURE_SCHEMA.encode() in line or is_gzip_damaged
        damage.early_end = _early_end_text(line, line_number, reason if may_be_truncated else "", consecutive_invalid)
        if damage.early_end:
            return
        if reason:
            damage.invalid_count += 1
            damage.invalid_lines += [(line_number, reason)] * (len(damage.invalid_lines) < _MAX_SHOWN_LINES)
    if gzip_reader is not None and gzip_reader.damage:
        damage.early_end = f"the recording ends after line {line_number}: {gzip_reader.damage}"


def _early_end_text(line: bytes, line_number: int, reason: str, consecutive_invalid: int) -> str:
    """Return why reading stops after this invalid line, or "" if reading continues."""
    if len(line) > MAX_LINE_BYTES:
        return f"line {line_number} is longer than {MAX_LINE_BYTES >> 20} MiB; reading stopped there"
    if consecutive_invalid >= _MAX_INVALID:
        return (
            f"the {consecutive_invalid:,} lines up to line {line_number:,} contain no captures; reading stopped there"
        )
    if reason and not line.endswith(b"\n"):
        return f"the recording is truncated in line {line_number}; the last complete line is {line_number - 1}"
    return ""


def _capture_or_reason(line: bytes) -> Capture | str:
    """Return the capture in a line, or why there is none. The reason is "" for a blank line."""
    if not line.strip():
        return ""
    if line.startswith(_DOCTOR_BUNDLE_PREFIX):
        return "a bundle of telemetry doctor; unpack it and play telemetry-doctor/recording.jsonl.gz"
    if sum(map(line.count, _VALUE_STARTS)) > _MAX_VALUES:
        return f"the line has more than {_MAX_VALUES:,} values"
    try:
        document = decode_line(line)
    except CodecError as error:
        return str(error)
    try:
        capture = capture_from_plain(document)
    except CodecError as error:
        return _later_version_text(document) or str(error)
    times = (capture.wall_time, capture.monotonic_time, capture.seconds)
    if not all(0.0 <= time < limit for time, limit in zip(times, _TIME_LIMITS, strict=True)):
        return "the time is out of range"
    return capture


def _later_version_text(document: Plain) -> str:
    schema = document.get("schema") if isinstance(document, dict) else None
    if isinstance(schema, str) and _LATER_SCHEMA.match(schema) and schema != CAPTURE_SCHEMA:
        return f"{schema} was written by a later version; upgrade to read the recording"
    return ""


def _reason_for_no_captures(damage: Damage) -> str:
    if damage.invalid_lines:
        line_number, reason = damage.invalid_lines[0]
        return f"line {line_number} is not a recorded capture ({reason})"
    return damage.early_end or "the file contains no captures"
