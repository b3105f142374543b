"""Wall milliseconds of our short commands, compared with an empty Python."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from side_by_side.contestants import installed_environment
from side_by_side.measured import Spread
from side_by_side.ours import COMMAND, Checkout

EMPTY, VERSION, SNAPSHOT = "an empty Python", "telemetry version", "telemetry snapshot, no tool"


def command_times(checkouts: Sequence[Checkout], runs: int, rng: random.Random) -> dict[tuple[str, str], Spread]:
    """Return the times by command and checkout. The order is random. The first run of each command fills caches and is ignored."""
    with tempfile.TemporaryDirectory() as nothing:
        commands = {
            (name, checkout.name): (command, checkout.environment({"PATH": nothing}))
            for checkout in checkouts
            for name, command in ((VERSION, (*COMMAND, "version")), (SNAPSHOT, (*COMMAND, "snapshot")))
        }
        commands[EMPTY, ""] = ((sys.executable, "-c", ""), installed_environment())
        milliseconds: dict[tuple[str, str], list[float]] = {key: [_milliseconds(*commands[key])] for key in commands}
        for key in rng.sample([*commands] * runs, len(commands) * runs):
            milliseconds[key].append(_milliseconds(*commands[key]))
    return {key: Spread(statistics.median(run[1:]), min(run[1:]), max(run[1:])) for key, run in milliseconds.items()}


def _milliseconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return 1e3 * (time.perf_counter() - begin)
