"""What the fault tests share: a plugin that breaks on demand, what a process holds, and a disk that is soon full."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kits.captures import own_case, parse_file
from kits.daemon import Daemon
from kits.fake_tools import ToolFolder

# A tool with one short output, for whatever is to be done to a tool.
TOOL = "ixsmi"
TOOL_CONFIG = f'[sources.{TOOL}]\ninterval = 0.5\ndeadline = 1.0\nmode = "always"\n'
PLUGIN = "acme-switch"
CGROUPS = Path("/sys/fs/cgroup")

_PLUGIN = """
import os, signal, sys, time

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.model import Device, Library, Poll, Reading, Report

{first}


def raise_error():
    raise ValueError("no such\\ncard")


def refuse():
    raise ReaderRefusal("failed", "driver_gone", "the Acme driver is not running: systemctl start acme")


def eat():
    held = []
    while True:
        held.append(bytearray(64 << 20))


def write_garbage():
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"x" * (1 << 16))
        except OSError:  # most of these numbers are no open file
            pass


ACTIONS = {{
    "raise": raise_error,
    "refuse": refuse,
    "die": lambda: os._exit(3),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda: time.sleep(3600),
    "garbage": write_garbage,
    "eat": eat,
}}


def act(place, text):
    where, _, word = text.partition("-")
    if where == place:
        ACTIONS[word]()


class Reader:
    def open(self):
        pass

    def read(self, calls):
        with open({switch!r}) as file:
            text = file.read().strip()
        act("read", text)
        return {{"power": text}}

    def close(self):
        pass


def parse(capture):
    text = capture.outputs[0].data
    act("parse", text)
    if text == "parse-nonsense":
        return {{"not": "a report"}}
    return Report(devices=(Device("acme", 0, uuid="ACME-1"),), readings=(Reading(0, "power_watts", float(text)),))


READER = Reader()
PARSER = SourceParser(
    name={name!r},
    vendor="acme",
    gives=("power_watts",),
    polls=(Poll("all", Library({name!r}, ("power",))),),
    parse=parse,
)
"""


@dataclass(frozen=True)
class SwitchedPlugin:
    """A plugin in a folder of modules that does what a file says: a number is the power of its card."""

    folder: Path

    @property
    def config(self) -> str:
        """What makes a daemon load it, and ask it often."""
        paths = f'[parsers]\npaths = ["{self.folder}/parsers"]\n'
        return f'{paths}[sources.{PLUGIN}]\ninterval = 0.5\ndeadline = 1.5\nmode = "always"\n'

    def write(self, first: str = "") -> None:
        """Install it; `first` is run when it is imported."""
        (self.folder / "parsers").mkdir(exist_ok=True)
        text = _PLUGIN.format(name=PLUGIN, switch=str(self.folder / "switch"), first=first)
        (self.folder / "parsers" / "acme.py").write_text(text)

    def says(self, text: str) -> None:
        """What it does from now on, at once and whole."""
        fresh = self.folder / "switch.new"
        fresh.write_text(text)
        fresh.replace(self.folder / "switch")


def tool_text() -> str:
    """What the tool prints when all is well."""
    return parse_file(own_case(TOOL, "table-two-dies-busy").path.read_text()).text


def tool_node(folder: Path, more: str = "", prefix: tuple[str, ...] = ()) -> tuple[Daemon, ToolFolder]:
    """A daemon, not started yet, on a node whose tool is well."""
    tools = ToolFolder(folder / "tools")
    tools.prints(TOOL, tool_text())
    config = TOOL_CONFIG + "[sources.host]\ninterval = 0.5\n" + more
    return Daemon(folder, config, environment={"PATH": tools.search_path}, prefix=prefix), tools


def series(daemon: Daemon, start: str) -> list[str]:
    """The lines of the page that begin so."""
    return [line for line in daemon.page().splitlines() if line.startswith(start)]


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: threads, descriptors, and the processes below it."""

    threads: int
    descriptors: int
    processes: int

    def at_most(self, other: Held, more: int = 0) -> bool:
        """Whether none of it is more than what another held, and a few."""
        mine, its = (
            (self.threads, self.descriptors, self.processes),
            (other.threads, other.descriptors, other.processes),
        )
        return all(one <= two + more for one, two in zip(mine, its, strict=True))


def held(pid: int) -> Held:
    """What a process holds now."""
    folder = Path(f"/proc/{pid}")
    return Held(
        len(list((folder / "task").iterdir())), len(list((folder / "fd").iterdir())), len(list(descendants(pid)))
    )


@contextmanager
def control_group(controller: str, first_file: str, second_file: str, limit: int) -> Iterator[tuple[str, ...]]:
    """A group with a limit, which is written to another file in the second version; gives what makes a command join it."""
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


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process started, and those that these started."""
    with suppress(OSError):  # it ends while we look
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from descendants(child)


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:  # it has ended
        return False


def rss_mib(pid: int) -> float:
    """The memory of a process that is not shared with a file."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024


@dataclass
class SmallDisk:
    """A file system of its own with hardly any room."""

    folder: Path
    _ballast: Path = field(init=False)

    def __post_init__(self) -> None:
        self._ballast = self.folder / "ballast"

    def fill(self) -> None:
        """Leave not a byte of room."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):  # full, as wanted
            while True:
                file.write(b"x" * 4096)

    def empty(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, kibibytes: int = 256) -> Iterator[SmallDisk]:
    """Mount one; only root can."""
    folder.mkdir()
    options = f"size={kibibytes}k,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, timeout=10)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=10)


class LoggingToFile(Daemon):
    """A daemon whose standard error is a file, as without journald; `log_path` is to be set before it starts."""

    log_path: Path = Path("/nowhere")

    def __enter__(self) -> Daemon:
        self.prefix = ("sh", "-c", f'exec "$@" 2>>{shlex.quote(str(self.log_path))}', "sh")
        return super().__enter__()

    def _read_log(self) -> None:
        """Find the address in the file; its lines are read by the tests."""
        super_lines = threading.Thread(target=super()._read_log, daemon=True)  # an empty pipe, read to its end
        super_lines.start()
        while not self.address and self.process is not None and self.process.poll() is None:
            text = self.log_path.read_text() if self.log_path.exists() else ""
            for line in text.splitlines():
                if 'msg="serving"' in line or "msg=serving" in line:
                    self.address = line.partition("address=")[2].split()[0].strip('"')
            time.sleep(0.02)
