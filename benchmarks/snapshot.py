"""`telemetry snapshot` beside the tool that it starts, for tools of different slowness.

    python benchmarks/snapshot.py [--quick]

The tool is a script that waits as long as it is told and prints a saved output. Above the tool's own time stand Python's
start, the imports, and the tool's further runs: a snapshot takes inventory and readings.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from side_by_side import tables
from side_by_side.contestants import installed_environment
from side_by_side.options import extent
from side_by_side.ours import COMMAND

from kits.fake_mthreads_gmi import TABLE
from kits.fake_tools import ToolFolder

TOOL = "mthreads-gmi"
TOOL_SECONDS = (0.0, 0.1, 0.5, 1.0, 3.0)


def main() -> None:
    """Print the tables."""
    asked = extent(__doc__ or "")
    tables.print_machine()
    print(f"\nThe middle one of {asked.starts} runs, seconds\n")
    with tempfile.TemporaryDirectory() as folder:
        tools = ToolFolder(Path(folder))
        headings = ("the tool waits", "the tool", "its runs in a snapshot", "telemetry snapshot", "above its runs")
        tables.print_table(headings, [tool_row(tools, seconds, asked.starts) for seconds in TOOL_SECONDS])
    print()
    commands = {
        "an empty Python": (sys.executable, "-c", ""),
        "telemetry version": (*COMMAND, "version"),
        "telemetry snapshot, no tool": (*COMMAND, "snapshot"),
    }
    rows = [(words, *start_costs(command, asked.starts)) for words, command in commands.items()]
    tables.print_table(("", "wall, s", "CPU, s"), rows)


def tool_row(tools: ToolFolder, waits: float, runs: int) -> list[str]:
    """One line for a tool of that slowness."""
    output = tools.folder / "output"
    output.write_text(TABLE)
    path = tools.script(TOOL, f"sleep {waits}\ncat {output}")
    environment = installed_environment({"PATH": tools.search_path})
    alone = wall_seconds((str(path),), environment, runs)
    tools.forget_calls(TOOL)
    wall_seconds((*COMMAND, "snapshot"), environment, 1)
    started = len(tools.calls(TOOL))
    ours = wall_seconds((*COMMAND, "snapshot"), environment, runs)
    return [
        f"{waits:g}",
        tables.number(alone),
        str(started),
        tables.number(ours),
        tables.number(ours - started * alone),
    ]


def start_costs(command: Sequence[str], runs: int) -> tuple[str, str]:
    """Wall and CPU seconds of a command."""
    environment = installed_environment()
    wall = wall_seconds(command, environment, runs)
    begin = time_of_children()
    wall_seconds(command, environment, runs)
    return tables.number(wall), tables.number((time_of_children() - begin) / runs)


def time_of_children() -> float:
    """CPU seconds of all commands that we have run."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wall_seconds(command: Sequence[str], environment: Mapping[str, str], runs: int) -> float:
    """Seconds from the start of a command to its end, the middle one of so many."""
    took = []
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


if __name__ == "__main__":
    main()
