#!/usr/bin/env python3
"""Runs all tests in parts side by side, tells how far they are, and ends with one verdict over all of them.

Its arguments, if there are any, go to one pytest, which then tells its own. Every line of a part is in build/tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOGS = Path("build/tests")
PYTHON = (".venv/bin/python", "-m")
LOOK_SECONDS = 0.5
QUIET_SECONDS = 20
LONGEST_REASON = 160
LINES_OF_A_BROKEN_PART = 50
_FAILURES = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)
_AFTER_FAILURES = re.compile(r"^=+ (?:warnings summary|short test summary|tests that did not run)", re.MULTILINE)


@dataclass
class Part:
    """Some of the tests, run by a pytest of their own, and how they ended so far."""

    name: str
    arguments: Sequence[str]
    covered: bool = True
    status: int | None = None
    collected: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    read: int = 0

    @property
    def log(self) -> Path:
        """All that its pytest says."""
        return LOGS / f"{self.name}.log"

    @property
    def tally(self) -> Path:
        """How each of its tests ended."""
        return LOGS / f"{self.name}.jsonl"

    def run(self) -> None:
        """Run them to their end."""
        command = (*PYTHON, *(("coverage", "run", "-m") if self.covered else ()), "pytest", f"--tally={self.tally}")
        with self.log.open("w") as log:
            self.status = subprocess.run([*command, *self.arguments], stdout=log, stderr=log, check=False).returncode

    def take_in(self) -> list[str]:
        """Read what was told since the last time; gives the tests that have failed since."""
        text = self.tally.read_text()[self.read :] if self.tally.exists() else ""
        text = text[: text.rfind("\n") + 1]
        self.read += len(text)
        return [failed for line in text.splitlines() for failed in self._take_in(json.loads(line))]

    def _take_in(self, line: dict[str, str]) -> Iterator[str]:
        self.collected = int(line.get("collected", self.collected))
        if "test" not in line or self.outcomes.get(line["test"]) == "failed":
            return
        self.outcomes[line["test"]] = line["outcome"]
        self.reasons[line["test"]] = line["why"]
        if line["outcome"] == "failed":
            yield line["test"]

    def of(self, outcome: str) -> list[str]:
        """The tests that ended so."""
        return [test for test, found in self.outcomes.items() if found == outcome]

    @property
    def broken(self) -> bool:
        """Whether it ended badly, or before its end, although no test of its failed."""
        bad = self.status != 0 or len(self.outcomes) < self.collected
        return self.status is not None and bad and not self.of("failed")

    def how_far(self) -> str:
        """How much of it is done."""
        done = 100 * len(self.outcomes) // self.collected if self.collected else 0
        return f"{self.name} {'done' if self.status is not None else f'{done} %'}"

    def blame(self) -> str:
        """What its log says of the failures."""
        text = self.log.read_text()
        if (start := _FAILURES.search(text)) is None:
            return "\n".join(text.splitlines()[-LINES_OF_A_BROKEN_PART:])
        end = _AFTER_FAILURES.search(text, start.end())
        return text[start.start() : end.start() if end else None].rstrip()


def lanes() -> tuple[tuple[Part, ...], ...]:
    """What runs one after the other, beside the others: what computes, what waits for workers, what waits for daemons."""
    computing = folders("catalogue", "codec", "docs", "exporters", "merge", "parsers", "simulate", "state")
    workers = folders("mtml", "nvml", "workers")
    # It runs the parsers tens of thousands of times, which tracing makes ten times as long.
    contract = folders("contract")
    others = [f"--ignore={folder}" for folder in (*computing, *workers, *contract)]
    return (
        (Part("computing", computing), Part("contract", contract, covered=False)),
        (Part("workers", workers),),
        (Part("daemons", others),),
    )


def folders(*names: str) -> list[str]:
    """Folders of tests."""
    return [f"tests/{name}" for name in names]


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
            begun = [part.how_far() for part in parts if part.collected or part.status is not None]
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


def run_lane(lane: Sequence[Part], ended: threading.Event) -> None:
    """Run its parts one after the other."""
    for part in lane:
        if not ended.is_set():
            part.run()


def run_all(all_lanes: Sequence[Sequence[Part]]) -> bool:
    """Run everything and tell how far it is; whether it came to its end."""
    parts = [part for lane in all_lanes for part in lane]
    ended = threading.Event()
    threads = [threading.Thread(target=run_lane, args=(lane, ended)) for lane in all_lanes]
    progress = Progress()
    for thread in threads:
        thread.start()
    # The terminal tells each pytest the same, which ends by itself.
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    while any(thread.is_alive() for thread in threads):
        time.sleep(LOOK_SECONDS)
        for part in parts:
            for test in part.take_in():
                progress.interrupt(f"failed: {test}")
        progress.tell(parts)
    for part in parts:
        part.take_in()
    progress.interrupt("")
    return not ended.is_set()


def verdict(parts: Sequence[Part]) -> Iterator[str]:
    """What failed with its text, then the names of what failed, what was left out and why, and the numbers."""
    for part in parts:
        if part.status or part.broken:
            yield from ("", f"=== {part.name}: what failed (all of it: {part.log})", part.blame())
    reasons = Counter(part.reasons[test] for part in parts for test in part.of("left out"))
    failed = [f"{test}: {part.reasons[test]}"[:LONGEST_REASON] for part in parts for test in part.of("failed")]
    failed += [f"{part.name}: ended with status {part.status}, see {part.log}" for part in parts if part.broken]
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


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 where all passed."""
    os.chdir(Path(__file__).resolve().parent.parent)
    said = subprocess.run([".ci/needs.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if said:
        print(said, flush=True)
    if arguments:
        return subprocess.run([*PYTHON, "pytest", *arguments], check=False).returncode
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    subprocess.run([*PYTHON, "coverage", "erase"], check=True)
    print(f"running all tests, three parts side by side; what each says: {LOGS}", flush=True)
    all_lanes = lanes()
    whole = run_all(all_lanes)
    parts = [part for lane in all_lanes for part in lane]
    for line in verdict(parts):
        print(line)
    if said:
        print(said)
    print(coverage() if whole else "interrupted before all was run")
    print(summary(parts))
    return 0 if whole and not any(part.status or part.broken for part in parts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
