"""Exit statuses, the error that passes an exit status to the command line, and the handling of signals."""

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
# Plus the signal's number: the exit status that a shell reports for a command ended by a signal.
BY_SIGNAL = 128
# The service manager restarts the daemon: a driver was loaded after its start.
RESTART = 75
CONFIGURATION = 78

# The signals of `timeout`, a service manager and a closed terminal. Ctrl-C (SIGINT) raises KeyboardInterrupt anyway.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class CommandError(Exception):
    """A failure that the user can fix: a line for each error, with its remedy, and an exit status."""

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
    """From now on, raise SignalledError on a signal that ends the command, so that the command cleans up.

    Otherwise a hanging tool would survive and keep its lock, so that neither the daemon nor another command could poll
    its source until the tool is killed by hand, and the terminal would not be restored.
    """
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` has the signal ignored
            signal.signal(number, _raise)


def _raise(number: int, _frame: FrameType | None) -> None:
    for ending in _ENDING:
        # A second signal must not interrupt the killing of tools. SIG_IGN would be inherited by tools.
        signal.signal(ending, lambda _number, _frame: None)
    raise SignalledError(number)
