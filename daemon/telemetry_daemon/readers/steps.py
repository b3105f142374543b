"""Reads the files in which jobs count their steps."""

from __future__ import annotations

import errno
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from telemetry_daemon.guarded.own_folder import FileVersion, Inbox
from telemetry_daemon.readers.base import Reader, ReadStart, Targets
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Failure, Output, Plain, Poll, Reason
from telemetry_parsers.steps import SOURCE

MAX_NEW_RANKS, MAX_NEW_RANKS_PER_USER = 4096, 1024
_RANK_SECONDS = 3600.0
MAX_BYTES = 4096
# More files are listed than read, so that one user's files do not hide another user's files.
MAX_LISTED, MAX_READ, MAX_READ_PER_USER = 262_144, 4096, 2048
SUFFIX = ".json"
_FIELDS = ("schema", "job_id", "rank", "card", "steps", "tokens", "flops", "seconds")
_MAX_FUTURE_SECONDS = 60.0
# A running job writes its file every few seconds.
_QUIET_SECONDS = 60.0
_MAX_NAME_LENGTH, _MAX_PARTS = 64, 8
# A file that was read this soon after its change is read again, because a later write may have the same timestamp.
_TICK_SECONDS = 1.0


class NewRankLimit:
    """Limits how many new ranks each user may report per hour."""

    def __init__(self) -> None:
        self._report_times_by_user: dict[int, dict[int, float]] = {}
        self._rank_count = 0

    def forget(self, now: float) -> None:
        """Forget the ranks that have not reported for an hour."""
        recent_reports = {
            user: {rank: reported_at for rank, reported_at in ranks.items() if abs(now - reported_at) < _RANK_SECONDS}
            for user, ranks in self._report_times_by_user.items()
        }
        self._report_times_by_user = {user: ranks for user, ranks in recent_reports.items() if ranks}
        self._rank_count = sum(map(len, self._report_times_by_user.values()))

    def admit(self, user: int, report: Mapping[str, Plain], now: float) -> bool:
        """Return whether to accept the rank of this report. Remember accepted ranks."""
        ranks = self._report_times_by_user.setdefault(user, {})
        rank_hash = hash(repr((report.get("job_id"), report.get("rank"), report.get("card"))))
        if rank_hash not in ranks:
            if len(ranks) >= MAX_NEW_RANKS_PER_USER or self._rank_count >= MAX_NEW_RANKS:
                return False
            self._rank_count += 1
        ranks[rank_hash] = now
        return True


class StepsSettings(Protocol):
    """The settings of the step files."""

    @property
    def directory(self) -> str:
        """Return the folder of the step files."""

    @property
    def expire_after(self) -> float:
        """Return the age in seconds from which a file is no longer read."""


@dataclass(frozen=True, slots=True)
class _StepFile:
    """A step file and its content. `sequence` is the order of discovery."""

    version: FileVersion
    read_at: float
    sequence: int
    content: Mapping[str, Plain]


class StepsReader(Reader):
    """Reads the step files that changed recently, in the order of discovery."""

    def __init__(self, root: str, settings: StepsSettings) -> None:
        self._path = Path(root.rstrip("/") + settings.directory)
        self._expire_after = settings.expire_after
        self._files: dict[str, _StepFile] = {}
        self._last_sequence = 0
        self._new_ranks = NewRankLimit()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # steps are counted without targets
        """Return a capture with the content of each file that changed recently."""
        start, cpu_start = ReadStart(), time.thread_time()
        try:
            files = self._read_files(time.time())
        except FileNotFoundError:
            return start.create_capture(SOURCE, poll, (), Failure("missing", None, f"{self._path} does not exist"), 0.0)
        except OSError as error:
            reason: Reason = "no_permission" if error.errno in (errno.EACCES, errno.EPERM) else "not_understood"
            failure = Failure("failed", reason, f"{self._path}: {error.strerror}")
            return start.create_capture(SOURCE, poll, (), failure, 0.0)
        outputs = (Output(SOURCE, status=0, data=files),)
        return start.create_capture(SOURCE, poll, outputs, None, time.thread_time() - cpu_start)

    def _read_files(self, now: float) -> list[Plain]:
        self._new_ranks.forget(now)
        with Inbox.open_public(self._path) as inbox:
            names = inbox.names(lambda name: name.endswith(SUFFIX) and not name.startswith("."), MAX_LISTED)
            # Known files are added, because the listing may have reached its limit before them.
            versions = inbox.versions_of(sorted(self._files.keys() | names))
            recent_files = self._recent_files(versions, now)
            self._files = {name: self._read_file(inbox, name, version, now) for name, version in recent_files}
        limit_problem = {"file": str(self._path), "problem": f"has {MAX_LISTED} files or more: some are not read"}
        return [
            *([limit_problem] if len(names) == MAX_LISTED else ()),
            *(
                {**file.content, "is_quiet": now - file.version.changed_ns / 1e9 > _QUIET_SECONDS}
                for file in sorted(self._files.values(), key=lambda file: file.sequence)
            ),
        ]

    def _recent_files(self, versions: Mapping[str, FileVersion], now: float) -> list[tuple[str, FileVersion]]:
        """Return the files that changed recently, the oldest first, within the limits."""
        recent: list[tuple[str, FileVersion]] = []
        count_by_user: Counter[int] = Counter()
        for name, version in sorted(versions.items(), key=lambda item: item[1].changed_ns, reverse=True):
            is_fresh = -_MAX_FUTURE_SECONDS < now - version.changed_ns / 1e9 < self._expire_after
            if is_fresh and count_by_user[version.owner] < MAX_READ_PER_USER and len(recent) < MAX_READ:
                count_by_user[version.owner] += 1
                recent.append((name, version))
        return recent[::-1]

    def _read_file(self, inbox: Inbox, name: str, version: FileVersion, now: float) -> _StepFile:
        previous = self._files.get(name)
        if previous is not None and previous.version.owner == version.owner:
            if previous.version == version and previous.read_at - version.changed_ns / 1e9 > _TICK_SECONDS:
                return previous
            sequence = previous.sequence
        else:
            self._last_sequence = sequence = self._last_sequence + 1
        content = _read_content(inbox, name)
        if "problem" not in content and not self._new_ranks.admit(version.owner, content, now):
            content = {"problem": f"exceeds the limit of {MAX_NEW_RANKS_PER_USER} new ranks per user and hour"}
        return _StepFile(version, now, sequence, {"file": name, "uid": version.owner, **content})


def _read_content(inbox: Inbox, name: str) -> Mapping[str, Plain]:
    try:
        report = json.loads(inbox.read(name, MAX_BYTES), parse_constant=_reject_constant)
    except (OSError, ValueError, RecursionError) as error:
        return {"problem": str(getattr(error, "strerror", None) or error)}
    if not isinstance(report, dict):
        return {"problem": "the content is not a JSON object"}
    large_field = next((key for key in _FIELDS if not _is_small(report.get(key))), None)
    if large_field is not None:
        return {"problem": f"`{large_field}` is too large"}
    return {key: report[key] for key in _FIELDS if key in report}


def _is_small(value: Plain) -> bool:
    if isinstance(value, dict):
        return len(value) <= _MAX_PARTS and all(
            len(key) <= _MAX_NAME_LENGTH and _is_small_scalar(item) for key, item in value.items()
        )
    return _is_small_scalar(value)


def _is_small_scalar(value: Plain) -> bool:
    if isinstance(value, str):
        return value.isascii() or len(value) <= _MAX_NAME_LENGTH
    return value is None or isinstance(value, bool | int | float)


def _reject_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def create_reader(path: str, settings: StepsSettings) -> StepsReader:
    """Return a reader of step files. Their folder is below `path`."""
    return StepsReader(path, settings)
