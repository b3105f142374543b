"""Control groups with a limit for a daemon under test."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

CGROUPS = Path("/sys/fs/cgroup")


@contextmanager
def control_group(controller: str, first_file: str, second_file: str, limit: int) -> Iterator[tuple[str, ...]]:
    """Create a control group with a limit (in another file in version 2); yield a command prefix that joins it."""
    first = (CGROUPS / controller).is_dir()
    group = (CGROUPS / controller if first else CGROUPS) / f"telemetry-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / (first_file if first else second_file)).write_text(str(limit))
    except OSError as error:
        pytest.skip(f"no control group for {controller} can be made: {error}")
    try:
        yield ("sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh")
    finally:
        end = time.monotonic() + 10
        while left := [int(line) for line in (group / "cgroup.procs").read_text().split()]:
            assert time.monotonic() < end, f"still in {group}: {left}"
            for pid in left:
                with suppress(ProcessLookupError):  # it ended by itself
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        group.rmdir()
