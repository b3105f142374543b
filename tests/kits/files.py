"""Read files like the worker and decode the answer like the daemon; limit the size of files."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from telemetry_daemon.processes import driver_files
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.worker_answer import read_result
from telemetry_parsers.codec.worker_wire import ReadResult
from telemetry_parsers.model import Files, Output


def read_files(request: Files, root: Path = Path("/")) -> tuple[Output, ...]:
    return from_plain(ReadResult, read_result(driver_files.read_files(to_plain(Files, request), str(root)))).outputs


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
