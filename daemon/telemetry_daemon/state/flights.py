"""The files of the flight recorder: their names say when and why each was written; the oldest go."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_parsers.dataclass import dataclass

MOST_BYTES = 100 << 20
# They are listed every ten seconds.
MOST_FILES = 500
FOLDER_MODE = 0o700
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"([0-9]{8}T[0-9]{6}Z)-([a-z0-9_]{1,40})\.jsonl\.gz\Z")
# What a writer that was killed left behind; one that is at work is younger.
_LEFT_BEHIND = re.compile(r"\.[0-9]{8}T[0-9]{6}Z-[a-z0-9_]{1,40}\.jsonl\.gz\.[0-9a-f]{16}\.new\Z")
_LONGEST_WORK_SECONDS = 3600.0
# Codes come from tools.
_NO_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Flight:
    """A file, when the alarm came (Unix time), and its cause in a word."""

    name: str
    path: str
    wall_time: float
    cause: str
    size_bytes: int


def folder_in(state_directory: str) -> Path:
    """Where the files are."""
    return Path(state_directory) / "flights"


def name_of(wall_time: float, cause: str) -> str:
    """The name of the file about an alarm of that time and cause."""
    word = _NO_NAME.sub("_", cause.lower()).strip("_")[:40] or "event"
    return f"{datetime.fromtimestamp(wall_time, timezone.utc):{_TIME}}-{word}.jsonl.gz"


def kept(state_directory: str) -> tuple[Flight, ...]:
    """The files that there are, the newest first. Raises OSError if the folder cannot be read."""
    path = folder_in(state_directory)
    try:
        with OwnFolder.at(path) as folder:
            return _newest_first(path, folder)
    except FileNotFoundError:  # none was ever written
        return ()


def make_room(path: Path, folder: OwnFolder, written: str, now: float, most_bytes: int = MOST_BYTES) -> None:
    """Remove the oldest files until all together are few and small enough; the one just written stays. Raises OSError."""
    left = most_bytes - _left_behind(folder, now)
    # Its name is not the newest where the clock was set back.
    flights = sorted(_newest_first(path, folder), key=lambda flight: flight.name != written)
    for place, flight in enumerate(flights):
        left -= flight.size_bytes
        if flight.name != written and (left < 0 or place >= MOST_FILES):
            folder.remove(flight.name)


def _left_behind(folder: OwnFolder, now: float) -> int:
    """Remove what was left behind long ago; the size of what may still be needed."""
    changed, size = folder.changed(), 0
    for name, size_bytes in folder.sizes().items():
        if _LEFT_BEHIND.match(name) is None:
            continue
        if 0.0 <= now - changed.get(name, now) < _LONGEST_WORK_SECONDS:
            size += size_bytes
        else:
            folder.remove(name)
    return size


def _newest_first(path: Path, folder: OwnFolder) -> tuple[Flight, ...]:
    found = (_flight(path, name, size) for name, size in folder.sizes().items())
    return tuple(sorted(filter(None, found), key=lambda flight: flight.name, reverse=True))


def _flight(path: Path, name: str, size_bytes: int) -> Flight | None:
    match = _NAME.match(name)
    if match is None:
        return None
    try:
        begun = datetime.strptime(match[1], _TIME).replace(tzinfo=timezone.utc)
    except ValueError:  # a day that no calendar has: not ours
        return None
    return Flight(name, str(path / name), begun.timestamp(), match[2], size_bytes)
