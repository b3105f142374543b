"""Exit statuses, and the errors and signals that end a command."""

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
# If a signal ends a command, the shell reports this number plus the signal number.
BY_SIGNAL = 128
# After this status, the service manager restarts the daemon.
RESTART = 75
CONFIGURATION = 78

# `timeout`, service managers and closed terminals send these signals.
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class CommandError(Exception):
    """An error that the user can fix. Each argument is one line of the message."""

    def __init__(self, *lines: str, status: int = USAGE) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.status = status


class SignalledError(KeyboardInterrupt):
    """A signal that ends the command, like Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_on_signals() -> None:
    """Let signals that end the command raise SignalledError."""
    for signal_number in _ENDING_SIGNALS:
        if signal.getsignal(signal_number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP
            signal.signal(signal_number, _raise_signalled_error)


def _raise_signalled_error(signal_number: int, _frame: FrameType | None) -> None:
    for ending_signal in _ENDING_SIGNALS:
        # A second signal is caught and not ignored, because tools would inherit SIG_IGN.
        signal.signal(ending_signal, lambda _number, _frame: None)
    raise SignalledError(signal_number)
