"""Programs that serve metrics, run side by side or alone in random order, and the cost of each."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from side_by_side import processes
from side_by_side.measured import Round
from side_by_side.scraping import Scrape, Scraper

CACHE = Path(__file__).resolve().parents[2] / "build" / "benchmarks"
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_LOG_BYTES = 16 << 20
# More frequent requests would slow down a start, which takes tenths of a second.
_RETRY_SECONDS = 0.02
# After this time, polls that are made once a minute have run.
SETTLE_SECONDS = 5.0


def installed_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment with cached bytecode, as for installed programs, and without settings of the tests."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("TELEMETRY_")}
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**ours, "PYTHONPYCACHEPREFIX": str(CACHE / "bytecode"), **(more or {})}


@dataclass(frozen=True)
class Contestant:
    """A program that serves a page. It is ready when a line of the page begins with `marker`."""

    name: str
    command: Sequence[str]
    port: int
    marker: bytes
    environment: Mapping[str, str] = field(default_factory=installed_environment)
    path: str = "/metrics"
    # Returns the number of driver calls so far.
    calls: Callable[[], int] | None = None
    # Returns the CPU seconds of the calls in the fake driver.
    driver_seconds: Callable[[], float] | None = None
    # Changes the readings repeatedly while the program runs.
    change_readings: Callable[[], None] = lambda: None
    # After this number of scrapes, SIGHUP makes the program read its configuration again. 0 means never.
    scrapes_per_reload: int = 0


@dataclass(frozen=True)
class Running:
    """A running contestant with its scraper."""

    contestant: Contestant
    process: subprocess.Popen[bytes]
    scraper: Scraper
    started_after: float

    def plain_page(self) -> bytes:
        """Return the current page as text 0.0.4, uncompressed."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.contestant.port}{self.contestant.path}") as answer:
            page: bytes = answer.read()
            return page


class NotServingError(Exception):
    """A program that did not serve the expected page, with its last output."""


@contextmanager
def running(contestant: Contestant) -> Iterator[Running]:
    """Run the program in the context. Raise NotServingError if it does not serve its page."""
    log = CACHE / "logs" / f"{contestant.name.replace(' ', '-').replace('/', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            contestant.command, env=contestant.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        # A program that logs in a loop must not fill the disk.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_LOG_BYTES, _LOG_BYTES))
        scraper = Scraper(contestant.port, contestant.path)
        try:
            _wait_for_page(contestant, process, scraper, log)
            yield Running(contestant, process, scraper, time.perf_counter() - begin)
        finally:
            scraper.close()
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all its children."""
    children = processes.tree(process.pid)[1:]
    process.terminate()
    try:
        process.wait(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:  # The program ignored the request to end and is killed.
        process.kill()
        process.wait()
    for child in children:
        with contextlib.suppress(ProcessLookupError):  # The child ended with its parent.
            os.kill(child, signal.SIGKILL)


def _wait_for_page(contestant: Contestant, process: subprocess.Popen[bytes], scraper: Scraper, log: Path) -> None:
    until = time.perf_counter() + _START_SECONDS
    while time.perf_counter() < until and process.poll() is None:
        try:
            if b"\n" + contestant.marker in scraper.scrape().page:
                return
        except OSError:  # The server does not listen yet.
            scraper.close()
        time.sleep(_RETRY_SECONDS)  # there is no event for the first complete page of another program
    last_output = " ".join(log.read_text(errors="replace").split())[-300:]
    raise NotServingError(
        f"{contestant.name} was not measured: its page has no {contestant.marker.decode()}. Last output: {last_output}"
    )


def working_contestants(contestants: Sequence[Contestant]) -> list[Contestant]:
    """Start each contestant once to fill caches. Return those that serve, and print why the others do not."""
    return [contestant for contestant in contestants if _serves(contestant)]


def _serves(contestant: Contestant) -> bool:
    try:
        with running(contestant):
            return True
    except NotServingError as error:
        print(error, flush=True)
        return False


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of rounds, their seconds, and scrapes per second. Scrapes during the warm-up before each round do not count.

    Prometheus scrapes at a fixed phase of the second for weeks. Each round begins at a different phase.
    """

    rounds: int
    seconds: int
    pace: float = 1.0
    settle: float = SETTLE_SECONDS


def run_together(contestants: Sequence[Contestant], plan: Plan, rng: random.Random) -> dict[str, list[Round]]:
    """Run all contestants at the same time, and return their rounds. Each round scrapes them in a random order."""
    with ExitStack() as stack:
        all_running = [stack.enter_context(running(contestant)) for contestant in contestants]
        rounds: dict[str, list[Round]] = {contestant.name: [] for contestant in contestants}
        for _ in range(plan.rounds):
            for name, round_ in measure_round(rng.sample(all_running, len(all_running)), plan).items():
                rounds[name].append(round_)
        return rounds


def run_in_turns(contestants: Sequence[Contestant], plan: Plan, rng: random.Random) -> dict[str, list[Round]]:
    """Run each contestant alone, and return its rounds. Each round starts the contestants again, in a new random order."""
    rounds: dict[str, list[Round]] = {contestant.name: [] for contestant in contestants}
    for _ in range(plan.rounds):
        for contestant in rng.sample(contestants, len(contestants)):
            with running(contestant) as program:
                (round_,) = measure_round([program], plan).values()
            rounds[contestant.name].append(replace(round_, started_after=program.started_after))
    return rounds


def measure_round(all_running: Sequence[Running], plan: Plan) -> dict[str, Round]:
    """Measure one round of each contestant. The scrapes of the contestants are spread evenly over the interval."""
    _scrape_all(all_running, plan.pace, plan.settle)
    before = [
        (processes.cpu_seconds(program.process.pid), _call_count(program), _driver_seconds(program))
        for program in all_running
    ]
    begin = time.perf_counter()
    scrapes = _scrape_all(all_running, plan.pace, plan.seconds)
    passed = time.perf_counter() - begin
    return {
        program.contestant.name: Round(
            cpu=(processes.cpu_seconds(program.process.pid) - cpu) / passed,
            memory=processes.memory(program.process.pid),
            latencies=tuple(scrape.seconds for scrape in scraped),
            series=scraped[-1].series,
            wire_bytes=scraped[-1].wire_bytes,
            calls=(_call_count(program) - calls) / passed if program.contestant.calls else None,
            driver=(_driver_seconds(program) - driver) / passed if program.contestant.driver_seconds else None,
        )
        for program, (cpu, calls, driver), scraped in zip(all_running, before, scrapes, strict=True)
    }


def _driver_seconds(program: Running) -> float:
    return program.contestant.driver_seconds() if program.contestant.driver_seconds else 0.0


def _call_count(program: Running) -> int:
    return program.contestant.calls() if program.contestant.calls else 0


def _scrape_all(all_running: Sequence[Running], pace: float, seconds: float) -> list[list[Scrape]]:
    """Scrape the contestants for this many seconds, each at least once. Return the scrapes of each contestant."""
    begin = time.perf_counter()
    scrapes: list[list[Scrape]] = [[] for _ in all_running]
    for turn in range(max(1, round(seconds * pace)) * len(all_running)):
        count, position = divmod(turn, len(all_running))
        program = all_running[position]
        program.contestant.change_readings()
        time.sleep(max(0.0, begin + turn / pace / len(all_running) - time.perf_counter()))
        if program.contestant.scrapes_per_reload and count % program.contestant.scrapes_per_reload == 0:
            program.process.send_signal(signal.SIGHUP)
        scrapes[position].append(program.scraper.scrape())
    time.sleep(max(0.0, begin + seconds - time.perf_counter()))
    return scrapes
