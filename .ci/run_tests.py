#!/usr/bin/env python3
"""Run the tests of the chosen levels side by side, and print what the run cost: wall time, CPU time, and yardsticks.

usage: run_tests.py [--level quick|installed|long …] [--sample I/N] [--coverage] [PYTEST ARGUMENT …]

A yardstick is the CPU time of a small loop of Python, so that results of fast and slow machines can be compared.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

YARDSTICK_LOOP = "x = 0\nfor i in range(10**7): x += i"
# Many tests wait, so one extra worker is useful. A second extra worker would need 15 s to collect the tests.
# Files are ordered by name: by number of tests, a slow file with few tests would come last.
WORKERS = (os.cpu_count() or 1) + 1
SIDE_BY_SIDE = ("-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "20")


def cpu_seconds() -> float:
    """Return the CPU time of the child processes that were waited for, and of their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def yardstick() -> float:
    """Return the CPU seconds of the loop: the minimum of three runs."""
    results = []
    for _ in range(3):
        before = cpu_seconds()
        subprocess.run([sys.executable, "-c", YARDSTICK_LOOP], check=True)
        results.append(cpu_seconds() - before)
    return min(results)


def run_measured(command: Sequence[str], *preparations: Sequence[str]) -> int:
    """Run `preparations` silently, then `command`. Print the cost of all, and return the exit status of `command`."""
    unit, used_before, began = yardstick(), cpu_seconds(), time.monotonic()
    for preparation in preparations:
        subprocess.run(preparation, stdout=subprocess.DEVNULL, check=False)
    status = subprocess.run(command, check=False).returncode
    used, wall = cpu_seconds() - used_before, time.monotonic() - began
    print(f"cost: {wall:.0f} s of wall time, {used:.0f} s of CPU, {used / unit:.0f} yardsticks of {unit:.2f} s")
    return status


def with_coverage(arguments: Sequence[str]) -> int:
    """Run the tests in one process with tracing, and write the lines that they do not reach to build/coverage.txt."""
    tool = (sys.executable, "-m", "coverage")
    subprocess.run([*tool, "erase"], check=True)
    status = run_measured([*tool, "run", "-m", "pytest", "-q", *arguments])
    subprocess.run([*tool, "combine", "--quiet"], check=False)
    Path("build").mkdir(exist_ok=True)
    with Path("build/coverage.txt").open("w") as report:
        subprocess.run([*tool, "report"], stdout=report, check=False)
    total = subprocess.run([*tool, "report", "--format=total"], capture_output=True, text=True, check=False)
    print(f"covered: {total.stdout.strip() or '?'} % of lines and branches; the rest: build/coverage.txt")
    return status


def main(arguments: Sequence[str]) -> int:
    """Run the tests. Return the exit status of pytest."""
    os.chdir(Path(__file__).resolve().parent.parent)
    # Hundreds of processes import the same modules, which bytecode files compile only once.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if arguments[:1] == ["--coverage"]:
        return with_coverage(arguments[1:])
    tests = (sys.executable, "-m", "pytest", "-q", *arguments)
    # In a fresh clone, each worker would otherwise compile the tests.
    compilation = () if Path("tests/__pycache__").exists() else ((*tests, "--collect-only"),)
    return run_measured((*tests, *SIDE_BY_SIDE), *compilation)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
