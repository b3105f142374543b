"""How a command that runs tools ends on a signal: it ends the tools first."""

from __future__ import annotations

import signal
from types import FrameType

from telemetry_daemon.terminal.exits import ToldToEndError

# What `timeout`, a service manager and a closed terminal send; the keyboard's SIGINT is a KeyboardInterrupt anyway.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def end_tools_first() -> None:
    """From now on a signal that ends the command raises an exception, so that everything is closed on the way out.

    Without this, the command would end at once. A hanging tool would live on and keep its lock, and neither the daemon
    nor another command could ask that source until somebody ended the tool by hand.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` wants it to be ignored
            signal.signal(number, _raise)


def _raise(number: int, _frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, _ending_already)
    raise ToldToEndError(number)


def _ending_already(_number: int, _frame: FrameType | None) -> None:
    """A second signal must not stop the tools from being ended."""
