"""Programs that serve metrics, run beside one another or alone in random turns, and what each of them took."""

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
# Often enough for a start of tenths of a second, so seldom that it does not slow it down.
_LOOK_AGAIN_SECONDS = 0.02
# Until the polls that come once a minute have been made, too.
SETTLE_SECONDS = 5.0


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
    # How many calls it has made of the driver by now, where those are counted.
    calls: Callable[[], int] | None = None
    # How many seconds of CPU its calls have taken within the driver, where the fake driver takes any.
    driver_seconds: Callable[[], float] | None = None
    # Is called again and again while it runs: what moves its readings.
    move: Callable[[], None] = lambda: None
    # It is told to read its configuration again (SIGHUP) before every so many scrapes; 0: never.
    reloads_every: int = 0


@dataclass(frozen=True)
class Running:
    """A contestant that serves, and who scrapes it."""

    contestant: Contestant
    process: subprocess.Popen[bytes]
    scraper: Scraper
    started_after: float

    def plain_page(self) -> bytes:
        """Its page now as text 0.0.4, uncompressed."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.contestant.port}{self.contestant.path}") as answer:
            page: bytes = answer.read()
            return page


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
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and whatever it leaves."""
    children = processes.tree(process.pid)[1:]
    process.terminate()
    try:
        process.wait(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:  # one that does not end when told to is killed
        process.kill()
        process.wait()
    for child in children:
        with contextlib.suppress(ProcessLookupError):  # it ended with its parent
            os.kill(child, signal.SIGKILL)


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


def serving(contestants: Sequence[Contestant]) -> list[Contestant]:
    """Those that come to serve, the others named; the first start, which fills caches, is not measured."""
    return [each for each in contestants if _serves(each)]


def _serves(contestant: Contestant) -> bool:
    try:
        with running(contestant):
            return True
    except NotServingError as error:
        print(error, flush=True)
        return False


@dataclass(frozen=True, slots=True)
class Plan:
    """How many rounds, of how many seconds, scrapes a second; each round has so many seconds before it that do not count.

    They are scraped, too: Prometheus comes at the same moment of each second for weeks, and a round begins at another one.
    """

    rounds: int
    seconds: int
    pace: float = 1.0
    settle: float = SETTLE_SECONDS


def together(contestants: Sequence[Contestant], plan: Plan, dice: random.Random) -> dict[str, list[Round]]:
    """Rounds of all of them at the same time; in which order they are scraped is drawn for each round."""
    with ExitStack() as stack:
        all_running = [stack.enter_context(running(each)) for each in contestants]
        found: dict[str, list[Round]] = {each.name: [] for each in contestants}
        for _ in range(plan.rounds):
            for name, each in watch(dice.sample(all_running, len(all_running)), plan).items():
                found[name].append(each)
        return found


def in_turns(contestants: Sequence[Contestant], plan: Plan, dice: random.Random) -> dict[str, list[Round]]:
    """Rounds of each of them alone, in an order that is drawn anew for each round; each begins with a start."""
    found: dict[str, list[Round]] = {each.name: [] for each in contestants}
    for _ in range(plan.rounds):
        for contestant in dice.sample(contestants, len(contestants)):
            with running(contestant) as each:
                (found_now,) = watch([each], plan).values()
            found[contestant.name].append(replace(found_now, started_after=each.started_after))
    return found


def watch(all_running: Sequence[Running], plan: Plan) -> dict[str, Round]:
    """One round of each; the scrapes of the contestants lie as far apart as their pace allows."""
    _scraped(all_running, plan.pace, plan.settle)
    before = [(processes.cpu_seconds(each.process.pid), _calls(each), _driver(each)) for each in all_running]
    begin = time.perf_counter()
    scrapes = _scraped(all_running, plan.pace, plan.seconds)
    passed = time.perf_counter() - begin
    return {
        each.contestant.name: Round(
            cpu=(processes.cpu_seconds(each.process.pid) - cpu) / passed,
            memory=processes.memory(each.process.pid),
            latencies=tuple(scrape.seconds for scrape in scraped),
            series=scraped[-1].series,
            wire=scraped[-1].wire,
            calls=(_calls(each) - calls) / passed if each.contestant.calls else None,
            driver=(_driver(each) - driver) / passed if each.contestant.driver_seconds else None,
        )
        for each, (cpu, calls, driver), scraped in zip(all_running, before, scrapes, strict=True)
    }


def _driver(each: Running) -> float:
    return each.contestant.driver_seconds() if each.contestant.driver_seconds else 0.0


def _calls(each: Running) -> int:
    return each.contestant.calls() if each.contestant.calls else 0


def _scraped(all_running: Sequence[Running], pace: float, seconds: float) -> list[list[Scrape]]:
    """The scrapes of each in so many seconds, one at least."""
    begin = time.perf_counter()
    scrapes: list[list[Scrape]] = [[] for _ in all_running]
    for turn in range(max(1, round(seconds * pace)) * len(all_running)):
        count, which = divmod(turn, len(all_running))
        each = all_running[which]
        each.contestant.move()
        time.sleep(max(0.0, begin + turn / pace / len(all_running) - time.perf_counter()))
        if each.contestant.reloads_every and count % each.contestant.reloads_every == 0:
            each.process.send_signal(signal.SIGHUP)
        scrapes[which].append(each.scraper.scrape())
    time.sleep(max(0.0, begin + seconds - time.perf_counter()))
    return scrapes
