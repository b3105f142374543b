"""The loop of `top`: wakes for keys, news, sizes and signals, and paints what the state then is."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping
from types import FrameType

from telemetry_daemon.terminal.exits import ToldToEndError
from telemetry_daemon.top.feed import Feed, Focus
from telemetry_daemon.top.screen import Screen, is_unicode, terminal
from telemetry_exporters.terminal.frames.drawing import ASCII, UNICODE, Glyphs
from telemetry_exporters.terminal.frames.frame import frame
from telemetry_exporters.terminal.frames.keys import fed, press
from telemetry_exporters.terminal.frames.model import State, View

# Ages on the screen go on without news. News come each second as a rule: a tick at the same time would be one frame too many.
TICK_SECONDS = 1.2
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def run(feed: Feed, environment: Mapping[str, str]) -> None:
    """Show the feed until somebody quits."""
    with contextlib.closing(Waker()) as waker, terminal(environment) as screen, told_to_end(), resizes(screen, waker):
        feed.start(waker.wake)
        try:
            _show(feed, screen, waker, UNICODE if is_unicode(environment) else ASCII)
        finally:
            feed.close()


def _show(feed: Feed, screen: Screen, waker: Waker, glyphs: Glyphs) -> None:
    nodes = feed.nodes()
    view = View.CARDS if len(nodes) == 1 else View.NODES
    state = State(nodes=nodes, title=feed.title, view=view, glyphs=glyphs)
    while not state.is_over:
        screen.paint(frame(state, screen.size()))
        waker.wait(TICK_SECONDS)
        for key in screen.pressed():
            if state.is_typing or not isinstance(key, str) or not feed.press(key):
                state = press(state, key, screen.size())
        feed.look_at(Focus(state.view, state.node, state.card))
        state = fed(state, feed.nodes())


class Waker:
    """Ends a wait from any thread and from signal handlers."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Wake nobody any more."""
        os.close(self._read)
        os.close(self._write)

    def wake(self) -> None:
        """End the wait, or the next one."""
        with contextlib.suppress(OSError):  # it is full, so the wait ends anyway; or all is over
            os.write(self._write, b"!")

    def wait(self, seconds: float) -> None:
        """Until somebody wakes us, or a key is pressed, or so many seconds have passed. Raises ToldToEndError if the terminal is gone."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        poll.register(sys.stdin.fileno(), select.POLLIN)
        for descriptor, happened in poll.poll(1e3 * seconds):
            if descriptor == sys.stdin.fileno() and happened & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                raise ToldToEndError(signal.SIGHUP)
        with contextlib.suppress(BlockingIOError):  # nobody woke us
            os.read(self._read, 1 << 16)


@contextlib.contextmanager
def told_to_end() -> Iterator[None]:
    """A signal that ends us raises ToldToEndError, so that the terminal is put back on the way out."""

    def end(number: int, _frame: FrameType | None) -> None:
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise ToldToEndError(number)

    before = {number: signal.signal(number, end) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def resizes(screen: Screen, waker: Waker) -> Iterator[None]:
    """Paint anew when the terminal gets another size."""

    def resized(_number: int, _frame: FrameType | None) -> None:
        screen.resized()
        waker.wake()

    before = signal.signal(signal.SIGWINCH, resized)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
