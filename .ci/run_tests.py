#!/usr/bin/env python3
"""Runs tests in parts side by side, tells how far they are, and ends with one verdict over all of them.

With `--all` in front it runs all of them, with `--coverage` it measures what they reach, too; else those that are marked as
`rest` are left out, but for one share of them with `--rest=2/8`. Other arguments go to one pytest, which then runs what they name and
tells its own. Every line of a part is in build/tests.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from test_part import LOGS, PYTHON, Part

LOOK_SECONDS = 0.5
QUIET_SECONDS = 20
LONGEST_REASON = 160
# Half of the parts wait for processes most of the time: four keep two cores busy for 82 % of the time, five for more.
SIDE_BY_SIDE = 5
# What runs together, a line each, the longest first, so that none is left alone at the end: folders, and files of folders that
# another line names. A line that names none stands for all folders that no line names.
TOGETHER = Path("tests/parts.txt")
# It runs the parsers tens of thousands of times, which tracing makes ten times as long.
NOT_TRACED = frozenset({"contract"})


def parts_with(*options: str) -> tuple[Part, ...]:
    """All tests, of which pytest runs what these options leave in."""
    return tuple(Part(name, (*options, *places)) for name, places in _places().items())


def quick_parts() -> tuple[Part, ...]:
    """What `make test` runs."""
    return parts_with("-m", "not rest")


def traced_parts() -> tuple[Part, ...]:
    """What `make coverage` runs: all of them, of which many take three times as long."""
    return tuple(replace(part, covered=part.name not in NOT_TRACED) for part in parts_with())


def _places() -> dict[str, list[str]]:
    lines = [line.split() for line in TOGETHER.read_text().splitlines()]
    named = {name: [f"tests/{place}" for place in places] for name, *places in lines}
    elsewhere = {name: [place for other in named if other != name for place in named[other]] for name in named}
    return {name: places + _ignored(places, elsewhere[name]) for name, places in named.items()}


def _ignored(places: Sequence[str], elsewhere: Iterable[str]) -> list[str]:
    """The arguments that leave out what lies in these places, or anywhere without one, and runs elsewhere."""
    folders = [f"{place}/" for place in places] or ["tests/"]
    return [f"--ignore={place}" for place in elsewhere if place.startswith(tuple(folders))]


EXTENTS: Mapping[str, Callable[[], tuple[Part, ...]]] = {"--all": parts_with, "--coverage": traced_parts}


class Progress:
    """One line that is written anew on a terminal, and now and then in a file."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._told = self._started
        self._terminal = sys.stdout.isatty()

    def tell(self, parts: Sequence[Part]) -> None:
        """Say how far all is."""
        now = time.monotonic()
        if self._terminal or now - self._told >= QUIET_SECONDS:
            self._told = now
            minutes, seconds = divmod(int(now - self._started), 60)
            begun = [part.how_far() for part in parts if part.collected and not part.is_done]
            self._write(f"{minutes}:{seconds:02d}  {summary(parts)}; {', '.join(begun) or 'collecting'}")

    def _write(self, line: str) -> None:
        if self._terminal:
            print(f"\r{line[: shutil.get_terminal_size().columns - 1]}\033[K", end="", flush=True)
        else:
            print(line, flush=True)

    def interrupt(self, line: str) -> None:
        """A line that stays."""
        print(f"\r\033[K{line}" if self._terminal else line, flush=True)


def summary(parts: Sequence[Part]) -> str:
    """The numbers of all parts."""
    counts = Counter(outcome for part in parts for outcome in part.outcomes.values())
    broken = sum(part.broken for part in parts)
    return f"{counts['passed']} passed, {counts['failed'] + broken} failed, {counts['left out']} skipped"


def run_waiting(waiting: queue.SimpleQueue[Part], interrupted: threading.Event) -> None:
    """Run one part after the other, as long as one waits."""
    while not interrupted.is_set():
        try:
            part = waiting.get_nowait()
        except queue.Empty:  # the other runners have taken the rest
            return
        part.run(interrupted)


def run_all(parts: Sequence[Part]) -> bool:
    """Run everything and tell how far it is; whether it came to its end."""
    interrupted = threading.Event()
    waiting: queue.SimpleQueue[Part] = queue.SimpleQueue()
    for part in parts:
        waiting.put(part)
    threads = [threading.Thread(target=run_waiting, args=(waiting, interrupted)) for _ in range(SIDE_BY_SIDE)]
    progress = Progress()
    for thread in threads:
        thread.start()
    # The terminal tells each pytest the same, which ends by itself.
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    while any(thread.is_alive() for thread in threads):
        time.sleep(LOOK_SECONDS)
        for part in parts:
            for test in part.take_in():
                progress.interrupt(f"failed: {test}")
        progress.tell(parts)
    for part in parts:
        part.take_in()
    progress.interrupt("")
    return not interrupted.is_set()


def verdict(parts: Sequence[Part]) -> Iterator[str]:
    """What failed with its text, then the names of what failed, what was left out and why, and the numbers."""
    for part in parts:
        if part.status or part.broken:
            yield from ("", f"=== {part.name}: what failed (all of it: {part.log()})", part.blame())
    reasons = Counter(part.reasons[test] for part in parts for test in part.of("left out"))
    failed = [f"{test}: {part.reasons[test]}"[:LONGEST_REASON] for part in parts for test in part.of("failed")]
    failed += [f"{part.name}: ended with status {part.status}, see {part.log()}" for part in parts if part.broken]
    if reasons:
        yield from ("", "left out (where CI=true, this is a failure):")
        yield from (f"{count:5} {reason}" for reason, count in reasons.most_common())
    if failed:
        yield from ("", "failed:", *(f"  {line}" for line in failed))
    yield ""


def coverage() -> str:
    """One line on what the tests reached; the report lies in a file."""
    command = (*PYTHON, "coverage")
    subprocess.run([*command, "combine", "--quiet"], check=False)
    with Path("build/coverage.txt").open("w") as report:
        subprocess.run([*command, "report"], stdout=report, stderr=report, check=False)
    asked = subprocess.run([*command, "report", "--format=total"], capture_output=True, text=True, check=False)
    return f"covered: {asked.stdout.strip() or '?'} % of lines and branches; what is not: build/coverage.txt"


def run_parts(parts: Sequence[Part], said: str) -> int:
    """Run them and print the verdict; the exit status."""
    shutil.rmtree(LOGS, ignore_errors=True)  # there are none before the first time
    LOGS.mkdir(parents=True)
    subprocess.run([*PYTHON, "coverage", "erase"], check=True)
    print(f"running {len(parts)} parts, {SIDE_BY_SIDE} side by side; what each says: {LOGS}", flush=True)
    whole = run_all(parts)
    for line in verdict(parts):
        print(line)
    if said:
        print(said)
    if any(part.covered for part in parts):
        print(coverage())
    if not whole:
        print("interrupted before all was run")
    print(summary(parts))
    return 0 if whole and not any(part.status or part.broken for part in parts) else 1


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 where all passed."""
    os.chdir(Path(__file__).resolve().parent.parent)
    said = subprocess.run([".ci/needs.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if said:
        print(said, flush=True)
    first, *others = arguments or [""]
    if first.startswith("--rest=") and not others:
        return run_parts(parts_with(first), said)
    parts, chosen = (EXTENTS[first], others) if first in EXTENTS else (quick_parts, arguments)
    if chosen:
        return subprocess.run([*PYTHON, "pytest", *chosen], check=False).returncode
    return run_parts(parts(), said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
