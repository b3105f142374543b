"""The short-lived process that masks and writes one file of the flight recorder, so that a slow or full disk does not affect the daemon."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.packing import zlib
from telemetry_daemon.masking.mask import Mask, names_here
from telemetry_daemon.plugins.loading import load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.recordings.parsed_captures import Reports
from telemetry_daemon.recordings.recording_file import Damage, captures_in
from telemetry_daemon.state import flights
from telemetry_daemon.terminal import exits
from telemetry_parsers.codec.captures import capture_line
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture

# The daemon's measurements come first.
_NICENESS = 10

# Shares of the time limit: for all captures together, and for those of one source.
_MOST_IN_ALL, _MOST_FOR_A_SOURCE = 0.8, 0.3


@dataclass(frozen=True, slots=True)
class Order:
    """The file to write, its time limit, the descriptor of the captures, and the size of each gzip member."""

    folder: str
    name: str
    seconds: float
    descriptor: int
    sizes: tuple[int, ...]
    parser_paths: tuple[str, ...]


def main() -> int:
    """Carry out the order on standard input. On failure, print the reason in one line on standard error."""
    with contextlib.suppress(OSError):  # a container may forbid it
        os.nice(_NICENESS)
    order = from_plain(Order, json.load(sys.stdin))
    try:
        with os.fdopen(order.descriptor, "rb") as stream:
            members = [stream.read(size) for size in order.sizes]
        write(Path(order.folder), order.name, _masked(members, order))
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}\n")
        return exits.UNAVAILABLE
    return exits.OK


def write(path: Path, name: str, lines: Iterable[bytes], most_bytes: int = flights.MOST_BYTES) -> None:
    """Write these lines to a new file, and make room for the next. Raises OSError."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        file.writelines(lines)
    with OwnFolder.create_at(path, flights.FOLDER_MODE) as folder:
        folder.replace(name, packed.getvalue())
        flights.make_room(path, folder, name, time.time(), most_bytes)


def _masked(members: Sequence[bytes], order: Order) -> Iterator[bytes]:
    """Return the captures as masked lines. Captures are unpacked one at a time, the newest first; if time runs short, old captures of the largest source are left out."""
    mask = Mask(secrets.token_bytes(32), names_here())
    begun = time.monotonic()
    with load(find(order.parser_paths)) as loaded:
        reports = Reports(loaded)
        for report in filter(None, map(reports.of, _captures(members))):
            mask.learn(report)  # learns from captures that are left out later, too
        taken = _in_time(_captures(reversed(members)), begun, order.seconds)
        lines = [zlib.compress(capture_line(mask.capture(capture, reports.of(capture)))) for capture in taken]
    return map(zlib.decompress, reversed(lines))


def _in_time(captures: Iterable[Capture], begun: float, seconds: float) -> Iterator[Capture]:
    """Yield the captures until their source, or all together, have used their share of these seconds."""
    taken: dict[str, float] = {}
    for capture in captures:
        now, of_source = time.monotonic(), taken.get(capture.source, 0.0)
        if now - begun < _MOST_IN_ALL * seconds and of_source < _MOST_FOR_A_SOURCE * seconds:
            yield capture
            taken[capture.source] = of_source + time.monotonic() - now


def _captures(members: Iterable[bytes]) -> Iterator[Capture]:
    for member in members:
        yield from captures_in(io.BytesIO(member), Damage())
