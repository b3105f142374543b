"""The process that masks and writes one flight recorder file."""

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

from telemetry_daemon.guarded.gzip_reader import zlib
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.masking.mask import Mask, local_names
from telemetry_daemon.plugins.loading import load_parsers
from telemetry_daemon.plugins.sources import find_parsers
from telemetry_daemon.recordings.parsed_captures import CaptureParser
from telemetry_daemon.recordings.recording_file import Damage, captures_in
from telemetry_daemon.state import flights
from telemetry_daemon.terminal import exits
from telemetry_parsers.codec.captures import capture_line
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture

# Writing must not delay the daemon's polls.
_NICENESS = 10

# Masking all captures, or those of one source, may take these shares of the time limit.
_TOTAL_SHARE, _SOURCE_SHARE = 0.8, 0.3


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A request to write the captures in the open file `descriptor`."""

    folder: str
    name: str
    seconds: float
    descriptor: int
    sizes: tuple[int, ...]
    parser_paths: tuple[str, ...]


def main() -> int:
    """Read a request from standard input, and write the file."""
    with contextlib.suppress(OSError):  # a container may forbid changing the priority
        os.nice(_NICENESS)
    request = from_plain(WriteRequest, json.load(sys.stdin))
    try:
        with os.fdopen(request.descriptor, "rb") as stream:
            members = [stream.read(size) for size in request.sizes]
        write(Path(request.folder), request.name, _masked_lines(members, request))
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}\n")
        return exits.UNAVAILABLE
    return exits.OK


def write(path: Path, name: str, lines: Iterable[bytes], max_bytes: int = flights.MAX_BYTES) -> None:
    """Write the lines to a new file, and delete old files beyond the limits. Raise OSError if the disk fails."""
    packed_file = io.BytesIO()
    with gzip.GzipFile(fileobj=packed_file, mode="wb", mtime=0) as file:
        file.writelines(lines)
    with OwnFolder.create_at(path, flights.FOLDER_MODE) as folder:
        folder.replace(name, packed_file.getvalue())
        flights.remove_oldest(path, folder, name, max_bytes)


def _masked_lines(members: Sequence[bytes], request: WriteRequest) -> Iterator[bytes]:
    """Return masked lines of the newest captures. The time limit determines how many."""
    mask = Mask(secrets.token_bytes(32), local_names())
    start = time.monotonic()
    with load_parsers(find_parsers(request.parser_paths)) as loaded:
        parser = CaptureParser(loaded)
        for report in filter(None, map(parser.parse, _decoded_captures(members))):
            mask.learn(report)  # kept captures may contain identities from dropped ones
        selected = _limit_time(_decoded_captures(reversed(members)), start, request.seconds)
        packed_lines = [zlib.compress(capture_line(mask.masked_capture(item, parser.parse(item)))) for item in selected]
    return map(zlib.decompress, reversed(packed_lines))


def _limit_time(captures: Iterable[Capture], start: float, limit_seconds: float) -> Iterator[Capture]:
    """Yield captures until most of the limit has passed. Skip sources that used more than their share."""
    used_seconds: dict[str, float] = {}
    for capture in captures:
        now, source_seconds = time.monotonic(), used_seconds.get(capture.source, 0.0)
        if now - start < _TOTAL_SHARE * limit_seconds and source_seconds < _SOURCE_SHARE * limit_seconds:
            yield capture
            used_seconds[capture.source] = source_seconds + time.monotonic() - now


def _decoded_captures(members: Iterable[bytes]) -> Iterator[Capture]:
    for member in members:
        yield from captures_in(io.BytesIO(member), Damage())
