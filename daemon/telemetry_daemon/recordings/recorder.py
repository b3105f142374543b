"""Writes captures as JSON lines (`telemetry.capture/1`)."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
import zlib  # compresses better than isal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO, final

from telemetry_daemon.guarded import folders, named
from telemetry_daemon.guarded.gzip_reader import GZIP, is_gzip
from telemetry_daemon.recordings.parsed_captures import CaptureParser
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
from telemetry_parsers.codec.plain import decode_untrusted
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Report

CaptureSink = Callable[[Capture, "Report | None"], None]
_FAILED_STATES = ("failed", "stuck")
_MAX_RECEIVE_SECONDS = 30.0
# The schema must appear within this many bytes of the start.
_HEAD_BYTES = 1024
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RecordError(Exception):
    """A capture could not be written."""


@final
class Recorder:
    """Writes captures to a text stream or a file. Thread-safe."""

    def __init__(self, stream: TextIO | _LineFile, name: str = "standard output") -> None:
        self._stream = stream
        self._name = name
        self._lock = threading.Lock()
        self._sources: set[str] = set()
        self.capture_count = 0

    @property
    def source_count(self) -> int:
        """Return the number of recorded sources."""
        return len(self._sources)

    @property
    def size_bytes(self) -> int | None:
        """Return the size of the file, or None for a stream."""
        return self._stream.size_bytes if isinstance(self._stream, _LineFile) else None

    @property
    def has_captures(self) -> bool:
        """Return whether at least one capture was recorded, and its file still exists."""
        return self.capture_count > 0 and not (isinstance(self._stream, _LineFile) and self._stream.is_lost)

    @classmethod
    def to_file(cls, path: Path) -> Recorder:
        """Open a file for recording, and replace an old recording. Raise RecordError if this is impossible."""
        try:
            return cls(_LineFile(path), str(path))
        except OSError as error:
            text = f"cannot record to {path}: {error.strerror}; use a new file in a writable folder"
            raise RecordError(text) from error

    def add(self, capture: Capture) -> None:
        """Write a capture. Raise RecordError if it cannot be written."""
        try:
            line = encode_line(capture_to_plain(capture))
        except CodecError as error:
            raise RecordError(f"a capture of {capture.source}/{capture.poll} cannot be recorded: {error}") from error
        with self._lock:
            self._write(line + "\n")
            self.capture_count += 1
            self._sources.add(capture.source)

    def close(self) -> None:
        """Close the file. Raise RecordError if its end could not be written."""
        with self._lock:
            if isinstance(self._stream, _LineFile):
                try:
                    self._stream.close()
                except OSError as error:
                    raise self._write_error(error) from error

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line)
            self._stream.flush()
        except OSError as error:
            raise self._write_error(error) from error
        except ValueError as error:
            raise RecordError(f"cannot record to {self._name}: the recorder is closed") from error

    def _write_error(self, error: OSError) -> RecordError:
        hint = "; free some space or record to another disk" if error.errno in _DISK_FULL_ERRORS else ""
        return RecordError(f"cannot record to {self._name}: {error.strerror}{hint}")


class _LineFile:
    """A file of complete lines, optionally compressed."""

    def __init__(self, path: Path) -> None:
        descriptor = named.open_stream(path)
        self._locked_file = _lock_file_name(path) if descriptor is None else None
        self._descriptor = -1 if descriptor is None else descriptor
        self._is_file = descriptor is None or stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._is_closed = self.is_lost = False
        self._compressor = zlib.compressobj(wbits=GZIP) if path.suffix == ".gz" else None
        self.size_bytes = 0

    def write(self, text: str, /) -> None:
        if self._is_closed:
            raise ValueError("closed")
        data = text.encode("ascii")
        if self._compressor is not None:
            data = self._compressor.compress(data) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        self._append(data)

    def flush(self) -> None:
        """Do nothing, because no line is buffered."""

    def close(self) -> None:
        if self._is_closed:
            return
        try:
            if self._descriptor >= 0:
                self._append(self._compressor.flush() if self._compressor is not None else b"")
        finally:
            self._close_descriptor()

    def _append(self, data: bytes) -> None:
        line_start = self._file_size()
        try:
            self._write_data(data)
        except OSError:
            if line_start is not None and self._descriptor >= 0:
                os.ftruncate(self._descriptor, line_start)
                os.lseek(self._descriptor, 0, os.SEEK_END)
            if self._compressor is not None:  # later output would refer to bytes that are not in the file
                self._compressor = None
                self._close_descriptor()
            raise
        self.size_bytes += len(data)

    def _write_data(self, data: bytes) -> None:
        if self._locked_file is not None and self._descriptor < 0:
            self._descriptor = self._locked_file.replace_and_open(data)
            return
        if self._locked_file is not None and os.fstat(self._descriptor).st_nlink == 0:
            self.is_lost = True
            raise OSError(errno.ENOENT, "the recording file was removed while it was being written")
        folders.write(self._descriptor, data)

    def _file_size(self) -> int | None:
        """Return the size of the file, or None if it is not a regular file."""
        if self._descriptor < 0:
            return 0
        return os.fstat(self._descriptor).st_size if self._is_file else None

    def _close_descriptor(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._locked_file is not None:
            self._locked_file.close()


def _lock_file_name(path: Path) -> named.FileNameLock:
    try:
        locked_file = named.FileNameLock(path)
    except BlockingIOError:
        raise OSError(errno.EBUSY, "another process is recording to this file", str(path)) from None
    if _may_be_replaced(locked_file.first_bytes(_HEAD_BYTES)):
        return locked_file
    locked_file.close()
    raise OSError(errno.EINVAL, "the existing file is not a recording", str(path))


def _may_be_replaced(first_bytes: bytes) -> bool:
    """Return whether a file that begins like this is empty or a recording."""
    try:
        unpacked = zlib.decompressobj(GZIP).decompress(first_bytes) if is_gzip(first_bytes) else first_bytes
    except zlib.error:  # not written by a recorder
        return False
    is_empty = not unpacked and len(first_bytes) < _HEAD_BYTES
    return is_empty or CAPTURE_SCHEMA.encode() in unpacked


class FirstResultGate:
    """Holds back the newest capture of each poll until an accelerator source returns output. Thread-safe."""

    def __init__(self, sink: CaptureSink, capture_parser: CaptureParser) -> None:
        self._sink = sink
        self._capture_parser = capture_parser
        self._lock = threading.Lock()
        self._held_captures: dict[tuple[str, str], tuple[Capture, Report | None]] = {}
        self.is_open = False

    def __call__(self, capture: Capture, report: Report | None) -> None:
        """Pass a capture to the sink, after the captures held back so far. While the gate is closed, hold it back."""
        if not self.is_open:
            with self._lock:
                if not self._open_for(capture):
                    self._held_captures[capture.source, capture.poll] = (capture, report)
                    return
                while self._held_captures:
                    self._sink(*self._held_captures.pop(next(iter(self._held_captures))))
        self._sink(capture, report)

    @property
    def failures(self) -> dict[str, str]:
        """Return a failure text for each accelerator source that has failed so far."""
        with self._lock:
            held = [capture for capture, _ in self._held_captures.values() if self._has_accelerators(capture)]
        failures = ((capture.source, capture.failure) for capture in held if capture.failure is not None)
        return {source: failure.text for source, failure in failures if failure.state in _FAILED_STATES}

    def _open_for(self, capture: Capture) -> bool:
        """Open the gate if the capture is the first result. Return whether the gate is open."""
        self.is_open = self.is_open or (self._has_accelerators(capture) and _has_output(capture))
        return self.is_open

    def _has_accelerators(self, capture: Capture) -> bool:
        parser = self._capture_parser.parser_of(capture)
        return parser is not None and bool(parser.vendor)


def _has_output(capture: Capture) -> bool:
    return any(output.text or output.stderr or output.data is not None for output in capture.outputs)


@dataclass(frozen=True, slots=True)
class _Status:
    """A status line between captures. The first round of all polls ended at `round_ended`."""

    lost_count: int
    round_ended: float | None


class DaemonCaptures:
    """Receives captures from the daemon."""

    def __init__(
        self,
        runtime_directory: str,
        seconds: float,
        *,
        minutes_before: bool,
        max_round_seconds: float,
        continues_after_round: Callable[[], bool] = lambda: True,
    ) -> None:
        self._path = control.socket_path(runtime_directory)
        self._seconds = seconds
        self._minutes_before = minutes_before
        self._continues_after_round = continues_after_round
        self.lost_count = 0
        # The monotonic time at which receiving ends.
        self.until = time.monotonic() + max_round_seconds + seconds

    def captures(self) -> Iterator[Capture]:
        """Yield the captures until each poll has run and the requested time is over."""
        lines = control.stream_lines(
            self._path, "captures", lambda: self.until, minutes_before=self._minutes_before, live=True
        )
        is_round_complete = False
        for line in lines:
            capture_or_status = _parse_line(line)
            if isinstance(capture_or_status, _Status):
                self.lost_count += capture_or_status.lost_count
                if capture_or_status.round_ended is not None and not is_round_complete:
                    is_round_complete = True
                    seconds = self._seconds if self._continues_after_round() else 0.0
                    self.until = min(capture_or_status.round_ended, time.monotonic()) + seconds
            elif capture_or_status.monotonic_time <= self.until:  # later captures arrive if the caller is slow
                yield capture_or_status


def recent_captures(runtime_directory: str) -> Iterator[Capture]:
    """Yield the captures of the daemon's last two minutes. Raise ControlError if the daemon does not send them."""
    path, deadline = control.socket_path(runtime_directory), time.monotonic() + _MAX_RECEIVE_SECONDS
    for line in control.stream_lines(path, "captures", lambda: deadline, minutes_before=True, live=False):
        capture_or_status = _parse_line(line)
        if isinstance(capture_or_status, Capture):
            yield capture_or_status


def _parse_line(line: bytes) -> Capture | _Status:
    try:
        document = decode_untrusted(line)
        if (
            isinstance(document, dict)
            and document.get("schema") == control_requests.LOST_SCHEMA
            and isinstance(document["captures"], int)
        ):
            round_ended = document.get("round_ended")
            return _Status(document["captures"], round_ended if isinstance(round_ended, float) else None)
        return capture_from_plain(document)
    except (CodecError, KeyError) as error:
        raise ControlError(f"the daemon sent an invalid capture ({error}); it may have another version") from None
