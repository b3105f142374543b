"""Scrapes as Prometheus makes them: its headers, one connection kept; and many at the same moment."""

from __future__ import annotations

import gzip
import http.client
import math
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

_PATIENCE_SECONDS = 30.0
BURST_SECONDS = 10.0
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "Prometheus/3.5.0",
}


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer: seconds from the request to its last byte, what came over the wire, and the page."""

    seconds: float
    wire: int
    page: bytes

    @property
    def series(self) -> int:
        """How many samples the page has."""
        return sum(1 for line in self.page.splitlines() if line and not line.startswith(b"#"))


class Scraper:
    """One Prometheus, which keeps its connection where the server does."""

    def __init__(self, port: int, path: str = "/metrics") -> None:
        self._path = path
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)

    def scrape(self) -> Scrape:
        """The page now; raises OSError while nobody listens."""
        begin = time.perf_counter()
        try:
            answer, body = self._get()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self.close()  # the server gave up the connection that we kept
            answer, body = self._get()
        seconds = time.perf_counter() - begin
        if answer.status != http.client.OK:
            raise ConnectionError(f"status {answer.status}")
        is_gzip = answer.headers.get("Content-Encoding") == "gzip"
        return Scrape(seconds, len(body), gzip.decompress(body) if is_gzip else body)

    def _get(self) -> tuple[http.client.HTTPResponse, bytes]:
        self._connection.request("GET", self._path, headers=HEADERS)
        answer = self._connection.getresponse()
        return answer, answer.read()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def burst(port: int, clients: int, path: str = "/metrics") -> list[float]:
    """Seconds until each of so many clients, who all connect at once, has its whole page.

    Endless for one that was refused, or that got nothing within ten seconds: some servers drop what they cannot queue.
    """
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    request = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in HEADERS.items()), "", ""]).encode()
    with selectors.DefaultSelector() as selector:
        begin = time.perf_counter()
        for _ in range(clients):
            client = socket.socket()
            client.settimeout(0)
            client.connect_ex(("127.0.0.1", port))
            selector.register(client, selectors.EVENT_WRITE, bytearray())
        return _drained(selector, request, begin)


def _drained(selector: selectors.BaseSelector, request: bytes, begin: float) -> list[float]:
    """Send the request on each connection as soon as it stands, read each to its end."""
    took: list[float] = []
    while selector.get_map() and time.perf_counter() < begin + BURST_SECONDS:
        for key, events in selector.select(BURST_SECONDS / 10):
            client = key.fileobj
            assert isinstance(client, socket.socket)
            if events & selectors.EVENT_WRITE:
                client.sendall(request)
                selector.modify(client, selectors.EVENT_READ, key.data)
                continue
            piece = client.recv(1 << 18)
            key.data.extend(piece)
            if not piece:
                took.append(time.perf_counter() - begin if b" 200 " in key.data[:20] else math.inf)
                selector.unregister(client)
                client.close()
    for key in list(selector.get_map().values()):
        took.append(math.inf)
        key.fileobj.close()
    return took


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many per cent of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
