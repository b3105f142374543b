"""The short-lived process that writes one file of the flight recorder: it reads, masks and packs what the daemon had kept.

So the daemon pays neither with memory nor with time for it, and a disk that hangs or is full costs the file only.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.masking.local_names import names_here
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.plugins.loading import load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.recording import flights
from telemetry_daemon.replay.reports import Reports
from telemetry_daemon.replay.tape import Damage, captures_in
from telemetry_daemon.terminal import exits
from telemetry_parsers.codec.captures import capture_to_plain, encode_line
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.model import Capture

# What the daemon measures comes first.
_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Order:
    """Which file to write, and the descriptor of the captures: a recording that is packed with gzip."""

    folder: str
    name: str
    descriptor: int
    parser_paths: tuple[str, ...]


def main() -> int:
    """Carry out the order on standard input; one line on standard error says why that was not possible."""
    with contextlib.suppress(OSError):  # a container may forbid it: then it takes its turn like any other
        os.nice(_NICENESS)
    order = from_plain(Order, json.load(sys.stdin))
    with os.fdopen(order.descriptor, "rb") as stream:
        captures = list(captures_in(stream, Damage()))
    try:
        write(Path(order.folder), order.name, _masked(captures, order.parser_paths))
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}\n")
        return exits.UNAVAILABLE
    return exits.OK


def write(path: Path, name: str, captures: Iterator[Capture], most_bytes: int = flights.MOST_BYTES) -> None:
    """Put these captures into a new file with that name, and make room for the next. Raises OSError."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as lines:
        for capture in captures:
            lines.write(encode_line(capture_to_plain(capture)).encode("ascii") + b"\n")
    with OwnFolder.made(path, flights.FOLDER_MODE) as folder:
        folder.replace(name, packed.getvalue())
        flights.make_room(path, folder, most_bytes)


def _masked(captures: list[Capture], parser_paths: tuple[str, ...]) -> Iterator[Capture]:
    """The captures without identities; what any of them tells of these is masked in all."""
    mask = Mask(secrets.token_bytes(32), names_here())
    with load(find(parser_paths)) as loaded:
        reports = Reports(loaded)
        told = [reports.of(capture) for capture in captures]
    for told_by_one in filter(None, told):
        mask.learn(told_by_one)
    for capture, report in zip(captures, told, strict=True):
        yield mask.capture(capture, report)


if __name__ == "__main__":
    sys.exit(main())
