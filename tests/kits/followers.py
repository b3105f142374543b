"""Clients of the event stream: one that reads event by event, and many that only connect."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kits.waiting import PATIENCE_SECONDS

PATH = "/api/v1/events"


@dataclass(frozen=True)
class Event:
    """An event with its bytes in `raw`."""

    id: str
    name: str
    data: Any
    raw: bytes


class Follower:
    def __init__(self, address: str, path: str = PATH, headers: Mapping[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)
        self._connection.request("GET", path, headers=dict(headers or {}))
        self.answer = self._connection.getresponse()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        # Both objects keep the socket open, so both must be closed.
        self.answer.close()
        self._connection.close()

    def events(self) -> Iterator[Event]:
        """Yield the events until the stream ends, without comments."""
        lines: list[bytes] = []
        while line := self.answer.readline():
            lines.append(line)
            if line == b"\n":
                fields = dict(line.decode().rstrip("\n").split(": ", 1) for line in lines if b": " in line)
                if fields:
                    yield Event(fields["id"], fields["event"], json.loads(fields["data"]), b"".join(lines))
                lines = []

    def next(self, name: str) -> Event:
        return next(event for event in self.events() if event.name == name)


@contextlib.contextmanager
def followers(address: str, count: int) -> Iterator[list[Follower]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Follower(address)) for _ in range(count)]
