"""Names, lists and removes the flight recorder's files."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_parsers.dataclass import dataclass

MAX_BYTES = 100 << 20
# The limit is low, because the daemon lists the files every ten seconds.
MAX_FILES = 500
FOLDER_MODE = 0o700
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"([0-9]{8}T[0-9]{6}Z)-([a-z0-9_]{1,40})\.jsonl\.gz\Z")
# An event code comes from a tool and may contain any character.
_INVALID_CHARACTERS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class FlightFile:
    """A file of the flight recorder. `cause` is a single word."""

    name: str
    path: str
    wall_time: float
    cause: str
    size_bytes: int


def folder_in(state_directory: str) -> Path:
    """Return the path of the flight recorder's folder in a state directory."""
    return Path(state_directory) / "flights"


def file_name(wall_time: float, cause: str) -> str:
    """Return the file name for an alarm at this Unix time."""
    cause_word = _INVALID_CHARACTERS.sub("_", cause.lower()).strip("_")[:40] or "event"
    return f"{datetime.fromtimestamp(wall_time, timezone.utc):{_TIME}}-{cause_word}.jsonl.gz"


def list_flights(state_directory: str) -> tuple[FlightFile, ...]:
    """Return the flight files, newest first. Raise OSError if the folder is unreadable or unsafe."""
    path = folder_in(state_directory)
    try:
        with OwnFolder.at(path) as folder:
            return _list_newest_first(path, folder)
    except FileNotFoundError:  # no file yet
        return ()


def remove_oldest(path: Path, folder: OwnFolder, written_name: str, max_bytes: int = MAX_BYTES) -> None:
    """Remove the oldest files until the limits are met, but never `written_name`. Raise OSError if one cannot be removed."""
    bytes_left = max_bytes
    # If the clock was set back, older files may have later names, so the newest file is moved to the front.
    flights = sorted(_list_newest_first(path, folder), key=lambda flight: flight.name != written_name)
    for index, flight in enumerate(flights):
        bytes_left -= flight.size_bytes
        if flight.name != written_name and (bytes_left < 0 or index >= MAX_FILES):
            folder.remove(flight.name)


def _list_newest_first(path: Path, folder: OwnFolder) -> tuple[FlightFile, ...]:
    flights = (_parse_flight_name(path, name, size) for name, size in folder.sizes().items())
    return tuple(sorted(filter(None, flights), key=lambda flight: flight.name, reverse=True))


def _parse_flight_name(path: Path, name: str, size_bytes: int) -> FlightFile | None:
    match = _NAME.match(name)
    if match is None:
        return None
    try:
        alarm_time = datetime.strptime(match[1], _TIME).replace(tzinfo=timezone.utc)
    except ValueError:  # not a date, so the flight recorder did not write this file
        return None
    return FlightFile(name, str(path / name), alarm_time.timestamp(), match[2], size_bytes)
