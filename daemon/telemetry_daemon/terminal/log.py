"""One line per event on standard error, as text or JSON; logging never blocks, raises or floods.

Facts of an event go in `extra`, as in `logger.warning("poll failed", extra={"source": "nvml", "seconds": 2.0})`.
"""

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

LONGEST_VALUE = 4096
MOST_CHANGES_KEPT = 4096
# Enough to read after a screen was closed.
MOST_HELD = 10
_STDERR = 2
# A pipe that poll() reports as writable accepts this much without blocking (pipe(7), PIPE_BUF).
_CHUNK_BYTES = 4096
_PATIENCE_MILLISECONDS = 50
# The lowest number of each level, its name, and its number in journald's line prefix (sd-daemon(3)).
_NAMES = ((logging.ERROR, "error", 3), (logging.WARNING, "warning", 4), (logging.INFO, "info", 6))
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NOT_ASCII_TEXT = re.compile(r"[^\x20-\x7e]")
_BARE = re.compile(r'[^\s"=\\]+\Z')

Scalar = str | int | float | bool | None
Facts = dict[str, Scalar]


def setup(level: str, format: str, descriptor: int = _STDERR) -> None:
    """Send all logging to standard error from now on, and replace an earlier setup."""
    logging.raiseExceptions = False
    journal = _is_journal(descriptor)
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _LineHandler)]:
        root.removeHandler(handler)
    root.addHandler(_LineHandler(_LineWriter(descriptor), _RENDERERS[format], journal=journal))
    root.setLevel(level.upper())
    # APScheduler logs every run and every skipped run. The poller counts both.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)


@contextlib.contextmanager
def held_back(level: str) -> Iterator[None]:
    """Hold log records back within this context; then write the first records of this level and the number of the others."""
    held = _Held(level.upper())
    root = logging.getLogger()
    root.addHandler(held)
    try:
        yield
    finally:
        root.removeHandler(held)
        setup(level, "text")
        for record in held.first:
            root.handle(record)
        if held.more:
            root.error("there was more to log", extra={"lines": held.more})


class ChangeLog:
    """Remembers the last state of each key, so that a fault is logged when it begins and not at every poll."""

    def __init__(self) -> None:
        self._states: dict[Hashable, object] = {}
        self._lock = threading.Lock()

    def changed(self, key: Hashable, state: object) -> bool:
        """Return whether this state differs from the key's last state. The first state of a key does."""
        with self._lock:
            if key in self._states and self._states[key] == state:
                return False
            self._states.pop(key, None)
            while len(self._states) >= MOST_CHANGES_KEPT:
                del self._states[next(iter(self._states))]
            self._states[key] = state
            return True


class _Held(logging.Handler):
    """Keeps the first records for later, and counts the others."""

    def __init__(self, level: str) -> None:
        super().__init__(level)
        self.first: list[logging.LogRecord] = []
        self.more = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep or count the record."""
        if len(self.first) < MOST_HELD:
            self.first.append(record)
        else:
            self.more += 1


class _LineHandler(logging.Handler):
    """Renders a record and writes the line. After lost lines, the next line reports their number."""

    def __init__(self, writer: _LineWriter, render: Callable[[Facts], str], *, journal: bool) -> None:
        super().__init__()
        self._writer = writer
        self._render = render
        self._journal = journal
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line. Never raises."""
        if self._lost:
            notice = _record(logging.WARNING, "log lines were lost", lines=self._lost)
            if not self._writer.write(self._line(notice), patience_milliseconds=0):
                self._lost += 1
                return
            self._lost = 0
        if not self._writer.write(self._safe_line(record), _PATIENCE_MILLISECONDS):
            self._lost += 1

    def _safe_line(self, record: logging.LogRecord) -> str:
        try:
            return self._line(record)
        except Exception as error:  # noqa: BLE001  # the border of logging: a bad argument must not harm the caller
            message = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            return self._line(_record(logging.ERROR, f"a message could not be made: {type(error).__name__}: {message}"))

    def _line(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        if not self._journal:
            return self._render(facts)
        if self._render is _as_text:
            del facts["time"]  # journald adds a timestamp
        return f"<{_level(record.levelno)[1]}>{self._render(facts)}"


class _LineWriter:
    """Writes complete lines to a descriptor, without blocking."""

    def __init__(self, descriptor: int) -> None:
        # Without sys.stderr (Python was started with a closed descriptor 2), the number may be reused for a socket.
        self._descriptor = -1 if descriptor == _STDERR and sys.stderr is None else descriptor
        self._poll = select.poll()
        if self._descriptor >= 0:
            self._poll.register(self._descriptor, select.POLLOUT)
        self._has_partial_line = False

    def write(self, line: str, patience_milliseconds: int) -> bool:
        """Write one line, with a limited wait for room. Return whether the line was written completely."""
        data = (("\n" if self._has_partial_line else "") + line + "\n").encode(errors="backslashreplace")
        for start in range(0, len(data), _CHUNK_BYTES):
            if not self._write_chunk(data[start : start + _CHUNK_BYTES], patience_milliseconds):
                self._has_partial_line = self._has_partial_line or start > 0
                return False
        self._has_partial_line = False
        return True

    def _write_chunk(self, chunk: bytes, patience_milliseconds: int) -> bool:
        try:
            if self._descriptor < 0 or not self._poll.poll(patience_milliseconds):
                return False
            return os.write(self._descriptor, chunk) == len(chunk)
        except OSError:  # closed, full, or without a reader: there is nowhere left to report that
            return False


def _record(level: int, message: str, **facts: Scalar) -> logging.LogRecord:
    return logging.makeLogRecord({"levelno": level, "msg": message, "name": __name__, **facts})


def _facts(record: logging.LogRecord) -> Facts:
    """Return the facts of a record: time, level, message, logger, then its `extra` facts."""
    facts: Facts = {
        "time": _time(record.created),
        "level": _level(record.levelno)[0],
        "msg": _shortened(record.getMessage()),
        "logger": record.name,
    }
    for key, value in vars(record).items():
        if key not in _STANDARD:
            facts[f"{key}_" if key in facts else key] = _scalar(value)
    if record.exc_info:
        facts["traceback"] = _shortened(logging.Formatter().formatException(record.exc_info))
    return facts


def _as_text(facts: Facts) -> str:
    """Return `time level=… msg="…" key=value …`, without the logger's name, which only JSON has."""
    message = f"level={facts['level']} msg={_quoted(str(facts['msg']))}"
    pairs = [f"{key}={_word(value)}" for key, value in facts.items() if key not in ("time", "level", "msg", "logger")]
    return " ".join([*([str(facts["time"])] if "time" in facts else []), message, *pairs])


def _as_json(facts: Facts) -> str:
    return _printable(json.dumps(facts, ensure_ascii=False))


_RENDERERS: Mapping[str, Callable[[Facts], str]] = {"text": _as_text, "json": _as_json}


def _time(seconds: float) -> str:
    timestamp = datetime.fromtimestamp(seconds, timezone.utc)
    return timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _level(number: int) -> tuple[str, int]:
    return next(((name, priority) for limit, name, priority in _NAMES if number >= limit), ("debug", 7))


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _shortened(str(value))


def _word(value: Scalar) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _BARE.match(value) and value.isprintable() else _quoted(value)


def _quoted(text: str) -> str:
    return _printable(json.dumps(text, ensure_ascii=False))


def _printable(quoted: str) -> str:
    """Return JSON text with all characters escaped that would break a line or control a terminal."""
    return _NOT_ASCII_TEXT.sub(_escaped, quoted)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 1 << 16 else json.dumps(character)[1:-1]


def _shortened(text: str) -> str:
    """Return the text, or the beginning and the end of a text that is too long for a line."""
    if len(text) <= LONGEST_VALUE:
        return text
    half = LONGEST_VALUE // 2
    return f"{text[:half]} … {text[-half:]}"


def _is_journal(descriptor: int) -> bool:
    """Return whether the descriptor is journald's: JOURNAL_STREAM has its device and inode (systemd.exec(5))."""
    try:
        status = os.fstat(descriptor)
    except OSError:  # a closed descriptor goes nowhere
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def leave(status: int) -> None:
    """Exit at once, even if a thread hangs in a driver."""
    logging.shutdown()
    os._exit(status)
