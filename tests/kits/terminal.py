"""A program in a pseudo-terminal, and the screen that a user would see."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyte
from pyte.screens import Margins

from kits.daemon import COMMAND, clean_environment
from kits.waiting import PATIENCE_SECONDS

_READ_BYTES = 1 << 16


class Xterm(pyte.Screen):
    """A screen with the control sequences of an xterm that our programs print; an unknown sequence fails."""

    def draw(self, data: str) -> None:
        super().draw(data)
        self._drawn = data[-1:]

    def repeat(self, times: int = 1) -> None:
        self.draw(self._drawn * max(1, times))

    def scroll_up(self, lines: int = 1) -> None:
        self._scroll(lines, (self.margins or Margins(0, self.lines - 1)).bottom, self.index)

    def scroll_down(self, lines: int = 1) -> None:
        self._scroll(lines, (self.margins or Margins(0, self.lines - 1)).top, self.reverse_index)

    def change_unseen(self, *_numbers: int) -> None:
        """Accept sequences without effect on the screen: the window's title, the keypad's mode."""

    def debug(self, *numbers: int, **_: object) -> None:
        """Fail on an unknown sequence, because a real terminal would show another screen."""
        raise AssertionError(f"a sequence that this terminal does not know, with {numbers}")

    def _scroll(self, lines: int, edge: int, step: Callable[[], None]) -> None:
        row, self.cursor.y = self.cursor.y, edge
        for _ in range(max(1, lines)):
            step()
        self.cursor.y = row


class _Stream(pyte.ByteStream):
    escape: ClassVar = pyte.ByteStream.escape | {"=": "change_unseen", ">": "change_unseen"}
    csi: ClassVar = pyte.ByteStream.csi | {"S": "scroll_up", "T": "scroll_down", "b": "repeat", "t": "change_unseen"}


@dataclass
class Terminal:
    process: subprocess.Popen[bytes]
    descriptor: int
    side: int
    before: list
    screen: Xterm
    printed: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._stream = _Stream(self.screen)
        self._shown, self._shown_of = "", -1

    @property
    def text(self) -> str:
        """Return the current screen; draw it again only if something was printed."""
        self.read(0.05)
        if self._shown_of != len(self.printed):
            self._shown_of = len(self.printed)
            self._shown = "\n".join(line.rstrip() for line in self.screen.display)
        return self._shown

    def read(self, seconds: float) -> None:
        """Receive the program's output during this time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self.descriptor], [], [], left)[0]:
                try:
                    piece = os.read(self.descriptor, _READ_BYTES)
                except OSError:  # the program has ended
                    return
                self.printed += piece
                self._stream.feed(piece)

    def press(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def shows(self, *wanted: str) -> None:
        """Wait until the screen shows all of these texts."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not _has_all(self.text, wanted):
            assert time.monotonic() < until, f"{wanted} is not on the screen:\n{self.text}"

    def prints(self, wanted: bytes, times: int = 1) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while self.printed.count(wanted) < times:
            self.read(0.05)
            assert time.monotonic() < until, f"it did not print {wanted!r}"

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._shown_of = -1
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def ended(self) -> int:
        until = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            self.read(0.05)
            assert time.monotonic() < until, f"it did not end:\n{self.text}"
        self.read(0.05)
        return self.process.returncode

    @property
    def is_as_it_was(self) -> bool:
        """Return whether the terminal has its original settings and shows its ordinary screen."""
        alternate, ordinary = self.printed.rfind(b"\x1b[?1049h"), self.printed.rfind(b"\x1b[?1049l")
        return termios.tcgetattr(self.side) == self.before and ordinary >= alternate


def _has_all(text: str, wanted: Sequence[str]) -> bool:
    return all(part in text for part in wanted)


@contextlib.contextmanager
def terminal(
    *arguments: str,
    columns: int = 100,
    rows: int = 30,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = COMMAND,
) -> Iterator[Terminal]:
    """Run a `telemetry` command in a terminal of that size."""
    descriptor, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(side)
    process = subprocess.Popen(
        [*command, *arguments],
        stdin=side,
        stdout=side,
        stderr=side,
        env=clean_environment(
            {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **(environment or {})}
        ),
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509  # two system calls, which take no lock
    )
    try:
        yield Terminal(process, descriptor, side, before, Xterm(columns, rows))
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended, as it should
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(descriptor)
        os.close(side)


def _take_terminal() -> None:
    """Make the standard input the terminal of this session, so that its keys send signals.

    SIGHUP must end the command, although nohup makes all children of the tests ignore it.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
