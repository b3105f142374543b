"""A hundred thousand different scrapes do not increase memory, descriptors or threads; long_day.py tests the polls."""

import http.client
import os
import random
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from kits.daemon import Daemon
from kits.processes import holdings, rss_mib
from telemetry_daemon.web.messages import Request
from telemetry_parsers.metrics import BY_NAME

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
    """Return a random request: known and unknown names, filters, encodings and paths."""
    names = random_from.sample(sorted(BY_NAME), random_from.randrange(4))
    names += [f"made_up_{random_from.getrandbits(64):x}"] * random_from.randrange(2)
    query = "&".join(f"name[]={quote(name)}" for name in names)
    query += f"&{random_from.getrandbits(64):x}={random_from.getrandbits(64):x}"
    path = random_from.choice(PATHS)
    if path == "/nothing":
        path += f"/{random_from.getrandbits(64):x}"
    headers = {"accept": random_from.choice(ACCEPTS), "accept-encoding": random_from.choice(ENCODINGS)}
    return Request(random_from.choice(("GET", "GET", "GET", "HEAD")), path, query, headers)


class Scraper(threading.Thread):
    def __init__(self, address: str, seed: int, count: int) -> None:
        super().__init__(daemon=True)
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._random = random.Random(seed)  # random scrapes, then the same again
        self._count = count
        self.statuses: dict[int, int] = {}

    def run(self) -> None:
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
    scrapers = [Scraper(daemon.address, seed + number, count // SCRAPERS) for number in range(SCRAPERS)]
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join()
    return {status: sum(scraper.statuses.get(status, 0) for scraper in scrapers) for status in (200, 404)}


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
