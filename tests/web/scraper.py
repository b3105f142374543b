"""A client that scrapes without a pause, and counts the results."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
from collections import Counter
from collections.abc import Callable

from kits.web_server import PATIENCE_SECONDS, fetch


class Scraper(threading.Thread):
    """Scrapes until the end of its block on new connections; with TLS, alternately on a kept connection."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, path: str = "/") -> None:
        super().__init__()
        self.statuses: Counter[object] = Counter()
        self._port, self._tls, self._path = port, tls, path
        self._end = threading.Event()

    def run(self) -> None:
        kept = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS, context=self._tls)
        with contextlib.closing(kept):
            while not self._end.is_set():
                self._note(lambda: fetch(self._port, self._path, tls=self._tls).status)
                if self._tls is not None:
                    self._note(lambda: self._scrape_again(kept))

    def _note(self, scrape: Callable[[], int]) -> None:
        try:
            self.statuses[scrape()] += 1
        except (OSError, http.client.HTTPException) as error:
            self.statuses[repr(error)] += 1

    def _scrape_again(self, client: http.client.HTTPSConnection) -> int:
        client.request("GET", self._path)
        answer = client.getresponse()
        answer.read()
        return answer.status

    def __enter__(self) -> Scraper:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()
