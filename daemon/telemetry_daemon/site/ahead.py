"""Pages made before they are asked for: shortly before a regular client's turn, and anew after a poll that comes until then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from telemetry_daemon.site.regulars import Regulars

Make = Callable[[], object]


@dataclass(slots=True)
class _Page:
    """A page, who asks for it regularly, and until when the client whose turn it is is waited for."""

    make: Make
    regulars: Regulars = field(default_factory=Regulars)
    timer: asyncio.TimerHandle | None = None
    awaited_until: float = 0.0


class Ahead:
    """Has pages made ahead on an event loop, each for its own regular clients; nothing is made for nobody."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pages: dict[Hashable, _Page] = {}
        # Until when some client is waited for: the one thing that other threads read.
        self._awaited_until = 0.0
        # Many polls may end at once: one making that is on its way is enough for all of them.
        self._is_on_its_way = False

    def asked(self, name: Hashable, make: Make) -> None:
        """Note a request for the page of that name, which `make` makes and keeps; what follows of it waits for the answer."""
        self._loop.call_soon(self._note, self._pages.setdefault(name, _Page(make)), self._loop.time())

    def snapshot_changed(self) -> None:
        """Have the pages made anew for which somebody is waited for just now; for any thread, and nothing otherwise."""
        if self._loop.time() <= self._awaited_until and not self._is_on_its_way:
            self._is_on_its_way = True
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever was waited for
                self._loop.call_soon_threadsafe(self._make_awaited)

    def _note(self, page: _Page, now: float) -> None:
        page.regulars.came(now)
        self._await_next(page, now)

    def _await_next(self, page: _Page, now: float) -> None:
        """Set the timer to the next turn of a regular client; no timer where there is none."""
        if page.timer is not None:
            page.timer.cancel()
        turn = page.regulars.next_turn(now)
        page.timer = None if turn is None else self._loop.call_at(turn.opens, self._open, page, turn.closes)
        self._wait(page, 0.0)

    def _open(self, page: _Page, closes: float) -> None:
        """Make the page, and wait for the client."""
        # A timer may go off a little early: by its own time the turn is missed.
        page.timer = self._loop.call_at(closes, self._await_next, page, closes)
        self._wait(page, closes)
        page.make()

    def _wait(self, page: _Page, until: float) -> None:
        page.awaited_until = until
        self._awaited_until = max(each.awaited_until for each in self._pages.values())

    def _make_awaited(self) -> None:
        self._is_on_its_way = False  # first: what changes from now on is to be made, too
        now = self._loop.time()
        for page in self._pages.values():
            if now <= page.awaited_until:
                page.make()
