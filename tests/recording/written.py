"""The flight recorder's writer in the process of the test: in a process of its own it would cost half a second."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

from telemetry_daemon.recording import flight_writer


def write_here(folder: Path, name: str, packed: Iterable[bytes], seconds: float = 60.0) -> str:
    """What the writer says; nothing if all went well."""
    members = list(packed)
    descriptor = os.memfd_create("captures")
    os.write(descriptor, b"".join(members))
    os.lseek(descriptor, 0, os.SEEK_SET)
    order = {"folder": str(folder), "name": name, "seconds": seconds, "descriptor": descriptor, "parser_paths": []}
    said = io.StringIO()
    with (
        mock.patch("sys.stdin", io.StringIO(json.dumps({**order, "sizes": [*map(len, members)]}))),
        mock.patch("os.nice"),
        contextlib.redirect_stderr(said),
    ):
        status = flight_writer.main()
    assert (status == 0) == (said.getvalue() == "")
    return said.getvalue()
