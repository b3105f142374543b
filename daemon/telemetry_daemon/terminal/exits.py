"""Exit statuses and the error that carries one to the command line."""

from __future__ import annotations

OK = 0
PROBLEMS = 2
NOTHING_FOUND = 3
USAGE = 64
BUG = 70
UNAVAILABLE = 69
OUTPUT = 74
# And the signal's number: what a shell says of a command that one ended.
BY_SIGNAL = 128
# The service manager shall start us anew: a driver was loaded after our start.
RESTART = 75
CONFIGURATION = 78


class CommandError(Exception):
    """A failure that the user can fix: a line for each thing that is wrong, with its remedy, and an exit status."""

    def __init__(self, *lines: str, status: int = USAGE) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.status = status


class ToldToEndError(KeyboardInterrupt):
    """A signal told the command to end, as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
