"""Fake vendor tools: real executables in a folder for PATH that answer or misbehave as a test chooses."""

import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Answer:
    stdout: str | bytes = ""
    stderr: str | bytes = ""
    status: int = 0


class ToolFolder:
    """A folder of fake tools. Each method writes a tool, replaces an earlier tool of that name, and returns the path.

    Each start of a tool is recorded: see `calls` and `pids`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._notes = folder / ".notes"
        self._notes.mkdir(parents=True, exist_ok=True)
        self._texts = 0

    @property
    def search_path(self) -> str:
        return f"{self.folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": self.search_path}

    def calls(self, name: str) -> list[str]:
        return [line.partition(" ")[2] for line in self._started(name)]

    def pids(self, name: str) -> list[int]:
        return [int(line.partition(" ")[0]) for line in self._started(name)]

    def end(self, name: str) -> None:
        for pid in self.pids(name):
            with suppress(OSError):  # it has ended
                if str(self.folder / name).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)

    def prints(self, name: str, stdout: str | bytes, *, stderr: str | bytes = "", status: int = 0) -> Path:
        return self.script(name, self._print(Answer(stdout, stderr, status)))

    def answers(self, name: str, answers: Mapping[str, Answer], otherwise: Answer) -> Path:
        """Write a tool whose output depends on its arguments. The keys are command lines such as `"-q -i 0"`."""
        cases = [f"  {shlex.quote(words)})\n{self._print(answer)}\n  ;;" for words, answer in answers.items()]
        return self.script(name, "\n".join(['case "$*" in', *cases, "esac", self._print(otherwise)]))

    def alternates(self, name: str, answers: Sequence[Answer]) -> Path:
        """Write a tool that cycles through its answers."""
        return self.script(name, self._by_call(answers, f"n=$(( ($({self._count(name)}) - 1) % {len(answers)} + 1 ))"))

    def hangs(self, name: str, stdout: str = "") -> Path:
        """Write a tool that prints, never ends, and ignores SIGTERM."""
        return self.script(name, f"trap '' TERM\n{self._show(stdout)}\nwhile :; do sleep 600; done")

    def sleeps(self, name: str, stdout: str = "") -> Path:
        """Write a tool that prints and then sleeps; SIGTERM ends it."""
        return self.script(name, f"{self._show(stdout)}\nexec sleep 600")

    def prints_for_ever(self, name: str) -> Path:
        return self.script(name, "exec yes 'GPU  Temp  Power'")

    def complains_for_ever(self, name: str) -> Path:
        """Write a tool that never stops writing to standard error."""
        return self.script(name, "exec yes 'error: no such device' >&2")

    def prints_slowly(self, name: str, lines: Sequence[str], pause_seconds: float) -> Path:
        """Write a tool that pauses after each line."""
        shown = [f"{self._show(line)}\nsleep {pause_seconds}" for line in lines]
        return self.script(name, "\n".join(shown))

    def closes_and_lives(self, name: str, stdout: str = "") -> Path:
        """Write a tool that prints, closes its output and continues to run."""
        return self.script(name, f"{self._show(stdout)}\nexec >&- 2>&-\nexec sleep 600")

    def leaves_child(self, name: str, stdout: str = "") -> Path:
        """Write a tool that ends and leaves a child that keeps its output open."""
        return self.script(name, f"sleep 600 &\n{self._show(stdout)}\nexit 0")

    def crashes(self, name: str, stdout: str = "", signal_name: str = "SEGV") -> Path:
        """Write a tool that prints and is then killed by a signal."""
        return self.script(name, f"{self._show(stdout)}\nkill -{signal_name} $$\nsleep 600")

    def script(self, name: str, body: str) -> Path:
        path = self.folder / name
        text = f'#!/bin/sh\necho "$$ $*" >>{shlex.quote(str(self._notes / name))}\n{body}\n'
        fresh = path.with_name(f".{name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(path)  # a tool that is running keeps the file that it was started from
        return path

    def _started(self, name: str) -> list[str]:
        notes = self._notes / name
        return notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []

    def _count(self, name: str) -> str:
        return f"wc -l <{shlex.quote(str(self._notes / name))}"

    def _by_call(self, answers: Sequence[Answer], number: str) -> str:
        cases = [f"  {n})\n{self._print(answer)}\n  ;;" for n, answer in enumerate(answers[:-1], start=1)]
        return "\n".join([number, "case $((n)) in", *cases, "esac", self._print(answers[-1])])

    def _print(self, answer: Answer) -> str:
        if not answer.stderr and not answer.status and answer.stdout:
            return f"exec {self._show(answer.stdout)}"
        return f"{self._show(answer.stdout)}\n{self._show(answer.stderr)} >&2\nexit {answer.status}"

    def _show(self, text: str | bytes) -> str:
        if not text:
            return ":"
        self._texts += 1
        path = self._notes / f"text{self._texts}"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return f"/bin/cat {shlex.quote(str(path))}"
