"""Reads the folder in which jobs count their steps; anybody may write there, so an hour brings a bounded number of ranks."""

from __future__ import annotations

import errno
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from telemetry_daemon.guarded.own_folder import Entry, Inbox
from telemetry_daemon.readers.base import Begun, Reader, Targets
from telemetry_parsers.model import Capture, Failure, Output, Plain, Poll
from telemetry_parsers.steps import SOURCE

MOST_NEW, MOST_NEW_OF_A_USER = 4096, 1024
_SECONDS = 3600.0
LARGEST_BYTES = 4096
# Every file is looked at, far beyond what is kept: one user's files must not hide those of others.
MOST_LISTED, MOST_READ, MOST_READ_OF_A_USER = 262_144, 4096, 2048
SUFFIX = ".json"
_FIELDS = ("schema", "job_id", "rank", "card", "steps", "tokens", "flops", "seconds")
_FUTURE_SECONDS = 60.0
# A job that lives writes every few seconds.
_QUIET_SECONDS = 60.0
_LONGEST_NAME, _MOST_PARTS = 64, 8
# Two writes within one tick of the kernel's clock leave the same time, so a file that was just written is read again.
_TICK_SECONDS = 1.0


class Newcomers:
    """Remembers for an hour which ranks of which user were told."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[int, float]] = {}
        self._count = 0

    def forget(self, now: float) -> None:
        """Drop what nobody told for an hour; also what is from a time that has not come, after the clock was set back."""
        kept = {
            user: {rank: seen for rank, seen in ranks.items() if abs(now - seen) < _SECONDS}
            for user, ranks in self._seen.items()
        }
        self._seen = {user: ranks for user, ranks in kept.items() if ranks}
        self._count = sum(map(len, self._seen.values()))

    def admits(self, user: int, told: Mapping[str, Plain], now: float) -> bool:
        """Whether this rank is known, or one more is within the bounds."""
        ranks = self._seen.setdefault(user, {})
        rank = hash(repr((told.get("job_id"), told.get("rank"), told.get("card"))))
        if rank not in ranks:
            if len(ranks) >= MOST_NEW_OF_A_USER or self._count >= MOST_NEW:
                return False
            self._count += 1
        ranks[rank] = now
        return True


class StepsSettings(Protocol):
    """Where jobs count their steps, and for how long a file counts."""

    @property
    def directory(self) -> str:
        """The folder."""
        ...

    @property
    def expire_after(self) -> float:
        """Seconds after which a file that nobody writes any more is passed over."""
        ...


@dataclass(frozen=True, slots=True)
class _Read:
    """A file's content, when it was read, and when the file was first seen."""

    entry: Entry
    looked: float
    first: int
    content: Mapping[str, Plain]


class StepsReader(Reader):
    """Answers with the content of each file that is being written, in the order in which they were first seen."""

    def __init__(self, root: str, settings: StepsSettings) -> None:
        self._path = Path(root.rstrip("/") + settings.directory)
        self._expire_after = settings.expire_after
        self._known: dict[str, _Read] = {}
        self._seen = 0
        self._newcomers = Newcomers()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # steps are counted without targets
        """All files."""
        begun, cpu = Begun(), time.thread_time()
        try:
            files = self._look(time.time())
        except FileNotFoundError:
            return begun.capture(SOURCE, poll, (), Failure("missing", None, f"{self._path} is not there"), 0.0)
        except OSError as error:
            denied = error.errno in (errno.EACCES, errno.EPERM)
            failure = Failure(
                "failed", "no_permission" if denied else "not_understood", f"{self._path}: {error.strerror}"
            )
            return begun.capture(SOURCE, poll, (), failure, 0.0)
        return begun.capture(SOURCE, poll, (Output(SOURCE, status=0, data=files),), None, time.thread_time() - cpu)

    def _look(self, now: float) -> list[Plain]:
        self._newcomers.forget(now)
        with Inbox.of_everybody(self._path) as inbox:
            names = inbox.names(lambda name: name.endswith(SUFFIX) and not name.startswith("."), MOST_LISTED)
            # A file that was read before is looked at even if it is beyond the limit by now.
            entries = inbox.entries_of(sorted(self._known.keys() | names))
            self._known = {name: self._current(inbox, name, entry, now) for name, entry in self._fresh(entries, now)}
        too_many = {"file": str(self._path), "problem": f"has {MOST_LISTED} files or more: not all are looked at"}
        return [
            *([too_many] if len(names) == MOST_LISTED else ()),
            *(_told(read, now) for read in sorted(self._known.values(), key=lambda read: read.first)),
        ]

    def _fresh(self, entries: Mapping[str, Entry], now: float) -> list[tuple[str, Entry]]:
        """Those that somebody still writes, of each user a bounded number of the newest; the oldest content first."""
        found: list[tuple[str, Entry]] = []
        of_user: Counter[int] = Counter()
        for name, entry in sorted(entries.items(), key=lambda each: each[1].changed, reverse=True):
            is_fresh = -_FUTURE_SECONDS < now - entry.changed / 1e9 < self._expire_after
            if is_fresh and of_user[entry.owner] < MOST_READ_OF_A_USER and len(found) < MOST_READ:
                of_user[entry.owner] += 1
                found.append((name, entry))
        return found[::-1]

    def _current(self, inbox: Inbox, name: str, entry: Entry, now: float) -> _Read:
        before = self._known.get(name)
        if before is not None and before.entry == entry and before.looked - entry.changed / 1e9 > _TICK_SECONDS:
            return before
        if before is not None and before.entry.owner == entry.owner:
            first = before.first
        else:
            self._seen = first = self._seen + 1
        content = _content(inbox, name)
        if "problem" not in content and not self._newcomers.admits(entry.owner, content, now):
            content = {"problem": f"is one too many: {MOST_NEW_OF_A_USER} ranks of a user are told in an hour"}
        return _Read(entry, now, first, {"file": name, "uid": entry.owner, **content})


def _told(read: _Read, now: float) -> Plain:
    return {**read.content, "is_quiet": now - read.entry.changed / 1e9 > _QUIET_SECONDS}


def _content(inbox: Inbox, name: str) -> Mapping[str, Plain]:
    try:
        told = json.loads(inbox.read(name, LARGEST_BYTES), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        return {"problem": str(getattr(error, "strerror", None) or error)}
    if not isinstance(told, dict):
        return {"problem": "it is no object"}
    large = next((key for key in _FIELDS if not _is_small(told.get(key))), None)
    if large is not None:
        return {"problem": f"`{large}` holds more than it may"}
    return {key: told[key] for key in _FIELDS if key in told}


def _is_small(value: Plain) -> bool:
    """Whether keeping it costs little: lists in lists take twenty times the memory of their text."""
    if isinstance(value, dict):
        return len(value) <= _MOST_PARTS and all(
            len(key) <= _LONGEST_NAME and _is_scalar(one) for key, one in value.items()
        )
    return _is_scalar(value)


def _is_scalar(value: Plain) -> bool:
    if isinstance(value, str):
        return value.isascii() or len(value) <= _LONGEST_NAME
    return value is None or isinstance(value, bool | int | float)


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


def reader(path: str, settings: StepsSettings) -> StepsReader:
    """The reader of this machine's steps, or of those below another root."""
    return StepsReader(path, settings)
