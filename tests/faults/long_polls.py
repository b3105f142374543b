"""Sixty thousand polls in fast motion and a hundred thousand scrapes, no two alike: memory, descriptors and threads stay."""

from __future__ import annotations

import gc
import http.client
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from kits.daemon import Daemon
from kits.fed_node import FedNode
from kits.processes import holdings, rss_mib
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.polling import schedule
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.node import DemoNode
from telemetry_daemon.site.routes import Site
from telemetry_daemon.state.health import SourceFacts
from telemetry_daemon.web.messages import Request
from telemetry_parsers.metrics import BY_NAME

POLLS = 60_000
SCRAPES = 100_000
SCRAPERS = 4
DEMO = "2xnvidia,1xhygon,1xascend"
SEED = int(os.environ.get("FAULT_SEED", "17"))
ACCEPTS = (
    "*/*",
    "",
    "text/plain;version=0.0.4",
    "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;q=0.5",
    "application/openmetrics-text;version=9",
    "application/json",
    "x/" + "y" * 200,
)
ENCODINGS = ("gzip", "identity", "", "gzip;q=0", "br, gzip;q=0.1", "deflate")
PATHS = ("/metrics", "/metrics", "/metrics", "/", "/api/v1/snapshot", "/healthz", "/readyz", "/nothing")


def varied(random_from: random.Random) -> Request:
    """A request as no other was: known and unknown names, filters, encodings and paths."""
    names = random_from.sample(sorted(BY_NAME), random_from.randrange(4))
    names += [f"made_up_{random_from.getrandbits(64):x}"] * random_from.randrange(2)
    query = "&".join(f"name[]={quote(name)}" for name in names)
    query += f"&{random_from.getrandbits(64):x}={random_from.getrandbits(64):x}"
    path = random_from.choice(PATHS)
    if path == "/nothing":
        path += f"/{random_from.getrandbits(64):x}"
    headers = {"accept": random_from.choice(ACCEPTS), "accept-encoding": random_from.choice(ENCODINGS)}
    return Request(random_from.choice(("GET", "GET", "GET", "HEAD")), path, query, headers)


class Motion(FedNode):
    """A simulated node whose clock jumps from poll to poll, and its site."""

    def __init__(self) -> None:
        super().__init__(now=5000.0, wall_at_start=1.8e9)
        self.polls = 0
        self.site = Site(self.store.snapshot, self.store.ready, lambda _: b"")
        self.sources = DemoNode(DEMO, self.clock).sources(Settings())
        for source in self.sources:
            self.store.add_source(SourceFacts(source.name, source.parser.vendor, source.parser.gives))
        self._random = random.Random(SEED)  # varied, and the same again

    def steps(self, polls: int, scrapes_each: int) -> Iterator[None]:
        """So many polls, with as many scrapes after each."""
        end = self.polls + polls
        while self.polls < end:
            self.now += 2.0
            for source in self.sources:
                for poll in source.parser.polls:
                    if self.now % max(2.0, schedule.base_interval(poll, source.settings)) >= 2.0:
                        continue
                    answer = source.ask(poll, Targets())
                    capture = replace(answer.capture, monotonic_time=self.now)
                    self.store.put(source.name, poll, capture, answer.report, answer.result, poll.interval)
                    self.polls += 1
            for _ in range(scrapes_each):
                assert self.site.respond(varied(self._random)).status in (200, 404)
            yield


def own_weight() -> tuple[float, int, int]:
    """Our memory in MiB, descriptors and threads."""
    gc.collect()
    return rss_mib(os.getpid()), len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


@pytest.mark.timeout(1800)
def test_sixty_thousand_polls_and_as_many_scrapes_leave_nothing_behind() -> None:
    motion = Motion()
    for _ in motion.steps(POLLS // 10, 1):
        pass
    before = own_weight()
    for _ in motion.steps(POLLS - POLLS // 10, 1):
        pass
    after = own_weight()
    print(
        f"{motion.polls} polls: RSS {before[0]:.1f} to {after[0]:.1f} MiB, {after[1]} descriptors, {after[2]} threads"
    )
    assert after[1:] == before[1:]
    assert after[0] <= before[0] * 1.05 + 2.0


class Scraper(threading.Thread):
    """Asks for one page after the other; every hundredth on a connection of its own, some cut off in the middle."""

    def __init__(self, address: str, seed: int, count: int) -> None:
        super().__init__(daemon=True)
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._random = random.Random(seed)  # varied, and the same again
        self._count = count
        self.statuses: dict[int, int] = {}

    def run(self) -> None:
        """Scrape."""
        connection = self._connected()
        for number in range(self._count):
            request = varied(self._random)
            connection.request(request.method, f"{request.path}?{request.query}", headers=dict(request.headers))
            if number % 500 == 499:
                connection.close()  # without having read the answer
                connection = self._connected()
                continue
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            if number % 100 == 99:
                connection.close()
                connection = self._connected()
        connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=30)


def scrape(daemon: Daemon, count: int, seed: int) -> dict[int, int]:
    """Scrape so often; how often each status was the answer."""
    scrapers = [Scraper(daemon.address, seed + number, count // SCRAPERS) for number in range(SCRAPERS)]
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join()
    return {status: sum(one.statuses.get(status, 0) for one in scrapers) for status in (200, 404)}


@pytest.mark.timeout(1800)
def test_a_hundred_thousand_varied_scrapes_of_a_daemon_leave_nothing_behind(tmp_path: Path) -> None:
    with Daemon(tmp_path, arguments=("--demo", DEMO)) as daemon:
        daemon.until(lambda: "accelerator_power_watts{" in daemon.page())
        scrape(daemon, SCRAPES // 10, SEED)
        before, kept = rss_mib(daemon.pid), holdings(daemon.pid)
        answers = scrape(daemon, SCRAPES, 2 * SEED)
        after = rss_mib(daemon.pid)
        print(f"{sum(answers.values())} answers {answers}: RSS {before:.1f} to {after:.1f} MiB; {holdings(daemon.pid)}")
        assert sum(answers.values()) == SCRAPES - SCRAPES // 500
        daemon.until(lambda: holdings(daemon.pid).at_most(kept, more=1))
        assert after <= before * 1.05 + 2.0
        assert daemon.stop()[0] == 0
