"""The screen of `top`: the event loop, the frames and the keys."""

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

_ALTERNATIVE = "use `telemetry snapshot --watch`"
_ESCAPE_MILLISECONDS = 25
# The functions of curses accept no keyword arguments.
_ON, _OFF = True, False
_COLOURS: Mapping[Style, int] = {
    Style.BAD: curses.COLOR_RED,
    Style.GOOD: curses.COLOR_GREEN,
    Style.WARNING: curses.COLOR_YELLOW,
    Style.ACCENT: curses.COLOR_CYAN,
}
# Styles of severe conditions must be visible on terminals without colours.
_COLOURLESS: Mapping[Style, int] = {
    Style.BOLD: curses.A_BOLD,
    Style.DIM: curses.A_DIM,
    Style.BAD: curses.A_BOLD | curses.A_REVERSE,
    Style.WARNING: curses.A_BOLD,
}
_KEY_BY_CODE: Mapping[int, Key] = {
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
_KEY_BY_CHARACTER: Mapping[str, Key] = {
    "\n": Key.ENTER,
    "\r": Key.ENTER,
    "\x1b": Key.ESCAPE,
    "\x7f": Key.BACKSPACE,
    "\b": Key.BACKSPACE,
    "\t": Key.TAB,
}
_PaintedLine = tuple[Line, bool]  # the line, and whether it is selected
# Without new data, the screen is repainted at this interval, to update the ages of values. Data usually arrives every second.
TICK_SECONDS = 1.2


def run(feed: Feed, environment: Mapping[str, str]) -> None:
    """Show the feed until the user quits."""
    with contextlib.closing(_Waker()) as waker, _open_screen(environment) as screen, _redraw_on_resize(screen, waker):
        exits.raise_on_signals()
        feed.start(waker.wake)
        try:
            _run_event_loop(feed, screen, waker, UNICODE if _is_unicode(environment) else ASCII)
        finally:
            feed.close()


def _run_event_loop(feed: Feed, screen: _Screen, waker: _Waker, glyphs: Glyphs) -> None:
    nodes = feed.nodes()
    view = View.CARDS if len(nodes) == 1 else View.NODES
    state = State(nodes=nodes, title=feed.title, view=view, glyphs=glyphs)
    while not state.has_quit:
        screen.paint(frame(state, screen.size()))
        waker.wait(TICK_SECONDS)
        for key in screen.read_keys():
            if state.is_typing or not isinstance(key, str) or not feed.press(key):
                state = press(state, key, screen.size())
        feed.set_focus(Focus(state.view, state.node, state.card, state.shows_processes))
        state = with_nodes(state, feed.nodes())


class _Screen:
    def __init__(self, window: curses.window, attributes: Mapping[Style, int]) -> None:
        self._window = window
        self._attributes = attributes
        self._painted_lines: tuple[_PaintedLine, ...] = ()
        self._needs_redraw = False

    def size(self) -> Size:
        with contextlib.suppress(OSError, curses.error):  # the terminal may be gone
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
            if (rows, columns) != self._window.getmaxyx() and rows > 0 and columns > 0:
                curses.resizeterm(rows, columns)
                self.request_redraw()
        rows, columns = self._window.getmaxyx()
        return Size(columns, rows)

    def request_redraw(self) -> None:
        """Redraw everything with the next frame."""
        self._needs_redraw = True

    def suspend(self, number: int, _frame: FrameType | None) -> None:
        """Restore the terminal on ^Z, stop this process, and redraw when it continues."""
        with contextlib.suppress(curses.error):  # the terminal may be gone
            curses.def_prog_mode()
            curses.endwin()
        handler = signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, handler)
        with contextlib.suppress(curses.error):  # if the terminal is gone, the next paint raises an error
            curses.reset_prog_mode()
            self._window.clearok(_ON)
            self._window.refresh()

    def paint(self, frame: Frame) -> None:
        """Show the frame, writing only changed lines."""
        if self._needs_redraw:
            self._needs_redraw, self._painted_lines = False, ()
            self._window.clearok(_ON)
        lines = tuple((line, row == frame.chosen_row) for row, line in enumerate(frame.lines))
        if len(lines) != len(self._painted_lines):
            self._window.erase()
            self._painted_lines = ()
        for row, painted in enumerate(lines):
            if row >= len(self._painted_lines) or painted != self._painted_lines[row]:
                self._paint_line(row, painted)
        self._painted_lines = lines
        self._show_cursor(frame)
        self._window.refresh()

    def read_keys(self) -> Iterator[Key | str]:
        """Yield the keys that were pressed, without waiting."""
        while True:
            try:
                code = self._window.get_wch()
            except curses.error:  # no more keys
                return
            if isinstance(code, str):
                yield _KEY_BY_CHARACTER.get(code, code)
            elif code in _KEY_BY_CODE:
                yield _KEY_BY_CODE[code]

    def _show_cursor(self, frame: Frame) -> None:
        with contextlib.suppress(curses.error):  # the terminal cannot hide its cursor, or is smaller now
            curses.curs_set(0 if frame.cursor is None else 1)
            if frame.cursor is not None:
                self._window.move(*frame.cursor)

    def _paint_line(self, row: int, painted: _PaintedLine) -> None:
        line, is_selected = painted
        # Curses raises an error after filling the last row of the terminal.
        with contextlib.suppress(curses.error):
            self._window.move(row, 0)
            self._window.clrtoeol()
            for piece in line:
                attribute = self._attributes.get(piece.style, curses.A_NORMAL)
                self._window.addstr(piece.text, curses.A_REVERSE if is_selected else attribute)


@contextlib.contextmanager
def _open_screen(environment: Mapping[str, str]) -> Iterator[_Screen]:
    """Yield the screen. Raise CommandError if the terminal is not suitable."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(f"`telemetry top` needs a terminal; {_ALTERNATIVE}")
    locale.setlocale(locale.LC_ALL, "")
    try:
        curses.setupterm(environment.get("TERM") or "dumb", sys.stdout.fileno())
        can_show_frames = curses.tigetstr("cup") is not None
    except curses.error:
        can_show_frames = False
    if not can_show_frames:
        terminal_type = environment.get("TERM") or "no name"
        raise CommandError(f"the terminal type {terminal_type} cannot move the cursor; set TERM, or {_ALTERNATIVE}")
    os.environ.setdefault("ESCDELAY", str(_ESCAPE_MILLISECONDS))
    # Curses' own handler ignores ^Z while a frame is written. Curses does not install it while ^Z is ignored.
    previous_handler = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(_ON)
        window.nodelay(_ON)
        screen = _Screen(window, _style_attributes(environment))
        signal.signal(signal.SIGTSTP, screen.suspend if previous_handler == signal.SIG_DFL else previous_handler)
        yield screen
    finally:
        signal.signal(signal.SIGTSTP, previous_handler)
        with contextlib.suppress(curses.error):  # the terminal may be gone
            window.keypad(_OFF)
            curses.echo()
            curses.nocbreak()
            curses.endwin()


def _style_attributes(environment: Mapping[str, str]) -> Mapping[Style, int]:
    if environment.get("NO_COLOR"):
        return _COLOURLESS
    with contextlib.suppress(curses.error):  # some terminals report colours that they do not support
        curses.start_color()
        if curses.has_colors():
            curses.use_default_colors()
            for pair, colour in enumerate(_COLOURS.values(), start=1):
                curses.init_pair(pair, colour, -1)
            return {**_COLOURLESS, **{style: curses.color_pair(pair) for pair, style in enumerate(_COLOURS, start=1)}}
    return _COLOURLESS


def _is_unicode(environment: Mapping[str, str]) -> bool:
    # In the C locale, Python enables UTF-8 (PEP 538), although the terminal may not support UTF-8.
    is_c_locale = sys.flags.utf8_mode == 1 and environment.get("LC_CTYPE") == "C.UTF-8"
    return not is_c_locale and locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8"


class _Waker:
    """Wakes the event loop, from any thread or signal handler."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._read_end)
        os.close(self._write_end)

    def wake(self) -> None:
        """End the current or the next wait."""
        with contextlib.suppress(OSError):  # the pipe is closed, or full, which ends the wait anyway
            os.write(self._write_end, b"!")

    def wait(self, timeout_seconds: float) -> None:
        """Wait for `wake`, a key or the timeout. Raise SignalledError if the terminal is gone."""
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        poll.register(sys.stdin.fileno(), select.POLLIN)
        for descriptor, events in poll.poll(1e3 * timeout_seconds):
            if descriptor == sys.stdin.fileno() and events & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                raise SignalledError(signal.SIGHUP)
        with contextlib.suppress(BlockingIOError):  # `wake` was not called
            os.read(self._read_end, 1 << 16)


@contextlib.contextmanager
def _redraw_on_resize(screen: _Screen, waker: _Waker) -> Iterator[None]:
    def on_resize(_number: int, _frame: FrameType | None) -> None:
        screen.request_redraw()
        waker.wake()

    previous_handler = signal.signal(signal.SIGWINCH, on_resize)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, previous_handler)
