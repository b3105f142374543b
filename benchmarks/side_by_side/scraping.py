"""Scrapes as Prometheus makes them: with its headers, over a persistent connection."""

from __future__ import annotations

import gzip
import http.client
import time
from collections.abc import Sequence
from dataclasses import dataclass

_TIMEOUT_SECONDS = 30.0
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "Prometheus/3.5.0",
}


@dataclass(frozen=True, slots=True)
class Scrape:
    """A response: seconds from the request to its last byte, the bytes on the wire, and the page."""

    seconds: float
    wire_bytes: int
    page: bytes

    @property
    def series(self) -> int:
        """Return the number of samples on the page."""
        return sum(1 for line in self.page.splitlines() if line and not line.startswith(b"#"))


class Scraper:
    """A Prometheus, which keeps its connection open if the server does."""

    def __init__(self, port: int, path: str = "/metrics") -> None:
        self._path = path
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)

    def scrape(self) -> Scrape:
        """Return the current page. Raise OSError if no server listens."""
        begin = time.perf_counter()
        try:
            answer, body = self._get()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self.close()  # The server closed the persistent connection.
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
        self._connection.close()


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that this per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
