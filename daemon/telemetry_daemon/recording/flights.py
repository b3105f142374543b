"""The files of the flight recorder: their names say when and why each was written; the oldest go."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from telemetry_daemon.guarded.own_folder import OwnFolder

MOST_BYTES = 100 << 20
FOLDER_MODE = 0o700
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"([0-9]{8}T[0-9]{6}Z)-([a-z0-9_]{1,40})\.jsonl\.gz\Z")
# Codes come from tools.
_NO_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Flight:
    """A file, when the alarm came (Unix time), and its cause in a word."""

    name: str
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
    try:
        with OwnFolder.at(folder_in(state_directory)) as folder:
            sizes = folder.sizes()
    except FileNotFoundError:  # none was ever written
        return ()
    return tuple(sorted(_flights(sizes.items()), key=lambda flight: flight.name, reverse=True))


def make_room(folder: OwnFolder, most_bytes: int = MOST_BYTES) -> None:
    """Remove the oldest files until all together are small enough; the newest stays. Raises OSError."""
    newest_first = sorted(_flights(folder.sizes().items()), key=lambda flight: flight.name, reverse=True)
    left = most_bytes
    for place, flight in enumerate(newest_first):
        left -= flight.size_bytes
        if left < 0 and place:
            folder.remove(flight.name)


def _flights(files: Iterable[tuple[str, int]]) -> Iterable[Flight]:
    for name, size in files:
        match = _NAME.match(name)
        if match is None:
            continue
        try:
            begun = datetime.strptime(match[1], _TIME).replace(tzinfo=timezone.utc)
        except ValueError:  # a day that no calendar has: not ours
            continue
        yield Flight(name, begun.timestamp(), match[2], size)
