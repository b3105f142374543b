"""Keeps captures as JSON lines (`telemetry.capture/1`): each line whole, and at once."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
from pathlib import Path
from types import TracebackType
from typing import Protocol, final

from telemetry_parsers.codec.captures import CAPTURE_SCHEMA, CodecError, capture_to_plain, encode_line
from telemetry_parsers.model import Capture


class RecordError(Exception):
    """A capture could not be kept; says where, why and what to do."""


class LineStream(Protocol):
    """Where lines can be written, such as standard output."""

    def write(self, text: str, /) -> object:
        """Take a line."""
        ...

    def flush(self) -> object:
        """Pass it on."""
        ...


@final
class Recorder:
    """Writes captures to a text stream, or to a file with `to_file`; polls may add theirs from any thread."""

    def __init__(self, stream: LineStream, name: str = "standard output") -> None:
        self._stream = stream
        self._name = name
        self._turn = threading.Lock()

    @classmethod
    def to_file(cls, path: Path) -> Recorder:
        """Append to a file that is made for its owner's eyes only; RecordError if that cannot be."""
        try:
            return cls(_WholeLines(path), str(path))
        except OSError as error:
            text = f"cannot record to {path}: {error.strerror}; name a new file in a folder that you may write to"
            raise RecordError(text) from error

    def add(self, capture: Capture) -> None:
        """Write one capture; RecordError if it was not kept, while those before it were."""
        try:
            line = encode_line(capture_to_plain(capture))
        except CodecError as error:
            raise RecordError(f"a capture of {capture.source}/{capture.poll} cannot be recorded: {error}") from error
        with self._turn:
            self._write(line + "\n")

    def close(self) -> None:
        """Close the file, if it is one; nothing can be added any more."""
        with self._turn:
            if isinstance(self._stream, _WholeLines):
                self._stream.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line)
            self._stream.flush()
        except OSError as error:
            hint = "; free some space or record to another disk" if error.errno in _FULL else ""
            raise RecordError(f"cannot record to {self._name}: {error.strerror}{hint}") from error
        except ValueError as error:
            raise RecordError(f"cannot record to {self._name}: it is closed") from error


# A line begins with its schema.
_HEAD_BYTES = 64
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _WholeLines:
    """A file of whole lines: of one that does not fit, nothing stays."""

    def __init__(self, path: Path) -> None:
        with contextlib.ExitStack() as undo:
            # For reading, too: whether the last line is whole must be looked at.
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            undo.callback(os.close, self._descriptor)
            self._is_file = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
            if self._is_file:
                self._claim(path)
            undo.pop_all()

    def write(self, text: str, /) -> None:
        """Append a line."""
        if self._descriptor < 0:
            raise ValueError("closed")
        left = memoryview(text.encode("ascii"))
        before = os.fstat(self._descriptor).st_size
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            if self._is_file:
                os.ftruncate(self._descriptor, before)
            raise

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Close the file, once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _claim(self, path: Path) -> None:
        """Keep other recorders away, and don't add to what is no recording."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another process records to it", str(path)) from None
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            raise OSError(errno.EINVAL, "it ends within a line", str(path))
        if size and CAPTURE_SCHEMA.encode() not in os.pread(self._descriptor, _HEAD_BYTES, 0):
            raise OSError(errno.EINVAL, "it is no recording", str(path))
