"""Timers of a test's own clock, in the place of those of threading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Timer:
    """One that goes off at that time, once it has been started."""

    timers: Timers
    at: float
    act: Callable[[], None]
    is_waiting: bool = False
    daemon: bool = False

    def start(self) -> None:
        if self.timers.threads <= 0:
            raise RuntimeError("can't start new thread")
        self.timers.threads -= 1
        self.is_waiting = True

    def cancel(self) -> None:
        self.is_waiting = False


class Timers:
    """Those that were set by this clock; `threads` says how many may be started yet."""

    def __init__(self, now: Callable[[], float], threads: int = 1_000_000) -> None:
        self._now = now
        self.set: list[Timer] = []
        self.threads = threads

    def __call__(self, seconds: float, act: Callable[[], None]) -> Timer:
        self.set.append(Timer(self, self._now() + seconds, act))
        return self.set[-1]

    def go_off(self) -> None:
        """Those whose time has come act."""
        for one in [one for one in self.set if one.is_waiting and one.at <= self._now()]:
            one.is_waiting = False
            one.act()
