"""The answers of the worker that reads files, as the daemon decodes them."""

from pathlib import Path

from telemetry_daemon.processes import driver_files
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.worker_answer import readout
from telemetry_parsers.codec.worker_wire import Readout
from telemetry_parsers.model import Files, Output


def read_files(request: Files, root: Path = Path("/")) -> tuple[Output, ...]:
    return from_plain(Readout, readout(driver_files.read_files(to_plain(Files, request), str(root)))).outputs
