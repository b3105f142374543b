"""Thousands of clients that do not read their event stream affect neither scrapes, memory nor other clients."""

import contextlib
import http.client
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.attackers import attack
from kits.daemon import Daemon
from kits.followers import PATH
from kits.processes import holdings, peak_mib
from telemetry_daemon.site.stream import MAX_STREAMS

CARDS = ("--demo", "128xnvidia")
STALLED = 3000
ELSEWHERE = "127.0.0.2"
SECONDS = 8.0
MAX_MIB_MORE = 24.0
# Longer than a slow machine needs for a page of 128 cards, shorter than the limit of unread connections.
HELD_UP_SECONDS = 10.0


class Readers:
    """Good clients of the stream in a thread of their own; counts the readings that each got."""

    def __init__(self, address: str, count: int) -> None:
        host, _, port = address.rpartition(":")
        self.got = dict.fromkeys(range(count), 0)
        self.gone = 0
        self._selector = selectors.DefaultSelector()
        for number in range(count):
            client = socket.create_connection((host, int(port)), timeout=30)
            client.sendall(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            client.setblocking(False)
            self._selector.register(client, selectors.EVENT_READ, number)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def _read(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.1):
                data = b""
                with contextlib.suppress(ConnectionError):  # dropped
                    data = key.fileobj.recv(1 << 20)
                self.got[key.data] += data.count(b"event: readings")
                if not data:
                    self.gone += 1
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, arguments=CARDS) as running:
        running.until(lambda: len(running.document()["devices"]) == 128)
        running.until(lambda: running.get("/api/v1/history")[0] == 200)
        yield running
        assert running.stop()[0] == 0
        assert running.logged("level=error") == 0


def scraped(daemon: Daemon, seconds: float) -> list[float]:
    """Return the seconds of each scrape, each on a new connection."""
    took: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        with contextlib.closing(http.client.HTTPConnection(daemon.address, timeout=60)) as client:
            client.request("GET", "/metrics")
            answer = client.getresponse()
            assert (answer.status, len(answer.read()) > 100_000) == (200, True)
        took.append(time.perf_counter() - begun)
        time.sleep(0.05)
    return sorted(took)


def attacked(daemon: Daemon, record_property: Callable[[str, object], None]) -> None:
    """Scrape under attack; memory and scrapes keep to their bounds."""
    before = peak_mib(daemon.pid)
    with attack(int(daemon.address.rpartition(":")[2]), "stall", STALLED, ELSEWHERE):
        daemon.until(lambda: holdings(daemon.pid).descriptors > 200)
        took = scraped(daemon, SECONDS)
        descriptors = holdings(daemon.pid).descriptors
    figures = {
        "scrapes": len(took),
        "p95_ms": round(took[int(len(took) * 0.95)] * 1000),
        "worst_ms": round(took[-1] * 1000),
        "more_mib": round(peak_mib(daemon.pid) - before, 1),
        "descriptors": descriptors,
    }
    print(figures)
    for name, figure in figures.items():
        record_property(name, figure)
    assert took[int(len(took) * 0.95)] < HELD_UP_SECONDS
    assert figures["more_mib"] < MAX_MIB_MORE
    assert descriptors < 800


@pytest.mark.long
def test_readers_survive_stalled_clients(daemon: Daemon, record_property: Callable[[str, object], None]) -> None:
    readers = Readers(daemon.address, MAX_STREAMS)
    try:
        daemon.until(lambda: min(readers.got.values()) > 0)
        before = dict(readers.got)
        attacked(daemon, record_property)
        # Clients share the streams: an attacker at another address may take half of them, never the rest.
        assert readers.gone <= MAX_STREAMS / 2
        read = sorted(readers.got[number] - before[number] for number in before)
        assert read[readers.gone] >= SECONDS / 4
    finally:
        readers.close()


@pytest.mark.long
def test_stalled_streams_delay_no_other_client(daemon: Daemon, record_property: Callable[[str, object], None]) -> None:
    attacked(daemon, record_property)
