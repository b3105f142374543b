"""The terminal of `top`: the event loop, frames painted with curses, keys, size changes, and restoring the terminal."""

from __future__ import annotations

import contextlib
import curses
import locale
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping
from types import FrameType

from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError, SignalledError
from telemetry_daemon.top.feed import Feed, Focus
from telemetry_exporters.terminal.frames.drawing import ASCII, UNICODE, Glyphs
from telemetry_exporters.terminal.frames.frame import frame
from telemetry_exporters.terminal.frames.keys import press, with_nodes
from telemetry_exporters.terminal.frames.model import Frame, Key, Line, Size, State, View
from telemetry_exporters.terminal.style import Style

_INSTEAD = "use `telemetry snapshot --watch`"
_ESCAPE_MILLISECONDS = 25
# curses takes no names of arguments.
_ON, _OFF = True, False
_PAIRS: Mapping[Style, int] = {
    Style.BAD: curses.COLOR_RED,
    Style.GOOD: curses.COLOR_GREEN,
    Style.WARNING: curses.COLOR_YELLOW,
    Style.ACCENT: curses.COLOR_CYAN,
}
# Without colours, the most severe styles are still visible.
_PLAIN: Mapping[Style, int] = {
    Style.BOLD: curses.A_BOLD,
    Style.DIM: curses.A_DIM,
    Style.BAD: curses.A_BOLD | curses.A_REVERSE,
    Style.WARNING: curses.A_BOLD,
}
_KEYS: Mapping[int, Key] = {
    curses.KEY_UP: Key.UP,
    curses.KEY_DOWN: Key.DOWN,
    curses.KEY_PPAGE: Key.PAGE_UP,
    curses.KEY_NPAGE: Key.PAGE_DOWN,
    curses.KEY_HOME: Key.HOME,
    curses.KEY_END: Key.END,
    curses.KEY_LEFT: Key.LEFT,
    curses.KEY_RIGHT: Key.RIGHT,
    curses.KEY_SLEFT: Key.FAR_LEFT,
    curses.KEY_SRIGHT: Key.FAR_RIGHT,
    curses.KEY_ENTER: Key.ENTER,
    curses.KEY_BACKSPACE: Key.BACKSPACE,
    curses.KEY_BTAB: Key.BACK_TAB,
}
_CHARACTERS: Mapping[str, Key] = {
    "\n": Key.ENTER,
    "\r": Key.ENTER,
    "\x1b": Key.ESCAPE,
    "\x7f": Key.BACKSPACE,
    "\b": Key.BACKSPACE,
    "\t": Key.TAB,
}
_Painted = tuple[Line, bool]
# Ages on the screen grow without changes. Changes usually come each second: a tick of 1 s would double the frames.
TICK_SECONDS = 1.2


def run(feed: Feed, environment: Mapping[str, str]) -> None:
    """Show the feed until the user quits."""
    with contextlib.closing(_Waker()) as waker, _terminal(environment) as screen, _resizes(screen, waker):
        exits.raise_on_signals()
        feed.start(waker.wake)
        try:
            _show(feed, screen, waker, UNICODE if _is_unicode(environment) else ASCII)
        finally:
            feed.close()


def _show(feed: Feed, screen: _Screen, waker: _Waker, glyphs: Glyphs) -> None:
    nodes = feed.nodes()
    view = View.CARDS if len(nodes) == 1 else View.NODES
    state = State(nodes=nodes, title=feed.title, view=view, glyphs=glyphs)
    while not state.has_quit:
        screen.paint(frame(state, screen.size()))
        waker.wait(TICK_SECONDS)
        for key in screen.pressed():
            if state.is_typing or not isinstance(key, str) or not feed.press(key):
                state = press(state, key, screen.size())
        feed.look_at(Focus(state.view, state.node, state.card, state.shows_processes))
        state = with_nodes(state, feed.nodes())


class _Screen:
    """A terminal controlled by curses."""

    def __init__(self, window: curses.window, attributes: Mapping[Style, int]) -> None:
        self._window = window
        self._attributes = attributes
        self._shown: tuple[_Painted, ...] = ()
        self._is_in_disorder = False

    def size(self) -> Size:
        """Return the terminal's current size, and set it in curses: between two frames."""
        with contextlib.suppress(OSError, curses.error):  # the terminal may be gone
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
            if (rows, columns) != self._window.getmaxyx() and rows > 0 and columns > 0:
                curses.resizeterm(rows, columns)
                self.resized()
        rows, columns = self._window.getmaxyx()
        return Size(columns, rows)

    def resized(self) -> None:
        """Redraw everything, because a terminal moves and cuts its content on every change of size."""
        self._is_in_disorder = True

    def stopped(self, number: int, _frame: FrameType | None) -> None:
        """Restore the shell's terminal modes and stop on ^Z; redraw everything on continuing."""
        with contextlib.suppress(curses.error):  # the terminal may be gone
            curses.def_prog_mode()
            curses.endwin()
        ours = signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, ours)
        with contextlib.suppress(curses.error):  # the next paint finds out that the terminal is gone
            curses.reset_prog_mode()
            self._window.clearok(_ON)
            self._window.refresh()

    def paint(self, frame: Frame) -> None:
        """Show the frame. Curses writes only the differences."""
        if self._is_in_disorder:
            self._is_in_disorder, self._shown = False, ()
            self._window.clearok(_ON)
        lines = tuple((line, row == frame.selected) for row, line in enumerate(frame.lines))
        if len(lines) != len(self._shown):
            self._window.erase()
            self._shown = ()
        for row, painted in enumerate(lines):
            if row >= len(self._shown) or painted != self._shown[row]:
                self._paint_line(row, painted)
        self._shown = lines
        self._show_cursor(frame)
        self._window.refresh()

    def pressed(self) -> Iterator[Key | str]:
        """Yield the keys that were pressed, without waiting."""
        while True:
            try:
                pressed = self._window.get_wch()
            except curses.error:  # no more keys
                return
            if isinstance(pressed, str):
                yield _CHARACTERS.get(pressed, pressed)
            elif pressed in _KEYS:
                yield _KEYS[pressed]

    def _show_cursor(self, frame: Frame) -> None:
        with contextlib.suppress(curses.error):  # the terminal cannot hide its cursor, or has become smaller
            curses.curs_set(0 if frame.cursor is None else 1)
            if frame.cursor is not None:
                self._window.move(*frame.cursor)

    def _paint_line(self, row: int, painted: _Painted) -> None:
        line, is_selected = painted
        # Filling the last row raises an error after the whole row was painted.
        with contextlib.suppress(curses.error):
            self._window.move(row, 0)
            self._window.clrtoeol()
            for piece in line:
                attribute = self._attributes.get(piece.style, curses.A_NORMAL)
                self._window.addstr(piece.text, curses.A_REVERSE if is_selected else attribute)


@contextlib.contextmanager
def _terminal(environment: Mapping[str, str]) -> Iterator[_Screen]:
    """Yield the terminal, and restore it afterwards. Raises CommandError if the terminal cannot show a screen."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(f"`telemetry top` needs a terminal; {_INSTEAD}")
    locale.setlocale(locale.LC_ALL, "")
    try:
        curses.setupterm(environment.get("TERM") or "dumb", sys.stdout.fileno())
        is_able = curses.tigetstr("cup") is not None
    except curses.error:
        is_able = False
    if not is_able:
        name = environment.get("TERM") or "no name"
        raise CommandError(f"this terminal ({name}) cannot place text; set TERM, or {_INSTEAD}")
    os.environ.setdefault("ESCDELAY", str(_ESCAPE_MILLISECONDS))
    # Curses would ignore ^Z while it writes a frame. It installs no handler if the process has one.
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(_ON)
        window.nodelay(_ON)
        screen = _Screen(window, _attributes(environment))
        signal.signal(signal.SIGTSTP, screen.stopped if before == signal.SIG_DFL else before)
        yield screen
    finally:
        signal.signal(signal.SIGTSTP, before)
        with contextlib.suppress(curses.error):  # the terminal may be gone
            window.keypad(_OFF)
            curses.echo()
            curses.nocbreak()
            curses.endwin()


def _attributes(environment: Mapping[str, str]) -> Mapping[Style, int]:
    if environment.get("NO_COLOR"):
        return _PLAIN
    with contextlib.suppress(curses.error):  # some terminals claim colours without support
        curses.start_color()
        if curses.has_colors():
            curses.use_default_colors()
            for pair, colour in enumerate(_PAIRS.values(), start=1):
                curses.init_pair(pair, colour, -1)
            return {**_PLAIN, **{style: curses.color_pair(pair) for pair, style in enumerate(_PAIRS, start=1)}}
    return _PLAIN


def _is_unicode(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal's locale can show more than ASCII."""
    # With the locale C, Python sets LC_CTYPE and enables its UTF-8 mode (PEP 538).
    is_c = sys.flags.utf8_mode == 1 and environment.get("LC_CTYPE") == "C.UTF-8"
    return not is_c and locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8"


class _Waker:
    """Wakes the screen from any thread and from signal handlers."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._read)
        os.close(self._write)

    def wake(self) -> None:
        """End the current or the next wait."""
        with contextlib.suppress(OSError):  # the pipe is full and the wait ends anyway, or the pipe is closed
            os.write(self._write, b"!")

    def wait(self, seconds: float) -> None:
        """Wait for `wake`, a key or the timeout. Raises SignalledError if the terminal is gone."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        poll.register(sys.stdin.fileno(), select.POLLIN)
        for descriptor, happened in poll.poll(1e3 * seconds):
            if descriptor == sys.stdin.fileno() and happened & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                raise SignalledError(signal.SIGHUP)
        with contextlib.suppress(BlockingIOError):  # nothing woke the screen
            os.read(self._read, 1 << 16)


@contextlib.contextmanager
def _resizes(screen: _Screen, waker: _Waker) -> Iterator[None]:
    """Within this context, redraw when the terminal changes its size."""

    def resized(_number: int, _frame: FrameType | None) -> None:
        screen.resized()
        waker.wake()

    before = signal.signal(signal.SIGWINCH, resized)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
