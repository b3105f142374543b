"""Programs that serve metrics, run beside one another: the same seconds, the same scrapes, what each of them took."""

from __future__ import annotations

import math
import os
import resource
import socket
import statistics
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from side_by_side import processes
from side_by_side.processes import NO_MEMORY, Memory
from side_by_side.scraping import Scrape, Scraper, burst, percentile

CACHE = Path(__file__).resolve().parents[2] / "build" / "benchmarks"
BURSTS = 3
_START_SECONDS = 60.0
_LOG_BYTES = 16 << 20
_LOOK_AGAIN_SECONDS = 0.005


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def installed_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment with byte code kept, as it is for programs that were installed, and none of our own settings."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("TELEMETRY_")}
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**ours, "PYTHONPYCACHEPREFIX": str(CACHE / "bytecode"), **(more or {})}


@dataclass(frozen=True)
class Contestant:
    """A program that serves a page; it has started when a line of that begins with `marker`."""

    name: str
    command: Sequence[str]
    port: int
    marker: bytes
    environment: Mapping[str, str] = field(default_factory=installed_environment)
    path: str = "/metrics"
    # What it makes others do, counted by them.
    counts: Callable[[], Mapping[str, int]] = dict


@dataclass
class Running:
    """A contestant that serves, and what was measured of it."""

    contestant: Contestant
    process: subprocess.Popen[bytes]
    scraper: Scraper
    started_after: float
    scrapes: list[Scrape] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    seconds: float = 0.0
    counted: Counter[str] = field(default_factory=Counter)
    memory: Memory = NO_MEMORY
    bursts: list[float] = field(default_factory=list)

    def plain_page(self) -> bytes:
        """Its page now as text 0.0.4, uncompressed."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.contestant.port}{self.contestant.path}") as answer:
            page: bytes = answer.read()
            return page

    @property
    def cpu_per_second(self) -> float:
        """CPU seconds of a second, the middle one of all rounds."""
        return statistics.median(self.cpu)

    def count_per_second(self, name: str) -> float:
        """How often it had something done in a second of all rounds."""
        return self.counted[name] / self.seconds

    def scrape_ms(self, percent: float) -> float:
        """Milliseconds that so many per cent of the scrapes did not exceed."""
        return percentile([scrape.seconds for scrape in self.scrapes], percent) * 1e3

    def burst_ms(self, percent: float) -> float:
        """The same of the parallel ones that got a page."""
        return percentile([seconds for seconds in self.bursts if math.isfinite(seconds)], percent) * 1e3

    @property
    def unanswered(self) -> float:
        """How many of a hundred parallel scrapers got no page."""
        return 100 * sum(map(math.isinf, self.bursts)) / len(self.bursts)


class NotServingError(Exception):
    """A program that did not come to serve what was expected; with its last words."""


@contextmanager
def running(contestant: Contestant) -> Iterator[Running]:
    """The program from its start until it is ended; raises NotServingError."""
    log = CACHE / "logs" / f"{contestant.name.replace(' ', '-').replace('/', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            contestant.command, env=contestant.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        # One that logs in a loop must not fill the disk.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_LOG_BYTES, _LOG_BYTES))
        scraper = Scraper(contestant.port, contestant.path)
        try:
            _wait_for_page(contestant, process, scraper, log)
            yield Running(contestant, process, scraper, time.perf_counter() - begin)
        finally:
            scraper.close()
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:  # one that does not end when told to is killed
                process.kill()
                process.wait()


def _wait_for_page(contestant: Contestant, process: subprocess.Popen[bytes], scraper: Scraper, log: Path) -> None:
    until = time.perf_counter() + _START_SECONDS
    while time.perf_counter() < until and process.poll() is None:
        try:
            if b"\n" + contestant.marker in scraper.scrape().page:
                return
        except OSError:  # it does not listen yet
            scraper.close()
        time.sleep(_LOOK_AGAIN_SECONDS)
    words = " ".join(log.read_text(errors="replace").split())[-300:]
    raise NotServingError(f"{contestant.name} was not measured: it gave no {contestant.marker.decode()}; {words}")


def side_by_side(
    contestants: Sequence[Contestant], rounds: int, seconds: int, settle_seconds: float = 5.0
) -> list[Running]:
    """All of them at the same time, each scraped once a second; then each under 100 scrapers at once, in turns."""
    with ExitStack() as stack:
        all_running = [stack.enter_context(running(each)) for each in contestants]
        time.sleep(settle_seconds)
        for _ in range(rounds):
            _watch(all_running, seconds)
        for each in all_running:
            each.memory = processes.memory(each.process.pid)
        for _ in range(BURSTS):
            for each in all_running:
                each.bursts += burst(each.contestant.port, 100, each.contestant.path)
                time.sleep(0.5)
        return all_running


def _watch(all_running: Sequence[Running], seconds: int) -> None:
    """One round; the scrapes of the contestants lie as far apart as a second allows."""
    before = [(processes.cpu_seconds(each.process.pid), each.contestant.counts()) for each in all_running]
    begin = time.perf_counter()
    for turn in range(seconds * len(all_running)):
        time.sleep(max(0.0, begin + turn / len(all_running) - time.perf_counter()))
        each = all_running[turn % len(all_running)]
        each.scrapes.append(each.scraper.scrape())
    time.sleep(max(0.0, begin + seconds - time.perf_counter()))
    passed = time.perf_counter() - begin
    for each, (cpu, counts) in zip(all_running, before, strict=True):
        each.cpu.append((processes.cpu_seconds(each.process.pid) - cpu) / passed)
        each.seconds += passed
        each.counted.update(each.contestant.counts())
        each.counted.subtract(counts)


def started(contestants: Sequence[Contestant], rounds: int) -> tuple[list[Contestant], dict[str, float]]:
    """Those that come to serve, the others named; and seconds from the start to the first page with readings.

    These are the middle one of so many starts, in turns; the first start of each, which fills caches, is not counted.
    """
    serving = [each for each in contestants if _serves(each)]
    if contestants[0] not in serving:
        raise SystemExit(f"{contestants[0].name} itself does not serve: nothing to compare with")
    took: dict[str, list[float]] = {each.name: [] for each in serving}
    for _ in range(rounds):
        for each in serving:
            with running(each) as found:
                took[each.name].append(found.started_after)
    return serving, {name: statistics.median(times) for name, times in took.items()}


def _serves(contestant: Contestant) -> bool:
    try:
        with running(contestant):
            return True
    except NotServingError as error:
        print(error, flush=True)
        return False
