"""Some of the tests, run by a pytest of their own: how far they are, how they ended, and what is said of it."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOGS = Path("build/tests")
PYTHON = (".venv/bin/python", "-m")
LINES_OF_A_BROKEN_PART = 50
# Pytest's word for: no test was there to be run.
NOTHING_TO_RUN = 5
_FAILURES = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)
_AFTER_FAILURES = re.compile(r"^=+ (?:warnings summary|short test summary|tests that did not run)", re.MULTILINE)


@dataclass
class Part:
    """Some of the tests and how they ended so far."""

    name: str
    arguments: Sequence[str]
    covered: bool = False
    statuses: list[int] = field(default_factory=list)
    is_done: bool = False
    collected: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    read: int = 0

    @property
    def tally(self) -> Path:
        """How each of its tests ended."""
        return LOGS / f"{self.name}.jsonl"

    def log(self, turn: int = 0) -> Path:
        """All that its pytest says."""
        return LOGS / (f"{self.name}-{turn + 1}.log" if turn else f"{self.name}.log")

    def run(self, interrupted: threading.Event) -> None:
        """Run them to their end; where a pytest ends within a test, that test has failed, and another runs the others."""
        self._run_once()
        while self._ended_within_a_test() and not interrupted.is_set():
            self._run_once()
        self.is_done = True

    def _run_once(self) -> None:
        tracing = ("coverage", "run", "-m") if self.covered else ()
        command = (*PYTHON, *tracing, "pytest", f"--tally={self.tally}", *self.arguments)
        with self.log(len(self.statuses)).open("w") as log:
            self.statuses.append(subprocess.run(command, stdout=log, stderr=log, check=False).returncode)

    def _ended_within_a_test(self) -> bool:
        told = [json.loads(line) for line in self.tally.read_text().splitlines()] if self.tally.exists() else []
        return bool({line.get("begun", "") for line in told} - {line.get("test", "") for line in told} - {""})

    def take_in(self) -> list[str]:
        """Read what was told since the last time; gives the tests that have failed since."""
        text = self.tally.read_text()[self.read :] if self.tally.exists() else ""
        text = text[: text.rfind("\n") + 1]
        self.read += len(text)
        return [failed for line in text.splitlines() for failed in self._take_in(json.loads(line))]

    def _take_in(self, line: dict[str, str]) -> Iterator[str]:
        self.collected += int(line.get("collected", 0))
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
    def status(self) -> int:
        """The first bad status of its pytests, else 0."""
        return next((status for status in self.statuses if status), 0)

    @property
    def broken(self) -> bool:
        """Whether tests of its never ran, or it ended badly although no test of its failed."""
        bad = len(self.outcomes) < self.collected or (self.status != 0 and not self.of("failed"))
        return self.is_done and bad

    def how_far(self) -> str:
        """How much of it is done."""
        done = 100 * len(self.outcomes) // self.collected if self.collected else 0
        return f"{self.name} {'done' if self.is_done else f'{done} %'}"

    def blame(self) -> str:
        """What its logs say of the failures."""
        bad = [turn for turn, status in enumerate(self.statuses) if status not in (0, NOTHING_TO_RUN)]
        return "\n".join(_blame(self.log(turn).read_text()) for turn in bad)


def _blame(text: str) -> str:
    if (start := _FAILURES.search(text)) is None:
        return "\n".join(text.splitlines()[-LINES_OF_A_BROKEN_PART:])
    end = _AFTER_FAILURES.search(text, start.end())
    return text[start.start() : end.start() if end else None].rstrip()
