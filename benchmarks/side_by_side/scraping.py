"""Scrapes as Prometheus makes them: its headers, one connection kept."""

from __future__ import annotations

import gzip
import http.client
import time
from collections.abc import Sequence
from dataclasses import dataclass

_PATIENCE_SECONDS = 30.0
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


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many per cent of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
