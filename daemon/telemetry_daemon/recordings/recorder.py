"""Makes a recording: captures of the running daemon as JSON lines (`telemetry.capture/1`), from the first result of an accelerator on."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
import zlib  # isal compresses an eighth less, and a recording is meant to be sent
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO, final

from telemetry_daemon.guarded import folders, named
from telemetry_daemon.guarded.packing import GZIP, is_packed
from telemetry_daemon.recordings.parsed_captures import Reports
from telemetry_daemon.remote import control_requests
from telemetry_daemon.remote import control_socket as control
from telemetry_daemon.remote.control_socket import ControlError
from telemetry_parsers.codec.captures import (
    CAPTURE_SCHEMA,
    CodecError,
    capture_from_plain,
    capture_to_plain,
    encode_line,
)
from telemetry_parsers.codec.plain import decode_foreign
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Report

# Accepts a capture and its report.
Keep = Callable[[Capture, "Report | None"], None]
_FAILED = ("failed", "stuck")
# The daemon sends its last minutes at once.
_LONGEST_SECONDS = 30.0
# A line begins with its schema.
_HEAD_BYTES = 1024
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RecordError(Exception):
    """A capture could not be written: the place, the reason and the remedy."""


@final
class Recorder:
    """Writes captures to a text stream, or to a file (`to_file`). Polls may add captures from any thread."""

    def __init__(self, stream: TextIO | _WholeLines, name: str = "standard output") -> None:
        self._stream = stream
        self._name = name
        self._turn = threading.Lock()
        self._sources: set[str] = set()
        self.captures = 0

    @property
    def sources(self) -> int:
        """Return the number of recorded sources."""
        return len(self._sources)

    @property
    def size_bytes(self) -> int | None:
        """Return the size of the file, or None for a stream."""
        return self._stream.size_bytes if isinstance(self._stream, _WholeLines) else None

    @property
    def has_any(self) -> bool:
        """Return whether a recorded capture still exists."""
        return self.captures > 0 and not (isinstance(self._stream, _WholeLines) and self._stream.is_lost)

    @classmethod
    def to_file(cls, path: Path) -> Recorder:
        """Write to a new private file (gzipped for `.gz`), device or pipe. Only an earlier recording is replaced. Raises RecordError."""
        try:
            return cls(_WholeLines(path), str(path))
        except OSError as error:
            text = f"cannot record to {path}: {error.strerror}; name a new file in a folder that you may write to"
            raise RecordError(text) from error

    def add(self, capture: Capture) -> None:
        """Write a capture. Raises RecordError; earlier captures remain."""
        try:
            line = encode_line(capture_to_plain(capture))
        except CodecError as error:
            raise RecordError(f"a capture of {capture.source}/{capture.poll} cannot be recorded: {error}") from error
        with self._turn:
            self._write(line + "\n")
            self.captures += 1
            self._sources.add(capture.source)

    def close(self) -> None:
        """Close the file. Raises RecordError if its end could not be written."""
        with self._turn:
            if isinstance(self._stream, _WholeLines):
                try:
                    self._stream.close()
                except OSError as error:
                    raise self._error(error) from error

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line)
            self._stream.flush()
        except OSError as error:
            raise self._error(error) from error
        except ValueError as error:
            raise RecordError(f"cannot record to {self._name}: it is closed") from error

    def _error(self, error: OSError) -> RecordError:
        hint = "; free some space or record to another disk" if error.errno in _FULL else ""
        return RecordError(f"cannot record to {self._name}: {error.strerror}{hint}")


class _WholeLines:
    """A file of whole lines: a line that does not fit is removed again."""

    def __init__(self, path: Path) -> None:
        stream = named.open_stream(path)
        self._claim = _claimed(path) if stream is None else None
        self._descriptor = -1 if stream is None else stream
        self._is_file = stream is None or stat.S_ISREG(os.fstat(stream).st_mode)
        self._is_closed = self.is_lost = False
        self._packer = zlib.compressobj(wbits=GZIP) if path.suffix == ".gz" else None
        self.size_bytes = 0

    def write(self, text: str, /) -> None:
        """Append a line."""
        if self._is_closed:
            raise ValueError("closed")
        data = text.encode("ascii")
        if self._packer is not None:
            data = self._packer.compress(data) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        self._append(data)

    def flush(self) -> None:
        """Do nothing: no line is buffered."""

    def close(self) -> None:
        """Close the file, once. Raises OSError if the end of a gzipped file could not be written, or the file is gone."""
        if self._is_closed:
            return
        try:
            if self._descriptor >= 0:
                self._append(self._packer.flush() if self._packer is not None else b"")
        finally:
            self._end()

    def _append(self, data: bytes) -> None:
        begin = self._end_of_file()
        try:
            self._put(data)
        except OSError:
            if begin is not None and self._descriptor >= 0:
                os.ftruncate(self._descriptor, begin)
                os.lseek(self._descriptor, 0, os.SEEK_END)
            if self._packer is not None:  # the packer would continue from bytes that are not in the file
                self._packer = None
                self._end()
            raise
        self.size_bytes += len(data)

    def _put(self, data: bytes) -> None:
        if self._claim is not None and self._descriptor < 0:
            self._descriptor = self._claim.write_file(data)
            return
        if self._claim is not None and os.fstat(self._descriptor).st_nlink == 0:
            self.is_lost = True
            raise OSError(errno.ENOENT, "the recording file was removed while it was written")
        folders.write(self._descriptor, data)

    def _end_of_file(self) -> int | None:
        """Return the end of the file, where the next line goes, or None if it is no regular file. Earlier content remains."""
        if self._descriptor < 0:
            return 0
        return os.fstat(self._descriptor).st_size if self._is_file else None

    def _end(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._claim is not None:
            self._claim.close()


def _claimed(path: Path) -> named.Claim:
    try:
        claim = named.Claim(path)
    except BlockingIOError:
        raise OSError(errno.EBUSY, "another process records to it", str(path)) from None
    if _may_be_replaced(claim.head(_HEAD_BYTES)):
        return claim
    claim.close()
    raise OSError(errno.EINVAL, "it is no recording", str(path))


def _may_be_replaced(head: bytes) -> bool:
    try:
        unpacked = zlib.decompressobj(GZIP).decompress(head) if is_packed(head) else head
    except zlib.error:  # packed by another program
        return False
    is_empty = not unpacked and len(head) < _HEAD_BYTES
    return is_empty or CAPTURE_SCHEMA.encode() in unpacked


class FromFirstAnswer:
    """Passes captures on from the first result of an accelerator, preceded by the newest capture of each poll. Thread-safe."""

    def __init__(self, keep: Keep, reports: Reports) -> None:
        self._keep = keep
        self._reports = reports
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], tuple[Capture, Report | None]] = {}
        self.has_begun = False

    def __call__(self, capture: Capture, report: Report | None) -> None:
        """Pass a capture on, or hold it back."""
        if not self.has_begun:
            with self._lock:
                if not self._begins(capture):
                    self._waiting[capture.source, capture.poll] = (capture, report)
                    return
                while self._waiting:
                    self._keep(*self._waiting.pop(next(iter(self._waiting))))
        self._keep(capture, report)

    @property
    def failures(self) -> dict[str, str]:
        """Return for each accelerator's source that failed without any output why it failed."""
        with self._lock:
            waiting = [capture for capture, _ in self._waiting.values() if self._is_of_accelerator(capture)]
        failures = ((capture.source, capture.failure) for capture in waiting if capture.failure is not None)
        return {source: failure.text for source, failure in failures if failure.state in _FAILED}

    def _begins(self, capture: Capture) -> bool:
        self.has_begun = self.has_begun or (self._is_of_accelerator(capture) and _says_something(capture))
        return self.has_begun

    def _is_of_accelerator(self, capture: Capture) -> bool:
        parser = self._reports.parser(capture)
        return parser is not None and bool(parser.vendor)


def _says_something(capture: Capture) -> bool:
    return any(output.text or output.stderr or output.data is not None for output in capture.outputs)


@dataclass(frozen=True, slots=True)
class _Note:
    """A line between captures: how many captures were lost, and when the round of polls ended."""

    lost: int
    round_ended: float | None


class FromDaemon:
    """The captures until each poll has completed once, and for some seconds after that. `lost` counts those that a slow client missed."""

    def __init__(
        self,
        runtime_directory: str,
        seconds: float,
        *,
        minutes_before: bool,
        longest_round: float,
        is_continued: Callable[[], bool] = lambda: True,
    ) -> None:
        self._path = control.path_in(runtime_directory)
        self._seconds = seconds
        self._minutes_before = minutes_before
        self._is_continued = is_continued
        self.lost = 0
        self.until = time.monotonic() + longest_round + seconds

    def captures(self) -> Iterator[Capture]:
        """Yield the newest capture of each poll, or the last two minutes, then every new capture. `is_continued` is called after the first round. Raises ControlError."""
        asked = control.lines(
            self._path, "captures", lambda: self.until, minutes_before=self._minutes_before, live=True
        )
        has_round = False
        for line in asked:
            note = _said(line)
            if isinstance(note, _Note):
                self.lost += note.lost
                if note.round_ended is not None and not has_round:
                    has_round = True
                    self.until = min(note.round_ended, time.monotonic()) + (
                        self._seconds if self._is_continued() else 0.0
                    )
            elif note.monotonic_time <= self.until:  # a slow caller ends the request late
                yield note


def past(runtime_directory: str) -> Iterator[Capture]:
    """Yield the captures of the last two minutes, if the daemon keeps them. Raises ControlError."""
    path, until = control.path_in(runtime_directory), time.monotonic() + _LONGEST_SECONDS
    for line in control.lines(path, "captures", lambda: until, minutes_before=True, live=False):
        note = _said(line)
        if isinstance(note, Capture):
            yield note


def _said(line: bytes) -> Capture | _Note:
    try:
        plain = decode_foreign(line)
        if (
            isinstance(plain, dict)
            and plain.get("schema") == control_requests.LOST_SCHEMA
            and isinstance(plain["captures"], int)
        ):
            ended = plain.get("round_ended")
            return _Note(plain["captures"], ended if isinstance(ended, float) else None)
        return capture_from_plain(plain)
    except (CodecError, KeyError) as error:
        raise ControlError(f"the daemon sent an invalid capture ({error}); is it of another version?") from None
