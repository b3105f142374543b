"""Exit statuses, the error that carries one to the command line, and how a signal ends a command."""

from __future__ import annotations

import signal
from types import FrameType

OK = 0
PROBLEMS = 2
NOTHING_FOUND = 3
USAGE = 64
BUG = 70
UNAVAILABLE = 69
OUTPUT = 74
# And the signal's number: what a shell says of a command that one ended.
BY_SIGNAL = 128
# The service manager restarts the daemon: a driver was loaded after its start.
RESTART = 75
CONFIGURATION = 78

# What `timeout`, a service manager and a closed terminal send; the keyboard's SIGINT is a KeyboardInterrupt anyway.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class CommandError(Exception):
    """A failure that the user can fix: a line for each thing that is wrong, with its remedy, and an exit status."""

    def __init__(self, *lines: str, status: int = USAGE) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.status = status


class SignalledError(KeyboardInterrupt):
    """A signal ends the command, as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_on_signals() -> None:
    """From now on a signal that ends the command raises SignalledError, so that everything is closed on the way out.

    Without this, the command would end at once. A hanging tool would live on and keep its lock, and neither the daemon
    nor another command could ask that source until somebody ended the tool by hand. A terminal would stay as it is.
    """
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` wants it to be ignored
            signal.signal(number, _raise)


def _raise(number: int, _frame: FrameType | None) -> None:
    for ending in _ENDING:
        # A second one must not keep the tools from being ended. Tools would inherit SIG_IGN.
        signal.signal(ending, lambda _number, _frame: None)
    raise SignalledError(number)
