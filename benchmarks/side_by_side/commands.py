"""Wall milliseconds of our short commands, beside an empty Python."""

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


def timed(trees: Sequence[Checkout], runs: int, dice: random.Random) -> dict[tuple[str, str], Spread]:
    """By command and tree; the runs of all are mixed, and the first of each, which fills caches, is not counted."""
    with tempfile.TemporaryDirectory() as nothing:
        commands = {
            (words, tree.name): (command, tree.environment({"PATH": nothing}))
            for tree in trees
            for words, command in ((VERSION, (*COMMAND, "version")), (SNAPSHOT, (*COMMAND, "snapshot")))
        }
        commands[EMPTY, ""] = ((sys.executable, "-c", ""), installed_environment())
        took: dict[tuple[str, str], list[float]] = {each: [_milliseconds(*commands[each])] for each in commands}
        for each in dice.sample([*commands] * runs, len(commands) * runs):
            took[each].append(_milliseconds(*commands[each]))
    return {each: Spread(statistics.median(run[1:]), min(run[1:]), max(run[1:])) for each, run in took.items()}


def _milliseconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return 1e3 * (time.perf_counter() - begin)
