"""What the doctor has of the daemon's flight recorder: its past captures, and the files that it has written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_parsers.model import Capture


class Flight(Protocol):
    """A file that the flight recorder has written, masked as it is."""

    @property
    def name(self) -> str:
        """Its name below the state directory."""
        ...

    @property
    def wall_time(self) -> float:
        """When it was written."""
        ...

    @property
    def cause(self) -> str:
        """What had happened."""
        ...

    @property
    def size_bytes(self) -> int:
        """Its size."""
        ...


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where the captures of the daemon's last minutes and its flight files come from.

    `past` takes the runtime directory, and raises ControlError where the daemon does not give them; `kept` takes the state directory.
    """

    past: Callable[[str], Iterator[Capture]]
    kept: Callable[[str], tuple[Flight, ...]]


def recorded() -> Recorded:
    """Those of the daemon of this node: no daemon keeps any yet."""
    return Recorded(lambda _runtime_directory: iter(()), lambda _state_directory: ())


def content_of(state_directory: str, flight: Flight, limit_bytes: int) -> bytes:
    """A flight file as it is. Raises OSError."""
    path = Path(state_directory) / flight.name
    with OwnFolder.at(path.parent) as folder:
        return folder.read(path.name, limit_bytes)
