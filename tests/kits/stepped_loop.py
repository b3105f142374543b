"""The timers of an event loop, with a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


class Timer:
    def __init__(self, loop: SteppedLoop, due: float, call: Callable[[], object]) -> None:
        self.due, self.call, self._loop = due, call, loop

    def cancel(self) -> None:
        if self in self._loop.timers:
            self._loop.timers.remove(self)


class SteppedLoop:
    """An event loop without a thread; `turns` counts its calls."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.turns = 0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[..., object], *arguments: object) -> Timer:
        timer = Timer(self, when, partial(call, *arguments))
        self.timers.append(timer)
        return timer

    def call_later(self, seconds: float, call: Callable[..., object], *arguments: object) -> Timer:
        return self.call_at(self.now + seconds, call, *arguments)

    def call_soon(self, call: Callable[..., object], *arguments: object) -> Timer:
        return self.call_at(self.now, call, *arguments)

    call_soon_threadsafe = call_soon

    def advance(self, seconds: float) -> None:
        """Advance the clock, and run the calls that become due."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.due <= end]:
            timer = min(due, key=lambda timer: timer.due)
            timer.cancel()
            self.now = max(self.now, timer.due)
            self.turns += 1
            timer.call()
        self.now = end
