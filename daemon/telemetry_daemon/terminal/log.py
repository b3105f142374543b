"""Logs events to standard error as text or JSON. Never blocks and never raises."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import datetime, timezone

MAX_VALUE_LENGTH = 4096
MAX_CHANGES_KEPT = 4096
MAX_DEFERRED = 10
_STDERR = 2
# If poll() reports a pipe as writable, this much fits without blocking (pipe(7), PIPE_BUF).
_CHUNK_BYTES = 4096
_WRITE_TIMEOUT_MILLISECONDS = 50
# For each level: (lowest number, name, priority for journald). See sd-daemon(3).
_LEVELS = ((logging.ERROR, "error", 3), (logging.WARNING, "warning", 4), (logging.INFO, "info", 6))
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NOT_PRINTABLE_ASCII = re.compile(r"[^\x20-\x7e]")
_NEEDS_NO_QUOTES = re.compile(r'[^\s"=\\]+\Z')

Scalar = str | int | float | bool | None
Fields = dict[str, Scalar]


def setup(level: str, format: str, descriptor: int = _STDERR) -> None:
    """Write all log records to standard error. This replaces any earlier setup."""
    logging.raiseExceptions = False
    is_journal = _is_journal(descriptor)
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _LineHandler)]:
        root.removeHandler(handler)
    root.addHandler(_LineHandler(_LineWriter(descriptor), _RENDERERS[format], is_journal=is_journal))
    root.setLevel(level.upper())
    # Below this level, apscheduler logs each run and each skipped run, which the poller already counts.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)


@contextlib.contextmanager
def deferred(level: str) -> Iterator[None]:
    """Delay log records of at least this level until the `with` block ends."""
    deferring = _DeferringHandler(level.upper())
    root = logging.getLogger()
    root.addHandler(deferring)
    try:
        yield
    finally:
        root.removeHandler(deferring)
        setup(level, "text")
        for record in deferring.first_records:
            root.handle(record)
        if deferring.omitted_count:
            root.error("log lines were omitted", extra={"lines": deferring.omitted_count})


class ChangeLog:
    """Remembers states, so that each change is logged only once."""

    def __init__(self) -> None:
        self._states: dict[Hashable, object] = {}
        self._lock = threading.Lock()

    def changed(self, key: Hashable, state: object) -> bool:
        """Store the key's state, and return whether it is new or differs from the previous state."""
        with self._lock:
            if key in self._states and self._states[key] == state:
                return False
            self._states.pop(key, None)
            while len(self._states) >= MAX_CHANGES_KEPT:
                del self._states[next(iter(self._states))]
            self._states[key] = state
            return True


class _DeferringHandler(logging.Handler):
    def __init__(self, level: str) -> None:
        super().__init__(level)
        self.first_records: list[logging.LogRecord] = []
        self.omitted_count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.first_records) < MAX_DEFERRED:
            self.first_records.append(record)
        else:
            self.omitted_count += 1


class _LineHandler(logging.Handler):
    """Writes each record as a line, and reports how many lines were lost."""

    def __init__(self, writer: _LineWriter, render: Callable[[Fields], str], *, is_journal: bool) -> None:
        super().__init__()
        self._writer = writer
        self._render = render
        self._is_journal = is_journal
        self._lost_count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record as a line. Never raises."""
        if self._lost_count:
            notice = _make_record(logging.WARNING, "log lines were lost", lines=self._lost_count)
            if not self._writer.write(self._format_line(notice), timeout_milliseconds=0):
                self._lost_count += 1
                return
            self._lost_count = 0
        if not self._writer.write(self._format_safely(record), _WRITE_TIMEOUT_MILLISECONDS):
            self._lost_count += 1

    def _format_safely(self, record: logging.LogRecord) -> str:
        try:
            return self._format_line(record)
        except Exception as error:  # noqa: BLE001  # an invalid log argument must not fail the caller
            message = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            return self._format_line(
                _make_record(logging.ERROR, f"a message could not be formatted: {type(error).__name__}: {message}")
            )

    def _format_line(self, record: logging.LogRecord) -> str:
        fields = _fields_of(record)
        if not self._is_journal:
            return self._render(fields)
        if self._render is _format_text:
            del fields["time"]  # journald adds a timestamp
        return f"<{_level_of(record.levelno)[1]}>{self._render(fields)}"


class _LineWriter:
    def __init__(self, descriptor: int) -> None:
        # If Python started without descriptor 2, the descriptor may now belong to a socket.
        self._descriptor = -1 if descriptor == _STDERR and sys.stderr is None else descriptor
        self._poll = select.poll()
        if self._descriptor >= 0:
            self._poll.register(self._descriptor, select.POLLOUT)
        self._has_partial_line = False

    def write(self, line: str, timeout_milliseconds: int) -> bool:
        """Write a line. Return False if it could not be written completely before the timeout."""
        data = (("\n" if self._has_partial_line else "") + line + "\n").encode(errors="backslashreplace")
        for start in range(0, len(data), _CHUNK_BYTES):
            if not self._write_chunk(data[start : start + _CHUNK_BYTES], timeout_milliseconds):
                self._has_partial_line = self._has_partial_line or start > 0
                return False
        self._has_partial_line = False
        return True

    def _write_chunk(self, chunk: bytes, timeout_milliseconds: int) -> bool:
        try:
            if self._descriptor < 0 or not self._poll.poll(timeout_milliseconds):
                return False
            return os.write(self._descriptor, chunk) == len(chunk)
        except OSError:  # there is no other place to report the error
            return False


def _make_record(level: int, message: str, **fields: Scalar) -> logging.LogRecord:
    return logging.makeLogRecord({"levelno": level, "msg": message, "name": __name__, **fields})


def _fields_of(record: logging.LogRecord) -> Fields:
    """Return the standard fields of a record, followed by the fields from `extra`."""
    fields: Fields = {
        "time": _format_time(record.created),
        "level": _level_of(record.levelno)[0],
        "msg": _shorten(record.getMessage()),
        "logger": record.name,
    }
    for key, value in vars(record).items():
        if key not in _STANDARD_ATTRIBUTES:
            fields[f"{key}_" if key in fields else key] = _to_scalar(value)
    if record.exc_info:
        fields["traceback"] = _shorten(logging.Formatter().formatException(record.exc_info))
    return fields


def _format_text(fields: Fields) -> str:
    """Return `time level=… msg="…" key=value …`, without the logger's name."""
    message = f"level={fields['level']} msg={_quote(str(fields['msg']))}"
    pairs = [
        f"{key}={_value_text(value)}" for key, value in fields.items() if key not in ("time", "level", "msg", "logger")
    ]
    return " ".join([*([str(fields["time"])] if "time" in fields else []), message, *pairs])


def _format_json(fields: Fields) -> str:
    return _printable(json.dumps(fields, ensure_ascii=False))


_RENDERERS: Mapping[str, Callable[[Fields], str]] = {"text": _format_text, "json": _format_json}


def _format_time(seconds: float) -> str:
    timestamp = datetime.fromtimestamp(seconds, timezone.utc)
    return timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _level_of(number: int) -> tuple[str, int]:
    return next(((name, priority) for limit, name, priority in _LEVELS if number >= limit), ("debug", 7))


def _to_scalar(value: object) -> Scalar:
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _shorten(str(value))


def _value_text(value: Scalar) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _NEEDS_NO_QUOTES.match(value) and value.isprintable() else _quote(value)


def _quote(text: str) -> str:
    return _printable(json.dumps(text, ensure_ascii=False))


def _printable(quoted: str) -> str:
    """Escape the characters in a JSON text that break lines or control terminals."""
    return _NOT_PRINTABLE_ASCII.sub(_escape, quoted)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 1 << 16 else json.dumps(character)[1:-1]


def _shorten(text: str) -> str:
    if len(text) <= MAX_VALUE_LENGTH:
        return text
    half = MAX_VALUE_LENGTH // 2
    return f"{text[:half]} … {text[-half:]}"


def _is_journal(descriptor: int) -> bool:
    """Return whether the descriptor belongs to journald (see JOURNAL_STREAM in systemd.exec(5))."""
    try:
        status = os.fstat(descriptor)
    except OSError:  # the descriptor is closed
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def exit_at_once(status: int) -> None:
    """Exit without waiting for threads, because a thread may hang in a driver."""
    logging.shutdown()
    os._exit(status)
