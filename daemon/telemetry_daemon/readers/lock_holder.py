"""Who holds a tool's lock: the holder writes it into the lock file, and whoever waits reads it there."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import time
from pathlib import Path

_NOTE = re.compile(r"([0-9]{1,10}) ([0-9]{1,10}) ([a-z0-9-]{1,64})\n\Z")
_LONGEST_NOTE = 100
_LONGEST_COMMAND = 60
_ASKED_AGAIN = "this poll is left out and asked again when it is next due"


def note(descriptor: int, source: str, tool_pid: int = 0) -> None:
    """Write down in the locked file who has it: our process, the tool's as soon as it runs, and for which source."""
    with contextlib.suppress(OSError):  # on a full disk the lock holds as well without a name
        text = f"{os.getpid()} {tool_pid} {source}\n".encode()
        os.pwrite(descriptor, text.ljust(_LONGEST_NOTE)[:_LONGEST_NOTE], 0)


def words(descriptor: int) -> str:
    """Who has the locked file and for how long, and what the reader of this can do."""
    note = _NOTE.match(os.pread(descriptor, _LONGEST_NOTE, 0).rstrip(b" ").decode(errors="replace"))
    if note is None:
        return _ASKED_AGAIN
    taker, tool, source = int(note[1]), int(note[2]), note[3]
    age = f"for {max(0.0, time.time() - os.fstat(descriptor).st_mtime):.0f} s"
    process = f"process {tool}, {age}" if tool else age
    if taker == os.getpid():
        return f"our own source {source} ({process}); {_ASKED_AGAIN}"
    command = _command(taker)
    if command is not None:
        return f"{command} (process {taker}) for its source {source} ({process}); {_ASKED_AGAIN}"
    left = f"process {tool}" if tool else "a process"
    return (
        f"{left} that an earlier telemetry, which has ended, started {age.removeprefix('for ')} ago for its source {source}; "
        "end it; one in state D ends only when the device is reset or the node rebooted"
    )


def _command(pid: int) -> str | None:
    """The command line of a living process. None if it has ended, or its number now belongs to another program."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # it has ended
        return None
    names = [Path(argument).name for argument in arguments]
    start = names.index("telemetry") if "telemetry" in names else 0  # behind the interpreter
    line = shlex.join([names[start], *filter(None, arguments[start + 1 :])])
    return line[:_LONGEST_COMMAND] if "telemetry" in line else None
