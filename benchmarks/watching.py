"""Measure the cost of watching: `telemetry top` and `snapshot`, compared with nvitop, and pages that follow the daemon.

    python benchmarks/watching.py [--quick]

All readers of NVML load copies of the same fake library of eight H100, whose values change. A page is a client of
/api/v1/events that reads all events. nvitop is installed in build/benchmarks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from side_by_side import installs, processes, tables
from side_by_side.contestants import Contestant, Running, installed_environment, running
from side_by_side.installs import MissingPeer
from side_by_side.measured import Spread
from side_by_side.nodes import EVERY_SECOND, GPUS, NVITOP_VERSION, POWER, changing_fake, library_environment
from side_by_side.options import Extent, parse_extent
from side_by_side.ours import COMMAND, telemetry
from side_by_side.scraping import percentile
from side_by_side.tables import number
from side_by_side.terminals import running_in_terminal

_SETTLE_SECONDS = 4.0
_CARDS = (8, 16, 128)
_PAGES = 32


def main() -> None:
    limits = parse_extent(__doc__ or "")
    tables.print_machine()
    print()
    with tempfile.TemporaryDirectory() as folder:
        print_terminals(Path(folder), limits)
        print()
        print_pages(Path(folder), limits)


@dataclass(frozen=True)
class Program:
    """A command that shows the cards, with its environment, and a string that its screen should then contain."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    screen_text: bytes = b"H100"


@contextmanager
def programs(folder: Path) -> Iterator[tuple[list[Program], list[Program]]]:
    """Yield the interactive programs, and those that print once. Our daemon runs in the context."""
    fake = changing_fake(folder / "nvml", "h100")
    ours = telemetry(folder / "ours", POWER, EVERY_SECOND.format("nvml"), environment=library_environment(fake))
    config = ("--config", str(folder / "ours" / "telemetry.toml"))
    # No daemon runs with this configuration.
    alone = telemetry(folder / "alone", POWER, EVERY_SECOND.format("nvml"), environment=library_environment(fake))
    alone_config = ("--config", str(folder / "alone" / "telemetry.toml"))
    interactive = [
        Program("telemetry top, of the daemon", (*COMMAND, "top", *config), ours.environment),
        Program("telemetry top, without a daemon", (*COMMAND, "top", *alone_config), alone.environment),
    ]
    one_shot = [
        Program("telemetry snapshot, of the daemon", (*COMMAND, "snapshot", *config), ours.environment),
        Program("telemetry snapshot, from tools", (*COMMAND, "snapshot", *alone_config), alone.environment),
    ]
    nvitop = installs.install_from_pypi("nvitop", NVITOP_VERSION, "nvitop")
    if isinstance(nvitop, MissingPeer):
        print(nvitop)
    else:
        environment = installed_environment(library_environment(fake))
        interactive.append(Program("nvitop", (str(nvitop), "--interval", "1"), environment, b"NVITOP"))
        one_shot.append(Program("nvitop -1", (str(nvitop), "-1"), environment))
    with running(ours):
        time.sleep(_SETTLE_SECONDS)
        yield interactive, one_shot


def print_terminals(folder: Path, limits: Extent) -> None:
    """Print the CPU time of interactive programs, and of those that print once, in turns."""
    with programs(folder) as (interactive, one_shot):
        lines = []
        for program in interactive:
            rounds = [_interactive_cost(program, limits.seconds(20)) for _ in range(limits.rounds)]
            first, second, kilobytes = (_spread(values) for values in zip(*rounds, strict=True))
            lines.append((program.name, first, second, kilobytes))
        headings = (f"{GPUS} × H100, once a second", "CPU until the first screen, ms", "CPU, ms/s", "kB/s printed")
        tables.print_table(headings, lines)
        print()
        runs = [
            (
                program.name,
                *(
                    _spread(values)
                    for values in zip(*(_command_milliseconds(program) for _ in range(limits.starts)), strict=True)
                ),
            )
            for program in one_shot
        ]
        tables.print_table((f"{GPUS} × H100, once", "CPU, ms", "wall, ms"), runs)


def _interactive_cost(program: Program, seconds: float) -> tuple[float, float, float]:
    with running_in_terminal(program.command, program.environment) as screen:
        first = screen.wait_for(program.screen_text)
        time.sleep(_SETTLE_SECONDS)
        cpu, printed = screen.watch(seconds)
        return 1e3 * first, 1e3 * cpu, printed / 1e3


def _command_milliseconds(program: Program) -> tuple[float, float]:
    """Return CPU and wall milliseconds of the command and its children."""
    begin = time.perf_counter()
    child = subprocess.Popen(program.command, env=program.environment, stdout=subprocess.PIPE)
    printed = child.stdout.read() if child.stdout else b""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if program.screen_text not in printed:
        raise SystemExit(f"{program.name} did not show the cards: {printed[-300:]!r}")
    return 1e3 * (used.ru_utime + used.ru_stime), 1e3 * (time.perf_counter() - begin)


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    spread = Spread(ordered[len(ordered) // 2], ordered[0], ordered[-1])
    return f"{number(spread.median)} ({number(spread.low)}–{number(spread.high)})"


def print_pages(folder: Path, limits: Extent) -> None:
    """Print the cost of our daemon with simulated cards, without pages and with many pages that follow it."""
    lines = []
    for cards in _CARDS:
        flags = ("--demo", f"{cards}xnvidia")
        contestant = telemetry(folder / f"{cards} cards", POWER, EVERY_SECOND.format("nvml"), flags)
        with running(contestant) as ours:
            time.sleep(_SETTLE_SECONDS)
            lines += [
                (f"{cards} cards, {pages} pages", *_pages_cost(contestant, ours, pages, limits.seconds(30)))
                for pages in (0, _PAGES)
            ]
    tables.print_table(("simulated", "CPU, ms/s", "RSS, MiB", "scrape p50, ms", "scrape p99, ms", "kB/s a page"), lines)


def _pages_cost(contestant: Contestant, ours: Running, pages: int, seconds: int) -> Iterator[str]:
    with followers(contestant.port, pages) as received:
        time.sleep(_SETTLE_SECONDS)
        cpu, before, begin = processes.cpu_seconds(ours.process.pid), received(), time.perf_counter()
        scrapes = []
        for second in range(seconds):
            time.sleep(max(0.0, begin + second - time.perf_counter()))
            scrapes.append(ours.scraper.scrape().seconds)
        passed = time.perf_counter() - begin
        yield number(1e3 * (processes.cpu_seconds(ours.process.pid) - cpu) / passed)
        yield number(processes.memory(ours.process.pid).rss)
        yield from (number(1e3 * percentile(scrapes, percent)) for percent in (50, 99))
        yield number((received() - before) / passed / 1e3 / pages) if pages else "–"


_FOLLOWER = """
import selectors, socket, sys
selector, total = selectors.DefaultSelector(), 0
for _ in range(int(sys.argv[2])):
    client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    client.sendall(b"GET /api/v1/events HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    selector.register(client, selectors.EVENT_READ)
selector.register(sys.stdin, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if key.fileobj is sys.stdin:
            if not sys.stdin.readline():
                sys.exit()
            print(total, flush=True)
        else:
            piece = key.fileobj.recv(1 << 16)
            total += len(piece)
            if not piece:
                sys.exit("a stream ended")
"""


@contextmanager
def followers(port: int, pages: int) -> Iterator[Callable[[], int]]:
    """Run clients that read all events in a child process, and yield a function that returns the bytes read so far."""
    command = (sys.executable, "-c", _FOLLOWER, str(port), str(pages))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def received() -> int:
            if process.stdin is None or process.stdout is None:
                raise SystemExit("The clients' process has no pipe.")
            process.stdin.write("\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        try:
            yield received
        finally:
            process.kill()


if __name__ == "__main__":
    main()
